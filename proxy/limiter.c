/* Limiter: see limiter.h. */
#include "limiter.h"
#include "check.h"
#include "clock.h"
#include "loop.h"
#include "memory.h"
#include "refusals.h"
#include "verdict.h"

#include <stdlib.h>
#include <string.h>

/* The requests of one turn (or those of a turn that must be decided locally), on their way through one store.
 */
struct limit_batch {
    struct limiter *limiter;
    struct link link;  /* among the limiter's batches */
    struct link asked; /* requests, in order of arrival */
    struct admit_tuple *tuples;
    struct limit_charge *charges;
    size_t count, room, charge_count, charge_room;
    struct link holdings; /* that are asked about */
    struct store_call *call;
    int64_t asked_us;
    uint64_t corrections; /* of the store, when it was asked */
    bool is_fallback;
    struct site **
        sites; /* whose rules the charges point to: few, but who waits in line may have come many reloads ago */
    size_t site_count, site_room;
};

struct limiter {
    struct loop *loop;
    struct store *store, *fallback;
    struct link gathering; /* asked in this turn */
    struct link denied;    /* likewise, and known to be refused */
    struct link batches;   /* under way */
    struct task flush;
    struct refusals *refusals;
    struct holdings *holdings, *local_holdings; /* in `store`, in `fallback` */
    uint64_t corrections;                       /* of the store, that the refusals know of */
    int64_t (*read_us)(void);
};

/* ---- building a batch ---- */

static bool charges_equal(const struct limit_charge *a, const struct limit_charge *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!limit_charge_equals(&a[i], &b[i]))
            return false;
    return true;
}

static struct limit_batch *batch_new(struct limiter *limiter, struct link *requests)
{
    struct limit_batch *batch = must_alloc(sizeof(*batch));

    batch->limiter = limiter;
    list_init(&batch->asked);
    list_init(&batch->link);
    list_init(&batch->holdings);
    for (struct link *at = requests->next; at != requests; at = at->next) {
        const struct limit_request *request = LIST_OWNER(at, struct limit_request, link);

        batch->room += 1 + request->charge_count; /* each may be in shadow */
        batch->charge_room += request->charge_count;
        batch->site_room++; /* each may be of its own */
    }
    batch->tuples = must_alloc((batch->room + 1) * sizeof(*batch->tuples));
    batch->charges = must_alloc((batch->charge_room + 1) * sizeof(*batch->charges));
    batch->sites = must_alloc(batch->site_room * sizeof(struct site *));
    list_append(&limiter->batches, &batch->link);
    return batch;
}

static size_t tuple_new(struct limit_batch *batch, const struct limit_charge *charges, size_t count)
{
    struct limit_charge *copy = batch->charges + batch->charge_count;

    CHECK(batch->count < batch->room && batch->charge_count + count <= batch->charge_room);
    if (count > 0)
        memcpy(copy, charges, count * sizeof(*copy));
    batch->charge_count += count;
    batch->tuples[batch->count] = (struct admit_tuple){.charges = copy, .charge_count = count};
    return batch->count++;
}

static bool is_shadow(const struct limit_charge *charge)
{
    return charge->rule->mode == LIMIT_IN_SHADOW;
}

/* The charges of a request that are asked for: one tuple for those that are enforced, and behind it one for each limit in
 * shadow, so that none of them makes others refuse. Returns the first. */
static size_t tuples_new(struct limit_batch *batch, const struct limit_request *request)
{
    struct limit_charge enforced[LIMITS_PER_REQUEST];
    size_t count = 0, tuple;

    for (size_t i = 0; i < request->charge_count; i++)
        if (request->has_state[i] && !is_shadow(&request->charges[i]))
            enforced[count++] = request->charges[i];
    tuple = tuple_new(batch, enforced, count);
    for (size_t i = 0; i < request->charge_count; i++)
        if (request->has_state[i] && is_shadow(&request->charges[i]))
            batch->tuples[tuple_new(batch, &request->charges[i], 1)].count = ADMIT_WHAT_PASSED;
    return tuple;
}

static struct holdings *holdings_of(const struct limit_batch *batch)
{
    return batch->is_fallback ? batch->limiter->local_holdings : batch->limiter->holdings;
}

