#include "http1_head.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

struct read_head {
    struct http1_head head;
    struct header headers[HTTP1_MAX_HEADERS];
    char bytes[4096];
    enum head_progress progress;
};

static void read_whole(struct read_head *r, const char *text)
{
    size_t len = strlen(text);

    cr_assert(len < sizeof(r->bytes));
    memcpy(r->bytes, text, len);
    http1_head_init(&r->head, r->headers, HTTP1_MAX_HEADERS, HTTP1_MAX_HEAD_BYTES);
    r->progress = http1_head_read(&r->head, r->bytes, len);
}

static bool is_text(struct slice s, const char *text)
{
    return slice_eq(s, slice_text(text));
}

Test(http1_head, a_head_is_split_into_its_parts)
{
    struct read_head r;
    const char *text = "HTTP/1.1 200 All right\r\nContent-TYPE:  text/plain \t\r\nX-Empty:\r\n\r\nbody";

    read_whole(&r, text);
    cr_assert_eq(r.progress, HEAD_WHOLE);
    cr_expect_eq(r.head.status, 200);
    cr_expect(!r.head.is_http10);
    cr_expect(is_text(r.head.reason, "All right"));
    cr_assert_eq(r.head.header_count, 2);
    cr_expect(is_text(r.headers[0].name, "content-type"), "names are lowered in place");
    cr_expect(is_text(r.headers[0].value, "text/plain"), "values are trimmed");
    cr_expect(is_text(r.headers[1].name, "x-empty"));
    cr_expect_eq(r.headers[1].value.len, 0);
    cr_expect_eq(r.head.head_bytes, strlen(text) - 4, "the body begins behind the head");
}

Test(http1_head, what_is_well_formed_is_whole)
{
    static const struct {
        const char *why, *text;
        int status;
    } rows[] = {
        {"no header at all", "HTTP/1.1 204 No Content\r\n\r\n", 204},
        {"no reason, but its blank", "HTTP/1.1 200 \r\n\r\n", 200},
        {"no reason and no blank", "HTTP/1.1 200\r\n\r\n", 200},
        {"the older version", "HTTP/1.0 404 Not Found\r\na: b\r\n\r\n", 404},
        {"the smallest status", "HTTP/1.1 100 Continue\r\n\r\n", 100},
        {"the largest status", "HTTP/1.1 599 x\r\n\r\n", 599},
        {"bytes above ASCII in a value", "HTTP/1.1 200 OK\r\nx: \xc3\xa9\xff\r\n\r\n", 200},
        {"every character a token has", "HTTP/1.1 200 OK\r\n!#$%&'*+-.^_`|~09azAZ: v\r\n\r\n", 200},
        {"a colon in a value", "HTTP/1.1 200 OK\r\na:b:c\r\n\r\n", 200},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct read_head r;

        read_whole(&r, rows[i].text);
        cr_expect_eq(r.progress, HEAD_WHOLE, "%s: %s", rows[i].why, r.head.why == NULL ? "" : r.head.why);
        cr_expect_eq(r.head.status, rows[i].status, "%s", rows[i].why);
        cr_expect_eq(r.head.is_http10, rows[i].text[7] == '0', "%s", rows[i].why);
    }
}

