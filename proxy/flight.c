/* Flight: see flight.h. The table of flights, who boards them, and what the store says of their keys. */
#include "flight_parts.h"
#include "check.h"
#include "memory.h"
#include "plan.h"
#include "variant.h"

#include <stdlib.h>

/* ---- the table ---- */

struct flight **flight_bucket_of(struct flights *flights, const struct key32 *key)
{
    uint32_t word;

    memcpy(&word, key->bytes, sizeof(word));
    return &flights->buckets[word % FLIGHT_BUCKETS];
}

struct flight *flight_find(struct flights *flights, const struct key32 *key)
{
    struct flight *flight = *flight_bucket_of(flights, key);

    while (flight != NULL && memcmp(flight->plan->key.bytes, key->bytes, sizeof(key->bytes)) != 0)
        flight = flight->next_in_bucket;
    return flight;
}

/* From now on a request for this key begins a flight of its own. */
void flight_unlist(struct flight *flight)
{
    struct flight **at;

    if (!flight->is_listed)
        return;
    flight->is_listed = false;
    for (at = flight_bucket_of(flight->all, &flight->plan->key); *at != flight; at = &(*at)->next_in_bucket)
        CHECK(*at != NULL);
    *at = flight->next_in_bucket;
}

static void on_poll(void *arg);

static struct flight *flight_new(struct flights *flights, const struct load_plan *plan)
{
    struct flight *flight = must_alloc(sizeof(*flight));
    struct flight **bucket;

    flight->all = flights;
    flight->plan = plan_copy(plan);
    list_init(&flight->riders);
    list_init(&flight->link);
    list_init(&flight->dispatch_link);
    timer_init(&flight->poll, on_poll, flight);
    timer_init(&flight->renew, flight_on_renew, flight);
    bucket = flight_bucket_of(flights, &plan->key);
    flight->next_in_bucket = *bucket;
    *bucket = flight;
    flight->is_listed = true;
    list_append(&flights->all, &flight->link);
    flights->count++;
    return flight;
}

void flight_free(struct flight *flight)
{
    struct flights *flights = flight->all;

    CHECK(list_is_empty(&flight->riders));
    flight_unlist(flight);
    list_leave(&flight->link);
    list_leave(&flight->dispatch_link);
    timer_cancel(flights->loop, &flight->poll);
    timer_cancel(flights->loop, &flight->renew);
    store_cancel(&flight->call);
    store_cancel(&flight->renewal);
    if (stream_is_unanswered(flight->stream))
        limiter_settle_unanswered(&flight->bill);
    limiter_leave(flights->limiter, &flight->bill);
    object_release(&flight->stand_in);
    compressor_free(&flight->compressor);
    stream_disown(&flight->stream, false);
    load_answer_clear(&flight->answer);
    plan_free(&flight->plan);
    flights->count--;
    free(flight);
}

bool flight_token_is_set(struct load_token token)
{
    return token.hi != 0 || token.lo != 0;
}

static void start_lookup(struct flight *flight);

/* ---- the lookup ---- */

/* The store is away. Where the route says `serve`, the riders of this worker still share one load, which
 * nobody stores. */
static void on_store_away(struct flight *flight)
{
    bool shares = !flight->plan->route->cache->bypass_on_store_failure && !list_is_empty(&flight->riders);

    site_count_degraded(flight->plan->site, DEGRADED_CACHE_BYPASSED);
    if (shares) {
        flight->token = (struct load_token){0, 0};
        flight->epoch = near_epoch(flight->all->store->near);
        flight_load_once_paid(flight);
    } else
        flight_land_alone(flight, "store-away");
}

static void serve(struct flight *flight, const struct lookup_answer *answer, enum cache_result result)
{
    struct store *store = flight->all->store;
    struct object *object = answer->object;

    if (store->is_shared)
        near_put(store->near, object);
    flight_land_object(flight, object, result, NULL);
}

/* The riders have the copy; the flight goes on alone, as refresh or as a pause before the next question. */
static void serve_stale(struct flight *flight, const struct lookup_answer *answer)
{
    struct flights *flights = flight->all;
    struct object *object = object_hold(answer->object);
    struct load_token load = answer->load;
    int64_t epoch = answer->epoch;

    if (flights->store->is_shared)
        near_put(flights->store->near, object);
    flight_tell_all_stale(flight, object);
    flight_keep_stand_in(flight, object);
    object_release(&object);
    if (flight_token_is_set(load)) {
        flight->token = load;
        flight->epoch = epoch;
        flight_load_once_paid(flight);
    } else {
        flight->state = FLIGHT_WAITING;
        timer_start(flights->loop, &flight->poll, mono_after(loop_now(flights->loop), POLL_MS));
    }
}

