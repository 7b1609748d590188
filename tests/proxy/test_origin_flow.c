/* Large bodies both ways, and silence: back-pressure, early answers, and every timeout. */
#include "support_fetch.h"
#include "support_upstream.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HI "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
enum { MIB = 1024 * 1024, LARGE = 32 * MIB };

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

/* ---- large bodies ---- */

static atomic_size_t sent_bytes;

static void send_large(struct upstream *up, int fd, int nth)
{
    char *block = malloc(MIB);
    (void)nth;
    memset(block, 'x', MIB);
    while (upstream_request(up, fd)) {
        upstream_send(fd, "HTTP/1.1 200 OK\r\ncontent-length: 33554432\r\n\r\n");
        for (int i = 0; i < 32 * 16 && upstream_send_bytes(fd, block, MIB / 16); i++)
            sent_bytes += MIB / 16;
    }
    free(block);
}

/* No more turns of the loop make the upstream send more: what is under way is bounded by the kernel's buffers
 * and one read. */
static size_t settled_bytes(void)
{
    size_t before;
    do {
        before = sent_bytes;
        int64_t until = wait_clock_ms() + 200;
        while (wait_clock_ms() < until)
            loop_turn(bench.loop, 10);
    } while (before != sent_bytes);
    return before;
}

Test(origin_flow, a_paused_fetch_holds_its_upstream_back_and_misses_nothing)
{
    struct told told = {.pause_in_body = true};
    start(send_large, NULL);
    bench.limits.idle_timeout_ms = 100; /* which rests meanwhile */
    bench_open(&bench);
    fetch_get(&bench, &told);
    WAIT_UNTIL(&bench, told.body_len > 0);
    cr_expect_lt(settled_bytes(), LARGE);
    cr_expect_leq(told.body_len, 64 * 1024);
    cr_expect_eq(told.ends, 0);
    bench.limits.idle_timeout_ms = 5000;
    while (told.ends == 0) { /* one read at a time */
        size_t before = told.body_len;
        origin_resume(told.fetch);
        WAIT_UNTIL(&bench, told.body_len > before || told.ends > 0);
        cr_expect_leq(told.body_len - before, 64 * 1024);
    }
    cr_expect_eq(told.fault, FAULT_NONE);
    cr_expect_eq(told.body_len, LARGE);
    stop();
    told_free(&told);
}

static void count_body(struct upstream *up, int fd, int nth)
{
    char *room = malloc(LARGE + 4096);
    (void)nth;
    while (upstream_read(up, fd, room, LARGE + 4096)) {
        char *body = strstr(room, "\r\n\r\n") + 4, text[200], digits[32];
        unsigned long sum = 0;
        for (size_t i = 0; i < LARGE; i++)
            sum = sum * 31 + (unsigned char)body[i];
        snprintf(digits, sizeof(digits), "%lu", sum);
        snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\ncontent-length: %zu\r\n\r\n%s", strlen(digits),
                 digits);
        upstream_send(fd, text);
    }
    free(room);
}

Test(origin_flow, a_large_request_arrives_whole_and_its_connection_stays)
{
    char *body = malloc(LARGE), want[32];
    unsigned long sum = 0;
    for (size_t i = 0; i < LARGE; i++) {
        body[i] = (char)(i * 7 + i / 4096);
        sum = sum * 31 + (unsigned char)body[i];
    }
    snprintf(want, sizeof(want), "%lu", sum);
    start(count_body, NULL);
    bench_open(&bench);
    for (int i = 0; i < 2; i++) {
        struct told told = {0};
        fetch_start(&bench, &told, "POST", slice_of(body, LARGE));
        wait_end(&bench, &told);
        cr_assert_eq(told.fault, FAULT_NONE);
        cr_expect(slice_eq(slice_of(told.body, told.body_len), slice_text(want)));
        told_free(&told);
    }
    cr_expect_eq(upstream.connections, 1);
    stop();
    free(body);
}

