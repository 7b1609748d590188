/* Store memory: every promise of the five operations, with the clock in the test's hand. */
#include "store_memory_rig.h"

#include <criterion/criterion.h>

/* ---- lookup, fill ---- */

Test(store_memory, one_loads_the_others_wait_and_then_all_are_served)
{
    struct fixture f;
    struct lookup_answer load, wait;
    struct key32 key = test_key(1);

    set_up(&f);
    load = look(&f, 1, "a");
    cr_assert_eq(load.kind, LOOKUP_LOAD);
    cr_assert_not(is_none(load.load));
    cr_assert_null(load.object);
    pass_ms(100);
    wait = look(&f, 1, "a");
    cr_assert_eq(wait.kind, LOOKUP_WAIT);
    cr_assert(same(wait.load, load.load), "waiters learn whom they wait for");
    cr_assert_eq(wait.wait_ms, LEASE_MS - 100);
    cr_assert_eq(look(&f, 2, "a").kind, LOOKUP_LOAD, "keys are apart");
    cr_assert_eq(fill(&f, 1, load, "a"), FILL_STORED);
    cr_assert_eq(wakes_after_turns(&f), 1);
    cr_assert_eq(memcmp(&f.woken, &key, sizeof(key)), 0);
    cr_assert_eq(look(&f, 1, "a").kind, LOOKUP_FRESH);
    tear_down(&f);
}

Test(store_memory, nobody_is_woken_where_nobody_waits)
{
    struct fixture f;

    set_up(&f);
    cr_assert_eq(fill(&f, 1, look(&f, 1, NULL), NULL), FILL_STORED);
    cr_assert(release(&f, 2, look(&f, 2, NULL).load, RELEASE_FAILED, 502, 1000));
    cr_assert_eq(wakes_after_turns(&f), 0);
    tear_down(&f);
}

