/* Front, tunnel: how does a connection whose protocol has changed carry bytes both ways?
 *
 * h2o could hand the socket over (h2o_http1_upgrade), but only by ending the request, and with it all that hangs on it: whoever asked,
 * what it was admitted for, its line in the log. So the request stays under way for as long as the tunnel lives, and h2o waits for an
 * answer to it. Meanwhile its socket is ours: we write by h2o, one write at a time, and read past it, because it would read
 * more than we have room for into the buffer that holds the request's head. In the end h2o ends the request by failing to answer it.
 */
#include "front_http1.h"

#include "check.h"
#include "memory.h"
#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { READ_BYTES = 16 << 10 };

struct tunnel { /* in the request's memory */
    struct client_tunnel_events events;
    void *arg;
    char *room; /* of the last read, while its bytes are on their way; else NULL: idle tunnels are many */
    struct task tell_early;
};

static void on_readable(h2o_socket_t *sock, const char *err)
{
    struct connection *c = sock->on_close.data;
    struct tunnel *tunnel = c->request->tunnel;
    ssize_t got;

    (void)err; /* h2o does not read */
    tunnel->room = must_realloc(NULL, READ_BYTES);
    do {
        got = recv(h2o_socket_get_fd(sock), tunnel->room, READ_BYTES, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got > 0) {
        connection_unwatch(c);
        tunnel->events.on_bytes(tunnel->arg, slice_of(tunnel->room, (size_t)got)); /* may end it */
        return;
    }
    free(tunnel->room);
    tunnel->room = NULL;
    if (got < 0 && errno == EAGAIN)
        return;
    connection_unwatch(c);
    if (got == 0)
        tunnel->events.on_finished(tunnel->arg); /* may end it */
    else
        connection_depart(c);
}

static void read_on(struct connection *c)
{
    if (c->has_left || c->is_watched)
        return;
    c->is_watched = true;
    h2o_socket_dont_read(c->sock, 1);
    h2o_socket_read_start(c->sock, on_readable);
}

static void on_tell_early(void *arg)
{
    struct client_request *request = arg;
    struct slice early = request->early;

    if (request->connection->has_left)
        return;
    request->early = slice_of(NULL, 0);
    request->tunnel->events.on_bytes(request->tunnel->arg, early); /* may end it */
}

/* ---- writing ---- */

static void on_written(h2o_socket_t *sock, const char *err)
{
    struct connection *c = sock->on_close.data;
    struct client_request *request = c->request;

    request->is_sending = false;
    if (c->has_left)
        answer_abandon(request);
    else if (err != NULL)
        connection_depart(c);
    else
        request->tunnel->events.on_sent(request->tunnel->arg); /* may end it */
}

static void write_bytes(struct client_request *request, struct slice bytes)
{
    struct connection *c = request->connection;
    h2o_iovec_t piece = h2o_iovec_init((char *)(uintptr_t)bytes.base, bytes.len);

    CHECK(!request->is_sending && bytes.len > 0);
    request->is_sending = true;
    c->is_sampled = false;
    connection_check_within(c, c->front->limits.write_timeout_ms / 4 + 1);
    h2o_socket_write(c->sock, &piece, 1, on_written);
}

static void write_head(const struct header *headers, size_t count, struct text *out)
{
    text_add(out, SLICE("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"));
    for (size_t i = 0; i < count; i++) {
        text_add(out, headers[i].name);
        text_add(out, SLICE(": "));
        text_add(out, headers[i].value);
        text_add(out, SLICE("\r\n"));
    }
    text_add(out, SLICE("\r\n"));
}

void client_switch(struct client_request *request, const struct header *headers, size_t count,
                   const struct client_tunnel_events *events, void *arg)
{
    struct connection *c = request->connection;
    struct tunnel *tunnel = client_alloc(request, sizeof(*tunnel));
    struct text head = text_in(NULL, 0);

    CHECK(!request->is_started && request->head.upgrade.base != NULL);
    request->is_started = true;
    tunnel->events = *events;
    tunnel->arg = arg;
    task_init(&tunnel->tell_early, LOOP_DECIDE, on_tell_early, request);
    request->tunnel = tunnel;
    if (request->is_ended) /* the client has left, and its end is on its way */
        return;
    connection_unwatch(c);
    c->is_blind = false;
    write_head(headers, count, &head);
    head = text_in(client_alloc(request, head.len), head.len);
    write_head(headers, count, &head);
    write_bytes(request, text_slice(&head));
}

void client_tunnel_send(struct client_request *request, struct slice bytes)
{
    if (!request->connection->has_left)
        write_bytes(request, bytes);
}

void client_tunnel_go_on(struct client_request *request)
{
    free(request->tunnel->room);
    request->tunnel->room = NULL;
    if (request->early.len > 0)
        loop_defer(request->connection->front->loop, &request->tunnel->tell_early);
    else
        read_on(request->connection);
}

void client_tunnel_finish(struct client_request *request)
{
    CHECK(!request->is_sending);
    shutdown(h2o_socket_get_fd(request->connection->sock), SHUT_WR);
}

void client_tunnel_close(struct client_request *request, bool is_broken)
{
    static const struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    struct connection *c = request->connection;

    if (c->has_left)
        return;
    if (is_broken) /* resets it: what connection_depart() does looks like an end in order */
        connect(h2o_socket_get_fd(c->sock), &nowhere, sizeof(nowhere));
    connection_depart(c);
}

void tunnel_dispose(struct client_request *request)
{
    if (request->tunnel == NULL)
        return;
    task_cancel(request->connection->front->loop, &request->tunnel->tell_early);
    free(request->tunnel->room);
    request->tunnel->room = NULL;
}
