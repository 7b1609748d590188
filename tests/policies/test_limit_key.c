/* Limit key: one caller is one text, two callers are never the same one. */
#include "limit_key.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>

#define HEADER(text)                                                                                         \
    {                                                                                                        \
        LIMIT_KEY_HEADER,                                                                                    \
        {                                                                                                    \
            text, sizeof(text) - 1                                                                           \
        }                                                                                                    \
    }
#define QUERY(text)                                                                                          \
    {                                                                                                        \
        LIMIT_KEY_QUERY,                                                                                     \
        {                                                                                                    \
            text, sizeof(text) - 1                                                                           \
        }                                                                                                    \
    }
#define COOKIE(text)                                                                                         \
    {                                                                                                        \
        LIMIT_KEY_COOKIE,                                                                                    \
        {                                                                                                    \
            text, sizeof(text) - 1                                                                           \
        }                                                                                                    \
    }
#define VARIABLE(text)                                                                                       \
    {                                                                                                        \
        LIMIT_KEY_PATH,                                                                                      \
        {                                                                                                    \
            text, sizeof(text) - 1                                                                           \
        }                                                                                                    \
    }

static const char absent[] = "(absent)", ambiguous[] = "(ambiguous)";

static void expect(const struct limit_key *key, const struct limit_key_facts *facts, const char *want,
                   const char *why)
{
    char out[256], untouched[sizeof(out)];
    size_t len = limit_key_write(key, facts, 64, out, sizeof(out));

    if (want == ambiguous) {
        cr_expect_eq(len, LIMIT_KEY_AMBIGUOUS, "%s: it is clear", why);
        return;
    }
    if (want == absent) {
        cr_expect_eq(len, LIMIT_KEY_ABSENT, "%s: it is there", why);
        return;
    }
    cr_assert_neq(len, LIMIT_KEY_ABSENT, "%s: it is absent", why);
    cr_expect(len == strlen(want) && memcmp(out, want, len) == 0, "%s: %.*s", why, (int)len, out);
    memset(out, 'x', sizeof(out));
    memset(untouched, 'x', sizeof(untouched));
    cr_expect_eq(limit_key_write(key, facts, 64, out, len / 2), len,
                 "%s: the length does not depend on the room", why);
    cr_expect_arr_eq(out + len / 2, untouched, sizeof(out) - len / 2, "%s: written beyond the room", why);
}

static struct limit_key key_of(struct limit_key_part part)
{
    return (struct limit_key){.parts = {part}, .part_count = 1};
}

Test(limit_key, a_header_counts_by_its_exact_value)
{
    static const struct {
        const char *why;
        const char *names[3], *values[3], *want;
    } rows[] = {
        {"one", {"x-api-key"}, {"Abc"}, "Abc"},
        {"values have case", {"x-api-key"}, {"aBC"}, "aBC"},
        {"no field", {"x-other"}, {"Abc"}, absent},
        {"an empty field is none", {"x-api-key"}, {""}, absent},
        {"two values", {"x-api-key", "x", "x-api-key"}, {"a", "-", "b"}, ambiguous},
        {"one value twice", {"x-api-key", "x", "x-api-key"}, {"a", "-", "a"}, "a"},
        {"a list in one line", {"x-api-key"}, {"a, b"}, "a, b"},
        {"an empty line adds nothing", {"x-api-key", "x-api-key", "x-api-key"}, {"", "a", ""}, "a"},
        {"escapes mean nothing in a field", {"x-api-key"}, {"%41"}, "%41"},
    };
    struct limit_key key = key_of((struct limit_key_part)HEADER("x-api-key"));

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct header headers[3];
        struct limit_key_facts facts = {.headers = headers};

        for (; facts.header_count < 3 && rows[i].names[facts.header_count] != NULL; facts.header_count++)
            headers[facts.header_count] = (struct header){slice_text(rows[i].names[facts.header_count]),
                                                          slice_text(rows[i].values[facts.header_count])};
        expect(&key, &facts, rows[i].want, rows[i].why);
    }
}

