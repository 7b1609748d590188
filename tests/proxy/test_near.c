/* Near: what is found, what is dropped, and what may never be found again. */
#include "near.h"
#include "objects.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

static const struct mono_ms NOW = {1000000};
enum { MIB = 1024 * 1024 };

static bool finds(struct near *near, uint64_t number, struct mono_ms now)
{
    struct key32 key = test_key(number);
    struct object *object = near_find(near, &key, now);
    bool found = object != NULL;

    object_release(&object);
    return found;
}

static void put(struct near *near, uint64_t number, int64_t epoch, const char *tag, size_t body_bytes)
{
    struct object *object = test_object(number, epoch, tag, body_bytes, 1000, 2000, 3000, NOW);

    near_put(near, object);
    object_release(&object);
}

static int64_t invalidate(struct near *near, const char *tag, int64_t wall_us)
{
    struct slice tags[1] = {slice_text(tag)};

    return near_invalidate(near, tags, 1, 0, wall_us);
}

static bool is_outdated(struct near *near, int64_t epoch, const char *tag)
{
    struct slice tags[1] = {slice_text(tag)};

    return near_is_outdated(near, epoch, tags, tag == NULL ? 0 : 1);
}

Test(near, finds_what_was_put_until_it_is_gone)
{
    struct near *near = near_new(MIB, MIB);

    cr_assert_not(finds(near, 1, NOW));
    put(near, 1, 0, NULL, 100);
    cr_assert(finds(near, 1, NOW));
    cr_assert_not(finds(near, 2, NOW));
    cr_assert(finds(near, 1, mono_after(NOW, 2999)), "stale or only for errors is still found");
    cr_assert_not(finds(near, 1, mono_after(NOW, 3000)));
    cr_assert_eq(near_count(near).objects, 0, "and dropped once gone");
    near_free(near);
}

static int64_t invalidate_softly(struct near *near, const char *tag, int64_t wall_us)
{
    struct slice tags[1] = {slice_text(tag)};

    return near_invalidate(near, tags, 1, 1, wall_us);
}

Test(near, a_soft_stamp_makes_what_is_stored_here_stale_at_its_moment_and_shares_its_body)
{
    struct near *near = near_new(MIB, MIB);
    struct key32 key = test_key(1);
    int64_t softened_ms = NOW.ms + 100, ahead_us = 5000000;
    size_t bytes;

    near_date_epochs(near, ahead_us);
    put(near, 1, 1, "a", 100);
    bytes = near_count(near).bytes;
    struct object *before = near_find(near, &key, NOW);

    invalidate_softly(near, "a", softened_ms * 1000 + ahead_us);
    struct object *after = near_find(near, &key, mono_after(NOW, 150));

    cr_assert_not_null(after);
    cr_assert_eq(after->fresh_until.ms, softened_ms);
    cr_assert_eq(after->stale_until.ms, softened_ms + 1000, "the window keeps its length");
    cr_assert_eq(after->error_until.ms, softened_ms + 2000);
    cr_assert_eq(after->blocks[0], before->blocks[0]);
    cr_assert_eq(before->fresh_until.ms, NOW.ms + 1000, "who has it already sees no change");
    cr_assert_geq(near_count(near).bytes, bytes);
    object_release(&before);
    object_release(&after);

    invalidate(near, "a", 0);
    cr_assert_not(finds(near, 1, mono_after(NOW, 150)), "hard after soft");
    near_free(near);
}

Test(near, a_copy_of_what_another_store_has_goes_with_a_soft_stamp_and_may_come_back_stale)
{
    struct near *near = near_new(MIB, MIB);
    struct tag_stamp soft = {SLICE("a"), 50, true};
    struct object *told;

    put(near, 1, 10, "a", 100);
    near_apply(near, 50, 0, &soft, 1);
    cr_assert_not(finds(near, 1, NOW));
    put(near, 1, 10, "a", 100);
    cr_assert_not(finds(near, 1, NOW), "an answer from before the stamp");
    cr_assert(is_outdated(near, 49, "a") && !is_outdated(near, 50, "a"));
    cr_assert_not(near_is_void(near, 49, &(struct slice){"a", 1}, 1));

    told = test_object(1, 10, "a", 100, 0, 2000, 3000, NOW); /* as the store knows it since */
    told->aged_epoch = 50;
    cr_assert_not(near_outdates(near, told));
    near_put(near, told);
    cr_assert(finds(near, 1, NOW));
    object_release(&told);
    near_free(near);
}

