/* Stores, settle: what is held is given back, charged or renewed, by whose token it is, in the memory store and in Redis alike. */
#include "clock.h"
#include "log.h"
#include "loop.h"
#include "redis_fixture.h"
#include "settings.h"
#include "store.h"

#include <criterion/criterion.h>

enum { SECOND_US = 1000000, PATIENCE_MS = 20000, MANY = 200 };

static struct limit_rule slots = {
    .name = (char[]){"slots"},
    .terms = {.algorithm = LIMIT_CONCURRENCY, .limit = 5, .tick_us = 1, .lease_us = 60 * (int64_t)SECOND_US}};
static struct limit_rule units = {.name = (char[]){"units"},
                                  .terms = {.algorithm = LIMIT_SLIDING_LOG,
                                            .limit = 1000,
                                            .window_us = 3600 * (int64_t)SECOND_US,
                                            .tick_us = 1,
                                            .lease_us = 60 * (int64_t)SECOND_US}};

static struct loop *loop;
static struct near *near;
static struct store *one, *two; /* two workers' handles */

/* ---- the stores ---- */

static struct store_memory *memory;
static int64_t memory_us = 1000 * (int64_t)SECOND_US;

static int64_t read_memory_clock(void)
{
    return memory_us;
}

static void start_memory(void)
{
    loop = loop_new();
    near = near_new(1 << 20, 1 << 18);
    memory = store_memory_new(near);
    store_memory_use_clock(memory, read_memory_clock);
    one = store_memory_join(memory, loop);
    two = store_memory_join(memory, loop);
}

static void stop_memory(void)
{
    one->ops->free(one);
    two->ops->free(two);
    loop_turn(loop, 0);
    store_memory_free(memory);
    near_free(near);
    loop_free(loop);
}

static struct redis_fixture fixture;
static struct store_redis *redis;

static void turn_until_up(void)
{
    int64_t give_up_ms = clock_mono().ms + PATIENCE_MS;

    while (!one->is_up || !two->is_up) {
        cr_assert_lt(clock_mono().ms, give_up_ms);
        loop_turn(loop, 5);
    }
}

static void start_redis(void)
{
    struct settings settings = {.route_count = 0};

    log_set_level(LOG_ERROR);
    fixture = redis_fixture_start();
    settings.store = (struct store_settings){.kind = STORE_REDIS,
                                             .host = (char *)"127.0.0.1",
                                             .port = fixture.port,
                                             .prefix = (char *)"w",
                                             .timeout_ms = 5000};
    loop = loop_new();
    near = near_new(1 << 20, 1 << 18);
    redis = store_redis_new(&settings, near);
    one = store_redis_join(redis, loop);
    two = store_redis_join(redis, loop);
    turn_until_up();
}

static void stop_redis(void)
{
    one->ops->free(one);
    two->ops->free(two);
    store_redis_free(redis);
    loop_turn(loop, 0);
    near_free(near);
    loop_free(loop);
    redis_fixture_stop(&fixture);
}

/* ---- asking, each waited for ---- */

static struct limit_charge held(const struct limit_rule *rule, int64_t cost, int64_t first_hold)
{
    struct limit_charge charge = {.rule = rule, .terms = &rule->terms, .cost = cost, .takes_hold = true};

    charge.first_hold = first_hold;
    charge.principal[3] = 9;
    return charge;
}

struct seen {
    int runs;
    int64_t admitted;
    struct limit_state state;
    bool was_held[MANY];
    size_t count;
};

static void on_admit(void *arg, enum fault fault, const struct admit_answer *answers, size_t count)
{
    struct seen *seen = arg;

    cr_assert_eq(fault, FAULT_NONE, "%s", fault_name(fault));
    cr_assert_eq(count, 1);
    seen->runs++;
    seen->admitted = answers[0].admitted;
    seen->state = answers[0].states[0];
}

