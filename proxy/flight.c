/* Flight: see flight.h. */
#include "flight.h"
#include "check.h"
#include "clock.h"
#include "load_answer.h"
#include "memory.h"
#include "plan.h"
#include "variant.h"

#include <stdlib.h>

enum {
    FLIGHT_BUCKETS = 4096,
    LEASE_MS = 3000,          /* how long a dead owner keeps others waiting */
    RENEW_MS = 1000,          /* two renewals may be lost */
    POLL_MS = 100,            /* backstop for a wake that got lost */
    PASS_MARKER_MS = 10000,   /* for how long "not shareable" is remembered */
    FAILED_MARKER_MS = 1000,  /* for how long a failure is shared with its waiters, and refreshes back off */
    OUTDATED_ANSWERS_MAX = 3, /* then the store lacks an invalidation that is known here: serve none of it */
};

enum flight_state {
    FLIGHT_LOOKING,   /* the store is asked */
    FLIGHT_WAITING,   /* somebody else loads */
    FLIGHT_LOADING,   /* we do; no head yet */
    FLIGHT_STREAMING, /* the head came and may be shared */
    FLIGHT_FILLING,   /* the answer is whole, the store is told */
    FLIGHT_FAILING,   /* the load failed, the store is told; takes no more riders */
};

struct flight {
    struct flights *all;
    struct flight *next_in_bucket;
    bool is_listed; /* in the table: takes riders */
    struct link link;
    enum flight_state state;
    struct load_plan *plan;
    struct link riders;   /* parked: not told anything yet */
    struct rider *leader; /* the one whose plan this is, while it is aboard */
    bool has_waited;
    bool has_error_answer;    /* the upstream's own */
    bool is_error_unshared;   /* and that is for the leader alone: the others are told that it failed */
    const char *unstored_why; /* once the answer turned out to be for its leader alone */
    bool asks_if_changed;     /* the load carries the validators of the stand-in */
    bool is_moved;            /* to the key of its variant, and no longer holds the lock that it began with */
    bool has_whole;           /* the answer came to its end before that key's lock did */
    bool is_confirmed;        /* and it has not changed: the leader gets the answer's object */
    int outdated_answers;
    struct load_token token, waited;
    int64_t epoch;
    struct object *stand_in;
    struct store_call *call, *renewal;
    struct timer poll, renew;
    struct stream *stream;
    bool is_released; /* the lock is no longer ours to give back */
    struct load_answer answer;
    struct link dispatch_link;
};

struct flights {
    struct loop *loop;
    struct store *store;
    struct flight *buckets[FLIGHT_BUCKETS];
    struct link all;
    struct link to_dispatch;
    struct task dispatch;
    size_t count;
};

static void start_lookup(struct flight *flight);

/* ---- the table ---- */

static struct flight **bucket_of(struct flights *flights, const struct key32 *key)
{
    uint32_t word;

    memcpy(&word, key->bytes, sizeof(word));
    return &flights->buckets[word % FLIGHT_BUCKETS];
}

static struct flight *find(struct flights *flights, const struct key32 *key)
{
    struct flight *flight = *bucket_of(flights, key);

    while (flight != NULL && memcmp(flight->plan->key.bytes, key->bytes, sizeof(key->bytes)) != 0)
        flight = flight->next_in_bucket;
    return flight;
}

/* From now on a request for this key begins a flight of its own. */
static void unlist(struct flight *flight)
{
    struct flight **at;

    if (!flight->is_listed)
        return;
    flight->is_listed = false;
    for (at = bucket_of(flight->all, &flight->plan->key); *at != flight; at = &(*at)->next_in_bucket)
        CHECK(*at != NULL);
    *at = flight->next_in_bucket;
}

static void on_poll(void *arg);
static void on_renew(void *arg);

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
    timer_init(&flight->renew, on_renew, flight);
    bucket = bucket_of(flights, &plan->key);
    flight->next_in_bucket = *bucket;
    *bucket = flight;
    flight->is_listed = true;
    list_append(&flights->all, &flight->link);
    flights->count++;
    return flight;
}

