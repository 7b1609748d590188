/* Store memory, by several workers at once, each with a loop of its own: a limit admits exactly what it
 * allows, at a time too, a key is loaded by one at a time, everybody who waits is woken, and what was invalidated is not
 * served to a lookup that starts afterwards.
 */
#include "clock.h"
#include "loop.h"
#include "settings.h"
#include "store.h"
#include "../support/objects.h"
#include "../support/thread_claims.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    WORKERS = 4,
    LIMIT = 5000,
    ADMITS = 4000, /* a worker */
    KEYS = 3,
    LOADS = 1500, /* rounds a worker goes through */
    TAGS = 3,
    PATIENCE_S = 60, /* for a machine that is busy; nothing waits for it to pass */
};

static struct near *near;
static struct store_memory *memory;

struct worker {
    pthread_t thread;
    uint32_t random;
    struct loop *loop;
    struct store *store;
    int64_t admitted;
    int answers;
    struct lookup_answer answer;
    enum fill_result filled;
    int64_t epoch;
    bool is_woken[KEYS];
};

static void on_wake(void *arg, const struct key32 *key)
{
    struct worker *worker = arg;

    for (uint32_t k = 0; k < KEYS; k++)
        if (memcmp(test_key(k).bytes, key->bytes, sizeof(key->bytes)) == 0)
            worker->is_woken[k] = true;
}

static void turn_until(struct worker *worker, const bool *done_flag, const int *answers, int wanted)
{
    int64_t give_up_us = clock_mono_us() + PATIENCE_S * (int64_t)1000000;

    while (done_flag != NULL ? !*done_flag : *answers < wanted) {
        MUST(clock_mono_us() < give_up_us);
        loop_turn(worker->loop, 100);
    }
}

/* ---- limits ---- */

static struct limit_rule left = {
    .name = (char[]){"left"}, .terms = {.limit = LIMIT, .window_us = 3600 * INT64_C(1000000), .tick_us = 1}};
static struct limit_rule right = {
    .name = (char[]){"right"}, .terms = {.limit = LIMIT, .window_us = 3600 * INT64_C(1000000), .tick_us = 1}};
static _Atomic int64_t admitted_total;

/* A limit that another store decides, of which each worker hears, and that this one decides meanwhile. */
static struct limit_rule heard = {
    .name = (char[]){"heard"}, .terms = {.limit = LIMIT, .window_us = 3600 * INT64_C(1000000), .tick_us = 1}};
static _Atomic int64_t heard_admitted;

static void on_admit(void *arg, enum fault fault, const struct admit_answer *answers, size_t count)
{
    struct worker *worker = arg;

    MUST(fault == FAULT_NONE);
    for (size_t i = 0; i < count; i++)
        worker->admitted += answers[i].admitted;
    worker->answers++;
}

/* Two limits in either order, each shared by all; both must come out exact, and nobody may wait for anybody
 * for ever. */
static void use_up_limits(struct worker *worker)
{
    struct limit_charge charges[2] = {{.rule = &left, .terms = &left.terms, .cost = 1},
                                      {.rule = &right, .terms = &right.terms, .cost = 1}};

    for (int i = 0; i < ADMITS; i++) {
        struct limit_charge other_way[2] = {charges[1], charges[0]};
        struct admit_tuple tuples[2] = {{charges, 2, 1 + i % 2}, {other_way, 2, 1}};

        worker->answers = 0;
        store_admit(worker->store, tuples, 2, on_admit, worker);
        turn_until(worker, NULL, &worker->answers, 1);
    }
    atomic_fetch_add(&admitted_total, worker->admitted);
}

static void on_heard_admit(void *arg, enum fault fault, const struct admit_answer *answers, size_t count)
{
    struct worker *worker = arg;

    MUST(fault == FAULT_NONE && count == 1);
    atomic_fetch_add(&heard_admitted, answers[0].admitted);
    worker->answers++;
}

/* All hear the same, that half of it is left: together they admit just so much. */
static void go_on_from_reports(struct worker *worker)
{
    struct limit_charge charge = {.rule = &heard, .terms = &heard.terms, .cost = 1};
    struct limit_state left_of_it = {.available = LIMIT / 2};
    struct admit_answer told = {0, &left_of_it};
    struct admit_tuple tuple = {&charge, 1, 1};

    for (int i = 0; i < ADMITS; i++) {
        store_heed(worker->store, &tuple, 1, &told);
        worker->answers = 0;
        store_admit(worker->store, &tuple, 1, on_heard_admit, worker);
        turn_until(worker, NULL, &worker->answers, 1);
    }
}

/* ---- slots ---- */

enum { SLOTS = 3, SLOT_ROUNDS = 3000 };

static struct limit_rule slots = {
    .name = (char[]){"slots"},
    .terms = {
        .algorithm = LIMIT_CONCURRENCY, .limit = SLOTS, .tick_us = 1, .lease_us = 60 * INT64_C(1000000)}};
