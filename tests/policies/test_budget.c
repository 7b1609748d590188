/* Each algorithm held to what docs/limits.md says of it: the boundary tables, and of generated histories that no
 * interval holds more than it may, that a refusal charges nothing, that rest never costs, and that a promised wait is
 * enough and no longer than needed. */
#include "budget.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_US INT64_C(1000000)
#define DAY_US INT64_C(86400000000)
static const int64_t noon_us = INT64_C(1764504000000000); /* Sunday 2025-11-30 12:00:00 UTC */

static struct limit_terms terms_of(enum limit_algorithm algorithm, int64_t limit, int64_t window_us,
                                   int64_t burst)
{
    struct limit_terms terms = {
        .algorithm = algorithm, .limit = limit, .window_us = window_us, .burst = burst};

    terms.tick_us = budget_tick(&terms);
    cr_assert_neq(terms.tick_us, 0);
    return terms;
}

static void forget(struct budget *budget)
{
    if (budget->algorithm == LIMIT_SLIDING_LOG)
        free(budget->of.log.ring);
    memset(budget, 0, sizeof(*budget));
}

/* As a store does it: decides on a copy, which replaces the budget if something was charged or must be kept. */
static int64_t admit(struct budget *budget, const struct limit_terms *terms, int64_t cost, int64_t count,
                     int64_t now_us)
{
    struct budget copy = *budget;
    struct log_run *old_ring = NULL;
    bool must_keep = budget_advance(&copy, terms, now_us);
    int64_t passing = budget_passing(&copy, terms, cost, count);
    uint32_t room;

    if (passing > 0) {
        room = budget_room_wanted(&copy);
        if (room > 0) {
            old_ring = copy.of.log.ring;
            sliding_log_move(&copy.of.log, calloc(room, sizeof(struct log_run)), room);
        }
        budget_charge(&copy, passing * cost);
    }
    if (passing > 0 || must_keep) {
        if (budget->algorithm == LIMIT_SLIDING_LOG && copy.algorithm != LIMIT_SLIDING_LOG)
            old_ring = budget->of.log.ring;
        free(old_ring);
        *budget = copy;
    }
    return passing;
}

static int64_t available(const struct budget *budget, const struct limit_terms *terms, int64_t now_us)
{
    struct budget copy = *budget;

    budget_advance(&copy, terms, now_us);
    return budget_available(&copy, terms);
}

static int64_t retry_us(const struct budget *budget, const struct limit_terms *terms, int64_t cost,
                        int64_t now_us)
{
    struct budget copy = *budget;

    budget_advance(&copy, terms, now_us);
    return budget_retry_us(&copy, terms, cost, now_us);
}

static int64_t reset_us(const struct budget *budget, const struct limit_terms *terms, int64_t now_us)
{
    struct budget copy = *budget;

    budget_advance(&copy, terms, now_us);
    return budget_reset_us(&copy, terms, now_us);
}

static const enum limit_algorithm every[] = {LIMIT_SLIDING_WINDOW, LIMIT_SLIDING_LOG, LIMIT_TOKEN_BUCKET,
                                             LIMIT_FIXED_WINDOW};
enum { ALGORITHMS = sizeof(every) / sizeof(*every) };

/* ---- the boundary tables ---- */

Test(budget, of_many_at_once_exactly_the_capacity_passes)
{
    for (int a = 0; a < ALGORITHMS; a++)
        for (int64_t count = 0; count <= 11; count++) {
            struct limit_terms terms = terms_of(every[a], 10, SECOND_US, 10);
            struct budget together = {0}, one_by_one = {0};
            int64_t passed = 0;
            cr_assert_eq(admit(&together, &terms, 1, count, noon_us), count < 10 ? count : 10);
            for (int64_t i = 0; i < count; i++)
                passed += admit(&one_by_one, &terms, 1, 1, noon_us);
            cr_assert_eq(passed, count < 10 ? count : 10);
            cr_assert_eq(available(&together, &terms, noon_us), 10 - passed);
            forget(&together);
            forget(&one_by_one);
        }
}

