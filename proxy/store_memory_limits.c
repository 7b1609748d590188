/* Limit table: see store_memory_limits.h. The shards of a tuple are locked in ascending order, so that two
 * tuples with the same limits in another order cannot wait for each other.
 */
#include "store_memory_limits.h"

#include "check.h"
#include "digest.h"
#include "expiry_map.h"
#include "memory.h"
#include "settings.h"
#include "store_memory_population.h"
#include "store_memory_reports.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHARDS = 16,
    MOST_RUNS_PER_SHARD = 2 << 20, /* 32 MiB */
    FORGOTTEN_AT_ONCE = 8,
    IDLE_AFTER_US = 1000000,
};

struct tracked_key {
    struct expiry_node node; /* first; expires_at in microseconds of the store's clock */
    unsigned char principal[16];
    uint64_t rule_print; /* of the limit's name: a reload keeps what was counted */
    int64_t seen_us;     /* when a request of it was decided last, whichever way */
    struct budget budget;
    int64_t heard_us; /* of the report that the budget includes; 0: none */
    struct holds holds;
    struct limit_shard *shard;
    struct population *population; /* that it is counted in */
};

struct limit_shard {
    pthread_mutex_t lock;
    struct expiry_map keys;
    size_t runs;                  /* room of all its logs' rings */
    struct limit_reports reports; /* of another store */
} __attribute__((aligned(64)));

struct limit_table {
    struct limit_shard shards[SHARDS];
    uint64_t secret; /* clients choose the principals */
    size_t max_per_shard;
    struct populations populations;
};

static struct tracked_key *key_of(struct expiry_node *node)
{
    return (struct tracked_key *)(void *)node; /* its first member */
}

static size_t room_of(const struct budget *budget)
{
    return budget->algorithm == LIMIT_SLIDING_LOG ? budget->of.log.room : 0;
}

static struct log_run *ring_of(const struct budget *budget)
{
    return budget->algorithm == LIMIT_SLIDING_LOG ? budget->of.log.ring : NULL;
}

static void free_key(struct expiry_node *node)
{
    struct tracked_key *key = key_of(node);

    atomic_fetch_sub_explicit(&key->population->keys, 1, memory_order_relaxed);
    key->shard->runs -= room_of(&key->budget);
    free(ring_of(&key->budget));
    free(key->holds.heap);
    free(key);
}

static unsigned shard_index(uint64_t hash)
{
    return (unsigned)(hash >> 28) % SHARDS;
}

static struct limit_shard *shard_of(struct limit_table *table, uint64_t hash)
{
    return &table->shards[shard_index(hash)];
}

static uint64_t print_of(const char *limit)
{
    return digest_checksum(limit, strlen(limit));
}

static void name_key(const struct limit_table *table, const unsigned char principal[16], const char *limit,
                     struct limit_work *work)
{
    uint64_t word;

    memcpy(&word, principal, sizeof(word));
    work->rule_print = print_of(limit);
    work->hash =
        ((word ^ work->rule_print ^ table->secret) * (table->secret | 1)) >> 32; /* the well mixed half */
}

static struct tracked_key *find(struct limit_shard *shard, const unsigned char principal[16],
                                const struct limit_work *work)
{
    for (struct expiry_node *node = expiry_map_first(&shard->keys, work->hash); node != NULL;
         node = node->next) {
        struct tracked_key *key = key_of(node);

        if (key->rule_print == work->rule_print &&
            memcmp(key->principal, principal, sizeof(key->principal)) == 0)
            return key;
    }
    return NULL;
}

static unsigned name_keys(const struct limit_table *table, const struct admit_tuple *tuple,
                          struct limit_work *work)
{
    unsigned shards = 0; /* a bit each */

    for (size_t i = 0; i < tuple->charge_count; i++) {
        name_key(table, tuple->charges[i].principal, tuple->charges[i].rule->name, &work[i]);
        shards |= 1u << shard_index(work[i].hash);
    }
    return shards;
}

