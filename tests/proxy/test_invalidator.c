/* Invalidator: none is dropped because the store is away, and what it covers is served from here no more. */
#include "fake_store.h"
#include "invalidator.h"
#include "journal.h"
#include "loop.h"
#include "objects.h"
#include "stats.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

TestSuite(invalidator, .timeout = 20);

static struct loop *loop;
static struct near *near;
static struct fake_store store;
static struct invalidator *invalidator;

struct asker {
    int told;
    int64_t epoch;
    struct invalidation *handle;
    struct asker *asks_next;
};

static void on_done(void *arg, int64_t epoch);

static void ask(struct asker *asker, const char *tag)
{
    struct slice tags[1] = {slice_text(tag)};

    asker->handle = invalidator_ask(invalidator, tags, 1, 0, on_done, asker);
    cr_assert_eq(asker->told, 0, "never inside the call");
}

static void on_done(void *arg, int64_t epoch)
{
    struct asker *asker = arg;

    asker->told++;
    asker->epoch = epoch;
    asker->handle = NULL;
    if (asker->asks_next != NULL)
        ask(asker->asks_next, "next");
}

static void start(void)
{
    loop = loop_new();
    near = near_new(1 << 20, 1 << 18);
    fake_store_init(&store, near, true);
    invalidator = invalidator_new(loop, &store.store, stats_join());
}

static void stop(void)
{
    invalidator_free(invalidator);
    near_free(near);
    loop_free(loop);
}

static struct fake_call *call(size_t nth)
{
    return fake_call_of(&store, FAKE_INVALIDATE, nth);
}

static void turn_until_asked(size_t times)
{
    while (fake_count_of(&store, FAKE_INVALIDATE) < times)
        loop_turn(loop, 1000);
}

Test(invalidator, what_is_recorded_is_told_with_its_epoch)
{
    struct asker asker = {0};

    start();
    ask(&asker, "product:1");
    cr_assert_eq(invalidator_asking(invalidator), 1);
    cr_assert_str_eq(call(0)->first_tag, "product:1");
    fake_tell_invalidate(call(0), FAULT_NONE, 42);
    cr_assert_eq(asker.told, 1);
    cr_assert_eq(asker.epoch, 42);
    cr_assert_eq(invalidator_asking(invalidator) + invalidator_kept(invalidator), 0);
    stop();
}

Test(invalidator, tags_are_its_own_copies)
{
    char text[] = "product:1", empty[1];
    struct slice tags[2] = {slice_text(text), slice_of(empty, 0)};

    start();
    invalidator_ask(invalidator, tags, 2, 0, NULL, NULL);
    memset(text, '-', sizeof(text) - 1);
    fake_tell_invalidate(call(0), FAULT_STORE_AWAY, 0);
    turn_until_asked(2);
    cr_assert_str_eq(call(1)->first_tag, "product:1");
    cr_assert_eq(call(1)->count, 2);
    stop();
}

Test(invalidator, without_the_store_it_is_kept_and_nothing_affected_is_served_from_here)
{
    struct asker asker = {0};

    start();
    struct object *hit = test_object(1, 0, "product:1", 3, 60000, 60000, 60000, loop_now(loop));
    struct object *other = test_object(2, 0, "product:2", 3, 60000, 60000, 60000, loop_now(loop));
    near_put(near, hit);
    near_put(near, other);
    ask(&asker, "product:1");
    fake_tell_invalidate(call(0), FAULT_STORE_SILENT, 0);
    cr_assert_eq(asker.told, 1);
    cr_assert_eq(asker.epoch, -1);
    cr_assert_eq(invalidator_kept(invalidator), 1);
    cr_assert_null(near_find(near, &hit->key, loop_now(loop)));
    near_put(near, hit); /* the store still hands it out */
    cr_assert_null(near_find(near, &hit->key, loop_now(loop)));
    struct object *later =
        test_object(1, near_epoch(near) + 1000, "product:1", 3, 60000, 60000, 60000, loop_now(loop));
    cr_assert(near_outdates(near, later),
              "another node, which was not told, may have raised the epoch since");
    near_put(near, later);
    cr_assert_null(near_find(near, &hit->key, loop_now(loop)));
    object_release(&later);
    struct object *found = near_find(near, &other->key, loop_now(loop));
    cr_assert_eq(found, other, "what is not affected stays");
    object_release(&found);
    object_release(&hit), object_release(&other);
    stop();
}