static void wait_for_other(struct flight *flight, const struct lookup_answer *answer)
{
    struct flights *flights = flight->all;
    int64_t wait_ms = answer->wait_ms < POLL_MS ? answer->wait_ms : POLL_MS;

    if (answer->object != NULL && copy_asks_always(answer->object, flight->plan->route->cache)) {
        struct rider outcome = {.outcome = BOARDING_ALONE, .why = "no-cache", .object = answer->object};

        flight_land_all(flight,
                        &outcome); /* what the other gets is for the other: waiting would form a queue */
        return;
    }
    flight_keep_stand_in(flight, answer->object);
    flight->waited = answer->load;
    flight->has_waited = true;
    flight->state = FLIGHT_WAITING;
    timer_start(flights->loop, &flight->poll, mono_after(loop_now(flights->loop), wait_ms < 1 ? 1 : wait_ms));
    flight_send_authorized_alone(flight);
}

/* Of those who came together one brings what may prove storable after all; the others are not kept waiting for it. */
static void start_probe(struct flight *flight, struct object *object)
{
    flight_keep_stand_in(flight, object);
    flight->is_probe = true;
    flight_choose_leader(flight);
    flight_send_others_alone(flight, "pass");
    flight_load_once_paid(flight);
}

static bool answer_is_outdated(const struct flight *flight, const struct lookup_answer *answer)
{
    return answer->object != NULL && near_outdates(flight->all->store->near, answer->object);
}

/* The right to load that came with the answer, if one did. */
static void take_token(struct flight *flight, const struct lookup_answer *answer)
{
    flight->token = (struct load_token){0, 0};
    if (answer->kind == LOOKUP_LOAD || answer->kind == LOOKUP_PROBE ||
        (answer->kind == LOOKUP_STALE && flight_token_is_set(answer->load))) {
        flight->token = answer->load;
        flight->epoch = answer->epoch;
        flight->is_released = false;
    }
}

static void look_again(struct flight *flight)
{
    flight_release_lock(flight, RELEASE_CANCELLED, 0, 0);
    if (++flight->outdated_answers < OUTDATED_ANSWERS_MAX)
        start_lookup(flight);
    else
        flight_land_alone(flight, "invalidated");
}

static void serve_fresh(struct flight *flight, const struct lookup_answer *answer)
{
    if (!object_is_rule(answer->object)) {
        serve(flight, answer, flight->has_waited ? CACHE_WAIT : CACHE_HIT);
        return;
    }
    if (flight->all->store->is_shared)
        near_put(flight->all->store->near, answer->object);
    flight_follow_rule(flight, answer->object);
}

static void follow_answer(struct flight *flight, const struct lookup_answer *answer)
{
    switch (answer->kind) {
    case LOOKUP_FRESH: serve_fresh(flight, answer); return;
    case LOOKUP_STALE: serve_stale(flight, answer); return;
    case LOOKUP_LOAD:
        flight_keep_stand_in(flight, answer->object);
        flight_load_once_paid(flight);
        return;
    case LOOKUP_PROBE: start_probe(flight, answer->object); return;
    case LOOKUP_WAIT: wait_for_other(flight, answer); return;
    case LOOKUP_ABSENT: /* an answer to a mere look */
    case LOOKUP_PASS: flight_land_alone(flight, "pass"); return;
    case LOOKUP_FAILED:
        flight_keep_stand_in(flight, answer->object);
        flight_land_failed(flight, FAULT_NONE, answer->status);
        return;
    }
}

static void on_looked_up(void *arg, enum fault fault, const struct lookup_answer *given)
{
    struct flight *flight = arg;
    struct lookup_answer answer;

    flight->call = NULL;
    if (fault != FAULT_NONE) {
        on_store_away(flight);
        return;
    }
    answer = *given;
    take_token(flight, &answer);
    if (answer.object != NULL && object_is_rule(answer.object)) {
        if (flight->wants_new && answer.kind == LOOKUP_LOAD) {
            flight_release_lock(flight, RELEASE_CANCELLED, 0, 0);
            flight_follow_rule(flight, answer.object); /* that is not what is to be new */
            return;
        }
        if (answer.kind == LOOKUP_STALE) /* there is nothing to serve meanwhile */
            answer.kind = flight_token_is_set(flight->token) ? LOOKUP_LOAD : LOOKUP_FRESH;
        if (answer.kind != LOOKUP_FRESH)
            answer.object = NULL; /* past its time, and no copy of anything */
    }
    /* A rider may have boarded after an invalidation that this answer does not know of yet. */
    if (answer_is_outdated(flight, &answer) ||
        (flight_token_is_set(flight->token) && flight_is_outdated(flight)))
        look_again(flight);
    else
        follow_answer(flight, &answer);
}

