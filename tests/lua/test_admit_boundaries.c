/* The boundary tables of limits: at each edge of each algorithm the policy, the script and the model say what is written here.
 *
 * One table, three judges, so that no edge is known to one of them alone. Moments are microseconds from noon, at which a
 * second, a minute and a day's half begin. */
#include "script_rig.h"

#include <criterion/criterion.h>

#define SECOND_US INT64_C(1000000)
#define DAY_US INT64_C(86400000000)
#define ANY INT64_MIN

enum { MOST_MOMENTS = 8 };
static const int64_t noon_us = INT64_C(1764504000000000); /* Sunday 2025-11-30 12:00:00 UTC */

struct moment {
    int64_t at_us;
    int64_t cost, count; /* asked for */
    int64_t passing, available, retry_us;
    int64_t limit; /* 0: as before; else from now on, as by a reload */
};

struct story {
    const char *why;
    struct limit_terms terms;
    size_t count;
    struct moment moments[MOST_MOMENTS];
};

static struct policy_world policy;
static struct naive_world naive;

TestSuite(admit_boundaries, .init = start, .fini = stop);

static void forget_all(void)
{
    freeReplyObject(redis_says(redis, "FLUSHALL"));
    policy_forget(&policy);
    naive_forget(&naive);
}

/* A limit of so many: of a bucket the burst too. */
static struct limit_terms terms_of(enum limit_algorithm algorithm, int64_t limit, int64_t window_us)
{
    struct limit_terms terms = {
        .algorithm = algorithm, .limit = limit, .window_us = window_us, .burst = limit};

    terms.tick_us = budget_tick(&terms);
    cr_assert_neq(terms.tick_us, 0);
    return terms;
}

static void expect(const char *why, const char *judge, size_t nth, const struct moment *want,
                   const struct outcome *got)
{
    const struct standing *standing = &got->standings[0];

    cr_expect_eq(got->passing, want->passing, "%s, moment %zu: %s lets %lld pass, not %lld", why, nth, judge,
                 (long long)got->passing, (long long)want->passing);
    cr_expect(want->available == ANY || standing->available == want->available,
              "%s, moment %zu: %s has %lld left, not %lld", why, nth, judge, (long long)standing->available,
              (long long)want->available);
    cr_expect(want->retry_us == ANY || standing->retry_us == want->retry_us,
              "%s, moment %zu: %s says %lld us, not %lld", why, nth, judge, (long long)standing->retry_us,
              (long long)want->retry_us);
}

static void ask_all(const char *why, size_t nth, const struct limit_terms *terms, const struct moment *moment)
{
    static struct script_answer answer;
    struct request request = {
        .charges = {{0, *terms, moment->cost}}, .charge_count = 1, .count = moment->count};
    struct script_call call = {"k", &request, 1, noon_us + moment->at_us, 0};
    struct outcome outcome = {0};

    policy_admit(&policy, &request, call.now_us, &outcome);
    expect(why, "the policy", nth, moment, &outcome);
    naive_admit(&naive, &request, call.now_us, &outcome);
    expect(why, "the model", nth, moment, &outcome);
    script_admit(redis, &call, &answer);
    freeReplyObject(answer.reply);
    expect(why, "the script", nth, moment, &answer.outcomes[0]);
    freeReplyObject(redis_says(redis, "PERSIST k:0")); /* the story has its own clock */
}

static void tell(const struct story *story)
{
    struct limit_terms terms = story->terms;

    forget_all();
    for (size_t i = 0; i < story->count; i++) {
        if (story->moments[i].limit != 0) {
            terms.limit = terms.burst = story->moments[i].limit;
            terms.tick_us = budget_tick(&terms);
        }
        ask_all(story->why, i, &terms, &story->moments[i]);
    }
}

static const struct {
    const char *name;
    enum limit_algorithm algorithm;
} every[] = {
    {"sliding_window", LIMIT_SLIDING_WINDOW},
    {"sliding_log", LIMIT_SLIDING_LOG},
    {"token_bucket", LIMIT_TOKEN_BUCKET},
    {"fixed_window", LIMIT_FIXED_WINDOW},
};
enum { EVERY = sizeof(every) / sizeof(*every) };

/* ---- what holds for each of them ---- */

Test(admit_boundaries, of_none_to_eleven_at_once_ten_pass_at_most)
{
    for (size_t a = 0; a < EVERY; a++)
        for (int64_t count = 0; count <= 11; count++) {
            int64_t passing = count < 10 ? count : 10;
            struct story story = {
                .why = every[a].name,
                .terms = terms_of(every[a].algorithm, 10, SECOND_US),
                .count = 2,
                .moments = {{0, 1, count, passing, 10 - passing, ANY, 0},
                            {0, 1, 1, passing < 10, passing < 10 ? 9 - passing : 0, ANY, 0}},
            };
            tell(&story);
        }
}

