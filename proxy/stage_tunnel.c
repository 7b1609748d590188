/* Tunnel: the upstream has agreed to another protocol (WebSocket, ...); from here on bytes pass, both ways, until both ends have had
 * their say.
 *
 * Each side is read when the other has taken what was read before: the slower one sets the pace, and what is on its way is one read in
 * each direction. A side that ends its half ends it on the other side, too, behind its last byte; what comes back still passes.
 * The exchange lives as long as the tunnel, and with it whatever it was admitted for.
 */
#include "exchange.h"
#include "clock.h"
#include "loop.h"
#include "origin_tunnel.h"

struct exchange_tunnel {
    struct origin_tunnel
        *upstream; /* owned; closed when the client's side is gone: its bytes may be on their way there */
    struct timer idle;
    struct mono_ms moved_at; /* when a byte last did */
    bool client_has_finished, upstream_has_finished, is_over;
};

static void note_movement(struct exchange *exchange)
{
    exchange->tunnel->moved_at = loop_now(exchange->story->loop);
}

/* Last statement. */
static void end(struct exchange *exchange, const char *code, bool is_broken)
{
    if (exchange->tunnel->is_over)
        return;
    exchange->tunnel->is_over = true;
    exchange->code = code;
    move_to(exchange, STAGE_ANSWERED);
    client_tunnel_close(exchange->client, is_broken);
}

static void end_where_both_have_finished(struct exchange *exchange)
{
    if (exchange->tunnel->client_has_finished && exchange->tunnel->upstream_has_finished)
        end(exchange, NULL, false);
}

/* ---- from the client ---- */

static void on_client_bytes(void *arg, struct slice bytes)
{
    struct exchange *exchange = arg;

    if (exchange->tunnel->is_over)
        return;
    note_movement(exchange);
    exchange->received_bytes += (int64_t)bytes.len;
    origin_tunnel_send(exchange->tunnel->upstream, bytes);
}

static void on_client_finished(void *arg)
{
    struct exchange *exchange = arg;

    if (exchange->tunnel->is_over)
        return;
    exchange->tunnel->client_has_finished = true;
    origin_tunnel_finish(exchange->tunnel->upstream);
    end_where_both_have_finished(exchange);
}

static void on_upstream_took(void *arg)
{
    struct exchange *exchange = arg;

    if (exchange->tunnel->is_over)
        return;
    note_movement(exchange);
    client_tunnel_go_on(exchange->client);
}

/* ---- from the upstream ---- */

static void on_upstream_bytes(void *arg, struct slice bytes)
{
    struct exchange *exchange = arg;

    if (exchange->tunnel->is_over)
        return;
    note_movement(exchange);
    exchange->body_bytes += (int64_t)bytes.len;
    client_tunnel_send(exchange->client, bytes);
}

static void on_upstream_finished(void *arg)
{
    struct exchange *exchange = arg;

    if (exchange->tunnel->is_over)
        return;
    exchange->tunnel->upstream_has_finished = true;
    client_tunnel_finish(exchange->client);
    end_where_both_have_finished(exchange);
}

static void on_upstream_broke(void *arg)
{
    end(arg, fault_code(FAULT_ORIGIN_BROKE), true);
}

static const struct origin_tunnel_events UPSTREAM_EVENTS = {on_upstream_bytes, on_upstream_finished,
                                                            on_upstream_took, on_upstream_broke};

/* The first time it is the 101 that has left: before that neither side has anything to say. */
static void on_client_took(void *arg)
{
    struct exchange *exchange = arg;

    if (exchange->tunnel->is_over)
        return;
    note_movement(exchange);
    if (exchange->is_sending) {
        exchange->is_sending = false;
        origin_tunnel_open(exchange->tunnel->upstream, &UPSTREAM_EVENTS, exchange);
        client_tunnel_go_on(exchange->client);
        return;
    }
    origin_tunnel_go_on(exchange->tunnel->upstream);
}

static const struct client_tunnel_events CLIENT_EVENTS = {on_client_bytes, on_client_finished,
                                                          on_client_took};

/* ---- its beginning and its end ---- */

static int64_t idle_timeout_ms(const struct exchange *exchange)
{
    return exchange->route->upstream->idle_timeout_ms;
}

static void on_idle(void *arg)
{
    struct exchange *exchange = arg;
    struct mono_ms until = mono_after(exchange->tunnel->moved_at, idle_timeout_ms(exchange));

    if (loop_now(exchange->story->loop).ms < until.ms)
        timer_start(exchange->story->loop, &exchange->tunnel->idle, until);
    else
        end(exchange, "tunnel_idle", false);
}

void stage_tunnel(struct exchange *exchange)
{
    struct exchange_tunnel *tunnel = client_alloc(exchange->client, sizeof(*tunnel));
    struct header *fields;
    size_t count;

    move_to(exchange, STAGE_TUNNELLING);
    exchange->tunnel = tunnel;
    exchange->status = exchange->origin_status = exchange->alone->status;
    exchange->opened_us = clock_mono_us() - exchange->began_us;
    tunnel->upstream = stream_take_tunnel(exchange->alone);
    timer_init(&tunnel->idle, on_idle, exchange);
    note_movement(exchange);
    timer_start(exchange->story->loop, &tunnel->idle,
                mono_after(tunnel->moved_at, idle_timeout_ms(exchange)));
    site_count_tunnel_opened(exchange->site, exchange->route->upstream);
    fields = switch_fields(exchange, exchange->alone, &count);
    exchange->is_started = exchange->is_sending = true;
    client_switch(exchange->client, fields, count, &CLIENT_EVENTS, exchange);
}

void stage_tunnel_left(struct exchange *exchange)
{
    if (exchange->tunnel == NULL)
        return;
    timer_cancel(exchange->story->loop, &exchange->tunnel->idle);
    origin_tunnel_close(&exchange->tunnel->upstream);
    site_count_tunnel_ended(exchange->site, exchange->route->upstream, exchange->body_bytes,
                            exchange->received_bytes);
}
