/* Flight: who leads, who rides, what each is told, and that the lock is given back exactly once on every way
 * out. */
#include "flight_rig.h"

#include <criterion/criterion.h>

TestSuite(flight, .timeout = 20);

static struct passenger a, b, c;

/* ---- leading and riding ---- */

Test(flight, one_leads_the_others_ride_and_all_get_every_byte)
{
    rig_start(true);
    passenger_board(&a, "anna");
    passenger_board(&b, "bert");
    cr_assert_eq(store_count(FAKE_LOOKUP), 1, "one question for all");
    say_load(0, 5, NULL);
    cr_assert_eq(fake_origin.started, 1);
    cr_assert_str_eq(fake_origin.asked_by[0], "anna");
    head_ok(0, 10);
    cr_assert_eq(a.rider.result, CACHE_MISS);
    cr_assert_eq(b.rider.result, CACHE_WAIT);
    cr_assert(a.rider.is_stored && b.rider.is_stored);
    fetch_body(0, SLICE("hello"));
    passenger_board(&c, "carl");
    rig_turn();
    cr_assert_eq(c.rider.result, CACHE_WAIT, "a latecomer reads from the start");
    fetch_body(0, SLICE("world"));
    fetch_end(0, FAULT_NONE);
    cr_expect_text(&a, "helloworld", CLIENT_LAST);
    cr_expect_text(&b, "helloworld", CLIENT_LAST);
    cr_expect_text(&c, "helloworld", CLIENT_LAST);
    cr_assert_eq(store_call(FAKE_FILL, 0)->object->body_bytes, 10);
    cr_assert_eq(store_call(FAKE_FILL, 0)->object->epoch, 5, "the epoch at which the load began");
    fake_tell_fill(store_call(FAKE_FILL, 0), FAULT_NONE, FILL_STORED);
    cr_assert_eq(times_given_back(), 1);
    cr_assert_eq(flights_under_way(rig.flights), 0);
    struct object *near = near_find(rig.near, &a.plan.key, loop_now(rig.loop));
    cr_assert_not_null(near, "what the store took is near from now on");
    object_release(&near);
    passenger_leave(&a), passenger_leave(&b), passenger_leave(&c);
    rig_stop();
}

Test(flight, whoever_boards_while_the_store_is_told_has_waited_for_nobody)
{
    rig_start(true);
    passenger_board(&a, "anna");
    say_load(0, 0, NULL);
    head_ok(0, 2);
    fetch_body(0, SLICE("ok"));
    fetch_end(0, FAULT_NONE);
    passenger_board(&b, "bert");
    fake_tell_fill(store_call(FAKE_FILL, 0), FAULT_NONE, FILL_STORED); /* before the turn's end tells b */
    cr_assert_eq(b.rider.outcome, BOARDING_OBJECT);
    cr_expect_eq(b.rider.result, CACHE_HIT, "the same client, asking again, must not seem to have waited");
    cr_expect_eq(b.rider.object->body_bytes, 2);
    rig_turn();
    passenger_leave(&a), passenger_leave(&b);
    rig_stop();
}

Test(flight, what_the_store_has_is_for_all_riders)
{
    rig_start(true);
    struct object *object = test_object(1, 0, "declared", 3, 60000, 60000, 60000, loop_now(rig.loop));
    passenger_board(&a, "anna");
    passenger_board(&b, "bert");
    say(0, LOOKUP_FRESH, object);
    cr_assert_eq(a.rider.object, object);
    cr_assert_eq(a.rider.result, CACHE_HIT);
    cr_assert_eq(b.rider.object, object);
    cr_assert_eq(flights_under_way(rig.flights), 0);
    cr_assert_eq(fake_origin.started, 0);
    passenger_leave(&a), passenger_leave(&b);
    object_release(&object);
    rig_stop();
}

/* Once a private answer that was loaded with one client's credentials reached the client that was next in
 * line. */
Test(flight, a_load_carries_the_credentials_of_the_one_who_may_get_its_answer_alone)
{
    rig_start(true);
    passenger_board(&a, "anna");
    passenger_board(&b, "bert");
    passenger_leave(&a); /* her plan was the first */
    say_load(0, 0, NULL);
    cr_assert_str_eq(fake_origin.asked_by[0], "bert");
    head_with(0, 200, "cache-control", "private");
    cr_assert_eq(b.rider.outcome, BOARDING_STREAM);
    passenger_leave(&b);
    rig_stop();
}

Test(flight, a_refresh_that_a_client_rides_is_loaded_with_that_clients_credentials)
{
    rig_start(true);
    passenger_init(&a, ROUTE_PATIENT, "anna");
    flight_refresh(rig.flights, &a.plan);
    passenger_board(&b, "bert");
    say_load(0, 0, NULL);
    cr_assert_str_eq(fake_origin.asked_by[0], "bert");
    passenger_leave(&b);
    rig_stop();
}

