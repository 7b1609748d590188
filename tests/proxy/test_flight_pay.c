/* Flight, paying: after the lock and before the upstream one of those whom a load is for pays, once; and who cannot is neither in the
 * way of others nor left waiting. */
#include "flight_rig.h"

#include <criterion/criterion.h>

TestSuite(flight_pay, .timeout = 20);

static struct passenger a, b, c;

struct purse { /* of one passenger: what a load costs it, and what came of paying */
    struct limit_charge charge;
    struct limit_request bill;
};

static struct purse purses[3];

static struct passenger *passenger_of(size_t which)
{
    struct passenger *const passengers[] = {&a, &b, &c};

    return passengers[which];
}

/* Passengers 0, 1 and 2 are a, b and c. The charges of those with one `principal` and one cost are the same. */
static struct passenger *equip(size_t which, const char *key, char principal, int64_t cost)
{
    struct passenger *passenger = passenger_of(which);
    struct purse *purse = &purses[which];
    const struct limit_rule *rule = &site_settings(rig.site)->limits[TEST_LIMIT_CLOSED];

    passenger_init(passenger, ROUTE_PATIENT, key);
    *purse = (struct purse){.charge = {.rule = rule, .terms = &rule->terms, .cost = cost}};
    memset(purse->charge.principal, principal, sizeof(purse->charge.principal));
    purse->bill.charges[0] = purse->charge;
    purse->bill.charge_count = 1;
    purse->bill.is_tentative = true;
    purse->bill.site = rig.site;
    passenger->plan.charges = &purse->charge;
    passenger->plan.charge_count = 1;
    passenger->rider.bill = &purse->bill;
    return passenger;
}

static void board_as(size_t which, const char *key, char principal)
{
    flight_board(rig.flights, &equip(which, key, principal, 1)->rider);
}

/* The limit's answer to the nth question: units left, or when it will be. */
static void say_paid(size_t nth, bool is_admitted, int64_t retry_after_us)
{
    struct limit_state state = {.available = 3, .reset_us = 1000, .retry_after_us = retry_after_us};
    struct admit_answer answer = {.admitted = is_admitted, .states = &state};

    cr_assert_eq(store_call(FAKE_ADMIT, nth)->count, 1, "one question at a time");
    fake_tell_admit(store_call(FAKE_ADMIT, nth), FAULT_NONE, &answer);
}

static char principal_asked(size_t nth)
{
    return (char)store_call(FAKE_ADMIT, nth)->tuples[0].charges[0].principal[0];
}

static int64_t counted(const char *outcome)
{
    const char *labels[] = {"closed", outcome};

    return stats_total(stats_series(STATS_limit_decisions, labels));
}

static void serve_load(size_t place)
{
    head_ok(place, 2);
    fetch_body(place, SLICE("ok"));
    fetch_end(place, FAULT_NONE);
    fake_tell_fill(store_call(FAKE_FILL, 0), FAULT_NONE, FILL_STORED);
}

Test(flight_pay, nothing_is_asked_of_the_upstream_before_it_is_paid_for)
{
    rig_start(true);
    board_as(0, "anna", 'a');
    board_as(1, "bert", 'b');
    cr_assert_eq(store_count(FAKE_ADMIT), 0, "nobody pays for what another one may be loading");
    say_load(0, 0, NULL);
    rig_turn();
    cr_assert_eq(fake_origin.started, 0);
    cr_assert_eq(store_count(FAKE_ADMIT), 1);
    cr_assert_eq(principal_asked(0), 'a');
    say_paid(0, true, 0);
    cr_assert_eq(fake_origin.started, 1);
    cr_assert_eq(purses[0].bill.ruling, RULING_ADMITTED);
    cr_assert(purses[0].bill.has_state[0]);
    cr_assert_eq(purses[0].bill.states[0].available, 3);
    cr_assert(!purses[1].bill.has_state[0], "who rides was asked for nothing");
    serve_load(0);
    cr_expect_text(&a, "ok", CLIENT_LAST);
    cr_expect_text(&b, "ok", CLIENT_LAST);
    rig_turn();
    cr_assert_eq(store_count(FAKE_ADMIT), 1);
    passenger_leave(&a), passenger_leave(&b);
    rig_stop();
}