Test(limit_key, a_parameter_has_one_text_for_all_its_spellings)
{
    static const struct {
        const char *why, *query, *want;
    } rows[] = {
        {"one", "key=abc", "abc"},
        {"among others", "a=1&key=abc&b=2", "abc"},
        {"an escaped value", "key=%61b%63", "abc"},
        {"an escaped name", "%6bey=abc", "abc"},
        {"escapes in either case", "key=%c3%A9", "\xc3\xa9"},
        {"a plus is a plus", "key=a+b", "a+b"},
        {"and so is an escaped one", "key=a%2Bb", "a+b"},
        {"a blank is another value", "key=a%20b", "a b"},
        {"a bad escape stays", "key=%zz%4", "%zz%4"},
        {"only the first = parts", "key=a=b", "a=b"},
        {"two values", "key=a&x=1&key=b", ambiguous},
        {"one value twice, however it is spelled", "key=a&x=1&%6bey=%61", "a"},
        {"empty ones add nothing", "key=&key=a&key&", "a"},
        {"no value", "key", absent},
        {"an empty value", "key=&x=1", absent},
        {"another name", "keys=a&ke=b&KEY=c", absent},
        {"no query", "", absent},
        {"a name that goes on", "key%00=a", absent},
        {"nothing but marks", "&&=&", absent},
    };
    struct limit_key key = key_of((struct limit_key_part)QUERY("key"));

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct limit_key_facts facts = {.query = slice_text(rows[i].query)};

        expect(&key, &facts, rows[i].want, rows[i].why);
    }
}

Test(limit_key, a_cookie_is_found_by_its_name)
{
    static const struct {
        const char *why, *lines[2], *want;
    } rows[] = {
        {"one", {"sid=abc"}, "abc"},
        {"among others", {"a=1; sid=abc; b=2"}, "abc"},
        {"without blanks", {"a=1;sid=abc"}, "abc"},
        {"names have case", {"SID=abc"}, absent},
        {"quotes are not the value", {"sid=\"abc\""}, "abc"},
        {"one quote is", {"sid=\"abc"}, "\"abc"},
        {"empty quotes", {"sid=\"\""}, absent},
        {"values may hold =", {"sid=a=b"}, "a=b"},
        {"several lines", {"a=1", "sid=abc"}, "abc"},
        {"two values", {"sid=a; sid=b"}, ambiguous},
        {"two values in two lines", {"sid=a", "sid=b"}, ambiguous},
        {"one value twice", {"sid=a; sid=\"a\"", "sid=a"}, "a"},
        {"a name that ends so", {"xsid=a; sid2=b"}, absent},
        {"no value", {"sid; sid="}, absent},
        {"escapes mean nothing", {"sid=%61"}, "%61"},
        {"no cookies", {NULL}, absent},
    };
    struct limit_key key = key_of((struct limit_key_part)COOKIE("sid"));

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct header headers[2];
        struct limit_key_facts facts = {.headers = headers};

        for (; facts.header_count < 2 && rows[i].lines[facts.header_count] != NULL; facts.header_count++)
            headers[facts.header_count] =
                (struct header){SLICE("cookie"), slice_text(rows[i].lines[facts.header_count])};
        expect(&key, &facts, rows[i].want, rows[i].why);
    }
}

Test(limit_key, a_host_is_one_whatever_its_port_and_spelling)
{
    static const struct {
        const char *authority, *want;
    } rows[] = {
        {"api.example.com", "api.example.com"},
        {"API.Example.com", "api.example.com"},
        {"api.example.com:8443", "api.example.com"},
        {"api.example.com.:80", "api.example.com"},
        {"[2001:DB8:0:0::1]:80", "2001:db8::1"},
        {"[2001:db8::1]", "2001:db8::1"},
        {"192.0.2.1:80", "192.0.2.1"},
        {"[nonsense]:80", "[nonsense]"},
        {"", absent},
        {":80", absent},
    };
    struct limit_key key = key_of((struct limit_key_part){.kind = LIMIT_KEY_HOST});

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct limit_key_facts facts = {.authority = slice_text(rows[i].authority)};

        expect(&key, &facts, rows[i].want, rows[i].authority);
    }
}