Test(flight, a_client_whose_patience_ended_leaves_its_credentials_behind_with_nobody)
{
    rig_start(true);
    passenger_init(&a, ROUTE_HURRIED, "anna");
    flight_board(rig.flights, &a.rider);
    passenger_board(&b, "bert");
    while (a.landings == 0)
        loop_turn(rig.loop, 100);
    cr_assert_eq(a.rider.outcome, BOARDING_ALONE);
    cr_assert_str_eq(a.rider.why, "lock-timeout");
    say_load(0, 0, NULL);
    cr_assert_str_eq(fake_origin.asked_by[0], "bert");
    passenger_leave(&b);
    rig_stop();
}

Test(flight, a_private_answer_is_for_its_leader_and_the_others_go_alone)
{
    static const struct {
        const char *why, *name, *value;
        enum release_reason reason;
    } rows[] = {
        {"the next one will be private too", "cache-control", "private", RELEASE_UNCACHEABLE},
        {"a cookie is one client's", "set-cookie", "session=1", RELEASE_UNCACHEABLE},
        {"it must not be kept", "cache-control", "no-store", RELEASE_UNCACHEABLE},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        memset(&fake_origin, 0, sizeof(fake_origin));
        rig_start(true);
        passenger_board(&a, "anna");
        passenger_board(&b, "bert");
        say_load(0, 0, NULL);
        head_with(0, 200, rows[i].name, rows[i].value);
        cr_assert_eq(a.rider.outcome, BOARDING_STREAM, "%s", rows[i].why);
        cr_assert_eq(a.rider.result, CACHE_MISS);
        cr_assert(!a.rider.is_stored);
        cr_assert_eq(b.rider.outcome, BOARDING_ALONE, "%s", rows[i].why);
        cr_assert_eq(b.landings, 1);
        cr_assert_eq(store_call(FAKE_RELEASE, 0)->why, rows[i].reason, "%s", rows[i].why);
        cr_assert_gt(store_call(FAKE_RELEASE, 0)->marker_ms, 0);
        cr_assert_eq(times_given_back(), 1);
        fetch_body(0, SLICE("mine"));
        fetch_end(0, FAULT_NONE);
        cr_expect_text(&a, "mine", CLIENT_LAST);
        cr_assert_eq(store_count(FAKE_FILL), 0);
        passenger_leave(&a), passenger_leave(&b);
        rig_stop();
    }
}

Test(flight, a_private_answer_that_nobody_is_left_for_ends_unread)
{
    rig_start(true);
    passenger_board(&a, "anna");
    passenger_board(&b, "bert");
    say_load(0, 0, NULL);
    passenger_leave(&a);
    head_with(0, 200, "cache-control", "private");
    cr_assert_eq(b.rider.outcome, BOARDING_ALONE);
    cr_assert_eq(fake_origin.cancelled, 1);
    cr_assert_eq(times_given_back(), 1);
    rig_stop();
}

Test(flight, a_load_goes_on_when_its_leader_leaves)
{
    rig_start(true);
    passenger_board(&a, "anna");
    passenger_board(&b, "bert");
    say_load(0, 0, NULL);
    passenger_leave(&a);
    head_ok(0, 2);
    cr_assert_eq(b.rider.result, CACHE_WAIT);
    fetch_body(0, SLICE("ok"));
    passenger_leave(&b);
    fetch_end(0, FAULT_NONE);
    cr_assert_eq(a.landings, 0);
    cr_assert_eq(store_count(FAKE_FILL), 1, "a load is kept though nobody is left to read it");
    rig_stop();
}

Test(flight, a_rider_may_take_another_along_when_it_is_told)
{
    rig_start(true);
    passenger_board(&a, "anna");
    passenger_board(&b, "bert");
    passenger_board(&c, "carl");
    a.companion = &b;
    say_load(0, 0, NULL);
    head_ok(0, 2);
    cr_assert_eq(b.landings, 0);
    cr_assert_eq(c.landings, 1);
    passenger_leave(&a), passenger_leave(&c);
    rig_stop();
}

Test(flight, the_next_to_be_told_may_leave_while_an_object_is_handed_out)
{
    rig_start(true);
    struct object *object = test_object(1, 0, NULL, 3, 60000, 60000, 60000, loop_now(rig.loop));
    passenger_board(&a, "anna");
    passenger_board(&b, "bert");
    a.companion = &b;
    say(0, LOOKUP_FRESH, object);
    cr_assert_eq(b.landings, 0);
    passenger_leave(&a);
    object_release(&object);
    rig_stop();
}

/* ---- waiting for others ---- */

