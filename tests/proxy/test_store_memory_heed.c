/* The memory store that takes over while another one is away: a key goes on from what that one said last, never from an empty
 * budget and never from less than was used here. */
#include "loop.h"
#include "settings.h"
#include "store.h"
#include "store_memory_limits.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_US INT64_C(1000000)

enum { ALGORITHMS = 4, LIMIT = 20, WINDOW_S = 60 };

static const int64_t noon_us = INT64_C(1764504000000000); /* a whole minute */

static struct limit_rule rule_of(int algorithm, int64_t limit)
{
    static char name[] = "limit";
    struct limit_terms terms = {.algorithm = (enum limit_algorithm)algorithm,
                                .limit = limit,
                                .window_us = WINDOW_S * SECOND_US,
                                .burst = limit};

    terms.tick_us = budget_tick(&terms);
    return (struct limit_rule){.name = name, .terms = terms};
}

static struct limit_charge charge_of(const struct limit_rule *rule, unsigned char principal)
{
    struct limit_charge charge = {.rule = rule, .terms = &rule->terms, .cost = 1};

    memset(charge.principal, principal, sizeof(charge.principal));
    return charge;
}

static int64_t decide(struct limit_table *table, const struct limit_charge *charge, int64_t count,
                      int64_t now_us)
{
    struct limit_work work[1];
    struct limit_state state[1];
    struct admit_tuple tuple = {charge, 1, count};

    return limit_table_decide(table, &tuple, 0, now_us, work, state);
}

Test(store_memory_heed, a_key_goes_on_from_what_was_left_of_it)
{
    for (int a = 0; a < ALGORITHMS; a++) {
        struct limit_table *table = limit_table_new(1000);
        struct limit_rule rule = rule_of(a, LIMIT);
        struct limit_charge known = charge_of(&rule, 1), unknown = charge_of(&rule, 2);

        limit_table_heed(table, &known, 7, noon_us);
        cr_assert_eq(decide(table, &known, 50, noon_us + 1), 7, "algorithm %d", a);
        cr_assert_eq(decide(table, &known, 50, noon_us + 2), 0,
                     "algorithm %d: the report does not count twice", a);
        cr_assert_eq(decide(table, &unknown, 50, noon_us + 1), LIMIT, "algorithm %d", a);
        limit_table_free(table);
    }
}

Test(store_memory_heed, the_last_report_is_the_one_that_counts)
{
    for (int a = 0; a < ALGORITHMS; a++) {
        struct limit_table *table = limit_table_new(1000);
        struct limit_rule rule = rule_of(a, LIMIT);
        struct limit_charge charge = charge_of(&rule, 1);

        limit_table_heed(table, &charge, 3, noon_us);
        limit_table_heed(table, &charge, LIMIT, noon_us + SECOND_US);
        cr_assert_eq(decide(table, &charge, 50, noon_us + 2 * SECOND_US), LIMIT,
                     "algorithm %d: it may have been reset meanwhile", a);
        limit_table_free(table);
    }
}

