/* Holds: each is counted from its taking to its end, its lease, and not a moment longer; and allowances count beside them. */
#include "allowance.h"
#include "holds.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define MINUTE_US INT64_C(60000000)
static const int64_t noon_us = INT64_C(1764504000000000);

static struct hold_token token(uint64_t serial)
{
    return (struct hold_token){7, serial};
}

static bool take(struct holds *holds, uint64_t serial, int64_t units, int64_t ends_us)
{
    uint32_t room = holds_room_wanted(holds, 1);

    if (room > 0)
        free(holds_move(holds, malloc(holds_memory_bytes(room)), room));
    return holds_take(holds, token(serial), units, ends_us);
}

Test(holds, a_hold_counts_until_its_end_exclusive)
{
    struct holds holds = {0};

    take(&holds, 1, 3, 100);
    take(&holds, 2, 4, 101);
    holds_drop_ended(&holds, 99);
    cr_assert_eq(holds.units, 7);
    holds_drop_ended(&holds, 100);
    cr_assert_eq(holds.units, 4, "at its end it does not count");
    cr_assert_not(holds_end(&holds, token(1)), "and is not held any more");
    holds_drop_ended(&holds, 101);
    cr_assert_eq(holds.units, 0);
    cr_assert_eq(holds.count, 0);
    free(holds.heap);
}

Test(holds, taking_twice_is_renewing_and_ending_twice_is_ending_once)
{
    struct holds holds = {0};

    cr_assert_not(take(&holds, 1, 3, 100));
    cr_assert(take(&holds, 1, 3, 50), "it was there; the new end counts, also a sooner one");
    cr_assert_eq(holds.units, 3);
    holds_drop_ended(&holds, 50);
    cr_assert_eq(holds.units, 0);
    cr_assert_not(take(&holds, 1, 3, 100), "one that has ended is taken anew");
    cr_assert(holds_end(&holds, token(1)));
    cr_assert_not(holds_end(&holds, token(1)));
    cr_assert_not(holds_end(&holds, token(2)), "what was never held");
    free(holds.heap);
}

Test(holds, the_tokens_of_others_are_others)
{
    struct holds holds = {0};

    take(&holds, 1, 3, 100);
    cr_assert_not(holds_end(&holds, (struct hold_token){8, 1}));
    cr_assert_eq(holds.units, 3);
    free(holds.heap);
}

Test(holds, what_could_not_be_counted_exactly_is_not_taken)
{
    struct holds holds = {0};

    take(&holds, 1, LIMIT_EXACT, 100);
    cr_assert_not(take(&holds, 2, 1, 100));
    cr_assert_eq(holds.count, 1);
    cr_assert(take(&holds, 1, LIMIT_EXACT, 200), "renewing adds nothing");
    free(holds.heap);
}

/* ---- beside a list ---- */

enum { LISTED = 200, STEPS = 200000 };

struct listed {
    uint64_t serial;
    int64_t units, ends_us;
};

static uint64_t roll(uint64_t *state, uint64_t sides)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*state >> 33) % sides;
}

static size_t find(const struct listed *list, size_t count, uint64_t serial)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].serial == serial)
            return i;
    return count;
}

Test(holds, they_are_what_a_list_of_them_would_be)
{
    static struct listed list[LISTED];
    struct holds holds = {0};
    size_t count = 0;
    uint64_t state = 20261130;
    int64_t now_us = 0;

    for (int step = 0; step < STEPS; step++) {
        uint64_t serial = roll(&state, LISTED);
        size_t at = find(list, count, serial), kept = 0;
        int64_t sum = 0;

        if (roll(&state, 3) > 0) {
            struct listed new = {serial, 1 + (int64_t)roll(&state, 9),
                                 now_us + 1 + (int64_t)roll(&state, 300)};
            if (at < count)
                new.units = list[at].units;
            cr_assert_eq(take(&holds, serial, new.units, new.ends_us), at < count, "step %d", step);
            list[at] = new;
            count += at == count;
        } else {
            cr_assert_eq(holds_end(&holds, token(serial)), at < count, "step %d", step);
            if (at < count)
                list[at] = list[--count];
        }
        now_us += (int64_t)roll(&state, 3);
        holds_drop_ended(&holds, now_us);
        for (size_t i = 0; i < count; i++)
            if (list[i].ends_us > now_us) {
                sum += list[i].units;
                list[kept++] = list[i];
            }
        count = kept;
        cr_assert_eq(holds.units, sum, "step %d", step);
        cr_assert_eq(holds.count, count, "step %d", step);
        cr_assert(count == 0 || holds.last_end_us > now_us, "it must be kept as long as any of them");
    }
    free(holds.heap);
}