Test(flight, a_wake_asks_the_store_again_naming_whom_it_waited_for)
{
    rig_start(true);
    struct object *object = test_object(1, 0, "declared", 3, 60000, 60000, 60000, loop_now(rig.loop));
    passenger_board(&a, "anna");
    say_wait(0, NULL);
    rig_turn();
    cr_assert_eq(store_count(FAKE_LOOKUP), 1);
    flights_wake(rig.flights, &a.plan.key);
    flights_wake(rig.flights, &a.plan.key); /* a second wake while it asks is nothing new */
    cr_assert_eq(store_count(FAKE_LOOKUP), 2);
    cr_assert_eq(store_call(FAKE_LOOKUP, 1)->token.hi, OTHERS_LOCK.hi);
    say(1, LOOKUP_FRESH, object);
    cr_assert_eq(a.rider.result, CACHE_WAIT);
    passenger_leave(&a);
    object_release(&object);
    rig_stop();
}

Test(flight, a_lost_wake_is_made_up_for_by_asking_again_after_a_while)
{
    rig_start(true);
    passenger_board(&a, "anna");
    say_wait(0, NULL);
    while (store_count(FAKE_LOOKUP) < 2)
        loop_turn(rig.loop, 100);
    passenger_leave(&a);
    say_wait(1, NULL);
    while (flights_under_way(rig.flights) > 0) /* nobody waits any more: nobody asks any more */
        loop_turn(rig.loop, 100);
    cr_assert_eq(store_count(FAKE_LOOKUP), 2);
    rig_stop();
}

Test(flight, those_who_wait_go_alone_when_the_answer_is_known_to_be_unshareable)
{
    rig_start(true);
    passenger_board(&a, "anna");
    passenger_board(&b, "bert");
    say_wait(0, NULL);
    flights_wake(rig.flights, &a.plan.key);
    say(1, LOOKUP_PASS, NULL);
    cr_assert_eq(a.rider.outcome, BOARDING_ALONE);
    cr_assert_eq(b.rider.outcome, BOARDING_ALONE);
    cr_assert_str_eq(a.rider.why, "pass");
    cr_assert_eq(times_given_back(), 0, "there was no lock");
    rig_stop();
}

Test(flight, of_those_who_come_while_a_key_is_passed_one_finds_out_and_nobody_waits_for_it)
{
    rig_start(true);
    passenger_board(&a, "anna");
    passenger_board(&b, "bert");
    say_probe(0);
    cr_assert_eq(b.rider.outcome, BOARDING_ALONE);
    cr_assert_str_eq(b.rider.why, "pass");
    cr_assert_eq(fake_origin.started, 1);
    cr_assert_str_eq(fake_origin.asked_by[0], "anna");
    passenger_board(&c, "carl");
    cr_assert_eq(store_count(FAKE_LOOKUP), 2,
                 "who comes later does not board what may be another private answer");
    say(1, LOOKUP_PASS, NULL);
    cr_assert_eq(c.rider.outcome, BOARDING_ALONE);
    head_with(0, 200, "cache-control", "private");
    cr_assert_eq(a.rider.outcome, BOARDING_STREAM);
    cr_assert_eq(store_call(FAKE_RELEASE, 0)->why, RELEASE_UNCACHEABLE);
    cr_assert_eq(times_given_back(), 1);
    passenger_leave(&a);
    rig_stop();
}

Test(flight, a_probe_that_can_be_shared_takes_riders_from_its_head_on_and_is_stored)
{
    rig_start(true);
    passenger_board(&a, "anna");
    say_probe(0);
    head_ok(0, 2);
    passenger_board(&b, "bert");
    rig_turn();
    cr_assert_eq(store_count(FAKE_LOOKUP), 1);
    cr_assert_eq(b.rider.result, CACHE_WAIT);
    fetch_body(0, SLICE("ok"));
    fetch_end(0, FAULT_NONE);
    cr_expect_text(&a, "ok", CLIENT_LAST);
    cr_expect_text(&b, "ok", CLIENT_LAST);
    fake_tell_fill(store_call(FAKE_FILL, 0), FAULT_NONE, FILL_STORED);
    cr_assert_eq(times_given_back(), 1);
    passenger_leave(&a), passenger_leave(&b);
    rig_stop();
}

Test(flight, a_probe_whose_client_has_left_is_led_with_the_credentials_of_who_is_there)
{
    rig_start(true);
    passenger_board(&a, "anna");
    passenger_board(&b, "bert");
    passenger_leave(&a);
    say_probe(0);
    cr_assert_str_eq(fake_origin.asked_by[0], "bert");
    cr_assert_eq(b.landings, 0, "it waits for its own answer");
    passenger_leave(&b);
    rig_stop();
}

Test(flight, those_who_waited_for_a_load_that_failed_share_its_failure)
{
    rig_start(true);
    passenger_board(&a, "anna");
    say_wait(0, NULL);
    flights_wake(rig.flights, &a.plan.key);
    say(1, LOOKUP_FAILED, NULL);
    cr_assert_eq(a.rider.outcome, BOARDING_FAILED);
    cr_assert_eq(a.rider.status, 502);
    cr_assert_eq(fake_origin.started, 0);
    rig_stop();
}