static _Atomic int slots_in_use;
static _Atomic long slots_total;

static void on_settled(void *arg, enum fault fault, const bool *was_held, size_t count)
{
    struct worker *worker = arg;

    MUST(fault == FAULT_NONE && count == 1 && was_held[0]);
    worker->answers++;
}

static void settle_slot(struct worker *worker, const struct limit_charge *slot, int64_t charged)
{
    struct hold_settlement settlement = {*slot, charged};

    worker->answers = 0;
    store_settle(worker->store, &settlement, 1, on_settled, worker);
    turn_until(worker, NULL, &worker->answers, 1);
}

/* All number their tokens alike; each slot that was given is in use by one, and is there to be renewed and given back. */
static void share_slots(struct worker *worker)
{
    struct limit_charge slot = {.rule = &slots, .terms = &slots.terms, .cost = 1, .takes_hold = true};
    struct admit_tuple tuple = {&slot, 1, 1};

    for (slot.first_hold = 1; slot.first_hold <= SLOT_ROUNDS; slot.first_hold++) {
        worker->admitted = 0;
        worker->answers = 0;
        store_admit(worker->store, &tuple, 1, on_admit, worker);
        turn_until(worker, NULL, &worker->answers, 1);
        if (worker->admitted == 0)
            continue;
        MUST(atomic_fetch_add(&slots_in_use, 1) < SLOTS);
        atomic_fetch_add(&slots_total, 1);
        settle_slot(worker, &slot, SETTLE_RENEW);
        atomic_fetch_sub(&slots_in_use, 1);
        settle_slot(worker, &slot, 0);
    }
}

/* ---- loads ---- */

static _Atomic int loading[KEYS];
static _Atomic long loads_total, waits_total, finds_total, invalidated_total;
static _Atomic int64_t recorded[TAGS];

static void on_lookup(void *arg, enum fault fault, const struct lookup_answer *answer)
{
    struct worker *worker = arg;

    MUST(fault == FAULT_NONE);
    worker->answer = *answer;
    if (answer->object != NULL)
        object_hold(answer->object);
    worker->answers++;
}

static void on_fill(void *arg, enum fault fault, enum fill_result result)
{
    struct worker *worker = arg;

    MUST(fault == FAULT_NONE);
    worker->filled = result;
    worker->answers++;
}

static void on_release(void *arg, enum fault fault, bool was_held)
{
    struct worker *worker = arg;

    MUST(fault == FAULT_NONE);
    MUST(was_held);
    worker->answers++;
}

static void on_invalidate(void *arg, enum fault fault, int64_t epoch)
{
    struct worker *worker = arg;

    MUST(fault == FAULT_NONE);
    worker->epoch = epoch;
    worker->answers++;
}

static void look(struct worker *worker, uint32_t k, const struct slice *tags, size_t tag_count)
{
    struct lookup_ask ask = {.key = test_key(k), .tags = tags, .tag_count = tag_count, .lease_ms = 1000000};

    worker->answers = 0;
    worker->is_woken[k % KEYS] = false;
    store_lookup(worker->store, &ask, on_lookup, worker);
    turn_until(worker, NULL, &worker->answers, 1);
}

static enum fill_result fill(struct worker *worker, uint32_t k, const char *tag, int64_t fresh_ms)
{
    struct lifetimes lifetimes = {.fresh_ms = fresh_ms};
    /* what is never to be fresh ended long ago: another worker's lookup may have read its clock a moment
     * earlier */
    struct mono_ms since = mono_after(loop_now(worker->loop), fresh_ms == 0 ? -PATIENCE_S * 1000 : 0);
    struct object *object =
        test_object(k, worker->answer.epoch, tag, 50, fresh_ms, fresh_ms, fresh_ms, since);
    struct key32 key = test_key(k);

    worker->answers = 0;
    store_fill(worker->store, &key, worker->answer.load, object, &lifetimes, on_fill, worker);
    object_release(&object);
    turn_until(worker, NULL, &worker->answers, 1);
    return worker->filled;
}

static pthread_barrier_t together;

/* Nobody fills before all have asked: one leads, whatever the machine does meanwhile, and all others are told to wait. */
static void wait_for_one(struct worker *worker)
{
    bool leads;

    look(worker, 999, NULL, 0);
    leads = worker->answer.kind == LOOKUP_LOAD;
    if (!leads) {
        MUST(worker->answer.kind == LOOKUP_WAIT);
        atomic_fetch_add(&waits_total, 1);
    }
    object_release(&worker->answer.object);
    pthread_barrier_wait(&together);
    if (leads)
        MUST(fill(worker, 999, "met", 1000000) == FILL_STORED);
}

