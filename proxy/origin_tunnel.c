/* Origin tunnel: see origin_tunnel.h. It reads when nothing of the last read is left, so its receiver sets the pace. */
#include "origin_tunnel_link.h"

#include "check.h"
#include "memory.h"

#include <stdlib.h>

enum { READ_BYTES = 16 << 10 };

struct origin_tunnel {
    struct link *link;
    struct origin_tunnel_events events;
    void *arg;
    char *room; /* of the last read, while its bytes are on their way; else NULL: idle tunnels are many */
    size_t early_len; /* in `room`, not told yet */
    struct task tell_early, tell_sent;
    bool is_sending;
};

static void on_readable(void *arg)
{
    struct origin_tunnel *tunnel = arg;
    struct wire *wire = &tunnel->link->wire;
    size_t got = 0;

    tunnel->room = must_realloc(NULL, READ_BYTES);
    switch (wire_receive(wire, tunnel->room, READ_BYTES, &got)) {
    case WIRE_BYTES:
        wire_deafen(wire);
        tunnel->events.on_bytes(tunnel->arg, slice_of(tunnel->room, got)); /* may end it */
        return;
    case WIRE_NOTHING: break;
    case WIRE_FIN:
        wire_deafen(wire);
        free(tunnel->room);
        tunnel->room = NULL;
        tunnel->events.on_finished(tunnel->arg);
        return;
    case WIRE_BROKEN:
        wire_deafen(wire);
        tunnel->events.on_broken(tunnel->arg);
        return;
    }
    free(tunnel->room);
    tunnel->room = NULL;
}

static void on_sent(void *arg)
{
    struct origin_tunnel *tunnel = arg;

    if (tunnel->link->wire.has_failed) {
        wire_deafen(&tunnel->link->wire);
        tunnel->events.on_broken(tunnel->arg);
    } else if (wire_is_sent(&tunnel->link->wire)) {
        tunnel->is_sending = false;
        tunnel->events.on_sent(tunnel->arg);
    }
}

static void on_tell_early(void *arg)
{
    struct origin_tunnel *tunnel = arg;

    if (tunnel->room == NULL)
        wire_listen(&tunnel->link->wire);
    else
        tunnel->events.on_bytes(tunnel->arg, slice_of(tunnel->room, tunnel->early_len));
}

struct origin_tunnel *origin_tunnel_new(struct link *link, struct slice early)
{
    struct origin_tunnel *tunnel = must_alloc(sizeof(*tunnel));

    CHECK(wire_is_sent(&link->wire));
    tunnel->link = link;
    link->fetch = NULL;
    link->wire.arg = tunnel;
    link->wire.on_readable = on_readable;
    link->wire.on_sent = on_sent;
    wire_deafen(&link->wire);
    if (early.len > 0) {
        tunnel->room = must_copy(early.base, early.len);
        tunnel->early_len = early.len;
    }
    task_init(&tunnel->tell_early, LOOP_DECIDE, on_tell_early, tunnel);
    task_init(&tunnel->tell_sent, LOOP_DECIDE, on_sent, tunnel);
    return tunnel;
}

void origin_tunnel_open(struct origin_tunnel *tunnel, const struct origin_tunnel_events *events, void *arg)
{
    tunnel->events = *events;
    tunnel->arg = arg;
    loop_defer(tunnel->link->pool->loop, &tunnel->tell_early);
}

void origin_tunnel_go_on(struct origin_tunnel *tunnel)
{
    free(tunnel->room);
    tunnel->room = NULL;
    wire_listen(&tunnel->link->wire);
}

void origin_tunnel_send(struct origin_tunnel *tunnel, struct slice bytes)
{
    CHECK(!tunnel->is_sending && bytes.len > 0);
    tunnel->is_sending = true;
    wire_send(&tunnel->link->wire, bytes, slice_of(NULL, 0));
    if (wire_is_sent(&tunnel->link->wire) || tunnel->link->wire.has_failed)
        loop_defer(tunnel->link->pool->loop, &tunnel->tell_sent); /* the wire has no more to tell */
}

void origin_tunnel_finish(struct origin_tunnel *tunnel)
{
    CHECK(!tunnel->is_sending);
    wire_finish(&tunnel->link->wire);
}

void origin_tunnel_close(struct origin_tunnel **taken)
{
    struct origin_tunnel *tunnel = *taken;

    *taken = NULL;
    if (tunnel == NULL)
        return;
    task_cancel(tunnel->link->pool->loop, &tunnel->tell_early);
    task_cancel(tunnel->link->pool->loop, &tunnel->tell_sent);
    link_close(tunnel->link);
    free(tunnel->room);
    free(tunnel);
}
