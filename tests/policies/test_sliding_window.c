/* The sliding window's decisions in numbers that can be checked by hand. What generated histories can show,
 * tests/lua shows. */
#include "sliding_window.h"

#include <criterion/criterion.h>

enum { SECOND = 1000000 };

static const struct sliding_rule ten_a_minute = {.limit = 10, .window_us = 60 * SECOND, .tick_us = 1};
/* 2025-11-30 12:00 UTC: a window of a minute begins here */
static const int64_t noon_us = INT64_C(1764504000000000);

static struct sliding_window state_of(int64_t stamp_us, int64_t current, int64_t previous)
{
    return (struct sliding_window){ten_a_minute.window_us, stamp_us, current, previous};
}

Test(sliding_window, a_key_never_seen_has_all_of_its_limit)
{
    struct sliding_window state = {0};

    cr_assert_not(sliding_window_advance(&state, &ten_a_minute, noon_us));
    cr_assert_eq(sliding_window_available(&state, &ten_a_minute), 10);
    cr_assert_eq(sliding_window_passing(&state, &ten_a_minute, 1, 100), 10);
    cr_assert_eq(sliding_window_passing(&state, &ten_a_minute, 3, 100), 3);
    cr_assert_eq(sliding_window_passing(&state, &ten_a_minute, 3, 2), 2);
    cr_assert_eq(sliding_window_passing(&state, &ten_a_minute, 11, 1), 0);
    cr_assert_eq(sliding_window_retry_us(&state, &ten_a_minute, 10, noon_us), 0);
    cr_assert_eq(sliding_window_retry_us(&state, &ten_a_minute, 11, noon_us), SLIDING_WINDOW_NEVER);
    cr_assert_eq(sliding_window_reset_us(&state, &ten_a_minute, noon_us), 60 * SECOND);
}

