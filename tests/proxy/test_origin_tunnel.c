/* Origin tunnel: a connection that changes its protocol, from the agreement to every way in which it ends. */
#include "origin_tunnel.h"
#include "support_fetch.h"
#include "support_upstream.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define AGREED "HTTP/1.1 101 Changing\r\nconnection: upgrade\r\nupgrade: chat\r\nx-more: yes\r\n\r\n"

TestSuite(origin_tunnel, .timeout = 60);

static struct upstream upstream;
static struct bench bench;
static struct told told;

static struct {
    char got[64];
    size_t total;
    int finished, sent, broken;
    bool goes_on, closes_in_bytes;
} end;

static void on_bytes(void *arg, struct slice bytes)
{
    (void)arg;
    if (end.total < sizeof(end.got)) {
        size_t some = bytes.len < sizeof(end.got) - end.total ? bytes.len : sizeof(end.got) - end.total;
        memcpy(end.got + end.total, bytes.base, some);
    }
    end.total += bytes.len;
    if (end.closes_in_bytes)
        origin_tunnel_close(&told.tunnel);
    else if (end.goes_on)
        origin_tunnel_go_on(told.tunnel);
}

static void on_finished(void *arg)
{
    (void)arg;
    end.finished++;
}

static void on_sent(void *arg)
{
    (void)arg;
    end.sent++;
}

static void on_broken(void *arg)
{
    (void)arg;
    end.broken++;
}

static const struct origin_tunnel_events EVENTS = {on_bytes, on_finished, on_sent, on_broken};

static void start(void (*serve)(struct upstream *, int, int))
{
    memset(&end, 0, sizeof(end));
    end.goes_on = true;
    upstream_start(&upstream, serve, NULL);
    bench_start(&bench, "127.0.0.1", upstream.port);
    bench_open(&bench);
}

static void open_tunnel(void)
{
    fetch_upgrade(&bench, &told, "chat");
    WAIT_UNTIL(&bench, told.tunnel != NULL || told.ends > 0);
    cr_assert_not_null(told.tunnel);
    origin_tunnel_open(told.tunnel, &EVENTS, NULL);
    cr_assert(end.total == 0 && end.finished == 0, "nothing is told inside");
}

static void stop(void)
{
    origin_tunnel_close(&told.tunnel);
    bench_stop(&bench);
    upstream_stop(&upstream);
    told_free(&told);
}

static void agree_and_echo(struct upstream *up, int fd, int nth)
{
    char room[4096];
    ssize_t got;

    (void)nth;
    if (!upstream_request(up, fd))
        return;
    upstream_send(fd, AGREED "early");
    while ((got = read(fd, room, sizeof(room))) > 0)
        upstream_send_bytes(fd, room, (size_t)got);
    upstream_send(fd, "bye");
}

Test(origin_tunnel, bytes_pass_both_ways_and_each_half_ends_by_itself)
{
    start(agree_and_echo);
    open_tunnel();
    cr_assert_eq(told.status, 101);
    cr_assert_not_null(strstr(told.headers, "upgrade: chat\n"));
    cr_assert_not_null(strstr(told.headers, "x-more: yes\n"));
    cr_assert_null(strstr(told.headers, "connection"));
    WAIT_UNTIL(&bench, end.total == 5);
    origin_tunnel_send(told.tunnel, SLICE("hello"));
    cr_assert_eq(end.sent, 0, "not inside");
    WAIT_UNTIL(&bench, end.total == 10 && end.sent == 1);
    cr_assert_eq(memcmp(end.got, "earlyhello", 10), 0);
    origin_tunnel_finish(told.tunnel);
    WAIT_UNTIL(&bench, end.finished == 1);
    cr_assert_eq(memcmp(end.got + 10, "bye", 3), 0, "after our half had ended");
    cr_assert_eq(end.broken, 0);
    stop();
}

static void agree_and_flood(struct upstream *up, int fd, int nth)
{
    char block[4096];

    (void)nth;
    memset(block, 'x', sizeof(block));
    if (!upstream_request(up, fd))
        return;
    upstream_send(fd, AGREED);
    for (int i = 0; i < 4096 && upstream_send_bytes(fd, block, sizeof(block)); i++)
        atomic_fetch_add(&up->gate, 1);
}

Test(origin_tunnel, nothing_is_read_before_what_was_read_is_taken)
{
    size_t one_read;

    start(agree_and_flood);
    end.goes_on = false;
    open_tunnel();
    WAIT_UNTIL(&bench, end.total > 0);
    one_read = end.total;
    for (int i = 0; i < 20; i++)
        loop_turn(bench.loop, 10);
    cr_assert_eq(end.total, one_read);
    cr_assert_leq(one_read, 64 * 1024, "what came with the head at most");
    end.goes_on = true;
    origin_tunnel_go_on(told.tunnel);
    WAIT_UNTIL(&bench, end.total == 16 * 1024 * 1024);
    stop();
}

Test(origin_tunnel, it_may_be_closed_in_the_midst_of_being_told)
{
    start(agree_and_flood);
    end.closes_in_bytes = true;
    open_tunnel();
    WAIT_UNTIL(&bench, told.tunnel == NULL);
    loop_turn(bench.loop, 10);
    stop();
}

static void agree_and_reset(struct upstream *up, int fd, int nth)
{
    char byte;

    (void)nth;
    if (!upstream_request(up, fd))
        return;
    upstream_send(fd, AGREED);
    (void)!read(fd, &byte, 1);
    upstream_reset(fd);
}

Test(origin_tunnel, a_broken_connection_is_told_once)
{
    start(agree_and_reset);
    open_tunnel();
    origin_tunnel_send(told.tunnel, SLICE("x"));
    WAIT_UNTIL(&bench, end.broken == 1);
    for (int i = 0; i < 5; i++)
        loop_turn(bench.loop, 5);
    cr_assert(end.broken == 1 && end.finished == 0);
    stop();
}

static void refuse(struct upstream *up, int fd, int nth)
{
    (void)nth;
    while (upstream_request(up, fd))
        upstream_send(fd, "HTTP/1.1 403 No\r\ncontent-length: 2\r\n\r\nno");
}

Test(origin_tunnel, who_does_not_agree_answers_as_always_on_a_connection_that_is_used_no_more)
{
    struct told second = {0};

    start(refuse);
    fetch_upgrade(&bench, &told, "chat");
    wait_end(&bench, &told);
    cr_assert(told.fault == FAULT_NONE && told.status == 403 && told.tunnel == NULL && told.body_len == 2);
    fetch_get(&bench, &second);
    wait_end(&bench, &second);
    cr_assert_eq(atomic_load(&upstream.connections), 2);
    told_free(&second);
    stop();
}

Test(origin_tunnel, it_holds_its_place_among_the_connections_until_it_is_closed)
{
    struct told first = {0};

    upstream_start(&upstream, agree_and_echo, NULL);
    bench_start(&bench, "127.0.0.1", upstream.port);
    bench.limits.max_connections = 1;
    bench_open(&bench);
    memset(&end, 0, sizeof(end));
    fetch_upgrade(&bench, &told, "chat");
    WAIT_UNTIL(&bench, told.tunnel != NULL);
    fetch_upgrade(&bench, &first, "chat");
    for (int i = 0; i < 5; i++)
        loop_turn(bench.loop, 5);
    cr_assert_null(first.tunnel, "the tunnel has the only connection");
    origin_tunnel_close(&told.tunnel);
    WAIT_UNTIL(&bench, first.tunnel != NULL);
    told.tunnel = first.tunnel;
    cr_assert_eq(atomic_load(&upstream.connections), 2);
    stop();
}