Test(flight_pay, where_the_first_cannot_pay_the_next_leads_and_all_are_served)
{
    int64_t refused = counted("refused");

    rig_start(true);
    board_as(0, "anna", 'a');
    board_as(1, "bert", 'b');
    say_load(0, 0, NULL);
    rig_turn();
    say_paid(0, false, 60000000);
    cr_assert_eq(a.landings, 0, "another one may pay");
    cr_assert_eq(times_given_back(), 0);
    rig_turn();
    cr_assert_eq(principal_asked(1), 'b');
    say_paid(1, true, 0);
    cr_assert_str_eq(fake_origin.asked_by[0], "bert", "loaded with the credentials of the one who paid");
    serve_load(0);
    cr_assert_eq(b.rider.result, CACHE_MISS);
    cr_assert_eq(a.rider.result, CACHE_WAIT);
    cr_expect_text(&a, "ok", CLIENT_LAST);
    cr_expect_text(&b, "ok", CLIENT_LAST);
    cr_assert(a.rider.is_refused);
    cr_assert_eq(counted("refused"), refused, "nothing was refused to anybody");
    passenger_leave(&a), passenger_leave(&b);
    rig_stop();
}

Test(flight_pay, where_nobody_can_pay_each_is_told_why_and_the_lock_is_free_at_once)
{
    rig_start(true);
    board_as(0, "anna", 'a');
    board_as(1, "bert", 'b');
    say_load(0, 0, NULL);
    rig_turn();
    say_paid(0, false, 60000000);
    rig_turn();
    say_paid(1, false, 9000000);
    cr_assert_eq(times_given_back(), 1);
    cr_assert_eq(store_call(FAKE_RELEASE, 0)->why, RELEASE_CANCELLED, "those who wait elsewhere look again");
    cr_assert_eq(store_call(FAKE_RELEASE, 0)->marker_ms, 0);
    cr_assert_eq(a.rider.outcome, BOARDING_REFUSED);
    cr_assert_eq(b.rider.outcome, BOARDING_REFUSED);
    cr_assert_eq(purses[0].bill.states[0].retry_after_us, 60000000);
    cr_assert_eq(purses[1].bill.states[0].retry_after_us, 9000000);
    cr_assert_eq(purses[0].bill.named, purses[0].charge.rule);
    cr_assert_eq(fake_origin.started, 0);
    cr_assert_eq(flights_under_way(rig.flights), 0);
    passenger_leave(&a), passenger_leave(&b);
    rig_stop();
}

Test(flight_pay, many_requests_of_one_client_are_refused_by_one_decision)
{
    rig_start(true);
    board_as(0, "anna", 'a');
    board_as(1, "anna", 'a');
    flight_board(rig.flights, &equip(2, "anna", 'a', 2)->rider); /* at another price */
    say_load(0, 0, NULL);
    rig_turn();
    say_paid(0, false, 60000000);
    rig_turn();
    cr_assert_eq(store_call(FAKE_ADMIT, 1)->tuples[0].charges[0].cost, 2,
                 "the one is spared, the other is asked");
    say_paid(1, false, 70000000);
    cr_assert_eq(store_count(FAKE_ADMIT), 2);
    cr_assert_eq(b.rider.outcome, BOARDING_REFUSED);
    cr_assert_eq(purses[1].bill.states[0].retry_after_us, 60000000);
    cr_assert_eq(purses[2].bill.states[0].retry_after_us, 70000000);
    passenger_leave(&a), passenger_leave(&b), passenger_leave(&c);
    rig_stop();
}

Test(flight_pay, whoever_boards_meanwhile_is_asked_too)
{
    rig_start(true);
    board_as(0, "anna", 'a');
    say_load(0, 0, NULL);
    rig_turn();
    board_as(1, "bert", 'b');
    rig_turn();
    cr_assert_eq(store_count(FAKE_LOOKUP), 1, "aboard the same flight");
    say_paid(0, false, 60000000);
    rig_turn();
    cr_assert_eq(principal_asked(1), 'b');
    say_paid(1, true, 0);
    serve_load(0);
    cr_expect_text(&a, "ok", CLIENT_LAST);
    cr_expect_text(&b, "ok", CLIENT_LAST);
    passenger_leave(&a), passenger_leave(&b);
    rig_stop();
}

Test(flight_pay, who_leaves_while_paying_has_paid_for_the_others)
{
    rig_start(true);
    board_as(0, "anna", 'a');
    board_as(1, "bert", 'b');
    say_load(0, 0, NULL);
    rig_turn();
    passenger_leave(&a);
    say_paid(0, true, 0);
    rig_turn();
    cr_assert_eq(store_count(FAKE_ADMIT), 1, "a load is paid once");
    cr_assert_str_eq(fake_origin.asked_by[0], "bert");
    serve_load(0);
    cr_expect_text(&b, "ok", CLIENT_LAST);
    passenger_leave(&b);
    rig_stop();
}

