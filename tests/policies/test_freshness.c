#include "freshness.h"

#include "http_date.h"

#include <criterion/criterion.h>

/* All moments of this file: received at 10:00:00. */
#define AT_10_00 "Sun, 06 Nov 1994 10:00:00 GMT"
#define AT_09_59 "Sun, 06 Nov 1994 09:59:00 GMT"
#define AT_10_01 "Sun, 06 Nov 1994 10:01:00 GMT"
#define AT_11_00 "Sun, 06 Nov 1994 11:00:00 GMT"
static const struct wall_s received = {784116000};

struct stated { /* NULL: absent */
    const char *control, *date, *expires, *age;
    int64_t delay_ms;
};

static struct slice field(const char *text)
{
    return text == NULL ? (struct slice){NULL, 0} : slice_text(text);
}

static struct freshness judge(int status, const struct stated *stated, const struct caching_rule *rule)
{
    struct header header = {SLICE("cache-control"), slice_text(stated->control)};
    struct cache_control control;
    struct response_times times = {.date = field(stated->date),
                                   .expires = field(stated->expires),
                                   .age = field(stated->age),
                                   .delay_ms = stated->delay_ms,
                                   .received = received};

    cache_control_parse(&header, stated->control == NULL ? 0 : 1, &control);
    return freshness_of(status, &control, &times, rule);
}

/* clang-format off: tables read better in one line a row */

Test(freshness, the_test_clock_is_what_it_says)
{
    char text[HTTP_DATE_BYTES];
    http_date_write(received, text);
    cr_assert_eq(memcmp(text, AT_10_00, sizeof(text)), 0);
}

Test(freshness, the_most_specific_statement_of_the_response_counts)
{
    static const struct caching_rule rule = {.ttl_ms = 7000, .negative_ttl_ms = 1000};
    static const struct {
        const char *why;
        struct stated stated;
        enum freshness_source source;
        int64_t fresh_ms;
    } rows[] = {
        {"s-maxage before all",
         {"max-age=60, s-maxage=30", AT_10_00, AT_11_00, NULL, 0},
         FRESHNESS_S_MAXAGE,
         30000},
        {"a longer s-maxage too",
         {"max-age=60, s-maxage=90", AT_10_00, NULL, NULL, 0},
         FRESHNESS_S_MAXAGE,
         90000},
        {"an invalid s-maxage is stale",
         {"max-age=60, s-maxage=x", AT_10_00, NULL, NULL, 0},
         FRESHNESS_S_MAXAGE,
         0},
        {"max-age before Expires", {"max-age=60", AT_10_00, AT_11_00, NULL, 0}, FRESHNESS_MAX_AGE, 60000},
        {"an invalid max-age is stale", {"max-age=x", AT_10_00, AT_11_00, NULL, 0}, FRESHNESS_MAX_AGE, 0},
        {"Expires less Date", {NULL, AT_10_00, AT_11_00, NULL, 0}, FRESHNESS_EXPIRES, 3600000},
        {"Expires without Date: from the receipt", {NULL, NULL, AT_10_01, NULL, 0}, FRESHNESS_EXPIRES, 60000},
        {"Expires with a bad Date: the same",
         {NULL, "yesterday", AT_10_01, NULL, 0},
         FRESHNESS_EXPIRES,
         60000},
        {"Expires at Date", {NULL, AT_10_00, AT_10_00, NULL, 0}, FRESHNESS_EXPIRES, 0},
        {"Expires before Date", {NULL, AT_10_00, AT_09_59, NULL, 0}, FRESHNESS_EXPIRES, 0},
        {"Expires: 0", {NULL, AT_10_00, "0", NULL, 0}, FRESHNESS_EXPIRES, 0},
        {"Expires: -1", {NULL, AT_10_00, "-1", NULL, 0}, FRESHNESS_EXPIRES, 0},
        {"Expires: nonsense", {NULL, AT_10_00, "Thu, 32 Foo", NULL, 0}, FRESHNESS_EXPIRES, 0},
        {"an empty Expires", {NULL, AT_10_00, "", NULL, 0}, FRESHNESS_EXPIRES, 0},
        {"an upstream whose clock is ahead",
         {NULL, AT_11_00, "Sun, 06 Nov 1994 11:00:05 GMT", NULL, 0},
         FRESHNESS_EXPIRES,
         5000},
        {"nothing stated: the ttl", {NULL, AT_10_00, NULL, NULL, 0}, FRESHNESS_TTL, 7000},
        {"stated, but no lifetime", {"public", AT_10_00, NULL, NULL, 0}, FRESHNESS_TTL, 7000},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct freshness got = judge(200, &rows[i].stated, &rule);
        cr_assert_eq(got.source, rows[i].source, "%s", rows[i].why);
        cr_assert_eq(got.fresh_ms, rows[i].fresh_ms, "%s: %lld", rows[i].why, (long long)got.fresh_ms);
        cr_assert_eq(got.stale_ms, got.fresh_ms, "%s: nobody asked for a window", rows[i].why);
        cr_assert_eq(got.error_ms, got.fresh_ms, "%s: nobody asked for a window", rows[i].why);
    }
}