static void lock_shards(struct limit_table *table, unsigned shards)
{
    for (unsigned i = 0; i < SHARDS; i++)
        if ((shards & 1u << i) != 0)
            pthread_mutex_lock(&table->shards[i].lock);
}

static void unlock_shards(struct limit_table *table, unsigned shards)
{
    for (unsigned i = 0; i < SHARDS; i++)
        if ((shards & 1u << i) != 0)
            pthread_mutex_unlock(&table->shards[i].lock);
}

/* What has ended is dropped for good, whatever is decided. */
static int64_t held_now(struct tracked_key *key, int64_t now_us)
{
    if (key == NULL)
        return 0;
    holds_drop_ended(&key->holds, now_us);
    return key->holds.units;
}

/* As it was stored; an ended one counts as never seen. */
static void load_stored(const struct limit_charge *charge, int64_t now_us, struct limit_work *work)
{
    bool is_there = work->tracked != NULL && work->tracked->node.expires_at > now_us;

    work->budget = is_there ? work->tracked->budget : (struct budget){.algorithm = charge->terms->algorithm};
    work->heard_us = is_there ? work->tracked->heard_us : 0;
}

static int64_t used_now(const struct budget *budget, const struct limit_terms *terms)
{
    return limit_capacity(terms) - budget_available(budget, terms);
}

/* What another store said counts as admitted when it said so. Where something was used here before, perhaps while that store was away
 * for the first time, the larger of the two counts, as of now: so it stands for each of them at any later moment too. They are not
 * added, because what was used here may have begun with an earlier report. */
static void start_from_report(const struct limit_reports *reports, const struct limit_charge *charge,
                              int64_t now_us, struct limit_work *work)
{
    const struct limit_terms *terms = charge->terms;
    struct limit_report report;
    int64_t used_here;

    if (!limit_reports_find(reports, charge, work->hash, work->rule_print, &report) ||
        report.at_us <= work->heard_us)
        return;
    used_here = used_now(&work->budget, terms);
    work->heard_us = report.at_us;
    work->budget = budget_of_units(terms, report.used, report.at_us);
    budget_advance(&work->budget, terms, now_us);
    if (used_here == 0)
        return;
    work->budget = budget_of_units(terms, limit_larger(used_here, used_now(&work->budget, terms)), now_us);
    budget_advance(&work->budget, terms, now_us);
}

/* Copies the budget and brings it to the present. The copy has the same ring, into which nothing is written before a charge. */
static void load_budget(struct limit_table *table, const struct limit_charge *charge, int64_t now_us,
                        struct limit_work *work)
{
    const struct limit_terms *terms = charge->terms;

    work->tracked = find(shard_of(table, work->hash), charge->principal, work);
    if (work->tracked != NULL)
        work->tracked->seen_us = now_us;
    load_stored(charge, now_us, work);
    work->held = terms->lease_us > 0 ? held_now(work->tracked, now_us) : 0;
    work->must_keep = budget_advance(&work->budget, terms, now_us);
    start_from_report(&shard_of(table, work->hash)->reports, charge, now_us, work);
}

/* Takes what passes. A ring that is full is left to the tracked key, which frees it when it takes the new
 * one. */
static void charge_budget(struct budget *budget, int64_t units)
{
    uint32_t room = budget_room_wanted(budget);

    if (room > 0)
        sliding_log_move(&budget->of.log, must_alloc(room * sizeof(struct log_run)), room);
    budget_charge(budget, units);
}

/* And a second, as all that is kept. */
static void keep_while_held(struct tracked_key *key)
{
    int64_t until_us = key->holds.last_end_us + LIMIT_TTL_SLACK_MS * LIMIT_US_PER_MS;

    if (key->holds.count > 0 && key->node.expires_at < until_us)
        key->node.expires_at = until_us;
}