Test(budget, a_quarter_of_a_second_at_four_a_second_is_one_token)
{
    struct limit_terms terms = terms_of(LIMIT_TOKEN_BUCKET, 4, SECOND_US, 4);
    struct budget budget = {0};

    cr_assert_eq(admit(&budget, &terms, 1, 9, noon_us), 4);
    cr_assert_eq(available(&budget, &terms, noon_us + 249999), 0);
    cr_assert_eq(available(&budget, &terms, noon_us + 250000), 1);
    cr_assert_eq(retry_us(&budget, &terms, 1, noon_us), 250000);
    cr_assert_eq(retry_us(&budget, &terms, 3, noon_us), 750000);
    cr_assert_eq(reset_us(&budget, &terms, noon_us + 1), 249999);
}

Test(budget, a_bucket_refills_without_drift_however_often_it_is_asked)
{
    struct limit_terms terms = terms_of(LIMIT_TOKEN_BUCKET, 7, SECOND_US, 3);
    struct budget budget = {0};
    int64_t passed = 0;

    for (int64_t us = 0; us < 100 * SECOND_US; us += 997) /* 7 a second is no whole number of microseconds */
        passed += admit(&budget, &terms, 1, 1, noon_us + us);
    cr_assert_eq(passed, 3 + 7 * 100 - 1,
                 "a hundred seconds at seven, and the burst; the last is not whole yet");
}

Test(budget, rest_fills_up_to_the_capacity_and_not_above)
{
    for (int a = 0; a < ALGORITHMS; a++) {
        struct limit_terms terms = terms_of(every[a], 10, SECOND_US, 12);
        struct budget budget = {0};
        int64_t capacity = limit_capacity(&terms);
        admit(&budget, &terms, 1, 100, noon_us);
        cr_assert_eq(available(&budget, &terms, noon_us + 3600 * SECOND_US), capacity);
        cr_assert_eq(admit(&budget, &terms, 1, 100, noon_us + 3600 * SECOND_US), capacity);
        forget(&budget);
    }
}

Test(budget, a_cost_of_three_needs_three)
{
    for (int a = 0; a < ALGORITHMS; a++)
        for (int64_t left = 2; left <= 3; left++) {
            struct limit_terms terms = terms_of(every[a], 10, SECOND_US, 10);
            struct budget budget = {0};
            admit(&budget, &terms, 10 - left, 1, noon_us);
            cr_assert_eq(admit(&budget, &terms, 3, 1, noon_us), left == 3);
            cr_assert_eq(available(&budget, &terms, noon_us), left == 3 ? 0 : 2);
            forget(&budget);
        }
}

Test(budget, of_two_that_cost_three_one_passes_at_five)
{
    for (int a = 0; a < ALGORITHMS; a++) {
        struct limit_terms terms = terms_of(every[a], 5, SECOND_US, 5);
        struct budget budget = {0};
        cr_assert_eq(admit(&budget, &terms, 3, 2, noon_us), 1);
        cr_assert_eq(available(&budget, &terms, noon_us), 2);
        forget(&budget);
    }
}

Test(budget, a_cost_above_the_capacity_never_passes)
{
    for (int a = 0; a < ALGORITHMS; a++) {
        struct limit_terms terms = terms_of(every[a], 10, SECOND_US, 10);
        struct budget budget = {0};
        cr_assert_eq(admit(&budget, &terms, 11, 1, noon_us), 0);
        cr_assert_eq(retry_us(&budget, &terms, 11, noon_us), LIMIT_NEVER);
        cr_assert_eq(retry_us(&budget, &terms, 10, noon_us), 0);
        forget(&budget);
    }
}