Test(invalidator, it_is_sent_again_until_it_is_recorded)
{
    struct asker asker = {0};

    start();
    ask(&asker, "product:1");
    fake_tell_invalidate(call(0), FAULT_STORE_AWAY, 0);
    turn_until_asked(2);
    fake_tell_invalidate(call(1), FAULT_STORE_SILENT, 0);
    turn_until_asked(3);
    fake_tell_invalidate(call(2), FAULT_NONE, 7);
    cr_assert_eq(asker.told, 1, "who asked is told once");
    cr_assert_eq(invalidator_kept(invalidator), 0);
    stop();
}

Test(invalidator, once_it_is_recorded_nothing_is_held_back_any_more)
{
    struct asker asker = {0};
    struct slice tags[1] = {SLICE("product:1")};

    start();
    ask(&asker, "product:1");
    fake_tell_invalidate(call(0), FAULT_STORE_AWAY, 0);
    cr_assert(near_is_outdated(near, INT64_MAX, tags, 1));
    turn_until_asked(2);
    fake_tell_invalidate(call(1), FAULT_NONE, 7);
    cr_assert_not(near_is_outdated(near, INT64_MAX, tags, 1));
    stop();
}

/* ---- with a journal ---- */

static char folder[40], path[80];
static struct journal *journal;

static void start_with_journal(void)
{
    strcpy(folder, "/tmp/weir-kept-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/journal", folder);
    start();
    journal = journal_open(path, stderr);
    cr_assert_not_null(journal);
    invalidator_use_journal(invalidator, journal);
}

static void stop_with_journal(void)
{
    invalidator_free(invalidator);
    loop_turn(loop, 0);
    near_free(near);
    journal_close(journal);
    loop_free(loop);
    unlink(path);
    rmdir(folder);
}

/* The process dies and another one begins. */
static size_t adopt_all(void)
{
    const struct slice *tags;
    size_t count, soft_count, adopted = 0;
    struct journal_mark *mark;

    invalidator_free(invalidator);
    loop_turn(loop, 0);
    near_free(near);
    journal_close(journal);
    near = near_new(1 << 20, 1 << 18);
    fake_store_init(&store, near, true);
    invalidator = invalidator_new(loop, &store.store, stats_join());
    journal = journal_open(path, stderr);
    cr_assert_not_null(journal);
    invalidator_use_journal(invalidator, journal);
    for (; (mark = journal_next_found(journal, &tags, &count, &soft_count)) != NULL; adopted++)
        invalidator_adopt(invalidator, tags, count, soft_count, mark);
    return adopted;
}

static void turn_until_told(const struct asker *asker)
{
    while (asker->told == 0)
        loop_turn(loop, 1000);
}

Test(invalidator, who_asked_is_told_once_the_journal_has_it_and_the_next_process_goes_on)
{
    struct asker asker = {0};
    struct slice tags[1] = {SLICE("product:1")};

    start_with_journal();
    ask(&asker, "product:1");
    fake_tell_invalidate(call(0), FAULT_STORE_AWAY, 0);
    cr_assert_eq(asker.told, 0, "the disk is not that fast, or we would have waited for it");
    turn_until_told(&asker);
    cr_assert_eq(asker.epoch, -1);

    cr_assert_eq(adopt_all(), 1);
    cr_assert(near_is_outdated(near, INT64_MAX, tags, 1), "held back before anything is served");
    cr_assert_eq(invalidator_kept(invalidator), 1);
    turn_until_asked(1);
    cr_assert_str_eq(call(0)->first_tag, "product:1");
    fake_tell_invalidate(call(0), FAULT_NONE, 9);
    cr_assert_not(near_is_outdated(near, INT64_MAX, tags, 1));

    cr_assert_eq(adopt_all(), 0, "what is recorded is done");
    stop_with_journal();
}

