/* Flight, paying: who pays for the load that this flight may begin?
 *
 * The order is: the rebuild lock, then the price, then the upstream. So nobody pays for what another one loads, and nothing is
 * loaded unpaid. Asked is the one whose plan it is; who is refused stays aboard while another rider is asked, for whoever
 * rides, rides free. Where nobody pays the lock is given back at once, so that those who wait elsewhere look again and may pay
 * themselves. */
#include "flight_parts.h"

#include <string.h>

static void ask(struct flight *flight);

/* ---- refused ---- */

static bool costs_the_same(const struct load_plan *a, const struct load_plan *b)
{
    if (a->charge_count != b->charge_count)
        return false;
    for (size_t i = 0; i < a->charge_count; i++)
        if (!limit_charge_equals(&a->charges[i], &b->charges[i]))
            return false;
    return true;
}

/* Would `rider` be told the same? Who asks the very same is; and all are, by a limit that is closed while the store is away. */
static bool is_refused_too(const struct flight *flight, const struct rider *rider)
{
    return costs_the_same(rider->plan, flight->plan) ||
           (flight->bill.ruling == RULING_UNAVAILABLE && rider->plan->charge_count > 0 &&
            rider->plan->site == flight->plan->site);
}

/* The one who was asked, and all for whom his decision is enough. */
static void note_refused(struct flight *flight)
{
    for (struct link *at = flight->riders.next; at != &flight->riders; at = at->next) {
        struct rider *rider = LIST_OWNER(at, struct rider, link);

        if (rider != flight->leader && (rider->is_refused || !is_refused_too(flight, rider)))
            continue;
        rider->is_refused = true;
        limit_request_copy_ruling(rider->bill, &flight->bill);
    }
    flight->leader = NULL;
}

static struct rider *next_to_ask(struct flight *flight)
{
    for (struct link *at = flight->riders.next; at != &flight->riders; at = at->next) {
        struct rider *rider = LIST_OWNER(at, struct rider, link);

        if (!rider->is_refused)
            return rider;
    }
    return NULL;
}

/* A copy that is served stale goes on to be, and this worker does not ask again at once: a client that cannot pay for a refresh
 * must not cost the store a question with each of its requests. */
static void pause_refresh(struct flight *flight)
{
    struct flights *flights = flight->all;
    struct mono_ms until = mono_after(loop_now(flights->loop), POLL_MS);

    if (flight->stand_in->stale_until.ms < until.ms)
        until = flight->stand_in->stale_until; /* whoever comes then has to be loaded for */
    flight->token = (struct load_token){0, 0};
    flight->state = FLIGHT_WAITING;
    timer_start(flights->loop, &flight->poll, until);
}

static void end_unpaid(struct flight *flight)
{
    static const struct rider refused = {.outcome = BOARDING_REFUSED};

    site_count_load(flight->plan->site, flight->plan->route, LOAD_UNPAID);
    flight_release_lock(flight, RELEASE_CANCELLED, 0, 0);
    if (list_is_empty(&flight->riders) && flight_may_serve_stale(flight))
        pause_refresh(flight);
    else
        flight_land_all(flight, &refused);
}

/* ---- asking ---- */

static void tell_paid(struct rider *rider, const struct limit_request *bill)
{
    limit_request_copy_ruling(rider->bill, bill);
    if (rider->paid != NULL)
        rider->paid(rider->arg);
}

static void on_decided(void *arg)
{
    struct flight *flight = arg;
    struct rider *next;

    if (flight->bill.ruling == RULING_ADMITTED) {
        if (flight->leader != NULL)
            tell_paid(flight->leader, &flight->bill);
        flight_start_load(flight);
        return;
    }
    if (flight->leader == NULL) /* it was asked for nobody who is still to be told: nobody else counts this */
        limiter_count_refusal(&flight->bill);
    note_refused(flight);
    next = next_to_ask(flight);
    if (next == NULL) {
        end_unpaid(flight);
        return;
    }
    flight_take_lead(flight, next);
    ask(flight);
}

static void ask(struct flight *flight)
{
    const struct load_plan *plan = flight->plan;
    struct limit_request *bill = &flight->bill;

    if (plan->charge_count == 0) {
        flight_start_load(flight);
        return;
    }
    bill->site = plan->site;
    bill->charge_count = plan->charge_count;
    memcpy(bill->charges, plan->charges, plan->charge_count * sizeof(*plan->charges));
    bill->is_tentative = true;
    bill->decided = on_decided;
    bill->arg = flight;
    limiter_ask(flight->all->limiter, bill);
}

/* Whose plan it is pays even if it has left meanwhile, as long as nobody else is aboard: a load belongs to its flight. */
void flight_load_once_paid(struct flight *flight)
{
    struct flights *flights = flight->all;

    flight->state = FLIGHT_PAYING;
    if (flight_token_is_set(flight->token))
        timer_start(flights->loop, &flight->renew, mono_after(loop_now(flights->loop), RENEW_MS));
    if (flight->leader == NULL && !list_is_empty(&flight->riders))
        flight_take_lead(flight, LIST_OWNER(flight->riders.next, struct rider, link));
    flight_send_authorized_alone(flight);
    ask(flight);
}
