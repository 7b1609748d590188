/* Limit: by which plans, then all limits of the request in one decision, and with it the store's epoch; go on, or refuse. */
#include "exchange.h"
#include "ratelimit_fields.h"
#include "verdict.h"

/* Must the near cache be brought up to date before it may answer? With `push` the subscription does that,
 * while it stands. */
static bool needs_epoch(const struct exchange *exchange)
{
    const struct store *store = exchange->story->store;

    if (exchange->route->cache == NULL || !store->is_shared)
        return false;
    return site_settings(exchange->site)->store.consistency == CONSISTENCY_STRICT || !store->is_pushed;
}

static void on_decided(void *arg)
{
    struct exchange *exchange = arg;

    switch (exchange->limits.ruling) {
    case RULING_ADMITTED:
        wait_no_longer(exchange);
        move_to(exchange, STAGE_LOOKING);
        stage_lookup(exchange);
        return;
    case RULING_REFUSED:
    case RULING_TOO_COSTLY:
    case RULING_UNAVAILABLE: stage_refused(exchange, &exchange->limits); return;
    }
}

void ask_limits(struct exchange *exchange)
{
    exchange->limits.decided = on_decided;
    exchange->limits.arg = exchange;
    limiter_ask(exchange->story->limiter, &exchange->limits);
}

static void decide(void *arg)
{
    struct exchange *exchange = arg;

    if (exchange->limits.charge_count == 0 && !needs_epoch(exchange)) {
        exchange->limits.epoch_is_known = true;
        move_to(exchange, STAGE_LOOKING);
        stage_lookup(exchange);
        return;
    }
    if (!wait_behind(exchange, &exchange->limits))
        ask_limits(exchange);
}

bool settle_plans(struct exchange *exchange, void (*settled)(void *exchange))
{
    if (exchange->plans == NULL)
        return true;
    exchange->plans->settled = settled;
    exchange->plans->arg = exchange;
    return planner_ask(exchange->story->planner, exchange->plans);
}

/* Also the plans of what is to be paid later, before the upstream is asked: by then they are known. */
void stage_limit(struct exchange *exchange)
{
    if (settle_plans(exchange, decide))
        decide(exchange);
}

/* Of one of the exchange's two requests to the limiter: the limits that were asked and may be named, added at `count`. */
static size_t add_standings(const struct limit_request *request, struct ratelimit_item *items,
                            struct limit_standing *standings, size_t count)
{
    for (size_t i = 0; i < request->charge_count; i++) {
        const struct limit_charge *charge = &request->charges[i];
        const struct limit_state *state = &request->states[i];

        if (!request->has_state[i])
            continue;
        standings[count] = limit_request_standing(request, i);
        items[count] = (struct ratelimit_item){.name = slice_text(charge->rule->name),
                                               .limit = limit_capacity(charge->terms),
                                               .window_us = limit_period_us(charge->terms),
                                               .available = state->available,
                                               .reset_us = state->reset_us,
                                               .retry_after_us = state->never ? -1 : state->retry_after_us};
        count++;
    }
    return count;
}

size_t add_ratelimit_fields(struct exchange *exchange, struct header *out, size_t count)
{
    const struct header_settings *headers = &site_settings(exchange->site)->headers;
    struct ratelimit_dialects dialects = {headers->ratelimit_draft11, headers->ratelimit_plain,
                                          headers->ratelimit_x};
    struct ratelimit_item items[LIMITS_PER_REQUEST];
    struct limit_standing standings[LIMITS_PER_REQUEST];
    bool is_refused = exchange->refusal != NULL && exchange->refusal->ruling == RULING_REFUSED;
    size_t item_count, room_bytes;
    char *room;

    if (exchange->stage < STAGE_LIMITING || !(dialects.draft_11 || dialects.plain || dialects.x))
        return count;
    item_count = add_standings(&exchange->limits, items, standings, 0);
    if (exchange->bill != NULL) /* both together are limits of one route, of which there are no more */
        item_count = add_standings(exchange->bill, items, standings, item_count);
    if (item_count == 0)
        return count;
    room_bytes = ratelimit_fields_room(items, item_count);
    room = client_alloc(exchange->client, room_bytes);
    return count + ratelimit_fields(items, item_count, verdict_closest(standings, item_count), dialects,
                                    is_refused ? verdict_reach(standings, item_count).retry_after_us : 0,
                                    room, room_bytes, out + count);
}