Test(invalidator, a_store_that_is_back_before_the_journal_has_it_is_told_and_so_is_who_asked)
{
    struct asker asker = {0};

    start_with_journal();
    for (int i = 0; i < 20; i++) {
        size_t asked = fake_count_of(&store, FAKE_INVALIDATE);

        asker = (struct asker){0};
        ask(&asker, "product:1");
        fake_tell_invalidate(call(asked), FAULT_STORE_AWAY, 0);
        turn_until_asked(asked + 2);
        fake_tell_invalidate(call(asked + 1), FAULT_NONE, 7);
        cr_assert_eq(asker.told, 1, "by the one or the other, once");
        cr_assert_eq(invalidator_kept(invalidator), 0);
    }
    cr_assert_eq(adopt_all(), 0);
    stop_with_journal();
}

Test(invalidator, too_many_to_keep_become_everything_and_none_is_lost)
{
    enum { MOST = 65536 };
    struct asker over[2] = {{0}};

    start();
    store.store.is_up = false;
    for (size_t i = 0; i < MOST; i++) {
        char tag[16];

        snprintf(tag, sizeof(tag), "t:%zu", i);
        invalidator_ask(invalidator, &(struct slice){tag, strlen(tag)}, 1, 0, NULL, NULL);
        fake_tell_invalidate(call(0), FAULT_STORE_AWAY, 0);
        store.count = 0; /* the fake one remembers only so many */
    }
    cr_assert_eq(invalidator_kept(invalidator), MOST);
    cr_assert_not(near_is_outdated(near, INT64_MAX, NULL, 0));
    for (size_t i = 0; i < 2; i++) {
        ask(&over[i], i == 0 ? "one more" : "and one");
        fake_tell_invalidate(call(0), FAULT_STORE_AWAY, 0);
        store.count = 0;
        cr_assert_eq(over[i].told, 1);
    }
    cr_assert_eq(invalidator_kept(invalidator), MOST + 1, "everything, once");
    cr_assert(near_is_outdated(near, INT64_MAX, NULL, 0), "nothing at all is served from here");
    stop();
}

static void ignore(void *arg, bool is_safe)
{
    (void)arg, (void)is_safe;
}

Test(invalidator, everything_is_sent_again_as_such)
{
    start_with_journal();
    cr_assert_eq(adopt_all(), 0);
    struct journal_mark *mark = journal_add(journal, NULL, 0, 0, loop, ignore, NULL);

    invalidator_adopt(invalidator, NULL, 0, 0, mark);
    turn_until_asked(1);
    cr_assert_str_eq(call(0)->first_tag, "(all)");
    fake_tell_invalidate(call(0), FAULT_NONE, 7);
    cr_assert_eq(invalidator_kept(invalidator), 0);
    cr_assert_not(near_is_outdated(near, INT64_MAX, NULL, 0));
    stop_with_journal();
}

Test(invalidator, a_store_that_is_down_is_not_asked)
{
    struct asker asker = {0};

    start();
    ask(&asker, "product:1");
    store.store.is_up = false;
    fake_tell_invalidate(call(0), FAULT_STORE_AWAY, 0);
    for (int64_t until = loop_now(loop).ms + 250; loop_now(loop).ms < until;) /* two retries long */
        loop_turn(loop, 50);
    cr_assert_eq(fake_count_of(&store, FAKE_INVALIDATE), 1);
    store.store.is_up = true;
    turn_until_asked(2);
    stop();
}

Test(invalidator, equal_ones_are_kept_once)
{
    struct asker askers[3] = {0};

    start();
    ask(&askers[0], "product:1");
    ask(&askers[1], "product:1");
    ask(&askers[2], "product:2");
    for (size_t i = 0; i < 3; i++)
        fake_tell_invalidate(call(i), FAULT_STORE_AWAY, 0);
    cr_assert_eq(askers[0].told + askers[1].told + askers[2].told, 3);
    cr_assert_eq(invalidator_kept(invalidator), 2);
    turn_until_asked(5);
    cr_assert_eq(fake_count_of(&store, FAKE_INVALIDATE), 5);
    stop();
}

Test(invalidator, an_equal_one_that_is_being_sent_may_come_too_early_to_stand_for_a_new_one)
{
    struct asker first = {0}, second = {0};

    start();
    ask(&first, "product:1");
    fake_tell_invalidate(call(0), FAULT_STORE_AWAY, 0);
    turn_until_asked(2); /* the kept one is on its way, perhaps recorded already */
    ask(&second, "product:1");
    fake_tell_invalidate(call(2), FAULT_STORE_AWAY, 0);
    cr_assert_eq(invalidator_kept(invalidator), 2);
    fake_tell_invalidate(call(1), FAULT_NONE, 7);
    turn_until_asked(4);
    fake_tell_invalidate(call(3), FAULT_NONE, 8);
    cr_assert_eq(invalidator_kept(invalidator), 0);
    stop();
}

