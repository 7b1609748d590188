/* Limiter: see limiter.h. */
#include "limiter.h"
#include "check.h"
#include "loop.h"
#include "memory.h"
#include "verdict.h"

#include <stdlib.h>
#include <string.h>

/* A turn sees two configurations when a reload falls into it, and one otherwise. */
enum { MERGE_BUCKETS = 256, SITES_PER_TURN = 4 };

/* The requests of one turn (or those of a turn that must be decided locally), on their way through one store.
 */
struct limit_batch {
    struct limiter *limiter;
    struct link link;  /* among the limiter's batches */
    struct link asked; /* requests, in order of arrival */
    struct admit_tuple *tuples;
    struct limit_charge *charges;
    size_t count, room, charge_count, charge_room;
    struct store_call *call;
    bool is_fallback;
    struct site *sites[SITES_PER_TURN]; /* whose rules the charges point to */
    size_t site_count;
};

struct limiter {
    struct loop *loop;
    struct store *store, *fallback;
    struct link gathering; /* asked in this turn */
    struct link batches;   /* under way */
    struct task flush;
};

/* ---- building a batch ---- */

static uint32_t charges_hash(const struct limit_charge *charges, size_t count)
{
    uint32_t hash = (uint32_t)count;

    for (size_t i = 0; i < count; i++) {
        uint32_t word;

        memcpy(&word, charges[i].principal, sizeof(word));
        hash = (hash ^ word ^ (uint32_t)charges[i].cost) * 2654435761u;
        hash ^= (uint32_t)((uintptr_t)charges[i].rule >> 4);
    }
    return hash;
}

static bool charges_equal(const struct limit_charge *a, const struct limit_charge *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (a[i].rule != b[i].rule || a[i].cost != b[i].cost ||
            memcmp(a[i].principal, b[i].principal, sizeof(a[i].principal)) != 0)
            return false;
    return true;
}

static struct limit_batch *batch_new(struct limiter *limiter, struct link *requests)
{
    struct limit_batch *batch = must_alloc(sizeof(*batch));

    batch->limiter = limiter;
    list_init(&batch->asked);
    list_init(&batch->link);
    for (struct link *at = requests->next; at != requests; at = at->next) {
        batch->room++;
        batch->charge_room += LIST_OWNER(at, struct limit_request, link)->charge_count;
    }
    batch->tuples = must_alloc((batch->room + 1) * sizeof(*batch->tuples));
    batch->charges = must_alloc((batch->charge_room + 1) * sizeof(*batch->charges));
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

static void hold_site(struct limit_batch *batch, struct site *site)
{
    for (size_t i = 0; i < batch->site_count; i++)
        if (batch->sites[i] == site)
            return;
    CHECK(batch->site_count < SITES_PER_TURN);
    batch->sites[batch->site_count++] = site_hold(site);
}

/* The chains of equal hashes live in arrays of the batch's size for the time of the building only. */
static void gather(struct limit_batch *batch, struct link *requests)
{
    uint32_t heads[MERGE_BUCKETS] = {0};
    uint32_t *next = must_alloc((batch->room + 1) * sizeof(*next));

    while (!list_is_empty(requests)) {
        struct limit_request *request = LIST_OWNER(requests->next, struct limit_request, link);
        uint32_t *head = &heads[charges_hash(request->charges, request->charge_count) % MERGE_BUCKETS];
        uint32_t at = *head;

        while (at != 0 &&
               !(batch->tuples[at - 1].charge_count == request->charge_count &&
                 charges_equal(batch->tuples[at - 1].charges, request->charges, request->charge_count)))
            at = next[at - 1];
        if (at == 0) {
            at = (uint32_t)tuple_new(batch, request->charges, request->charge_count) + 1;
            next[at - 1] = *head;
            *head = at;
        }
        hold_site(batch, request->site);
        request->batch = batch;
        request->tuple = at - 1;
        request->place = batch->tuples[at - 1].count++;
        list_leave(&request->link);
        list_append(&batch->asked, &request->link);
    }
    free(next);
}

static void batch_free(struct limit_batch *batch)
{
    store_cancel(&batch->call);
    list_leave(&batch->link);
    for (size_t i = 0; i < batch->site_count; i++)
        site_release(&batch->sites[i]);
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
        const struct limit_state *state = &request->states[i];

        if (!request->has_state[i])
            continue;
        places[count] = i;
        standings[count++] = (struct limit_standing){request->charges[i].rule->limit, state->available,
                                                     state->retry_after_us, state->never};
    }
    verdict = verdict_reach(standings, count);
    request->ruling = verdict.never ? RULING_TOO_COSTLY : RULING_REFUSED;
    if (count > 0)
        request->named = request->charges[places[verdict.refused_by]].rule;
}

static void count_outcomes(struct limit_request *request, bool is_fallback)
{
    for (size_t i = 0; i < request->charge_count; i++) {
        enum limit_outcome outcome = LIMIT_ADMITTED;

        if (!request->has_state[i])
            continue; /* counted when it was passed over */
        if (request->ruling == RULING_TOO_COSTLY && request->charges[i].rule == request->named)
            outcome = LIMIT_TOO_COSTLY;
        else if (request->ruling == RULING_REFUSED && request->states[i].retry_after_us > 0)
            outcome = LIMIT_REFUSED;
        else if (request->ruling != RULING_ADMITTED)
            continue; /* it would have allowed it, and charged nothing: not a decision of this limit */
        site_count_limit(request->site, request->charges[i].rule, outcome);
        if (is_fallback)
            site_count_limit(request->site, request->charges[i].rule, LIMIT_DECIDED_LOCALLY);
    }
}