Test(flight, those_who_waited_for_a_load_that_failed_get_the_copy_that_may_stand_in)
{
    rig_start(true);
    struct object *copy = test_object(1, 0, "declared", 3, 0, 0, 60000, loop_now(rig.loop));
    passenger_board(&a, "anna");
    say_wait(0, copy);
    flights_wake(rig.flights, &a.plan.key);
    say(1, LOOKUP_FAILED, copy);
    cr_assert_eq(a.rider.outcome, BOARDING_OBJECT);
    cr_assert_eq(a.rider.result, CACHE_STALE);
    passenger_leave(&a);
    object_release(&copy);
    rig_stop();
}

Test(flight, patience_ends_while_another_rides_on)
{
    rig_start(true);
    passenger_board(&b, "bert");
    passenger_init(&a, ROUTE_HURRIED, "anna");
    flight_board(rig.flights, &a.rider);
    say_load(0, 0, NULL);
    while (a.landings == 0)
        loop_turn(rig.loop, 100);
    cr_assert_eq(a.rider.outcome, BOARDING_ALONE);
    cr_assert_eq(b.landings, 0);
    head_ok(0, 0);
    cr_assert_eq(b.landings, 1);
    cr_assert_eq(a.landings, 1);
    passenger_leave(&b);
    rig_stop();
}

Test(flight, a_leader_waits_for_as_long_as_its_upstream_may)
{
    rig_start(true);
    passenger_init(&a, ROUTE_HURRIED, "anna");
    flight_board(rig.flights, &a.rider);
    passenger_init(&b, ROUTE_HURRIED, "bert");
    flight_board(rig.flights, &b.rider);
    say_load(0, 0, NULL);
    while (b.landings == 0) /* both had the same patience */
        loop_turn(rig.loop, 100);
    cr_assert_eq(a.landings, 0);
    passenger_leave(&a);
    rig_stop();
}

/* ---- stale copies ---- */

Test(flight, stale_is_served_at_once_and_one_refresh_runs_behind)
{
    rig_start(true);
    struct object *copy = test_object(1, 0, "declared", 3, 0, 60000, 60000, loop_now(rig.loop));
    passenger_board(&a, "anna");
    fake_tell_lookup(store_call(FAKE_LOOKUP, 0), FAULT_NONE,
                     (struct lookup_answer){.kind = LOOKUP_STALE, .object = copy, .load = LOCK, .epoch = 0});
    cr_assert_eq(a.rider.result, CACHE_STALE);
    cr_assert_eq(a.rider.object, copy);
    cr_assert_eq(fake_origin.started, 1);
    head_ok(0, 2);
    fetch_body(0, SLICE("ok"));
    fetch_end(0, FAULT_NONE);
    fake_tell_fill(store_call(FAKE_FILL, 0), FAULT_NONE, FILL_STORED);
    cr_assert_eq(a.landings, 1);
    cr_assert_eq(times_given_back(), 1);
    passenger_leave(&a);
    object_release(&copy);
    rig_stop();
}

/* Once these waited for the whole refresh wherever the copy was too large for the near cache. */
Test(flight, whoever_comes_while_a_refresh_runs_gets_the_stale_copy_too)
{
    rig_start(true);
    struct object *copy = test_object(1, 0, "declared", 3, 0, 60000, 60000, loop_now(rig.loop));
    passenger_board(&a, "anna");
    fake_tell_lookup(store_call(FAKE_LOOKUP, 0), FAULT_NONE,
                     (struct lookup_answer){.kind = LOOKUP_STALE, .object = copy, .load = LOCK, .epoch = 0});
    passenger_board(&b, "bert");
    rig_turn();
    cr_assert_eq(b.landings, 1);
    cr_assert_eq(b.rider.object, copy);
    cr_assert_eq(b.rider.result, CACHE_STALE);
    cr_assert_eq(fake_origin.started, 1);
    head_ok(0, 2);
    passenger_board(&c, "carl");
    rig_turn();
    cr_assert_eq(c.rider.outcome, BOARDING_STREAM, "what is fresher is served where it is there");
    passenger_leave(&a), passenger_leave(&b), passenger_leave(&c);
    object_release(&copy);
    rig_stop();
}

Test(flight, whoever_comes_while_another_node_refreshes_gets_the_stale_copy_too)
{
    rig_start(true);
    struct object *copy = test_object(1, 0, "declared", 3, 0, 60000, 60000, loop_now(rig.loop));
    passenger_board(&a, "anna");
    say(0, LOOKUP_STALE, copy);
    passenger_board(&b, "bert");
    rig_turn();
    cr_assert_eq(b.rider.object, copy);
    cr_assert_eq(store_count(FAKE_LOOKUP), 1);
    passenger_leave(&a), passenger_leave(&b);
    while (flights_under_way(rig.flights) > 0)
        loop_turn(rig.loop, 100);
    object_release(&copy);
    rig_stop();
}