static void store_budget(struct tracked_key *key, const struct limit_charge *charge, int64_t now_us,
                         const struct limit_work *work)
{
    const struct limit_terms *terms = charge->terms;

    key->shard->runs += room_of(&work->budget);
    key->shard->runs -= room_of(&key->budget);
    if (ring_of(&key->budget) != ring_of(&work->budget))
        free(ring_of(&key->budget));
    key->budget = work->budget;
    key->heard_us = work->heard_us;
    key->node.expires_at = now_us + budget_ttl_ms(&work->budget, terms, now_us) * 1000;
    keep_while_held(key);
}

static bool is_idle(const struct expiry_node *node, int64_t now_us)
{
    return ((const struct tracked_key *)(const void *)node)->seen_us < now_us - IDLE_AFTER_US;
}

/* Who is not asked about any more goes before who is, be it only to be refused again; of those the one whose state ends first. */
static bool goes_before(const struct expiry_node *a, const struct expiry_node *b, int64_t now_us)
{
    if (is_idle(a, now_us) != is_idle(b, now_us))
        return is_idle(a, now_us);
    return a->expires_at < b->expires_at;
}

static void forget_one(struct limit_shard *shard, int64_t now_us)
{
    struct expiry_node *forgotten = expiry_map_choose(&shard->keys, now_us, goes_before);

    expiry_map_remove(&shard->keys, forgotten);
    free_key(forgotten);
}

static struct tracked_key *track_key(struct limit_table *table, const struct limit_charge *charge,
                                     int64_t now_us, const struct limit_work *work)
{
    struct limit_shard *shard = shard_of(table, work->hash);
    struct tracked_key *key = must_alloc(sizeof(*key));

    expiry_map_sweep(&shard->keys, now_us, free_key);
    if (shard->keys.count >= table->max_per_shard)
        forget_one(shard, now_us);
    memcpy(key->principal, charge->principal, sizeof(key->principal));
    key->rule_print = work->rule_print;
    key->shard = shard;
    key->population = population_of(&table->populations, work->rule_print);
    atomic_fetch_add_explicit(&key->population->keys, 1, memory_order_relaxed);
    key->node.hash = work->hash;
    key->seen_us = now_us;
    store_budget(key, charge, now_us, work);
    expiry_map_add(&shard->keys, &key->node);
    return key;
}

/* Once nobody points to a key any more. */
static void bound_rings(struct limit_table *table, const struct limit_work *work, size_t count,
                        int64_t now_us)
{
    for (size_t i = 0; i < count; i++) {
        struct limit_shard *shard = shard_of(table, work[i].hash);

        for (int n = 0; n < FORGOTTEN_AT_ONCE && shard->runs > MOST_RUNS_PER_SHARD; n++)
            forget_one(shard, now_us);
    }
}

/* Known keys first: making room for a new one may free one of them. */
static void store_budgets(struct limit_table *table, const struct admit_tuple *tuple, int64_t now_us,
                          bool is_charged, struct limit_work *work)
{
    for (size_t i = 0; i < tuple->charge_count; i++) {
        if (tuple->charges[i].takes_hold && !work[i].must_keep) /* nothing was charged to it */
            load_stored(&tuple->charges[i], now_us, &work[i]);
        if (work[i].tracked != NULL && (is_charged || work[i].must_keep))
            store_budget(work[i].tracked, &tuple->charges[i], now_us, &work[i]);
    }
    for (size_t i = 0; i < tuple->charge_count; i++)
        if (work[i].tracked == NULL && is_charged)
            track_key(table, &tuple->charges[i], now_us, &work[i]);
    bound_rings(table, work, tuple->charge_count, now_us);
}

/* ---- holds ---- */

static bool take_hold(struct tracked_key *key, const struct limit_charge *charge, struct hold_token token,
                      int64_t now_us)
{
    bool was_held = holds_take(&key->holds, token, charge->cost, now_us + charge->terms->lease_us);

    keep_while_held(key);
    return was_held;
}

