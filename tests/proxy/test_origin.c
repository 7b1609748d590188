/* The pool: which connection a fetch gets, what happens when one breaks, who waits and who is turned off, and
 * leaving early. */
#include "support_fetch.h"
#include "support_upstream.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NO_BODY ((struct slice){NULL, 0})
#define HI "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"

static struct upstream upstream;
static struct bench bench;

static void start(void (*serve)(struct upstream *, int, int), void *arg)
{
    upstream_start(&upstream, serve, arg);
    bench_start(&bench, "127.0.0.1", upstream.port);
}

static void stop(void)
{
    bench_stop(&bench);
    upstream_stop(&upstream);
}

static void say_hi(struct upstream *up, int fd, int nth)
{
    (void)nth;
    while (upstream_request(up, fd))
        upstream_send(fd, HI);
}

/* Answers once the gate has reached the request's number. */
static void say_hi_when_let(struct upstream *up, int fd, int nth)
{
    (void)nth;
    while (upstream_request(up, fd)) {
        upstream_wait_gate(up, up->requests);
        upstream_send(fd, HI);
    }
}

/* ---- the request ---- */

static void keep_request(struct upstream *up, int fd, int nth)
{
    (void)nth;
    if (upstream_read(up, fd, up->arg, 4096))
        upstream_send(fd, HI);
    upstream_hang(fd);
}

static void keep_request_and_hang(struct upstream *up, int fd, int nth)
{
    (void)nth;
    upstream_read(up, fd, up->arg, 4096);
    upstream_hang(fd);
}

Test(origin, a_request_is_written_whole_and_says_no_more_than_needed)
{
    static const struct {
        const char *method;
        struct slice body;
        const char *want;
    } rows[] = {
        {"GET", {NULL, 0}, "GET /a?b=c HTTP/1.1\r\nhost: api.example\r\nx-asked: yes\r\n\r\n"},
        {"POST",
         {"abc", 3},
         "POST /a?b=c HTTP/1.1\r\nhost: api.example\r\nx-asked: yes\r\ncontent-length: 3\r\n\r\nabc"},
        {"POST",
         {NULL, 0},
         "POST /a?b=c HTTP/1.1\r\nhost: api.example\r\nx-asked: yes\r\ncontent-length: 0\r\n\r\n"},
        {"DELETE", {NULL, 0}, "DELETE /a?b=c HTTP/1.1\r\nhost: api.example\r\nx-asked: yes\r\n\r\n"},
        {"DELETE",
         {"", 0},
         "DELETE /a?b=c HTTP/1.1\r\nhost: api.example\r\nx-asked: yes\r\ncontent-length: 0\r\n\r\n"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char seen[4096] = "";
        struct told told = {0};
        start(keep_request, seen);
        bench_open(&bench);
        fetch_start(&bench, &told, rows[i].method, rows[i].body);
        wait_end(&bench, &told);
        stop();
        cr_expect_str_eq(seen, rows[i].want);
        told_free(&told);
    }
}

static void on_no_head(void *arg, const struct origin_response *head)
{
    (void)arg, (void)head;
    cr_assert_fail();
}

static void on_any_end(void *arg, enum fault fault)
{
    *(enum fault *)arg = fault;
}

Test(origin, nothing_that_would_split_a_request_is_sent)
{
    static const struct slice targets[] = {{"/a b", 4}, {"/a\r\nx: y", 8}, {"", 0}, {"/\0", 2}};
    static const struct origin_events events = {.on_head = on_no_head, .on_end = on_any_end};
    start(say_hi, NULL);
    bench_open(&bench);
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        enum fault fault = FAULT_NONE;
        struct origin_request request = {
            .method = SLICE("GET"), .target = targets[i], .authority = SLICE("a")};
        origin_start(bench.origin, &request, &events, &fault);
        WAIT_UNTIL(&bench, fault != FAULT_NONE);
        cr_expect_eq(fault, FAULT_ORIGIN_REFUSED);
    }
    cr_expect_eq(upstream.connections, 0);
    stop();
}