static void flight_free(struct flight *flight)
{
    struct flights *flights = flight->all;

    CHECK(list_is_empty(&flight->riders));
    unlist(flight);
    list_leave(&flight->link);
    list_leave(&flight->dispatch_link);
    timer_cancel(flights->loop, &flight->poll);
    timer_cancel(flights->loop, &flight->renew);
    store_cancel(&flight->call);
    store_cancel(&flight->renewal);
    object_release(&flight->stand_in);
    stream_disown(&flight->stream, false);
    load_answer_clear(&flight->answer);
    plan_free(&flight->plan);
    flights->count--;
    free(flight);
}

static bool token_is_set(struct load_token token)
{
    return token.hi != 0 || token.lo != 0;
}

/* ---- telling riders ---- */

static void tell(struct rider *rider)
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
static void land_all(struct flight *flight, const struct rider *outcome)
{
    struct site *site = flight->plan->site;

    unlist(flight);
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
        tell(rider);
    }
    flight_free(flight);
}

static void land_object(struct flight *flight, struct object *object, enum cache_result result,
                        const char *why)
{
    struct object *held = object_hold(object);
    struct rider outcome = {.outcome = BOARDING_OBJECT, .object = held, .result = result, .why = why};

    land_all(flight, &outcome);
    object_release(&held);
}

static void land_alone(struct flight *flight, const char *why)
{
    struct rider outcome = {.outcome = BOARDING_ALONE, .why = why};

    land_all(flight, &outcome);
}

/* Is there a copy that nothing has invalidated, and `until` which is not past? */
static bool has_copy_until(const struct flight *flight, struct mono_ms until)
{
    const struct object *copy = flight->stand_in;

    return loop_now(flight->all->loop).ms < until.ms &&
           !near_is_outdated(flight->all->store->near, copy->epoch, copy->tags, copy->tag_count);
}

static bool may_stand_in(const struct flight *flight)
{
    return flight->stand_in != NULL && has_copy_until(flight, flight->stand_in->error_until);
}

static bool may_be_served_stale(const struct flight *flight)
{
    return flight->stand_in != NULL && has_copy_until(flight, flight->stand_in->stale_until);
}

/* The stale copy where there is one that may stand in, else the failure itself, to everybody: nobody tries
 * again in turn. */
static void land_failed(struct flight *flight, enum fault fault, int status)
{
    struct rider outcome = {.outcome = BOARDING_FAILED, .fault = fault, .status = status};

    if (may_stand_in(flight))
        land_object(flight, flight->stand_in, CACHE_STALE, "upstream-error");
    else
        land_all(flight, &outcome);
}

static bool will_be_stored(const struct flight *flight)
{
    bool has_lock = token_is_set(flight->token) && !flight->is_released;
    bool may_get_it = flight->is_moved && flight->call != NULL;

    return flight->state == FLIGHT_STREAMING && (has_lock || may_get_it);
}

static void tell_stream(struct flight *flight, struct rider *rider)
{
    bool is_leader = rider == flight->leader;

    rider->outcome = BOARDING_STREAM;
    rider->stream = flight->stream;
    rider->result = is_leader ? CACHE_MISS : CACHE_WAIT;
    rider->is_stored = will_be_stored(flight);
    rider->why = flight->unstored_why;
    if (!is_leader)
        site_count_collapsed(flight->plan->site, flight->plan->route);
    tell(rider);
}

/* The load is whole: who comes now waits for nobody. */
static void tell_whole(struct flight *flight, struct rider *rider)
{
    rider->outcome = BOARDING_OBJECT;
    rider->object = object_hold(flight->answer.object);
    rider->result = CACHE_HIT;
    rider->why = NULL;
    tell(rider);
}

static void tell_all_whole(struct flight *flight)
{
    while (!list_is_empty(&flight->riders))
        tell_whole(flight, LIST_OWNER(flight->riders.next, struct rider, link));
}

/* The upstream has just said that the copy is still what it was. */
static void tell_confirmed(struct flight *flight, struct rider *rider)
{
    bool is_leader = rider == flight->leader;

    rider->outcome = BOARDING_OBJECT;
    rider->object = object_hold(flight->answer.object);
    rider->result = is_leader ? CACHE_REVALIDATED : CACHE_WAIT;
    rider->waited_us = flight->stream->waited_us;
    rider->is_stored = flight->unstored_why == NULL && token_is_set(flight->token);
    rider->why = flight->unstored_why;
    if (!is_leader)
        site_count_collapsed(flight->plan->site, flight->plan->route);
    tell(rider);
}

