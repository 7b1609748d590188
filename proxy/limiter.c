/* Limiter: see limiter.h. */
#include "limiter.h"
#include "check.h"
#include "clock.h"
#include "limit_batch.h"
#include "loop.h"
#include "memory.h"
#include "refusals.h"

#include <stdlib.h>
#include <string.h>

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

/* ---- decisions ---- */

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
        list_append(limit_request_rule_without_store(request) ? &settled : &local, &request->link);
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
        limit_batch_free(batch);
        return;
    }
    CHECK(count == batch->count);
    holdings_resume(batch->holdings);
    if (!batch->is_fallback && batch->limiter->fallback != NULL)
        store_heed(batch->limiter->fallback, batch->tuples, count, answers);
    while (!list_is_empty(&batch->asked)) {
        struct limit_request *request = LIST_OWNER(batch->asked.next, struct limit_request, link);

        request->epoch_is_known = !batch->is_fallback;
        limit_request_take_answer(request, &answers[request->tuple], batch->is_fallback);
        note_refusal(batch, request, now_us);
        conclude(request);
    }
    limit_batch_free(batch);
}

/* Asks about the requests that are in the batch. */
static void ask(struct limit_batch *batch, struct store *store)
{
    list_append(&batch->limiter->batches, &batch->link);
    batch->call = store_admit(store, batch->tuples, batch->count, on_admitted, batch);
}

static void start_fallback(struct limiter *limiter, struct link *requests)
{
    struct limit_batch *batch = limit_batch_new(limiter, limiter->local_holdings, requests);

    batch->is_fallback = true;
    limit_batch_take_singly(batch, requests);
    ask(batch, limiter->fallback);
}

static void deny(struct limiter *limiter)
{
    struct link denied;

    list_init(&denied);
    list_move_all(&denied, &limiter->denied); /* who is told may ask again */
    while (!list_is_empty(&denied)) {
        struct limit_request *request = LIST_OWNER(denied.next, struct limit_request, link);

        limit_request_name_refusing(request);
        if (!request->is_tentative)
            limit_request_count_refusal(request, false);
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
    batch = limit_batch_new(limiter, limiter->holdings, &limiter->gathering);
    limit_batch_take_together(batch, &limiter->gathering);
    batch->asked_us = limiter->read_us();
    batch->corrections = atomic_load(&limiter->store->corrections);
    ask(batch, limiter->store);
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
        limit_batch_free(LIST_OWNER(limiter->batches.next, struct limit_batch, link));
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

void limiter_count_refusal(const struct limit_request *request)
{
    if (request->ruling == RULING_REFUSED || request->ruling == RULING_TOO_COSTLY)
        limit_request_count_refusal(request, request->is_degraded);
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