Test(flight, a_copy_that_was_invalidated_meanwhile_is_given_to_nobody)
{
    rig_start(true);
    struct object *copy = test_object(1, 0, "declared", 3, 0, 60000, 60000, loop_now(rig.loop));
    passenger_board(&a, "anna");
    fake_tell_lookup(store_call(FAKE_LOOKUP, 0), FAULT_NONE,
                     (struct lookup_answer){.kind = LOOKUP_STALE, .object = copy, .load = LOCK, .epoch = 0});
    invalidate_near("declared", 5);
    passenger_board(&b, "bert");
    rig_turn();
    cr_assert_eq(b.landings, 0);
    cr_assert_eq(store_count(FAKE_LOOKUP), 2, "a flight of its own");
    passenger_leave(&a), passenger_leave(&b);
    object_release(&copy);
    rig_stop();
}

Test(flight, a_failed_load_is_answered_by_the_copy_that_may_stand_in)
{
    rig_start(true);
    struct object *copy = test_object(1, 0, "declared", 3, 0, 0, 60000, loop_now(rig.loop));
    passenger_board(&a, "anna");
    passenger_board(&b, "bert");
    say_load(0, 0, copy);
    fetch_end(0, FAULT_ORIGIN_SILENT);
    say_released(0);
    cr_assert_eq(a.rider.object, copy);
    cr_assert_eq(b.rider.object, copy);
    cr_assert_str_eq(b.rider.why, "upstream-error");
    cr_assert_eq(store_call(FAKE_RELEASE, 0)->why, RELEASE_FAILED);
    cr_assert_eq(store_call(FAKE_RELEASE, 0)->status, 504);
    cr_assert_eq(times_given_back(), 1);
    passenger_leave(&a), passenger_leave(&b);
    object_release(&copy);
    rig_stop();
}

Test(flight, an_error_answer_is_replaced_by_the_copy_that_may_stand_in)
{
    rig_start(true);
    struct object *copy = test_object(1, 0, "declared", 3, 0, 0, 60000, loop_now(rig.loop));
    passenger_board(&a, "anna");
    say_load(0, 0, copy);
    fetch_head(0, 503, -1, NULL, 0);
    say_released(0);
    cr_assert_eq(a.rider.object, copy);
    cr_assert_eq(fake_origin.cancelled, 1, "its body is of no use");
    cr_assert_eq(times_given_back(), 1);
    passenger_leave(&a);
    object_release(&copy);
    rig_stop();
}

Test(flight, an_error_answer_is_passed_on_where_the_copy_may_not_stand_in_any_more)
{
    rig_start(true);
    struct object *copy = test_object(1, 0, "declared", 3, 0, 0, 60000, loop_now(rig.loop));
    passenger_board(&a, "anna");
    passenger_board(&b, "bert");
    say_load(0, 0, copy);
    invalidate_near("declared", 5);
    fetch_head(0, 503, -1, NULL, 0);
    fetch_body(0, SLICE("sorry"));
    fetch_end(0, FAULT_NONE);
    say_released(0);
    cr_expect_text(&a, "sorry", CLIENT_LAST);
    cr_expect_text(&b, "sorry", CLIENT_LAST);
    cr_assert_eq(store_count(FAKE_FILL), 0);
    cr_assert_eq(times_given_back(), 1);
    passenger_leave(&a), passenger_leave(&b);
    object_release(&copy);
    rig_stop();
}

static const struct header COOKIE_FIELD[] = {{{"set-cookie", 10}, {"a=b", 3}}};

Test(flight, an_error_answer_that_is_private_goes_to_its_leader_and_the_others_learn_of_the_failure)
{
    rig_start(true);
    passenger_board(&a, "anna");
    passenger_board(&b, "bert");
    say_load(0, 0, NULL);
    fetch_head(0, 503, -1, COOKIE_FIELD, 1);
    fetch_body(0, SLICE("sorry, anna"));
    fetch_end(0, FAULT_NONE);
    say_released(0);
    cr_expect_text(&a, "sorry, anna", CLIENT_LAST);
    cr_assert_eq(b.rider.outcome, BOARDING_FAILED);
    cr_assert_eq(b.rider.status, 503);
    cr_assert_eq(store_call(FAKE_RELEASE, 0)->why, RELEASE_FAILED,
                 "an upstream in trouble is not asked by all");
    cr_assert_eq(times_given_back(), 1);
    passenger_leave(&a), passenger_leave(&b);
    rig_stop();
}