Test(flight_pay, who_leaves_and_is_refused_is_counted_and_the_others_are_asked)
{
    int64_t refused = counted("refused");

    rig_start(true);
    board_as(0, "anna", 'a');
    board_as(1, "bert", 'b');
    say_load(0, 0, NULL);
    rig_turn();
    passenger_leave(&a);
    say_paid(0, false, 60000000);
    cr_assert_eq(counted("refused"), refused + 1);
    rig_turn();
    cr_assert_eq(principal_asked(1), 'b');
    passenger_leave(&b);
    say_paid(1, false, 60000000);
    cr_assert_eq(times_given_back(), 1);
    cr_assert_eq(flights_under_way(rig.flights), 0);
    rig_stop();
}

Test(flight_pay, a_refresh_that_is_not_paid_for_leaves_the_copy_and_is_not_tried_again_at_once)
{
    rig_start(true);
    struct object *object = test_object(1, 0, "declared", 3, 0, 60000, 60000, loop_now(rig.loop));

    board_as(0, "anna", 'a');
    fake_tell_lookup(store_call(FAKE_LOOKUP, 0), FAULT_NONE,
                     (struct lookup_answer){.kind = LOOKUP_STALE, .object = object, .load = LOCK});
    cr_assert_eq(a.rider.result, CACHE_STALE);
    rig_turn();
    cr_assert_eq(principal_asked(0), 'a', "who was told to refresh pays");
    say_paid(0, false, 60000000);
    cr_assert_eq(times_given_back(), 1);
    cr_assert_eq(store_call(FAKE_RELEASE, 0)->why, RELEASE_CANCELLED);
    cr_assert_eq(fake_origin.started, 0);
    flight_refresh(rig.flights, &a.plan);
    board_as(1, "bert", 'b');
    rig_turn();
    cr_assert_eq(store_count(FAKE_LOOKUP), 1, "not yet");
    cr_assert_eq(b.rider.result, CACHE_STALE, "but served without delay");
    while (flights_under_way(rig.flights) > 0)
        loop_turn(rig.loop, 100);
    equip(2, "carl", 'c', 1);
    flight_refresh(rig.flights, &c.plan);
    cr_assert_eq(store_count(FAKE_LOOKUP), 2, "later, by whoever comes");
    passenger_leave(&a), passenger_leave(&b);
    object_release(&object);
    rig_stop();
}

Test(flight_pay, a_refresh_that_is_paid_for_is_loaded_though_nobody_waits)
{
    rig_start(true);
    struct object *object = test_object(1, 0, "declared", 3, 0, 60000, 60000, loop_now(rig.loop));

    equip(0, "anna", 'a', 1);
    flight_refresh(rig.flights, &a.plan);
    fake_tell_lookup(store_call(FAKE_LOOKUP, 0), FAULT_NONE,
                     (struct lookup_answer){.kind = LOOKUP_STALE, .object = object, .load = LOCK});
    rig_turn();
    say_paid(0, true, 0);
    cr_assert_eq(fake_origin.started, 1);
    serve_load(0);
    cr_assert_eq(times_given_back(), 1);
    object_release(&object);
    rig_stop();
}

Test(flight_pay, without_the_store_the_limits_say_what_becomes_of_the_shared_load)
{
    rig_start(true);
    board_as(0, "anna", 'a');
    board_as(1, "bert", 'b');
    fake_tell_lookup(store_call(FAKE_LOOKUP, 0), FAULT_STORE_AWAY,
                     (struct lookup_answer){.kind = LOOKUP_WAIT});
    rig_turn();
    fake_tell_admit(store_call(FAKE_ADMIT, 0), FAULT_STORE_AWAY, NULL); /* its limit is closed */
    rig_turn();
    cr_assert_eq(store_count(FAKE_ADMIT), 1, "nobody waits for one time-out after the other");
    cr_assert_eq(a.rider.outcome, BOARDING_REFUSED);
    cr_assert_eq(purses[0].bill.ruling, RULING_UNAVAILABLE);
    cr_assert_eq(purses[1].bill.ruling, RULING_UNAVAILABLE);
    cr_assert_eq(store_count(FAKE_RELEASE), 0, "there was no lock");
    cr_assert_eq(fake_origin.started, 0);
    passenger_leave(&a), passenger_leave(&b);
    rig_stop();
}

Test(flight_pay, a_flight_that_ends_while_paying_gives_its_lock_back)
{
    rig_start(true);
    board_as(0, "anna", 'a');
    say_load(0, 0, NULL);
    rig_turn();
    passenger_leave(&a);
    flights_cancel(rig.flights);
    cr_assert_eq(times_given_back(), 1);
    say_paid(0, true, 0);
    cr_assert_eq(fake_origin.started, 0);
    rig_stop();
}
