/* The memory store's limit table with every algorithm: what the policies decide, whatever was there before; and that rings of
 * logs are freed however their keys end. (Under AddressSanitizer the last is a test too.) */
#include "settings.h"
#include "store_memory_limits.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_US INT64_C(1000000)
static const int64_t noon_us = INT64_C(1764504000000000);

enum { ALGORITHMS = 4, MOST_CHARGES = 4 };

static struct limit_rule rule_of(char *name, int algorithm, int64_t limit, int64_t window_us)
{
    struct limit_rule rule = {.name = name,
                              .terms = {.algorithm = (enum limit_algorithm)algorithm,
                                        .limit = limit,
                                        .window_us = window_us,
                                        .burst = limit}};

    rule.terms.tick_us = budget_tick(&rule.terms);
    return rule;
}

static struct limit_charge charge_of(const struct limit_rule *rule, unsigned char principal, int64_t cost)
{
    struct limit_charge charge = {.rule = rule, .terms = &rule->terms, .cost = cost};

    memset(charge.principal, principal, sizeof(charge.principal));
    return charge;
}

static int64_t decide(struct limit_table *table, const struct limit_charge *charges, size_t charge_count,
                      int64_t count, int64_t now_us, struct limit_state *states)
{
    struct limit_work work[MOST_CHARGES];
    struct admit_tuple tuple = {charges, charge_count, count};

    return limit_table_decide(table, &tuple, 0, now_us, work, states);
}

static uint64_t dice = 20261130;

static int64_t roll(int64_t sides)
{
    dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((dice >> 33) % (uint64_t)sides);
}

Test(store_memory_algorithms, mixed_limits_charge_all_or_none)
{
    char names[ALGORITHMS][8] = {"window", "log", "bucket", "fixed"};

    for (int tight = 0; tight < ALGORITHMS; tight++) {
        struct limit_table *table = limit_table_new(1000);
        struct limit_rule rules[ALGORITHMS];
        struct limit_charge charges[ALGORITHMS];
        struct limit_state states[ALGORITHMS];
        for (int a = 0; a < ALGORITHMS; a++) {
            rules[a] = rule_of(names[a], a, a == tight ? 3 : 20, 60 * SECOND_US);
            charges[a] = charge_of(&rules[a], 1, 1);
        }
        cr_assert_eq(decide(table, charges, ALGORITHMS, 9, noon_us, states), 3);
        cr_assert_eq(decide(table, charges, ALGORITHMS, 9, noon_us + 1, states), 0);
        for (int a = 0; a < ALGORITHMS; a++)
            cr_assert_eq(states[a].available, a == tight ? 0 : 17, "algorithm %d, tight %d", a, tight);
        limit_table_free(table);
    }
}

static struct log_run *ring_of(const struct budget *budget)
{
    return budget->algorithm == LIMIT_SLIDING_LOG ? budget->of.log.ring : NULL;
}

/* One key through all algorithms and limits, beside a budget that is decided by hand. */
Test(store_memory_algorithms, a_key_is_decided_as_the_policy_decides_it_whatever_it_was_before)
{
    for (int life = 0; life < 60; life++) {
        struct limit_table *table = limit_table_new(1000);
        char name[] = "one";
        struct limit_rule rule = rule_of(name, (int)roll(ALGORITHMS), 1 + roll(40), 1000 + roll(3000000));
        struct budget budget = {0};
        int64_t now_us = noon_us,
                ends_us = 0; /* what has ended by the limit that it was kept under is gone */
        for (int step = 0; step < 400; step++) {
            struct limit_state state;
            struct limit_charge charge = charge_of(&rule, 1, 1 + roll(3));
            struct budget copy = budget;
            if (now_us >= ends_us)
                copy = (struct budget){.algorithm = rule.terms.algorithm};
            int64_t count = roll(4);
            bool must_keep = budget_advance(&copy, &rule.terms, now_us);
            budget_note_asked(&budget, &rule.terms);
            int64_t passing = budget_passing(&copy, &rule.terms, charge.cost, count);
            uint32_t room = passing > 0 ? budget_room_wanted(&copy) : 0;
            if (room > 0)
                sliding_log_move(&copy.of.log, calloc(room, sizeof(struct log_run)), room);
            if (passing > 0)
                budget_charge(&copy, passing * charge.cost);
            if (passing > 0 || must_keep) {
                if (ring_of(&budget) != ring_of(&copy))
                    free(ring_of(&budget));
                budget = copy;
                ends_us = now_us + budget_ttl_ms(&copy, &rule.terms, now_us) * 1000;
            }
            cr_assert_eq(decide(table, &charge, 1, count, now_us, &state), passing, "life %d, step %d", life,
                         step);
            cr_assert_eq(state.available, budget_available(&copy, &rule.terms), "life %d, step %d", life,
                         step);
            now_us += roll(3) == 0 ? 0 : roll(rule.terms.window_us / 8 + 2);
            if (roll(60) == 0)
                rule = rule_of(name, (int)roll(ALGORITHMS), 1 + roll(40), 1000 + roll(3000000));
        }
        free(ring_of(&budget));
        limit_table_free(table);
    }
}

Test(store_memory_algorithms, keys_with_logs_may_be_swept_forgotten_and_replaced)
{
    struct limit_table *table = limit_table_new(64);
    char names[2][4] = {"one", "two"};
    struct limit_rule rules[2] = {rule_of(names[0], LIMIT_SLIDING_LOG, 50, SECOND_US),
                                  rule_of(names[1], LIMIT_SLIDING_LOG, 80, 2 * SECOND_US)};
    int64_t now_us = noon_us;

    for (int step = 0; step < 60000; step++) {
        struct limit_state states[2];
        unsigned char principal = (unsigned char)roll(200);
        struct limit_charge charges[2] = {charge_of(&rules[0], principal, 1),
                                          charge_of(&rules[1], principal, 1)};
        int64_t passing = decide(table, charges, 2, 1 + roll(2), now_us, states);
        cr_assert(passing >= 0 && states[0].available >= 0 && states[0].available <= 50);
        now_us += roll(2000) == 0 ? 3 * SECOND_US : roll(400);
        if (roll(500) == 0)
            rules[roll(2)].terms.algorithm = (enum limit_algorithm)roll(2); /* window or log */
    }
    cr_assert_leq(limit_table_count(table), 64u + 16u);
    limit_table_free(table);
}
