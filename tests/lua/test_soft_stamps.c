/* Soft stamps: what a soft invalidation makes of an entry and of a load under way, as lua/lookup.lua and lua/fill.lua have it. */
#include "cache_rig.h"

#include <criterion/criterion.h>

TestSuite(soft_stamps, .init = start, .fini = stop, .timeout = 60);

static void pass_s(int64_t seconds)
{
    now_us += seconds * SECOND;
}

#define expect_kind(looked, want) cr_assert_str_eq((looked).kind, want)

/* An entry, stored now. */
static void store_one(void)
{
    struct looked mine = ask(TOKEN_A, "");

    expect_kind(mine, "load");
    cr_assert_str_eq(land(TOKEN_A, mine.began), "stored");
}

Test(soft_stamps, a_soft_invalidation_ends_freshness_and_the_windows_follow_from_there)
{
    static const struct {
        const char *why;
        int64_t after_us;
        const char *kind;
        int64_t stale_us, error_us;
    } rows[] = {
        {"stale at once: what followed freshness follows the stamp", 0, "stale", 10 * SECOND, 30 * SECOND},
        {"the last stale microsecond", 10 * SECOND - 1, "stale", 1, 20 * SECOND + 1},
        {"then it only stands in for an error", 10 * SECOND, "load", 0, 20 * SECOND},
        {"and in the end it can only be validated, as long as ever", 37 * SECOND - 1, "load", 0, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct looked seen;

        freeReplyObject(redis_says(redis, "FLUSHALL"));
        store_one();
        pass_s(3);
        invalidate_softly(redis, now_us, 0, TAGS("tag"));
        now_us += rows[i].after_us;
        seen = ask(TOKEN_B, "");
        cr_assert_str_eq(seen.kind, rows[i].kind, "%s", rows[i].why);
        cr_assert_str_eq(seen.token, TOKEN_B, "%s: the caller refreshes it, or loads", rows[i].why);
        cr_assert_str_eq(seen.bytes, "body", "%s", rows[i].why);
        cr_assert_eq(seen.fresh_us, 0, "%s", rows[i].why);
        cr_assert_eq(seen.stale_us, rows[i].stale_us, "%s", rows[i].why);
        cr_assert_eq(seen.error_us, rows[i].error_us, "%s", rows[i].why);
    }
}

Test(soft_stamps, after_a_soft_invalidation_one_refreshes_and_all_others_have_the_copy)
{
    struct looked refresher, other;

    store_one();
    pass_s(1);
    invalidate_softly(redis, now_us, 0, TAGS("tag"));
    refresher = ask(TOKEN_B, "");
    expect_kind(refresher, "stale");
    cr_assert_str_eq(refresher.token, TOKEN_B);
    for (int i = 0; i < 3; i++) {
        other = ask(TOKEN_C, "");
        expect_kind(other, "stale");
        cr_assert_str_eq(other.token, "");
    }
    cr_assert_str_eq(land(TOKEN_B, refresher.began), "stored");
    other = ask(TOKEN_C, "");
    expect_kind(other, "fresh");
}

Test(soft_stamps, soft_invalidations_one_after_another_prolong_nothing)
{
    struct looked seen;

    store_one();
    pass_s(1);
    for (int i = 0; i < 10; i++) { /* the windows are 10 s from the first */
        invalidate_softly(redis, now_us, 0, TAGS("tag"));
        seen = ask(TOKEN_B, "");
        expect_kind(seen, "stale");
        cr_assert_eq(seen.stale_us, (10 - i) * SECOND);
        pass_s(1);
    }
    expect_kind(ask(TOKEN_C, ""), "wait"); /* for the last refresh, without a copy to serve */
}

Test(soft_stamps, what_is_hard_invalidated_is_gone_before_and_after_a_soft_one)
{
    store_one();
    invalidate_softly(redis, now_us, 0, TAGS("tag"));
    invalidate(redis, now_us, 0, TAGS("tag"));
    cr_assert_str_eq(ask(TOKEN_B, "").bytes, "");

    freeReplyObject(redis_says(redis, "FLUSHALL"));
    store_one();
    invalidate(redis, now_us, 0, TAGS("tag"));
    invalidate_softly(redis, now_us, 0, TAGS("tag"));
    cr_assert_str_eq(ask(TOKEN_B, "").bytes, "");
}

Test(soft_stamps, a_load_that_a_soft_invalidation_overtook_is_stored_and_stale_and_nobody_new_waits_for_it)
{
    struct looked old = ask(TOKEN_A, ""), young;

    invalidate_softly(redis, now_us, 0, TAGS("tag"));
    cr_assert_str_eq(land(TOKEN_A, old.began), "stored");
    young = ask(TOKEN_B, "");
    expect_kind(young, "stale");
    cr_assert_str_eq(young.token, TOKEN_B);

    invalidate_softly(redis, now_us, 0, TAGS("tag"));
    young = ask(TOKEN_C, "");
    cr_assert_str_eq(young.token, TOKEN_C, "the refresh that began before is taken over");
    cr_assert_str_eq(land(TOKEN_B, young.began), "superseded");
}
