/* Holdings: see holdings.h. A holding is always in exactly one list: of those who are asked about with it, those who are held, those of
 * which the store is to be told, or one telling's. What is told in one turn overtakes nothing that was told before.
 */
#include "holdings.h"

#include "check.h"
#include "loop.h"
#include "memory.h"

#include <stdlib.h>

enum {
    RENEWALS_PER_LEASE = 3,
    RETRY_MS = 250,
    MOST_TOLD_AT_ONCE = 1024,
};

struct holdings {
    struct loop *loop;
    struct store *store;
    int64_t next_token;
    struct link held;     /* their timers run */
    struct link waiting;  /* to be told: they have ended, or are to be renewed */
    struct link tellings; /* under way */
    bool is_failing;      /* nothing is told before the timer has fired */
    struct timer retry;
    struct task tell;
    size_t untold;
};

/* What the store is told at once. */
struct telling {
    struct link link;
    struct holdings *all;
    struct link holdings; /* in the order of the settlements */
    struct store_call *call;
    size_t count;
    struct hold_settlement settlements[];
};

enum holding_state { HOLDING_ASKED, HOLDING_HELD, HOLDING_ENDED };

struct holding {
    struct link link;
    struct holdings *all;
    struct site *site; /* held: it has the rule and the terms */
    struct limit_charge charge;
    enum holding_state state;
    bool was_ours;   /* the store said so, and was not told otherwise */
    int64_t charged; /* once it has ended */
    struct mono_ms lapses_at;
    struct timer renew;
};

static void move(struct holding *holding, struct link *to)
{
    list_leave(&holding->link);
    list_append(to, &holding->link);
}

static int64_t lease_ms(const struct holding *holding)
{
    return holding->charge.terms->lease_us / LIMIT_US_PER_MS;
}

static void free_holding(struct holding *holding)
{
    struct holdings *all = holding->all;

    list_leave(&holding->link);
    timer_cancel(all->loop, &holding->renew);
    all->untold -= holding->state == HOLDING_ENDED;
    site_release(&holding->site);
    free(holding);
}

/* ---- telling the store ---- */

static void tell_soon(struct holdings *all)
{
    if (!all->is_failing && !list_is_empty(&all->waiting))
        loop_defer(all->loop, &all->tell);
}

static void hold_on(struct holding *holding, int64_t until_renewal_ms)
{
    struct holdings *all = holding->all;

    move(holding, &all->held);
    timer_start(all->loop, &holding->renew, mono_after(loop_now(all->loop), until_renewal_ms));
}

static void on_renew(void *arg)
{
    struct holding *holding = arg;

    move(holding, &holding->all->waiting);
    tell_soon(holding->all);
}

static void on_retry(void *arg)
{
    struct holdings *all = arg;

    all->is_failing = false;
    tell_soon(all);
}

void holdings_resume(struct holdings *all)
{
    if (!all->is_failing)
        return;
    timer_cancel(all->loop, &all->retry);
    on_retry(all);
}

/* A hold that should have been there and was not: somebody else may have had its units meanwhile. */
static void count_lost(struct holding *holding, bool was_held)
{
    if (!was_held && holding->was_ours)
        site_count_lost_hold(holding->site, holding->charge.rule);
}

static void note_told(struct holding *holding, bool is_renewal, bool was_held)
{
    count_lost(holding, was_held);
    if (!is_renewal) {
        free_holding(holding);
        return;
    }
    holding->was_ours = true; /* renewing takes it anew */
    if (holding->state == HOLDING_ENDED)
        move(holding, &holding->all->waiting);
    else
        hold_on(holding, lease_ms(holding) / RENEWALS_PER_LEASE);
}

static void note_untold(struct holding *holding, bool is_renewal)
{
    struct holdings *all = holding->all;

    if (!is_renewal)
        holding->was_ours = false; /* perhaps it was done */
    if (holding->state != HOLDING_ENDED)
        hold_on(holding, RETRY_MS);
    else if (loop_now(all->loop).ms >= holding->lapses_at.ms || all->untold > HOLDINGS_MOST_UNTOLD)
        free_holding(holding);
    else
        move(holding, &all->waiting);
}

static void free_telling(struct telling *telling)
{
    store_cancel(&telling->call);
    list_leave(&telling->link);
    free(telling);
}

static void pause(struct holdings *all)
{
    all->is_failing = true;
    timer_start(all->loop, &all->retry, mono_after(loop_now(all->loop), RETRY_MS));
}

static void on_settled(void *arg, enum fault fault, const bool *was_held, size_t count)
{
    struct telling *telling = arg;
    struct holdings *all = telling->all;
    size_t told = 0;

    telling->call = NULL;
    CHECK(fault != FAULT_NONE || count == telling->count);
    while (!list_is_empty(&telling->holdings)) {
        struct holding *holding = LIST_OWNER(telling->holdings.next, struct holding, link);
        bool is_renewal = telling->settlements[told].charged == SETTLE_RENEW;

        if (fault == FAULT_NONE)
            note_told(holding, is_renewal, was_held[told]);
        else
            note_untold(holding, is_renewal);
        told++;
    }
    free_telling(telling);
    if (fault != FAULT_NONE)
        pause(all);
    tell_soon(all);
}