Test(near, a_later_object_replaces_and_the_earlier_lives_on_where_it_is_used)
{
    struct near *near = near_new(MIB, MIB);
    struct key32 key = test_key(1);
    size_t once;

    put(near, 1, 0, NULL, 100);
    once = near_count(near).bytes;
    struct object *used = near_find(near, &key, NOW);

    put(near, 1, 0, NULL, 100);
    struct object *later = near_find(near, &key, NOW);

    cr_assert_neq(used, later);
    cr_assert_eq(used->blocks[0]->bytes[99], 'x');
    cr_assert_eq(near_count(near).objects, 1);
    cr_assert_eq(near_count(near).bytes, once);
    object_release(&used);
    near_free(near);
    cr_assert_eq(later->blocks[0]->bytes[0], 'x', "even the near cache's own end");
    object_release(&later);
}

Test(near, what_is_over_the_largest_size_is_not_kept_and_neither_is_what_it_replaces)
{
    struct near *near = near_new(MIB, 2000);

    put(near, 1, 0, NULL, 100);
    put(near, 1, 0, NULL, 2000);
    cr_assert_not(finds(near, 1, NOW));
    near_free(near);
}

Test(near, everything_counts_and_the_budget_is_never_overstepped)
{
    struct near *near = near_new(256 * 1024, 64 * 1024);
    size_t empty = near_count(near).bytes;
    char tag[32];

    cr_assert_gt(empty, 0);
    for (uint64_t i = 0; i < 2000; i++) {
        put(near, i, near_epoch(near), NULL, (i * 37) % 3000);
        if (i % 10 == 0) {
            snprintf(tag, sizeof(tag), "tag:%d", (int)i);
            invalidate(near, tag, 0);
        }
        put(near, i, near_epoch(near), NULL, (i * 37) % 3000); /* makes room for the tags */
        cr_assert_leq(near_count(near).bytes, 256 * 1024);
    }
    cr_assert_gt(near_count(near).evicted, 1000);
    cr_assert_gt(near_count(near).objects, 20);
    near_clear(near);
    cr_assert_eq(near_count(near).objects, 0);
    cr_assert_leq(near_count(near).bytes - empty, 24 * 1024, "what is left is the tag table's");
    near_free(near);
}

Test(near, what_is_used_stays_and_what_is_not_goes_first)
{
    struct near *near = near_new(256 * 1024, 64 * 1024);

    put(near, 1000000, 0, NULL, 500);
    for (uint64_t i = 0; i < 5000; i++) {
        cr_assert(finds(near, 1000000, NOW), "used between any two: not evicted (after %d)", (int)i);
        put(near, i, 0, NULL, 500);
    }
    near_free(near);
}

Test(near, a_budget_too_small_for_anything_keeps_nothing)
{
    struct near *near = near_new(0, MIB);

    put(near, 1, 0, NULL, 100);
    cr_assert_not(finds(near, 1, NOW));
    near_free(near);
}

Test(near, an_invalidation_takes_what_was_loaded_before_and_nothing_else)
{
    struct near *near = near_new(MIB, MIB);
    int64_t before = near_epoch(near), epoch;

    put(near, 1, before, "a", 10);
    put(near, 2, before, "b", 10);
    put(near, 3, before, NULL, 10);
    cr_assert(finds(near, 1, NOW));
    epoch = invalidate(near, "a", 0);
    cr_assert_gt(epoch, before);
    cr_assert_eq(near_epoch(near), epoch);
    cr_assert_not(finds(near, 1, NOW));
    cr_assert(finds(near, 2, NOW));
    cr_assert(finds(near, 3, NOW));
    cr_assert_eq(near_count(near).invalidated, 1);

    put(near, 1, before, "a", 10); /* a slow load that began before it */
    cr_assert_not(finds(near, 1, NOW));
    cr_assert(is_outdated(near, before, "a"));
    cr_assert_not(is_outdated(near, before, "b"));
    cr_assert_not(is_outdated(near, before, NULL));

    put(near, 1, epoch, "a", 10);
    cr_assert(finds(near, 1, NOW));
    cr_assert_not(is_outdated(near, epoch, "a"));
    near_free(near);
}

Test(near, an_outdated_object_does_not_replace_a_valid_one)
{
    struct near *near = near_new(MIB, MIB);

    put(near, 1, invalidate(near, "a", 0), "a", 10);
    put(near, 1, 0, "a", 10);
    cr_assert(finds(near, 1, NOW));
    near_free(near);
}

Test(near, the_epoch_follows_the_stores_clock_and_never_goes_back)
{
    struct near *near = near_new(MIB, MIB);

    cr_assert_eq(invalidate(near, "a", 5000), 5000);
    cr_assert_eq(invalidate(near, "a", 4000), 5001);
    cr_assert_eq(invalidate(near, "a", 6000), 6000);
    near_apply(near, 100, 0, NULL, 0);
    cr_assert_eq(near_epoch(near), 6000);
    cr_assert_eq(near_invalidate(near, NULL, 0, 0, 7000), 7000, "no tags: only the epoch moves");
    near_free(near);
}