Test(origin, a_field_that_would_split_a_request_is_left_out)
{
    static const struct header fields[] = {{{"x-good", 6}, {"1", 1}},
                                           {{"x-bad", 5}, {"1\r\nx-evil: 1", 12}},
                                           {{"x bad", 5}, {"1", 1}},
                                           {{"x-null", 6}, {"\0", 1}}};
    static const struct origin_events events = {.on_head = on_no_head, .on_end = on_any_end};
    char seen[4096] = "";
    enum fault fault = FAULT_NONE;
    start(keep_request_and_hang, seen);
    bench_open(&bench);
    struct origin_request request = {.method = SLICE("GET"),
                                     .target = SLICE("/"),
                                     .authority = SLICE("a"),
                                     .headers = fields,
                                     .header_count = 4};
    struct origin_fetch *fetch = origin_start(bench.origin, &request, &events, &fault);
    WAIT_UNTIL(&bench, upstream.requests == 1);
    origin_cancel(&fetch);
    cr_expect_str_eq(seen, "GET / HTTP/1.1\r\nhost: a\r\nx-good: 1\r\n\r\n");
    stop();
}

/* ---- which connection ---- */

static void tell_number(struct upstream *up, int fd, int nth)
{
    char text[100];
    snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n%d", nth);
    while (upstream_request(up, fd)) {
        upstream_wait_gate(up, up->requests);
        upstream_send(fd, text);
    }
}

Test(origin, the_connection_used_last_is_used_next)
{
    struct told told[3] = {0};
    start(tell_number, NULL);
    bench_open(&bench);
    for (int i = 0; i < 2; i++)
        fetch_get(&bench, &told[i]);
    WAIT_UNTIL(&bench, upstream.requests == 2);
    upstream.gate = 2;
    wait_end(&bench, &told[0]);
    wait_end(&bench, &told[1]);
    char last = told[0].order == 2 ? told[0].body[0] : told[1].body[0];
    upstream.gate = 3;
    fetch_get(&bench, &told[2]);
    wait_end(&bench, &told[2]);
    cr_expect_eq(told[2].body[0], last);
    cr_expect_eq(upstream.connections, 2);
    stop();
    for (int i = 0; i < 3; i++)
        told_free(&told[i]);
}

static void close_after_answer(struct upstream *up, int fd, int nth)
{
    (void)nth;
    if (upstream_request(up, fd))
        upstream_send(fd, HI);
}

Test(origin, an_idle_connection_that_the_upstream_closed_is_not_used)
{
    start(close_after_answer, NULL);
    bench_open(&bench);
    for (int i = 0; i < 20; i++) { /* POST: a second attempt could not hide it */
        struct told told = {0};
        fetch_start(&bench, &told, "POST", SLICE("x"));
        wait_end(&bench, &told);
        cr_assert_eq(told.fault, FAULT_NONE);
        told_free(&told);
        WAIT_UNTIL(&bench, upstream.fds[i] == -1);
    }
    cr_expect_eq(upstream.requests, 20);
    stop();
}

static void speak_unasked(struct upstream *up, int fd, int nth)
{
    if (!upstream_request(up, fd))
        return;
    upstream_send(fd, HI);
    if (nth == 1) {
        upstream_wait_gate(up, 1);
        upstream_send(fd, HI); /* an answer to nothing: it must not become somebody's */
        up->gate = 2;
    }
    upstream_hang(fd);
}

Test(origin, bytes_that_nobody_asked_for_end_the_connection)
{
    struct told first = {0}, second = {0};
    start(speak_unasked, NULL);
    bench_open(&bench);
    fetch_get(&bench, &first);
    wait_end(&bench, &first);
    upstream.gate = 1;
    WAIT_UNTIL(&bench, upstream.fds[0] == -1);
    fetch_get(&bench, &second);
    wait_end(&bench, &second);
    cr_expect_eq(upstream.connections, 2);
    stop();
    told_free(&first), told_free(&second);
}

Test(origin, an_idle_connection_is_closed_when_it_got_old)
{
    struct told told = {0};
    start(say_hi, NULL);
    bench.limits.keep_idle_ms = 30;
    bench_open(&bench);
    fetch_get(&bench, &told);
    wait_end(&bench, &told);
    WAIT_UNTIL(&bench, upstream.fds[0] == -1);
    stop();
    told_free(&told);
}

/* ---- once more ---- */

/* The first connection answers one request and then closes as the second has come, as servers do that drop
 * idle connections. */
static void close_on_second(struct upstream *up, int fd, int nth)
{
    if (nth > 1) {
        say_hi(up, fd, nth);
        return;
    }
    upstream_request(up, fd);
    upstream_send(fd, HI);
    upstream_request(up, fd);
    if (up->arg != NULL)
        upstream_reset(fd);
}

