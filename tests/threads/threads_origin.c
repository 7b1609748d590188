/* Two loops, each with a pool of its own, share one resolver: names are looked up, asked for by both, and
 * left again, while answers come. For ThreadSanitizer; prints nothing where all is well. */
#include "clock.h"
#include "loop.h"
#include "origin.h"

#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LOOPS = 2, ROUNDS = 40, FETCHES = 6 };

static int port;
static struct resolver *resolver;
static atomic_int whole, failed;

static void *serve(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char bytes[4096];
    while (recv(fd, bytes, sizeof(bytes), 0) > 0) /* a request of these tests comes in one piece */
        if (send(fd, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi", 40, MSG_NOSIGNAL) < 0)
            break;
    close(fd);
    return NULL;
}

static void *accept_all(void *arg)
{
    int listener = (int)(intptr_t)arg, fd;
    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd);
        pthread_detach(thread);
    }
    return NULL;
}

static void on_head(void *arg, const struct origin_response *head)
{
    (void)arg, (void)head;
}

static void on_body(void *arg, struct slice bytes)
{
    (void)arg, (void)bytes;
}

static void on_end(void *arg, enum fault fault)
{
    *(struct origin_fetch **)arg = NULL;
    atomic_fetch_add(fault == FAULT_NONE ? &whole : &failed, 1);
}

static void run_round(struct loop *loop, int round)
{
    static const char *const hosts[] = {"localhost", "no..such", "LocalHost", "127.0.0.1"};
    static const struct origin_events events = {.on_head = on_head, .on_body = on_body, .on_end = on_end};
    struct origin_limits limits = {.host = slice_text(hosts[round % 4]),
                                   .port = port,
                                   .connect_timeout_ms = 10000,
                                   .first_byte_timeout_ms = 10000,
                                   .idle_timeout_ms = 10000,
                                   .max_connections = 3,
                                   .max_pending = FETCHES,
                                   .retries = 1};
    struct origin *origin = origin_new(loop, resolver, &limits);
    struct origin_fetch *fetches[FETCHES];
    struct origin_request request = {.method = SLICE("GET"), .target = SLICE("/"), .authority = SLICE("a")};

    for (int i = 0; i < FETCHES; i++)
        fetches[i] = origin_start(origin, &request, &events, &fetches[i]);
    loop_turn(loop, 0);
    for (int i = 0; i < FETCHES; i += 3)
        origin_cancel(&fetches[i]);
    for (int64_t until = clock_mono().ms + 20000; origin_under_way(origin) > 0;) {
        if (clock_mono().ms > until) {
            fprintf(stderr, "a fetch never ended\n");
            exit(1);
        }
        loop_turn(loop, 10);
    }
    origin_free(origin);
    loop_turn(loop, 0);
}

static void *run_loop(void *arg)
{
    struct loop *loop = loop_new();
    (void)arg;
    for (int round = 0; round < ROUNDS; round++)
        run_round(loop, round);
    loop_free(loop);
    return NULL;
}

int main(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    pthread_t acceptor, threads[LOOPS];

    signal(SIGPIPE, SIG_IGN);
    if (bind(listener, (struct sockaddr *)&address, len) != 0 || listen(listener, 128) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &len) != 0)
        return 1;
    port = ntohs(address.sin_port);
    pthread_create(&acceptor, NULL, accept_all, (void *)(intptr_t)listener);
    resolver = resolver_new(2);
    for (int i = 0; i < LOOPS; i++)
        pthread_create(&threads[i], NULL, run_loop, NULL);
    for (int i = 0; i < LOOPS; i++)
        pthread_join(threads[i], NULL);
    resolver_free(resolver);
    shutdown(listener, SHUT_RDWR);
    pthread_join(acceptor, NULL);
    close(listener);
    if (whole == 0 || failed == 0) { /* some names exist, one does not */
        fprintf(stderr, "%d whole, %d failed\n", (int)whole, (int)failed);
        return 1;
    }
    return 0;
}