/* Nothing is ever fresh, so that somebody always loads; whoever waits has nothing but the wake to go on. */
static void load_in_turns(struct worker *worker)
{
    for (int i = 0; i < LOADS; i++) {
        uint32_t k = next_random(&worker->random) % KEYS;

        look(worker, k, NULL, 0);
        while (worker->answer.kind == LOOKUP_WAIT) {
            atomic_fetch_add(&waits_total, 1);
            turn_until(worker, &worker->is_woken[k], NULL, 0);
            look(worker, k, NULL, 0);
        }
        MUST(worker->answer.kind == LOOKUP_LOAD);
        MUST(atomic_fetch_add(&loading[k], 1) == 0);
        atomic_fetch_add(&loads_total, 1);
        for (uint32_t turns = next_random(&worker->random) % 4; turns > 0; turns--)
            loop_turn(worker->loop, 0);
        MUST(atomic_fetch_sub(&loading[k], 1) == 1);
        if (next_random(&worker->random) % 2 == 0) {
            MUST(fill(worker, k, NULL, 0) == FILL_STORED);
        } else {
            struct key32 key = test_key(k);

            worker->answers = 0;
            store_release(worker->store, &key, worker->answer.load, RELEASE_CANCELLED, 0, 0, on_release,
                          worker);
            turn_until(worker, NULL, &worker->answers, 1);
        }
    }
}

static const char *const tags[TAGS] = {"a", "b", "c"};

static void invalidate(struct worker *worker, uint32_t tag)
{
    struct slice name = slice_text(tags[tag]);

    worker->answers = 0;
    store_invalidate(worker->store, &name, 1, 0, on_invalidate, worker);
    turn_until(worker, NULL, &worker->answers, 1);

    int64_t known = atomic_load(&recorded[tag]);

    while (known < worker->epoch && !atomic_compare_exchange_weak(&recorded[tag], &known, worker->epoch))
        ;
}

/* Keys beyond those of load_in_turns(); each has one tag. Loads overlap invalidations at every step. */
static void serve_and_invalidate(struct worker *worker)
{
    for (int i = 0; i < LOADS * 4; i++) {
        uint32_t tag = next_random(&worker->random) % TAGS, k = 100 + tag;
        struct slice name = slice_text(tags[tag]);
        int64_t taken = atomic_load(&recorded[tag]);

        if (next_random(&worker->random) % 16 == 0) {
            invalidate(worker, tag);
            continue;
        }
        look(worker, k, &name, 1);
        if (worker->answer.kind == LOOKUP_FRESH) {
            MUST(worker->answer.object->epoch >= taken);
            atomic_fetch_add(&finds_total, 1);
        } else if (worker->answer.kind == LOOKUP_LOAD) {
            for (uint32_t turns = next_random(&worker->random) % 3; turns > 0; turns--)
                loop_turn(worker->loop, 0);
            if (fill(worker, k, tags[tag], 1000000) != FILL_STORED)
                atomic_fetch_add(&invalidated_total, 1);
        } else {
            MUST(worker->answer.kind == LOOKUP_WAIT);
            loop_turn(worker->loop, 0);
        }
        object_release(&worker->answer.object);
    }
}

/* ---- */

static void *run(void *arg)
{
    struct worker *worker = arg;

    worker->loop = loop_new();
    worker->store = store_memory_join(memory, worker->loop);
    worker->store->on_wake = on_wake;
    worker->store->on_wake_arg = worker;
    pthread_barrier_wait(&together);
    use_up_limits(worker);
    go_on_from_reports(worker);
    share_slots(worker);
    pthread_barrier_wait(&together);
    wait_for_one(worker);
    load_in_turns(worker);
    pthread_barrier_wait(&together);
    serve_and_invalidate(worker);
    /* others still post to this loop until the handle is gone; what is then on its way is delivered before
     * the loop goes */
    worker->store->ops->free(worker->store);
    loop_turn(worker->loop, 0);
    loop_turn(worker->loop, 0);
    loop_free(worker->loop);
    return NULL;
}

int main(void)
{
    static struct worker workers[WORKERS];

    near = near_new(1 << 20, 1 << 20);
    memory = store_memory_new(near);
    pthread_barrier_init(&together, NULL, WORKERS);
    for (uint32_t i = 0; i < WORKERS; i++) {
        workers[i].random = 2654435761u * (i + 1);
        MUST(pthread_create(&workers[i].thread, NULL, run, &workers[i]) == 0);
    }
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i].thread, NULL);
    printf("admitted %ld, loads %ld, waits %ld, finds %ld, not stored %ld\n",
           (long)atomic_load(&admitted_total), atomic_load(&loads_total), atomic_load(&waits_total),
           atomic_load(&finds_total), atomic_load(&invalidated_total));
    MUST(atomic_load(&admitted_total) == LIMIT);
    MUST(atomic_load(&heard_admitted) == LIMIT / 2);
    MUST(atomic_load(&slots_total) >= SLOT_ROUNDS);
    MUST(atomic_load(&waits_total) >= WORKERS - 1);
    MUST(atomic_load(&finds_total) > 0);
    pthread_barrier_destroy(&together);
    store_memory_free(memory);
    near_free(near);
    return 0;
}