static void hold_site(struct limit_batch *batch, struct site *site)
{
    for (size_t i = 0; i < batch->site_count; i++)
        if (batch->sites[i] == site)
            return;
    CHECK(batch->site_count < batch->site_room);
    batch->sites[batch->site_count++] = site_hold(site);
}

/* Which request used a key last, of those that got tuples of their own? Open addressing; lives for the time of the building
 * only. */
struct last_users {
    struct last_user {
        const struct limit_charge *charge; /* NULL: free */
        const struct limit_request *request;
    } * places;
    size_t mask;
};

static struct last_user *last_user_of(struct last_users *users, const struct limit_charge *charge)
{
    uint64_t word;
    size_t at;

    memcpy(&word, charge->principal, sizeof(word));
    word = (word ^ ((uint64_t)(uintptr_t)charge->rule >> 4)) * UINT64_C(0x9E3779B97F4A7C15);
    for (at = (size_t)(word >> 32) & users->mask; users->places[at].charge != NULL;
         at = (at + 1) & users->mask)
        if (users->places[at].charge->rule == charge->rule &&
            memcmp(users->places[at].charge->principal, charge->principal, sizeof(charge->principal)) == 0)
            break;
    return &users->places[at];
}

/* A request joins an equal one before it unless a different one that shares a key came between: that one is
 * to be decided first. */
static const struct limit_request *find_equal(struct last_users *users, const struct limit_request *request)
{
    const struct limit_request *equal = last_user_of(users, &request->charges[0])->request;

    if (equal == NULL || equal->charge_count != request->charge_count ||
        !charges_equal(equal->charges, request->charges, request->charge_count))
        return NULL;
    for (size_t i = 1; i < request->charge_count; i++)
        if (last_user_of(users, &request->charges[i])->request != equal)
            return NULL;
    return equal;
}

static size_t tuple_for(struct limit_batch *batch, struct last_users *users,
                        const struct limit_request *request, size_t *uncharged)
{
    const struct limit_request *equal;

    if (request->charge_count == 0) {
        if (*uncharged == SIZE_MAX)
            *uncharged = tuple_new(batch, NULL, 0);
        return *uncharged;
    }
    equal = find_equal(users, request);
    if (equal != NULL)
        return equal->tuple;
    for (size_t i = 0; i < request->charge_count; i++)
        *last_user_of(users, &request->charges[i]) = (struct last_user){&request->charges[i], request};
    return tuples_new(batch, request);
}

static void gather(struct limit_batch *batch, struct link *requests)
{
    struct last_users users = {.mask = 1};
    size_t uncharged = SIZE_MAX;

    while (users.mask < 2 * batch->charge_room + 1)
        users.mask = users.mask * 2 + 1;
    users.places = must_alloc((users.mask + 1) * sizeof(*users.places));
    while (!list_is_empty(requests)) {
        struct limit_request *request = LIST_OWNER(requests->next, struct limit_request, link);

        hold_site(batch, request->site);
        request->batch = batch;
        request->tuple = tuple_for(batch, &users, request, &uncharged);
        request->place = batch->tuples[request->tuple].count++;
        list_leave(&request->link);
        list_append(&batch->asked, &request->link);
    }
    free(users.places);
}

/* Tokens for all that is to be held, by place in the tuple; a shadow's are those of the tuple that it follows. */
static void hand_out_tokens(struct limit_batch *batch)
{
    struct holdings *holdings = holdings_of(batch);
    int64_t first = 0;

    for (size_t t = 0, at = 0; t < batch->count; t++) {
        const struct admit_tuple *tuple = &batch->tuples[t];

        if (tuple->count != ADMIT_WHAT_PASSED)
            first = holdings_tokens(holdings, tuple->count);
        for (size_t i = 0; i < tuple->charge_count; i++, at++)
            batch->charges[at].first_hold = batch->charges[at].takes_hold ? first : 0;
    }
}

/* As hand_out_tokens() gave it: the request's charges stand in order, those in shadow behind the others. */
static const struct limit_charge *asked_charge(const struct limit_batch *batch,
                                               const struct limit_request *request, size_t i)
{
    const struct admit_tuple *tuple = &batch->tuples[request->tuple];
    size_t enforced = 0, shadows = 0;

    for (size_t before = 0; before < i; before++) {
        enforced += request->has_state[before] && !is_shadow(&request->charges[before]);
        shadows += request->has_state[before] && is_shadow(&request->charges[before]);
    }
    return is_shadow(&request->charges[i]) ? &tuple[1 + shadows].charges[0] : &tuple->charges[enforced];
}

