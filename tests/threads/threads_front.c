/* Two fronts in two threads on one address, clients in others, for the thread sanitizer: each answer is
 * whole, and each request that was shown is gone once. The argument "load PORT" makes it a server for a load
 * generator instead. */
#include "front.h"
#include "loop.h"
#include "stats.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FRONTS = 2, CLIENTS = 4, CONNECTIONS = 25, REQUESTS = 8 };

struct place {
    pthread_t thread;
    struct loop *loop;
    struct front *front;
    struct letter farewell;
    bool is_over;
    int fd, shown, gone;
};

static struct place places[FRONTS];
static pthread_barrier_t all_ready;
static volatile sig_atomic_t is_told_to_stop;
static _Atomic int wrong_answers;

static void on_gone(void *arg)
{
    struct place *place = arg;

    place->gone++;
}

static void on_ready(void *arg)
{
    (void)arg;
}

static void on_request(void *app, struct client_request *request)
{
    static const char body[] = "one hundred bytes, or so, to be answered in the turn in which the request "
                               "arrived: 0123456789abcdefgh\n";
    static const struct header headers[] = {{{"content-type", 12}, {"text/plain", 10}}};
    struct response_head head = {200, headers, 1, sizeof(body) - 1, {NULL, 0}};
    struct slice piece = {body, sizeof(body) - 1};
    struct place *place = app;

    place->shown++;
    client_on_gone(request, on_gone, place);
    client_start(request, &head, on_ready, NULL);
    client_send(request, &piece, 1, CLIENT_LAST);
}

static int listen_on(int *port)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)*port)};
    socklen_t len = sizeof(at);
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(fd, 128) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) != 0) {
        perror("listen");
        exit(1);
    }
    *port = ntohs(at.sin_port);
    return fd;
}

static void open_front(struct place *place)
{
    struct front_limits limits = {.max_body_bytes = 1 << 20,
                                  .max_header_bytes = 32 << 10,
                                  .max_headers = 100,
                                  .max_connections = 1000,
                                  .header_timeout_ms = 10000,
                                  .body_timeout_ms = 60000,
                                  .idle_timeout_ms = 60000,
                                  .write_timeout_ms = 60000};
    struct front_app app = {.on_request = on_request, .app = place};

    place->loop = loop_new();
    place->front = front_new(place->loop, &limits, &app);
    front_set_stats(place->front, stats_join());
    front_listen(place->front, place->fd);
}

static void on_farewell(struct letter *letter, void *arg)
{
    struct place *place = arg;

    (void)letter;
    place->is_over = true;
}

static void *serve(void *arg)
{
    struct place *place = arg;

    open_front(place);
    pthread_barrier_wait(&all_ready);
    while (!place->is_over)
        loop_turn(place->loop, 1000);
    front_stop_listening(place->front);
    front_drain(place->front);
    while (front_connections(place->front) > 0)
        loop_turn(place->loop, 1000);
    front_free(place->front);
    loop_free(place->loop);
    return NULL;
}

static bool ask(int fd)
{
    static const char request[] = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";
    char answer[1024];
    size_t len = 0;

    if (send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) != sizeof(request) - 1)
        return false;
    while (len < 4 || memcmp(answer + len - 4, "fgh\n", 4) != 0) {
        ssize_t got = recv(fd, answer + len, sizeof(answer) - len, 0);

        if (got <= 0)
            return false;
        len += (size_t)got;
    }
    return memcmp(answer, "HTTP/1.1 200 OK\r\n", 17) == 0;
}

static void *ask_often(void *arg)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)(intptr_t)arg)};

    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool is_right = connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0;

        for (int k = 0; k < REQUESTS && is_right; k++)
            is_right = ask(fd);
        if (!is_right)
            atomic_fetch_add(&wrong_answers, 1);
        close(fd);
    }
    return NULL;
}

static int64_t cpu_us(void)
{
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    return (int64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 + used.ru_utime.tv_usec +
           used.ru_stime.tv_usec;
}

static void on_term(int signal_number)
{
    (void)signal_number;
    is_told_to_stop = 1;
}

static int serve_load(int port)
{
    struct place *place = &places[0];
    int64_t began_us;

    signal(SIGTERM, on_term);
    place->fd = listen_on(&port);
    open_front(place);
    began_us = cpu_us();
    while (!is_told_to_stop)
        loop_turn(place->loop, 100);
    printf("%d requests, %.2f us of CPU each\n", place->shown,
           (double)(cpu_us() - began_us) / (place->shown > 0 ? place->shown : 1));
    return 0;
}

int main(int argc, char **argv)
{
    pthread_t clients[CLIENTS];
    int port = 0, shown = 0, gone = 0;

    signal(SIGPIPE, SIG_IGN);
    if (argc == 3 && strcmp(argv[1], "load") == 0)
        return serve_load(atoi(argv[2]));
    pthread_barrier_init(&all_ready, NULL, FRONTS + 1);
    for (int i = 0; i < FRONTS; i++) {
        places[i].fd = listen_on(&port);
        pthread_create(&places[i].thread, NULL, serve, &places[i]);
    }
    pthread_barrier_wait(&all_ready);
    for (int i = 0; i < CLIENTS; i++)
        pthread_create(&clients[i], NULL, ask_often, (void *)(intptr_t)port);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(clients[i], NULL);
    for (int i = 0; i < FRONTS; i++) {
        places[i].farewell = (struct letter){.deliver = on_farewell, .arg = &places[i]};
        loop_post(places[i].loop, &places[i].farewell);
    }
    for (int i = 0; i < FRONTS; i++) {
        pthread_join(places[i].thread, NULL);
        shown += places[i].shown;
        gone += places[i].gone;
    }
    printf("%d shown, %d gone, %d wrong\n", shown, gone, atomic_load(&wrong_answers));
    return shown == CLIENTS * CONNECTIONS * REQUESTS && gone == shown && atomic_load(&wrong_answers) == 0 ? 0
                                                                                                          : 1;
}
