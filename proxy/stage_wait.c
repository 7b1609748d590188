/* Wait: a request that a limit refused waits for its turn to ask again, its client connected and charged nothing. */
#include "exchange.h"
#include "clock.h"
#include "verdict.h"

static void ask_again(void *arg)
{
    struct exchange *exchange = arg;

    exchange->refusal = NULL;
    if (exchange->waits_for == &exchange->limits)
        ask_limits(exchange);
    else if (exchange->goes_alone)
        stage_pay(exchange);
    else
        look_up_again(exchange); /* somebody may have loaded it meanwhile */
}

/* By the plans that hold by now. */
static void on_turn(void *arg)
{
    struct exchange *exchange = arg;

    if (settle_plans(exchange, ask_again))
        ask_again(exchange);
}

static void begin(struct exchange *exchange, struct limit_request *request, const struct limit_rule *rule)
{
    if (exchange->waits_at == rule)
        return;
    if (exchange->waits_at != NULL)
        site_count_waiting(exchange->site, exchange->waits_at, -1);
    else
        exchange->wait_began_us = clock_mono_us();
    exchange->waits_for = request;
    exchange->waits_at = rule;
    site_count_waiting(exchange->site, rule, 1);
    site_count_limit(exchange->site, rule, LIMIT_WAITED);
}

void wait_no_longer(struct exchange *exchange)
{
    int64_t waited_us;

    if (exchange->waits_at == NULL)
        return;
    waits_leave(exchange->story->waits, &exchange->waiter);
    waited_us = clock_mono_us() - exchange->wait_began_us;
    exchange->limit_wait_us += waited_us;
    site_count_waiting(exchange->site, exchange->waits_at, -1);
    site_observe_wait(exchange->site, exchange->waits_at, waited_us);
    exchange->waits_at = NULL;
    exchange->waits_for = NULL;
}

static void nudge_for(struct exchange *exchange, const struct limit_request *request)
{
    for (size_t i = 0; i < request->charge_count; i++)
        if (request->charges[i].takes_hold && request->charges[i].rule->when_refused == WAIT_FOR_IT)
            waits_nudge(exchange->story->waits, &request->charges[i]);
}

void let_others_try(struct exchange *exchange)
{
    nudge_for(exchange, &exchange->limits);
    if (exchange->bill != NULL)
        nudge_for(exchange, exchange->bill);
}

/* Of the limits that refuse and let wait, the one whose wait is longest; among those that know none, the first. */
static const struct limit_charge *charge_to_wait_for(const struct limit_request *request)
{
    const struct limit_charge *longest = NULL;
    int64_t longest_us = -1;

    for (size_t i = 0; i < request->charge_count; i++) {
        struct limit_standing standing = limit_request_standing(request, i);

        if (request->has_state[i] && limit_refuses(&standing) && standing.retry_after_us > longest_us &&
            request->charges[i].rule->when_refused == WAIT_FOR_IT) {
            longest = &request->charges[i];
            longest_us = standing.retry_after_us;
        }
    }
    return longest;
}

bool stage_wait(struct exchange *exchange, struct limit_request *request)
{
    const struct limit_charge *charge = charge_to_wait_for(request);

    exchange->waiter.turn = on_turn;
    exchange->waiter.arg = exchange;
    if (charge == NULL ||
        !waits_stay(exchange->story->waits, &exchange->waiter, charge, limit_request_wait_us(request)))
        return false;
    begin(exchange, request, charge->rule);
    return true;
}

bool wait_behind(struct exchange *exchange, struct limit_request *request)
{
    const struct limit_charge *charge =
        waits_find_line(exchange->story->waits, request->charges, request->charge_count);

    exchange->waiter.turn = on_turn;
    exchange->waiter.arg = exchange;
    if (charge == NULL || charge->cost > limit_capacity(charge->terms) /* no waiting helps */ ||
        !waits_join(exchange->story->waits, &exchange->waiter, charge))
        return false;
    begin(exchange, request, charge->rule);
    return true;
}