Test(http1_head, what_could_be_read_in_two_ways_is_bad)
{
    static const struct {
        const char *why, *text;
    } rows[] = {
        {"not HTTP", "SSH-2.0-x\r\n\r\n"},
        {"lower case", "http/1.1 200 OK\r\n\r\n"},
        {"HTTP/2", "HTTP/2.0 200 OK\r\n\r\n"},
        {"an unknown minor version", "HTTP/1.2 200 OK\r\n\r\n"},
        {"two digits of version", "HTTP/1.10 200 OK\r\n\r\n"},
        {"an empty line first", "\r\nHTTP/1.1 200 OK\r\n\r\n"},
        {"two digits", "HTTP/1.1 20 OK\r\n\r\n"},
        {"four digits", "HTTP/1.1 2000 OK\r\n\r\n"},
        {"no digits", "HTTP/1.1 OK\r\n\r\n"},
        {"signed", "HTTP/1.1 +20 OK\r\n\r\n"},
        {"below 100", "HTTP/1.1 099 x\r\n\r\n"},
        {"above 599", "HTTP/1.1 600 x\r\n\r\n"},
        {"two blanks before the status", "HTTP/1.1  200 OK\r\n\r\n"},
        {"a tab before the reason", "HTTP/1.1 200\tOK\r\n\r\n"},
        {"a bare LF after the status line", "HTTP/1.1 200 OK\na: b\r\n\r\n"},
        {"a bare LF after a header", "HTTP/1.1 200 OK\r\na: b\n\r\n"},
        {"a bare LF as the empty line", "HTTP/1.1 200 OK\r\na: b\r\n\n"},
        {"CR inside a value", "HTTP/1.1 200 OK\r\na: b\rc: d\r\n\r\n"},
        {"CR inside the reason", "HTTP/1.1 200 O\rK\r\n\r\n"},
        {"DEL in a value", "HTTP/1.1 200 OK\r\na: b\x7f\r\n\r\n"},
        {"ESC in a value", "HTTP/1.1 200 OK\r\na: \x1b[0m\r\n\r\n"},
        {"a folded header", "HTTP/1.1 200 OK\r\na: b\r\n c\r\n\r\n"},
        {"a folded header by tab", "HTTP/1.1 200 OK\r\na: b\r\n\tc\r\n\r\n"},
        {"folding after the status line", "HTTP/1.1 200 OK\r\n a: b\r\n\r\n"},
        {"no colon", "HTTP/1.1 200 OK\r\nabc\r\n\r\n"},
        {"an empty name", "HTTP/1.1 200 OK\r\n: b\r\n\r\n"},
        {"a blank before the colon", "HTTP/1.1 200 OK\r\ncontent-length : 3\r\n\r\n"},
        {"a name that is no token", "HTTP/1.1 200 OK\r\na(b): c\r\n\r\n"},
        {"8-bit in a name", "HTTP/1.1 200 OK\r\n\xe4: c\r\n\r\n"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct read_head r;

        read_whole(&r, rows[i].text);
        cr_expect_eq(r.progress, HEAD_BAD, "%s", rows[i].why);
        cr_expect_not_null(r.head.why, "%s", rows[i].why);
    }
}

Test(http1_head, a_nul_byte_is_bad)
{
    static const char raw[] = "HTTP/1.1 200 OK\r\na: b\0c\r\n\r\n";
    struct header headers[4];
    struct http1_head head;
    char bytes[sizeof(raw)];

    memcpy(bytes, raw, sizeof(raw));
    http1_head_init(&head, headers, 4, HTTP1_MAX_HEAD_BYTES);
    cr_expect_eq(http1_head_read(&head, bytes, sizeof(raw) - 1), HEAD_BAD);
}

/* Each time the bytes live elsewhere, as they do when a buffer grows. */
Test(http1_head, a_head_that_trickles_in_reads_as_one_that_comes_at_once)
{
    const char *text = "HTTP/1.1 200 OK\r\nAge: 3\r\nVary: a, b\r\n\r\nrest";
    size_t whole = strlen(text) - 4;
    struct header headers[8];
    struct http1_head head;

    http1_head_init(&head, headers, 8, HTTP1_MAX_HEAD_BYTES);
    for (size_t len = 0; len < whole; len++) {
        char *copy = malloc(len + 1);

        memcpy(copy, text, len);
        cr_assert_eq(http1_head_read(&head, copy, len), HEAD_PARTIAL, "after %zu bytes", len);
        free(copy);
    }
    char *copy = malloc(whole);
    memcpy(copy, text, whole);
    cr_assert_eq(http1_head_read(&head, copy, whole), HEAD_WHOLE);
    cr_expect_eq(head.head_bytes, whole);
    cr_expect_eq(head.header_count, 2);
    cr_expect(is_text(headers[1].value, "a, b"));
    free(copy);
}

Test(http1_head, nonsense_is_known_before_the_head_ends)
{
    struct read_head r;

    read_whole(&r, "HTTQ");
    cr_expect_eq(r.progress, HEAD_BAD);
    read_whole(&r, "HTTP/1.1 200 OK\r\na: b\n");
    cr_expect_eq(r.progress, HEAD_BAD, "a bare LF is seen at once");
}

Test(http1_head, more_headers_than_there_is_room_for_are_bad)
{
    char bytes[64] = "HTTP/1.1 200 OK\r\na: 1\r\nb: 2\r\nc: 3\r\n\r\n", again[64];
    struct header headers[3];
    struct http1_head head;

    memcpy(again, bytes, sizeof(bytes));
    http1_head_init(&head, headers, 3, HTTP1_MAX_HEAD_BYTES);
    cr_expect_eq(http1_head_read(&head, bytes, strlen(bytes)), HEAD_WHOLE, "as many as there is room for");
    http1_head_init(&head, headers, 2, HTTP1_MAX_HEAD_BYTES);
    cr_expect_eq(http1_head_read(&head, again, strlen(again)), HEAD_BAD);
}

Test(http1_head, the_bound_in_bytes_is_exact_and_holds_without_an_end)
{
    char bytes[128] = "HTTP/1.1 200 OK\r\na: b\r\n\r\n", endless[128];
    size_t len = strlen(bytes);
    struct header headers[3];
    struct http1_head head;

    http1_head_init(&head, headers, 3, len);
    cr_expect_eq(http1_head_read(&head, bytes, len), HEAD_WHOLE);
    http1_head_init(&head, headers, 3, len - 1);
    cr_expect_eq(http1_head_read(&head, bytes, len), HEAD_BAD);

    memset(endless, 'x', sizeof(endless));
    memcpy(endless, "HTTP/1.1 200 ", 13);
    http1_head_init(&head, headers, 3, 100);
    cr_expect_eq(http1_head_read(&head, endless, 99), HEAD_PARTIAL);
    cr_expect_eq(http1_head_read(&head, endless, 100), HEAD_BAD);
}

Test(http1_head, an_interim_answer_is_followed_by_the_final_one)
{
    char bytes[] = "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n";
    struct header headers[3];
    struct http1_head head;
    size_t first;

    http1_head_init(&head, headers, 3, HTTP1_MAX_HEAD_BYTES);
    cr_assert_eq(http1_head_read(&head, bytes, sizeof(bytes) - 1), HEAD_WHOLE);
    cr_expect_eq(head.status, 103);
    first = head.head_bytes;
    http1_head_init(&head, headers, 3, HTTP1_MAX_HEAD_BYTES);
    cr_assert_eq(http1_head_read(&head, bytes + first, sizeof(bytes) - 1 - first), HEAD_WHOLE);
    cr_expect_eq(head.status, 200);
}

Test(http1_framing, the_body_ends_where_rfc_9112_section_6_3_says)
{
    static const struct {
        const char *why, *status, *fields, *method;
        enum body_framing want;
        int64_t length;
    } rows[] = {
        {"a length", "1.1 200", "Content-Length: 3\r\n", "GET", BODY_LENGTH, 3},
        {"an empty body", "1.1 200", "Content-Length: 0\r\n", "GET", BODY_LENGTH, 0},
        {"the largest length", "1.1 200", "Content-Length: 9223372036854775807\r\n", "GET", BODY_LENGTH,
         INT64_MAX},
        {"chunked", "1.1 200", "Transfer-Encoding: chunked\r\n", "GET", BODY_CHUNKED, -1},
        {"chunked in capitals", "1.1 200", "Transfer-Encoding: CHUNKED\r\n", "GET", BODY_CHUNKED, -1},
        {"neither", "1.1 200", "", "GET", BODY_UNTIL_CLOSE, -1},
        {"neither, HTTP/1.0", "1.0 200", "", "GET", BODY_UNTIL_CLOSE, -1},
        {"HEAD has no body, only its length", "1.1 200", "Content-Length: 3\r\n", "HEAD", BODY_NONE, 3},
        {"HEAD without a length", "1.1 200", "", "HEAD", BODY_NONE, -1},
        {"HEAD, chunked", "1.1 200", "Transfer-Encoding: chunked\r\n", "HEAD", BODY_NONE, -1},
        {"304 has no body, only its length", "1.1 304", "Content-Length: 3\r\n", "GET", BODY_NONE, 3},
        {"204", "1.1 204", "", "GET", BODY_NONE, -1},
        {"an interim answer", "1.1 100", "", "POST", BODY_NONE, -1},
        {"both, in either order", "1.1 200", "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "GET",
         BODY_BAD, -1},
        {"both", "1.1 200", "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "GET", BODY_BAD, -1},
        {"both, even without a body", "1.1 304", "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "GET",
         BODY_BAD, -1},
        {"a coding that we cannot undo", "1.1 200", "Transfer-Encoding: gzip\r\n", "GET", BODY_BAD, -1},
        {"no coding that anybody knows", "1.1 200", "Transfer-Encoding: xyz\r\n", "GET", BODY_UNTIL_CLOSE,
         -1},
        {"the obsolete name of none", "1.1 200", "Transfer-Encoding: identity\r\n", "GET", BODY_UNTIL_CLOSE,
         -1},
        {"and a length", "1.1 200", "Transfer-Encoding: xyz\r\nContent-Length: 5\r\n", "GET", BODY_BAD, -1},
        {"chunked, but not at the end", "1.1 200", "Transfer-Encoding: chunked, xyz\r\n", "GET", BODY_BAD,
         -1},
        {"an empty one", "1.1 200", "Transfer-Encoding: \r\n", "GET", BODY_BAD, -1},
        {"a coding before chunked", "1.1 200", "Transfer-Encoding: gzip, chunked\r\n", "GET", BODY_BAD, -1},
        {"an empty coding", "1.1 200", "Transfer-Encoding:\r\n", "GET", BODY_BAD, -1},
        {"a coding with a parameter", "1.1 200", "Transfer-Encoding: chunked;q=1\r\n", "GET", BODY_BAD, -1},
        {"chunked twice", "1.1 200", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "GET",
         BODY_BAD, -1},
        {"chunked in HTTP/1.0", "1.0 200", "Transfer-Encoding: chunked\r\n", "GET", BODY_BAD, -1},
        {"two lengths", "1.1 200", "Content-Length: 3\r\nContent-Length: 4\r\n", "GET", BODY_BAD, -1},
        {"two equal lengths", "1.1 200", "Content-Length: 3\r\nContent-Length: 3\r\n", "GET", BODY_BAD, -1},
        {"a list of lengths", "1.1 200", "Content-Length: 3,3\r\n", "GET", BODY_BAD, -1},
        {"a signed length", "1.1 200", "Content-Length: +3\r\n", "GET", BODY_BAD, -1},
        {"a negative length", "1.1 200", "Content-Length: -3\r\n", "GET", BODY_BAD, -1},
        {"a hexadecimal length", "1.1 200", "Content-Length: 0x3\r\n", "GET", BODY_BAD, -1},
        {"an empty length", "1.1 200", "Content-Length:\r\n", "GET", BODY_BAD, -1},
        {"a length above any number", "1.1 200", "Content-Length: 9223372036854775808\r\n", "GET", BODY_BAD,
         -1},
        {"an upgrade", "1.1 101", "Upgrade: x\r\n", "GET", BODY_BAD, -1},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct read_head r;
        struct http1_framing framing;
        char text[256];

        snprintf(text, sizeof(text), "HTTP/%s x\r\n%s\r\n", rows[i].status, rows[i].fields);
        read_whole(&r, text);
        cr_assert_eq(r.progress, HEAD_WHOLE, "%s", rows[i].why);
        framing = http1_framing(&r.head, slice_text(rows[i].method));
        cr_expect_eq(framing.kind, rows[i].want, "%s", rows[i].why);
        cr_expect_eq(framing.length, rows[i].length, "%s", rows[i].why);
        cr_expect_eq(framing.why != NULL, rows[i].want == BODY_BAD, "%s", rows[i].why);
    }
}

Test(http1_framing, a_connection_is_kept_only_where_both_sides_know_the_next_answers_place)
{
    static const struct {
        const char *why, *status, *fields;
        bool want;
    } rows[] = {
        {"the default of HTTP/1.1", "1.1 200", "Content-Length: 0\r\n", true},
        {"the default of HTTP/1.0", "1.0 200", "Content-Length: 0\r\n", false},
        {"HTTP/1.0 that says so", "1.0 200", "Content-Length: 0\r\nConnection: Keep-Alive\r\n", true},
        {"close", "1.1 200", "Content-Length: 0\r\nConnection: close\r\n", false},
        {"close among others", "1.1 200", "Content-Length: 0\r\nConnection: x , CLOSE,y\r\n", false},
        {"close in a second field", "1.1 200", "Content-Length: 0\r\nConnection: x\r\nConnection: close\r\n",
         false},
        {"close wins over keep-alive", "1.1 200", "Content-Length: 0\r\nConnection: close, keep-alive\r\n",
         false},
        {"closed is not close", "1.1 200", "Content-Length: 0\r\nConnection: closed\r\n", true},
        {"chunked", "1.1 200", "Transfer-Encoding: chunked\r\n", true},
        {"the body ends with the connection", "1.1 200", "", false},
        {"it is ambiguous", "1.1 200", "Content-Length: 0\r\nContent-Length: 0\r\n", false},
        {"204", "1.1 204", "", true},
        {"204 that says it is empty", "1.1 204", "Content-Length: 0\r\n", true},
        {"204 that announces a body may send it", "1.1 204", "Content-Length: 3\r\n", false},
        {"204, chunked", "1.1 204", "Transfer-Encoding: chunked\r\n", false},
        {"304 tells a length without a body", "1.1 304", "Content-Length: 3\r\n", true},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct read_head r;
        struct http1_framing framing;
        char text[256];

        snprintf(text, sizeof(text), "HTTP/%s x\r\n%s\r\n", rows[i].status, rows[i].fields);
        read_whole(&r, text);
        cr_assert_eq(r.progress, HEAD_WHOLE, "%s", rows[i].why);
        framing = http1_framing(&r.head, SLICE("GET"));
        cr_expect_eq(http1_keeps_alive(&r.head, &framing), rows[i].want, "%s", rows[i].why);
    }
}