static void tell_all_confirmed(struct flight *flight)
{
    while (!list_is_empty(&flight->riders))
        tell_confirmed(flight, LIST_OWNER(flight->riders.next, struct rider, link));
}

static void tell_all_stream(struct flight *flight)
{
    while (!list_is_empty(&flight->riders))
        tell_stream(flight, LIST_OWNER(flight->riders.next, struct rider, link));
}

static void tell_all_stale(struct flight *flight, struct object *object)
{
    while (!list_is_empty(&flight->riders)) {
        struct rider *rider = LIST_OWNER(flight->riders.next, struct rider, link);

        rider->outcome = BOARDING_OBJECT;
        rider->object = object_hold(object);
        rider->result = CACHE_STALE;
        rider->why = NULL;
        tell(rider);
    }
}

/* Riders that boarded a flight which already has something for them are told here, not inside flight_board().
 */
static void tell_latecomers(struct flight *flight)
{
    switch (flight->state) {
    case FLIGHT_LOOKING: return; /* the answer is near, and better than the copy */
    case FLIGHT_WAITING:
    case FLIGHT_LOADING:
        if (may_be_served_stale(flight))
            tell_all_stale(flight, flight->stand_in);
        return;
    case FLIGHT_STREAMING: tell_all_stream(flight); return;
    case FLIGHT_FILLING: tell_all_whole(flight); return;
    case FLIGHT_FAILING: return;
    }
}

static void dispatch(void *arg)
{
    struct flights *flights = arg;

    while (!list_is_empty(&flights->to_dispatch)) {
        struct flight *flight = LIST_OWNER(flights->to_dispatch.next, struct flight, dispatch_link);

        list_leave(&flight->dispatch_link);
        tell_latecomers(flight);
    }
}

static void dispatch_soon(struct flight *flight)
{
    list_leave(&flight->dispatch_link);
    list_append(&flight->all->to_dispatch, &flight->dispatch_link);
    loop_defer(flight->all->loop, &flight->all->dispatch);
}

/* ---- the rebuild lock ---- */

static void release_lock(struct flight *flight, enum release_reason why, int status, int64_t marker_ms)
{
    timer_cancel(flight->all->loop, &flight->renew);
    if (flight->is_released || !token_is_set(flight->token))
        return;
    flight->is_released = true;
    store_release(flight->all->store, &flight->plan->key, flight->token, why, status, marker_ms, NULL, NULL);
}

static void on_renewed(void *arg, enum fault fault, bool was_held)
{
    struct flight *flight = arg;

    flight->renewal = NULL;
    if (fault == FAULT_NONE && !was_held)
        timer_cancel(
            flight->all->loop,
            &flight->renew); /* taken over: the store will refuse our fill, riders still get theirs */
}

static void on_renew(void *arg)
{
    struct flight *flight = arg;
    struct flights *flights = flight->all;

    if (flight->renewal == NULL)
        flight->renewal =
            store_renew(flights->store, &flight->plan->key, flight->token, LEASE_MS, on_renewed, flight);
    timer_start(flights->loop, &flight->renew, mono_after(loop_now(flights->loop), RENEW_MS));
}

/* ---- the load ---- */

static bool is_outdated(const struct flight *flight)
{
    struct near *near = flight->all->store->near;

    if (near_is_outdated(near, flight->epoch, flight->plan->tags, flight->plan->tag_count))
        return true;
    return flight->answer.tag_count > 0 &&
           near_is_outdated(near, flight->epoch, flight->answer.tags, flight->answer.tag_count);
}

static void board(struct flights *flights, struct rider *rider);

/* An invalidation overtook the load. Its leader asked before that and may have the answer; the others look
 * again, with what is left of their patience. */
