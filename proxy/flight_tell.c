/* Flight, telling: each rider learns once what became of what it waits for, in the order of boarding.
 *
 * A rider that is told may leave, board again or end others: it is off its flight's list before it is told. */
#include "flight_parts.h"
#include "check.h"

/* ---- telling riders ---- */

void flight_tell(struct rider *rider)
{
    struct flights *flights = rider->flight->all;

    if (rider->flight->leader == rider)
        rider->flight->leader = NULL;
    timer_cancel(flights->loop, &rider->patience);
    list_leave(&rider->link);
    rider->flight = NULL;
    rider->landed(rider->arg); /* may end the rider */
}

/* Ends the flight for all its riders alike: nobody boards any more, each is told, the flight is gone. */
void flight_land_all(struct flight *flight, const struct rider *outcome)
{
    struct site *site = flight->plan->site;

    flight_unlist(flight);
    while (!list_is_empty(&flight->riders)) {
        struct rider *rider = LIST_OWNER(flight->riders.next, struct rider, link);

        rider->outcome = outcome->outcome;
        rider->object = outcome->object == NULL ? NULL : object_hold(outcome->object);
        rider->result = outcome->result;
        rider->why = outcome->why;
        rider->fault = outcome->fault;
        rider->status = outcome->status;
        if (outcome->outcome == BOARDING_OBJECT && outcome->result == CACHE_WAIT)
            site_count_collapsed(site, flight->plan->route);
        flight_tell(rider);
    }
    flight_free(flight);
}

void flight_land_object(struct flight *flight, struct object *object, enum cache_result result,
                        const char *why)
{
    struct object *held = object_hold(object);
    struct rider outcome = {.outcome = BOARDING_OBJECT, .object = held, .result = result, .why = why};

    flight_land_all(flight, &outcome);
    object_release(&held);
}

void flight_land_alone(struct flight *flight, const char *why)
{
    struct rider outcome = {.outcome = BOARDING_ALONE, .why = why};

    flight_land_all(flight, &outcome);
}

/* Is there a copy that nothing has invalidated, and `until` which is not past? */
static bool has_copy_until(const struct flight *flight, struct mono_ms until)
{
    const struct object *copy = flight->stand_in;

    return loop_now(flight->all->loop).ms < until.ms && !near_outdates(flight->all->store->near, copy);
}

bool flight_may_stand_in(const struct flight *flight)
{
    return flight->stand_in != NULL && !flight->wants_new &&
           has_copy_until(flight, flight->stand_in->error_until);
}

bool flight_may_serve_stale(const struct flight *flight)
{
    return flight->stand_in != NULL && !flight->wants_new &&
           has_copy_until(flight, flight->stand_in->stale_until);
}

/* What other nodes leave of a failure is its status alone: these two are what clients get where no answer came, or a gateway
 * behind us got none. */
static bool is_no_answer(enum fault fault, int status)
{
    return fault == FAULT_NONE ? status == 502 || status == 504 : fault_is_no_answer(fault);
}

static bool may_bridge(const struct flight *flight)
{
    return flight->stand_in != NULL && !flight->wants_new &&
           has_copy_until(flight, copy_bridges_until(flight->stand_in, flight->plan->route->cache));
}

/* The stale copy where there is one that may stand in, else the failure itself, to everybody: nobody tries
 * again in turn. */
void flight_land_failed(struct flight *flight, enum fault fault, int status)
{
    struct rider outcome = {.outcome = BOARDING_FAILED, .fault = fault, .status = status};

    if (flight_may_stand_in(flight) || (is_no_answer(fault, status) && may_bridge(flight)))
        flight_land_object(flight, flight->stand_in, CACHE_STALE, "upstream-error");
    else
        flight_land_all(flight, &outcome);
}

static bool will_be_stored(const struct flight *flight)
{
    bool has_lock = flight_token_is_set(flight->token) && !flight->is_released;
    bool may_get_it = flight->is_moved && flight->call != NULL;

    return flight->state == FLIGHT_STREAMING && (has_lock || may_get_it);
}

void flight_tell_stream(struct flight *flight, struct rider *rider)
{
    bool is_leader = rider == flight->leader;

    rider->outcome = BOARDING_STREAM;
    rider->stream = flight->stream;
    rider->result = is_leader ? CACHE_MISS : CACHE_WAIT;
    rider->is_stored = will_be_stored(flight);
    rider->is_renewal =
        flight->stand_in != NULL && !near_outdates(flight->all->store->near, flight->stand_in);
    rider->why = flight->unstored_why;
    if (!is_leader)
        site_count_collapsed(flight->plan->site, flight->plan->route);
    flight_tell(rider);
}