Test(limit_key, a_variable_of_the_path_is_decoded)
{
    struct route_values values = {
        .names = {SLICE("shop"), SLICE("id")}, .values = {SLICE("north"), SLICE("a%2Fb%3a")}, .count = 2};
    struct limit_key_facts facts = {.values = &values};
    struct limit_key key = key_of((struct limit_key_part)VARIABLE("id"));

    expect(&key, &facts, "a/b:", "id");
    key.parts[0].name = SLICE("none");
    expect(&key, &facts, absent, "another route's");
}

Test(limit_key, addresses_count_by_prefix_routes_by_what_they_match_and_all_as_one)
{
    struct address v6, mapped;
    struct limit_key_facts facts = {.address = &v6, .route_match = SLICE("GET /a/{id}")};
    struct limit_key ip = key_of((struct limit_key_part){.kind = LIMIT_KEY_IP}),
                     route = key_of((struct limit_key_part){.kind = LIMIT_KEY_ROUTE}),
                     global = key_of((struct limit_key_part){.kind = LIMIT_KEY_GLOBAL});

    cr_assert(address_parse(SLICE("2001:db8:1:2:3:4:5:6"), &v6));
    cr_assert(address_parse(SLICE("::ffff:192.0.2.9"), &mapped));
    expect(&ip, &facts, "2001:db8:1:2::", "IPv6");
    expect(&route, &facts, "GET /a/{id}", "any host");
    expect(&global, &facts, "", "one for all");
    facts.address = &mapped;
    facts.route_host = SLICE("*.example.com");
    expect(&ip, &facts, "192.0.2.9", "mapped IPv4");
    expect(&route, &facts, "*.example.com GET /a/{id}", "one host");
}

Test(limit_key, a_list_tells_where_each_part_ends)
{
    struct header headers[] = {{SLICE("x-a"), SLICE("1:b")}, {SLICE("x-b"), SLICE("c")}};
    struct limit_key_facts facts = {.headers = headers, .header_count = 2, .query = SLICE("q=")};
    struct limit_key key = {.parts = {HEADER("x-a"), HEADER("x-b")}, .part_count = 2};

    expect(&key, &facts, "3:1:b1:c", "two headers");
    headers[0].value = SLICE("1:");
    headers[1].value = SLICE("bc");
    expect(&key, &facts, "2:1:2:bc", "the border moved");
    headers[1].value = SLICE("");
    expect(&key, &facts, absent, "one part lacks");
    key.parts[0] = (struct limit_key_part)QUERY("q");
    expect(&key, &facts, absent, "both lack");
}

/* Any two different pairs of values make different texts. */
Test(limit_key, no_two_lists_are_the_same)
{
    static const char *const values[] = {"1", "1:", ":", "1:1", "11", "1:11:1", "2:", ", ", "1, 1", "12:1"};
    enum { VALUES = sizeof(values) / sizeof(*values) };
    struct limit_key key = {.parts = {HEADER("x-a"), HEADER("x-b")}, .part_count = 2};
    char texts[VALUES * VALUES][64];

    for (size_t i = 0; i < VALUES * VALUES; i++) {
        struct header headers[] = {{SLICE("x-a"), slice_text(values[i / VALUES])},
                                   {SLICE("x-b"), slice_text(values[i % VALUES])}};
        struct limit_key_facts facts = {.headers = headers, .header_count = 2};

        texts[i][limit_key_write(&key, &facts, 64, texts[i], sizeof(texts[i]) - 1)] = 0;
        for (size_t j = 0; j < i; j++)
            cr_assert_str_neq(texts[i], texts[j], "%zu and %zu", i, j);
    }
}

static void expect_told(const struct limit_key *key, const struct slice *values, size_t count,
                        const char *want, const char *why)
{
    char out[256];
    size_t len = limit_key_write_values(key, values, count, 64, out, sizeof(out));

    if (want == absent)
        cr_expect_eq(len, LIMIT_KEY_ABSENT, "%s: it is there", why);
    else
        cr_expect(len == strlen(want) && memcmp(out, want, len) == 0, "%s: %.*s", why, (int)(len % 256), out);
}