Test(budget, a_clock_set_back_neither_admits_twice_nor_closes_for_long)
{
    static const int64_t steps_us[] = {
        0, 1, SECOND_US / 2, SECOND_US, SECOND_US + 1, 3600 * SECOND_US, 400 * DAY_US};

    for (int a = 0; a < ALGORITHMS; a++)
        for (size_t i = 0; i < sizeof(steps_us) / sizeof(*steps_us); i++) {
            struct limit_terms terms = terms_of(every[a], 10, SECOND_US, 10);
            struct budget budget = {0};
            int64_t now_us = noon_us - steps_us[i];
            cr_assert_eq(admit(&budget, &terms, 1, 12, noon_us), 10);
            cr_assert_eq(admit(&budget, &terms, 1, 12, now_us), 0, "algorithm %d, step %zu", a, i);
            int64_t wait_us = retry_us(&budget, &terms, 1, now_us);
            cr_assert_leq(wait_us, 3 * SECOND_US);
            cr_assert_eq(admit(&budget, &terms, 1, 1, now_us + wait_us - 1), 0);
            cr_assert_eq(admit(&budget, &terms, 1, 1, now_us + wait_us), 1);
            forget(&budget);
        }
}

Test(budget, a_log_counts_to_the_microsecond)
{
    struct limit_terms terms = terms_of(LIMIT_SLIDING_LOG, 3, SECOND_US, 0);
    struct budget budget = {0};

    cr_assert_eq(admit(&budget, &terms, 1, 1, noon_us), 1);
    cr_assert_eq(admit(&budget, &terms, 1, 1, noon_us + 10), 1);
    cr_assert_eq(admit(&budget, &terms, 1, 2, noon_us + 20), 1);
    cr_assert_eq(admit(&budget, &terms, 1, 1, noon_us + SECOND_US - 1), 0);
    cr_assert_eq(admit(&budget, &terms, 1, 2, noon_us + SECOND_US), 1, "the first one ended, and only that");
    cr_assert_eq(retry_us(&budget, &terms, 1, noon_us + SECOND_US), 10);
    cr_assert_eq(retry_us(&budget, &terms, 2, noon_us + SECOND_US), 20);
    cr_assert_eq(retry_us(&budget, &terms, 3, noon_us + SECOND_US), SECOND_US);
    cr_assert_eq(reset_us(&budget, &terms, noon_us + SECOND_US), 10);
    forget(&budget);
}

Test(budget, a_quota_begins_anew_where_the_calendar_does)
{
    static const struct {
        const char *why;
        enum calendar calendar;
        int64_t window_us, at_s, begin_s, end_s;
    } rows[] = {
        {"a second", CALENDAR_MULTIPLES, SECOND_US, 1764504000, 1764504000, 1764504001},
        {"a minute", CALENDAR_MULTIPLES, 60 * SECOND_US, 1764504059, 1764504000, 1764504060},
        {"an hour", CALENDAR_MULTIPLES, 3600 * SECOND_US, 1764507599, 1764504000, 1764507600},
        {"a day", CALENDAR_MULTIPLES, DAY_US, 1764504000, 1764460800, 1764547200},
        {"Sunday belongs to the week before", CALENDAR_WEEK, 7 * DAY_US, 1764547199, 1763942400, 1764547200},
        {"Monday begins one", CALENDAR_WEEK, 7 * DAY_US, 1764547200, 1764547200, 1765152000},
        {"the first week has no Monday", CALENDAR_WEEK, 7 * DAY_US, 0, -259200, 345600},
        {"November", CALENDAR_MONTH, 31 * DAY_US, 1764547199, 1761955200, 1764547200},
        {"December", CALENDAR_MONTH, 31 * DAY_US, 1764547200, 1764547200, 1767225600},
        {"the end of a year", CALENDAR_MONTH, 31 * DAY_US, 1767225599, 1764547200, 1767225600},
        {"the beginning of one", CALENDAR_MONTH, 31 * DAY_US, 1767225600, 1767225600, 1769904000},
        {"February of a leap year", CALENDAR_MONTH, 31 * DAY_US, 1709164800, 1706745600, 1709251200},
        {"February of 2000, a leap year too", CALENDAR_MONTH, 31 * DAY_US, 951782400, 949363200, 951868800},
        {"February of 2100, which is none", CALENDAR_MONTH, 31 * DAY_US, 4107456000, 4105123200, 4107542400},
        {"the first month of all", CALENDAR_MONTH, 31 * DAY_US, 0, 0, 2678400},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct calendar_span span =
            calendar_span_at(rows[i].calendar, rows[i].window_us, rows[i].at_s * SECOND_US);
        cr_expect_eq(span.begin_us, rows[i].begin_s * SECOND_US, "%s", rows[i].why);
        cr_expect_eq(span.end_us, rows[i].end_s * SECOND_US, "%s", rows[i].why);
    }
}