static void try_stale(const char *method, struct slice body, bool by_reset, enum fault want,
                      int want_requests)
{
    struct told first = {0}, second = {0};
    start(close_on_second, by_reset ? &upstream : NULL);
    bench_open(&bench);
    fetch_get(&bench, &first);
    wait_end(&bench, &first);
    fetch_start(&bench, &second, method, body);
    wait_end(&bench, &second);
    cr_expect_eq(second.fault, want, "%s: %s", method, fault_name(second.fault));
    cr_expect_eq(upstream.requests, want_requests, "%s: %d", method, upstream.requests);
    stop();
    told_free(&first), told_free(&second);
}

Test(origin, what_may_be_repeated_is_when_a_used_connection_broke)
{
    try_stale("GET", NO_BODY, false, FAULT_NONE, 3);
    try_stale("GET", NO_BODY, true, FAULT_NONE, 3);
    try_stale("DELETE", NO_BODY, false, FAULT_NONE, 3);
    try_stale("PUT", SLICE("whole again"), true, FAULT_NONE, 3);
    try_stale("POST", SLICE("once"), false, FAULT_ORIGIN_BROKE, 2);
    try_stale("PATCH", SLICE("once"), true, FAULT_ORIGIN_BROKE, 2);
}

static void hang_up(struct upstream *up, int fd, int nth)
{
    (void)nth;
    upstream_request(up, fd);
}

Test(origin, an_upstream_that_always_hangs_up_is_asked_no_more_than_configured)
{
    for (int retries = 0; retries <= 2; retries++) {
        struct told get = {0}, post = {0};
        start(hang_up, NULL);
        bench.limits.retries = retries;
        bench_open(&bench);
        fetch_get(&bench, &get);
        wait_end(&bench, &get);
        cr_expect_eq(get.fault, FAULT_ORIGIN_BROKE);
        cr_expect_eq(upstream.requests, 1 + retries);
        fetch_start(&bench, &post, "POST", SLICE("x"));
        wait_end(&bench, &post);
        cr_expect_eq(post.fault, FAULT_ORIGIN_BROKE);
        cr_expect_eq(upstream.requests, 2 + retries);
        stop();
    }
}

/* ---- connecting ---- */

Test(origin, a_closed_port_refuses)
{
    struct told told = {0};
    start(say_hi, NULL);
    upstream_stop(&upstream);
    bench_open(&bench);
    fetch_get(&bench, &told);
    wait_end(&bench, &told);
    cr_expect_eq(told.fault, FAULT_ORIGIN_REFUSED);
    bench_stop(&bench);
}

Test(origin, a_name_that_cannot_be_refuses)
{
    struct told told = {0};
    start(say_hi, NULL);
    bench.limits.host = SLICE("no..such");
    bench_open(&bench);
    fetch_get(&bench, &told);
    wait_end(&bench, &told);
    cr_expect_eq(told.fault, FAULT_ORIGIN_REFUSED);
    stop();
}

Test(origin,
     a_refusing_address_is_passed_over_for_the_next) /* localhost may be ::1 first, where nobody listens */
{
    struct told told = {0};
    start(say_hi, NULL);
    bench.limits.host = SLICE("localhost");
    bench_open(&bench);
    fetch_get(&bench, &told);
    wait_end(&bench, &told);
    cr_expect_eq(told.fault, FAULT_NONE);
    stop();
    told_free(&told);
}

/* ---- the line ---- */

Test(origin, beyond_the_line_a_fetch_is_turned_off_and_the_rest_go_in_order)
{
    struct told told[4] = {0};
    start(say_hi_when_let, NULL);
    bench.limits.max_connections = 1;
    bench.limits.max_pending = 2;
    bench_open(&bench);
    for (int i = 0; i < 4; i++)
        fetch_get(&bench, &told[i]);
    cr_expect_eq(origin_under_way(bench.origin), 4);
    wait_end(&bench, &told[3]);
    cr_expect_eq(told[3].fault, FAULT_ORIGIN_SATURATED);
    cr_expect_eq(told[3].order, 1);
    WAIT_UNTIL(&bench, upstream.requests == 1);
    for (int i = 0; i < 3; i++) {
        upstream.gate = i + 1;
        wait_end(&bench, &told[i]);
        cr_expect_eq(told[i].fault, FAULT_NONE);
        cr_expect_eq(told[i].order, i + 2);
        cr_expect_geq(bench.ended, 0);
    }
    cr_expect_eq(upstream.connections, 1);
    stop();
    for (int i = 0; i < 4; i++)
        told_free(&told[i]);
}