static void begin_holdings(struct limit_batch *batch)
{
    hand_out_tokens(batch);
    for (struct link *at = batch->asked.next; at != &batch->asked; at = at->next) {
        struct limit_request *request = LIST_OWNER(at, struct limit_request, link);

        for (size_t i = 0; i < request->charge_count; i++) {
            struct limit_charge charge = request->charges[i];

            if (!charge.takes_hold || !request->has_state[i])
                continue;
            charge.first_hold = asked_charge(batch, request, i)->first_hold + request->place;
            request->holds[i] = holding_new(holdings_of(batch), request->site, &charge, &batch->holdings);
        }
    }
}

static void batch_free(struct limit_batch *batch)
{
    store_cancel(&batch->call);
    holdings_end_asked(&batch->holdings); /* whose requests have left */
    list_leave(&batch->link);
    for (size_t i = 0; i < batch->site_count; i++)
        site_release(&batch->sites[i]);
    free(batch->sites);
    free(batch->tuples);
    free(batch->charges);
    free(batch);
}

/* ---- decisions ---- */

/* Which limit refused, by the one rule for that (policies/verdict). */
static void name_refusing(struct limit_request *request)
{
    struct limit_standing standings[LIMITS_PER_REQUEST];
    size_t places[LIMITS_PER_REQUEST];
    size_t count = 0;
    struct verdict verdict;

    for (size_t i = 0; i < request->charge_count; i++) {
        if (!request->has_state[i])
            continue;
        places[count] = i;
        standings[count++] = limit_request_standing(request, i);
    }
    CHECK(count > 0); /* a request without limits is never refused by one */
    verdict = verdict_reach(standings, count);
    request->ruling = verdict.never ? RULING_TOO_COSTLY : RULING_REFUSED;
    request->named = request->charges[places[verdict.refused_by]].rule;
}

static void count_outcomes(const struct limit_request *request, bool is_fallback)
{
    for (size_t i = 0; i < request->charge_count; i++) {
        enum limit_outcome outcome = LIMIT_ADMITTED;

        if (!request->has_state[i])
            continue; /* counted when it was passed over */
        if (request->ruling == RULING_TOO_COSTLY && request->charges[i].rule == request->named)
            outcome = LIMIT_TOO_COSTLY;
        else if (request->ruling == RULING_REFUSED &&
                 (request->states[i].is_unforeseen || request->states[i].retry_after_us > 0))
            outcome = LIMIT_REFUSED;
        else if (request->ruling != RULING_ADMITTED)
            continue; /* it would have allowed it, and charged nothing: not a decision of this limit */
        site_count_limit(request->site, request->charges[i].rule, outcome);
        if (is_fallback)
            site_count_limit(request->site, request->charges[i].rule, LIMIT_DECIDED_LOCALLY);
    }
}

static bool has_enforced(const struct limit_request *request)
{
    for (size_t i = 0; i < request->charge_count; i++)
        if (request->has_state[i] && !is_shadow(&request->charges[i]))
            return true;
    return false;
}

/* Counts what the limits in shadow say, which nobody is told. They were decided for what passed alone. */
static void count_shadows(struct limit_request *request, const struct admit_answer *answer, bool is_admitted,
                          bool is_fallback)
{
    for (size_t i = 0; i < request->charge_count; i++) {
        const struct limit_rule *rule = request->charges[i].rule;

        if (!request->has_state[i] || !is_shadow(&request->charges[i]))
            continue;
        request->has_state[i] = false;
        if (is_admitted)
            site_count_limit(request->site, rule,
                             request->place < answer->admitted ? LIMIT_ADMITTED : LIMIT_SHADOW_REFUSED);
        if (is_admitted && is_fallback)
            site_count_limit(request->site, rule, LIMIT_DECIDED_LOCALLY);
        answer++;
    }
}

static void count_refusal(const struct limit_request *request, bool is_fallback)
{
    count_outcomes(request, is_fallback);
    if (request->is_recalled)
        site_count_limit(request->site, request->named, LIMIT_FAST_DENIED);
}