Test(budget, a_quota_is_whole_again_at_the_border_and_not_a_microsecond_before)
{
    struct limit_terms terms = {
        .algorithm = LIMIT_FIXED_WINDOW, .limit = 10, .window_us = 31 * DAY_US, .calendar = CALENDAR_MONTH};
    struct budget budget = {0};
    int64_t december_us = INT64_C(1764547200000000);

    cr_assert_eq(admit(&budget, &terms, 1, 11, december_us - 1), 10);
    cr_assert_eq(retry_us(&budget, &terms, 10, december_us - 1), 1);
    cr_assert_eq(admit(&budget, &terms, 1, 11, december_us), 10,
                 "twice the limit in a microsecond: documented");
    cr_assert_eq(retry_us(&budget, &terms, 1, december_us), 31 * DAY_US);
    cr_assert_eq(budget_ttl_ms(&budget, &terms, december_us), 31 * 86400000LL + 1000);
}

Test(budget, the_largest_legal_limit_is_decided_to_the_unit)
{
    struct limit_terms rows[] = {
        {.algorithm = LIMIT_SLIDING_LOG, .limit = SLIDING_LOG_MAX_LIMIT, .window_us = LIMIT_MAX_US},
        {.algorithm = LIMIT_FIXED_WINDOW, .limit = LIMIT_EXACT, .window_us = DAY_US},
        {.algorithm = LIMIT_FIXED_WINDOW,
         .limit = LIMIT_EXACT,
         .window_us = DAY_US,
         .calendar = CALENDAR_MONTH},
        {.algorithm = LIMIT_TOKEN_BUCKET,
         .limit = LIMIT_EXACT / 1001,
         .burst = LIMIT_EXACT / 1001,
         .window_us = 1000},
        {.algorithm = LIMIT_TOKEN_BUCKET,
         .limit = LIMIT_EXACT / 2,
         .burst = LIMIT_EXACT / 2,
         .window_us = 1000},
        {.algorithm = LIMIT_TOKEN_BUCKET, .limit = 7, .burst = 7, .window_us = LIMIT_MAX_US},
        {.algorithm = LIMIT_TOKEN_BUCKET, .limit = 1, .burst = LIMIT_MAX_US / DAY_US, .window_us = DAY_US},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct limit_terms *terms = &rows[i];
        struct budget budget = {0};
        int64_t capacity = limit_capacity(terms);
        terms->tick_us = budget_tick(terms);
        cr_assert_neq(terms->tick_us, 0, "row %zu", i);
        cr_assert_eq(admit(&budget, terms, capacity - 1, 1, noon_us), 1, "row %zu", i);
        cr_assert_eq(admit(&budget, terms, 1, 2, noon_us), 1, "row %zu: the last unit, and not one more", i);
        int64_t wait_us = retry_us(&budget, terms, capacity, noon_us);
        cr_assert_gt(wait_us, 0, "row %zu", i);
        cr_assert_eq(admit(&budget, terms, capacity, 1, noon_us + wait_us - 1), 0, "row %zu", i);
        cr_assert_eq(admit(&budget, terms, capacity, 1, noon_us + wait_us), 1, "row %zu", i);
        forget(&budget);
    }
}