static void on_settle(void *arg, enum fault fault, const bool *was_held, size_t count)
{
    struct seen *seen = arg;

    cr_assert_eq(fault, FAULT_NONE, "%s", fault_name(fault));
    seen->runs++;
    seen->count = count;
    memcpy(seen->was_held, was_held, count * sizeof(*was_held));
}

static void wait_for(struct seen *seen)
{
    int64_t give_up_ms = clock_mono().ms + PATIENCE_MS;

    cr_assert_eq(seen->runs, 0, "never inside the start");
    while (seen->runs == 0) {
        cr_assert_lt(clock_mono().ms, give_up_ms);
        loop_turn(loop, 5);
    }
    cr_assert_eq(seen->runs, 1);
}

static struct seen admit(struct store *store, struct limit_charge charge, int64_t count)
{
    struct admit_tuple tuple = {.charges = &charge, .charge_count = 1, .count = count};
    struct seen seen = {.runs = 0};

    store_admit(store, &tuple, 1, on_admit, &seen);
    wait_for(&seen);
    return seen;
}

static struct seen settle_all(struct store *store, const struct hold_settlement *settlements, size_t count)
{
    struct seen seen = {.runs = 0};

    store_settle(store, settlements, count, on_settle, &seen);
    wait_for(&seen);
    cr_assert_eq(seen.count, count);
    return seen;
}

static bool settle(struct store *store, struct limit_charge charge, int64_t charged)
{
    struct hold_settlement settlement = {charge, charged};

    return settle_all(store, &settlement, 1).was_held[0];
}

static int64_t left(const struct limit_rule *rule)
{
    return admit(two, held(rule, 1, 1), 0).state.available;
}

/* ---- promises ---- */

static void slots_are_taken_and_given_back_by_token(void)
{
    struct seen seen = admit(one, held(&slots, 1, 10), 7);

    cr_assert_eq(seen.admitted, 5);
    cr_assert_eq(seen.state.available, 0);
    cr_assert(seen.state.is_unforeseen && !seen.state.never && seen.state.retry_after_us == 0);
    cr_assert_eq(admit(two, held(&slots, 1, 10), 1).admitted, 0, "for all workers");
    cr_assert_not(settle(two, held(&slots, 1, 10), 0), "the other's token of that number is another one");
    cr_assert_not(settle(one, held(&slots, 1, 15), 0), "who was refused holds nothing");
    cr_assert(settle(one, held(&slots, 1, 12), 0));
    cr_assert_not(settle(one, held(&slots, 1, 12), 0), "once");
    cr_assert_eq(left(&slots), 1);
    cr_assert(admit(one, held(&slots, 6, 30), 1).state.never, "above all of it");
}

static void what_ends_is_charged_to_the_unit(void)
{
    cr_assert_eq(admit(one, held(&units, 100, 1), 12).admitted, 10, "no more than there is room for");
    cr_assert_eq(left(&units), 0);
    cr_assert(settle(one, held(&units, 100, 1), 30));
    cr_assert_eq(left(&units), 70);
    cr_assert(settle(one, held(&units, 100, 2), 0));
    cr_assert_eq(left(&units), 170);
    cr_assert(settle(one, held(&units, 100, 3), 350));
    cr_assert_eq(left(&units), 0, "20 fewer than what the others hold");
    cr_assert_not(settle(one, held(&units, 100, 3), 350), "told twice, charged once");
    for (int64_t hold = 4; hold <= 10; hold++)
        cr_assert(settle(one, held(&units, 100, hold), 0));
    cr_assert_eq(left(&units), 620);
}

static void renewing_takes_anew_what_was_lost(void)
{
    cr_assert_not(settle(one, held(&slots, 2, 1), SETTLE_RENEW), "the store has not heard of it");
    cr_assert_eq(left(&slots), 3);
    cr_assert(settle(one, held(&slots, 2, 1), SETTLE_RENEW), "now it has");
    cr_assert_eq(left(&slots), 3);
    cr_assert(settle(one, held(&slots, 2, 1), 0));
    cr_assert_eq(left(&slots), 5);
}