Test(freshness, repeated_expires_cannot_be_trusted)
{
    const struct header headers[] = {{SLICE("expires"), SLICE(AT_11_00)},
                                     {SLICE("expires"), SLICE(AT_11_00)}};
    static const struct caching_rule rule = {.ttl_ms = 7000};
    struct response_times times;
    struct cache_control control;

    cache_control_parse(NULL, 0, &control);
    response_times_read(headers, 2, &times);
    times.received = received;
    cr_assert_eq(freshness_of(200, &control, &times, &rule).fresh_ms, 0);
    response_times_read(headers, 1, &times);
    times.received = received;
    cr_assert_eq(freshness_of(200, &control, &times, &rule).fresh_ms, 3600000);
}

Test(freshness, without_a_statement_and_a_ttl_there_is_no_lifetime)
{
    static const struct caching_rule rule = {
        .ttl_ms = -1, .negative_ttl_ms = 1000, .stale_while_revalidate_ms = 5000, .stale_if_error_ms = 5000};
    static const struct stated nothing = {"public", AT_10_00, NULL, NULL, 0};
    static const int statuses[] = {200, 404};

    for (size_t i = 0; i < 2; i++) {
        struct freshness got = judge(statuses[i], &nothing, &rule);
        cr_assert_eq(got.source, FRESHNESS_NONE);
        cr_assert_eq(got.fresh_ms, 0);
        cr_assert_eq(got.stale_ms, 0);
        cr_assert_eq(got.error_ms, 0);
    }
}

Test(freshness, age_counts_against_what_the_response_states)
{
    static const struct caching_rule rule = {.ttl_ms = 10000};
    static const struct {
        const char *why;
        struct stated stated;
        int64_t age_ms, fresh_ms;
    } rows[] = {
        {"fresh from the origin", {"max-age=60", AT_10_00, NULL, NULL, 0}, 0, 60000},
        {"Age", {"max-age=60", AT_10_00, NULL, "50", 0}, 50000, 10000},
        {"the way here adds to Age", {"max-age=60", AT_10_00, NULL, "50", 250}, 50250, 9750},
        {"the way here alone", {"max-age=60", AT_10_00, NULL, NULL, 250}, 250, 59750},
        {"an old Date", {"max-age=90", AT_09_59, NULL, NULL, 0}, 60000, 30000},
        {"Date and Age: the larger", {"max-age=90", AT_09_59, NULL, "70", 0}, 70000, 20000},
        {"Age above the lifetime: not fresh", {"max-age=60", AT_10_00, NULL, "61", 0}, 61000, 0},
        {"Age of exactly the lifetime: not fresh", {"max-age=60", AT_10_00, NULL, "60", 0}, 60000, 0},
        {"Date ahead of us is no age", {"max-age=60", AT_11_00, NULL, NULL, 0}, 0, 60000},
        {"a bad Date is the receipt", {"max-age=60", "x", NULL, NULL, 0}, 0, 60000},
        {"of a list the first Age", {"max-age=60", AT_10_00, NULL, "10,50", 0}, 10000, 50000},
        {"with blanks as well", {"max-age=60", AT_10_00, NULL, "10 , 50", 0}, 10000, 50000},
        {"a bad Age is ignored", {"max-age=60", AT_10_00, NULL, "-5", 0}, 0, 60000},
        {"in front of a list, too", {"max-age=60", AT_10_00, NULL, "x,50", 0}, 0, 60000},
        {"a number and more is none", {"max-age=60", AT_10_00, NULL, "7;a=1", 0}, 0, 60000},
        {"what a bad Age hides, Date may tell", {"max-age=90", AT_09_59, NULL, "x", 0}, 60000, 30000},
        {"but the ttl is the operator's word", {NULL, AT_10_00, NULL, "-5", 0}, 0, 10000},
        {"an absurd Age is merely old",
         {"max-age=60", AT_10_00, NULL, "99999999999999999999", 0},
         INT64_C(2147483648000),
         0},
        {"Expires too", {NULL, AT_09_59, AT_10_01, NULL, 0}, 60000, 60000},
        {"the ttl counts from the receipt: not the wait", {NULL, AT_10_00, NULL, NULL, 15000}, 15000, 10000},
        {"nor a wrong clock upstream", {NULL, AT_09_59, NULL, NULL, 0}, 60000, 10000},
        {"less an Age that is declared", {NULL, AT_09_59, NULL, "4", 100}, 60000, 6000},
        {"time never goes backwards on the way", {"max-age=60", AT_10_00, NULL, NULL, -5}, 0, 60000},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct freshness got = judge(200, &rows[i].stated, &rule);
        cr_assert_eq(got.age_ms, rows[i].age_ms, "%s: age %lld", rows[i].why, (long long)got.age_ms);
        cr_assert_eq(got.fresh_ms, rows[i].fresh_ms, "%s: fresh %lld", rows[i].why, (long long)got.fresh_ms);
    }
}