Test(sliding_window, the_previous_window_loses_its_weight_evenly)
{
    static const struct {
        const char *why;
        int64_t elapsed_s, available, retry_s;
    } rows[] = {
        {"all ten weigh on the new window's first moment", 0, 0, 6},
        {"just before the first unit has faded", 5, 0, 1},
        {"a tenth of the window frees a unit", 6, 1, 0},
        {"half of it frees five", 30, 5, 0},
        {"a moment before its end one still weighs", 59, 9, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        int64_t now_us = noon_us + (60 + rows[i].elapsed_s) * SECOND;
        struct sliding_window state = state_of(noon_us + 30 * SECOND, 10, 0);
        sliding_window_advance(&state, &ten_a_minute, now_us);
        cr_assert_eq(sliding_window_available(&state, &ten_a_minute), rows[i].available, "%s", rows[i].why);
        cr_assert_eq(sliding_window_retry_us(&state, &ten_a_minute, 1, now_us), rows[i].retry_s * SECOND,
                     "%s", rows[i].why);
    }
}

Test(sliding_window, a_border_lets_nobody_have_the_limit_twice)
{
    struct sliding_window state = {0};

    sliding_window_advance(&state, &ten_a_minute, noon_us + 60 * SECOND - 1);
    sliding_window_charge(&state, 10);
    cr_assert_eq(sliding_window_passing(&state, &ten_a_minute, 1, 1), 0);
    sliding_window_advance(&state, &ten_a_minute, noon_us + 60 * SECOND);
    cr_assert_eq(sliding_window_passing(&state, &ten_a_minute, 1, 1), 0);
}

Test(sliding_window, a_wait_that_reaches_into_the_next_window_is_told_exactly)
{
    struct sliding_window state = state_of(noon_us, 10, 0);
    int64_t now_us = noon_us + 10 * SECOND;

    sliding_window_advance(&state, &ten_a_minute, now_us);
    cr_assert_eq(sliding_window_retry_us(&state, &ten_a_minute, 1, now_us), 56 * SECOND,
                 "at 6 s of the next minute");
    cr_assert_eq(sliding_window_retry_us(&state, &ten_a_minute, 10, now_us), 110 * SECOND,
                 "at the end of the next minute");
}

Test(sliding_window, a_stamp_ahead_stops_the_keys_clock)
{
    struct sliding_window state = state_of(noon_us + 30 * SECOND, 9, 0);

    cr_assert_not(sliding_window_advance(&state, &ten_a_minute, noon_us - 10 * SECOND));
    cr_assert_eq(state.stamp_us, noon_us + 30 * SECOND);
    cr_assert_eq(sliding_window_available(&state, &ten_a_minute), 1);
    cr_assert_eq(sliding_window_reset_us(&state, &ten_a_minute, noon_us - 10 * SECOND), 70 * SECOND);
}

Test(sliding_window, a_stamp_more_than_a_window_ahead_is_taken_into_the_present)
{
    struct sliding_window state = state_of(noon_us + 3600 * (int64_t)SECOND, 4, 9);

    cr_assert(sliding_window_advance(&state, &ten_a_minute, noon_us), "even a refusal must keep it");
    cr_assert_eq(state.stamp_us, noon_us);
    cr_assert_eq(state.current, 10, "all it remembers, at most the limit");
    cr_assert_eq(state.previous, 0);
    cr_assert_not(sliding_window_advance(&state, &ten_a_minute, noon_us), "once is enough");
}

Test(sliding_window, another_window_length_keeps_what_was_used)
{
    static const struct sliding_rule five_a_second = {5, SECOND, 1},
                                     thousand_an_hour = {1000, 3600 * (int64_t)SECOND, 1};
    struct sliding_window state = state_of(noon_us, 4, 3);

    sliding_window_advance(&state, &thousand_an_hour, noon_us + 1);
    cr_assert_eq(state.current, 7);
    state = state_of(noon_us, 4, 3);
    sliding_window_advance(&state, &five_a_second, noon_us + 1);
    cr_assert_eq(sliding_window_available(&state, &five_a_second), 0);
    sliding_window_advance(&state, &five_a_second, noon_us + 2 * SECOND);
    cr_assert_eq(sliding_window_available(&state, &five_a_second), 5, "and ages as any other");
}

Test(sliding_window, a_changed_limit_counts_at_once)
{
    static const struct sliding_rule lowered = {5, 60 * SECOND, 1}, raised = {20, 60 * SECOND, 1};
    struct sliding_window state = state_of(noon_us, 10, 0);

    sliding_window_advance(&state, &lowered, noon_us);
    cr_assert_eq(sliding_window_available(&state, &lowered), 0);
    cr_assert_eq(sliding_window_retry_us(&state, &lowered, 1, noon_us), 96 * SECOND, "ten must fade to four");
    cr_assert_eq(sliding_window_available(&state, &raised), 10);
}

Test(sliding_window, nonsense_is_read_as_empty)
{
    static const struct {
        const char *why;
        struct sliding_window state;
    } rows[] = {
        {"negative window", {-1, 5, 1, 1}},
        {"no window", {0, 5, 9, 9}},
        {"a window beyond all bounds", {INT64_MAX, 5, 1, 1}},
        {"negative stamp", {60 * SECOND, -5, 1, 1}},
        {"a stamp beyond all time", {60 * SECOND, INT64_MAX, 1, 1}},
        {"negative current", {60 * SECOND, 5, INT64_MIN, 1}},
        {"negative previous", {60 * SECOND, 5, 1, -1}},
        {"a count no limit allows", {60 * SECOND, 5, INT64_MAX, 1}},
        {"a previous count no limit allows", {60 * SECOND, 5, 1, SLIDING_WINDOW_EXACT}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct sliding_window state = rows[i].state;
        cr_assert_not(sliding_window_advance(&state, &ten_a_minute, noon_us), "%s", rows[i].why);
        cr_assert_eq(sliding_window_available(&state, &ten_a_minute), 10, "%s", rows[i].why);
        cr_assert_eq(state.stamp_us, noon_us);
    }
}

Test(sliding_window, the_finest_exact_tick_is_chosen_or_none)
{
    static const struct {
        const char *why;
        int64_t limit, window_us, tick_us;
    } rows[] = {
        {"20/s", 20, SECOND, 1},
        {"1000000/d in microseconds would pass 2^53", 1000000, 86400 * (int64_t)SECOND, 1000},
        {"104249/d is the last that fits in microseconds", 104249, 86400 * (int64_t)SECOND, 1},
        {"one more does not", 104250, 86400 * (int64_t)SECOND, 1000},
        {"largest of a day in milliseconds", 104249990, 86400 * (int64_t)SECOND, 1000},
        {"too many for any tick", 104249991, 86400 * (int64_t)SECOND, 0},
        {"a window of one microsecond", SLIDING_WINDOW_EXACT / 2, 1, 1},
        {"which has no milliseconds", SLIDING_WINDOW_EXACT / 2 + 1, 1, 0},
        {"a window that is no whole number of milliseconds", SLIDING_WINDOW_EXACT / 1000, 1500, 0},
        {"no limit", 0, SECOND, 0},
        {"negative", -1, SECOND, 0},
        {"no window", 5, 0, 0},
        {"longest window", 7, SLIDING_WINDOW_MAX_US, 1},
        {"beyond it", 1, SLIDING_WINDOW_MAX_US + 1, 0},
        {"absurd", INT64_MAX, INT64_MAX, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        cr_assert_eq(sliding_window_tick(rows[i].limit, rows[i].window_us), rows[i].tick_us, "%s: %lld",
                     rows[i].why, (long long)sliding_window_tick(rows[i].limit, rows[i].window_us));
}

Test(sliding_window, a_tick_of_a_millisecond_waits_for_its_turn)
{
    static const struct sliding_rule million_a_day = {1000000, 86400 * (int64_t)SECOND, 1000};
    int64_t day_us = noon_us - noon_us % million_a_day.window_us;
    struct sliding_window state = {million_a_day.window_us, day_us - 1, 1000000, 0};

    sliding_window_advance(&state, &million_a_day, day_us + 86399);
    cr_assert_eq(sliding_window_available(&state, &million_a_day), 0,
                 "a unit comes back after 86.4 ms, in whole ms: 87");
    cr_assert_eq(sliding_window_retry_us(&state, &million_a_day, 1, day_us + 86399), 87000 - 86399);
}

Test(sliding_window, a_store_may_forget_it_only_when_nothing_of_it_counts)
{
    struct sliding_window state = state_of(noon_us, 10, 10);

    sliding_window_advance(&state, &ten_a_minute, noon_us + 7);
    cr_assert_eq(sliding_window_ttl_ms(&state, noon_us + 7), 121000);
    state = state_of(noon_us + 30 * SECOND, 10, 10);
    sliding_window_advance(&state, &ten_a_minute, noon_us);
    cr_assert_eq(sliding_window_ttl_ms(&state, noon_us), 151000, "counted from the stamp, not from now");
}

/* Against an exact log of admissions: an interval of any length D up to a window sees at most limit * (1 + D
 * / window), and less than twice the limit. The worst comes from a burst at the end of a window, after which
 * the limit returns evenly. */
Test(sliding_window, no_interval_sees_more_than_the_stated_surplus)
{
    enum { LIMIT = 10, WINDOW = 100, MOMENTS = 4000 };
    static const struct sliding_rule rule = {.limit = LIMIT, .window_us = WINDOW, .tick_us = 1};
    static int64_t admitted[MOMENTS];
    unsigned seed = 3;

    for (int history = 0; history < 20; history++) {
        struct sliding_window state = {0};
        int64_t worst = 0;
        for (int at = 0; at < MOMENTS; at++) {
            seed = seed * 1103515245 + 12345;
            /* history 0 is the worst case: silence, a burst in the last moment of a window, then whatever
             * passes */
            bool comes =
                history == 0 ? at % (3 * WINDOW) >= WINDOW - 1 : (seed >> 16) % (unsigned)(2 + history) == 0;
            sliding_window_advance(&state, &rule, noon_us - noon_us % WINDOW + at);
            admitted[at] = comes ? sliding_window_passing(&state, &rule, 1, 5 * LIMIT) : 0;
            sliding_window_charge(&state, admitted[at]);
        }
        for (int from = 0; from < MOMENTS; from++) {
            int64_t seen = 0;
            for (int length = 0; length < WINDOW && from + length < MOMENTS; length++) {
                seen += admitted[from + length];
                cr_assert_leq(seen * WINDOW, LIMIT * (WINDOW + length));
            }
            worst = seen > worst ? seen : worst;
        }
        if (history == 0)
            cr_assert_eq(worst, 2 * LIMIT - 1,
                         "the bound is reached, and it is the one that docs/limits.md states");
    }
}