static void send_riders_back(struct flight *flight)
{
    struct flights *flights = flight->all;

    unlist(flight);
    for (struct link *at = flight->riders.next, *next; at != &flight->riders; at = next) {
        struct rider *rider = LIST_OWNER(at, struct rider, link);

        next = at->next;
        if (rider == flight->leader)
            continue;
        list_leave(&rider->link);
        board(flights, rider);
    }
}

static void tell_leader(struct flight *flight)
{
    if (flight->leader == NULL)
        return;
    if (flight->is_confirmed)
        tell_confirmed(flight, flight->leader);
    else
        tell_stream(flight, flight->leader);
}

/* All but the leader, which may have left: nobody gets what he would have to ask for himself. */
static void send_others_alone(struct flight *flight, const char *why)
{
    unlist(flight);
    for (struct link *at = flight->riders.next, *next; at != &flight->riders; at = next) {
        struct rider *rider = LIST_OWNER(at, struct rider, link);

        next = at->next;
        if (rider == flight->leader)
            continue;
        rider->outcome = BOARDING_ALONE;
        rider->object = flight->stand_in == NULL ? NULL : object_hold(flight->stand_in);
        rider->why = why;
        tell(rider);
    }
}

static void end_unshared(struct flight *flight, const char *why)
{
    flight->unstored_why = why;
    unlist(flight);
    if (flight->leader == NULL || !flight->leader->wants_part || flight->is_confirmed)
        tell_leader(flight);
    site_count_load(flight->plan->site, flight->plan->route, LOAD_UNCACHEABLE);
    land_alone(flight, why);
}

static void tell_failure(struct flight *flight)
{
    struct stream *stream = flight->stream;

    if (!flight->has_error_answer)
        land_failed(flight, stream->fault,
                    fault_status(stream->fault)); /* readers see the break for themselves */
    else if (may_stand_in(flight)) {
        int status = stream->status;

        stream_disown(&flight->stream, true);
        land_failed(flight, FAULT_NONE, status);
    } else if (flight->is_error_unshared) {
        tell_leader(flight);
        land_failed(flight, FAULT_NONE, stream->status);
    } else {
        tell_all_stream(flight);
        flight_free(flight);
    }
}

static void on_failure_recorded(void *arg, enum fault fault, bool was_held)
{
    struct flight *flight = arg;

    (void)fault;
    (void)was_held;
    flight->call = NULL;
    tell_failure(flight);
}

/* Riders are told once the store knows: who has had the failure and asks again begins anew, wherever that is,
 * and is not taken for one who waited for this load. */
static void end_failed(struct flight *flight, int status)
{
    unlist(flight);
    timer_cancel(flight->all->loop, &flight->renew);
    site_count_load(flight->plan->site, flight->plan->route, LOAD_FAILED);
    flight->state = FLIGHT_FAILING;
    if (flight->is_released || !token_is_set(flight->token)) {
        tell_failure(flight);
        return;
    }
    flight->is_released = true;
    flight->call = store_release(flight->all->store, &flight->plan->key, flight->token, RELEASE_FAILED,
                                 status, FAILED_MARKER_MS, on_failure_recorded, flight);
}

/* ---- variants ---- */

static void keep_stand_in(struct flight *flight, struct object *object)
{
    object_release(&flight->stand_in);
    if (object != NULL)
        flight->stand_in = object_hold(object);
}

/* The store holds a rule at this key: each rider goes on to the key of its variant. */
static void follow_rule(struct flight *flight, const struct object *rule)
{
    struct flights *flights = flight->all;

    unlist(flight);
    flight->leader = NULL;
    while (!list_is_empty(&flight->riders)) {
        struct rider *rider = LIST_OWNER(flight->riders.next, struct rider, link);

        if (variant_follow_rule(rider->plan, rule)) {
            list_leave(&rider->link);
            board(flights, rider);
        } else {
            rider->outcome = BOARDING_ALONE;
            rider->why = "vary";
            tell(rider);
        }
    }
    flight_free(flight);
}

/* The answer depends on more than the key tells apart. From now on this key holds the rule that says so, which
 * ends the lock on it. */
