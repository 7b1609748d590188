/* Flight, loading: the rebuild lock from its taking to every way it is given back, and what comes of a load. */
#include "flight_parts.h"
#include "check.h"
#include "clock.h"
#include "memory.h"
#include "part.h"
#include "plan.h"
#include "variant.h"

#include <stdlib.h>

/* ---- the rebuild lock ---- */

void flight_release_lock(struct flight *flight, enum release_reason why, int status, int64_t marker_ms)
{
    timer_cancel(flight->all->loop, &flight->renew);
    if (flight->is_released || !flight_token_is_set(flight->token))
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

void flight_on_renew(void *arg)
{
    struct flight *flight = arg;
    struct flights *flights = flight->all;

    if (flight->renewal == NULL)
        flight->renewal =
            store_renew(flights->store, &flight->plan->key, flight->token, LEASE_MS, on_renewed, flight);
    timer_start(flights->loop, &flight->renew, mono_after(loop_now(flights->loop), RENEW_MS));
}

/* ---- the load ---- */

bool flight_is_outdated(const struct flight *flight)
{
    struct near *near = flight->all->store->near;

    if (near_is_outdated(near, flight->epoch, flight->plan->tags, flight->plan->tag_count))
        return true;
    return flight->answer.tag_count > 0 &&
           near_is_outdated(near, flight->epoch, flight->answer.tags, flight->answer.tag_count);
}

/* An invalidation overtook the load. Its leader asked before that and may have the answer; the others look
 * again, with what is left of their patience. */
static void send_riders_back(struct flight *flight)
{
    struct flights *flights = flight->all;

    flight_unlist(flight);
    for (struct link *at = flight->riders.next, *next; at != &flight->riders; at = next) {
        struct rider *rider = LIST_OWNER(at, struct rider, link);

        next = at->next;
        if (rider == flight->leader)
            continue;
        list_leave(&rider->link);
        flight_board_again(flights, rider);
    }
}

/* From now on nobody waits for it. A client that wanted a new one shall not take from others what they have. */
static void leave_pass_marker(struct flight *flight)
{
    flight_release_lock(flight, flight->wants_new ? RELEASE_CANCELLED : RELEASE_UNCACHEABLE, 0,
                        PASS_MARKER_MS);
}

static void tell_leader(struct flight *flight)
{
    if (flight->leader == NULL)
        return;
    if (flight->is_confirmed)
        flight_tell_confirmed(flight, flight->leader);
    else
        flight_tell_stream(flight, flight->leader);
}

/* All but the leader, which may have left: nobody gets what he would have to ask for himself. */
void flight_send_others_alone(struct flight *flight, const char *why)
{
    flight_unlist(flight);
    for (struct link *at = flight->riders.next, *next; at != &flight->riders; at = next) {
        struct rider *rider = LIST_OWNER(at, struct rider, link);

        next = at->next;
        if (rider == flight->leader)
            continue;
        rider->outcome = BOARDING_ALONE;
        rider->object = flight->stand_in == NULL ? NULL : object_hold(flight->stand_in);
        rider->why = why;
        flight_tell(rider);
    }
}

static void end_unshared(struct flight *flight, const char *why)
{
    flight->unstored_why = why;
    flight_unlist(flight);
    if (flight->leader == NULL || !flight->leader->wants_part || flight->is_confirmed)
        tell_leader(flight);
    site_count_load(flight->plan->site, flight->plan->route, LOAD_UNCACHEABLE);
    flight_land_alone(flight, why);
}

/* The others would be given something of their own: they look again, and one of them loads that. */
static void end_personal(struct flight *flight, const char *why)
{
    flight_release_lock(flight, RELEASE_CANCELLED, 0, 0);
    send_riders_back(flight);
    end_unshared(flight, why);
}

static void tell_failure(struct flight *flight)
{
    struct stream *stream = flight->stream;

    if (!flight->has_error_answer)
        flight_land_failed(flight, stream->fault,
                           fault_status(stream->fault)); /* readers see the break for themselves */
    else if (flight_may_stand_in(flight)) {
        int status = stream->status;

        stream_disown(&flight->stream, true);
        flight_land_failed(flight, FAULT_NONE, status);
    } else if (flight->is_error_unshared) {
        tell_leader(flight);
        flight_land_failed(flight, FAULT_NONE, stream->status);
    } else {
        flight_tell_all_stream(flight);
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
    flight_unlist(flight);
    timer_cancel(flight->all->loop, &flight->renew);
    site_count_load(flight->plan->site, flight->plan->route, LOAD_FAILED);
    flight->state = FLIGHT_FAILING;
    if (flight->is_released || !flight_token_is_set(flight->token)) {
        tell_failure(flight);
        return;
    }
    flight->is_released = true;
    flight->call = store_release(flight->all->store, &flight->plan->key, flight->token, RELEASE_FAILED,
                                 status, FAILED_MARKER_MS, on_failure_recorded, flight);
}

/* ---- variants ---- */

void flight_keep_stand_in(struct flight *flight, struct object *object)
{
    object_release(&flight->stand_in);
    if (object != NULL)
        flight->stand_in = object_hold(object);
}

/* The store holds a rule at this key: each rider goes on to the key of its variant. */
void flight_follow_rule(struct flight *flight, const struct object *rule)
{
    struct flights *flights = flight->all;

    flight_unlist(flight);
    flight->leader = NULL;
    while (!list_is_empty(&flight->riders)) {
        struct rider *rider = LIST_OWNER(flight->riders.next, struct rider, link);

        if (variant_follow_rule(rider->plan, rule)) {
            list_leave(&rider->link);
            flight_board_again(flights, rider);
        } else {
            rider->outcome = BOARDING_ALONE;
            rider->why = "vary";
            flight_tell(rider);
        }
    }
    flight_free(flight);
}

/* The answer depends on more than `key` tells apart. From now on that key holds the rule that says so, which
 * ends the lock on it, and whoever waits for it goes on to a key of his own. */
static void leave_rule(struct flight *flight, const struct key32 *key, struct object *rule,
                       const struct lifetimes *lifetimes)
{
    struct flights *flights = flight->all;

    if (flight_token_is_set(flight->token) && !flight->is_released)
        store_fill(flights->store, key, flight->token, rule, lifetimes, NULL, NULL);
    if (flights->store->is_shared)
        near_put(flights->store->near, rule);
    flight->token = (struct load_token){0, 0};
    flight->is_released = true;
    flight_keep_stand_in(flight, NULL); /* it may be of another variant */
}

static void list_at_its_key(struct flight *flight)
{
    struct flight **bucket = flight_bucket_of(flight->all, &flight->plan->key);

    if (flight_find(flight->all, &flight->plan->key) != NULL)
        return; /* another flight is up: who comes boards that one */
    flight->next_in_bucket = *bucket;
    *bucket = flight;
    flight->is_listed = true;
}

static void on_claimed(void *arg, enum fault fault, const struct lookup_answer *answer);

static void ask_for_lock(struct flight *flight)
{
    struct lookup_ask ask = {
        .key = flight->plan->key,
        .tags = flight->plan->tags,
        .tag_count = flight->plan->tag_count,
        .wants_new = flight->wants_new,
        .lease_ms = LEASE_MS,
    };

    flight->call = store_lookup(flight->all->store, &ask, on_claimed, flight);
}

/* Goes on as the load of its variant, whose lock it asks for while the answer arrives: before it lets go of those
 * who wait, or one of them would have that lock and load once more. The epoch stays the one at which the load
 * began. */
static void move_to_variant(struct flight *flight)
{
    struct slice names = slice_of(flight->answer.vary, flight->answer.vary_len);
    struct flights *flights = flight->all;
    struct key32 key = flight->plan->key;
    struct lifetimes lifetimes;
    struct object *rule =
        variant_rule_new(flight->plan, names, flight->epoch, loop_now(flights->loop), &lifetimes);

    timer_cancel(flights->loop, &flight->renew);
    store_cancel(&flight->renewal);
    flight_unlist(flight);
    CHECK(variant_follow(flight->plan, names)); /* has_more */
    flight->is_moved = true;
    ask_for_lock(flight);
    leave_rule(flight, &key, rule, &lifetimes);
    object_release(&rule);
    list_at_its_key(flight);
    for (struct link *at = flight->riders.next, *next; at != &flight->riders; at = next) {
        struct rider *rider = LIST_OWNER(at, struct rider, link);

        next = at->next;
        if (variant_follow(rider->plan, names) &&
            memcmp(&rider->plan->key, &flight->plan->key, sizeof(struct key32)) == 0)
            continue;
        list_leave(&rider->link);
        flight_board_again(flights, rider);
    }
}

/* The upstream has sent the whole instead of a part. Goes on as the load of the whole, whose lock it asks for. */
static void move_to_whole(struct flight *flight)
{
    flight_release_lock(flight, RELEASE_CANCELLED, 0, 0);
    flight_unlist(flight);
    part_plan_whole(flight->plan);
    for (struct link *at = flight->riders.next; at != &flight->riders; at = at->next)
        part_plan_whole(LIST_OWNER(at, struct rider, link)->plan);
    flight_keep_stand_in(flight, NULL); /* it was of the part */
    flight->token = (struct load_token){0, 0};
    flight->is_released = true;
    flight->is_moved = true;
    list_at_its_key(flight);
    ask_for_lock(flight);
}

static void end_outdated(struct flight *flight)
{
    flight_release_lock(flight, RELEASE_CANCELLED, 0, 0);
    site_count_load(flight->plan->site, flight->plan->route, LOAD_INVALIDATED);
    send_riders_back(flight);
    tell_leader(flight);
    flight_free(flight);
}

static void on_stream_end(void *arg);

/* Or it failed, and the answer is kept as it came. */
static void on_compressed(void *arg)
{
    struct flight *flight = arg;

    if (flight->has_whole)
        on_stream_end(flight);
}

static void share_answer(struct flight *flight)
{
    if (flight_is_outdated(flight)) {
        end_outdated(flight);
        return;
    }
    stream_keep(flight->stream, flight->plan->route->cache->max_object_bytes);
    if (load_answer_compresses(&flight->answer, flight->stream, flight->plan))
        flight->compressor = compressor_new(flight->all->loop, flight->stream, on_compressed, flight);
    flight->state = FLIGHT_STREAMING;
    if (flight->plan->is_part && flight->stream->status == 200)
        move_to_whole(flight);
    else if (flight->answer.has_more)
        move_to_variant(flight);
    else if (flight->is_probe)
        list_at_its_key(flight); /* it can be shared: who comes now may ride */
    if (load_answer_asks_always(&flight->answer))
        flight_send_others_alone(flight, "no-cache");
    flight_tell_all_stream(flight);
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

    limiter_settle(&flight->bill, flight->stream->headers, flight->stream->header_count);
    if (is_confirmation(flight))
        return; /* once it has ended, so that its connection can serve again */
    kind = load_answer_judge(&flight->answer, flight->stream, flight->plan, &why);
    switch (kind) {
    case ANSWER_SHARED:
        if (!load_answer_is_error(flight->stream->status) || !flight_may_stand_in(flight)) {
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
    case ANSWER_PERSONAL:
        if (load_answer_is_error(flight->stream->status) && flight_may_stand_in(flight)) {
            flight->has_error_answer = true;
            end_failed(flight, flight->stream->status);
        } else
            end_personal(flight, why);
        return;
    case ANSWER_UNSHARED:
        leave_pass_marker(flight);
        end_unshared(flight, why);
        return;
    case ANSWER_UNSHARED_THIS_TIME:
        flight_release_lock(flight, RELEASE_CANCELLED, 0, 0);
        end_unshared(flight, why);
        return;
    }
}

static void on_overflow(void *arg)
{
    struct flight *flight = arg;

    flight_unlist(flight); /* bytes will be freed: latecomers can't read from the start */
    leave_pass_marker(flight);
    site_count_load(flight->plan->site, flight->plan->route, LOAD_UNCACHEABLE);
    flight_tell_all_stream(flight);
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
        flight_release_lock(flight, RELEASE_CANCELLED, 0, 0);
    } else
        switch (result) {
        case FILL_STORED:
            outcome = LOAD_STORED;
            if (flight->plan->is_part && flight->answer.object->status == 206)
                part_put_near(store->near, &flight->plan->whole_key, flight->answer.object);
            variant_put_preferred(store->near, flight->plan, flight->answer.object);
            if (store->is_shared)
                near_put(store->near, flight->answer.object);
            break;
        case FILL_SUPERSEDED: outcome = LOAD_SUPERSEDED; break;
        case FILL_INVALIDATED: outcome = LOAD_INVALIDATED; break;
        }
    site_count_load(flight->plan->site, flight->plan->route, outcome);
    flight_tell_all_whole(flight); /* who boarded in this very turn */
    flight_free(flight);
}

static void end_without_fill(struct flight *flight, enum load_outcome outcome)
{
    flight_release_lock(flight, RELEASE_CANCELLED, 0, 0);
    site_count_load(flight->plan->site, flight->plan->route, outcome);
    flight_tell_all_stream(flight);
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
    if (kind == ANSWER_PERSONAL) {
        end_personal(flight, why);
        return;
    }
    if (kind != ANSWER_SHARED) {
        leave_pass_marker(flight);
        end_unshared(flight, why);
        return;
    }
    if (flight_is_outdated(flight)) {
        end_outdated(flight);
        return;
    }
    if (load_answer_asks_always(&flight->answer))
        flight_send_others_alone(flight, "no-cache");
    flight_tell_all_confirmed(flight);
    if (flight_token_is_set(flight->token))
        start_fill(flight, &lifetimes);
    else
        end_without_fill(flight, LOAD_UNSTORED);
}

/* NULL: it is kept as it came. */
static const struct packer *packed_form(const struct flight *flight)
{
    return flight->compressor == NULL ? NULL : compressor_result(flight->compressor);
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
    if (flight->compressor != NULL && !compressor_has_ended(flight->compressor)) {
        flight->has_whole = true; /* and soon it will be packed */
        return;
    }
    if (!load_answer_finish(&flight->answer, flight->stream, packed_form(flight), flight->plan, flight->epoch,
                            &lifetimes)) {
        end_without_fill(flight, LOAD_UNCACHEABLE);
        return;
    }
    if (!flight_token_is_set(flight->token)) {
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
    if (fault == FAULT_NONE &&
        (answer->kind == LOOKUP_LOAD || answer->kind == LOOKUP_PROBE || answer->kind == LOOKUP_STALE) &&
        flight_token_is_set(answer->load)) {
        flight->token = answer->load;
        flight->is_released = false;
        timer_start(flight->all->loop, &flight->renew, mono_after(loop_now(flight->all->loop), RENEW_MS));
    }
    if (flight->has_whole)
        on_stream_end(flight);
}

/* What comes of it may be for the leader alone, so that is all who is told. */
static void on_interim(void *arg, const struct origin_response *interim)
{
    struct flight *flight = arg;

    if (flight->leader != NULL && flight->leader->informed != NULL)
        flight->leader->informed(flight->leader->arg, interim);
}

static const struct stream_owner STREAM_OWNER = {on_head, on_overflow, on_stream_end, on_interim};

/* What comes of a load may turn out to be for its leader alone: so the leader is the one whose plan is loaded. */
void flight_take_lead(struct flight *flight, struct rider *rider)
{
    flight->leader = rider;
    plan_free(&flight->plan);
    flight->plan = plan_copy(rider->plan);
}

/* Where the one who brought the plan has left, the plan changes with the leader. */
void flight_choose_leader(struct flight *flight)
{
    if (list_is_empty(&flight->riders))
        return;
    if (flight->leader == NULL)
        flight_take_lead(flight, LIST_OWNER(flight->riders.next, struct rider, link));
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

/* It is paid for, and its lock, where it has one, is being renewed. */
void flight_start_load(struct flight *flight)
{
    flight->state = FLIGHT_LOADING;
    flight_choose_leader(flight);
    flight_send_authorized_alone(flight);
    if (flight->leader != NULL)
        flight->leader->has_led = true;
    start_stream(flight);
}
