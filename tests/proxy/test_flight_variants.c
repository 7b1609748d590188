/* Flight, where one key is not one answer: variants, each with a lock of its own, and copies that the upstream confirms. */
#include "flight_rig.h"
#include "variant.h"

#include <criterion/criterion.h>

TestSuite(flight_variants, .timeout = 20);

static const struct load_token VARIANTS_LOCK = {8, 8};

static struct passenger a, b, c;

static bool is_key(const struct key32 *x, const struct key32 *y)
{
    return memcmp(x, y, sizeof(*x)) == 0;
}

static void say_claimed(size_t nth_lookup)
{
    fake_tell_lookup(store_call(FAKE_LOOKUP, nth_lookup), FAULT_NONE,
                     (struct lookup_answer){.kind = LOOKUP_LOAD, .load = VARIANTS_LOCK});
}

/* Anna's load has learnt that what she gets depends on her key. */
static void learn_that_it_varies(void)
{
    rig_start(true);
    passenger_board(&a, "anna");
    say_load(0, 0, NULL);
    head_with(0, 200, "vary", "x-api-key");
}

/* ---- variants ---- */

/* Once the rule was stored first: whoever was woken by that could take the variant's lock, and load it once more. */
Test(flight_variants, the_variants_lock_is_asked_for_before_anybody_can_learn_of_the_variant)
{
    size_t lookup = 0, fill = 0;

    learn_that_it_varies();
    for (size_t i = 0; i < rig.store.count; i++) {
        if (rig.store.calls[i].op == FAKE_LOOKUP)
            lookup = i; /* the last */
        if (rig.store.calls[i].op == FAKE_FILL)
            fill = i;
    }
    cr_assert_eq(store_count(FAKE_LOOKUP), 2);
    cr_assert_eq(store_count(FAKE_FILL), 1);
    cr_assert_lt(lookup, fill);
    struct key32 key = test_key(1);
    cr_assert(is_key(&rig.store.calls[fill].key, &key), "the rule is at the key that all ask for");
    cr_assert(object_is_rule(rig.store.calls[fill].object));
    cr_assert(rig.store.calls[fill].token.hi == LOCK.hi, "which ends the lock on it");
    cr_assert_not(is_key(&rig.store.calls[lookup].key, &key));
    passenger_leave(&a);
    rig_stop();
}

Test(flight_variants, an_answer_that_varies_is_stored_at_the_key_of_its_variant)
{
    learn_that_it_varies();
    cr_assert_eq(a.rider.result, CACHE_MISS);
    cr_assert(a.rider.is_stored);
    say_claimed(1);
    fetch_body(0, SLICE("for anna"));
    fetch_end(0, FAULT_NONE);
    struct fake_call *fill = store_call(FAKE_FILL, 1);
    cr_assert(is_key(&fill->key, &store_call(FAKE_LOOKUP, 1)->key));
    cr_assert(fill->token.hi == VARIANTS_LOCK.hi);
    cr_assert_eq(fill->object->body_bytes, 8);
    fake_tell_fill(fill, FAULT_NONE, FILL_STORED);
    cr_expect_text(&a, "for anna", CLIENT_LAST);
    cr_assert_eq(flights_under_way(rig.flights), 0);
    passenger_leave(&a);
    rig_stop();
}

Test(flight_variants, who_rode_for_another_variant_goes_on_to_its_own_and_is_told_nothing_of_this_one)
{
    rig_start(true);
    passenger_board(&a, "anna");
    passenger_board(&b, "bert");
    passenger_board(&c, "anna");
    say_load(0, 0, NULL);
    head_with(0, 200, "vary", "x-api-key");
    cr_assert(a.landings == 1 && c.landings == 1 && b.landings == 0);
    cr_assert_eq(c.rider.result, CACHE_WAIT, "she says the same");
    cr_assert_eq(store_count(FAKE_LOOKUP), 3);
    cr_assert_not(is_key(&store_call(FAKE_LOOKUP, 1)->key, &store_call(FAKE_LOOKUP, 2)->key));
    say_claimed(1);
    fake_tell_lookup(store_call(FAKE_LOOKUP, 2), FAULT_NONE,
                     (struct lookup_answer){.kind = LOOKUP_LOAD, .load = OTHERS_LOCK});
    cr_assert_eq(fake_origin.started, 2);
    cr_assert_str_eq(fake_origin.asked_by[1], "bert");
    head_with(1, 200, "vary", "x-api-key");
    cr_assert_eq(b.rider.result, CACHE_MISS);
    cr_assert_eq(store_count(FAKE_FILL), 1, "the rule is known by now");
    passenger_leave(&a), passenger_leave(&b), passenger_leave(&c);
    rig_stop();
}