Test(budget, what_cannot_be_exact_is_not_allowed)
{
    struct limit_terms rows[] = {
        {.algorithm = LIMIT_SLIDING_LOG, .limit = SLIDING_LOG_MAX_LIMIT + 1, .window_us = 1},
        {.algorithm = LIMIT_SLIDING_LOG, .limit = 1, .window_us = LIMIT_MAX_US + 1},
        {.algorithm = LIMIT_FIXED_WINDOW, .limit = LIMIT_EXACT + 1, .window_us = DAY_US},
        {.algorithm = LIMIT_FIXED_WINDOW, .limit = 1, .window_us = 0},
        {.algorithm = LIMIT_TOKEN_BUCKET, .limit = 1, .burst = LIMIT_EXACT / 2 + 1, .window_us = 1000},
        {.algorithm = LIMIT_TOKEN_BUCKET, .limit = LIMIT_EXACT / 2 + 1, .burst = 1, .window_us = 1000},
        {.algorithm = LIMIT_TOKEN_BUCKET,
         .limit = 1,
         .burst = LIMIT_MAX_US / DAY_US + 1,
         .window_us = DAY_US},
        {.algorithm = LIMIT_TOKEN_BUCKET, .limit = 1, .burst = 0, .window_us = DAY_US},
        {.algorithm = LIMIT_SLIDING_WINDOW, .limit = 0, .window_us = DAY_US},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        cr_expect_eq(budget_tick(&rows[i]), 0, "row %zu", i);
}

/* The formula of the documentation is no overestimate: who comes at the worst moments gets all of it, and no more. */
Test(budget, the_worst_that_a_sliding_window_admits_is_what_the_documentation_says)
{
    static const int64_t limits[] = {1, 2, 5, 20, 100, 1000};

    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
        int64_t limit = limits[i], within = 0, last_us = noon_us + 2 * SECOND_US - 2;
        struct limit_terms terms = terms_of(LIMIT_SLIDING_WINDOW, limit, SECOND_US, 0);
        struct budget budget = {0};
        within += admit(&budget, &terms, 1, limit + 1,
                        noon_us + SECOND_US - 1); /* a burst at the end of a window */
        for (int64_t us = noon_us + SECOND_US - 1;
             ;) { /* then each as soon as it passes, for less than a window */
            us += retry_us(&budget, &terms, 1, us);
            if (us > last_us)
                break;
            within += admit(&budget, &terms, 1, 1, us);
        }
        cr_log_info("sliding_window of %lld: %lld within a window, where an exact log admits %lld\n",
                    (long long)limit, (long long)within, (long long)limit);
        cr_assert_eq(within, 2 * limit - 1, "less than twice, by one");
    }
}

/* ---- a reload ---- */

Test(budget, a_changed_limit_keeps_what_was_consumed_and_counts_at_once)
{
    for (int a = 0; a < ALGORITHMS; a++) {
        struct limit_terms ten = terms_of(every[a], 10, 60 * SECOND_US, 10);
        struct limit_terms twenty = terms_of(every[a], 20, 60 * SECOND_US, 20);
        struct limit_terms five = terms_of(every[a], 5, 60 * SECOND_US, 5);
        struct budget budget = {0};
        cr_assert_eq(admit(&budget, &ten, 1, 8, noon_us), 8);
        cr_assert_eq(available(&budget, &twenty, noon_us), 12);
        cr_assert_eq(available(&budget, &five, noon_us), 0);
        cr_assert_eq(available(&budget, &ten, noon_us), 2);
        cr_assert_eq(admit(&budget, &twenty, 1, 100, noon_us), 12);
        cr_assert_eq(admit(&budget, &five, 1, 1, noon_us), 0);
        forget(&budget);
    }
}

