/* Limit batch: see limit_batch.h. */
#include "limit_batch.h"
#include "check.h"
#include "memory.h"

#include <stdlib.h>
#include <string.h>

static bool charges_equal(const struct limit_charge *a, const struct limit_charge *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!limit_charge_equals(&a[i], &b[i]))
            return false;
    return true;
}

struct limit_batch *limit_batch_new(struct limiter *limiter, struct holdings *holdings,
                                    const struct link *requests)
{
    struct limit_batch *batch = must_alloc(sizeof(*batch));

    batch->limiter = limiter;
    batch->holdings = holdings;
    list_init(&batch->asked);
    list_init(&batch->link);
    list_init(&batch->asked_holdings);
    for (const struct link *at = requests->next; at != requests; at = at->next) {
        const struct limit_request *request = LIST_OWNER(at, struct limit_request, link);

        batch->room += 1 + request->charge_count; /* each may be in shadow */
        batch->charge_room += request->charge_count;
        batch->site_room++; /* each may be of its own */
    }
    batch->tuples = must_alloc((batch->room + 1) * sizeof(*batch->tuples));
    batch->charges = must_alloc((batch->charge_room + 1) * sizeof(*batch->charges));
    batch->sites = must_alloc(batch->site_room * sizeof(struct site *));
    return batch;
}

/* ---- tuples ---- */

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

/* The charges of a request that are asked for: one tuple for those that are enforced, and behind it one for each limit in
 * shadow, so that none of them makes others refuse. Returns the first. */
static size_t tuples_new(struct limit_batch *batch, const struct limit_request *request)
{
    struct limit_charge enforced[LIMITS_PER_REQUEST];
    size_t count = 0, tuple;

    for (size_t i = 0; i < request->charge_count; i++)
        if (request->has_state[i] && !limit_charge_is_shadow(&request->charges[i]))
            enforced[count++] = request->charges[i];
    tuple = tuple_new(batch, enforced, count);
    for (size_t i = 0; i < request->charge_count; i++)
        if (request->has_state[i] && limit_charge_is_shadow(&request->charges[i]))
            batch->tuples[tuple_new(batch, &request->charges[i], 1)].count = ADMIT_WHAT_PASSED;
    return tuple;
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

/* ---- what is to be held ---- */

/* Tokens for all that is to be held, by place in the tuple; a shadow's are those of the tuple that it follows. */
static void hand_out_tokens(struct limit_batch *batch)
{
    struct holdings *holdings = batch->holdings;
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
        enforced += request->has_state[before] && !limit_charge_is_shadow(&request->charges[before]);
        shadows += request->has_state[before] && limit_charge_is_shadow(&request->charges[before]);
    }
    return limit_charge_is_shadow(&request->charges[i]) ? &tuple[1 + shadows].charges[0]
                                                        : &tuple->charges[enforced];
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
            request->holds[i] = holding_new(batch->holdings, request->site, &charge, &batch->asked_holdings);
        }
    }
}

/* ---- the requests ---- */

void limit_batch_take_together(struct limit_batch *batch, struct link *requests)
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
    begin_holdings(batch);
}

void limit_batch_take_singly(struct limit_batch *batch, struct link *requests)
{
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
}

void limit_batch_free(struct limit_batch *batch)
{
    store_cancel(&batch->call);
    holdings_end_asked(&batch->asked_holdings); /* whose requests have left */
    list_leave(&batch->link);
    for (size_t i = 0; i < batch->site_count; i++)
        site_release(&batch->sites[i]);
    free(batch->sites);
    free(batch->tuples);
    free(batch->charges);
    free(batch);
}