Test(near, stamps_apply_whenever_they_arrive)
{
    struct near *near = near_new(MIB, MIB);
    struct tag_stamp late[1] = {{SLICE("a"), 50, false}}, lower[1] = {{SLICE("a"), 40, false}};

    near_apply(near, 100, 0, NULL, 0);
    put(near, 1, 45, "a", 10);
    cr_assert(finds(near, 1, NOW));
    near_apply(near, 60, 0, late,
               1); /* behind the epoch that is known: the object was already found valid at 100 */
    cr_assert_not(finds(near, 1, NOW));
    cr_assert_eq(near_epoch(near), 100);
    near_apply(near, 60, 0, lower, 1);
    cr_assert(is_outdated(near, 45, "a"), "a lower stamp takes nothing back");
    near_free(near);
}

Test(near, nothing_below_the_floor_is_valid)
{
    struct near *near = near_new(MIB, MIB);

    put(near, 1, 10, NULL, 10);
    put(near, 2, 20, NULL, 10);
    near_apply(near, 20, 20, NULL, 0);
    cr_assert_not(finds(near, 1, NOW));
    cr_assert(finds(near, 2, NOW));
    cr_assert(is_outdated(near, 19, NULL));
    near_apply(near, 20, 5, NULL, 0);
    cr_assert(is_outdated(near, 19, NULL), "the floor only rises");
    near_free(near);
}

/* The table forgets (its bound is 1024 tags here), yet answers "valid" only where the truth is "valid". */
Test(near, a_full_tag_table_costs_misses_and_resurrects_nothing)
{
    enum { TAGS = 4000, STEPS = 30000 };
    struct near *near = near_new(64 * 1024, 64 * 1024);
    static int64_t truth[TAGS];
    char tag[32];
    size_t misses = 0;

    srand(7);
    for (int i = 0; i < STEPS; i++) {
        int t = rand() % TAGS;

        snprintf(tag, sizeof(tag), "tag:%d", t);
        if (rand() % 2 == 0) {
            truth[t] = invalidate(near, tag, 0);
            continue;
        }
        int64_t now = near_epoch(near), epoch = now - rand() % 2000;
        bool is_really = truth[t] > epoch, is_told = is_outdated(near, epoch, tag);

        cr_assert(is_told || !is_really, "tag %d, epoch %d", t, (int)epoch);
        cr_assert_not(is_outdated(near, now, tag), "what begins now is valid");
        misses += is_told && !is_really;
    }
    cr_assert_leq(near_count(near).tags, 1024);
    cr_assert_gt(misses, 0, "so it did forget");
    near_free(near);
}

/* Puts, finds, drops, invalidations and time against a list of what was put. A find may miss (eviction),
 * never lie. */
Test(near, agrees_with_a_naive_model)
{
    enum { KEYS = 60, TAGS = 8, STEPS = 60000 };
    struct near *near = near_new(MIB, MIB);
    static const char *tags[TAGS] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    struct {
        struct object *object;
        int tag;
    } model[KEYS] = {{0}};
    int64_t stamps[TAGS] = {0};
    struct mono_ms now = NOW;

    srand(11);
    for (int i = 0; i < STEPS; i++) {
        int k = rand() % KEYS, t = rand() % TAGS;
        struct key32 key = test_key((uint64_t)k);

        switch (rand() % 8) {
        case 0: {
            int64_t epoch = near_epoch(near) - rand() % 3, fresh_ms = rand() % 50;
            struct object *object = test_object((uint64_t)k, epoch, tags[t], 10, fresh_ms,
                                                fresh_ms + rand() % 50, fresh_ms + rand() % 50, now);

            near_put(near, object);
            if (stamps[t] <= epoch) {
                object_release(&model[k].object);
                model[k].object = object;
                model[k].tag = t;
            } else {
                object_release(&object);
            }
            break;
        }
        case 1: stamps[t] = invalidate(near, tags[t], 0); break;
        case 2:
            if (rand() % 10 == 0) {
                near_drop(near, &key);
                object_release(&model[k].object);
            }
            break;
        case 3: now = mono_after(now, rand() % 3); break;
        default: {
            struct object *found = near_find(near, &key, now), *known = model[k].object;
            bool is_there =
                known != NULL && now.ms < object_gone_at(known).ms && stamps[model[k].tag] <= known->epoch;

            cr_assert_eq(found, is_there ? known : NULL, "step %d", i);
            object_release(&found);
        }
        }
    }
    for (int k = 0; k < KEYS; k++)
        object_release(&model[k].object);
    near_free(near);
}