Test(limit_key, told_without_a_request_a_key_is_the_same_as_of_one)
{
    static const struct {
        const char *why;
        struct limit_key_part part;
        const char *value, *want;
    } rows[] = {
        {"a header as it is", HEADER("x-api-key"), "a%41 B", "a%41 B"},
        {"a parameter decoded", QUERY("k"), "a b", "a b"},
        {"a cookie without quotes", COOKIE("k"), "\"v\"", "v"},
        {"a variable", VARIABLE("id"), "42", "42"},
        {"an address", {LIMIT_KEY_IP, {NULL, 0}}, "::FFFF:192.0.2.1", "192.0.2.1"},
        {"an address by its prefix", {LIMIT_KEY_IP, {NULL, 0}}, "2001:DB8:1:2:3::4", "2001:db8:1:2::"},
        {"no address", {LIMIT_KEY_IP, {NULL, 0}}, "localhost", absent},
        {"a host", {LIMIT_KEY_HOST, {NULL, 0}}, "API.example.com:8080", "api.example.com"},
        {"a route", {LIMIT_KEY_ROUTE, {NULL, 0}}, "GET /products/{id}", "GET /products/{id}"},
        {"nothing", HEADER("x-api-key"), "", absent},
        {"an empty cookie", COOKIE("k"), "\"\"", absent},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct limit_key key = key_of(rows[i].part);
        struct slice values[2] = {slice_text(rows[i].value), SLICE("more")};

        expect_told(&key, values, 1, rows[i].want, rows[i].why);
        expect_told(&key, values, 0, absent, rows[i].why);
        expect_told(&key, values, 2, absent, rows[i].why);
    }
}

Test(limit_key, told_parts_are_told_in_their_order)
{
    struct limit_key list = {.parts = {HEADER("a"), {.kind = LIMIT_KEY_IP}, VARIABLE("id")}, .part_count = 3};
    struct limit_key everything = {.parts = {{.kind = LIMIT_KEY_GLOBAL}}, .part_count = 1};
    struct slice values[] = {SLICE("k:1"), SLICE("192.0.2.1"), SLICE("7")};
    struct header field = {SLICE("a"), SLICE("k:1")};
    struct slice names[] = {SLICE("id")};
    struct address address;
    struct limit_key_facts facts = {.headers = &field, .header_count = 1, .address = &address};
    struct route_values variables = {.count = 1};

    cr_assert(address_parse(SLICE("192.0.2.1"), &address));
    variables.names[0] = names[0];
    variables.values[0] = SLICE("7");
    facts.values = &variables;
    expect(&list, &facts, "3:k:19:192.0.2.11:7", "of a request");
    expect_told(&list, values, 3, "3:k:19:192.0.2.11:7", "told");
    expect_told(&list, values, 2, absent, "one too few");
    expect_told(&everything, NULL, 0, "", "global has no value");
    expect_told(&everything, values, 1, absent, "and takes none");
}

Test(limit_key, any_bytes_are_read_within_their_bounds)
{
    uint32_t seed = 1;
    struct limit_key key = {.parts = {QUERY("k"), COOKIE("k"), {.kind = LIMIT_KEY_HOST}}, .part_count = 3};

    for (size_t round = 0; round < 20000; round++) {
        static const char letters[] = "k=&;%\"a:[].6b ";
        size_t len = round % 24;
        char *bytes = malloc(len + 1), out[16]; /* on the heap, where a sanitizer sees its end */
        struct header cookie = {SLICE("cookie"), {bytes, len}};
        struct limit_key_facts facts = {
            .headers = &cookie, .header_count = 1, .query = {bytes, len}, .authority = {bytes, len}};

        for (size_t i = 0; i < len; i++) {
            seed = seed * 1664525 + 1013904223;
            bytes[i] = letters[(seed >> 16) % (sizeof(letters) - 1)];
        }
        limit_key_write(&key, &facts, 64, out, sizeof(out));
        free(bytes);
    }
}