/* ---- allowances ---- */

static const struct limit_terms slots = {
    .algorithm = LIMIT_CONCURRENCY, .limit = 10, .tick_us = 1, .lease_us = MINUTE_US};

Test(allowance, so_many_pass_as_there_is_room_for_beside_what_is_held)
{
    static const struct {
        int64_t held, cost, count, passing, available, retry_us;
    } rows[] = {
        {0, 1, 0, 0, 10, 0},
        {0, 1, 10, 10, 10, 0},
        {0, 1, 11, 10, 10, 0},
        {9, 1, 2, 1, 1, 0},
        {10, 1, 1, 0, 0, LIMIT_UNFORESEEN},
        {11, 1, 1, 0, 0, LIMIT_UNFORESEEN}, /* after `max` was lowered */
        {0, 10, 2, 1, 10, 0},
        {1, 10, 1, 0, 9, LIMIT_UNFORESEEN},
        {0, 11, 1, 0, 10, LIMIT_NEVER},
        {5, 3, 2, 1, 5, 0},
    };
    struct budget budget = {.algorithm = LIMIT_CONCURRENCY};

    budget_advance(&budget, &slots, noon_us);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        cr_expect_eq(allowance_passing(&budget, &slots, rows[i].held, rows[i].cost, rows[i].count),
                     rows[i].passing, "row %zu", i);
        cr_expect_eq(allowance_available(&budget, &slots, rows[i].held), rows[i].available, "row %zu", i);
        cr_expect_eq(allowance_retry_us(&budget, &slots, rows[i].held, rows[i].cost, noon_us),
                     rows[i].retry_us, "row %zu", i);
    }
}

static struct limit_terms reserving(enum limit_algorithm algorithm)
{
    struct limit_terms terms = {.algorithm = algorithm,
                                .limit = 10,
                                .window_us = MINUTE_US,
                                .burst = algorithm == LIMIT_TOKEN_BUCKET ? 10 : 0,
                                .lease_us = MINUTE_US};

    terms.tick_us = budget_tick(&terms);
    cr_assert_eq(terms.tick_us, 1);
    return terms;
}

static void charge(struct budget *budget, int64_t units)
{
    uint32_t room = budget_room_wanted(budget);

    if (room > 0) {
        free(budget->of.log.ring);
        sliding_log_move(&budget->of.log, calloc(room, sizeof(struct log_run)), room);
    }
    budget_charge(budget, units);
}

static void forget(struct budget *budget)
{
    if (budget->algorithm == LIMIT_SLIDING_LOG)
        free(budget->of.log.ring);
}

Test(allowance, what_is_held_and_what_is_charged_take_from_one_limit)
{
    for (int a = LIMIT_SLIDING_WINDOW; a <= LIMIT_FIXED_WINDOW; a++) {
        struct limit_terms terms = reserving((enum limit_algorithm)a);
        struct budget budget = {.algorithm = terms.algorithm};
        int64_t retry_us;

        budget_advance(&budget, &terms, noon_us);
        charge(&budget, 4);
        cr_expect_eq(allowance_available(&budget, &terms, 5), 1, "algorithm %d", a);
        cr_expect_eq(allowance_passing(&budget, &terms, 5, 1, 3), 1, "algorithm %d", a);
        cr_expect_eq(allowance_retry_us(&budget, &terms, 5, 1, noon_us), 0, "algorithm %d", a);
        cr_expect_eq(allowance_retry_us(&budget, &terms, 5, 2, noon_us), LIMIT_UNFORESEEN,
                     "algorithm %d: it passes as soon as a hold ends, whatever comes back when", a);
        cr_expect_eq(allowance_retry_us(&budget, &terms, 1, 6, noon_us), LIMIT_UNFORESEEN, "algorithm %d", a);
        retry_us = allowance_retry_us(&budget, &terms, 8, 7, noon_us);
        cr_expect(retry_us > 0 && retry_us == allowance_retry_us(&budget, &terms, 0, 7, noon_us),
                  "algorithm %d: beside 8 it never passes, without them not before that", a);
        retry_us = allowance_retry_us(&budget, &terms, 3, 7, noon_us);
        cr_assert_gt(retry_us, 0, "algorithm %d: it would not pass without holds either", a);
        budget_advance(&budget, &terms, noon_us + retry_us - 1);
        cr_expect_eq(allowance_passing(&budget, &terms, 3, 7, 1), 0, "algorithm %d: a microsecond too early",
                     a);
        budget_advance(&budget, &terms, noon_us + retry_us);
        cr_expect_eq(allowance_passing(&budget, &terms, 3, 7, 1), 1,
                     "algorithm %d: even if all is still held", a);
        cr_expect_eq(allowance_retry_us(&budget, &terms, 5, 6, noon_us + retry_us), LIMIT_UNFORESEEN,
                     "algorithm %d", a);
        forget(&budget);
    }
}

