#include "request_check.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

static const struct request_bounds usual = {
    .max_head_bytes = 32 * 1024, .max_headers = 100, .max_target_bytes = 8 * 1024};

/* From memory of exactly its size, so that a sanitizer sees one byte too far. */
static enum request_flaw check_bytes(const char *bytes, size_t len, bool is_tls,
                                     const struct request_bounds *bounds)
{
    struct request_facts facts;
    char *exact = malloc(len);
    enum request_flaw flaw;

    memcpy(exact, bytes, len);
    flaw = request_check(slice_of(exact, len), is_tls, bounds, &facts);
    free(exact);
    return flaw;
}

static enum request_flaw check(const char *text)
{
    return check_bytes(text, strlen(text), false, &usual);
}

static enum request_flaw check_fields(const char *fields)
{
    char text[1024];

    snprintf(text, sizeof(text), "POST / HTTP/1.1\r\nhost: a.test\r\n%s\r\n", fields);
    return check(text);
}

static enum request_flaw check_target(const char *target)
{
    char text[1024];

    snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nhost: a.test\r\n\r\n", target);
    return check(text);
}

static bool is_text(struct slice s, const char *text)
{
    return slice_eq(s, slice_text(text));
}

Test(request_check, a_sound_request_is_told_apart_into_its_facts)
{
    const char *raw = "PUT /a/b?c=d HTTP/1.1\r\nhost:  A.Test:80 \r\ncontent-length: 3\r\nx: y\r\n\r\nabc";
    struct request_facts facts;

    cr_assert_eq(request_check(slice_text(raw), false, &usual, &facts), REQUEST_SOUND);
    cr_expect(is_text(facts.method, "PUT"));
    cr_expect(is_text(facts.target, "/a/b?c=d"));
    cr_expect(is_text(facts.authority, "A.Test:80"));
    cr_expect(!facts.is_http10);
    cr_expect(!facts.is_chunked);
    cr_expect_eq(facts.content_length, 3);
    cr_expect_eq(facts.header_count, 3);
    cr_expect_eq(facts.head_bytes, strlen(raw) - 3);
}

Test(request_check, an_upgrade_counts_where_it_is_one_without_doubt)
{
    static const struct {
        const char *why, *fields, *upgrade;
    } rows[] = {
        {"as a browser asks", "Connection: Upgrade\r\nUpgrade: websocket\r\n", "websocket"},
        {"among other options", "Upgrade: a/1, b\r\nConnection: keep-alive, upgrade\r\n", "a/1, b"},
        {"in the second Connection field", "Connection: close\r\nConnection: UPGRADE\r\nUpgrade: a\r\n", "a"},
        {"with a length of nothing", "Content-Length: 0\r\nConnection: upgrade\r\nUpgrade: a\r\n", "a"},
        {"that Connection does not name", "Upgrade: a\r\nConnection: keep-alive\r\n", NULL},
        {"that only Connection names", "Connection: upgrade\r\n", NULL},
        {"named in part of a word", "Connection: upgraded\r\nUpgrade: a\r\n", NULL},
        {"in two fields", "Connection: upgrade\r\nUpgrade: a\r\nUpgrade: b\r\n", NULL},
        {"of nothing", "Connection: upgrade\r\nUpgrade: \r\n", NULL},
        {"with a body", "Content-Length: 3\r\nConnection: upgrade\r\nUpgrade: a\r\n", NULL},
        {"with a body in chunks", "Transfer-Encoding: chunked\r\nConnection: upgrade\r\nUpgrade: a\r\n",
         NULL},
    };

    for (size_t i = 0; i <= sizeof(rows) / sizeof(rows[0]); i++) {
        bool is_http10 = i == sizeof(rows) / sizeof(rows[0]);
        const char *upgrade = is_http10 ? NULL : rows[i].upgrade;
        struct request_facts facts;
        char text[512];

        snprintf(text, sizeof(text), "GET / HTTP/1.%d\r\nHost: a.test\r\n%s\r\n", !is_http10,
                 rows[is_http10 ? 0 : i].fields);
        cr_assert_eq(request_check(slice_text(text), false, &usual, &facts), REQUEST_SOUND);
        cr_expect(slice_eq(facts.upgrade, slice_text(upgrade)), "%s",
                  is_http10 ? "of HTTP/1.0" : rows[i].why);
    }
}