/* Says no after the first bytes, and takes no more. */
static void refuse_early(struct upstream *up, int fd, int nth)
{
    char some[1000];
    (void)nth;
    if (recv(fd, some, sizeof(some), 0) <= 0)
        return;
    up->requests++;
    upstream_send(fd, "HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno");
    if (up->arg == NULL)
        upstream_wait_gate(up, 1);
}

Test(origin_flow, an_answer_before_the_request_is_whole_is_delivered_and_ends_the_connection)
{
    char *body = calloc(1, LARGE);
    struct told told = {0};
    start(refuse_early, NULL);
    bench_open(&bench);
    fetch_start(&bench, &told, "POST", slice_of(body, LARGE));
    wait_end(&bench, &told);
    cr_expect_eq(told.fault, FAULT_NONE);
    cr_expect_eq(told.status, 413);
    upstream.gate = 1;
    WAIT_UNTIL(&bench, upstream.fds[0] == -1);
    struct told second = {0};
    fetch_start(&bench, &second, "POST", slice_of(body, LARGE));
    wait_end(&bench, &second);
    cr_expect_eq(upstream.connections, 2);
    stop();
    told_free(&told), told_free(&second);
    free(body);
}

/* Here the close resets the connection while we write; the answer may or may not survive that, but it ends,
 * once. */
Test(origin_flow, an_upstream_that_slams_the_door_while_we_write_is_survived)
{
    char *body = calloc(1, LARGE);
    start(refuse_early, &upstream);
    bench_open(&bench);
    for (int i = 0; i < 20; i++) {
        struct told told = {0};
        fetch_start(&bench, &told, "POST", slice_of(body, LARGE));
        wait_end(&bench, &told);
        cr_expect(told.fault == FAULT_NONE || told.fault == FAULT_ORIGIN_BROKE);
        cr_expect(told.fault != FAULT_NONE || told.body_len == 2);
        told_free(&told);
    }
    stop();
    free(body);
}

/* ---- silence ---- */

static void say_nothing(struct upstream *up, int fd, int nth)
{
    (void)nth;
    if (upstream_request(up, fd) && up->arg != NULL)
        upstream_send(fd, up->arg);
    upstream_hang(fd);
}