static void make_room_for_holds(struct tracked_key *key, int64_t more)
{
    uint32_t room = holds_room_wanted(&key->holds, more);

    if (room > 0)
        free(holds_move(&key->holds, must_alloc(holds_memory_bytes(room)), room));
}

/* The keys are looked for anew: making room for one may have freed another. */
static void take_holds(struct limit_table *table, const struct admit_tuple *tuple, uint64_t owner,
                       int64_t passing, int64_t now_us, const struct limit_work *work)
{
    for (size_t i = 0; i < tuple->charge_count && passing > 0; i++) {
        const struct limit_charge *charge = &tuple->charges[i];
        struct tracked_key *key =
            charge->takes_hold ? find(shard_of(table, work[i].hash), charge->principal, &work[i]) : NULL;

        if (key == NULL)
            continue;
        make_room_for_holds(key, passing);
        for (int64_t n = 0; n < passing; n++)
            take_hold(key, charge, (struct hold_token){owner, (uint64_t)(charge->first_hold + n)}, now_us);
    }
}

static bool renew_hold(struct limit_table *table, const struct limit_charge *charge, struct hold_token token,
                       int64_t now_us, struct limit_work *work)
{
    struct tracked_key *key = work->tracked;

    if (key == NULL || key->node.expires_at <= now_us) {
        load_stored(charge, now_us, work);
        if (key == NULL)
            key = track_key(table, charge, now_us, work);
        else
            store_budget(key, charge, now_us, work);
    }
    make_room_for_holds(key, 1);
    return take_hold(key, charge, token, now_us);
}

static bool end_hold(const struct hold_settlement *settlement, struct hold_token token, int64_t now_us,
                     struct limit_work *work)
{
    const struct limit_charge *charge = &settlement->charge;
    int64_t owing;

    if (work->tracked == NULL || !holds_end(&work->tracked->holds, token))
        return false;
    if (settlement->charged == 0)
        return true;
    budget_note_asked(&work->tracked->budget, charge->terms);
    owing = budget_owing(&work->budget, charge->terms, settlement->charged);
    if (owing > 0)
        charge_budget(&work->budget, owing);
    if (owing > 0 || work->must_keep)
        store_budget(work->tracked, charge, now_us, work);
    return true;
}

bool limit_table_settle(struct limit_table *table, const struct hold_settlement *settlement, uint64_t owner,
                        int64_t now_us)
{
    const struct limit_charge *charge = &settlement->charge;
    struct hold_token token = {owner, (uint64_t)charge->first_hold};
    struct limit_work work;
    struct limit_shard *shard;
    bool was_held;

    name_key(table, charge->principal, charge->rule->name, &work);
    shard = shard_of(table, work.hash);
    pthread_mutex_lock(&shard->lock);
    load_budget(table, charge, now_us, &work);
    was_held = settlement->charged == SETTLE_RENEW ? renew_hold(table, charge, token, now_us, &work)
                                                   : end_hold(settlement, token, now_us, &work);
    bound_rings(table, &work, 1, now_us);
    pthread_mutex_unlock(&shard->lock);
    return was_held;
}

/* ---- deciding ---- */

static void describe(const struct limit_charge *charge, int64_t now_us, const struct limit_work *work,
                     struct limit_state *out)
{
    const struct limit_terms *terms = charge->terms;
    int64_t retry_us = allowance_retry_us(&work->budget, terms, work->held, charge->cost, now_us);

    out->available = allowance_available(&work->budget, terms, work->held);
    out->reset_us = budget_reset_us(&work->budget, terms, now_us);
    out->never = retry_us == LIMIT_NEVER;
    out->is_unforeseen = retry_us == LIMIT_UNFORESEEN;
    out->retry_after_us = retry_us > 0 ? retry_us : 0;
}