static void leave_rule(struct flight *flight, struct slice names)
{
    struct flights *flights = flight->all;
    struct lifetimes lifetimes;
    struct object *rule =
        variant_rule_new(flight->plan, names, flight->epoch, loop_now(flights->loop), &lifetimes);

    timer_cancel(flights->loop, &flight->renew);
    store_cancel(&flight->renewal);
    if (token_is_set(flight->token) && !flight->is_released)
        store_fill(flights->store, &flight->plan->key, flight->token, rule, &lifetimes, NULL, NULL);
    if (flights->store->is_shared)
        near_put(flights->store->near, rule);
    object_release(&rule);
    flight->token = (struct load_token){0, 0};
    flight->is_released = true;
    keep_stand_in(flight, NULL); /* it may be of another variant */
}

static void list_at_its_key(struct flight *flight)
{
    struct flight **bucket = bucket_of(flight->all, &flight->plan->key);

    if (find(flight->all, &flight->plan->key) != NULL)
        return; /* another flight is up: who comes boards that one */
    flight->next_in_bucket = *bucket;
    *bucket = flight;
    flight->is_listed = true;
}

static void on_claimed(void *arg, enum fault fault, const struct lookup_answer *answer);

/* Goes on as the load of its variant, whose lock it asks for while the answer arrives. The epoch stays the one
 * at which the load began. */
static void move_to_variant(struct flight *flight)
{
    struct slice names = slice_of(flight->answer.vary, flight->answer.vary_len);
    struct flights *flights = flight->all;
    struct lookup_ask ask = {
        .tags = flight->plan->tags, .tag_count = flight->plan->tag_count, .lease_ms = LEASE_MS};

    leave_rule(flight, names);
    unlist(flight);
    CHECK(variant_follow(flight->plan, names)); /* has_more */
    flight->is_moved = true;
    list_at_its_key(flight);
    for (struct link *at = flight->riders.next, *next; at != &flight->riders; at = next) {
        struct rider *rider = LIST_OWNER(at, struct rider, link);

        next = at->next;
        if (variant_follow(rider->plan, names) &&
            memcmp(&rider->plan->key, &flight->plan->key, sizeof(struct key32)) == 0)
            continue;
        list_leave(&rider->link);
        board(flights, rider);
    }
    ask.key = flight->plan->key;
    flight->call = store_lookup(flights->store, &ask, on_claimed, flight);
}

static void end_outdated(struct flight *flight)
{
    release_lock(flight, RELEASE_CANCELLED, 0, 0);
    site_count_load(flight->plan->site, flight->plan->route, LOAD_INVALIDATED);
    send_riders_back(flight);
    tell_leader(flight);
    flight_free(flight);
}

static void share_answer(struct flight *flight)
{
    if (is_outdated(flight)) {
        end_outdated(flight);
        return;
    }
    stream_keep(flight->stream, flight->plan->route->cache->max_object_bytes);
    flight->state = FLIGHT_STREAMING;
    if (flight->answer.has_more)
        move_to_variant(flight);
    if (load_answer_asks_always(&flight->answer))
        send_others_alone(flight, "no-cache");
    tell_all_stream(flight);
}

static bool is_confirmation(const struct flight *flight)
{
    return flight->asks_if_changed && flight->stream->has_head && flight->stream->status == 304;
}

static void on_head(void *arg)
{
    struct flight *flight = arg;
    const char *why;
    enum answer_kind kind;

    if (is_confirmation(flight))
        return; /* once it has ended, so that its connection can serve again */
    kind = load_answer_judge(&flight->answer, flight->stream, flight->plan, &why);
    switch (kind) {
    case ANSWER_SHARED:
        if (!load_answer_is_error(flight->stream->status) || !may_stand_in(flight)) {
            share_answer(flight);
            return;
        }
        flight->has_error_answer = true;
        end_failed(flight, flight->stream->status);
        return;
    case ANSWER_ERROR:
    case ANSWER_ERROR_UNSHARED:
        flight->has_error_answer = true;
        flight->is_error_unshared = kind == ANSWER_ERROR_UNSHARED;
        end_failed(flight, flight->stream->status);
        return;
    case ANSWER_UNSHARED:
        release_lock(flight, RELEASE_UNCACHEABLE, 0, PASS_MARKER_MS);
        end_unshared(flight, why);
        return;
    case ANSWER_UNSHARED_THIS_TIME:
        release_lock(flight, RELEASE_CANCELLED, 0, 0);
        end_unshared(flight, why);
        return;
    }
}

