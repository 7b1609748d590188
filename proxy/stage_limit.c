/* Limit: all limits of the request in one decision, and with it the store's epoch; go on, or refuse. */
#include "exchange.h"
#include "ratelimit_fields.h"
#include "verdict.h"

enum { FIELDS_ROOM = 2048 };

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
        move_to(exchange, STAGE_LOOKING);
        stage_lookup(exchange);
        return;
    case RULING_REFUSED:
    case RULING_TOO_COSTLY:
    case RULING_UNAVAILABLE: refuse_by_limit(exchange); return;
    }
}

void stage_limit(struct exchange *exchange)
{
    if (exchange->limits.charge_count == 0 && !needs_epoch(exchange)) {
        exchange->limits.epoch_is_known = true;
        move_to(exchange, STAGE_LOOKING);
        stage_lookup(exchange);
        return;
    }
    exchange->limits.decided = on_decided;
    exchange->limits.arg = exchange;
    limiter_ask(exchange->story->limiter, &exchange->limits);
}

static size_t standings_of(const struct exchange *exchange, struct ratelimit_item *items,
                           struct limit_standing *standings)
{
    size_t count = 0;

    for (size_t i = 0; i < exchange->limits.charge_count; i++) {
        const struct limit_rule *rule = exchange->limits.charges[i].rule;
        const struct limit_terms *terms = exchange->limits.charges[i].terms;
        const struct limit_state *state = &exchange->limits.states[i];

        if (!exchange->limits.has_state[i])
            continue;
        standings[count] = (struct limit_standing){limit_capacity(terms), state->available,
                                                   state->retry_after_us, state->never};
        items[count] = (struct ratelimit_item){.name = slice_text(rule->name),
                                               .limit = limit_capacity(terms),
                                               .window_us = limit_period_us(terms),
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
    bool is_refused = exchange->limits.ruling == RULING_REFUSED;
    size_t item_count;
    char *room;

    if (exchange->limits.charge_count == 0 || exchange->stage < STAGE_LIMITING ||
        !(dialects.draft_11 || dialects.plain || dialects.x))
        return count;
    item_count = standings_of(exchange, items, standings);
    if (item_count == 0)
        return count;
    room = client_alloc(exchange->client, FIELDS_ROOM);
    return count + ratelimit_fields(items, item_count, verdict_closest(standings, item_count), dialects,
                                    is_refused ? verdict_reach(standings, item_count).retry_after_us : 0,
                                    room, FIELDS_ROOM, out + count);
}