Test(request_check, what_is_sound_passes)
{
    static const char *const rows[] = {
        "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHOST: a\r\n\r\n",
        "\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "GET / HTTP/1.0\r\nhost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: Chunked\r\n\r\n",
        "OPTIONS /x HTTP/1.1\r\nhost: a\r\n\r\n",
        "M-SEARCH /x HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nx_y: z\r\nx:\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nx: \xc3\xa9\t\xff\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\n\r\nanything\nbehind it \r\r\n",
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_expect_eq(check(rows[i]), REQUEST_SOUND, "%s", rows[i]);
}

Test(request_check, a_body_of_two_lengths_is_refused)
{
    static const struct {
        const char *why, *fields;
        enum request_flaw want;
    } rows[] = {
        {"length, then coding", "content-length: 3\r\ntransfer-encoding: chunked\r\n",
         REQUEST_CODING_AND_LENGTH},
        {"coding, then length", "transfer-encoding: chunked\r\ncontent-length: 3\r\n",
         REQUEST_CODING_AND_LENGTH},
        {"two lengths that differ", "content-length: 3\r\ncontent-length: 4\r\n", REQUEST_LENGTH_REPEATED},
        {"two lengths that agree", "content-length: 3\r\ncontent-length: 3\r\n", REQUEST_LENGTH_REPEATED},
        {"two codings", "transfer-encoding: identity\r\ntransfer-encoding: chunked\r\n",
         REQUEST_CODING_REPEATED},
        {"two codings that agree", "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
         REQUEST_CODING_REPEATED},
        {"another coding", "transfer-encoding: gzip, chunked\r\n", REQUEST_CODING_BAD},
        {"identity", "transfer-encoding: identity\r\n", REQUEST_CODING_BAD},
        {"an empty coding", "transfer-encoding:\r\n", REQUEST_CODING_BAD},
        {"a list of lengths", "content-length: 3, 3\r\n", REQUEST_LENGTH_BAD},
        {"a signed length", "content-length: +3\r\n", REQUEST_LENGTH_BAD},
        {"a hexadecimal length", "content-length: 0x3\r\n", REQUEST_LENGTH_BAD},
        {"an empty length", "content-length:\r\n", REQUEST_LENGTH_BAD},
        {"a length above any number", "content-length: 99999999999999999999\r\n", REQUEST_LENGTH_BAD},
        {"content_length", "content_length: 3\r\n", REQUEST_FIELD_LOOKALIKE},
        {"transfer_encoding", "Transfer_Encoding: chunked\r\n", REQUEST_FIELD_LOOKALIKE},
        {"half a lookalike", "x_forwarded-for: 192.0.2.1\r\n", REQUEST_FIELD_LOOKALIKE},
        {"one that only begins as a lookalike", "content_length_x: 3\r\n", REQUEST_SOUND},
        {"one that only ends as a lookalike", "x_content_length: 3\r\n", REQUEST_SOUND},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_expect_eq(check_fields(rows[i].fields), rows[i].want, "%s", rows[i].why);
}

Test(request_check, http10_knows_no_transfer_coding)
{
    cr_expect_eq(check("POST / HTTP/1.0\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"),
                 REQUEST_CODING_IN_HTTP10);
}

Test(request_check, lines_end_in_crlf_and_are_not_folded)
{
    static const struct {
        const char *why, *text;
        enum request_flaw want;
    } rows[] = {
        {"LF after the request line", "GET / HTTP/1.1\nhost: a\r\n\r\n", REQUEST_LINE_FEED_BARE},
        {"LF after a field", "GET / HTTP/1.1\r\nhost: a\n\r\n", REQUEST_LINE_FEED_BARE},
        {"LF as the empty line", "GET / HTTP/1.1\r\nhost: a\r\n\n", REQUEST_LINE_FEED_BARE},
        {"CR in a value", "GET / HTTP/1.1\r\nhost: a\r\nx: b\rc: d\r\n\r\n", REQUEST_LINE_FEED_BARE},
        {"CR before CRLF", "GET / HTTP/1.1\r\nhost: a\r\r\n\r\n", REQUEST_LINE_FEED_BARE},
        {"folded by a blank", "GET / HTTP/1.1\r\nhost: a\r\nx: b\r\n c\r\n\r\n", REQUEST_FIELD_FOLDED},
        {"folded by a tab", "GET / HTTP/1.1\r\nhost: a\r\nx: b\r\n\tc\r\n\r\n", REQUEST_FIELD_FOLDED},
        {"a folded length", "GET / HTTP/1.1\r\nhost: a\r\nx: b\r\n content-length: 3\r\n\r\n",
         REQUEST_FIELD_FOLDED},
        {"folding before any field", "GET / HTTP/1.1\r\n host: a\r\n\r\n", REQUEST_FIELD_FOLDED},
        {"no end", "GET / HTTP/1.1\r\nhost: a\r\n", REQUEST_CUT_SHORT},
        {"no line", "GET /", REQUEST_CUT_SHORT},
        {"nothing", "", REQUEST_CUT_SHORT},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_expect_eq(check(rows[i].text), rows[i].want, "%s", rows[i].why);
}

Test(request_check, a_request_names_one_valid_host)
{
    static const struct {
        const char *why, *text;
        enum request_flaw want;
    } rows[] = {
        {"none", "GET / HTTP/1.1\r\n\r\n", REQUEST_HOST_MISSING},
        {"none beside the absolute form", "GET http://a/ HTTP/1.1\r\n\r\n", REQUEST_HOST_MISSING},
        {"two", "GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", REQUEST_HOST_REPEATED},
        {"two that agree", "GET / HTTP/1.1\r\nhost: a\r\nhost: a\r\n\r\n", REQUEST_HOST_REPEATED},
        {"two in HTTP/1.0", "GET / HTTP/1.0\r\nhost: a\r\nhost: b\r\n\r\n", REQUEST_HOST_REPEATED},
        {"an empty one", "GET / HTTP/1.1\r\nhost:\r\n\r\n", REQUEST_HOST_BAD},
        {"an empty one in HTTP/1.0", "GET / HTTP/1.0\r\nhost: \r\n\r\n", REQUEST_HOST_BAD},
        {"with a path and a user", "GET / HTTP/1.1\r\nhost: a/b@c d\r\n\r\n", REQUEST_HOST_BAD},
        {"beside the absolute form, too", "GET http://a/ HTTP/1.1\r\nhost: a b\r\n\r\n", REQUEST_HOST_BAD},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_expect_eq(check(rows[i].text), rows[i].want, "%s", rows[i].why);
}

Test(request_check, an_authority_is_a_host_and_perhaps_a_port)
{
    static const struct {
        const char *text;
        bool want;
    } rows[] = {
        {"a", true},
        {"api.example.com", true},
        {"A-b_c.d", true},
        {"example.com.", true},
        {"192.0.2.1", true},
        {"a:1", true},
        {"a:65535", true},
        {"a:", true},
        {"[::1]", true},
        {"[2001:db8::1]:8080", true},
        {"[::ffff:192.0.2.1]", true},
        {"", false},
        {":80", false},
        {"a:65536", false},
        {"a:0", false},
        {"a:080", false},
        {"a:8o", false},
        {"a:+1", false},
        {"a:b:1", false},
        {"a b", false},
        {"a/b", false},
        {"u@a", false},
        {"a,b", false},
        {"a%41", false},
        {"\xc3\xa9.test", false},
        {".a", false},
        {"a..b", false},
        {"[", false},
        {"[]", false},
        {"[::1", false},
        {"[::1]x", false},
        {"[::1]1", false},
        {"[fe80::1%25eth0]", false},
        {"[a.b]", false},
        {"::1", false},
        {"a?b", false},
        {"a#b", false},
        {"a\\b", false},
        {"..", false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_expect_eq(authority_is_valid(slice_text(rows[i].text)), rows[i].want, "%s", rows[i].text);
}

Test(request_check, one_authority_has_one_spelling)
{
    static const struct {
        const char *text;
        bool is_tls;
        const char *want;
    } rows[] = {
        {"A.Test", false, "a.test"},           {"a.test:80", false, "a.test"},
        {"a.test:443", false, "a.test:443"},   {"a.test:443", true, "a.test"},
        {"a.test:80", true, "a.test:80"},      {"a.test:", false, "a.test"},
        {"a.test:8080", false, "a.test:8080"}, {"[2001:DB8::1]:80", false, "[2001:db8::1]"},
        {"[::80]", false, "[::80]"},           {"A.Test.", false, "a.test"},
        {"a.test.:80", false, "a.test"},       {"a.test.:81", false, "a.test:81"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char bytes[64];
        size_t len = strlen(rows[i].text);

        memcpy(bytes, rows[i].text, len);
        len = authority_write(slice_of(bytes, len), rows[i].is_tls, bytes);
        cr_expect(is_text(slice_of(bytes, len), rows[i].want), "%s", rows[i].text);
    }
}

Test(request_check, the_absolute_form_overrides_the_host)
{
    struct request_facts facts;

    cr_assert_eq(request_check(SLICE("GET HTTP://b.test:81/x?y HTTP/1.1\r\nhost: a.test\r\n\r\n"), false,
                               &usual, &facts),
                 REQUEST_SOUND);
    cr_expect(is_text(facts.authority, "b.test:81"));
    cr_expect(is_text(facts.target, "/x?y"));
    cr_assert_eq(
        request_check(SLICE("GET http://b.test HTTP/1.1\r\nhost: b.test\r\n\r\n"), false, &usual, &facts),
        REQUEST_SOUND);
    cr_expect(is_text(facts.target, "/"), "an empty path is the root");
    cr_assert_eq(
        request_check(SLICE("GET https://b.test/ HTTP/1.1\r\nhost: b.test\r\n\r\n"), true, &usual, &facts),
        REQUEST_SOUND);
    cr_expect(is_text(facts.authority, "b.test"));
}

Test(request_check, targets_are_plain_paths)
{
    static const struct {
        const char *why, *target;
        enum request_flaw want;
    } rows[] = {
        {"a path", "/a/b;c/d?e=f/../g", REQUEST_SOUND},
        {"two slashes", "//a", REQUEST_SOUND},
        {"an escaped slash", "/a%2Fb", REQUEST_SOUND},
        {"characters that browsers leave alone", "/a|b^{c}\"?[d]", REQUEST_SOUND},
        {"three dots", "/.../x", REQUEST_SOUND},
        {"a dot file", "/.well-known/..x", REQUEST_SOUND},
        {"a parameter of dots", "/a;../b", REQUEST_SOUND},
        {"a question mark in the query", "/?a?b", REQUEST_SOUND},
        {"an empty target", "", REQUEST_TARGET_BAD},
        {"no leading slash", "a", REQUEST_TARGET_BAD},
        {"the whole server", "*", REQUEST_TARGET_BAD},
        {"a query alone", "?a", REQUEST_TARGET_BAD},
        {"a fragment", "/a#b", REQUEST_TARGET_BAD},
        {"a backslash", "/a\\b", REQUEST_TARGET_BAD},
        {"8-bit", "/\xc3\xa9", REQUEST_TARGET_BAD},
        {"DEL", "/\x7f", REQUEST_TARGET_BAD},
        {"a control byte", "/a\x01", REQUEST_TARGET_BAD},
        {"a tab", "/a\tb", REQUEST_TARGET_BAD},
        {"an authority alone", "a.test:80", REQUEST_TARGET_BAD},
        {"another scheme", "ftp://a.test/", REQUEST_TARGET_BAD},
        {"the scheme of another port", "https://a.test/", REQUEST_TARGET_BAD},
        {"an absolute form without a host", "http:///a", REQUEST_HOST_BAD},
        {"an absolute form with a user", "http://u:p@a.test/", REQUEST_HOST_BAD},
        {"an absolute form without a path", "http://a.test?b", REQUEST_TARGET_BAD},
        {"an absolute form with a bad path", "http://a.test/#", REQUEST_TARGET_BAD},
        {"no digits", "/%zz", REQUEST_TARGET_ESCAPE_BAD},
        {"one digit", "/%4", REQUEST_TARGET_ESCAPE_BAD},
        {"none at all", "/%", REQUEST_TARGET_ESCAPE_BAD},
        {"one digit and another", "/%4g", REQUEST_TARGET_ESCAPE_BAD},
        {"NUL", "/a%00", REQUEST_TARGET_ESCAPE_BAD},
        {"NUL in the query", "/a?%00", REQUEST_TARGET_ESCAPE_BAD},
        {"no digits in the query", "/a?b=100%", REQUEST_TARGET_ESCAPE_BAD},
        {"up", "/a/../b", REQUEST_TARGET_DOTS},
        {"up at the end", "/a/..", REQUEST_TARGET_DOTS},
        {"up before a query", "/a/..?b", REQUEST_TARGET_DOTS},
        {"here", "/./a", REQUEST_TARGET_DOTS},
        {"here at the end", "/.", REQUEST_TARGET_DOTS},
        {"escaped dots", "/a/%2e%2E/b", REQUEST_TARGET_DOTS},
        {"half escaped dots", "/a/.%2e/b", REQUEST_TARGET_DOTS},
        {"dots before an escaped slash", "/a/..%2fb", REQUEST_TARGET_DOTS},
        {"dots after an escaped slash", "/a%2F../b", REQUEST_TARGET_DOTS},
        {"dots before an escaped backslash", "/a/..%5cb", REQUEST_TARGET_DOTS},
        {"dots with a parameter", "/a/..;x/b", REQUEST_TARGET_DOTS},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_expect_eq(check_target(rows[i].target), rows[i].want, "%s: %d", rows[i].why,
                     (int)check_target(rows[i].target));
}

Test(request_check, methods_are_known_by_their_letters)
{
    static const struct {
        const char *method;
        enum request_flaw want;
        int status;
    } rows[] = {
        {"PROPFIND", REQUEST_SOUND, 200},
        {"CONNECT", REQUEST_METHOD_UNKNOWN, 501},
        {"TRACE", REQUEST_METHOD_UNKNOWN, 501},
        {"get", REQUEST_METHOD_UNKNOWN, 501},
        {"Get", REQUEST_METHOD_UNKNOWN, 501},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG", REQUEST_METHOD_UNKNOWN, 501},
        {"G@{T", REQUEST_METHOD_BAD, 400},
        {"", REQUEST_METHOD_BAD, 400},
        {"G\xc3", REQUEST_METHOD_BAD, 400},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[128];

        snprintf(text, sizeof(text), "%s / HTTP/1.1\r\nhost: a\r\n\r\n", rows[i].method);
        cr_expect_eq(check(text), rows[i].want, "%s", rows[i].method);
        cr_expect_eq(request_flaw_status(check(text)), rows[i].status, "%s", rows[i].method);
    }
    cr_expect_eq(check("OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n"), REQUEST_TARGET_BAD);
    cr_expect_eq(check("OPTIONS http://a HTTP/1.1\r\nhost: a\r\n\r\n"), REQUEST_TARGET_BAD,
                 "is * in another form");
    cr_expect_eq(check("OPTIONS http://a/ HTTP/1.1\r\nhost: a\r\n\r\n"), REQUEST_SOUND);
}

Test(request_check, the_request_line_has_three_parts)
{
    static const struct {
        const char *line;
        enum request_flaw want;
    } rows[] = {
        {"GET /", REQUEST_LINE_BAD},
        {"GET", REQUEST_LINE_BAD},
        {"", REQUEST_LINE_BAD},
        {"GET / x HTTP/1.1", REQUEST_LINE_BAD},
        {"GET / HTTP/1.1 ", REQUEST_LINE_BAD},
        {"GET  / HTTP/1.1", REQUEST_LINE_BAD},
        {" GET / HTTP/1.1", REQUEST_LINE_BAD},
        {"GET / http/1.1", REQUEST_LINE_BAD},
        {"GET / HTTP/1.2", REQUEST_VERSION_BAD},
        {"GET / HTTP/2.0", REQUEST_VERSION_BAD},
        {"GET / HTTP/1.1x", REQUEST_VERSION_BAD},
        {"PRI * HTTP/2.0", REQUEST_VERSION_BAD},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[128];

        snprintf(text, sizeof(text), "%s\r\nhost: a\r\n\r\n", rows[i].line);
        cr_expect_eq(check(text), rows[i].want, "'%s'", rows[i].line);
    }
    cr_expect_eq(check("\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n"), REQUEST_LINE_BAD,
                 "one empty line before it is enough");
    cr_expect_eq(request_flaw_status(REQUEST_VERSION_BAD), 505);
}

Test(request_check, fields_are_well_formed)
{
    static const struct {
        const char *why, *fields;
    } rows[] = {
        {"no colon", "abc\r\n"},
        {"no name", ": b\r\n"},
        {"a blank before the colon", "content-length : 3\r\n"},
        {"a name that is no token", "a(: b\r\n"},
        {"8-bit in a name", "\xe4: b\r\n"},
        {"DEL", "a: \x7f\r\n"},
        {"a control byte", "a: b\x02\r\n"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_expect_eq(check_fields(rows[i].fields), REQUEST_FIELD_BAD, "%s", rows[i].why);
}

Test(request_check, nul_is_refused_wherever_it_stands)
{
    static const char in_value[] = "GET / HTTP/1.1\r\nhost: a\r\nx: b\0c\r\n\r\n";
    static const char in_name[] = "GET / HTTP/1.1\r\nhost: a\r\nx\0y: b\r\n\r\n";
    static const char in_target[] = "GET /\0 HTTP/1.1\r\nhost: a\r\n\r\n";
    static const char in_method[] = "G\0T / HTTP/1.1\r\nhost: a\r\n\r\n";

    cr_expect_eq(check_bytes(in_value, sizeof(in_value) - 1, false, &usual), REQUEST_FIELD_BAD);
    cr_expect_eq(check_bytes(in_name, sizeof(in_name) - 1, false, &usual), REQUEST_FIELD_BAD);
    cr_expect_eq(check_bytes(in_target, sizeof(in_target) - 1, false, &usual), REQUEST_TARGET_BAD);
    cr_expect_eq(check_bytes(in_method, sizeof(in_method) - 1, false, &usual), REQUEST_METHOD_BAD);
}

Test(request_check, bounds_are_exact)
{
    const char *text = "GET /abc HTTP/1.1\r\nhost: a\r\nx: y\r\n\r\nbody";
    size_t head = strlen(text) - 4;
    struct request_bounds tight = {.max_head_bytes = head, .max_headers = 2, .max_target_bytes = 4};

    cr_expect_eq(check_bytes(text, strlen(text), false, &tight), REQUEST_SOUND);
    tight.max_head_bytes = head - 1;
    cr_expect_eq(check_bytes(text, strlen(text), false, &tight), REQUEST_HEAD_LONG);
    tight.max_head_bytes = 5;
    cr_expect_eq(check_bytes(text, strlen(text), false, &tight), REQUEST_HEAD_LONG);
    tight = (struct request_bounds){head, 1, 4};
    cr_expect_eq(check_bytes(text, strlen(text), false, &tight), REQUEST_FIELDS_MANY);
    tight = (struct request_bounds){head, 2, 3};
    cr_expect_eq(check_bytes(text, strlen(text), false, &tight), REQUEST_TARGET_LONG);
    tight.max_head_bytes = 8;
    cr_expect_eq(check_bytes(text, strlen(text), false, &tight), REQUEST_TARGET_LONG,
                 "a long target is told as one");
    cr_expect_eq(request_flaw_status(REQUEST_TARGET_LONG), 414);
    cr_expect_eq(request_flaw_status(REQUEST_FIELDS_MANY), 431);
    cr_expect_eq(request_flaw_status(REQUEST_HEAD_LONG), 431);
}

Test(request_check, each_flaw_has_a_status_and_words)
{
    for (int flaw = REQUEST_LINE_BAD; flaw <= REQUEST_CODING_IN_HTTP10; flaw++) {
        int status = request_flaw_status((enum request_flaw)flaw);

        cr_expect(status >= 400 && status <= 505);
        cr_expect_neq(request_flaw_text((enum request_flaw)flaw)[0], '\0');
    }
    cr_expect_eq(request_flaw_status(REQUEST_SOUND), 200);
}