static void on_overflow(void *arg)
{
    struct flight *flight = arg;

    unlist(flight); /* bytes will be freed: latecomers can't read from the start */
    release_lock(flight, RELEASE_UNCACHEABLE, 0, PASS_MARKER_MS);
    site_count_load(flight->plan->site, flight->plan->route, LOAD_UNCACHEABLE);
    tell_all_stream(flight);
    flight_free(flight); /* the stream is its readers' now */
}

static void on_filled(void *arg, enum fault fault, enum fill_result result)
{
    struct flight *flight = arg;
    struct store *store = flight->all->store;
    enum load_outcome outcome = LOAD_UNSTORED;

    flight->call = NULL;
    if (fault != FAULT_NONE) { /* perhaps it was never done: then the lock is still held, for nothing */
        flight->is_released = false;
        release_lock(flight, RELEASE_CANCELLED, 0, 0);
    } else
        switch (result) {
        case FILL_STORED:
            outcome = LOAD_STORED;
            if (store->is_shared)
                near_put(store->near, flight->answer.object);
            break;
        case FILL_SUPERSEDED: outcome = LOAD_SUPERSEDED; break;
        case FILL_INVALIDATED: outcome = LOAD_INVALIDATED; break;
        }
    site_count_load(flight->plan->site, flight->plan->route, outcome);
    tell_all_whole(flight); /* who boarded in this very turn */
    flight_free(flight);
}

static void end_without_fill(struct flight *flight, enum load_outcome outcome)
{
    release_lock(flight, RELEASE_CANCELLED, 0, 0);
    site_count_load(flight->plan->site, flight->plan->route, outcome);
    tell_all_stream(flight);
    flight_free(flight);
}

static void start_fill(struct flight *flight, const struct lifetimes *lifetimes)
{
    timer_cancel(flight->all->loop, &flight->renew);
    flight->state = FLIGHT_FILLING;
    flight->is_released = true; /* fill gives the lock back, whatever comes of it */
    flight->call = store_fill(flight->all->store, &flight->plan->key, flight->token, flight->answer.object,
                              lifetimes, on_filled, flight);
}

/* The copy was valid when its validators were sent, and the upstream has seen them since: it is as good as a
 * new answer, and is stored as one that was loaded now. */
static void confirm_copy(struct flight *flight)
{
    const char *why;
    struct lifetimes lifetimes;
    enum answer_kind kind =
        load_answer_judge_copy(&flight->answer, flight->stand_in, flight->stream, flight->plan, &why);

    load_answer_finish_copy(&flight->answer, flight->stand_in, flight->stream, flight->plan, flight->epoch,
                            &lifetimes);
    flight->is_confirmed = true;
    if (kind != ANSWER_SHARED) {
        release_lock(flight, RELEASE_UNCACHEABLE, 0, PASS_MARKER_MS);
        end_unshared(flight, why);
        return;
    }
    if (is_outdated(flight)) {
        end_outdated(flight);
        return;
    }
    if (load_answer_asks_always(&flight->answer))
        send_others_alone(flight, "no-cache");
    tell_all_confirmed(flight);
    if (token_is_set(flight->token))
        start_fill(flight, &lifetimes);
    else
        end_without_fill(flight, LOAD_UNSTORED);
}

static void on_stream_end(void *arg)
{
    struct flight *flight = arg;
    enum fault fault = flight->stream->fault;
    struct lifetimes lifetimes;

    if (flight->state == FLIGHT_FAILING)
        return; /* an error's answer came to its end while the store was told of it */
    if (fault == FAULT_NONE && is_confirmation(flight)) {
        confirm_copy(flight);
        return;
    }
    if (fault != FAULT_NONE) {
        end_failed(flight, fault_status(fault));
        return;
    }
    if (flight->is_moved && flight->call != NULL) {
        flight->has_whole = true; /* the lock is on its way */
        return;
    }
    if (!load_answer_finish(&flight->answer, flight->stream, flight->plan, flight->epoch, &lifetimes)) {
        end_without_fill(flight, LOAD_UNCACHEABLE);
        return;
    }
    if (!token_is_set(flight->token)) {
        end_without_fill(flight, LOAD_UNSTORED);
        return;
    }
    start_fill(flight, &lifetimes);
}