Test(allowance, what_is_owed_is_paid_back_before_anybody_passes)
{
    for (int a = LIMIT_SLIDING_WINDOW; a <= LIMIT_FIXED_WINDOW; a++) {
        struct limit_terms terms = reserving((enum limit_algorithm)a);
        struct budget budget = {.algorithm = terms.algorithm};
        int64_t owing, retry_us;

        budget_advance(&budget, &terms, noon_us);
        charge(&budget, 5);
        owing = budget_owing(&budget, &terms, 12);
        cr_expect_eq(owing, 12, "algorithm %d: 17 of 10 are used", a);
        charge(&budget, owing);
        cr_expect_eq(allowance_available(&budget, &terms, 0), 0, "algorithm %d", a);
        retry_us = allowance_retry_us(&budget, &terms, 0, 1, noon_us);
        budget_advance(&budget, &terms, noon_us + retry_us - 1);
        cr_expect_eq(allowance_passing(&budget, &terms, 0, 1, 1), 0, "algorithm %d", a);
        budget_advance(&budget, &terms, noon_us + retry_us);
        cr_expect_eq(allowance_passing(&budget, &terms, 0, 1, 1), 1, "algorithm %d", a);
        forget(&budget);
    }
}

Test(allowance, no_more_is_owed_than_can_be_counted)
{
    static const int64_t most[] = {
        [LIMIT_SLIDING_WINDOW] = (LIMIT_EXACT - 1) / MINUTE_US,
        [LIMIT_SLIDING_LOG] = SLIDING_LOG_MAX_LIMIT,
        [LIMIT_TOKEN_BUCKET] = 20, /* another burst */
        [LIMIT_FIXED_WINDOW] = LIMIT_EXACT,
    };

    for (int a = LIMIT_SLIDING_WINDOW; a <= LIMIT_FIXED_WINDOW; a++) {
        struct limit_terms terms = reserving((enum limit_algorithm)a);
        struct budget budget = {.algorithm = terms.algorithm};

        budget_advance(&budget, &terms, noon_us);
        for (int64_t left = most[a]; left > 0;) { /* twice: the second time there is no room */
            left = budget_owing(&budget, &terms, LIMIT_EXACT);
            cr_expect(left == most[a] || left == 0, "algorithm %d: %lld", a, (long long)left);
            if (left > 0)
                charge(&budget, left);
        }
        budget_advance(&budget, &terms, noon_us + 1);
        cr_expect_eq(allowance_available(&budget, &terms, 0), 0, "algorithm %d: it is still known", a);
        forget(&budget);
    }
}

Test(allowance, a_bucket_that_may_owe_is_exact_for_both_its_bursts)
{
    struct limit_terms terms = {.algorithm = LIMIT_TOKEN_BUCKET,
                                .limit = LIMIT_EXACT / 1001,
                                .window_us = 1000000,
                                .burst = LIMIT_EXACT / 1001};

    cr_assert_eq(budget_tick(&terms), 1000, "the largest that is exact");
    terms.lease_us = MINUTE_US;
    cr_assert_eq(budget_tick(&terms), 0, "as much again could be owed");
    terms.burst /= 2;
    cr_assert_neq(budget_tick(&terms), 0);
}