/* `answer` is of a tuple whose charges are those of the request with has_state set, in order. */
static void apply_answer(struct limit_request *request, const struct admit_answer *answer, bool is_fallback)
{
    bool is_admitted = request->place < answer->admitted;
    size_t from = 0;

    for (size_t i = 0; i < request->charge_count; i++) {
        if (!request->has_state[i])
            continue;
        request->states[i] = answer->states[from++];
        if (is_admitted) { /* what was left right after this one, of those that were decided together */
            request->states[i].available +=
                (answer->admitted - request->place - 1) * request->charges[i].cost;
            request->states[i].retry_after_us = 0;
        }
    }
    request->ruling = RULING_ADMITTED;
    if (!is_admitted)
        name_refusing(request);
    count_outcomes(request, is_fallback);
}

static void conclude(struct limit_request *request)
{
    list_leave(&request->link);
    request->batch = NULL;
    request->decided(request->arg); /* may end the request */
}

static void start_fallback(struct limiter *limiter, struct link *requests);

/* Without the store: true when the request is decided by that, false when its local limits are still to be
 * asked. */
static bool rule_without_store(struct limit_request *request)
{
    bool asks_locally = false;

    request->is_degraded = true;
    request->epoch_is_known = false;
    request->ruling = RULING_ADMITTED;
    for (size_t i = 0; i < request->charge_count; i++) {
        const struct limit_rule *rule = request->charges[i].rule;

        request->has_state[i] = rule->on_store_failure == FAILURE_LOCAL;
        if (rule->on_store_failure == FAILURE_CLOSED && request->ruling == RULING_ADMITTED) {
            request->ruling = RULING_UNAVAILABLE;
            request->named = rule;
        }
        asks_locally |= request->has_state[i];
    }
    if (request->ruling == RULING_UNAVAILABLE) {
        memset(request->has_state, 0, sizeof(request->has_state));
        site_count_limit(request->site, request->named, LIMIT_UNAVAILABLE);
        site_count_degraded(request->site, DEGRADED_LIMIT_CLOSED);
        return true;
    }
    for (size_t i = 0; i < request->charge_count; i++)
        if (request->charges[i].rule->on_store_failure == FAILURE_OPEN) {
            site_count_limit(request->site, request->charges[i].rule, LIMIT_PASSED_OPEN);
            site_count_degraded(request->site, DEGRADED_LIMIT_OPEN);
        }
    if (asks_locally)
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

    batch->call = NULL;
    if (fault != FAULT_NONE) {
        CHECK(!batch->is_fallback);
        fail_batch(batch);
        batch_free(batch);
        return;
    }
    CHECK(count == batch->count);
    while (!list_is_empty(&batch->asked)) {
        struct limit_request *request = LIST_OWNER(batch->asked.next, struct limit_request, link);

        request->epoch_is_known = !batch->is_fallback;
        apply_answer(request, &answers[request->tuple], batch->is_fallback);
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
        struct limit_charge chosen[LIMITS_PER_REQUEST];
        size_t count = 0;

        for (size_t i = 0; i < request->charge_count; i++)
            if (request->has_state[i])
                chosen[count++] = request->charges[i];
        hold_site(batch, request->site);
        request->batch = batch;
        request->tuple = tuple_new(batch, chosen, count);
        request->place = 0;
        batch->tuples[request->tuple].count = 1;
        list_leave(&request->link);
        list_append(&batch->asked, &request->link);
    }
    batch->call = store_admit(limiter->fallback, batch->tuples, batch->count, on_admitted, batch);
}

static void flush(void *arg)
{
    struct limiter *limiter = arg;
    struct limit_batch *batch;

    if (list_is_empty(&limiter->gathering))
        return;
    batch = batch_new(limiter, &limiter->gathering);
    gather(batch, &limiter->gathering);
    batch->call = store_admit(limiter->store, batch->tuples, batch->count, on_admitted, batch);
}

/* ---- public ---- */

struct limiter *limiter_new(struct loop *loop, struct store *store, struct store *fallback)
{
    struct limiter *limiter = must_alloc(sizeof(*limiter));

    limiter->loop = loop;
    limiter->store = store;
    limiter->fallback = fallback;
    list_init(&limiter->gathering);
    list_init(&limiter->batches);
    task_init(&limiter->flush, LOOP_DECIDE, flush, limiter);
    return limiter;
}

void limiter_free(struct limiter *limiter)
{
    CHECK(list_is_empty(&limiter->gathering));
    task_cancel(limiter->loop, &limiter->flush);
    while (!list_is_empty(&limiter->batches))
        batch_free(LIST_OWNER(limiter->batches.next, struct limit_batch, link));
    free(limiter);
}

void limiter_ask(struct limiter *limiter, struct limit_request *request)
{
    CHECK(request->charge_count <= LIMITS_PER_REQUEST);
    request->batch = NULL;
    request->is_degraded = false;
    request->epoch_is_known = false;
    request->named = NULL;
    for (size_t i = 0; i < request->charge_count; i++)
        request->has_state[i] = true;
    list_init(&request->link);
    list_append(&limiter->gathering, &request->link);
    loop_defer(limiter->loop, &limiter->flush);
}

void limiter_leave(struct limiter *limiter, struct limit_request *request)
{
    (void)limiter;
    if (request->link.next != NULL)
        list_leave(&request->link);
}
