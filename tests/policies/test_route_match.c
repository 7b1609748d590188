#include "route_match.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static bool is_text(struct slice s, const char *text)
{
    return slice_eq(s, slice_text(text));
}

static struct route_pattern compiled(const char *text)
{
    struct route_pattern pattern;
    const char *wrong = route_compile(slice_text(text), &pattern);

    cr_assert_null(wrong, "%s: %s", text, wrong);
    return pattern;
}

Test(route_match, a_pattern_fits_the_requests_it_names)
{
    static const struct {
        const char *pattern, *method, *path;
        bool want;
        const char *why;
    } rows[] = {
        {"GET /products/{id}", "GET", "/products/7", true, "a variable is one segment"},
        {"GET /products/{id}", "HEAD", "/products/7", true, "GET answers HEAD"},
        {"GET /products/{id}", "PUT", "/products/7", false, "another method"},
        {"GET /products/{id}", "get", "/products/7", false, "methods have case"},
        {"PUT /x", "HEAD", "/x", false, "only GET answers HEAD"},
        {"HEAD /x", "GET", "/x", false, "and not the other way round"},
        {"GET /products/{id}", "GET", "/products/", false, "a variable is not empty"},
        {"GET /products/{id}", "GET", "/products", false, "too few segments"},
        {"GET /products/{id}", "GET", "/products/7/", false, "a trailing slash is a segment"},
        {"GET /products/{id}", "GET", "/products/7/x", false, "too many segments"},
        {"PUT,PATCH,DELETE /x", "PATCH", "/x", true, "a list of methods"},
        {"PUT, DELETE   /x", "DELETE", "/x", true, "with blanks"},
        {"/x", "REPORT", "/x", true, "no method: all"},
        {"/**", "GET", "/", true, "** fits the root"},
        {"/**", "GET", "/a/b/c", true, "** fits all"},
        {"/a/**", "GET", "/a/b/c", true, "the rest"},
        {"/a/**", "GET", "/a/", true, "an empty rest"},
        {"/a/**", "GET", "/a", true, "what guards a folder guards its name"},
        {"/a/**", "GET", "/ab", false, "but no other name"},
        {"/a/*/c", "GET", "/a/b/c", true, "* is one segment"},
        {"/a/*/c", "GET", "/a//c", false, "which is not empty"},
        {"/a/*/c", "GET", "/a/b/b/c", false, "and not two"},
        {"/", "GET", "/", true, "the root"},
        {"/", "GET", "/a", false, "alone"},
        {"/a/", "GET", "/a/", true, "a trailing slash fits itself"},
        {"/a/", "GET", "/a", false, "and nothing else"},
        {"/a", "GET", "/A", false, "paths have case"},
        {"/a/b", "GET", "/a%2Fb", false, "%2F never separates"},
        {"/a%2Fb", "GET", "/a%2fb", true, "an escape has no case"},
        {"/a%2Fb", "GET", "/a/b", false, "nor does it in a pattern"},
        {"/{x}", "GET", "/a%2Fb", true, "%2F is part of a segment"},
        {"/a", "GET", "/%61", true, "%61 is a"},
        {"/%61", "GET", "/a", true, "in the pattern too"},
        {"/a~b", "GET", "/a%7Eb", true, "so is %7E"},
        {"/a!b", "GET", "/a%21b", false, "a reserved byte is not its escape"},
        {"/%25", "GET", "/%25", true, "an escaped percent sign"},
        {"/%2561", "GET", "/%61", false, "is not decoded twice"},
        {"/x", "GET", "x", false, "a path begins with /"},
        {"/x", "GET", "", false, "and is not empty"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct route_pattern pattern = compiled(rows[i].pattern);
        size_t len = strlen(rows[i].path);
        char *exact = malloc(len);

        memcpy(exact, rows[i].path, len);
        cr_expect_eq(route_matches(&pattern, slice_text(rows[i].method), slice_of(exact, len), NULL),
                     rows[i].want, "%s: %s %s", rows[i].why, rows[i].pattern, rows[i].path);
        free(exact);
    }
}

Test(route_match, variables_have_the_requests_own_bytes)
{
    struct route_pattern pattern = compiled("GET /a/{x}/*/{y-2}/**");
    struct route_values values;

    cr_assert(route_matches(&pattern, SLICE("GET"), SLICE("/a/1%2F2/z/%61/r/s"), &values));
    cr_assert_eq(values.count, 2);
    cr_expect(is_text(values.names[0], "x"));
    cr_expect(is_text(values.values[0], "1%2F2"));
    cr_expect(is_text(values.names[1], "y-2"));
    cr_expect(is_text(values.values[1], "%61"));
}

Test(route_match, a_wrong_pattern_is_told)
{
    static const char *const rows[] = {
        "",
        "GET",
        "GET x",
        "x",
        "GET/x",
        "get /x",
        "G@T /x",
        ",GET /x",
        "GET,,PUT /x",
        "/a/**/b",
        "/{}",
        "/{a b}",
        "/{x}/{x}",
        "/x{y}",
        "/{y}.json",
        "/a*",
        "/***",
        "/{a",
        "/a}",
        "/a?b",
        "/a#b",
        "/a b",
        "/a\\b",
        "/%zz",
        "/%",
        "/a/../b",
        "/.",
        "/%2e%2e",
        "/\xc3\xa9",
        "/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/21/22/23/24/25/26/27/28/29/30/31/32/33",
        "/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}/{j}/{k}/{l}/{m}/{n}/{o}/{p}/{q}",
        "A,B,C,D,E,F,G,H,I,J,K,L,M,N,O,P,Q /x",
    };
    struct route_pattern pattern;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_expect_not_null(route_compile(slice_text(rows[i]), &pattern), "%s", rows[i]);
}

Test(route_match, a_pattern_may_be_as_large_as_is_promised)
{
    struct route_pattern pattern;

    cr_expect_null(route_compile(
        SLICE(
            "A,B,C,D,E,F,G,H,I,J,K,L,M,N,O,P /{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}/{j}/{k}/{l}/{m}/{n}/{o}/{p}"
            "/17/18/19/20/21/22/23/24/25/26/27/28/29/30/31/32"),
        &pattern));
    cr_expect_eq(pattern.method_count, ROUTE_MAX_METHODS);
    cr_expect_eq(pattern.segment_count, ROUTE_MAX_SEGMENTS);
}

Test(route_match, hosts_are_compared_without_case_and_port)
{
    static const struct {
        const char *pattern, *authority;
        bool want;
    } rows[] = {
        {"api.example.com", "api.example.com", true},
        {"api.example.com", "API.Example.com:8080", true},
        {"api.example.com", "api.example.com.", true},
        {"api.example.com", "xapi.example.com", false},
        {"api.example.com", "", false},
        {"*.example.com", "a.example.com", true},
        {"*.example.com", "a.b.example.com:1", true},
        {"*.example.com", "example.com", false},
        {"*.example.com", ".example.com", false},
        {"*.example.com", "badexample.com", false},
        {"*.example.com", "a.example.com.evil", false},
        {"[::1]", "[::1]:80", true},
        {"[::1]", "[::1]", true},
        {"[::1]", "[::2]", false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_expect_eq(route_host_matches(slice_text(rows[i].pattern), slice_text(rows[i].authority)),
                     rows[i].want, "%s %s", rows[i].pattern, rows[i].authority);
    cr_expect(route_host_matches((struct slice){NULL, 0}, SLICE("any")));
    cr_expect(route_host_matches((struct slice){NULL, 0}, SLICE("")));
}

Test(route_match, a_wrong_template_is_told)
{
    static const char *const rows[] = {
        "",
        "{",
        "}",
        "a}",
        "{}",
        "{id",
        "{other}",
        "{header:}",
        "{header:a b}",
        "{query:}",
        "{cookie:x}",
        "{:x}",
        "{id{id}}",
        "{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}",
    };
    struct route_pattern pattern = compiled("/x/{id}");
    struct template template;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_expect_not_null(template_compile(slice_text(rows[i]), &pattern, &template), "%s", rows[i]);
    cr_expect_not_null(template_compile(SLICE("{id}"), NULL, &template),
                       "without a pattern no variable is known");
    cr_expect_null(template_compile(SLICE("report"), NULL, &template));
}

static const char *expanded_by(size_t (*expand)(const struct template *, const struct route_values *,
                                                const struct header *, size_t, struct slice, char *, size_t),
                               const char *text, const char *path, const char *query)
{
    static char out[256];
    static const struct header headers[] = {
        {{"x-shop", 6}, {"7", 1}}, {{"x-list", 6}, {"a", 1}}, {{"x-list", 6}, {"b", 1}}};
    struct route_pattern pattern = compiled("/x/{id}/**");
    struct route_values values;
    struct template template;
    size_t len;

    cr_assert(route_matches(&pattern, SLICE("GET"), slice_text(path), &values));
    cr_assert_null(template_compile(slice_text(text), &pattern, &template));
    len = expand(&template, &values, headers, 3, slice_text(query), out, sizeof(out) - 1);
    if (len == SIZE_MAX)
        return NULL;
    cr_assert(len < sizeof(out));
    out[len] = '\0';
    return out;
}

static const char *expanded(const char *text, const char *path, const char *query)
{
    return expanded_by(template_expand, text, path, query);
}

Test(route_match, a_tag_has_one_spelling_whatever_a_client_escapes)
{
    static const struct {
        const char *text, *path, *query, *want;
    } rows[] = {
        {"{id}", "/x/user%40a.test", "", "user@a.test"},
        {"{id}", "/x/user@a.test", "", "user@a.test"},
        {"{id}", "/x/%21%24%26%27%28%29%2a%2B%3b%3D%3a", "", "!$&'()*+;=:"},
        {"{id}", "/x/a,b", "", "a%2Cb"},
        {"{id}", "/x/a%2cb", "", "a%2Cb"},
        {"{id}", "/x/a%2fb%3fc%20%25%c3%bc", "", "a%2Fb%3Fc%20%25%C3%BC"},
        {"{query:q}", "/x/1", "q=a+b", "a%20b"},
        {"{query:q}", "/x/1", "q=a%20b", "a%20b"},
        {"{query:q}", "/x/1", "q=a%2Bb", "a+b"},
        {"{query:q}", "/x/1", "q=a/b?c%2fd%3Fe", "a/b?c/d?e"},
        {"{query:q}", "/x/1", "q=a%26b%23", "a&b%23"},
        {"a%3Ab", "/x/1", "", "a%3Ab"}, /* the operator's own words stay */
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_expect_str_eq(expanded_by(tag_expand, rows[i].text, rows[i].path, rows[i].query), rows[i].want);
    cr_expect_str_eq(expanded("{id}", "/x/a%3bb,c%40", ""), "a%3Bb,c%40",
                     "a path that is asked for says what the client said");
}

Test(route_match, templates_are_filled_from_the_request)
{
    static const struct {
        const char *text, *path, *query, *want, *why;
    } rows[] = {
        {"report", "/x/1", "", "report", "text alone"},
        {"product:{id}", "/x/7", "", "product:7", "a variable"},
        {"{id}", "/x/%37%2f", "", "7%2F", "one spelling, so that one resource has one tag"},
        {"a{id}b{id}", "/x/7", "", "a7b7", "twice"},
        {"{header:X-Shop}:{id}", "/x/1", "", "7:1", "a header, in any case"},
        {"{header:x-list}", "/x/1", "", "a, b", "a header in two fields"},
        {"{header:absent}", "/x/1", "", NULL, "a header that is not there"},
        {"{query:a}", "/x/1", "b=1&a=2&a=3", "2", "the first of a query's parameters"},
        {"{query:a}", "/x/1", "a", "", "a parameter without a value"},
        {"{query:a}", "/x/1", "aa=1&&", NULL, "a parameter that is not there"},
        {"{query:a}", "/x/1", "%61=%7e", "~", "one spelling here too"},
        {"{query:a}", "/x/1", "", NULL, "no query"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *got = expanded(rows[i].text, rows[i].path, rows[i].query);

        if (rows[i].want == NULL)
            cr_expect_null(got, "%s", rows[i].why);
        else
            cr_expect_str_eq(got, rows[i].want, "%s", rows[i].why);
    }
}

Test(route_match, an_expansion_tells_its_length_and_keeps_to_its_room)
{
    struct template template;
    char out[4] = "!!!!";

    cr_assert_null(template_compile(SLICE("abcdef"), NULL, &template));
    cr_expect_eq(template_expand(&template, NULL, NULL, 0, SLICE(""), out, 3), 6);
    cr_expect_eq(memcmp(out, "abc!", 4), 0);
}