static size_t count_waiting(const struct holdings *all)
{
    size_t count = 0;

    for (const struct link *at = all->waiting.next; at != &all->waiting && count < MOST_TOLD_AT_ONCE;
         at = at->next)
        count++;
    return count;
}

static void tell_some(struct holdings *all)
{
    size_t room = count_waiting(all);
    struct telling *telling = must_alloc(sizeof(*telling) + room * sizeof(telling->settlements[0]));

    telling->all = all;
    list_init(&telling->link);
    list_append(&all->tellings, &telling->link);
    list_init(&telling->holdings);
    while (telling->count < room) {
        struct holding *holding = LIST_OWNER(all->waiting.next, struct holding, link);

        telling->settlements[telling->count++] = (struct hold_settlement){
            holding->charge, holding->state == HOLDING_ENDED ? holding->charged : SETTLE_RENEW};
        move(holding, &telling->holdings);
    }
    telling->call = store_settle(all->store, telling->settlements, telling->count, on_settled, telling);
}

static void tell(void *arg)
{
    struct holdings *all = arg;

    while (!list_is_empty(&all->waiting))
        tell_some(all);
}

/* ---- one holding ---- */

struct holding *holding_new(struct holdings *holdings, struct site *site, const struct limit_charge *charge,
                            struct link *asked)
{
    struct holding *holding = must_alloc(sizeof(*holding));

    CHECK(charge->takes_hold && charge->terms->lease_us > 0 && charge->first_hold > 0);
    holding->all = holdings;
    holding->site = site_hold(site);
    holding->charge = *charge;
    holding->state = HOLDING_ASKED;
    timer_init(&holding->renew, on_renew, holding);
    list_init(&holding->link);
    list_append(asked, &holding->link);
    return holding;
}

void holding_answered(struct holding **taken, bool is_taken)
{
    struct holding *holding = *taken;

    CHECK(holding->state == HOLDING_ASKED);
    if (!is_taken) {
        *taken = NULL;
        free_holding(holding);
        return;
    }
    holding->state = HOLDING_HELD;
    holding->was_ours = true;
    hold_on(holding, lease_ms(holding) / RENEWALS_PER_LEASE);
}

static void settle(struct holding *holding)
{
    timer_cancel(holding->all->loop, &holding->renew);
    move(holding, &holding->all->waiting);
    tell_soon(holding->all);
}

void holding_end(struct holding **taken, int64_t charged)
{
    struct holding *holding = *taken;
    enum holding_state was;

    *taken = NULL;
    if (holding == NULL)
        return;
    was = holding->state;
    CHECK(was != HOLDING_ENDED && charged >= 0);
    holding->state = HOLDING_ENDED;
    holding->charged = charged;
    holding->lapses_at = mono_after(loop_now(holding->all->loop), lease_ms(holding));
    holding->all->untold++;
    /* One that is asked about waits for the answer, and one that is being renewed for that. */
    if (was == HOLDING_HELD && holding->renew.place != 0)
        settle(holding);
}

void holdings_end_asked(struct link *asked)
{
    while (!list_is_empty(asked)) {
        struct holding *holding = LIST_OWNER(asked->next, struct holding, link), *ending = holding;

        if (holding->state == HOLDING_ASKED)
            holding_end(&ending, 0);
        settle(holding);
    }
}

const struct limit_charge *holding_charge(const struct holding *holding)
{
    return &holding->charge;
}

/* ---- all of a store ---- */

struct holdings *holdings_new(struct loop *loop, struct store *store)
{
    struct holdings *all = must_alloc(sizeof(*all));

    all->loop = loop;
    all->store = store;
    all->next_token = 1;
    list_init(&all->held);
    list_init(&all->waiting);
    list_init(&all->tellings);
    timer_init(&all->retry, on_retry, all);
    task_init(&all->tell, LOOP_DECIDE, tell, all);
    return all;
}

static void free_all(struct link *list)
{
    while (!list_is_empty(list))
        free_holding(LIST_OWNER(list->next, struct holding, link));
}

void holdings_free(struct holdings *all)
{
    if (all == NULL)
        return;
    CHECK(list_is_empty(&all->held));
    timer_cancel(all->loop, &all->retry);
    task_cancel(all->loop, &all->tell);
    free_all(&all->waiting);
    while (!list_is_empty(&all->tellings)) {
        struct telling *telling = LIST_OWNER(all->tellings.next, struct telling, link);

        free_all(&telling->holdings);
        free_telling(telling);
    }
    free(all);
}

size_t holdings_untold(const struct holdings *all)
{
    return all->untold;
}

int64_t holdings_tokens(struct holdings *all, int64_t count)
{
    int64_t first = all->next_token;

    all->next_token += count;
    return first;
}