Test(origin_flow, silence_ends_a_fetch_wherever_it_falls)
{
    static const struct {
        const char *why;
        char *said;
        int64_t first_byte_ms, idle_ms;
        size_t body_len;
    } rows[] = {
        {"no byte", NULL, 50, 5000, 0},
        {"half a head", "HTTP/1.1 200 OK\r\nx-a: b", 50, 5000, 0},
        {"interim heads do not count", "HTTP/1.1 100 Continue\r\n\r\n", 50, 5000, 0},
        {"no byte of the body", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", 5000, 50, 0},
        {"half a body", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhe", 5000, 50, 2},
        {"a body without end", "HTTP/1.1 200 OK\r\n\r\nhe", 5000, 50, 2},
        {"the last chunk does not come", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n",
         5000, 50, 2},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct told told = {0};
        start(say_nothing, rows[i].said);
        bench.limits.first_byte_timeout_ms = rows[i].first_byte_ms;
        bench.limits.idle_timeout_ms = rows[i].idle_ms;
        bench_open(&bench);
        fetch_get(&bench, &told);
        wait_end(&bench, &told);
        cr_expect_eq(told.fault, FAULT_ORIGIN_SILENT, "%s: %s", rows[i].why, fault_name(told.fault));
        cr_expect_eq(told.body_len, rows[i].body_len, "%s", rows[i].why);
        cr_expect_eq(upstream.requests, 1, "%s: a slow upstream is not helped by asking twice", rows[i].why);
        stop();
        told_free(&told);
    }
}

static void read_nothing(struct upstream *up, int fd, int nth)
{
    (void)fd, (void)nth;
    upstream_wait_gate(up, 1);
}

Test(origin_flow, an_upstream_that_takes_no_more_of_a_request_is_silent_too)
{
    char *body = calloc(1, LARGE);
    struct told told = {0};
    start(read_nothing, NULL);
    bench.limits.idle_timeout_ms = 100;
    bench_open(&bench);
    fetch_start(&bench, &told, "PUT", slice_of(body, LARGE));
    wait_end(&bench, &told);
    cr_expect_eq(told.fault, FAULT_ORIGIN_SILENT);
    stop();
    free(body);
}

/* Each byte comes when the one before was seen, so that no pause is long though the whole is. */
static void trickle(struct upstream *up, int fd, int nth)
{
    (void)nth;
    if (!upstream_request(up, fd))
        return;
    upstream_send(fd, "HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n");
    for (int i = 1; i <= 20; i++) {
        upstream_wait_gate(up, i);
        upstream_send(fd, "x");
    }
    upstream_hang(fd);
}

Test(origin_flow, the_idle_timeout_is_about_pauses_not_about_the_whole)
{
    struct told told = {0};
    start(trickle, NULL);
    bench.limits.idle_timeout_ms = 1000;
    bench_open(&bench);
    fetch_get(&bench, &told);
    int64_t started = wait_clock_ms();
    for (int i = 1; i <= 20; i++) {
        int64_t until = wait_clock_ms() + 80;
        while (wait_clock_ms() < until)
            loop_turn(bench.loop, 10);
        upstream.gate = i;
        WAIT_UNTIL(&bench, told.body_len == (size_t)i);
    }
    wait_end(&bench, &told);
    cr_expect_eq(told.fault, FAULT_NONE);
    cr_expect_gt(wait_clock_ms() - started, bench.limits.idle_timeout_ms);
    stop();
    told_free(&told);
}

Test(origin_flow, waiting_in_line_ends)
{
    struct told told = {0}, waiting = {0};
    start(say_nothing, NULL);
    bench.limits.max_connections = 1;
    bench.limits.first_byte_timeout_ms = 100;
    bench_open(&bench);
    fetch_get(&bench, &told);
    fetch_get(&bench, &waiting);
    wait_end(&bench, &told);
    wait_end(&bench, &waiting);
    cr_expect_eq(told.fault, FAULT_ORIGIN_SILENT);
    cr_expect(waiting.fault == FAULT_ORIGIN_SATURATED || waiting.fault == FAULT_ORIGIN_SILENT);
    stop();
}

/* ---- connecting to nobody ---- */

/* A listener whose queue is full drops what else comes: the connection attempt hangs. */
struct full_house {
    int listener, guests[16], port;
};

static void full_house_open(struct full_house *house)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    house->listener = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(bind(house->listener, (struct sockaddr *)&address, len), 0);
    cr_assert_eq(listen(house->listener, 0), 0);
    getsockname(house->listener, (struct sockaddr *)&address, &len);
    house->port = ntohs(address.sin_port);
    for (int i = 0; i < 16; i++) {
        house->guests[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)!connect(house->guests[i], (struct sockaddr *)&address, sizeof(address));
    }
}

static void full_house_close(struct full_house *house)
{
    for (int i = 0; i < 16; i++)
        close(house->guests[i]);
    close(house->listener);
}

Test(origin_flow, connecting_ends)
{
    struct full_house house;
    struct told told = {0};
    full_house_open(&house);
    bench_start(&bench, "127.0.0.1", house.port);
    bench.limits.connect_timeout_ms = 100;
    bench_open(&bench);
    fetch_get(&bench, &told);
    wait_end(&bench, &told);
    cr_expect_eq(told.fault, FAULT_ORIGIN_CONNECT_TIMEOUT);
    bench_stop(&bench);
    full_house_close(&house);
}

Test(origin_flow, connecting_may_be_cancelled)
{
    struct full_house house;
    struct told told = {0};
    full_house_open(&house);
    bench_start(&bench, "127.0.0.1", house.port);
    bench_open(&bench);
    fetch_get(&bench, &told);
    for (int i = 0; i < 5; i++)
        loop_turn(bench.loop, 1);
    cr_assert_eq(told.ends, 0);
    origin_cancel(&told.fetch);
    bench_stop(&bench);
    full_house_close(&house);
}
