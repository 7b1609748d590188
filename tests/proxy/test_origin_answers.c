/* What an upstream may send, and what becomes of it. Each row is one connection's whole story on raw bytes;
 * most of them ended a process, or passed as a whole answer, with the client that comes with libh2o. */
#include "support_fetch.h"
#include "support_upstream.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum after_it { STAYS, FIN, RST };

struct row {
    const char *why, *method, *bytes;
    enum after_it after;
    enum fault fault;
    int status;
    const char *body;
    bool is_reused;
};

#define OK "HTTP/1.1 200 OK\r\n"

static const struct row rows[] = {
    {"a length, kept to", "GET", OK "content-length: 5\r\n\r\nhello", STAYS, FAULT_NONE, 200, "hello", true},
    {"no body at all", "GET", OK "content-length: 0\r\n\r\n", STAYS, FAULT_NONE, 200, "", true},
    {"a length, cut short", "GET", OK "content-length: 9\r\n\r\nhello", FIN, FAULT_ORIGIN_BROKE, 200, "hello",
     false},
    {"a length, cut by a reset", "GET", OK "content-length: 9\r\n\r\nhello", RST, FAULT_ORIGIN_BROKE, 200,
     NULL, false},
    {"chunks", "GET", OK "transfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", STAYS,
     FAULT_NONE, 200, "hello", true},
    {"chunks with extension and trailer", "GET",
     OK "transfer-encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n", STAYS, FAULT_NONE, 200,
     "hello", true},
    {"chunks cut inside one", "GET", OK "transfer-encoding: chunked\r\n\r\n5\r\nhel", FIN, FAULT_ORIGIN_BROKE,
     200, "hel", false},
    {"chunks cut between two: nothing said that this was all", "GET",
     OK "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", FIN, FAULT_ORIGIN_BROKE, 200, "hello", false},
    {"chunks cut between two by a reset", "GET", OK "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", RST,
     FAULT_ORIGIN_BROKE, 200, NULL, false},
    {"the last chunk without its empty line", "GET",
     OK "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n", FIN, FAULT_ORIGIN_BROKE, 200, "hello",
     false},
    {"a chunk size that is not one", "GET", OK "transfer-encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
     STAYS, FAULT_ORIGIN_NONSENSE, 200, "", false},
    {"framed by the close", "GET", OK "\r\nhello", FIN, FAULT_NONE, 200, "hello", false},
    {"framed by the close, of nothing", "GET", OK "\r\n", FIN, FAULT_NONE, 200, "", false},
    {"a reset does not frame", "GET", OK "\r\nhello", RST, FAULT_ORIGIN_BROKE, 200, NULL, false},
    {"gzip, chunked", "GET", OK "transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", STAYS,
     FAULT_ORIGIN_NONSENSE, 0, NULL, false},
    {"identity, chunked", "GET", OK "transfer-encoding: identity, chunked\r\n\r\n0\r\n\r\n", STAYS,
     FAULT_ORIGIN_NONSENSE, 0, NULL, false},
    {"a length that is no number", "GET", OK "content-length: abc\r\n\r\nhello", STAYS, FAULT_ORIGIN_NONSENSE,
     0, NULL, false},
    {"a negative length", "GET", OK "content-length: -1\r\n\r\nhello", STAYS, FAULT_ORIGIN_NONSENSE, 0, NULL,
     false},
    {"a length above all numbers", "GET", OK "content-length: 99999999999999999999\r\n\r\nhello", STAYS,
     FAULT_ORIGIN_NONSENSE, 0, NULL, false},
    {"a length and chunks", "GET", OK "content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
     STAYS, FAULT_ORIGIN_NONSENSE, 0, NULL, false},
    {"two lengths that differ", "GET", OK "content-length: 5\r\ncontent-length: 6\r\n\r\nhello", STAYS,
     FAULT_ORIGIN_NONSENSE, 0, NULL, false},
    {"bytes behind the answer", "GET", OK "content-length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n", STAYS,
     FAULT_NONE, 200, "hello", false},
    {"interim answers first", "GET",
     "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" OK
     "content-length: 2\r\n\r\nhi",
     STAYS, FAULT_NONE, 200, "hi", true},
    {"an interim answer and no more", "GET", "HTTP/1.1 100 Continue\r\n\r\n", FIN, FAULT_ORIGIN_BROKE, 0,
     NULL, false},
    {"an upgrade nobody asked for", "GET",
     "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", STAYS,
     FAULT_ORIGIN_NONSENSE, 0, NULL, false},
    {"HEAD states a length and sends none", "HEAD", OK "content-length: 5\r\n\r\n", STAYS, FAULT_NONE, 200,
     "", true},
    {"HEAD of chunks", "HEAD", OK "transfer-encoding: chunked\r\n\r\n", STAYS, FAULT_NONE, 200, "", true},
    {"204", "GET", "HTTP/1.1 204 No Content\r\n\r\n", STAYS, FAULT_NONE, 204, "", true},
    {"304 with the length of what it has not", "GET",
     "HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n", STAYS, FAULT_NONE, 304, "", true},
    {"a status line without a reason", "GET", "HTTP/1.1 200 \r\ncontent-length: 2\r\n\r\nhi", STAYS,
     FAULT_NONE, 200, "hi", true},
    {"a folded line", "GET", OK "a: b\r\n c\r\ncontent-length: 0\r\n\r\n", STAYS, FAULT_ORIGIN_NONSENSE, 0,
     NULL, false},
    {"a blank before the colon", "GET", OK "content-length : 0\r\n\r\n", STAYS, FAULT_ORIGIN_NONSENSE, 0,
     NULL, false},
    {"a line end of one byte", "GET", "HTTP/1.1 200 OK\ncontent-length: 0\n\n", STAYS, FAULT_ORIGIN_NONSENSE,
     0, NULL, false},
    {"a status below all", "GET", "HTTP/1.1 099 Hm\r\ncontent-length: 0\r\n\r\n", STAYS,
     FAULT_ORIGIN_NONSENSE, 0, NULL, false},
    {"not HTTP", "GET", "SSH-2.0-OpenSSH_9.2\r\n", STAYS, FAULT_ORIGIN_NONSENSE, 0, NULL, false},
    {"HTTP/2", "GET", "HTTP/2 200\r\n\r\n", STAYS, FAULT_ORIGIN_NONSENSE, 0, NULL, false},
    {"half a head", "GET", "HTTP/1.1 200 OK\r\ncontent-le", FIN, FAULT_ORIGIN_BROKE, 0, NULL, false},
    {"it says close", "GET", OK "connection: close\r\ncontent-length: 2\r\n\r\nhi", STAYS, FAULT_NONE, 200,
     "hi", false},
    {"HTTP/1.0", "GET", "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nhi", STAYS, FAULT_NONE, 200, "hi",
     false},
    {"an error is an answer", "GET", "HTTP/1.1 503 Busy\r\ncontent-length: 2\r\n\r\nno", STAYS, FAULT_NONE,
     503, "no", true},
};