/* Before anybody is told: which of what the request asked to hold is it to keep? */
static void keep_holdings(struct limit_request *request, const struct admit_answer *answer)
{
    bool is_admitted = !has_enforced(request) || request->place < answer->admitted;
    const struct admit_answer *shadow = answer + 1;

    for (size_t i = 0; i < request->charge_count; i++) {
        bool is_taken = is_admitted;

        if (!request->has_state[i])
            continue;
        if (is_shadow(&request->charges[i]))
            is_taken &= request->place < shadow++->admitted;
        if (request->holds[i] != NULL)
            holding_answered(&request->holds[i], is_taken);
    }
}

/* `answer` is of the tuples that tuples_new() made of the request. */
static void apply_answer(struct limit_request *request, const struct admit_answer *answer, bool is_fallback)
{
    /* With nothing to enforce there was only the epoch to be told, whatever the answer counts. */
    bool is_admitted = !has_enforced(request) || request->place < answer->admitted;
    size_t from = 0;

    keep_holdings(request, answer);
    count_shadows(request, answer + 1, is_admitted, is_fallback);
    for (size_t i = 0; i < request->charge_count; i++) {
        if (!request->has_state[i])
            continue;
        request->states[i] = answer->states[from++];
        if (is_admitted) { /* what was left right after this one, of those that were decided together */
            request->states[i].available +=
                (answer->admitted - request->place - 1) * request->charges[i].cost;
            request->states[i].retry_after_us = 0;
            request->states[i].is_unforeseen = false;
        }
    }
    request->ruling = RULING_ADMITTED;
    if (!is_admitted)
        name_refusing(request);
    if (is_admitted || !request->is_tentative)
        count_outcomes(request, is_fallback);
}

/* A plan or a limit's state was changed by hand: what was refused before may pass now. */
static void follow_corrections(struct limiter *limiter)
{
    uint64_t corrections = atomic_load(&limiter->store->corrections);

    if (corrections == limiter->corrections)
        return;
    limiter->corrections = corrections;
    refusals_forget(limiter->refusals);
}

/* What the store refused of its own accord is remembered, unless something was corrected since it was asked. */
static void note_refusal(struct limit_batch *batch, const struct limit_request *request, int64_t now_us)
{
    struct limiter *limiter = batch->limiter;

    if (request->ruling == RULING_REFUSED && !batch->is_fallback && limiter->store->is_shared &&
        batch->corrections == atomic_load(&limiter->store->corrections))
        refusals_note(limiter->refusals, request->charges, request->has_state, request->states,
                      request->charge_count, batch->asked_us, now_us);
}

static void conclude(struct limit_request *request)
{
    list_leave(&request->link);
    request->batch = NULL;
    request->decided(request->arg); /* may end the request */
}

static void start_fallback(struct limiter *limiter, struct link *requests);

/* What a limit that is not asked without the store does. */
static void count_unasked(struct limit_request *request, const struct limit_charge *charge)
{
    bool is_open = charge->rule->on_store_failure == FAILURE_OPEN;

    site_count_limit(request->site, charge->rule, is_open ? LIMIT_PASSED_OPEN : LIMIT_SHADOW_REFUSED);
    if (!is_shadow(charge))
        site_count_degraded(request->site, DEGRADED_LIMIT_OPEN);
}

/* Without the store: true when the request is decided by that, false when its local limits are still to be
 * asked. */
static bool rule_without_store(struct limit_request *request)
{
    bool asks_locally = false, is_held_locally;

    request->is_degraded = true;
    request->epoch_is_known = false;
    request->ruling = RULING_ADMITTED;
    for (size_t i = 0; i < request->charge_count; i++) {
        const struct limit_charge *charge = &request->charges[i];

        request->has_state[i] = charge->rule->on_store_failure == FAILURE_LOCAL;
        if (charge->rule->on_store_failure == FAILURE_CLOSED && !is_shadow(charge) &&
            request->ruling == RULING_ADMITTED) {
            request->ruling = RULING_UNAVAILABLE;
            request->named = charge->rule;
        }
        asks_locally |= request->has_state[i];
    }
    is_held_locally = has_enforced(request);
    if (request->ruling == RULING_UNAVAILABLE) {
        memset(request->has_state, 0, sizeof(request->has_state));
        site_count_limit(request->site, request->named, LIMIT_UNAVAILABLE);
        site_count_degraded(request->site, DEGRADED_LIMIT_CLOSED);
        return true;
    }
    for (size_t i = 0; i < request->charge_count; i++)
        if (!request->has_state[i])
            count_unasked(request, &request->charges[i]);
    if (is_held_locally)
        site_count_degraded(request->site, DEGRADED_LIMIT_LOCAL);
    return !asks_locally;
}