Test(store_memory, each_lifetime_ends_where_the_next_begins)
{
    static const struct {
        const char *why;
        int64_t age_ms;
        enum lookup_kind kind;
        bool has_object;
    } rows[] = {
        {"last fresh millisecond", 999, LOOKUP_FRESH, true},
        {"stale, and its first asker refreshes", 1000, LOOKUP_STALE, true},
        {"last stale millisecond", 1999, LOOKUP_STALE, true},
        {"only instead of an error", 2000, LOOKUP_LOAD, true},
        {"last moment of that", 2999, LOOKUP_LOAD, true},
        {"gone", 3000, LOOKUP_LOAD, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fixture f;
        struct lookup_answer answer;

        set_up(&f);
        cr_assert_eq(fill(&f, 1, look(&f, 1, NULL), NULL), FILL_STORED);
        pass_ms(rows[i].age_ms);
        answer = look(&f, 1, NULL);
        cr_assert_eq(answer.kind, rows[i].kind, "%s", rows[i].why);
        cr_assert_eq(answer.object != NULL, rows[i].has_object, "%s", rows[i].why);
        cr_assert_eq(is_none(answer.load), rows[i].kind == LOOKUP_FRESH, "%s", rows[i].why);
        tear_down(&f);
    }
}

Test(store_memory, exactly_one_refreshes_a_stale_object)
{
    struct fixture f;
    struct lookup_answer refresh;

    set_up(&f);
    fill(&f, 1, look(&f, 1, NULL), NULL);
    pass_ms(1000);
    refresh = look(&f, 1, NULL);
    for (int i = 0; i < 5; i++) {
        struct lookup_answer other = look(&f, 1, NULL);

        cr_assert_eq(other.kind, LOOKUP_STALE);
        cr_assert(is_none(other.load));
    }
    cr_assert_eq(fill(&f, 1, refresh, NULL), FILL_STORED);
    cr_assert_eq(look(&f, 1, NULL).kind, LOOKUP_FRESH);
    tear_down(&f);
}

Test(store_memory, a_failed_refresh_backs_off_and_keeps_the_copy)
{
    struct fixture f;
    struct lookup_answer answer;

    set_up(&f);
    fill(&f, 1, look(&f, 1, NULL), NULL);
    pass_ms(1000);
    cr_assert(release(&f, 1, look(&f, 1, NULL).load, RELEASE_FAILED, 503, 500));
    answer = look(&f, 1, NULL);
    cr_assert_eq(answer.kind, LOOKUP_STALE);
    cr_assert(is_none(answer.load));
    pass_ms(500);
    cr_assert_not(is_none(look(&f, 1, NULL).load), "then it is tried again");
    tear_down(&f);
}

Test(store_memory, a_load_that_an_invalidation_overtook_is_not_stored)
{
    struct fixture f;
    struct lookup_answer load;

    set_up(&f);
    load = look(&f, 1, "a");
    look(&f, 1, "a");
    invalidate(&f, "a");
    cr_assert_eq(fill(&f, 1, load, "a"), FILL_INVALIDATED);
    cr_assert_eq(wakes_after_turns(&f), 1, "whoever waited is woken all the same");
    cr_assert_eq(look(&f, 1, "a").kind, LOOKUP_LOAD, "and the lock is free");
    tear_down(&f);
}

Test(store_memory, a_tag_that_only_the_response_reveals_counts_as_well)
{
    struct fixture f;
    struct lookup_answer load;

    set_up(&f);
    load = look(&f, 1, NULL);
    invalidate(&f, "revealed");
    cr_assert_eq(fill(&f, 1, load, "revealed"), FILL_INVALIDATED);
    load = look(&f, 1, NULL);
    cr_assert_eq(fill(&f, 1, load, "revealed"), FILL_STORED);
    tear_down(&f);
}

Test(store_memory, an_object_that_claims_a_later_epoch_than_its_load_is_judged_by_the_load)
{
    struct fixture f;
    struct lookup_answer load;

    set_up(&f);
    load = look(&f, 1, "a");
    load.epoch = invalidate(&f, "a");
    cr_assert_eq(fill(&f, 1, load, "a"), FILL_INVALIDATED);
    tear_down(&f);
}

Test(store_memory, an_invalidation_outdates_what_is_stored)
{
    struct fixture f;
    int64_t epoch;

    set_up(&f);
    fill(&f, 1, look(&f, 1, "a"), "a");
    epoch = invalidate(&f, "a");
    cr_assert_geq(epoch, clock_us, "the epoch is of the store's time");
    cr_assert_gt(invalidate(&f, "b"), epoch, "and advances even if time does not");
    struct lookup_answer load = look(&f, 1, "a");

    cr_assert_eq(load.kind, LOOKUP_LOAD);
    cr_assert_null(load.object, "not even instead of an error");
    cr_assert_eq(load.epoch, near_epoch(f.near));
    tear_down(&f);
}

Test(store_memory, a_doomed_load_is_taken_over_rather_than_waited_for)
{
    struct fixture f;
    struct lookup_answer doomed, load;

    set_up(&f);
    doomed = look(&f, 1, "a");
    cr_assert_eq(look(&f, 1, "a").kind, LOOKUP_WAIT);
    invalidate(&f, "b");
    cr_assert_eq(look(&f, 1, "a").kind, LOOKUP_WAIT, "another tag dooms nothing");
    invalidate(&f, "a");
    load = look(&f, 1, "a");
    cr_assert_eq(load.kind, LOOKUP_LOAD);
    cr_assert_eq(fill(&f, 1, doomed, "a"), FILL_SUPERSEDED);
    cr_assert_eq(wakes_after_turns(&f), 0, "and ends nothing for those who wait");
    cr_assert_not(release(&f, 1, doomed.load, RELEASE_FAILED, 502, 1000));
    cr_assert_eq(fill(&f, 1, load, "a"), FILL_STORED);
    cr_assert_eq(wakes_after_turns(&f), 1, "who waited for the first is woken by the second");
    tear_down(&f);
}

Test(store_memory, a_lease_ends_by_itself_and_its_owner_is_fenced_off)
{
    struct fixture f;
    struct lookup_answer old, load;

    set_up(&f);
    old = look(&f, 1, NULL);
    pass_ms(LEASE_MS - 1);
    cr_assert_eq(look(&f, 1, NULL).kind, LOOKUP_WAIT);
    pass_ms(1);
    load = look(&f, 1, NULL);
    cr_assert_eq(load.kind, LOOKUP_LOAD);
    cr_assert_not(same(load.load, old.load));
    cr_assert_eq(fill(&f, 1, old, NULL), FILL_SUPERSEDED);
    cr_assert_not(release(&f, 1, old.load, RELEASE_UNCACHEABLE, 0, 1000));
    cr_assert_not(renew(&f, 1, old.load, LEASE_MS));
    cr_assert_eq(fill(&f, 1, load, NULL), FILL_STORED);
    cr_assert_eq(fill(&f, 1, load, NULL), FILL_SUPERSEDED, "a lock is good for one fill");
    tear_down(&f);
}

Test(store_memory, an_owner_whose_lease_has_ended_no_longer_holds_it_even_if_nobody_came)
{
    struct fixture f;
    struct lookup_answer load;

    set_up(&f);
    load = look(&f, 1, NULL);
    pass_ms(LEASE_MS);
    cr_assert_not(renew(&f, 1, load.load, LEASE_MS));
    cr_assert_eq(fill(&f, 1, load, NULL), FILL_SUPERSEDED);
    tear_down(&f);
}

Test(store_memory, a_load_that_makes_progress_keeps_its_lock)
{
    struct fixture f;
    struct lookup_answer load;

    set_up(&f);
    load = look(&f, 1, NULL);
    for (int i = 0; i < 5; i++) {
        pass_ms(LEASE_MS - 1);
        cr_assert(renew(&f, 1, load.load, LEASE_MS));
        cr_assert_eq(look(&f, 1, NULL).wait_ms, LEASE_MS);
    }
    cr_assert_eq(fill(&f, 1, load, NULL), FILL_STORED);
    tear_down(&f);
}

/* ---- looks ---- */

static struct lookup_answer merely_look(struct fixture *f, uint64_t number)
{
    struct lookup_ask ask = {.key = test_key(number)};
    struct answer answer = {0};
    struct object *object;

    store_lookup(f->store, &ask, on_lookup, &answer);
    wait_for(f, &answer);
    object = answer.lookup.object;
    object_release(&object);
    return answer.lookup;
}

Test(store_memory, a_mere_look_takes_nothing_and_lets_nobody_wait)
{
    struct fixture f;
    struct lookup_answer seen, load;

    set_up(&f);
    seen = merely_look(&f, 1);
    cr_assert(seen.kind == LOOKUP_ABSENT && is_none(seen.load) && seen.object == NULL);
    load = look(&f, 1, NULL);
    cr_assert_eq(load.kind, LOOKUP_LOAD);
    cr_assert_eq(merely_look(&f, 1).kind, LOOKUP_ABSENT);
    cr_assert_eq(fill_lives(&f, 1, load, NULL, 1000, 2000, 3000), FILL_STORED);
    wakes_after_turns(&f);
    cr_assert_eq(f.wakes, 0, "nobody waited");
    cr_assert_eq(merely_look(&f, 1).kind, LOOKUP_FRESH);
    pass_ms(1500);
    seen = merely_look(&f, 1);
    cr_assert(seen.kind == LOOKUP_STALE && is_none(seen.load));
    pass_ms(1000);
    seen = merely_look(&f, 1);
    cr_assert(seen.kind == LOOKUP_ABSENT && seen.object != NULL, "good for what stands in for an error");
    tear_down(&f);
}

/* ---- release ---- */

Test(store_memory, a_failed_load_answers_its_waiters_and_only_them)
{
    struct fixture f;
    struct lookup_answer load, answer;

    set_up(&f);
    load = look(&f, 1, NULL);
    look(&f, 1, NULL);
    cr_assert(release(&f, 1, load.load, RELEASE_FAILED, 504, 1000));
    cr_assert_eq(wakes_after_turns(&f), 1);
    answer = look_as_waiter(&f, 1, NULL, load.load);
    cr_assert_eq(answer.kind, LOOKUP_FAILED);
    cr_assert_eq(answer.status, 504);
    answer = look_as_waiter(&f, 1, NULL, load_token_new());
    cr_assert_eq(answer.kind, LOOKUP_LOAD, "who waited for another, or for nobody, tries");
    tear_down(&f);
}

Test(store_memory, a_failure_is_forgotten_in_its_time)
{
    struct fixture f;
    struct lookup_answer load;

    set_up(&f);
    load = look(&f, 1, NULL);
    release(&f, 1, load.load, RELEASE_FAILED, 504, 1000);
    pass_ms(1000);
    cr_assert_eq(look_as_waiter(&f, 1, NULL, load.load).kind, LOOKUP_LOAD);
    tear_down(&f);
}

Test(store_memory, a_failure_without_a_marker_leaves_nothing)
{
    struct fixture f;
    struct lookup_answer load;

    set_up(&f);
    load = look(&f, 1, NULL);
    release(&f, 1, load.load, RELEASE_FAILED, 504, 0);
    cr_assert_eq(look_as_waiter(&f, 1, NULL, load.load).kind, LOOKUP_LOAD);
    tear_down(&f);
}

Test(store_memory, where_an_old_copy_can_stand_in_a_failure_holds_for_everybody)
{
    struct fixture f;
    struct lookup_answer load, answer;

    set_up(&f);
    fill(&f, 1, look(&f, 1, NULL), NULL);
    pass_ms(2000);
    load = look(&f, 1, NULL);
    cr_assert_eq(load.kind, LOOKUP_LOAD);
    answer = look(&f, 1, NULL);
    cr_assert_eq(answer.kind, LOOKUP_WAIT);
    cr_assert_not_null(answer.object);
    release(&f, 1, load.load, RELEASE_FAILED, 502, 500);
    answer = look(&f, 1, NULL);
    cr_assert_eq(answer.kind, LOOKUP_FAILED, "one attempt each back-off interval, not one each request");
    cr_assert_eq(answer.status, 502);
    cr_assert_not_null(answer.object);
    pass_ms(500);
    cr_assert_eq(look(&f, 1, NULL).kind, LOOKUP_LOAD);
    tear_down(&f);
}

Test(store_memory, an_uncacheable_answer_lets_all_pass_for_a_while)
{
    struct fixture f;
    struct lookup_answer load;

    set_up(&f);
    fill(&f, 1, look(&f, 1, NULL), NULL);
    pass_ms(1000);
    load = look(&f, 1, NULL);
    cr_assert_eq(load.kind, LOOKUP_STALE);
    cr_assert(release(&f, 1, load.load, RELEASE_UNCACHEABLE, 0, 700));
    load = look(&f, 1, NULL);
    cr_assert_eq(load.kind, LOOKUP_PROBE, "one finds out whether it still is");
    cr_assert_null(load.object, "the copy went with it");
    for (int i = 0; i < 3; i++) {
        struct lookup_answer answer = look_as_waiter(&f, 1, NULL, load.load);

        cr_assert_eq(answer.kind, LOOKUP_PASS);
        cr_assert_null(answer.object);
        cr_assert(is_none(answer.load));
    }
    cr_assert(release(&f, 1, load.load, RELEASE_CANCELLED, 0, 0));
    cr_assert_eq(wakes_after_turns(&f), 0, "nobody has waited");
    pass_ms(699);
    load = look(&f, 1, NULL);
    cr_assert_eq(load.kind, LOOKUP_PROBE);
    pass_ms(1);
    cr_assert(release(&f, 1, load.load, RELEASE_FAILED, 502, 1000), "which taught nothing");
    cr_assert_eq(look(&f, 1, NULL).kind, LOOKUP_LOAD);
    tear_down(&f);
}

/* Once one private answer kept a key from being stored for ten seconds, whatever all others got. */
Test(store_memory, the_first_answer_that_can_be_shared_ends_the_passing)
{
    struct fixture f;
    struct lookup_answer probe;

    set_up(&f);
    cr_assert(release(&f, 1, look(&f, 1, NULL).load, RELEASE_UNCACHEABLE, 0, 10000));
    probe = look(&f, 1, NULL);
    cr_assert_eq(probe.kind, LOOKUP_PROBE);
    fill(&f, 1, probe, NULL);
    probe = look(&f, 1, NULL);
    cr_assert_eq(probe.kind, LOOKUP_FRESH);
    tear_down(&f);
}

Test(store_memory, a_cancelled_load_hands_over_at_once)
{
    struct fixture f;
    struct lookup_answer load;

    set_up(&f);
    load = look(&f, 1, NULL);
    look(&f, 1, NULL);
    cr_assert(release(&f, 1, load.load, RELEASE_CANCELLED, 0, 1000));
    cr_assert_eq(wakes_after_turns(&f), 1);
    cr_assert_eq(look_as_waiter(&f, 1, NULL, load.load).kind, LOOKUP_LOAD);
    cr_assert_not(release(&f, 1, load.load, RELEASE_CANCELLED, 0, 0), "and cannot be given back twice");
    tear_down(&f);
}

Test(store_memory, only_the_right_token_releases_or_renews)
{
    struct fixture f;
    struct load_token none = {0, 0};

    set_up(&f);
    struct lookup_answer load = look(&f, 1, NULL);

    cr_assert_not(release(&f, 1, load_token_new(), RELEASE_UNCACHEABLE, 0, 1000));
    cr_assert_not(release(&f, 1, none, RELEASE_FAILED, 502, 1000));
    cr_assert_not(release(&f, 2, load.load, RELEASE_FAILED, 502, 1000), "tokens belong to their key");
    cr_assert_not(renew(&f, 1, none, 1));
    cr_assert_eq(look(&f, 1, NULL).kind, LOOKUP_WAIT);
    cr_assert(release(&f, 1, load.load, RELEASE_FAILED, 502, 1000));
    cr_assert_not(renew(&f, 1, load.load, LEASE_MS), "a marker is not a lock");
    tear_down(&f);
}

/* ---- calls ---- */

Test(store_memory, a_cancelled_lookup_is_not_answered_and_takes_no_lock)
{
    struct fixture f;
    struct answer answer = {0};
    struct lookup_ask ask = {.key = test_key(1), .lease_ms = LEASE_MS};
    struct store_call *call;

    set_up(&f);
    call = store_lookup(f.store, &ask, on_lookup, &answer);
    store_cancel(&call);
    cr_assert_null(call);
    store_cancel(&call);
    loop_turn(f.loop, 0);
    cr_assert_eq(answer.calls, 0);
    cr_assert_eq(look(&f, 1, NULL).kind, LOOKUP_LOAD);
    tear_down(&f);
}

Test(store_memory, a_cancelled_release_or_invalidation_happens_unheard)
{
    struct fixture f;
    struct answer answer = {0};
    struct slice tags[1] = {SLICE("a")};
    struct key32 key = test_key(1);
    struct store_call *call;
    struct lookup_answer load;
    int64_t before;

    set_up(&f);
    before = near_epoch(f.near);
    load = look(&f, 1, NULL);
    call = store_release(f.store, &key, load.load, RELEASE_CANCELLED, 0, 0, on_release, &answer);
    store_cancel(&call);
    call = store_invalidate(f.store, tags, 1, 0, on_invalidate, &answer);
    store_cancel(&call);
    loop_turn(f.loop, 0);
    cr_assert_eq(answer.calls, 0);
    cr_assert_eq(look(&f, 1, NULL).kind, LOOKUP_LOAD);
    cr_assert_gt(near_epoch(f.near), before);
    tear_down(&f);
}

struct chain { /* a callback that cancels the next call and starts another */
    struct fixture *f;
    struct store_call *next;
    struct answer started, cancelled;
};

static void on_first(void *arg, enum fault fault, bool was_held)
{
    struct chain *chain = arg;
    struct lookup_ask ask = {.key = test_key(5), .lease_ms = LEASE_MS};

    (void)fault;
    (void)was_held;
    store_cancel(&chain->next);
    store_lookup(chain->f->store, &ask, on_lookup, &chain->started);
    cr_assert_eq(chain->started.calls, 0, "never inside the start, not even from a callback");
}

Test(store_memory, a_callback_may_cancel_and_start)
{
    struct fixture f;
    struct chain chain = {.f = &f};
    struct key32 key = test_key(1);

    set_up(&f);
    store_renew(f.store, &key, load_token_new(), 1, on_first, &chain);
    chain.next = store_renew(f.store, &key, load_token_new(), 1, on_release, &chain.cancelled);
    loop_turn(f.loop, 0);
    cr_assert_eq(chain.cancelled.calls, 0);
    cr_assert_eq(chain.started.calls, 1, "in the same turn");
    cr_assert_eq(chain.started.lookup.kind, LOOKUP_LOAD);
    tear_down(&f);
}

Test(store_memory, a_handle_that_goes_gives_back_its_locks_and_answers_nobody)
{
    struct fixture f;
    struct answer answer = {0};
    struct key32 key = test_key(1);
    struct lookup_answer load;

    set_up(&f);
    load = look(&f, 1, NULL);
    look(&f, 1, NULL);
    store_release(f.store, &key, load.load, RELEASE_CANCELLED, 0, 0, on_release, &answer);
    f.store->ops->free(f.store); /* its own wake is on the way to it */
    cr_assert_eq(answer.calls, 0);
    loop_turn(f.loop, 0);
    f.store = store_memory_join(f.memory, f.loop);
    cr_assert_eq(look(&f, 1, NULL).kind, LOOKUP_LOAD);
    tear_down(&f);
}

Test(store_memory, every_joined_worker_is_woken)
{
    struct fixture f;
    struct store *other;
    struct loop *other_loop;
    struct fixture heard = {0};
    struct lookup_answer load;

    set_up(&f);
    other_loop = loop_new();
    other = store_memory_join(f.memory, other_loop);
    other->on_wake = on_wake;
    other->on_wake_arg = &heard;
    for (uint64_t i = 0; i < 100; i++) {
        load = look(&f, i, NULL);
        look(&f, i, NULL);
        fill(&f, i, load, NULL);
    }
    loop_turn(other_loop, 0);
    loop_turn(other_loop, 0);
    cr_assert_eq(heard.wakes, 100, "many in one letter, none lost");
    cr_assert_eq(wakes_after_turns(&f), 100);
    other->ops->free(other);
    loop_free(other_loop);
    tear_down(&f);
}

Test(store_memory, long_and_many_tags_are_copied_too)
{
    enum { TAGS = 100 };
    struct fixture f;
    static char text[TAGS][400];
    struct slice tags[TAGS];
    struct answer answer = {0};
    struct lookup_answer load;

    set_up(&f);
    for (int i = 0; i < TAGS; i++) {
        snprintf(text[i], sizeof(text[i]), "%0*d", 399, i);
        tags[i] = slice_text(text[i]);
    }
    load = look(&f, 1, NULL);
    store_invalidate(f.store, tags, TAGS, 0, on_invalidate, &answer);
    memset(text, 'x', sizeof(text));
    wait_for(&f, &answer);
    snprintf(text[0], sizeof(text[0]), "%0*d", 399, 77);
    cr_assert_eq(fill(&f, 1, load, text[0]), FILL_INVALIDATED);
    tear_down(&f);
}

Test(store_memory, tokens_are_never_zero_and_never_twice)
{
    struct load_token last = load_token_new();

    for (int i = 0; i < 1000; i++) {
        struct load_token token = load_token_new();

        cr_assert_not(is_none(token));
        cr_assert_not(same(token, last));
        last = token;
    }
}