Test(flight_variants, without_its_variants_lock_an_answer_is_for_its_riders_alone)
{
    learn_that_it_varies();
    say_wait(1, NULL);
    fetch_body(0, SLICE("x"));
    fetch_end(0, FAULT_NONE);
    cr_expect_text(&a, "x", CLIENT_LAST);
    cr_assert_eq(store_count(FAKE_FILL), 1, "the rule's");
    cr_assert_eq(flights_under_way(rig.flights), 0);
    passenger_leave(&a);
    rig_stop();
}

Test(flight_variants, an_answer_that_is_whole_before_its_variants_lock_came_is_stored_when_it_comes)
{
    learn_that_it_varies();
    fetch_body(0, SLICE("x"));
    fetch_end(0, FAULT_NONE);
    cr_expect_text(&a, "x", CLIENT_LAST);
    cr_assert_eq(store_count(FAKE_FILL), 1);
    say_claimed(1);
    cr_assert_eq(store_count(FAKE_FILL), 2);
    fake_tell_fill(store_call(FAKE_FILL, 1), FAULT_NONE, FILL_STORED);
    cr_assert_eq(flights_under_way(rig.flights), 0);
    passenger_leave(&a);
    rig_stop();
}

Test(flight_variants, a_load_that_breaks_gives_its_variants_lock_back)
{
    learn_that_it_varies();
    say_claimed(1);
    fetch_body(0, SLICE("x"));
    fetch_end(0, FAULT_ORIGIN_BROKE);
    cr_assert(store_call(FAKE_RELEASE, 0)->token.hi == VARIANTS_LOCK.hi);
    cr_assert_eq(store_call(FAKE_RELEASE, 0)->why, RELEASE_FAILED);
    say_released(0);
    cr_expect_text(&a, "x", CLIENT_BROKEN);
    passenger_leave(&a);
    rig_stop();
}

Test(flight_variants, a_rule_that_the_store_has_leads_each_to_a_key_of_its_own)
{
    struct lifetimes lifetimes;
    struct object *rule;

    rig_start(true);
    passenger_board(&a, "anna");
    passenger_board(&b, "bert");
    rule = variant_rule_new(&a.plan, SLICE("x-api-key"), 0, loop_now(rig.loop), &lifetimes);
    say(0, LOOKUP_FRESH, rule);
    cr_assert_eq(store_count(FAKE_LOOKUP), 3);
    cr_assert_not(is_key(&store_call(FAKE_LOOKUP, 1)->key, &store_call(FAKE_LOOKUP, 2)->key));
    cr_assert_eq(fake_origin.started, 0);
    passenger_leave(&a), passenger_leave(&b);
    object_release(&rule);
    rig_stop();
}

/* No store of ours gives one out so; but what is in Redis may be damaged, or another's. */
Test(flight_variants, a_stale_rule_is_no_copy_to_serve)
{
    struct load_token locks[] = {{0, 0}, LOCK};
    struct lifetimes lifetimes;

    for (size_t i = 0; i < 2; i++) {
        struct object *rule;

        rig_start(true);
        passenger_board(&a, "anna");
        rule = variant_rule_new(&a.plan, SLICE("x-api-key"), 0, loop_now(rig.loop), &lifetimes);
        fake_tell_lookup(
            store_call(FAKE_LOOKUP, 0), FAULT_NONE,
            (struct lookup_answer){.kind = LOOKUP_STALE, .object = rule, .load = locks[i], .wait_ms = 10});
        cr_assert_eq(store_count(FAKE_LOOKUP), i == 0 ? 2 : 1, "the rule leads on, or it is loaded anew");
        cr_assert_eq(fake_origin.started, i);
        passenger_leave(&a);
        object_release(&rule);
        rig_stop();
    }
}

/* ---- confirmations ---- */

/* A copy past its time that the upstream can be asked about. */
static struct object *copy_with_etag(void)
{
    struct header header = {SLICE("etag"), SLICE("\"one\"")};
    struct slice tag = SLICE("declared");
    struct lifetimes lifetimes = {.keep_ms = 60000};
    struct key32 key = test_key(1);
    struct block *block = block_new(3);
    struct object *object;

    memcpy(block->bytes, "old", 3);
    block->len = 3;
    object = object_new(&key, 0, 200, &header, 1, &tag, 1, &block, 1, &lifetimes, loop_now(rig.loop));
    block_release(&block);
    return object;
}