static void start_lookup(struct flight *flight)
{
    struct flights *flights = flight->all;
    struct lookup_ask ask = {
        .key = flight->plan->key,
        .tags = flight->plan->tags,
        .tag_count = flight->plan->tag_count,
        .waited = flight->waited,
        .wants_new = flight->wants_new,
        .lease_ms = LEASE_MS,
    };

    timer_cancel(flights->loop, &flight->poll);
    flight->state = FLIGHT_LOOKING;
    flight->call = store_lookup(flights->store, &ask, on_looked_up, flight);
}

static void on_poll(void *arg)
{
    struct flight *flight = arg;

    if (list_is_empty(&flight->riders))
        flight_free(flight); /* nobody waits: whoever comes next asks */
    else
        start_lookup(flight);
}

void flights_wake(struct flights *flights, const struct key32 *key)
{
    struct flight *flight = flight_find(flights, key);

    if (flight != NULL && flight->state == FLIGHT_WAITING)
        on_poll(flight);
}

/* ---- boarding ---- */

static void on_impatient(void *arg)
{
    struct rider *rider = arg;

    rider->outcome = BOARDING_ALONE;
    rider->why = "lock-timeout";
    flight_tell(rider);
}

static bool takes_riders(const struct flight *flight)
{
    switch (flight->state) {
    case FLIGHT_LOOKING:
    case FLIGHT_WAITING: return true; /* the answer is checked when it comes */
    case FLIGHT_PAYING:
    case FLIGHT_LOADING:
    case FLIGHT_STREAMING:
    case FLIGHT_FILLING: return !flight_is_outdated(flight);
    case FLIGHT_FAILING: return false;
    }
    return false;
}

/* Its patience is running. */
void flight_board_again(struct flights *flights, struct rider *rider)
{
    struct flight *flight = rider->wants_new ? NULL : flight_find(flights, &rider->plan->key);

    if (flight != NULL && !takes_riders(flight)) {
        flight_unlist(flight);
        flight = NULL;
    }
    if (flight == NULL) {
        flight = flight_new(flights, rider->plan);
        flight->leader = rider;
        flight->wants_new = rider->wants_new;
        if (flight->wants_new)
            flight_unlist(flight);
        start_lookup(flight);
    }
    rider->flight = flight;
    rider->is_refused = false;
    list_append(&flight->riders, &rider->link);
    flight_dispatch_soon(flight);
}

void flight_board(struct flights *flights, struct rider *rider)
{
    const struct cache_rule *rule = rider->plan->route->cache;

    rider->object = NULL;
    rider->fault = FAULT_NONE;
    list_init(&rider->link);
    timer_init(&rider->patience, on_impatient, rider);
    timer_start(flights->loop, &rider->patience, mono_after(loop_now(flights->loop), rule->lock_timeout_ms));
    flight_board_again(flights, rider);
}

void flight_leave(struct flights *flights, struct rider *rider)
{
    if (rider->flight == NULL)
        return;
    if (rider->flight->leader == rider)
        rider->flight->leader = NULL;
    timer_cancel(flights->loop, &rider->patience);
    list_leave(&rider->link);
    rider->flight = NULL;
}

bool flights_have(struct flights *flights, const struct key32 *key)
{
    const struct flight *flight = flight_find(flights, key);

    return flight != NULL && takes_riders(flight);
}

void flight_refresh(struct flights *flights, const struct load_plan *plan)
{
    if (flight_find(flights, &plan->key) == NULL)
        start_lookup(flight_new(flights, plan));
}

/* ---- all of them ---- */

struct flights *flights_new(struct loop *loop, struct store *store, struct limiter *limiter)
{
    struct flights *flights = must_alloc(sizeof(*flights));

    flights->loop = loop;
    flights->store = store;
    flights->limiter = limiter;
    list_init(&flights->all);
    list_init(&flights->to_dispatch);
    task_init(&flights->dispatch, LOOP_DECIDE, flight_dispatch, flights);
    return flights;
}

size_t flights_under_way(const struct flights *flights)
{
    return flights->count;
}

void flights_cancel(struct flights *flights)
{
    while (!list_is_empty(&flights->all)) {
        struct flight *flight = LIST_OWNER(flights->all.next, struct flight, link);

        flight_release_lock(flight, RELEASE_CANCELLED, 0, 0);
        stream_disown(&flight->stream, true);
        flight_free(flight);
    }
}

void flights_free(struct flights *flights)
{
    flights_cancel(flights);
    task_cancel(flights->loop, &flights->dispatch);
    free(flights);
}