Test(budget, a_changed_algorithm_keeps_what_was_consumed)
{
    for (int was = 0; was < ALGORITHMS; was++)
        for (int is = 0; is < ALGORITHMS; is++) {
            struct limit_terms before = terms_of(every[was], 10, 60 * SECOND_US, 10);
            struct limit_terms after = terms_of(every[is], 30, 60 * SECOND_US, 30);
            struct limit_terms small = terms_of(every[is], 4, 60 * SECOND_US, 4);
            struct budget budget = {0};
            admit(&budget, &before, 3, 1, noon_us);
            admit(&budget, &before, 4, 1, noon_us + 1);
            cr_assert_eq(available(&budget, &after, noon_us + 1), 23, "from %d to %d", was, is);
            cr_assert_eq(available(&budget, &small, noon_us + 1), 0, "from %d to %d", was, is);
            cr_assert_leq(retry_us(&budget, &small, 4, noon_us + 1), 120 * SECOND_US, "from %d to %d", was,
                          is);
            cr_assert_eq(admit(&budget, &after, 1, 100, noon_us + 2), 23, "from %d to %d", was, is);
            cr_assert_eq(budget.algorithm, every[is]);
            forget(&budget);
        }
}

/* ---- what no limit of ours could have left ---- */

static uint64_t dice = 20261130;

static int64_t roll(int64_t sides)
{
    dice += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    uint64_t z = dice;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return (int64_t)(z % (uint64_t)sides);
}

Test(budget, nonsense_is_survived_and_bounded)
{
    for (int i = 0; i < 20000; i++) {
        struct limit_terms terms = terms_of(every[i % ALGORITHMS], 10, SECOND_US, 10);
        struct budget budget;
        int64_t *words = (int64_t *)(void *)&budget.of;
        memset(&budget, 0, sizeof(budget));
        budget.algorithm = (enum limit_algorithm)roll(6);
        for (size_t at = 0; at < 3; at++)
            words[at] = roll(4) == 0 ? -1 - roll(1000) : roll(INT64_MAX);
        if (budget.algorithm == LIMIT_SLIDING_LOG)
            budget.of.log.count = (uint32_t)roll(100) + 1; /* without a ring */
        budget_advance(&budget, &terms, noon_us);
        int64_t left = budget_available(&budget, &terms),
                wait_us = budget_retry_us(&budget, &terms, 10, noon_us);
        cr_assert(left >= 0 && left <= 10);
        cr_assert(wait_us >= 0 && wait_us <= 4 * SECOND_US);
        cr_assert_gt(budget_ttl_ms(&budget, &terms, noon_us), 0);
    }
}

/* ---- generated histories ---- */

enum { ARRIVALS = 400 };
struct arrival {
    int64_t at_us, units; /* what was admitted of it */
};

static unsigned long long seed; /* of the history */

/* No interval may hold more than the definition allows: all that begin and end at an admission are tried. */
static void check_intervals(const struct limit_terms *terms, const struct arrival *list, int count)
{
    __extension__ typedef __int128 wide;

    for (int from = 0; from < count; from++) {
        int64_t units = 0;
        for (int to = from; to < count; to++) {
            int64_t length_us = list[to].at_us - list[from].at_us;
            wide window = terms->window_us;
            units += list[to].units;
            switch (terms->algorithm) {
            case LIMIT_SLIDING_LOG:
                if (length_us < terms->window_us)
                    cr_assert_leq(units, terms->limit, "seed %llu: an interval of a window holds too much",
                                  seed);
                break;
            case LIMIT_TOKEN_BUCKET:
                cr_assert((wide)(units - terms->burst) * window <=
                              (wide)terms->limit * (length_us + terms->tick_us),
                          "seed %llu: more than the burst and what dripped in", seed);
                break;
            case LIMIT_CONCURRENCY: break; /* nothing is charged to it */
            case LIMIT_FIXED_WINDOW:
                if (list[from].at_us / terms->window_us == list[to].at_us / terms->window_us)
                    cr_assert_leq(units, terms->limit, "seed %llu: a window of the calendar holds too much",
                                  seed);
                break;
            case LIMIT_SLIDING_WINDOW:
                if (length_us <= terms->window_us) {
                    cr_assert_lt(units, 2 * terms->limit, "seed %llu: twice the limit", seed);
                    cr_assert((wide)units * window <=
                                  (wide)terms->limit * (window + length_us + terms->tick_us),
                              "seed %llu: more than L (1 + D/W)", seed);
                }
                break;
            }
        }
    }
}