/* What was reported counts as admitted at the report, and comes back as it does after an admission of just then. */
Test(store_memory_heed, what_was_used_comes_back_as_the_algorithm_says)
{
    static const struct {
        int algorithm;
        int64_t after_s, passing;
        const char *why;
    } rows[] = {
        {LIMIT_SLIDING_WINDOW, 59, 0, "its window lasts"},
        {LIMIT_SLIDING_WINDOW, 90, 10, "half of it has moved into the past"},
        {LIMIT_SLIDING_WINDOW, 120, LIMIT, "nothing counts any more"},
        {LIMIT_SLIDING_LOG, 59, 0, "all of it counts"},
        {LIMIT_SLIDING_LOG, 60, LIMIT, "all of it has ended"},
        {LIMIT_TOKEN_BUCKET, 0, 0, "empty"},
        {LIMIT_TOKEN_BUCKET, 30, 10, "half full"},
        {LIMIT_TOKEN_BUCKET, 61, LIMIT, "full, and no more than that"},
        {LIMIT_FIXED_WINDOW, 59, 0, "the minute lasts"},
        {LIMIT_FIXED_WINDOW, 60, LIMIT, "a new minute"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct limit_table *table = limit_table_new(1000);
        struct limit_rule rule = rule_of(rows[i].algorithm, LIMIT);
        struct limit_charge charge = charge_of(&rule, 1);

        limit_table_heed(table, &charge, 0, noon_us);
        cr_assert_eq(decide(table, &charge, 50, noon_us + rows[i].after_s * SECOND_US), rows[i].passing,
                     "%d: %s", rows[i].algorithm, rows[i].why);
        limit_table_free(table);
    }
}

/* The store was away twice; in between it answered, and knew nothing of what was admitted here. */
Test(store_memory_heed, what_was_used_here_is_not_forgotten_for_a_report_that_does_not_know_of_it)
{
    for (int a = 0; a < ALGORITHMS; a++) {
        struct limit_table *table = limit_table_new(1000);
        struct limit_rule rule = rule_of(a, LIMIT);
        struct limit_charge charge = charge_of(&rule, 1);

        limit_table_heed(table, &charge, 15, noon_us);
        cr_assert_eq(decide(table, &charge, 8, noon_us + 1), 8);
        limit_table_heed(table, &charge, 14, noon_us + 2);
        cr_assert_eq(decide(table, &charge, 50, noon_us + 3), 7, "algorithm %d: 5 and 8, and not 6", a);
        limit_table_heed(table, &charge, 1, noon_us + 4);
        cr_assert_eq(decide(table, &charge, 50, noon_us + 5), 0);
        limit_table_free(table);
    }
}

/* Comparing the two anew at each decision would, when the older of them ends, forget what was admitted on top of it. */
Test(store_memory_heed, what_is_admitted_after_a_second_report_counts_for_a_whole_window)
{
    struct limit_table *table = limit_table_new(1000);
    struct limit_rule rule = rule_of(LIMIT_SLIDING_LOG, LIMIT);
    struct limit_charge charge = charge_of(&rule, 1);
    int64_t passed = 0;

    decide(table, &charge, 10, noon_us + 10 * SECOND_US);
    decide(table, &charge, 4, noon_us + 50 * SECOND_US);
    limit_table_heed(table, &charge, LIMIT - 12, noon_us + 55 * SECOND_US);
    passed += decide(table, &charge, 5, noon_us + 56 * SECOND_US);
    passed += decide(table, &charge, 50, noon_us + 71 * SECOND_US); /* the first ten have ended */
    passed += decide(table, &charge, 50, noon_us + 115 * SECOND_US);
    cr_assert_leq(passed, LIMIT, "%lld in less than a minute", (long long)passed);
    limit_table_free(table);
}

Test(store_memory_heed, a_report_that_knows_of_more_counts_from_the_next_request_on)
{
    for (int a = 0; a < ALGORITHMS; a++) {
        struct limit_table *table = limit_table_new(1000);
        struct limit_rule rule = rule_of(a, LIMIT);
        struct limit_charge charge = charge_of(&rule, 1);

        cr_assert_eq(decide(table, &charge, 2, noon_us), 2);
        limit_table_heed(table, &charge, 5, noon_us + 1);
        cr_assert_eq(decide(table, &charge, 50, noon_us + 2), 5, "algorithm %d", a);
        limit_table_free(table);
    }
}

/* Of a rule whose number changed between the report and the outage, what was used stays used. */
Test(store_memory_heed, a_changed_limit_keeps_what_was_used)
{
    for (int from = 0; from < ALGORITHMS; from++)
        for (int to = 0; to < ALGORITHMS; to++) {
            struct limit_table *table = limit_table_new(1000);
            struct limit_rule was = rule_of(from, LIMIT), lower = rule_of(to, 10), higher = rule_of(to, 30);
            struct limit_charge before = charge_of(&was, 1), low = charge_of(&lower, 1),
                                high = charge_of(&higher, 1);

            limit_table_heed(table, &before, 5, noon_us);
            cr_assert_eq(decide(table, &low, 50, noon_us), 0, "from %d to %d", from, to);
            cr_assert_eq(decide(table, &high, 50, noon_us), 15, "from %d to %d", from, to);
            limit_table_free(table);
        }
}

Test(store_memory_heed, a_refusal_after_a_report_leaves_nothing_and_is_repeated)
{
    struct limit_table *table = limit_table_new(1000);
    struct limit_rule rule = rule_of(LIMIT_SLIDING_LOG, LIMIT);
    struct limit_charge charge = charge_of(&rule, 1);

    limit_table_heed(table, &charge, 0, noon_us);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(decide(table, &charge, 1, noon_us + i), 0);
    cr_assert_eq(limit_table_count(table), 0);
    limit_table_free(table);
}

static void name_client(struct limit_charge *charge, uint32_t number)
{
    memcpy(charge->principal, &number, sizeof(number));
    memcpy(charge->principal + 4, &number, sizeof(number));
}

/* However many are heard of, the table is the same; what a client pays for others who make up keys is at most that the report of his is
 * forgotten, and never that he is taken for somebody else. */
Test(store_memory_heed, of_any_number_of_keys_the_last_ones_are_remembered)
{
    enum { CLIENTS = 300000, LAST = 20000 };
    struct limit_table *table = limit_table_new(CLIENTS);
    struct limit_rule rule = rule_of(LIMIT_TOKEN_BUCKET, LIMIT);
    struct limit_charge charge = charge_of(&rule, 0);
    int remembered = 0;

    for (uint32_t i = 0; i < CLIENTS; i++) {
        name_client(&charge, i);
        limit_table_heed(table, &charge, i % LIMIT, noon_us + i);
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        int64_t passing;

        name_client(&charge, i);
        passing = decide(table, &charge, 50, noon_us + CLIENTS);
        cr_assert(passing == i % LIMIT || passing == LIMIT, "client %u: %lld", i, (long long)passing);
        remembered += i >= CLIENTS - LAST && passing == i % LIMIT;
    }
    cr_assert_gt(remembered, LAST * 95 / 100, "%d", remembered);
    limit_table_free(table);
}

/* ---- through the store ---- */

static int64_t clock_us;

static int64_t read_clock(void)
{
    return clock_us;
}

static int64_t admitted;

static void on_admit(void *arg, enum fault fault, const struct admit_answer *answers, size_t count)
{
    (void)arg, (void)count;
    cr_assert_eq(fault, FAULT_NONE);
    admitted = answers[0].admitted;
}

static int64_t admit(struct store *store, struct loop *loop, const struct limit_charge *charge)
{
    struct admit_tuple tuple = {charge, 1, 50};

    store_admit(store, &tuple, 1, on_admit, NULL);
    loop_turn(loop, 0);
    return admitted;
}

Test(store_memory_heed, one_worker_goes_on_from_what_another_was_told_of_local_limits_alone)
{
    struct near *near = near_new(1 << 20, 1 << 18);
    struct store_memory *memory = store_memory_new(near);
    struct loop *loops[2] = {loop_new(), loop_new()};
    struct store *stores[2];
    struct limit_rule local = rule_of(LIMIT_SLIDING_WINDOW, LIMIT), open = local, closed = local;
    struct limit_charge charges[] = {charge_of(&local, 1), charge_of(&open, 1), charge_of(&closed, 1)};
    struct limit_state states[] = {{.available = 4}, {.available = 5}, {.available = 6}};
    struct admit_tuple tuples[] = {{charges, 1, 1}, {charges + 1, 2, 1}};
    struct admit_answer answers[] = {{1, states}, {1, states + 1}};

    open.name = (char[]){"open"};
    open.on_store_failure = FAILURE_OPEN;
    closed.name = (char[]){"closed"};
    closed.on_store_failure = FAILURE_CLOSED;
    clock_us = noon_us;
    store_memory_use_clock(memory, read_clock);
    for (int i = 0; i < 2; i++)
        stores[i] = store_memory_join(memory, loops[i]);
    store_heed(stores[0], tuples, 2, answers);
    clock_us += SECOND_US;
    cr_assert_eq(admit(stores[1], loops[1], &charges[0]), 4);
    cr_assert_eq(admit(stores[1], loops[1], &charges[1]), LIMIT);
    cr_assert_eq(admit(stores[1], loops[1], &charges[2]), LIMIT);
    for (int i = 0; i < 2; i++) {
        stores[i]->ops->free(stores[i]);
        loop_free(loops[i]);
    }
    store_memory_free(memory);
    near_free(near);
}