static void serve_row(struct upstream *upstream, int fd, int nth)
{
    const struct row *row = upstream->arg;
    (void)nth;
    while (upstream_request(upstream, fd)) {
        upstream_send(fd, row->bytes);
        if (row->after == RST)
            upstream_reset(fd);
        if (row->after != STAYS)
            return;
    }
}

/* The upstream sends byte by byte. */
static void serve_slowly(struct upstream *upstream, int fd, int nth)
{
    const struct row *row = upstream->arg;
    (void)nth;
    while (upstream_request(upstream, fd)) {
        for (const char *c = row->bytes; *c != '\0'; c++)
            if (!upstream_send_bytes(fd, c, 1))
                return;
        if (row->after == RST)
            upstream_reset(fd);
        if (row->after != STAYS)
            return;
    }
}

static void try_row(const struct row *row, void (*serve)(struct upstream *, int, int))
{
    struct upstream upstream;
    struct bench bench;
    struct told first = {0}, second = {0};

    upstream_start(&upstream, serve, (void *)row);
    bench_start(&bench, "127.0.0.1", upstream.port);
    bench_open(&bench);
    fetch_start(&bench, &first, row->method, (struct slice){NULL, 0});
    wait_end(&bench, &first);
    cr_expect_eq(first.fault, row->fault, "%s: %s", row->why, fault_name(first.fault));
    if (row->after != RST) /* which may overtake what was sent before it */
        cr_expect(first.status == row->status, "%s: status %d", row->why, first.status);
    if (row->body != NULL)
        cr_expect(slice_eq(slice_of(first.body, first.body_len), slice_text(row->body)), "%s: body %.*s",
                  row->why, (int)first.body_len, first.body);
    int before = upstream.connections;
    fetch_start(&bench, &second, row->method, (struct slice){NULL, 0});
    wait_end(&bench, &second);
    cr_expect_eq(second.fault, row->fault, "%s, the second time: %s", row->why, fault_name(second.fault));
    cr_expect_eq(upstream.connections == before, row->is_reused, "%s: is the connection used again?",
                 row->why);
    bench_stop(&bench);
    upstream_stop(&upstream);
    told_free(&first);
    told_free(&second);
}

Test(origin_answers, each_is_taken_for_what_it_is)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        try_row(&rows[i], serve_row);
}

Test(origin_answers, it_does_not_matter_where_packets_are_cut)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strlen(rows[i].bytes) < 120)
            try_row(&rows[i], serve_slowly);
}

/* ---- heads as such ---- */