/* More than go into one script; some of them not there. */
static void a_large_batch_is_answered_in_order(void)
{
    static struct hold_settlement many[MANY];
    struct seen seen;

    cr_assert_eq(admit(one, held(&units, 5, 1), MANY).admitted, MANY);
    for (int i = 0; i < MANY; i++)
        many[i] = (struct hold_settlement){held(&units, 5, i % 7 == 0 ? 10000 + i : 1 + i), i % 3};
    seen = settle_all(one, many, MANY);
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(seen.was_held[i], i % 7 != 0, "%d", i);
    cr_assert_eq(settle_all(one, many, 0).count, 0, "nothing to be told is an answer, too");
}

static void others_may_be_charged_beside_what_is_held(void)
{
    struct limit_charge fixed = held(&units, 300, 0);

    fixed.takes_hold = false;
    cr_assert_eq(admit(one, held(&units, 100, 1), 5).admitted, 5);
    cr_assert_eq(admit(two, fixed, 2).admitted, 1);
    cr_assert_eq(left(&units), 200);
    cr_assert(settle(one, held(&units, 100, 1), 100));
    cr_assert_eq(left(&units), 200);
}

#define ON_BOTH(promise)                                                                                     \
    Test(settle_memory, promise, .init = start_memory, .fini = stop_memory, .timeout = 60)                   \
    {                                                                                                        \
        promise();                                                                                           \
    }                                                                                                        \
    Test(settle_redis, promise, .init = start_redis, .fini = stop_redis, .timeout = 60)                      \
    {                                                                                                        \
        promise();                                                                                           \
    }

ON_BOTH(slots_are_taken_and_given_back_by_token)
ON_BOTH(what_ends_is_charged_to_the_unit)
ON_BOTH(renewing_takes_anew_what_was_lost)
ON_BOTH(a_large_batch_is_answered_in_order)
ON_BOTH(others_may_be_charged_beside_what_is_held)

/* Of Redis the differential test has it, with a clock of its own. */
Test(settle_memory, a_hold_ends_with_its_lease_and_not_before, .init = start_memory, .fini = stop_memory)
{
    cr_assert_eq(admit(one, held(&slots, 1, 1), 3).admitted, 3);
    cr_assert_eq(admit(one, held(&units, 100, 1), 3).admitted, 3);
    memory_us += 30 * (int64_t)SECOND_US;
    cr_assert(settle(one, held(&slots, 1, 2), SETTLE_RENEW));
    memory_us += 30 * (int64_t)SECOND_US - 1;
    cr_assert_eq(left(&slots), 2);
    cr_assert_eq(left(&units), 700);
    memory_us++;
    cr_assert_eq(left(&slots), 4, "all but the one that was renewed");
    cr_assert_eq(left(&units), 1000);
    cr_assert_not(settle(one, held(&units, 100, 1), 100), "too late: it charges nothing");
    cr_assert_eq(left(&units), 1000);
    memory_us += 30 * (int64_t)SECOND_US;
    cr_assert_eq(left(&slots), 5);
}

Test(settle_memory, a_changed_limit_keeps_what_is_held, .init = start_memory, .fini = stop_memory)
{
    struct limit_rule changed = slots, other = slots;

    changed.terms.limit = 3;
    other.terms = (struct limit_terms){
        .algorithm = LIMIT_SLIDING_WINDOW, .limit = 10, .window_us = SECOND_US, .tick_us = 1};
    cr_assert_eq(admit(one, held(&slots, 1, 1), 4).admitted, 4);
    cr_assert_eq(admit(one, held(&changed, 1, 10), 1).admitted, 0);
    struct limit_charge charge = held(&other, 1, 0);
    charge.takes_hold = false;
    cr_assert_eq(admit(one, charge, 12).admitted, 10, "another algorithm begins with nothing charged");
    cr_assert(settle(one, held(&slots, 1, 1), 0) && settle(one, held(&slots, 1, 2), 0));
    cr_assert_eq(admit(one, held(&changed, 1, 20), 2).admitted, 1);
}