Test(origin, a_burst_of_one_turn_may_use_every_free_connection)
{
    struct told told[8] = {0};
    start(say_hi, NULL);
    bench.limits.max_connections = 8;
    bench.limits.max_pending = 0;
    bench_open(&bench);
    for (int round = 0; round < 3; round++) { /* idle ones count as free too */
        for (int i = 0; i < 8; i++)
            fetch_get(&bench, &told[i]);
        for (int i = 0; i < 8; i++) {
            wait_end(&bench, &told[i]);
            cr_expect_eq(told[i].fault, FAULT_NONE);
            told_free(&told[i]);
        }
    }
    cr_expect_eq(upstream.connections, 8);
    stop();
}

Test(origin, a_connection_that_failed_leaves_its_place_to_the_next_in_line)
{
    struct told told[3] = {0};
    start(hang_up, NULL);
    bench.limits.max_connections = 1;
    bench.limits.retries = 0;
    bench_open(&bench);
    for (int i = 0; i < 3; i++)
        fetch_get(&bench, &told[i]);
    for (int i = 0; i < 3; i++) {
        wait_end(&bench, &told[i]);
        cr_expect_eq(told[i].fault, FAULT_ORIGIN_BROKE);
    }
    stop();
}

/* ---- leaving ---- */

Test(origin, a_fetch_may_be_cancelled_wherever_it_is)
{
    struct told told = {0}, waiting = {0}, turned_off = {0}, after = {0};
    start(say_hi_when_let, NULL);
    bench.limits.max_connections = 1;
    bench.limits.max_pending = 1;
    bench_open(&bench);
    fetch_get(&bench, &told); /* not yet given anything */
    fetch_get(&bench, &waiting);
    fetch_get(&bench, &turned_off);
    origin_cancel(&turned_off.fetch);
    origin_cancel(&waiting.fetch);
    origin_cancel(&told.fetch);
    cr_expect_null(told.fetch);
    cr_expect_eq(origin_under_way(bench.origin), 0);
    origin_cancel(&told.fetch); /* and again */

    fetch_get(&bench, &told);
    loop_turn(bench.loop, 0); /* connecting */
    origin_cancel(&told.fetch);

    fetch_get(&bench, &told);
    fetch_get(&bench, &waiting);
    WAIT_UNTIL(&bench, upstream.requests == 1); /* asked */
    origin_cancel(&told.fetch);
    WAIT_UNTIL(&bench, upstream.requests == 2); /* its place went to the next */
    upstream.gate = 100;
    wait_end(&bench, &waiting);
    cr_expect_eq(waiting.fault, FAULT_NONE);
    fetch_get(&bench, &after);
    wait_end(&bench, &after);
    cr_expect_eq(after.fault, FAULT_NONE);
    cr_expect_eq(told.heads + told.ends + turned_off.ends, 0);
    stop();
    told_free(&waiting), told_free(&after);
}

Test(origin, a_fetch_may_be_cancelled_while_its_name_is_looked_up)
{
    start(say_hi, NULL);
    bench.limits.host = SLICE("localhost");
    bench_open(&bench);
    for (int i = 0; i < 50; i++) {
        struct told told = {0};
        fetch_get(&bench, &told);
        loop_turn(bench.loop, 0);
        origin_cancel(&told.fetch);
        cr_expect_eq(origin_under_way(bench.origin), 0);
    }
    stop();
}

static void send_chunks(struct upstream *up, int fd, int nth)
{
    (void)nth;
    while (upstream_request(up, fd))
        upstream_send(
            fd,
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n");
}

Test(origin, a_fetch_may_be_cancelled_inside_its_callbacks)
{
    struct told in_head = {.cancel_at = CANCEL_IN_HEAD}, in_body = {.cancel_at = CANCEL_IN_BODY}, after = {0};
    start(send_chunks, NULL);
    bench_open(&bench);
    fetch_get(&bench, &in_head);
    WAIT_UNTIL(&bench, in_head.heads == 1);
    cr_expect_eq(in_head.body_len + (size_t)in_head.ends, 0);
    fetch_get(&bench, &in_body);
    WAIT_UNTIL(&bench, in_body.body_len == 1);
    fetch_get(&bench, &after);
    wait_end(&bench, &after);
    cr_expect_eq(after.body_len, 3);
    cr_expect_eq(in_body.body_len, 1);
    cr_expect_eq(in_body.ends, 0);
    cr_expect_eq(upstream.connections, 3, "a connection with half an answer on it serves nobody else");
    stop();
    told_free(&in_body), told_free(&after);
}