/* Without the lock somebody else loads or has this variant: then this answer is for its riders alone. */
static void on_claimed(void *arg, enum fault fault, const struct lookup_answer *answer)
{
    struct flight *flight = arg;

    flight->call = NULL;
    if (fault == FAULT_NONE && (answer->kind == LOOKUP_LOAD || answer->kind == LOOKUP_STALE) &&
        token_is_set(answer->load)) {
        flight->token = answer->load;
        flight->is_released = false;
        timer_start(flight->all->loop, &flight->renew, mono_after(loop_now(flight->all->loop), RENEW_MS));
    }
    if (flight->has_whole)
        on_stream_end(flight);
}

static const struct stream_owner STREAM_OWNER = {on_head, on_overflow, on_stream_end};

/* What comes of a load may turn out to be for its leader alone: so the leader is the one whose plan is
 * loaded, and where the one who brought the plan has left, the plan changes with the leader. */
static void choose_leader(struct flight *flight)
{
    if (list_is_empty(&flight->riders))
        return;
    if (flight->leader == NULL) {
        flight->leader = LIST_OWNER(flight->riders.next, struct rider, link);
        plan_free(&flight->plan);
        flight->plan = plan_copy(flight->leader->plan);
    }
    timer_cancel(flight->all->loop, &flight->leader->patience);
}

/* Where there is a copy, the upstream need only say that it is still the same. */
static void start_stream(struct flight *flight)
{
    const struct load_plan *plan = flight->plan;
    struct header *room = must_alloc((plan->request.header_count + 2) * sizeof(*room));
    struct origin_request request = plan->request;

    flight->asks_if_changed =
        flight->stand_in != NULL && plan_validation(plan, flight->stand_in, room, &request);
    flight->stream = stream_start(plan->site, plan->route->upstream, &request, &STREAM_OWNER, flight);
    free(room);
}

static void start_load(struct flight *flight)
{
    struct flights *flights = flight->all;

    flight->state = FLIGHT_LOADING;
    choose_leader(flight);
    if (token_is_set(flight->token))
        timer_start(flights->loop, &flight->renew, mono_after(loop_now(flights->loop), RENEW_MS));
    start_stream(flight);
}

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
        start_load(flight);
    } else
        land_alone(flight, "store-away");
}

static void serve(struct flight *flight, const struct lookup_answer *answer, enum cache_result result)
{
    struct store *store = flight->all->store;
    struct object *object = answer->object;

    if (store->is_shared)
        near_put(store->near, object);
    land_object(flight, object, result, NULL);
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
    tell_all_stale(flight, object);
    keep_stand_in(flight, object);
    object_release(&object);
    if (token_is_set(load)) {
        flight->token = load;
        flight->epoch = epoch;
        start_load(flight);
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

        land_all(flight, &outcome); /* what the other gets is for the other: waiting would form a queue */
        return;
    }
    keep_stand_in(flight, answer->object);
    flight->waited = answer->load;
    flight->has_waited = true;
    flight->state = FLIGHT_WAITING;
    timer_start(flights->loop, &flight->poll, mono_after(loop_now(flights->loop), wait_ms < 1 ? 1 : wait_ms));
}

static bool answer_is_outdated(const struct flight *flight, const struct lookup_answer *answer)
{
    struct near *near = flight->all->store->near;

    return answer->object != NULL &&
           near_is_outdated(near, answer->object->epoch, answer->object->tags, answer->object->tag_count);
}