Test(freshness, stale_windows_are_the_response_s_else_the_route_s_and_may_be_forbidden)
{
    static const struct caching_rule rule = {
        .ttl_ms = 10000, .stale_while_revalidate_ms = 3000, .stale_if_error_ms = 8000};
    static const struct {
        const char *why;
        struct stated stated;
        int64_t fresh_ms, stale_ms, error_ms;
    } rows[] = {
        {"the route's", {"max-age=60", NULL, NULL, NULL, 0}, 60000, 63000, 68000},
        {"the route's, by ttl", {NULL, NULL, NULL, NULL, 0}, 10000, 13000, 18000},
        {"the response's",
         {"max-age=60, stale-while-revalidate=1, stale-if-error=2", NULL, NULL, NULL, 0},
         60000,
         61000,
         62000},
        {"one of each", {"max-age=60, stale-if-error=2", NULL, NULL, NULL, 0}, 60000, 63000, 62000},
        {"the response may say none",
         {"max-age=60, stale-while-revalidate=0, stale-if-error=0", NULL, NULL, NULL, 0},
         60000,
         60000,
         60000},
        {"garbage is none",
         {"max-age=60, stale-while-revalidate=x", NULL, NULL, NULL, 0},
         60000,
         60000,
         68000},
        {"must-revalidate forbids",
         {"max-age=60, must-revalidate, stale-while-revalidate=9, stale-if-error=9", NULL, NULL, NULL, 0},
         60000,
         60000,
         60000},
        {"proxy-revalidate forbids",
         {"max-age=60, proxy-revalidate", NULL, NULL, NULL, 0},
         60000,
         60000,
         60000},
        {"they forbid by ttl too", {"must-revalidate", NULL, NULL, NULL, 0}, 10000, 10000, 10000},
        {"s-maxage does not", {"s-maxage=60", NULL, NULL, NULL, 0}, 60000, 63000, 68000},
        {"windows follow the lifetime, not the receipt", {"max-age=60", NULL, NULL, "61", 0}, 0, 2000, 7000},
        {"and end", {"max-age=60", NULL, NULL, "64", 0}, 0, 0, 4000},
        {"a lifetime of zero is not extended by the route", {"max-age=0", NULL, NULL, NULL, 0}, 0, 0, 0},
        {"nor an invalid one", {"max-age=x", NULL, NULL, NULL, 0}, 0, 0, 0},
        {"nor Expires: 0", {NULL, NULL, "0", NULL, 0}, 0, 0, 0},
        {"but by its own word", {"max-age=0, stale-while-revalidate=5", NULL, NULL, NULL, 0}, 0, 5000, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct freshness got = judge(200, &rows[i].stated, &rule);
        cr_assert_eq(got.fresh_ms, rows[i].fresh_ms, "%s: %lld", rows[i].why, (long long)got.fresh_ms);
        cr_assert_eq(got.stale_ms, rows[i].stale_ms, "%s: %lld", rows[i].why, (long long)got.stale_ms);
        cr_assert_eq(got.error_ms, rows[i].error_ms, "%s: %lld", rows[i].why, (long long)got.error_ms);
    }
}

Test(freshness, with_override_the_route_s_word_replaces_the_response_s)
{
    static const struct caching_rule rule = {.ttl_ms = 10000,
                                             .override_origin = true,
                                             .stale_while_revalidate_ms = 3000,
                                             .stale_if_error_ms = 8000};
    static const struct caching_rule without_ttl = {.ttl_ms = -1, .override_origin = true};
    static const struct stated longer = {"max-age=60, stale-while-revalidate=90", AT_09_59, NULL, "40", 500};
    static const struct stated zero = {"max-age=0, no-cache", NULL, "0", NULL, 0};
    static const struct stated strict = {"max-age=0, must-revalidate", NULL, NULL, NULL, 0};
    struct freshness got = judge(200, &longer, &rule);

    cr_assert_eq(got.source, FRESHNESS_TTL);
    cr_assert_eq(got.fresh_ms, 10000, "neither its lifetime nor its age");
    cr_assert_eq(got.stale_ms, 13000);
    cr_assert_eq(got.error_ms, 18000);
    cr_assert_eq(got.age_ms, 60000, "what clients are told stays true");
    got = judge(200, &zero, &rule);
    cr_assert_eq(got.fresh_ms, 10000);
    cr_assert_eq(got.stale_ms, 13000);
    got = judge(200, &strict, &rule);
    cr_assert_eq(got.fresh_ms, 10000);
    cr_assert_eq(got.error_ms, 10000, "must-revalidate forbids windows even so");
    got = judge(200, &longer, &without_ttl);
    cr_assert_eq(got.source, FRESHNESS_MAX_AGE, "there is nothing to override with");
    cr_assert_eq(got.stale_ms, 90000, "its own window then counts, too");
}

Test(freshness, what_was_not_there_is_kept_shortly)
{
    static const struct caching_rule rule = {.ttl_ms = 10000,
                                             .negative_ttl_ms = 1000,
                                             .stale_while_revalidate_ms = 3000,
                                             .stale_if_error_ms = 8000};
    static const struct caching_rule overriding = {
        .ttl_ms = 10000, .override_origin = true, .negative_ttl_ms = 1000};
    static const struct caching_rule never = {.ttl_ms = 10000, .negative_ttl_ms = 0};
    static const struct caching_rule short_ttl = {.ttl_ms = 300, .negative_ttl_ms = 1000};
    static const struct {
        const char *why;
        int status;
        const struct caching_rule *rule;
        struct stated stated;
        int64_t fresh_ms;
    } rows[] = {
        {"by negative_ttl", 404, &rule, {NULL, NULL, NULL, NULL, 0}, 1000},
        {"gone as well", 410, &rule, {NULL, NULL, NULL, NULL, 0}, 1000},
        {"longer if it says so itself",
         404,
         &rule,
         {"max-age=3600, stale-if-error=99", NULL, NULL, NULL, 0},
         3600000},
        {"less its age", 404, &rule, {"max-age=3600", NULL, NULL, "50", 0}, 3550000},
        {"shorter if it says so", 404, &rule, {"max-age=1", NULL, NULL, NULL, 400}, 600},
        {"not at all if it says so", 404, &rule, {"max-age=0", NULL, NULL, NULL, 0}, 0},
        {"override is bound too", 404, &overriding, {"max-age=3600", NULL, NULL, NULL, 0}, 1000},
        {"negative_ttl 0: only by its own word", 404, &never, {NULL, NULL, NULL, NULL, 0}, 0},
        {"which counts", 404, &never, {"max-age=3600", NULL, NULL, NULL, 0}, 3600000},
        {"never longer than what is there", 404, &short_ttl, {NULL, NULL, NULL, NULL, 0}, 300},
        {"other errors are not meant", 403, &rule, {"max-age=3600", NULL, NULL, NULL, 0}, 3600000},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct freshness got = judge(rows[i].status, &rows[i].stated, rows[i].rule);
        cr_assert_eq(got.fresh_ms, rows[i].fresh_ms, "%s: %lld", rows[i].why, (long long)got.fresh_ms);
        if (rows[i].status != 403) {
            cr_assert_eq(got.stale_ms, got.fresh_ms, "%s: no window", rows[i].why);
            cr_assert_eq(got.error_ms, got.fresh_ms, "%s: no window", rows[i].why);
        }
    }
}

Test(freshness, nothing_lives_longer_than_thirty_days)
{
    static const struct caching_rule rule = {.ttl_ms = INT64_MAX / 4,
                                             .stale_while_revalidate_ms = INT64_MAX / 4,
                                             .stale_if_error_ms = INT64_MAX / 4};
    static const struct stated rows[] = {
        {"max-age=99999999999, stale-while-revalidate=99999999999, stale-if-error=99999999999", NULL, NULL,
         NULL, 0},
        {NULL, "Sat, 01 Jan 0000 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", NULL, 0},
        {NULL, NULL, NULL, NULL, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct freshness got = judge(200, &rows[i], &rule);
        cr_assert(got.fresh_ms >= 0 && got.fresh_ms <= FRESHNESS_MAX_MS, "row %zu", i);
        cr_assert(got.stale_ms >= got.fresh_ms && got.stale_ms <= FRESHNESS_MAX_MS, "row %zu", i);
        cr_assert(got.error_ms >= got.fresh_ms && got.error_ms <= FRESHNESS_MAX_MS, "row %zu", i);
    }
    cr_assert_eq(judge(200, &rows[0], &rule).fresh_ms, FRESHNESS_MAX_MS);
    cr_assert_eq(judge(200, &rows[2], &rule).error_ms, FRESHNESS_MAX_MS);
}

static struct freshness of(int status, const struct header *headers, size_t count)
{
    static const struct caching_rule rule = {.ttl_ms = -1, .negative_ttl_ms = 1000};
    struct response_times times;
    struct cache_control control;

    cache_control_parse(headers, count, &control);
    response_times_read(headers, count, &times);
    times.received = received;
    return freshness_of(status, &control, &times, &rule);
}

Test(freshness, a_tenth_of_the_time_since_the_last_change_may_be_guessed_a_day_at_most)
{
    static const struct {
        const char *why, *modified, *control;
        int status;
        enum freshness_source source;
        int64_t fresh_ms;
    } rows[] = {
        {"a minute unchanged", AT_09_59, NULL, 200, FRESHNESS_HEURISTIC, 6000},
        {"a year unchanged", "Sat, 06 Nov 1993 10:00:00 GMT", NULL, 200, FRESHNESS_HEURISTIC, 86400000},
        {"changed just now", AT_10_00, NULL, 200, FRESHNESS_NONE, 0},
        {"changed in the future", AT_11_00, NULL, 200, FRESHNESS_NONE, 0},
        {"no date", "yesterday", NULL, 200, FRESHNESS_NONE, 0},
        {"a status that permits no guess", AT_09_59, NULL, 302, FRESHNESS_NONE, 0},
        {"unless it is public", AT_09_59, "public", 302, FRESHNESS_HEURISTIC, 6000},
        {"501 does", AT_09_59, NULL, 501, FRESHNESS_HEURISTIC, 6000},
        {"what is said goes before", AT_09_59, "max-age=1", 200, FRESHNESS_MAX_AGE, 1000},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct header headers[] = {{SLICE("date"), SLICE(AT_10_00)},
                                   {SLICE("last-modified"), slice_text(rows[i].modified)},
                                   {SLICE("cache-control"), slice_text(rows[i].control)}};
        struct freshness got = of(rows[i].status, headers, rows[i].control == NULL ? 2 : 3);

        cr_expect_eq(got.source, rows[i].source, "%s", rows[i].why);
        cr_expect_eq(got.fresh_ms, rows[i].fresh_ms, "%s: %lld", rows[i].why, (long long)got.fresh_ms);
    }
}

Test(freshness, what_has_a_validator_is_kept_for_longer_than_it_is_used)
{
    static const struct {
        const char *why, *control;
        bool has_etag;
        int64_t fresh_ms, keep_ms;
    } rows[] = {
        {"nothing to ask by", "max-age=60", false, 60000, 60000},
        {"ten minutes at least", "max-age=60", true, 60000, 660000},
        {"as long again", "max-age=3600", true, 3600000, 7200000},
        {"a day at most", "max-age=864000", true, 864000000, 950400000},
        {"behind its windows", "max-age=60, stale-if-error=600", true, 60000, 1260000},
        {"never fresh", "max-age=0", true, 0, 600000},
        {"never without being asked about", "no-cache, max-age=60", true, 0, 600000},
        {"and nothing to ask by", "no-cache, max-age=60", false, 0, 0},
        {"no-cache for a field is not for all", "no-cache=\"x\", max-age=60", true, 60000, 660000},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct header headers[] = {{SLICE("cache-control"), slice_text(rows[i].control)},
                                   {SLICE("etag"), SLICE("\"a\"")}};
        struct freshness got = of(200, headers, rows[i].has_etag ? 2 : 1);

        cr_expect_eq(got.fresh_ms, rows[i].fresh_ms, "%s: %lld", rows[i].why, (long long)got.fresh_ms);
        cr_expect_eq(got.keep_ms, rows[i].keep_ms, "%s: %lld", rows[i].why, (long long)got.keep_ms);
    }
}

Test(freshness, of_several_lines_of_age_the_first_counts)
{
    static const struct header headers[] = {
        {{"cache-control", 13}, {"max-age=60", 10}}, {{"age", 3}, {"10", 2}}, {{"age", 3}, {"50", 2}}};

    cr_assert_eq(of(200, headers, 2).fresh_ms, 50000);
    cr_assert_eq(of(200, headers, 3).fresh_ms, 50000);
}

Test(freshness, an_upstream_that_gives_no_answer_is_bridged_unless_somebody_forbids_it)
{
    static const struct caching_rule rule = {
        .ttl_ms = 7000, .stale_if_unreachable_ms = 9000, .negative_ttl_ms = 1000};
    static const struct caching_rule with_errors = {
        .ttl_ms = 7000, .stale_if_unreachable_ms = 9000, .stale_if_error_ms = 20000};
    static const struct {
        const char *why;
        int status;
        const struct caching_rule *rule;
        const char *control;
        int64_t unreachable_ms, error_ms, keep_ms;
    } rows[] = {
        {"what was fresh", 200, &rule, "max-age=60", 69000, 60000, 69000},
        {"by ttl, too", 200, &rule, "public", 16000, 7000, 16000},
        {"must-revalidate", 200, &rule, "max-age=60, must-revalidate", 60000, 60000, 60000},
        {"proxy-revalidate", 200, &rule, "max-age=60, proxy-revalidate", 60000, 60000, 60000},
        {"s-maxage", 200, &rule, "max-age=60, s-maxage=60", 60000, 60000, 60000},
        {"no-cache", 200, &rule, "max-age=60, no-cache", 0, 0, 0},
        {"what never was fresh", 200, &rule, "max-age=0", 0, 0, 0},
        {"what is not there", 404, &rule, "max-age=60", 60000, 60000, 60000},
        {"it has said itself for how long", 200, &rule, "max-age=60, stale-if-error=2", 62000, 62000, 62000},
        {"the route's window for all errors is one for these", 200, &with_errors, "max-age=60", 80000, 80000,
         80000},
        {"and s-maxage does not close that", 200, &with_errors, "s-maxage=60", 80000, 80000, 80000},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct stated stated = {rows[i].control, NULL, NULL, NULL, 0};
        struct freshness got = judge(rows[i].status, &stated, rows[i].rule);

        cr_expect_eq(got.unreachable_ms, rows[i].unreachable_ms, "%s: %lld", rows[i].why,
                     (long long)got.unreachable_ms);
        cr_expect_eq(got.error_ms, rows[i].error_ms, "%s: %lld", rows[i].why, (long long)got.error_ms);
        cr_expect_eq(got.keep_ms, rows[i].keep_ms, "%s: %lld", rows[i].why, (long long)got.keep_ms);
    }
}
/* clang-format on */
