/* Origin wire: see origin_wire.h. */
#include "origin_wire.h"
#include "check.h"
#include "loop_h2o.h"

#include <errno.h>

static void on_connect(h2o_socket_t *socket, const char *error)
{
    struct wire *wire = socket->data;
    wire->on_connected(wire->arg, error == NULL);
}

static void on_read(h2o_socket_t *socket, const char *error)
{
    (void)error; /* with reading left to us, h2o does not know any */
    struct wire *wire = socket->data;
    wire->on_readable(wire->arg);
}

bool wire_connect(struct wire *wire, struct loop *loop, const struct resolved_address *address)
{
    struct resolved_address target = *address; /* h2o wants it writable */

    CHECK(wire->socket == NULL);
    wire->unsent_count = 0;
    wire->sent_bytes = 0;
    wire->has_failed = false;
    wire->socket =
        h2o_socket_connect(loop_h2o(loop), (struct sockaddr *)&target.storage, target.len, on_connect);
    if (wire->socket == NULL)
        return false;
    wire->socket->data = wire;
    h2o_socket_dont_read(wire->socket, 1);
    return true;
}

static void drop_sent(struct wire *wire, size_t sent)
{
    wire->sent_bytes += sent;
    while (wire->unsent_count > 0 && sent >= wire->unsent[0].iov_len) {
        sent -= wire->unsent[0].iov_len;
        wire->unsent[0] = wire->unsent[1];
        wire->unsent_count--;
    }
    if (wire->unsent_count > 0) {
        wire->unsent[0].iov_base = (char *)wire->unsent[0].iov_base + sent;
        wire->unsent[0].iov_len -= sent;
    }
}

static void on_writable(h2o_socket_t *socket, const char *error);

/* One system call an event: what does not fit into the kernel's buffer waits for the next. */
static void push(struct wire *wire)
{
    struct msghdr message = {.msg_iov = wire->unsent, .msg_iovlen = wire->unsent_count};
    ssize_t sent;

    do {
        sent = sendmsg(h2o_socket_get_fd(wire->socket), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0 && errno != EAGAIN) {
        wire->has_failed = true; /* an answer may have come before the connection broke: reading finds out */
        return;
    }
    if (sent > 0)
        drop_sent(wire, (size_t)sent);
    if (wire->unsent_count > 0)
        h2o_socket_notify_write(wire->socket, on_writable);
}

static void on_writable(h2o_socket_t *socket, const char *error)
{
    (void)error;
    struct wire *wire = socket->data;
    push(wire);
    wire->on_sent(wire->arg);
}

void wire_send(struct wire *wire, struct slice first, struct slice second)
{
    CHECK(wire->socket != NULL && wire->unsent_count == 0);
    wire->sent_bytes = 0;
    wire->unsent[0] = (struct iovec){(void *)(uintptr_t)first.base, first.len};
    wire->unsent[1] = (struct iovec){(void *)(uintptr_t)second.base, second.len};
    wire->unsent_count = second.len > 0 ? 2 : 1;
    push(wire);
}

bool wire_is_sent(const struct wire *wire)
{
    return wire->unsent_count == 0;
}

void wire_finish(struct wire *wire)
{
    CHECK(wire_is_sent(wire));
    shutdown(h2o_socket_get_fd(wire->socket), SHUT_WR);
}

void wire_listen(struct wire *wire)
{
    if (!h2o_socket_is_reading(wire->socket))
        h2o_socket_read_start(wire->socket, on_read);
}

void wire_deafen(struct wire *wire)
{
    if (h2o_socket_is_reading(wire->socket))
        h2o_socket_read_stop(wire->socket);
}

enum wire_got wire_receive(struct wire *wire, char *room, size_t room_bytes, size_t *got_out)
{
    ssize_t got;

    do {
        got = recv(h2o_socket_get_fd(wire->socket), room, room_bytes, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got > 0) {
        *got_out = (size_t)got;
        return WIRE_BYTES;
    }
    if (got < 0)
        return errno == EAGAIN ? WIRE_NOTHING : WIRE_BROKEN;
    /* A send that failed has already taken the socket's error away, so that a reset now looks like an end in
     * order. */
    return wire->has_failed ? WIRE_BROKEN : WIRE_FIN;
}

bool wire_is_quiet(struct wire *wire)
{
    char byte;
    return recv(h2o_socket_get_fd(wire->socket), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

void wire_close(struct wire *wire)
{
    if (wire->socket == NULL)
        return;
    h2o_socket_close(wire->socket);
    wire->socket = NULL;
}