/* Not the leader: what is being loaded is its own, unless the flight waits for the load of another. */
static struct rider *find_authorized(const struct flight *flight)
{
    const struct rider *loader = flight->state == FLIGHT_WAITING ? NULL : flight->leader;

    for (struct link *at = flight->riders.next; at != &flight->riders; at = at->next) {
        struct rider *rider = LIST_OWNER(at, struct rider, link);

        if (rider->plan->has_authorization && rider != loader)
            return rider;
    }
    return NULL;
}

/* What another is given need not be what an upstream that knows the client would give: so a request with Authorization
 * waits for nobody's load but its own. */
void flight_send_authorized_alone(struct flight *flight)
{
    struct rider *rider;

    while ((rider = find_authorized(flight)) != NULL) {
        rider->outcome = BOARDING_ALONE;
        rider->object = NULL;
        rider->why = "authorization";
        flight_tell(rider);
    }
}

/* The load is whole: who comes now waits for nobody. */
static void tell_whole(struct flight *flight, struct rider *rider)
{
    rider->outcome = BOARDING_OBJECT;
    rider->object = object_hold(flight->answer.object);
    rider->result = CACHE_HIT;
    rider->why = NULL;
    flight_tell(rider);
}

void flight_tell_all_whole(struct flight *flight)
{
    while (!list_is_empty(&flight->riders))
        tell_whole(flight, LIST_OWNER(flight->riders.next, struct rider, link));
}

/* The upstream has just said that the copy is still what it was. */
void flight_tell_confirmed(struct flight *flight, struct rider *rider)
{
    bool is_leader = rider == flight->leader;

    rider->outcome = BOARDING_OBJECT;
    rider->object = object_hold(flight->answer.object);
    rider->result = is_leader ? CACHE_REVALIDATED : CACHE_WAIT;
    rider->waited_us = flight->stream->waited_us;
    rider->is_stored = flight->unstored_why == NULL && flight_token_is_set(flight->token);
    rider->why = flight->unstored_why;
    if (!is_leader)
        site_count_collapsed(flight->plan->site, flight->plan->route);
    flight_tell(rider);
}

void flight_tell_all_confirmed(struct flight *flight)
{
    while (!list_is_empty(&flight->riders))
        flight_tell_confirmed(flight, LIST_OWNER(flight->riders.next, struct rider, link));
}

void flight_tell_all_stream(struct flight *flight)
{
    while (!list_is_empty(&flight->riders))
        flight_tell_stream(flight, LIST_OWNER(flight->riders.next, struct rider, link));
}

void flight_tell_all_stale(struct flight *flight, struct object *object)
{
    while (!list_is_empty(&flight->riders)) {
        struct rider *rider = LIST_OWNER(flight->riders.next, struct rider, link);

        rider->outcome = BOARDING_OBJECT;
        rider->object = object_hold(object);
        rider->result = CACHE_STALE;
        rider->why = NULL;
        flight_tell(rider);
    }
}

/* Riders that boarded a flight which already has something for them are told here, not inside flight_board().
 */
static void tell_latecomers(struct flight *flight)
{
    switch (flight->state) {
    case FLIGHT_LOOKING: return; /* the answer is near, and better than the copy */
    case FLIGHT_WAITING:
    case FLIGHT_PAYING:
    case FLIGHT_LOADING:
        flight_send_authorized_alone(flight);
        if (flight_may_serve_stale(flight))
            flight_tell_all_stale(flight, flight->stand_in);
        return;
    case FLIGHT_STREAMING:
        if (!flight->answer.permits_authorization)
            flight_send_authorized_alone(flight);
        flight_tell_all_stream(flight);
        return;
    case FLIGHT_FILLING: flight_tell_all_whole(flight); return;
    case FLIGHT_FAILING: return;
    }
}

void flight_dispatch(void *arg)
{
    struct flights *flights = arg;

    while (!list_is_empty(&flights->to_dispatch)) {
        struct flight *flight = LIST_OWNER(flights->to_dispatch.next, struct flight, dispatch_link);

        list_leave(&flight->dispatch_link);
        tell_latecomers(flight);
    }
}

void flight_dispatch_soon(struct flight *flight)
{
    list_leave(&flight->dispatch_link);
    list_append(&flight->all->to_dispatch, &flight->dispatch_link);
    loop_defer(flight->all->loop, &flight->all->dispatch);
}
