/* Exchange: see exchange.h. */
#include "exchange.h"
#include "check.h"
#include "clock.h"
#include "loop.h"

/* The only legal moves. Whatever happens, an exchange may be gone next. */
static const bool MOVES[STAGES][STAGES] = {
    [STAGE_BORN] = {[STAGE_LIMITING] = true, [STAGE_DELIVERING] = true, [STAGE_GONE] = true},
    [STAGE_LIMITING] = {[STAGE_LOOKING] = true, [STAGE_DELIVERING] = true, [STAGE_GONE] = true},
    [STAGE_LOOKING] = {[STAGE_FETCHING] = true, [STAGE_DELIVERING] = true, [STAGE_GONE] = true},
    [STAGE_FETCHING] = {[STAGE_DELIVERING] = true, [STAGE_TUNNELLING] = true, [STAGE_GONE] = true},
    [STAGE_TUNNELLING] = {[STAGE_ANSWERED] = true, [STAGE_GONE] = true},
    [STAGE_DELIVERING] = {[STAGE_ANSWERED] = true, [STAGE_GONE] = true},
    [STAGE_ANSWERED] = {[STAGE_GONE] = true},
};

void move_to(struct exchange *exchange, enum stage stage)
{
    CHECK(MOVES[exchange->stage][stage]);
    exchange->stage = stage;
}

/* Disposal: runs once, however the exchange ended, and gives back all that it holds outside its request's
 * memory. */
static void on_gone(void *arg)
{
    struct exchange *exchange = arg;
    struct story *story = exchange->story;

    wait_no_longer(exchange);
    stage_account(exchange);
    move_to(exchange, STAGE_GONE);
    if (exchange->plans != NULL)
        planner_leave(exchange->plans);
    stage_settle_left(exchange);
    limiter_leave(story->limiter, &exchange->limits);
    if (exchange->bill != NULL)
        limiter_leave(story->limiter, exchange->bill);
    let_others_try(exchange);
    flight_leave(story->flights, &exchange->rider);
    stream_leave(&exchange->reader);
    stage_fetch_left(exchange);
    stage_tunnel_left(exchange);
    invalidation_forget(&exchange->invalidation);
    task_cancel(story->loop, &exchange->first_pump);
    stage_unpack_left(exchange);
    store_cancel(&exchange->look);
    object_release(&exchange->basis);
    object_release(&exchange->object);
    site_release(&exchange->site);
    story->exchanges--;
}

void exchange_begin(void *app, struct client_request *client)
{
    struct story *story = app;
    struct exchange *exchange = client_alloc(client, sizeof(*exchange));

    client_on_gone(client, on_gone, exchange);
    exchange->story = story;
    exchange->site = site_hold(story->site);
    exchange->client = client;
    exchange->head = client_head(client);
    exchange->began_us = clock_mono_us();
    exchange->upstream_us = -1;
    story->exchanges++;
    stage_identify(exchange);
}