Test(flight, a_private_error_answer_is_replaced_by_the_copy_that_may_stand_in)
{
    rig_start(true);
    struct object *copy = test_object(1, 0, "declared", 3, 0, 0, 60000, loop_now(rig.loop));
    passenger_board(&a, "anna");
    say_load(0, 0, copy);
    fetch_head(0, 503, -1, COOKIE_FIELD, 1);
    say_released(0);
    cr_assert_eq(a.rider.object, copy);
    cr_assert_eq(times_given_back(), 1);
    passenger_leave(&a);
    object_release(&copy);
    rig_stop();
}

/* ---- failures ---- */

Test(flight, a_load_that_fails_before_its_head_fails_for_all_at_once)
{
    rig_start(true);
    passenger_board(&a, "anna");
    passenger_board(&b, "bert");
    say_load(0, 0, NULL);
    fetch_end(0, FAULT_ORIGIN_REFUSED);
    cr_assert_eq(a.landings + b.landings, 0,
                 "who was told and asks again must not meet a lock that is still held");
    say_released(0);
    cr_assert_eq(a.rider.outcome, BOARDING_FAILED);
    cr_assert_eq(b.rider.outcome, BOARDING_FAILED);
    cr_assert_eq(b.rider.fault, FAULT_ORIGIN_REFUSED);
    cr_assert_eq(fake_origin.started, 1, "nobody tries again in turn");
    cr_assert_eq(store_call(FAKE_RELEASE, 0)->why, RELEASE_FAILED);
    cr_assert_gt(store_call(FAKE_RELEASE, 0)->marker_ms, 0);
    cr_assert_eq(times_given_back(), 1);
    rig_stop();
}

Test(flight, a_load_that_breaks_is_broken_for_its_readers_and_never_stored)
{
    rig_start(true);
    passenger_board(&a, "anna");
    say_load(0, 0, NULL);
    head_ok(0, 10);
    fetch_body(0, SLICE("half"));
    passenger_board(&b, "bert"); /* not told yet */
    fetch_end(0, FAULT_ORIGIN_BROKE);
    say_released(0);
    cr_expect_text(&a, "half", CLIENT_BROKEN);
    cr_assert_eq(b.rider.outcome, BOARDING_FAILED, "who has seen nothing yet gets a whole answer");
    cr_assert_eq(store_count(FAKE_FILL), 0);
    cr_assert_eq(times_given_back(), 1);
    rig_turn();
    passenger_leave(&a), passenger_leave(&b);
    rig_stop();
}

Test(flight, an_answer_that_grows_too_large_reaches_its_readers_and_is_not_stored)
{
    char much[1000];

    memset(much, 'x', sizeof(much));
    rig_start(true);
    passenger_board(&a, "anna");
    passenger_board(&b, "bert");
    say_load(0, 0, NULL);
    head_ok(0, -1);
    fetch_body(0, slice_of(much, sizeof(much)));
    cr_assert_eq(times_given_back(), 0);
    fetch_body(0, slice_of(much, sizeof(much)));
    cr_assert_eq(store_call(FAKE_RELEASE, 0)->why, RELEASE_UNCACHEABLE);
    cr_assert_eq(flights_under_way(rig.flights), 0);
    passenger_board(&c, "carl");
    cr_assert_eq(store_count(FAKE_LOOKUP), 2, "who comes now can't read from the start");
    passenger_leave(&a);
    fetch_body(0, slice_of(much, sizeof(much)));
    fetch_end(0, FAULT_NONE);
    cr_assert_eq(b.got_len, 3000);
    cr_assert_eq(b.ending, CLIENT_LAST);
    cr_assert_eq(store_count(FAKE_FILL), 0);
    cr_assert_eq(times_given_back(), 1);
    passenger_leave(&b), passenger_leave(&c);
    rig_stop();
}

Test(flight, an_answer_too_large_from_the_start_is_its_leaders_alone)
{
    rig_start(true);
    passenger_board(&a, "anna");
    passenger_board(&b, "bert");
    say_load(0, 0, NULL);
    head_ok(0, 5000);
    cr_assert_eq(a.rider.outcome, BOARDING_STREAM);
    cr_assert_eq(b.rider.outcome, BOARDING_ALONE);
    cr_assert_str_eq(b.rider.why, "too-large");
    cr_assert_eq(times_given_back(), 1);
    passenger_leave(&a), passenger_leave(&b);
    cr_assert_eq(fake_origin.cancelled, 1, "the last reader to leave ends it");
    rig_stop();
}

/* ---- invalidations ---- */