/* In the copies; what is kept is written once all limits are described. */
static void take(const struct limit_charge *charge, int64_t passing, struct limit_work *work)
{
    if (passing > 0 && charge->takes_hold)
        work->held += passing * charge->cost;
    else if (passing > 0)
        charge_budget(&work->budget, passing * charge->cost);
}

int64_t limit_table_decide(struct limit_table *table, const struct admit_tuple *tuple, uint64_t owner,
                           int64_t now_us, struct limit_work *work, struct limit_state *states_out)
{
    unsigned shards = name_keys(table, tuple, work);
    int64_t passing = tuple->count;

    lock_shards(table, shards);
    for (size_t i = 0; i < tuple->charge_count; i++) {
        const struct limit_charge *charge = &tuple->charges[i];

        load_budget(table, charge, now_us, &work[i]);
        if (work[i].tracked != NULL)
            budget_note_asked(&work[i].tracked->budget, charge->terms);
        passing = allowance_passing(&work[i].budget, charge->terms, work[i].held, charge->cost, passing);
    }
    for (size_t i = 0; i < tuple->charge_count; i++) {
        take(&tuple->charges[i], passing, &work[i]);
        describe(&tuple->charges[i], now_us, &work[i], &states_out[i]);
    }
    store_budgets(table, tuple, now_us, passing > 0, work);
    take_holds(table, tuple, owner, passing, now_us, work);
    unlock_shards(table, shards);
    return passing;
}

void limit_table_heed(struct limit_table *table, const struct limit_charge *charge, int64_t available,
                      int64_t now_us)
{
    struct limit_work work;
    struct limit_shard *shard;

    name_key(table, charge->principal, charge->rule->name, &work);
    shard = shard_of(table, work.hash);
    pthread_mutex_lock(&shard->lock);
    limit_reports_note(&shard->reports, charge, work.hash, work.rule_print, available, now_us);
    pthread_mutex_unlock(&shard->lock);
}

bool limit_table_reset(struct limit_table *table, const unsigned char principal[16], const char *limit)
{
    struct limit_work work;
    struct limit_shard *shard;
    struct tracked_key *key;

    name_key(table, principal, limit, &work);
    shard = shard_of(table, work.hash);
    pthread_mutex_lock(&shard->lock);
    key = find(shard, principal, &work);
    if (key != NULL) {
        expiry_map_remove(&shard->keys, &key->node);
        free_key(&key->node);
    }
    pthread_mutex_unlock(&shard->lock);
    return key != NULL;
}

size_t limit_table_count(struct limit_table *table)
{
    size_t sum = 0;

    for (size_t i = 0; i < SHARDS; i++) {
        pthread_mutex_lock(&table->shards[i].lock);
        sum += table->shards[i].keys.count;
        pthread_mutex_unlock(&table->shards[i].lock);
    }
    return sum;
}

int64_t limit_table_keys(struct limit_table *table, const char *limit)
{
    return population_count(&table->populations, print_of(limit));
}

struct limit_table *limit_table_new(size_t max_keys)
{
    struct limit_table *table = aligned_alloc(_Alignof(struct limit_table), sizeof(*table));

    CHECK(table != NULL);
    memset(table, 0, sizeof(*table));
    for (size_t i = 0; i < SHARDS; i++)
        pthread_mutex_init(&table->shards[i].lock, NULL);
    populations_init(&table->populations);
    table->max_per_shard = max_keys < SHARDS ? 1 : max_keys / SHARDS;
    digest_random(&table->secret, sizeof(table->secret));
    return table;
}

void limit_table_free(struct limit_table *table)
{
    for (size_t i = 0; i < SHARDS; i++) {
        expiry_map_clear(&table->shards[i].keys, free_key);
        limit_reports_clear(&table->shards[i].reports);
        pthread_mutex_destroy(&table->shards[i].lock);
    }
    populations_free(&table->populations);
    free(table);
}
