/* Worker: whole requests through one worker on the memory store; reload and drain with work under way. */
#include "log.h"
#include "near.h"
#include "origin.h"
#include "peers.h"
#include "support_upstream.h"
#include "worker.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(worker, .timeout = 60);

enum { CLIENT_PATIENCE_MS = 20000, RELEASED = 1 };

static struct upstream upstream;
static struct commons commons;
static struct worker *worker;
static int port;

/* ---- the other side ---- */

/* Answers /slow... once the gate is open, everything else at once. */
static void serve(struct upstream *self, int fd, int nth)
{
    char request[4096];

    (void)nth;
    while (upstream_read(self, fd, request, sizeof(request))) {
        bool is_head = strncmp(request, "HEAD", 4) == 0;

        if (strstr(request, "/slow") != NULL)
            upstream_wait_gate(self, RELEASED);
        if (!upstream_send(fd, is_head ? "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
                                       : "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"))
            return;
    }
}

static struct settings *settings_with(const char *routes)
{
    char text[2048];
    struct settings *settings;
    int len = snprintf(text, sizeof(text),
                       "workers: 1\n"
                       "drain_timeout: 2s\n"
                       "log: { access: 'off', level: error }\n"
                       "upstreams:\n"
                       "  api: { servers: ['http://127.0.0.1:%d'] }\n"
                       "routes:\n%s",
                       upstream.port, routes);

    settings = settings_parse("test.yaml", text, (size_t)len, stderr);
    cr_assert_not_null(settings);
    return settings;
}

static const char CACHING[] = "  - match: GET,HEAD /**\n"
                              "    upstream: api\n"
                              "    cache: { ttl: 60s }\n";
static const char OTHER[] = "  - match: GET /other/**\n"
                            "    upstream: api\n";

static void start_worker(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(any);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct settings *settings = settings_with(CACHING);

    cr_assert_eq(bind(fd, (struct sockaddr *)&any, len), 0);
    cr_assert_eq(listen(fd, 64), 0);
    getsockname(fd, (struct sockaddr *)&any, &len);
    port = ntohs(any.sin_port);
    worker = worker_start(&commons, settings, &fd, 1);
    settings_release(&settings);
}

static void start(void)
{
    upstream_start(&upstream, serve, NULL);
    commons.near = near_new(1 << 20, 1 << 18);
    commons.memory = store_memory_new(commons.near);
    commons.resolver = resolver_new(1);
    commons.peers = peers_new();
    start_worker();
}

static void stop(void)
{
    upstream_stop(&upstream);
    store_memory_free(commons.memory);
    near_free(commons.near);
    resolver_free(commons.resolver);
    peers_free(commons.peers);
}

static void drain(void)
{
    worker_drain(worker);
    worker_join(&worker);
}

/* ---- clients ---- */

static int client_ask(const char *method, const char *target)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    dprintf(fd, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", method, target);
    return fd;
}

/* Everything until the worker closes. */
static const char *client_finish(int fd)
{
    static char got[8192];
    size_t len = 0;

    for (;;) {
        struct pollfd readable = {fd, POLLIN, 0};
        ssize_t n;

        cr_assert_eq(poll(&readable, 1, CLIENT_PATIENCE_MS), 1, "no answer in time");
        n = read(fd, got + len, sizeof(got) - 1 - len);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    got[len] = '\0';
    close(fd);
    return got;
}

static const char *client_get(const char *target)
{
    return client_finish(client_ask("GET", target));
}

static void wait_for_requests(int count)
{
    while (atomic_load(&upstream.requests) < count)
        poll(NULL, 0, 1);
}

static void expect(const char *answer, const char *part)
{
    cr_assert_not_null(strstr(answer, part), "no '%s' in '%s'", part, answer);
}

/* ---- promises ---- */

Test(worker, a_miss_is_loaded_and_then_hit)
{
    start();
    expect(client_get("/a"), "x-cache: MISS");
    const char *hit = client_get("/a");
    expect(hit, "x-cache: HIT");
    expect(hit, "\r\n\r\nhello");
    cr_assert_eq(atomic_load(&upstream.requests), 1);
    drain();
    stop();
}

Test(worker, a_head_is_answered_from_the_copy_without_its_body)
{
    char path[] = "/tmp/weir-access-XXXXXX", lines[4096];
    int fd = mkstemp(path);
    struct log_settings log = {.access = path, .format = LOG_JSON, .level = LOG_ERROR};

    cr_assert(access_log_open(&log));
    start();
    client_get("/a");
    const char *head = client_finish(client_ask("HEAD", "/a"));
    expect(head, "x-cache: HIT");
    expect(head, "Content-Length: 5");
    cr_assert_str_eq(strstr(head, "\r\n\r\n"), "\r\n\r\n");
    cr_assert_eq(atomic_load(&upstream.requests), 1);
    drain();
    access_log_close();
    ssize_t len = read(fd, lines, sizeof(lines) - 1);
    cr_assert_gt(len, 0);
    lines[len] = '\0';
    expect(strstr(lines, "\"HEAD\""), "\"body_bytes\":0,");
    close(fd);
    unlink(path);
    stop();
}

Test(worker, a_reload_is_for_new_requests_and_those_under_way_end_as_they_began)
{
    start();
    int slow[2] = {client_ask("GET", "/slow/1"), client_ask("GET", "/slow/2")};
    wait_for_requests(2);
    struct settings *other = settings_with(OTHER);
    worker_reload(worker, other);
    worker_reload(worker, other);
    settings_release(&other);
    expect(client_get("/a"), "no_route");
    expect(client_get("/other/1"), "hello");
    close(slow[1]); /* its load has nobody left, under a configuration that nobody else holds */
    atomic_store(&upstream.gate, RELEASED);
    expect(client_finish(slow[0]), "x-cache: MISS");
    drain();
    stop();
}

/* Once the process ended with its last client, and what it had loaded was lost. */
Test(worker, a_drain_waits_for_a_load_whose_client_has_left)
{
    start();
    int slow = client_ask("GET", "/slow");
    wait_for_requests(1);
    close(slow);
    worker_drain(worker);
    atomic_store(&upstream.gate, RELEASED);
    worker_join(&worker);
    start_worker(); /* on the same store */
    expect(client_get("/slow"), "x-cache: HIT");
    cr_assert_eq(atomic_load(&upstream.requests), 1);
    drain();
    stop();
}

Test(worker, a_drain_lets_requests_under_way_finish)
{
    start();
    int slow = client_ask("GET", "/slow");
    wait_for_requests(1);
    worker_drain(worker);
    atomic_store(&upstream.gate, RELEASED);
    expect(client_finish(slow), "hello");
    worker_join(&worker);
    stop();
}

Test(worker, a_drain_ends_by_its_timeout_whatever_hangs)
{
    start();
    int waiting = client_ask("GET", "/slow/1"), gone = client_ask("GET", "/slow/2");
    wait_for_requests(2);
    close(gone);
    drain(); /* the upstream never answers */
    close(waiting);
    start_worker();
    atomic_store(&upstream.gate, RELEASED);
    expect(client_get("/slow/1"), "hello"); /* the lock was given back: nobody waits for its lease */
    drain();
    stop();
}