Test(admit_boundaries, a_cost_of_three_needs_three)
{
    for (size_t a = 0; a < EVERY; a++) {
        struct story story = {
            .why = every[a].name,
            .terms = terms_of(every[a].algorithm, 10, SECOND_US),
            .count = 6,
            .moments = {{0, 8, 1, 1, 2, ANY, 0},
                        {0, 3, 1, 0, 2, ANY, 0},
                        {0, 2, 1, 1, 0, ANY, 0},
                        {3600 * SECOND_US, 7, 1, 1, 3, ANY, 0},
                        {3600 * SECOND_US, 3, 1, 1, 0, ANY, 0},
                        {3600 * SECOND_US, 1, 1, 0, 0, ANY, 0}},
        };
        tell(&story);
    }
}

Test(admit_boundaries, of_two_at_once_that_cost_three_one_passes_at_five)
{
    for (size_t a = 0; a < EVERY; a++) {
        struct story story = {
            .why = every[a].name,
            .terms = terms_of(every[a].algorithm, 5, SECOND_US),
            .count = 2,
            .moments = {{0, 3, 2, 1, 2, ANY, 0}, {0, 2, 2, 1, 0, ANY, 0}},
        };
        tell(&story);
    }
}

Test(admit_boundaries, rest_gives_back_all_and_no_more)
{
    static const int64_t rests_us[] = {2 * SECOND_US, 3600 * SECOND_US, 400 * DAY_US};

    for (size_t a = 0; a < EVERY; a++)
        for (size_t i = 0; i < sizeof(rests_us) / sizeof(*rests_us); i++) {
            struct story story = {
                .why = every[a].name,
                .terms = terms_of(every[a].algorithm, 10, SECOND_US),
                .count = 3,
                .moments = {{0, 1, 12, 10, 0, ANY, 0},
                            {0, 1, 12, 0, 0, ANY, 0}, /* no time at all gives back nothing */
                            {rests_us[i], 1, 12, 10, 0, ANY, 0}},
            };
            tell(&story);
        }
}

Test(admit_boundaries, a_clock_set_back_gives_back_nothing)
{
    static const int64_t steps_us[] = {1, SECOND_US / 2, SECOND_US, SECOND_US + 1, 3600 * SECOND_US};

    for (size_t a = 0; a < EVERY; a++)
        for (size_t i = 0; i < sizeof(steps_us) / sizeof(*steps_us); i++) {
            struct story story = {
                .why = every[a].name,
                .terms = terms_of(every[a].algorithm, 10, SECOND_US),
                .count = 2,
                .moments = {{0, 1, 12, 10, 0, ANY, 0}, {-steps_us[i], 1, 12, 0, 0, ANY, 0}},
            };
            tell(&story);
        }
}

Test(admit_boundaries, another_limit_counts_at_once_and_keeps_what_was_used)
{
    for (size_t a = 0; a < EVERY; a++) {
        struct story story = {
            .why = every[a].name,
            .terms = terms_of(every[a].algorithm, 10, 3600 * SECOND_US),
            .count = 5,
            .moments = {{0, 1, 8, 8, 2, ANY, 0},
                        {0, 1, 9, 0, 0, ANY, 5},    /* lowered below what is used */
                        {0, 1, 20, 12, 0, ANY, 20}, /* raised: eight are used still */
                        {0, 1, 1, 0, 0, ANY, 20},
                        {0, 1, 30, 10, 0, ANY, 30}},
        };
        tell(&story);
    }
}

/* Two nodes with different configurations, or a reload and the way back: a refusal by the other algorithm reads the log, and leaves of it what
 * that could know. */
Test(admit_boundaries, a_log_that_another_algorithm_was_asked_of_counts_as_its_last_admission)
{
    struct limit_terms log = terms_of(LIMIT_SLIDING_LOG, 10, 60 * SECOND_US);
    struct limit_terms bucket = terms_of(LIMIT_TOKEN_BUCKET, 5, 3600 * SECOND_US);
    static const struct moment admitted[] = {{0, 4, 1, 1, 6, ANY, 0}, {10 * SECOND_US, 3, 1, 1, 3, ANY, 0}};
    static const struct moment refused = {20 * SECOND_US, 1, 1, 0, 0, ANY, 0};
    static const struct moment after[] = {{60 * SECOND_US, 4, 1, 0, 3, 10 * SECOND_US, 0},
                                          {70 * SECOND_US, 10, 1, 1, 0, ANY, 0}};

    forget_all();
    ask_all("admitted", 0, &log, &admitted[0]);
    ask_all("admitted", 1, &log, &admitted[1]);
    ask_all("refused by a bucket", 0, &bucket, &refused);
    ask_all("a log again", 0, &log, &after[0]);
    ask_all("a log again", 1, &log, &after[1]);
}

/* ---- the edges of time, to the microsecond ---- */

