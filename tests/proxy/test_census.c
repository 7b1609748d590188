/* Census: who was seen in this minute or the one before, each once, by whichever thread. */
#include "census.h"
#include "digest.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MINUTE_MS = 60000 };

static struct mono_ms at(int64_t minute)
{
    return (struct mono_ms){minute * MINUTE_MS + 5};
}

static void note(struct census *census, uint32_t from, uint32_t to, struct mono_ms now)
{
    for (uint32_t i = from; i < to; i++) {
        unsigned char principal[16] = {0}; /* whoever chooses them */

        memcpy(principal, &i, sizeof(i));
        census_note(census, principal, now);
    }
}

static void expect_about(int64_t found, int64_t wanted, const char *why)
{
    cr_expect(found * 100 >= wanted * 87 && found * 100 <= wanted * 113, "%s: %lld, not %lld", why,
              (long long)found, (long long)wanted);
}

Test(census, a_caller_counts_for_its_minute_and_the_next)
{
    struct census *census = census_of("one");

    cr_assert_eq(census_count(census, at(0)), 0);
    note(census, 0, 2000, at(0)), note(census, 0, 2000, at(0));
    expect_about(census_count(census, at(0)), 2000, "each once");
    note(census, 1000, 5000, at(1));
    expect_about(census_count(census, at(1)), 5000, "both minutes together");
    expect_about(census_count(census, at(2)), 4000, "the first is over");
    note(census, 0, 10, at(2));
    note(census, 9000, 9010, at(1)); /* by a thread that is slow to see the new minute */
    expect_about(census_count(census, at(2)), 4020, "it does no harm");
    cr_assert_eq(census_count(census, at(4)), 0);
    note(census, 0, 3, at(1000));
    cr_assert_eq(census_count(census, at(1000)), 3);
}

Test(census, a_name_has_one_census_whoever_asks)
{
    cr_assert_eq(census_of("a"), census_of("a"));
    cr_assert_neq(census_of("a"), census_of("b"));
    note(census_of("a"), 0, 5, at(1));
    cr_assert_eq(census_count(census_of("a"), at(1)), 5);
    cr_assert_eq(census_count(census_of("b"), at(1)), 0);
    for (int i = 0; i < 2000; i++) {
        char name[16];
        struct census *census;

        snprintf(name, sizeof(name), "limit-%d", i);
        census = census_of(name);
        cr_assert(census != NULL || i > 900);
    }
    cr_assert_null(census_of("one too many"));
    census_note(NULL, (const unsigned char[16]){0}, at(1));
}

static void *crowd(void *arg)
{
    uint32_t from = *(uint32_t *)arg;

    for (int minute = 1; minute < 6; minute++)
        note(census_of("shared"), from, from + 4000, at(minute));
    return NULL;
}

Test(census, threads_note_together)
{
    uint32_t from[4] = {0, 2000, 4000, 6000};
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, crowd, &from[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    expect_about(census_count(census_of("shared"), at(5)), 10000, "all of them");
}
