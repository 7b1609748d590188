/* See support_front.h. */
#include "support_front.h"

#include "clock.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct stage stage;

/* ---- the scripted story ---- */

static void on_gone(void *arg)
{
    struct client_request **parked = arg;

    stage.gone++;
    if (parked != NULL)
        *parked = NULL;
}

static void on_ready(void *arg)
{
    (void)arg;
    stage.ready++;
}

void stage_start(struct client_request *request, int status, int64_t content_length)
{
    static const struct header headers[] = {{{"content-type", 12}, {"text/plain", 10}}};
    struct response_head head = {status, headers, 1, content_length, {NULL, 0}};

    client_start(request, &head, on_ready, request);
}

void stage_send(struct client_request *request, const char *bytes, enum client_piece how)
{
    struct slice piece = slice_text(bytes);

    client_send(request, &piece, piece.len > 0 ? 1 : 0, how);
}

void stage_answer(struct client_request *request, int status, const char *body)
{
    stage_start(request, status, (int64_t)strlen(body));
    stage_send(request, body, CLIENT_LAST);
}

static void echo(struct client_request *request)
{
    const struct request_head *head = client_head(request);
    size_t room = head->method.len + head->target.len + head->authority.len + head->body.len + 8;
    char *text = client_alloc(request, room);

    snprintf(text, room, "%.*s %.*s %.*s %.*s\n", (int)head->method.len, head->method.base,
             (int)head->target.len, head->target.base, (int)head->authority.len, head->authority.base,
             (int)head->body.len, head->body.base == NULL ? "" : head->body.base);
    stage_answer(request, 200, text);
}

static void on_chunks_ready(void *arg)
{
    stage_send(arg, "two", CLIENT_LAST);
}

static bool target_begins(const struct client_request *request, const char *text)
{
    struct slice target = client_head(request)->target;

    return target.len >= strlen(text) && memcmp(target.base, text, strlen(text)) == 0;
}

static void answer_dated(struct client_request *request)
{
    struct response_head head = {200, NULL, 0, 2, SLICE("Sun, 06 Nov 1994 08:49:37 GMT")};
    struct slice body = SLICE("ok");

    client_start(request, &head, NULL, NULL);
    client_send(request, &body, 1, CLIENT_LAST);
}

static void on_request(void *app, struct client_request *request)
{
    struct slice target = client_head(request)->target;
    size_t len = strlen(stage.targets);

    (void)app;
    stage.shown++;
    snprintf(stage.targets + len, sizeof(stage.targets) - len, "%.*s ", (int)target.len, target.base);
    if (target_begins(request, "/wait")) {
        cr_assert_lt(stage.parked_count, STAGE_MANY);
        stage.parked[stage.parked_count] = request;
        client_on_gone(request, on_gone, &stage.parked[stage.parked_count++]);
        return;
    }
    client_on_gone(request, on_gone, NULL);
    if (target_begins(request, "/chunks")) {
        struct response_head head = {200, NULL, 0, -1, {NULL, 0}};

        client_start(request, &head, on_chunks_ready, request);
        stage_send(request, "one", CLIENT_MORE);
        return;
    }
    if (target_begins(request, "/dated"))
        answer_dated(request);
    else
        echo(request);
}

static void on_refused(void *app, int status, const char *why, struct slice peer_text)
{
    (void)app;
    stage.refused++;
    stage.refused_status = status;
    snprintf(stage.refused_why, sizeof(stage.refused_why), "%s", why);
    cr_assert(slice_eq(peer_text, SLICE("127.0.0.1")));
}

/* ---- the stage ---- */