static void check_wait(const struct budget *budget, const struct limit_terms *terms, int64_t cost,
                       int64_t now_us)
{
    int64_t wait_us = retry_us(budget, terms, cost, now_us);
    int64_t before = available(budget, terms, now_us);

    cr_assert_eq(wait_us == 0, before >= cost, "seed %llu: a wait is for those who are refused", seed);
    if (wait_us == 0)
        return;
    cr_assert_lt(available(budget, terms, now_us + wait_us - 1), cost, "seed %llu: waiting less would do",
                 seed);
    cr_assert_geq(available(budget, terms, now_us + wait_us), cost,
                  "seed %llu: waiting as told is not enough", seed);
}

static void live(enum limit_algorithm algorithm)
{
    static struct arrival admitted[ARRIVALS];
    int64_t limit = 1 + roll(roll(2) == 0 ? 5 : 60);
    struct limit_terms terms = terms_of(
        algorithm, limit, roll(2) == 0 ? 1000 * (1 + roll(3000)) : 1 + roll(5000000), 1 + roll(2 * limit));
    struct budget budget = {0};
    int64_t now_us = noon_us + roll(DAY_US), capacity = limit_capacity(&terms);
    int count = 0;

    for (int i = 0; i < ARRIVALS; i++) {
        int64_t cost = 1 + roll(roll(3) == 0 ? capacity : 1), requests = 1 + roll(4);
        int64_t before = available(&budget, &terms, now_us);
        int64_t passed = admit(&budget, &terms, cost, requests, now_us);
        int64_t after = available(&budget, &terms, now_us);
        cr_assert(after >= 0 && after <= capacity, "seed %llu: %lld left of %lld", seed, (long long)after,
                  (long long)capacity);
        cr_assert_eq(after, before - passed * cost, "seed %llu: who is refused is charged nothing", seed);
        if (passed > 0)
            admitted[count++] = (struct arrival){now_us, passed * cost};
        check_wait(&budget, &terms, cost, now_us);
        if (roll(3) == 0) {
            int64_t wait_us = retry_us(&budget, &terms, cost, now_us);
            now_us += wait_us > 0 ? wait_us : 1;
        } else {
            now_us += roll(2) == 0 ? 0 : roll(terms.window_us / (1 + roll(20)) + 2);
        }
        if (roll(2) == 0)
            cr_assert_geq(available(&budget, &terms, now_us), after, "seed %llu: rest never costs", seed);
    }
    check_intervals(&terms, admitted, count);
    forget(&budget);
}

/* WEIR_SEED is the first seed, WEIR_STEPS how many arrivals each algorithm gets. A failure names its seed: one history, of a few
 * hundred arrivals at most. */
Test(budget, no_interval_holds_more_than_the_definition_allows)
{
    const char *wanted = getenv("WEIR_SEED"), *steps = getenv("WEIR_STEPS");
    uint64_t first = wanted == NULL ? 1 : strtoull(wanted, NULL, 10);
    uint64_t histories = steps == NULL ? 400 : strtoull(steps, NULL, 10) / ARRIVALS + 1;

    for (seed = first; seed < first + histories; seed++) {
        dice = seed;
        for (int a = 0; a < ALGORITHMS; a++)
            live(every[a]);
    }
}