Test(admit_boundaries, each_algorithm_gives_back_at_its_moment_and_not_a_microsecond_before)
{
    static const int64_t month_left_us = 12 * 3600 * SECOND_US; /* noon of the last of November */
    struct story stories[] = {
        {"sliding_window: a tenth of ten weighs less after a tenth of the next window",
         terms_of(LIMIT_SLIDING_WINDOW, 10, 60 * SECOND_US),
         5,
         {{-1, 10, 1, 1, 0, ANY, 0},
          {0, 1, 1, 0, 0, 6 * SECOND_US, 0},
          {6 * SECOND_US - 1, 1, 1, 0, 0, 1, 0},
          {6 * SECOND_US, 1, 2, 1, 0, 6 * SECOND_US, 0},
          {12 * SECOND_US, 1, 2, 1, 0, ANY, 0}}},
        {"sliding_window: what was admitted in the first microsecond counts in full to the last",
         terms_of(LIMIT_SLIDING_WINDOW, 10, 60 * SECOND_US),
         4,
         {{0, 10, 1, 1, 0, ANY, 0},
          {60 * SECOND_US - 1, 1, 1, 0, 0, 6 * SECOND_US + 1, 0},
          {60 * SECOND_US, 1, 1, 0, 0, 6 * SECOND_US, 0},
          {120 * SECOND_US, 10, 1, 1, 0, ANY, 0}}},
        {"sliding_log: an admission counts for a window, its end exclusive",
         terms_of(LIMIT_SLIDING_LOG, 10, 60 * SECOND_US),
         5,
         {{0, 4, 1, 1, 6, ANY, 0},
          {7, 6, 1, 1, 0, ANY, 0},
          {60 * SECOND_US - 1, 1, 1, 0, 0, 1, 0},
          {60 * SECOND_US, 1, 9, 4, 0, 7, 0},
          {60 * SECOND_US + 7, 6, 1, 1, 0, ANY, 0}}},
        {"token_bucket: at four a second one comes in 250 ms",
         terms_of(LIMIT_TOKEN_BUCKET, 4, SECOND_US),
         5,
         {{0, 1, 9, 4, 0, 250000, 0},
          {249999, 1, 1, 0, 0, 1, 0},
          {250000, 1, 2, 1, 0, 250000, 0},
          {999999, 3, 1, 0, 2, 1, 0},
          {1000000, 3, 1, 1, 0, ANY, 0}}},
        {"fixed_window: all comes back at the border",
         terms_of(LIMIT_FIXED_WINDOW, 10, 60 * SECOND_US),
         3,
         {{0, 1, 12, 10, 0, 60 * SECOND_US, 0},
          {60 * SECOND_US - 1, 1, 12, 0, 0, 1, 0},
          {60 * SECOND_US, 1, 12, 10, 0, 60 * SECOND_US, 0}}},
        {"fixed_window: a month ends at midnight of its last day",
         {.algorithm = LIMIT_FIXED_WINDOW,
          .limit = 10,
          .window_us = 31 * DAY_US,
          .tick_us = 1,
          .calendar = CALENDAR_MONTH},
         3,
         {{0, 1, 12, 10, 0, month_left_us, 0},
          {month_left_us - 1, 1, 12, 0, 0, 1, 0},
          {month_left_us, 1, 12, 10, 0, 31 * DAY_US, 0}}},
        {"fixed_window: a week ends before Monday",
         {.algorithm = LIMIT_FIXED_WINDOW,
          .limit = 10,
          .window_us = 7 * DAY_US,
          .tick_us = 1,
          .calendar = CALENDAR_WEEK},
         3,
         {{0, 1, 12, 10, 0, month_left_us, 0},
          {month_left_us - 1, 1, 12, 0, 0, 1, 0},
          {month_left_us, 1, 12, 10, 0, 7 * DAY_US, 0}}},
    };

    for (size_t i = 0; i < sizeof(stories) / sizeof(*stories); i++)
        tell(&stories[i]);
}

/* ---- the largest that is legal ---- */

static struct limit_terms largest(enum limit_algorithm algorithm, int64_t window_us)
{
    int64_t low = 1, high = LIMIT_EXACT;

    while (low < high) { /* the largest limit that has a tick */
        int64_t middle = low + (high - low + 1) / 2;
        struct limit_terms terms = {
            .algorithm = algorithm, .limit = middle, .window_us = window_us, .burst = middle};
        if (budget_tick(&terms) != 0)
            low = middle;
        else
            high = middle - 1;
    }
    return terms_of(algorithm, low, window_us);
}

Test(admit_boundaries, the_largest_limit_window_and_cost_are_decided_to_the_unit)
{
    static const int64_t windows_us[] = {1000, SECOND_US, DAY_US, LIMIT_MAX_US};

    for (size_t a = 0; a < EVERY; a++)
        for (size_t i = 0; i < sizeof(windows_us) / sizeof(*windows_us); i++) {
            struct limit_terms terms = largest(every[a].algorithm, windows_us[i]);
            int64_t all = terms.limit;
            struct story story = {
                .why = every[a].name,
                .terms = terms,
                .count = 4,
                .moments = {{0, all < LIMIT_EXACT ? all + 1 : all, 0, 0, all,
                             all < LIMIT_EXACT ? LIMIT_NEVER : 0, 0},
                            {0, all > 1 ? all - 1 : 1, 1, 1, all > 1 ? 1 : 0, ANY, 0},
                            {0, 1, 2, all > 1, 0, ANY, 0},
                            {0, all, 1, 0, 0, ANY, 0}},
            };
            tell(&story);
        }
}