Test(invalidator, a_stream_of_new_failures_does_not_put_off_the_retry)
{
    struct asker asker = {0};
    int64_t began_ms;

    start();
    ask(&asker, "product:1");
    fake_tell_invalidate(call(0), FAULT_STORE_AWAY, 0);
    began_ms = loop_now(loop).ms;
    for (size_t i = 1; call(i - 1)->is_answered;
         i++) { /* ends when something is sent that we did not ask for */
        char tag[16];

        snprintf(tag, sizeof(tag), "other:%zu", i % 4);
        invalidator_ask(invalidator, &(struct slice){tag, strlen(tag)}, 1, 0, NULL, NULL);
        fake_tell_invalidate(call(i), FAULT_STORE_AWAY, 0);
        loop_turn(loop, 5);
        if (fake_count_of(&store, FAKE_INVALIDATE) > i + 1)
            break;
        cr_assert_lt(loop_now(loop).ms - began_ms, 10000, "no retry in a hundred times its wait");
    }
    stop();
}

Test(invalidator, many_are_sent_a_few_at_a_time_and_all_are_recorded)
{
    enum { MANY = 200, AT_ONCE = 64 };
    size_t answered = MANY;

    start();
    for (size_t i = 0; i < MANY; i++) {
        char tag[16];

        snprintf(tag, sizeof(tag), "tag:%zu", i);
        invalidator_ask(invalidator, &(struct slice){tag, strlen(tag)}, 1, 0, NULL, NULL);
        fake_tell_invalidate(call(i), FAULT_STORE_AWAY, 0);
    }
    cr_assert_eq(invalidator_kept(invalidator), MANY);
    turn_until_asked(MANY + 1);
    cr_assert_eq(fake_count_of(&store, FAKE_INVALIDATE), MANY + AT_ONCE);
    while (answered < 2 * MANY) {
        cr_assert_leq(fake_count_of(&store, FAKE_INVALIDATE) - answered, AT_ONCE);
        fake_tell_invalidate(call(answered), FAULT_NONE, (int64_t)answered);
        answered++;
    }
    cr_assert_eq(invalidator_kept(invalidator), 0);
    stop();
}

Test(invalidator, who_left_is_not_told_and_the_invalidation_goes_on)
{
    struct asker asker = {0};

    start();
    ask(&asker, "product:1");
    invalidation_forget(&asker.handle);
    cr_assert_null(asker.handle);
    invalidation_forget(&asker.handle);
    fake_tell_invalidate(call(0), FAULT_STORE_AWAY, 0);
    cr_assert_eq(asker.told, 0);
    cr_assert_eq(invalidator_kept(invalidator), 1);
    stop();
}

Test(invalidator, who_is_told_may_ask_again)
{
    struct asker next = {0}, asker = {.asks_next = &next}, failing = {.asks_next = &next};

    start();
    ask(&asker, "product:1");
    fake_tell_invalidate(call(0), FAULT_NONE, 1);
    fake_tell_invalidate(call(1), FAULT_NONE, 2);
    cr_assert_eq(next.told, 1);
    next.told = 0;
    ask(&failing, "product:1");
    fake_tell_invalidate(call(2), FAULT_STORE_AWAY, 0);
    fake_tell_invalidate(call(3), FAULT_NONE, 3);
    cr_assert_eq(next.told, 1);
    stop();
}

Test(invalidator, it_may_be_freed_with_all_kinds_under_way)
{
    struct asker asking = {0}, kept = {0}, again = {0};

    start();
    ask(&again, "again");
    fake_tell_invalidate(call(0), FAULT_STORE_AWAY, 0);
    turn_until_asked(2);
    ask(&kept, "kept");
    fake_tell_invalidate(call(2), FAULT_STORE_AWAY, 0);
    ask(&asking, "asking");
    stop();
    cr_assert_eq(asking.told, 0);
    for (size_t i = 0; i < store.count; i++)
        cr_assert(store.calls[i].is_answered || store.calls[i].call.is_cancelled);
}