Test(flight, a_load_that_an_invalidation_overtook_is_its_leaders_alone_and_not_stored)
{
    rig_start(true);
    passenger_board(&a, "anna");
    passenger_board(&b, "bert");
    say_load(0, 3, NULL);
    invalidate_near("declared", 5);
    head_ok(0, 2);
    cr_assert_eq(a.rider.outcome, BOARDING_STREAM);
    cr_assert(!a.rider.is_stored);
    cr_assert_eq(b.landings, 0, "the others look again");
    cr_assert_eq(store_count(FAKE_LOOKUP), 2);
    cr_assert_eq(store_call(FAKE_RELEASE, 0)->why, RELEASE_CANCELLED);
    cr_assert_eq(times_given_back(), 1);
    say_load(1, 5, NULL);
    cr_assert_str_eq(fake_origin.asked_by[1], "bert");
    head_ok(1, 2);
    cr_assert_eq(b.rider.result, CACHE_MISS);
    passenger_leave(&a), passenger_leave(&b);
    rig_stop();
}

Test(flight, tags_that_only_the_answer_names_count_as_those_of_the_route)
{
    rig_start(true);
    passenger_board(&a, "anna");
    passenger_board(&b, "bert");
    say_load(0, 3, NULL);
    invalidate_near("named-later", 5);
    head_with(0, 200, "surrogate-key", "other named-later");
    cr_assert_eq(a.rider.outcome, BOARDING_STREAM);
    cr_assert_eq(b.landings, 0);
    cr_assert_eq(times_given_back(), 1);
    passenger_leave(&a), passenger_leave(&b);
    rig_stop();
}

Test(flight, who_comes_after_an_invalidation_boards_no_load_that_began_before)
{
    static const char *const states[] = {"loading", "streaming", "filling"};

    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        memset(&fake_origin, 0, sizeof(fake_origin));
        rig_start(true);
        passenger_board(&a, "anna");
        say_load(0, 3, NULL);
        if (i >= 1)
            head_ok(0, 2);
        if (i >= 2) {
            fetch_body(0, SLICE("ok"));
            fetch_end(0, FAULT_NONE);
        }
        invalidate_near("declared", 5);
        passenger_board(&b, "bert");
        rig_turn();
        cr_assert_eq(b.landings, 0, "%s", states[i]);
        cr_assert_eq(store_count(FAKE_LOOKUP), 2, "%s", states[i]);
        passenger_leave(&a), passenger_leave(&b);
        rig_stop();
    }
}

Test(flight, an_answer_that_crossed_an_invalidation_is_asked_for_again)
{
    rig_start(true);
    struct object *old = test_object(1, 3, "declared", 3, 60000, 60000, 60000, loop_now(rig.loop));
    passenger_board(&a, "anna");
    invalidate_near("declared", 5);
    say(0, LOOKUP_FRESH, old);
    cr_assert_eq(a.landings, 0);
    say_load(1, 3, NULL); /* its lock is older than the invalidation, too */
    cr_assert_eq(times_given_back(), 1);
    cr_assert_eq(fake_origin.started, 0);
    passenger_leave(&a);
    object_release(&old);
    rig_stop();
}

Test(flight, a_store_that_does_not_know_of_an_invalidation_is_not_asked_for_ever)
{
    rig_start(true);
    struct object *old = test_object(1, 3, "declared", 3, 60000, 60000, 60000, loop_now(rig.loop));
    passenger_board(&a, "anna");
    invalidate_near("declared", 5);
    for (size_t i = 0; a.landings == 0; i++)
        say(i, LOOKUP_FRESH, old);
    cr_assert_eq(a.rider.outcome, BOARDING_ALONE);
    cr_assert_eq(flights_under_way(rig.flights), 0);
    object_release(&old);
    rig_stop();
}

Test(flight, what_is_left_of_a_riders_patience_goes_with_it_to_the_next_flight)
{
    rig_start(true);
    passenger_board(&b, "bert");
    passenger_init(&a, ROUTE_HURRIED, "anna");
    flight_board(rig.flights, &a.rider);
    int64_t until_ms = a.rider.patience.at.ms;
    say_load(0, 3, NULL);
    while (loop_now(rig.loop).ms == until_ms - 10)
        rig_turn();
    invalidate_near("declared", 5);
    if (a.landings == 0) {
        head_ok(0, 2);
        cr_assert_eq(a.rider.patience.at.ms, until_ms);
    }
    while (a.landings == 0)
        loop_turn(rig.loop, 100);
    cr_assert_eq(a.rider.outcome, BOARDING_ALONE);
    passenger_leave(&b);
    rig_stop();
}

/* ---- a store that is away ---- */

Test(flight, without_the_store_the_riders_of_this_worker_share_a_load_that_nobody_stores)
{
    rig_start(true);
    passenger_board(&a, "anna");
    passenger_board(&b, "bert");
    fake_tell_lookup(store_call(FAKE_LOOKUP, 0), FAULT_STORE_AWAY, (struct lookup_answer){0});
    head_ok(0, 2);
    cr_assert(!a.rider.is_stored && !b.rider.is_stored);
    fetch_body(0, SLICE("ok"));
    fetch_end(0, FAULT_NONE);
    cr_expect_text(&a, "ok", CLIENT_LAST);
    cr_expect_text(&b, "ok", CLIENT_LAST);
    cr_assert_eq(store_count(FAKE_FILL) + store_count(FAKE_RELEASE) + store_count(FAKE_RENEW), 0);
    cr_assert_eq(flights_under_way(rig.flights), 0);
    passenger_leave(&a), passenger_leave(&b);
    rig_stop();
}