static void fetch_once(const char *bytes, enum after_it after, struct told *told)
{
    struct row row = {.bytes = bytes, .after = after};
    struct upstream upstream;
    struct bench bench;

    upstream_start(&upstream, serve_row, &row);
    bench_start(&bench, "127.0.0.1", upstream.port);
    bench_open(&bench);
    fetch_get(&bench, told);
    wait_end(&bench, told);
    bench_stop(&bench);
    upstream_stop(&upstream);
}

Test(origin_answers, fields_of_this_hop_stay_here)
{
    struct told told = {0};
    fetch_once(OK "Content-Type: text/plain\r\nConnection: x-hop\r\nX-Hop: 1\r\nKeep-Alive: "
                  "timeout=5\r\nSet-Cookie: a\r\n"
                  "Set-Cookie: b\r\nContent-Length: 2\r\nProxy-Authenticate: Basic\r\nTE: x\r\n\r\nhi",
               STAYS, &told);
    cr_expect_str_eq(told.headers, "content-type: text/plain\nset-cookie: a\nset-cookie: b\n");
    cr_expect_eq(told.content_length, 2);
    cr_expect(!told.until_close);
    told_free(&told);
}

Test(origin_answers, what_is_known_of_the_length_is_told)
{
    struct told told = {0};
    fetch_once(OK "transfer-encoding: chunked\r\n\r\n0\r\n\r\n", STAYS, &told);
    cr_expect_eq(told.content_length, -1);
    told_free(&told);
    fetch_once(OK "\r\n", FIN, &told);
    cr_expect_eq(told.content_length, -1);
    cr_expect(told.until_close);
    told_free(&told);
    fetch_once("HTTP/1.1 304 Not Modified\r\ncontent-length: 77\r\n\r\n", STAYS, &told);
    cr_expect_eq(told.content_length, 77);
    told_free(&told);
}

static char *repeat(const char *before, const char *line, int times, const char *behind)
{
    char *text = malloc(strlen(before) + strlen(line) * (size_t)times + strlen(behind) + 1), *at = text;
    at = stpcpy(at, before);
    for (int i = 0; i < times; i++)
        at = stpcpy(at, line);
    strcpy(at, behind);
    return text;
}

Test(origin_answers, heads_are_bounded)
{
    static const struct {
        const char *why, *line;
        int times;
        enum fault fault;
    } sizes[] = {
        {"a hundred lines", "a: b\r\n", 99, FAULT_NONE},
        {"one more", "a: b\r\n", 100, FAULT_ORIGIN_NONSENSE},
        {"near 64 KiB",
         "a: "
         "012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678"
         "9"
         "012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678"
         "9"
         "012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678"
         "9"
         "012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678"
         "9"
         "012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678"
         "9"
         "012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678"
         "9\r\n",
         99, FAULT_NONE},
    };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct told told = {0};
        char *text = repeat(OK, sizes[i].line, sizes[i].times, "content-length: 2\r\n\r\nhi");
        fetch_once(text, STAYS, &told);
        cr_expect_eq(told.fault, sizes[i].fault, "%s: %s", sizes[i].why, fault_name(told.fault));
        free(text);
        told_free(&told);
    }
    struct told told = {0};
    char *endless = repeat(OK "a: ", "0123456789abcdef", 16384, ""); /* 256 KiB of one line */
    fetch_once(endless, STAYS, &told);
    cr_expect_eq(told.fault, FAULT_ORIGIN_NONSENSE);
    free(endless);
}

Test(origin_answers, forerunners_are_told_without_what_is_of_the_hop_and_without_100)
{
    struct told told = {0};

    fetch_once("HTTP/1.1 100 Continue\r\nx: y\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: "
               "x\r\nX: z\r\n"
               "Content-Length: 5\r\n\r\n" OK "content-length: 2\r\n\r\nhi",
               STAYS, &told);
    cr_expect_eq(told.fault, FAULT_NONE);
    cr_expect_eq(told.interims, 1);
    cr_expect_eq(told.interim_status, 103);
    cr_expect_str_eq(told.interim_headers, "link: </a>\n");
    cr_expect_eq(told.status, 200);
    cr_expect_null(strstr(told.headers, "link"), "what a forerunner says is not the answer's");
    told_free(&told);
}

Test(origin_answers, interim_answers_are_bounded)
{
    struct told told = {0};
    char *text = repeat("", "HTTP/1.1 102 Processing\r\n\r\n", 16, OK "content-length: 2\r\n\r\nhi");
    fetch_once(text, STAYS, &told);
    cr_expect_eq(told.fault, FAULT_NONE);
    free(text);
    told_free(&told);
    text = repeat("", "HTTP/1.1 102 Processing\r\n\r\n", 17, OK "content-length: 2\r\n\r\nhi");
    fetch_once(text, STAYS, &told);
    cr_expect_eq(told.fault, FAULT_ORIGIN_NONSENSE);
    free(text);
}
