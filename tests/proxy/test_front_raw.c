/* What the front makes of raw bytes: nothing ambiguous is acted upon, and what is sound is answered as
 * HTTP/1.1 says. */
#include "support_front.h"

#include "clock.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(front_raw, .init = stage_open, .fini = stage_close, .timeout = 60);

static size_t times(const char *text, const char *what)
{
    size_t count = 0;

    for (; (text = strstr(text, what)) != NULL; text += strlen(what))
        count++;
    return count;
}

/* ---- refused ---- */

#define SMUGGLED "GET /echo-smuggled HTTP/1.1\r\nHost: a\r\n\r\n"

static const struct {
    const char *why, *bytes;
    int status;
} refused_rows[] = {
    {"length and coding: which one counts?",
     "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
    {"coding and length, the other way round",
     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", 400},
    {"two lengths that differ",
     "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400},
    {"two lengths that are equal",
     "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", 400},
    {"a list of lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\nx", 400},
    {"a signed length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\nx", 400},
    {"a length of nothing", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400},
    {"two codings",
     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: "
     "chunked\r\n\r\n0\r\n\r\n",
     400},
    {"chunked twice",
     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
     "chunked\r\n\r\n0\r\n\r\n",
     400},
    {"a coding that is not chunked",
     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400},
    {"a coding in HTTP/1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     400},
    {"a chunk size that is no number",
     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
    {"a chunk size in the way of C",
     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n", 400},
    {"a chunk size with a sign",
     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n+3\r\nabc\r\n0\r\n\r\n", 400},
    {"a blank behind a chunk size",
     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n", 400},
    {"a chunk size line that ends in LF",
     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n", 400},
    {"a chunk that ends in LF",
     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\n0\r\n\r\n", 400},
    {"a chunk longer than its size",
     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", 400},
    {"a chunk size of no memory",
     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc\r\n0\r\n\r\n",
     400},
    {"a trailer that is no field",
     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nnonsense\r\n\r\n", 400},
    {"bare LF", "GET / HTTP/1.1\nHost: a\n\n", 400},
    {"one bare LF among sound lines", "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400},
    {"a folded line", "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n", 400},
    {"no Host", "GET / HTTP/1.1\r\n\r\n", 400},
    {"two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
    {"an empty Host", "GET / HTTP/1.1\r\nHost: \r\n\r\n", 400},
    {"a Host with a user and a path", "GET / HTTP/1.1\r\nHost: a/b@c d\r\n\r\n", 400},
    {"CONNECT", "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", 501},
    {"TRACE", "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", 501},
    {"the whole server", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 400},
    {"a method in lower case", "get / HTTP/1.1\r\nHost: a\r\n\r\n", 501},
    {"a method that is no token", "G@{T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
    {"a target without a slash", "GET x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
    {"a fragment", "GET /x#y HTTP/1.1\r\nHost: a\r\n\r\n", 400},
    {"a backslash", "GET /x\\y HTTP/1.1\r\nHost: a\r\n\r\n", 400},
    {"an 8-bit target", "GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n", 400},
    {"an escape that is none", "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400},
    {"an escaped NUL", "GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
    {"dot segments", "GET /a/../b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
    {"another scheme", "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
    {"a name with an underscore that looks like framing",
     "POST / HTTP/1.1\r\nHost: a\r\ncontent_length: 4\r\n\r\n", 400},
    {"a blank before the colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
    {"a line without a colon", "GET / HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n", 400},
    {"a NUL in a value", NULL, 400},
    {"an expectation that nobody knows",
     "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: magic\r\n\r\nx", 417},
    {"HTTP/2 by its preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
    {"no HTTP at all", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400},
};

Test(front_raw, what_could_be_read_in_two_ways_is_refused_and_nothing_behind_it_is_acted_upon)
{
    for (size_t i = 0; i < sizeof(refused_rows) / sizeof(refused_rows[0]); i++) {
        static const char with_nul[] = "GET / HTTP/1.1\r\nHost: a\r\nX: b\0c\r\n\r\n";
        struct client client = client_connect();
        const char *why = refused_rows[i].why;
        char line[32];

        stage.refused = stage.shown = stage.gone = 0;
        if (refused_rows[i].bytes == NULL)
            client_write(&client, with_nul, sizeof(with_nul) - 1);
        else
            client_say(&client, refused_rows[i].bytes);
        client_say(&client, SMUGGLED);
        client_await_end(&client);
        snprintf(line, sizeof(line), "HTTP/1.1 %d ", refused_rows[i].status);
        cr_assert(strncmp(client.got, line, strlen(line)) == 0, "%s: got \"%s\"", why, client.got);
        cr_assert(strcasestr(client.got, "\r\nconnection: close\r\n") != NULL, "%s: %s", why, client.got);
        cr_assert_eq(times(client.got, "HTTP/1.1 "), 1, "%s: one answer, not \"%s\"", why, client.got);
        cr_assert_eq(stage.shown, 0, "%s: the story saw %s", why, stage.targets);
        cr_assert_not(client.is_reset, "%s: the client may read its answer in peace", why);
        cr_assert_eq(stage.refused, 1, "%s: told %d times", why, stage.refused);
        cr_assert_eq(stage.refused_status, refused_rows[i].status, "%s: told %d", why, stage.refused_status);
        client_close(&client);
    }
}

Test(front_raw, a_refusal_is_a_problem_that_no_cache_keeps)
{
    struct client client = client_whole("GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n");

    cr_assert(strstr(client.got, "HTTP/1.1 400 Bad Request\r\n") == client.got);
    cr_assert(strstr(client.got, "\r\ncontent-type: application/problem+json\r\n") != NULL);
    cr_assert(strstr(client.got, "\r\ncache-control: no-store\r\n") != NULL);
    cr_assert(strstr(client.got, "\"code\":\"malformed_request\"") != NULL);
    cr_assert(strstr(client.got, "Server:") == NULL);
    client_close(&client);
}

Test(front_raw, a_long_target_is_414_and_too_many_or_too_large_fields_are_431)
{
    size_t room = 60000;
    char *bytes = calloc(1, room + 64);
    struct client client;
    char *at;

    strcpy(bytes, "GET /");
    memset(bytes + 5, 'a', 9000);
    strcpy(bytes + 9005, " HTTP/1.1\r\nHost: a\r\n\r\n");
    client = client_whole(bytes);
    cr_assert(strstr(client.got, "HTTP/1.1 414 ") == client.got, "%s", client.got);
    client_close(&client);

    at = bytes + sprintf(bytes, "GET / HTTP/1.1\r\nHost: a\r\n");
    for (int i = 0; i < 100; i++)
        at += sprintf(at, "x-%d: y\r\n", i);
    strcpy(at, "\r\n");
    client = client_whole(bytes);
    cr_assert(strncmp(client.got, "HTTP/1.1 4", 10) == 0, "%s", client.got);
    client_close(&client);

    at = bytes + sprintf(bytes, "GET / HTTP/1.1\r\nHost: a\r\nX: ");
    memset(at, 'a', 40000);
    strcpy(at + 40000, "\r\n\r\n");
    client = client_whole(bytes);
    cr_assert(strstr(client.got, "HTTP/1.1 431 ") == client.got, "%s", client.got);
    cr_assert_eq(stage.shown, 0);
    client_close(&client);
    free(bytes);
}

Test(front_raw, a_head_that_only_grows_is_refused_before_it_ends)
{
    struct client client = client_connect();
    char *part = malloc(20000);

    memset(part, 'a', 20000);
    client_say(&client, "GET / HTTP/1.1\r\nHost: a\r\nX: ");
    client_write(&client, part, 20000);
    for (int i = 0; i < 5; i++)
        stage_turn();
    client_write(&client, part, 20000);
    client_await_end(&client);
    cr_assert(strstr(client.got, "HTTP/1.1 431 ") == client.got, "%s", client.got);
    cr_assert_eq(stage.refused, 1);
    free(part);
    client_close(&client);
}

static char *post_of(size_t bytes, bool is_chunked)
{
    char *text = malloc(bytes + 256), *at;

    if (is_chunked)
        at = text + sprintf(text,
                            "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%zx\r\n",
                            bytes);
    else
        at = text + sprintf(text, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", bytes);
    memset(at, 'b', bytes);
    strcpy(at + bytes, is_chunked ? "\r\n0\r\n\r\n" : "");
    return text;
}

Test(front_raw, a_body_of_just_max_body_passes_and_one_byte_more_is_413)
{
    for (int is_chunked = 0; is_chunked < 2; is_chunked++) {
        char *fits = post_of(1 << 20, is_chunked), *exceeds = post_of((1 << 20) + 1, is_chunked);
        char *vast = post_of(6 << 20, is_chunked);
        struct client client = client_connect();

        client_say(&client, fits);
        client_await(&client, "bbb\n");
        cr_assert(strstr(client.got, "HTTP/1.1 200 ") == client.got);
        client_close(&client);
        client = client_whole(exceeds);
        cr_assert(strstr(client.got, "HTTP/1.1 413 Content Too Large\r\n") == client.got, "%s", client.got);
        client_close(&client);
        stage.refused = 0;
        client = client_whole(vast);
        cr_assert(strstr(client.got, "HTTP/1.1 413 Content Too Large\r\n") == client.got,
                  "the answer reaches a client that is still sending: \"%s\"", client.got);
        cr_assert(strstr(client.got, "\"code\":\"body_too_large\"") != NULL);
        cr_assert_eq(stage.refused, 1);
        cr_assert_eq(stage.refused_status, 413);
        client_close(&client);
        free(fits);
        free(exceeds);
        free(vast);
    }
}

/* ---- sound ---- */

Test(front_raw, what_was_sent_is_what_the_story_sees)
{
    static const struct {
        const char *why, *bytes, *want;
    } rows[] = {
        {"plain", "GET /echo?q=1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "GET /echo?q=1 a \n"},
        {"authority in one spelling",
         "GET /echo HTTP/1.1\r\nHost: EXAMPLE.com:80\r\nConnection: close\r\n\r\n",
         "GET /echo example.com \n"},
        {"the absolute form counts, not Host",
         "GET http://B.example/echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
         "GET /echo b.example \n"},
        {"a body by length",
         "POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
         "POST /echo a hello\n"},
        {"a body in chunks",
         "POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: "
         "chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
         "POST /echo a hello\n"},
        {"no upgrade, but an answer",
         "GET /echo HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: "
         "h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
         "GET /echo a \n"},
        {"one empty line before the request",
         "\r\nGET /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "GET /echo a \n"},
        {"HTTP/1.0 without Host", "GET /echo HTTP/1.0\r\n\r\n", "GET /echo  \n"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct client client = client_whole(rows[i].bytes);
        const char *body = strstr(client.got, "\r\n\r\n");

        cr_assert(strstr(client.got, "HTTP/1.1 200 OK\r\n") == client.got, "%s: %s", rows[i].why, client.got);
        cr_assert_str_eq(body + 4, rows[i].want, "%s: %s", rows[i].why, client.got);
        client_close(&client);
    }
}

Test(front_raw, expect_100_continue_is_answered_and_the_body_taken)
{
    struct client client = client_connect();

    client_say(&client,
               "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    client_await(&client, "HTTP/1.1 100 Continue\r\n\r\n");
    cr_assert_eq(stage.shown, 0);
    client_say(&client, "hello");
    client_await(&client, "POST /echo a hello\n");
    cr_assert_eq(stage.refused, 0);
    client_close(&client);
}

Test(front_raw, a_malformed_chunk_is_seen_wherever_the_body_is_cut)
{
    static const char head[] = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n",
                      expect[] = "Expect: 100-continue\r\n\r\n",
                      body[] = "5\r\nhello\r\n0x3\r\nabc\r\n0\r\n\r\n";

    for (size_t cut = 0; cut < sizeof(body) - 1; cut++) {
        for (int expects = 0; expects < 2; expects++) {
            struct client client = client_connect();

            stage.refused = stage.shown = 0;
            client_say(&client, head);
            client_say(&client, expects ? expect : "\r\n");
            if (expects)
                client_await(&client, "HTTP/1.1 100 Continue\r\n\r\n");
            client_write(&client, body, cut);
            stage_turn();
            stage_turn();
            client_write(&client, body + cut, sizeof(body) - 1 - cut);
            client_say(&client, SMUGGLED);
            client_await_end(&client);
            cr_assert_not_null(strstr(client.got, "HTTP/1.1 400 "), "cut at %zu: %s", cut, client.got);
            cr_assert_eq(stage.shown, 0, "cut at %zu: the story saw %s", cut, stage.targets);
            cr_assert_eq(stage.refused, 1);
            client_close(&client);
        }
    }
}

Test(front_raw, a_sound_chunked_body_may_be_cut_anywhere_and_be_awaited)
{
    static const char head[] = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n",
                      expect[] = "Expect: 100-continue\r\n\r\n",
                      body[] = "2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nX-T: 1\r\n\r\n";

    for (int expects = 0; expects < 2; expects++) {
        struct client client = client_connect();

        for (size_t cut = 0; cut < sizeof(body) - 1; cut++) { /* all on one connection */
            client_say(&client, head);
            client_say(&client, expects ? expect : "\r\n");
            if (expects)
                client_await(&client, "HTTP/1.1 100 Continue\r\n\r\n");
            client_write(&client, body, cut);
            stage_turn();
            client_write(&client, body + cut, sizeof(body) - 1 - cut);
            client_await(&client, "POST /echo a hello\n");
            client.len = 0;
            client.got[0] = '\0';
        }
        cr_assert_eq(stage.refused, 0);
        client_close(&client);
    }
}

Test(front_raw, a_chunked_request_that_came_along_with_another_is_left_for_its_client_to_send_again)
{
    struct client client = client_whole("GET /echo HTTP/1.1\r\nHost: a\r\n\r\n"
                                        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                                        "0x3\r\nabc\r\n0\r\n\r\n");

    cr_assert_not_null(strstr(client.got, "GET /echo a \n"));
    cr_assert_not_null(strcasestr(client.got, "\r\nconnection: close\r\n"));
    cr_assert_eq(times(client.got, "HTTP/1.1 "), 1);
    cr_assert_eq(stage.shown, 1);
    client_close(&client);
}

Test(front_raw, a_request_may_come_byte_by_byte)
{
    static const char bytes[] = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
    struct client client = client_connect();

    for (size_t i = 0; i < sizeof(bytes) - 1; i++) {
        client_write(&client, &bytes[i], 1);
        stage_turn();
    }
    client_await(&client, "POST /echo a hello\n");
    client_close(&client);
}

Test(front_raw, a_connection_serves_one_request_after_the_other)
{
    struct client client = client_connect();

    for (int i = 0; i < 20; i++) {
        char say[128], want[64];

        snprintf(say, sizeof(say), "GET /echo-%d HTTP/1.1\r\nHost: a\r\n\r\n", i);
        snprintf(want, sizeof(want), "GET /echo-%d a \n", i);
        client_say(&client, say);
        client_await(&client, want);
    }
    cr_assert_eq(times(client.got, "Connection: keep-alive\r\n"), 20);
    cr_assert_eq(front_connections(stage.front), 1);
    client_close(&client);
}

Test(front_raw, pipelined_requests_are_answered_in_order)
{
    struct client client = client_connect();

    client_say(&client, "GET /echo-1 HTTP/1.1\r\nHost: a\r\n\r\n"
                        "GET /wait-2 HTTP/1.1\r\nHost: a\r\n\r\n"
                        "POST /echo-3 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
                        "GET /echo-4 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    STAGE_UNTIL(stage.parked_count == 1);
    for (int i = 0; i < 20; i++)
        stage_turn();
    cr_assert_str_eq(stage.targets, "/echo-1 /wait-2 ", "the third waits for the second");
    stage_answer(stage.parked[0], 200, "the second\n");
    client_await_end(&client);
    cr_assert_str_eq(stage.targets, "/echo-1 /wait-2 /echo-3 /echo-4 ");
    cr_assert(strstr(client.got, "the second\n") < strstr(client.got, "POST /echo-3 a abc\n"));
    cr_assert(strstr(client.got, "POST /echo-3 a abc\n") < strstr(client.got, "GET /echo-4 a \n"));
    cr_assert_eq(times(client.got, "HTTP/1.1 200 OK\r\n"), 4);
    client_close(&client);
}

Test(front_raw, head_204_and_304_have_no_body_whatever_the_story_sends)
{
    static const struct {
        const char *method;
        int status;
        int64_t length;
        const char *length_field;
    } rows[] = {
        {"HEAD", 200, 4, "Content-Length: 4\r\n"},
        {"HEAD", 200, -1, NULL},
        {"GET", 204, -1, NULL},
        {"GET", 304, -1, NULL},
    };
    struct client client = client_connect();
    size_t count = sizeof(rows) / sizeof(rows[0]);

    for (size_t i = 0; i < count; i++) {
        char say[128], want[64];

        free(client.got);
        client.got = calloc(1, 1);
        client.len = 0;
        stage.ready = 0;
        snprintf(say, sizeof(say), "%s /wait HTTP/1.1\r\nHost: a\r\n\r\n", rows[i].method);
        client_say(&client, say);
        STAGE_UNTIL(stage.parked_count == i + 1);
        stage_start(stage.parked[i], rows[i].status, rows[i].length);
        stage_send(stage.parked[i], "ab", CLIENT_MORE);
        STAGE_UNTIL(stage.ready == 1);
        stage_send(stage.parked[i], "c", CLIENT_MORE); /* nothing to write, and ready all the same */
        STAGE_UNTIL(stage.ready == 2);
        stage_send(stage.parked[i], "d", CLIENT_LAST);
        client_say(&client, "GET /echo-next HTTP/1.1\r\nHost: a\r\n\r\n");
        client_await(&client, "GET /echo-next a \n");
        snprintf(want, sizeof(want), "HTTP/1.1 %d ", rows[i].status);
        cr_assert(strstr(client.got, want) == client.got);
        cr_assert(strncmp(strstr(client.got, "\r\n\r\n") + 4, "HTTP/1.1 200", 12) == 0, "no body: %s",
                  client.got);
        cr_assert(strstr(client.got, "transfer-encoding") == NULL);
        if (rows[i].length_field != NULL)
            cr_assert(strstr(client.got, rows[i].length_field) < strstr(client.got, "\r\n\r\n"));
    }
    client_close(&client);
}

Test(front_raw, an_answer_of_unknown_length_is_chunked_whatever_its_status)
{
    static const int statuses[] = {200, 404, 500, 206};
    struct client client = client_connect();

    for (size_t i = 0; i < 4; i++) {
        size_t before = times(client.got, "0\r\n\r\n");

        client_say(&client, "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
        STAGE_UNTIL(stage.parked_count == i + 1);
        stage_start(stage.parked[i], statuses[i], -1);
        stage.ready = 0;
        stage_send(stage.parked[i], "hello", CLIENT_MORE);
        STAGE_UNTIL(stage.ready == 1);
        stage_send(stage.parked[i], "", CLIENT_LAST);
        STAGE_UNTIL((client_read(&client), times(client.got, "0\r\n\r\n") == before + 1));
        cr_assert(strstr(client.got, "transfer-encoding: chunked\r\n") != NULL);
    }
    cr_assert_eq(times(client.got, "\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), 4, "%s", client.got);
    cr_assert_eq(times(client.got, "Connection: keep-alive\r\n"), 4);
    cr_assert(strstr(client.got, "HTTP/1.1 404 Not Found\r\n") != NULL);
    client_say(&client, "GET /chunks HTTP/1.1\r\nHost: a\r\n\r\n");
    client_await(&client, "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n");
    client_close(&client);
}

Test(front_raw, to_http10_the_close_is_the_end)
{
    struct client client = client_whole("GET /chunks HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");

    cr_assert(strstr(client.got, "\r\n\r\nonetwo") != NULL, "%s", client.got);
    cr_assert(strstr(client.got, "transfer-encoding") == NULL);
    cr_assert(strstr(client.got, "Connection: close\r\n") != NULL);
    cr_assert_not(client.is_reset);
    client_close(&client);
}

Test(front_raw, http10_with_keep_alive_and_a_length_stays_open)
{
    struct client client = client_connect();

    client_say(&client, "GET /echo-1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    client_await(&client, "GET /echo-1  \n");
    client_say(&client, "GET /echo-2 HTTP/1.0\r\n\r\n");
    client_await_end(&client);
    cr_assert(strstr(client.got, "GET /echo-2  \n") != NULL);
    client_close(&client);
}

/* ---- answers that break ---- */

static struct client broken(const char *request, int status, int64_t length, const char *sent)
{
    struct client client = client_connect();

    client_say(&client, request);
    STAGE_UNTIL(stage.parked_count == 1);
    stage_start(stage.parked[0], status, length);
    if (sent[0] != '\0') {
        stage_send(stage.parked[0], sent, CLIENT_MORE);
        STAGE_UNTIL(stage.ready == 1);
        client_await(&client, sent);
    }
    stage_send(stage.parked[0], "", CLIENT_BROKEN);
    client_await_end(&client);
    return client;
}

#define WAIT_11 "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n"

Test(front_raw, a_chunked_answer_that_breaks_has_no_last_chunk)
{
    struct client client = broken(WAIT_11, 404, -1, "hello");

    cr_assert(strstr(client.got, "5\r\nhello\r\n") != NULL);
    cr_assert(strstr(client.got, "0\r\n\r\n") == NULL, "%s", client.got);
    client_close(&client);
}

Test(front_raw, an_answer_with_a_length_that_breaks_is_too_short)
{
    struct client client = broken(WAIT_11, 200, 100, "hello");

    cr_assert(strstr(client.got, "Content-Length: 100\r\n") != NULL);
    cr_assert_str_eq(strstr(client.got, "\r\n\r\n") + 4, "hello");
    client_close(&client);
}

Test(front_raw, an_answer_that_ends_by_the_close_and_breaks_is_reset)
{
    struct client client = broken("GET /wait HTTP/1.0\r\n\r\n", 200, -1, "hello");

    cr_assert(client.is_reset, "else the client would take it for whole");
    client_close(&client);
}

Test(front_raw, an_answer_that_breaks_after_its_last_promised_byte_is_reset)
{
    struct client client = broken(WAIT_11, 200, 5, "hello");

    cr_assert(client.is_reset);
    client_close(&client);
}

Test(front_raw, an_answer_that_breaks_before_its_head_is_not_an_empty_success)
{
    struct client client = broken(WAIT_11, 200, 0, "");

    cr_assert(client.is_reset);
    client_close(&client);
}

Test(front_raw, an_answer_that_ends_before_its_length_is_one_that_broke)
{
    struct client client = client_connect();

    client_say(&client, WAIT_11 SMUGGLED);
    STAGE_UNTIL(stage.parked_count == 1);
    stage_start(stage.parked[0], 200, 10);
    stage_send(stage.parked[0], "short", CLIENT_LAST);
    client_await_end(&client);
    cr_assert_str_eq(strstr(client.got, "\r\n\r\n") + 4, "short",
                     "nothing follows that the client could take for the rest");
    cr_assert_eq(stage.shown, 1);
    client_close(&client);
}

Test(front_raw, bytes_beyond_the_length_are_never_sent)
{
    struct client client = client_connect();

    client_say(&client, WAIT_11);
    STAGE_UNTIL(stage.parked_count == 1);
    stage_start(stage.parked[0], 200, 5);
    stage_send(stage.parked[0], "helloHTTP/1.1 200 OK\r\n", CLIENT_LAST);
    client_say(&client, "GET /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    client_await_end(&client);
    cr_assert(strstr(client.got, "\r\n\r\nhelloHTTP/1.1 200 OK\r\nDate:") != NULL, "%s", client.got);
    cr_assert_eq(times(client.got, "HTTP/1.1 200 OK"), 2, "%s", client.got);
    client_close(&client);
}

Test(front_raw, an_answer_that_was_made_earlier_bears_its_own_date_and_no_other_does)
{
    struct client client = client_connect();
    const char *next;

    client_say(&client, "GET /echo HTTP/1.1\r\nHost: a\r\n\r\nGET /dated HTTP/1.1\r\nHost: a\r\n\r\n"
                        "GET /echo HTTP/1.1\r\nHost: a\r\n\r\nGET /dated HTTP/1.1\r\nHost: a\r\n"
                        "Connection: close\r\n\r\n");
    client_await_end(&client);
    cr_assert_eq(times(client.got, "\r\nDate: "), 4, "%s", client.got);
    cr_assert_eq(times(client.got, "\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"), 2, "%s", client.got);
    next = strstr(strstr(client.got, "08:49:37"), "Date:");
    cr_assert_neq(strncmp(next, "Date: Sun, 06 Nov 1994", 22), 0, "the one behind it is of now");
    client_close(&client);
}