Test(flight, without_the_store_a_route_that_bypasses_sends_each_alone)
{
    rig_start(true);
    passenger_init(&a, ROUTE_BYPASSING, "anna");
    flight_board(rig.flights, &a.rider);
    fake_tell_lookup(store_call(FAKE_LOOKUP, 0), FAULT_STORE_SILENT, (struct lookup_answer){0});
    cr_assert_eq(a.rider.outcome, BOARDING_ALONE);
    cr_assert_str_eq(a.rider.why, "store-away");
    cr_assert_eq(fake_origin.started, 0);
    rig_stop();
}

Test(flight, without_the_store_nothing_is_refreshed)
{
    rig_start(true);
    passenger_init(&a, ROUTE_PATIENT, "anna");
    flight_refresh(rig.flights, &a.plan);
    flight_refresh(rig.flights, &a.plan);
    cr_assert_eq(store_count(FAKE_LOOKUP), 1);
    fake_tell_lookup(store_call(FAKE_LOOKUP, 0), FAULT_STORE_AWAY, (struct lookup_answer){0});
    cr_assert_eq(fake_origin.started, 0);
    cr_assert_eq(flights_under_way(rig.flights), 0);
    rig_stop();
}

Test(flight, a_fill_that_failed_gives_the_lock_back_all_the_same)
{
    rig_start(true);
    passenger_board(&a, "anna");
    say_load(0, 0, NULL);
    head_ok(0, 0);
    fetch_end(0, FAULT_NONE);
    fake_tell_fill(store_call(FAKE_FILL, 0), FAULT_STORE_SILENT, FILL_STORED);
    cr_assert_eq(store_count(FAKE_RELEASE), 1, "it may never have been done");
    cr_assert_null(near_find(rig.near, &a.plan.key, loop_now(rig.loop)));
    cr_assert_eq(flights_under_way(rig.flights), 0);
    passenger_leave(&a);
    rig_stop();
}

Test(flight, a_fill_that_was_refused_puts_nothing_near)
{
    static const enum fill_result results[] = {FILL_SUPERSEDED, FILL_INVALIDATED};

    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        memset(&fake_origin, 0, sizeof(fake_origin));
        rig_start(true);
        passenger_board(&a, "anna");
        say_load(0, 0, NULL);
        head_ok(0, 0);
        fetch_end(0, FAULT_NONE);
        fake_tell_fill(store_call(FAKE_FILL, 0), FAULT_NONE, results[i]);
        cr_assert_null(near_find(rig.near, &a.plan.key, loop_now(rig.loop)));
        cr_assert_eq(times_given_back(), 1);
        passenger_leave(&a);
        rig_stop();
    }
}

/* ---- the lease ---- */

Test(flight, the_lease_is_renewed_while_the_load_runs_and_no_longer)
{
    rig_start(true);
    passenger_board(&a, "anna");
    say_load(0, 0, NULL);
    while (store_count(FAKE_RENEW) == 0)
        loop_turn(rig.loop, 2000);
    cr_assert_eq(store_call(FAKE_RENEW, 0)->token.hi, LOCK.hi);
    fake_tell_release(store_call(FAKE_RENEW, 0), FAULT_NONE, false); /* somebody took it over */
    head_ok(0, 2);
    fetch_body(0, SLICE("ok"));
    fetch_end(0, FAULT_NONE);
    cr_expect_text(&a, "ok", CLIENT_LAST);
    cr_assert_eq(times_given_back(), 1);
    passenger_leave(&a);
    rig_stop();
}

/* ---- shutdown ---- */

Test(flight, flights_that_are_freed_under_way_give_their_locks_back)
{
    for (int state = 0; state < 5; state++) {
        memset(&fake_origin, 0, sizeof(fake_origin));
        rig_start(true);
        passenger_init(&a, ROUTE_PATIENT, "anna");
        flight_refresh(rig.flights, &a.plan);
        if (state >= 1)
            say_load(0, 0, NULL);
        if (state >= 2)
            head_ok(0, 2);
        if (state >= 3)
            fetch_body(0, SLICE("ok"));
        if (state >= 4)
            fetch_end(0, FAULT_NONE);
        flights_free(rig.flights);
        cr_assert_eq(times_given_back(), state >= 1, "state %d", state);
        rig.flights = flights_new(rig.loop, &rig.store.store, rig.limiter);
        rig_stop();
    }
}