static void ask_whether_it_changed(struct object **copy)
{
    rig_start(true);
    *copy = copy_with_etag();
    passenger_board(&a, "anna");
    passenger_board(&b, "bert");
    say_load(0, 7, *copy);
    cr_assert_eq(fake_origin.started, 1);
}

Test(flight_variants, a_copy_that_has_not_changed_is_given_to_all_and_stored_as_new)
{
    struct object *copy;

    ask_whether_it_changed(&copy);
    head_with(0, 304, "cache-control", "max-age=60");
    cr_assert_eq(a.landings, 0, "once it has ended, so that its connection can serve again");
    fetch_end(0, FAULT_NONE);
    cr_assert_eq(a.rider.outcome, BOARDING_OBJECT);
    cr_assert_eq(a.rider.result, CACHE_REVALIDATED);
    cr_assert_eq(b.rider.result, CACHE_WAIT);
    cr_assert_eq(a.rider.object->body_bytes, 3);
    cr_assert_neq(a.rider.object, copy, "its fields are the 304's");
    struct fake_call *fill = store_call(FAKE_FILL, 0);
    cr_assert_eq(fill->object->epoch, 7, "as one that was loaded now");
    cr_assert(fill->lifetimes.fresh_ms > 50000 && fill->lifetimes.fresh_ms <= 60000);
    fake_tell_fill(fill, FAULT_NONE, FILL_STORED);
    cr_assert_eq(times_given_back(), 1);
    passenger_leave(&a), passenger_leave(&b);
    object_release(&copy);
    rig_stop();
}

Test(flight_variants, a_copy_that_changed_is_replaced_by_what_came)
{
    struct object *copy;

    ask_whether_it_changed(&copy);
    head_ok(0, 3);
    cr_assert_eq(a.rider.result, CACHE_MISS);
    fetch_body(0, SLICE("new"));
    fetch_end(0, FAULT_NONE);
    cr_expect_text(&a, "new", CLIENT_LAST);
    cr_expect_text(&b, "new", CLIENT_LAST);
    fake_tell_fill(store_call(FAKE_FILL, 0), FAULT_NONE, FILL_STORED);
    passenger_leave(&a), passenger_leave(&b);
    object_release(&copy);
    rig_stop();
}

Test(flight_variants, a_confirmation_that_forbids_to_share_is_for_its_leader_alone)
{
    struct object *copy;

    ask_whether_it_changed(&copy);
    head_with(0, 304, "cache-control", "private");
    fetch_end(0, FAULT_NONE);
    cr_assert_eq(a.rider.outcome, BOARDING_OBJECT);
    cr_assert_eq(b.rider.outcome, BOARDING_ALONE);
    cr_assert_eq(store_count(FAKE_FILL), 0);
    cr_assert_eq(store_call(FAKE_RELEASE, 0)->why, RELEASE_UNCACHEABLE, "and ends what is stored");
    cr_assert_eq(times_given_back(), 1);
    passenger_leave(&a), passenger_leave(&b);
    object_release(&copy);
    rig_stop();
}

Test(flight_variants, a_confirmation_that_an_invalidation_overtook_is_its_leaders_alone)
{
    struct object *copy;

    ask_whether_it_changed(&copy);
    head_with(0, 304, "cache-control", "max-age=60");
    invalidate_near("declared", 9);
    fetch_end(0, FAULT_NONE);
    cr_assert_eq(a.rider.outcome, BOARDING_OBJECT, "it asked before that");
    cr_assert_eq(b.landings, 0);
    cr_assert_eq(store_count(FAKE_LOOKUP), 2, "the other looks again");
    cr_assert_eq(store_count(FAKE_FILL), 0);
    cr_assert_eq(times_given_back(), 1);
    passenger_leave(&a), passenger_leave(&b);
    object_release(&copy);
    rig_stop();
}

Test(flight_variants, a_confirmation_that_breaks_off_confirms_nothing)
{
    struct object *copy;

    ask_whether_it_changed(&copy);
    head_with(0, 304, "cache-control", "max-age=60");
    fetch_end(0, FAULT_ORIGIN_BROKE);
    say_released(0);
    cr_assert(a.rider.result == CACHE_STALE && b.rider.result == CACHE_STALE,
              "which may stand in, as it was");
    cr_assert_eq(a.rider.object, copy);
    cr_assert_eq(store_count(FAKE_FILL), 0);
    passenger_leave(&a), passenger_leave(&b);
    object_release(&copy);
    rig_stop();
}