static int listen_anywhere(int *port_out)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    cr_assert_geq(fd, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    cr_assert_eq(listen(fd, 128), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    *port_out = ntohs(at.sin_port);
    return fd;
}

void stage_open(void)
{
    static const struct front_app app = {on_request, on_refused, NULL};

    signal(SIGPIPE, SIG_IGN);
    if (stage.limits.max_connections == 0)
        stage.limits = (struct front_limits){.max_body_bytes = 1 << 20,
                                             .max_header_bytes = 32 << 10,
                                             .max_headers = 100,
                                             .max_connections = 1000,
                                             .header_timeout_ms = 60000,
                                             .body_timeout_ms = 60000,
                                             .idle_timeout_ms = 60000,
                                             .write_timeout_ms = 60000};
    stage.loop = loop_new();
    stage.front = front_new(stage.loop, &stage.limits, &app);
    front_listen(stage.front, listen_anywhere(&stage.port));
}

void stage_close(void)
{
    front_stop_listening(stage.front);
    front_abort(stage.front);
    STAGE_UNTIL(front_connections(stage.front) == 0);
    cr_assert_eq(front_requests(stage.front), 0);
    cr_assert_eq(stage.gone, stage.shown, "every request that was shown is gone, once");
    front_free(stage.front);
    loop_free(stage.loop);
}

void stage_turn(void)
{
    loop_turn(stage.loop, 5);
}

/* ---- a client ---- */

struct client client_connect(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)stage.port)};
    struct client client = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};

    cr_assert_eq(connect(client.fd, (struct sockaddr *)&to, sizeof(to)), 0);
    cr_assert_eq(fcntl(client.fd, F_SETFL, O_NONBLOCK), 0);
    /* what is written in pieces is to arrive in pieces, and at once */
    cr_assert_eq(setsockopt(client.fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)), 0);
    client.got = calloc(1, 1);
    return client;
}

void client_write(struct client *client, const char *bytes, size_t len)
{
    int64_t give_up_ms = clock_mono().ms + STAGE_PATIENCE_MS;

    while (len > 0 && clock_mono().ms < give_up_ms) {
        ssize_t sent = send(client->fd, bytes, len, MSG_NOSIGNAL);

        if (sent > 0) {
            bytes += sent;
            len -= (size_t)sent;
        } else if (errno == EAGAIN) {
            stage_turn();
        } else {
            return; /* the front has closed: the test looks at what it said */
        }
    }
    cr_assert_eq(len, 0);
}

void client_say(struct client *client, const char *text)
{
    client_write(client, text, strlen(text));
}

void client_read(struct client *client)
{
    char bytes[65536];
    ssize_t got;

    while (!client->is_closed && (got = recv(client->fd, bytes, sizeof(bytes), MSG_DONTWAIT)) != -1) {
        if (got == 0) {
            client->is_closed = true;
            return;
        }
        client->got = realloc(client->got, client->len + (size_t)got + 1);
        memcpy(client->got + client->len, bytes, (size_t)got);
        client->len += (size_t)got;
        client->got[client->len] = '\0';
    }
    if (!client->is_closed && errno != EAGAIN && errno != EINTR)
        client->is_closed = client->is_reset = true;
}

void client_await(struct client *client, const char *text)
{
    int64_t give_up_ms = clock_mono().ms + STAGE_PATIENCE_MS;

    do {
        stage_turn();
        client_read(client);
    } while (strstr(client->got, text) == NULL && clock_mono().ms < give_up_ms && !client->is_closed);
    cr_assert(strstr(client->got, text) != NULL, "\"%s\" was not received, but \"%s\"", text, client->got);
}

void client_await_end(struct client *client)
{
    int64_t give_up_ms = clock_mono().ms + STAGE_PATIENCE_MS;

    while (!client->is_closed && clock_mono().ms < give_up_ms) {
        stage_turn();
        client_read(client);
    }
    cr_assert(client->is_closed, "the connection was not closed; received \"%s\"", client->got);
}

void client_close(struct client *client)
{
    close(client->fd);
    free(client->got);
    client->got = NULL;
}

struct client client_whole(const char *text)
{
    struct client client = client_connect();

    client_say(&client, text);
    client_await_end(&client);
    return client;
}