static void fail_batch(struct limit_batch *batch)
{
    struct limiter *limiter = batch->limiter;
    struct link local, settled;

    list_init(&local);
    list_init(&settled);
    while (!list_is_empty(&batch->asked)) {
        struct limit_request *request = LIST_OWNER(batch->asked.next, struct limit_request, link);

        list_leave(&request->link);
        request->batch = NULL;
        memset(request->holds, 0, sizeof(request->holds)); /* the batch ends them */
        list_append(rule_without_store(request) ? &settled : &local, &request->link);
    }
    if (!list_is_empty(&local))
        start_fallback(limiter, &local);
    while (!list_is_empty(&settled))
        conclude(LIST_OWNER(settled.next, struct limit_request, link));
}

static void on_admitted(void *arg, enum fault fault, const struct admit_answer *answers, size_t count)
{
    struct limit_batch *batch = arg;
    int64_t now_us = batch->limiter->read_us();

    batch->call = NULL;
    if (fault != FAULT_NONE) {
        CHECK(!batch->is_fallback);
        fail_batch(batch);
        batch_free(batch);
        return;
    }
    CHECK(count == batch->count);
    holdings_resume(holdings_of(batch));
    if (!batch->is_fallback && batch->limiter->fallback != NULL)
        store_heed(batch->limiter->fallback, batch->tuples, count, answers);
    while (!list_is_empty(&batch->asked)) {
        struct limit_request *request = LIST_OWNER(batch->asked.next, struct limit_request, link);

        request->epoch_is_known = !batch->is_fallback;
        apply_answer(request, &answers[request->tuple], batch->is_fallback);
        note_refusal(batch, request, now_us);
        conclude(request);
    }
    batch_free(batch);
}

/* The local limits of each request, one tuple a request: this is the rare path, and each may have other
 * limits left over. */
static void start_fallback(struct limiter *limiter, struct link *requests)
{
    struct limit_batch *batch = batch_new(limiter, requests);

    batch->is_fallback = true;
    while (!list_is_empty(requests)) {
        struct limit_request *request = LIST_OWNER(requests->next, struct limit_request, link);

        hold_site(batch, request->site);
        request->batch = batch;
        request->tuple = tuples_new(batch, request);
        request->place = 0;
        batch->tuples[request->tuple].count = 1;
        list_leave(&request->link);
        list_append(&batch->asked, &request->link);
    }
    begin_holdings(batch);
    batch->call = store_admit(limiter->fallback, batch->tuples, batch->count, on_admitted, batch);
}

static void deny(struct limiter *limiter)
{
    struct link denied;

    list_init(&denied);
    list_move_all(&denied, &limiter->denied); /* who is told may ask again */
    while (!list_is_empty(&denied)) {
        struct limit_request *request = LIST_OWNER(denied.next, struct limit_request, link);

        name_refusing(request);
        if (!request->is_tentative)
            count_refusal(request, false);
        conclude(request);
    }
}

static void flush(void *arg)
{
    struct limiter *limiter = arg;
    struct limit_batch *batch;

    deny(limiter);
    if (list_is_empty(&limiter->gathering))
        return;
    batch = batch_new(limiter, &limiter->gathering);
    gather(batch, &limiter->gathering);
    begin_holdings(batch);
    batch->asked_us = limiter->read_us();
    batch->corrections = atomic_load(&limiter->store->corrections);
    batch->call = store_admit(limiter->store, batch->tuples, batch->count, on_admitted, batch);
}

/* ---- public ---- */

struct limiter *limiter_new(struct loop *loop, struct store *store, struct store *fallback)
{
    struct limiter *limiter = must_alloc(sizeof(*limiter));

    limiter->loop = loop;
    limiter->store = store;
    limiter->fallback = fallback;
    limiter->refusals = refusals_new();
    limiter->holdings = holdings_new(loop, store);
    limiter->local_holdings = fallback == NULL ? NULL : holdings_new(loop, fallback);
    limiter->read_us = clock_mono_us;
    list_init(&limiter->gathering);
    list_init(&limiter->denied);
    list_init(&limiter->batches);
    task_init(&limiter->flush, LOOP_DECIDE, flush, limiter);
    return limiter;
}