static void on_looked_up(void *arg, enum fault fault, const struct lookup_answer *given)
{
    struct flight *flight = arg;
    struct lookup_answer own, *answer = &own;

    flight->call = NULL;
    if (fault != FAULT_NONE) {
        on_store_away(flight);
        return;
    }
    own = *given;
    if (own.kind != LOOKUP_FRESH && own.object != NULL && object_is_rule(own.object))
        own.object = NULL; /* past its time, and no copy of anything */
    flight->token = (struct load_token){0, 0};
    if (answer->kind == LOOKUP_LOAD || (answer->kind == LOOKUP_STALE && token_is_set(answer->load))) {
        flight->token = answer->load;
        flight->epoch = answer->epoch;
        flight->is_released = false;
    }
    /* A rider may have boarded after an invalidation that this answer does not know of yet. */
    if (answer_is_outdated(flight, answer) || (token_is_set(flight->token) && is_outdated(flight))) {
        release_lock(flight, RELEASE_CANCELLED, 0, 0);
        if (++flight->outdated_answers < OUTDATED_ANSWERS_MAX)
            start_lookup(flight);
        else
            land_alone(flight, "invalidated");
        return;
    }
    switch (answer->kind) {
    case LOOKUP_FRESH:
        if (object_is_rule(answer->object)) {
            if (flight->all->store->is_shared)
                near_put(flight->all->store->near, answer->object);
            follow_rule(flight, answer->object);
            return;
        }
        serve(flight, answer, flight->has_waited ? CACHE_WAIT : CACHE_HIT);
        return;
    case LOOKUP_STALE: serve_stale(flight, answer); return;
    case LOOKUP_LOAD:
        keep_stand_in(flight, answer->object);
        start_load(flight);
        return;
    case LOOKUP_WAIT: wait_for_other(flight, answer); return;
    case LOOKUP_PASS: land_alone(flight, "pass"); return;
    case LOOKUP_FAILED:
        keep_stand_in(flight, answer->object);
        land_failed(flight, FAULT_NONE, answer->status);
        return;
    }
}

static void start_lookup(struct flight *flight)
{
    struct flights *flights = flight->all;
    struct lookup_ask ask = {
        .key = flight->plan->key,
        .tags = flight->plan->tags,
        .tag_count = flight->plan->tag_count,
        .waited = flight->waited,
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
    struct flight *flight = find(flights, key);

    if (flight != NULL && flight->state == FLIGHT_WAITING)
        on_poll(flight);
}

/* ---- boarding ---- */

static void on_impatient(void *arg)
{
    struct rider *rider = arg;

    rider->outcome = BOARDING_ALONE;
    rider->why = "lock-timeout";
    tell(rider);
}

static bool takes_riders(const struct flight *flight)
{
    switch (flight->state) {
    case FLIGHT_LOOKING:
    case FLIGHT_WAITING: return true; /* the answer is checked when it comes */
    case FLIGHT_LOADING:
    case FLIGHT_STREAMING:
    case FLIGHT_FILLING: return !is_outdated(flight);
    case FLIGHT_FAILING: return false;
    }
    return false;
}

/* Its patience is running. */
static void board(struct flights *flights, struct rider *rider)
{
    struct flight *flight = find(flights, &rider->plan->key);

    if (flight != NULL && !takes_riders(flight)) {
        unlist(flight);
        flight = NULL;
    }
    if (flight == NULL) {
        flight = flight_new(flights, rider->plan);
        flight->leader = rider;
        start_lookup(flight);
    }
    rider->flight = flight;
    list_append(&flight->riders, &rider->link);
    dispatch_soon(flight);
}

void flight_board(struct flights *flights, struct rider *rider)
{
    const struct cache_rule *rule = rider->plan->route->cache;

    rider->object = NULL;
    rider->fault = FAULT_NONE;
    list_init(&rider->link);
    timer_init(&rider->patience, on_impatient, rider);
    timer_start(flights->loop, &rider->patience, mono_after(loop_now(flights->loop), rule->lock_timeout_ms));
    board(flights, rider);
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

void flight_refresh(struct flights *flights, const struct load_plan *plan)
{
    if (find(flights, &plan->key) == NULL)
        start_lookup(flight_new(flights, plan));
}

/* ---- all of them ---- */

struct flights *flights_new(struct loop *loop, struct store *store)
{
    struct flights *flights = must_alloc(sizeof(*flights));

    flights->loop = loop;
    flights->store = store;
    list_init(&flights->all);
    list_init(&flights->to_dispatch);
    task_init(&flights->dispatch, LOOP_DECIDE, dispatch, flights);
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

        release_lock(flight, RELEASE_CANCELLED, 0, 0);
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