void limiter_free(struct limiter *limiter)
{
    CHECK(list_is_empty(&limiter->gathering) && list_is_empty(&limiter->denied));
    task_cancel(limiter->loop, &limiter->flush);
    while (!list_is_empty(&limiter->batches))
        batch_free(LIST_OWNER(limiter->batches.next, struct limit_batch, link));
    refusals_free(limiter->refusals);
    holdings_free(limiter->holdings);
    holdings_free(limiter->local_holdings);
    free(limiter);
}

void limiter_use_clock(struct limiter *limiter, int64_t (*read_us)(void))
{
    limiter->read_us = read_us;
}

void limiter_forget_refusals(struct limiter *limiter)
{
    refusals_forget(limiter->refusals);
}

void limiter_ask(struct limiter *limiter, struct limit_request *request)
{
    CHECK(request->charge_count <= LIMITS_PER_REQUEST);
    for (size_t i = 0; i < LIMITS_PER_REQUEST; i++)
        holding_end(&request->holds[i], 0);
    request->batch = NULL;
    request->is_degraded = false;
    request->epoch_is_known = false;
    request->named = NULL;
    list_init(&request->link);
    follow_corrections(limiter);
    for (size_t i = 0; i < request->charge_count; i++)
        site_note_caller(request->site, request->charges[i].rule, request->charges[i].principal);
    request->is_recalled = limiter->store->is_shared &&
                           refusals_recall(limiter->refusals, request->charges, request->charge_count,
                                           request->has_state, request->states, limiter->read_us());
    if (request->is_recalled) {
        list_append(&limiter->denied, &request->link);
    } else {
        for (size_t i = 0; i < request->charge_count; i++)
            request->has_state[i] = true;
        list_append(&limiter->gathering, &request->link);
    }
    loop_defer(limiter->loop, &limiter->flush);
}

struct limit_standing limit_request_standing(const struct limit_request *request, size_t i)
{
    const struct limit_state *state = &request->states[i];

    return (struct limit_standing){limit_capacity(request->charges[i].terms), state->available,
                                   state->retry_after_us, state->never, state->is_unforeseen};
}

int64_t limit_request_wait_us(const struct limit_request *request)
{
    struct limit_standing standings[LIMITS_PER_REQUEST];
    size_t count = 0;

    for (size_t i = 0; i < request->charge_count; i++)
        if (request->has_state[i])
            standings[count++] = limit_request_standing(request, i);
    return verdict_reach(standings, count).retry_after_us;
}

void limit_request_copy_ruling(struct limit_request *to, const struct limit_request *from)
{
    to->ruling = from->ruling;
    to->named = from->named;
    memcpy(to->has_state, from->has_state, sizeof(to->has_state));
    memcpy(to->states, from->states, sizeof(to->states));
    to->is_degraded = from->is_degraded;
    to->is_recalled = from->is_recalled;
    to->epoch_is_known = from->epoch_is_known;
}

void limiter_count_refusal(const struct limit_request *request)
{
    if (request->ruling == RULING_REFUSED || request->ruling == RULING_TOO_COSTLY)
        count_refusal(request, request->is_degraded);
}

void limiter_leave(struct limiter *limiter, struct limit_request *request)
{
    (void)limiter;
    for (size_t i = 0; i < request->charge_count; i++)
        holding_end(&request->holds[i], 0);
    if (request->link.next != NULL)
        list_leave(&request->link);
}

/* Of what the request still holds, what an answer tells the cost of. */
static bool awaits_cost(const struct limit_request *request, size_t i)
{
    return request->holds[i] != NULL && request->charges[i].told_by != NULL;
}

void limiter_settle(struct limit_request *request, const struct header *headers, size_t count)
{
    for (size_t i = 0; i < request->charge_count; i++)
        if (awaits_cost(request, i)) {
            const struct limit_charge *charge = &request->charges[i];

            holding_end(&request->holds[i], cost_of_answer(charge->told_by, charge->cost, headers, count));
        }
}

void limiter_settle_unanswered(struct limit_request *request)
{
    for (size_t i = 0; i < request->charge_count; i++)
        if (awaits_cost(request, i))
            holding_end(&request->holds[i], request->charges[i].cost);
}

bool limiter_is_settling(const struct limiter *limiter)
{
    return holdings_untold(limiter->holdings) > 0 && limiter->store->is_up;
}
