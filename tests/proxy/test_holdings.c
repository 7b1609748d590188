/* Holdings: however a request ends, and whatever the store does meanwhile, what it holds is given back, by its own token, once. */
#include "clock.h"
#include "fake_origin.h"
#include "fake_store.h"
#include "limiter.h"
#include "loop.h"

#include <criterion/criterion.h>

TestSuite(holdings, .timeout = 30);

enum { SLOTS, UNITS, SHADOW, RATE, PATIENCE_MS = 20000 };

static const char SETTINGS[] =
    "upstreams: { api: { servers: ['http://127.0.0.1:9'] } }\n"
    "limits:\n"
    "  slots: { key: global, algorithm: concurrency, max: 2, lease: 1s }\n"
    "  units: { key: global, rate: 100/m, cost: { response_header: x-cost, reserve: 10 } }\n"
    "  shadow: { key: global, algorithm: concurrency, max: 2, mode: shadow }\n"
    "  rate: { key: global, rate: 10/s }\n"
    "routes: [{ match: /**, upstream: api, limits: [slots, units, shadow, rate] }]\n";

static struct loop *loop;
static struct near *near;
static struct fake_store store, fallback;
static struct site *site;
static struct limiter *limiter;

struct asker {
    struct limit_request request;
    int decisions;
};

static void on_decided(void *arg)
{
    ((struct asker *)arg)->decisions++;
}

static void start(void)
{
    struct settings *settings = settings_parse("test.yaml", SETTINGS, sizeof(SETTINGS) - 1, stderr);

    cr_assert_not_null(settings);
    loop = loop_new();
    near = near_new(1 << 20, 1 << 18);
    fake_store_init(&store, near, true);
    fake_store_init(&fallback, near, false);
    site = site_new(loop, NULL, settings, stats_join());
    settings_release(&settings);
    limiter = limiter_new(loop, &store.store, &fallback.store);
}

static void stop(void)
{
    limiter_free(limiter);
    site_release(&site);
    loop_turn(loop, 0);
    cr_assert_eq(fake_origin.pools, 0, "every holding gave its site back");
    near_free(near);
    loop_free(loop);
}

static void charge(struct asker *asker, size_t limit)
{
    const struct limit_rule *rule = &site_settings(site)->limits[limit];
    struct limit_charge *new = &asker->request.charges[asker->request.charge_count++];

    *new = (struct limit_charge){.rule = rule, .terms = &rule->terms, .cost = rule->cost};
    new->takes_hold = rule->terms.lease_us > 0;
    new->told_by = rule->cost_rule.source == COST_OF_RESPONSE ? &rule->cost_rule : NULL;
}

static void ask(struct asker *asker)
{
    asker->request.site = site;
    asker->request.decided = on_decided;
    asker->request.arg = asker;
    limiter_ask(limiter, &asker->request);
}

static struct fake_call *admit(size_t nth)
{
    return fake_call_of(&store, FAKE_ADMIT, nth);
}

static struct fake_call *settle(size_t nth)
{
    return fake_call_of(&store, FAKE_SETTLE, nth);
}

static size_t settles(void)
{
    return fake_count_of(&store, FAKE_SETTLE);
}

static void turn_until_settles(size_t count)
{
    int64_t give_up_ms = clock_mono().ms + PATIENCE_MS;

    while (settles() < count) {
        cr_assert_lt(clock_mono().ms, give_up_ms, "the store is not told");
        loop_turn(loop, 10);
    }
}

/* All that is asked for passes. */
static void admit_all(size_t nth)
{
    struct limit_state states[FAKE_CALLS] = {{.available = 5}};
    struct admit_answer answers[FAKE_CALLS];

    for (size_t i = 0; i < admit(nth)->count; i++) {
        int64_t count = admit(nth)->tuples[i].count;

        answers[i] =
            (struct admit_answer){count == ADMIT_WHAT_PASSED ? answers[i - 1].admitted : count, states};
    }
    fake_tell_admit(admit(nth), FAULT_NONE, answers);
}

static void one_is_admitted(struct asker *asker, size_t limit)
{
    charge(asker, limit);
    ask(asker);
    loop_turn(loop, 0);
    admit_all(fake_count_of(&store, FAKE_ADMIT) - 1);
    cr_assert_eq(asker->request.ruling, RULING_ADMITTED);
}

Test(holdings, each_of_a_count_has_a_token_of_its_own_and_gives_back_that, .init = start, .fini = stop)
{
    struct asker askers[3] = {0};
    struct limit_state state = {.is_unforeseen = true};
    int64_t first;

    for (int i = 0; i < 3; i++)
        charge(&askers[i], SLOTS), ask(&askers[i]);
    loop_turn(loop, 0);
    cr_assert_eq(admit(0)->count, 1);
    cr_assert_eq(admit(0)->tuples[0].count, 3);
    first = admit(0)->tuples[0].charges[0].first_hold;
    cr_assert_gt(first, 0);
    fake_tell_admit(admit(0), FAULT_NONE, &(struct admit_answer){2, &state});
    cr_assert_eq(askers[1].request.ruling, RULING_ADMITTED);
    cr_assert_eq(askers[2].request.ruling, RULING_REFUSED);
    loop_turn(loop, 0);
    cr_assert_eq(settles(), 0, "who was refused holds nothing, and who runs goes on");

    for (int i = 0; i < 3; i++)
        limiter_leave(limiter, &askers[i].request);
    cr_assert(limiter_is_settling(limiter));
    loop_turn(loop, 0);
    cr_assert_eq(settles(), 1, "all of a turn at once");
    cr_assert_eq(settle(0)->count, 2);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(settle(0)->settlements[i].charge.first_hold, first + i);
        cr_assert_eq(settle(0)->settlements[i].charged, 0);
    }
    fake_tell_settle(settle(0), FAULT_NONE, true);
    cr_assert_not(limiter_is_settling(limiter));
    loop_turn(loop, 0);
    cr_assert_eq(settles(), 1, "once");
}

/* Two routes may take as much from one limit, one for good and one until its answer tells. */
Test(holdings, what_is_charged_is_no_equal_of_what_is_held, .init = start, .fini = stop)
{
    struct asker holds = {0}, pays = {0};
    struct limit_state states[2] = {{.available = 80}, {.available = 80}};
    struct admit_answer answers[2] = {{1, &states[0]}, {1, &states[1]}};

    charge(&holds, UNITS);
    charge(&pays, UNITS);
    pays.request.charges[0].takes_hold = false;
    pays.request.charges[0].told_by = NULL;
    ask(&holds);
    ask(&pays);
    loop_turn(loop, 0);
    cr_assert_eq(admit(0)->count, 2);
    cr_assert(admit(0)->tuples[0].charges[0].takes_hold);
    cr_assert_not(admit(0)->tuples[1].charges[0].takes_hold);
    fake_tell_admit(admit(0), FAULT_NONE, answers);
    limiter_leave(limiter, &holds.request);
    limiter_leave(limiter, &pays.request);
    loop_turn(loop, 0);
    cr_assert_eq(settle(0)->count, 1);
    fake_tell_settle(settle(0), FAULT_NONE, true);
}

Test(holdings, who_asks_anew_gives_back_what_it_was_given_before, .init = start, .fini = stop)
{
    struct asker asker = {0};

    one_is_admitted(&asker, SLOTS);
    ask(&asker);
    loop_turn(loop, 0);
    cr_assert_eq(settle(0)->count, 1);
    fake_tell_settle(settle(0), FAULT_NONE, true);
    admit_all(1);
    limiter_leave(limiter, &asker.request);
    loop_turn(loop, 0);
    fake_tell_settle(settle(1), FAULT_NONE, true);
}

Test(holdings, tokens_are_never_handed_out_twice, .init = start, .fini = stop)
{
    struct asker askers[2] = {0};

    one_is_admitted(&askers[0], SLOTS);
    one_is_admitted(&askers[1], SLOTS);
    for (int i = 0; i < 2; i++)
        limiter_leave(limiter, &askers[i].request);
    loop_turn(loop, 0);
    cr_assert_neq(settle(0)->settlements[0].charge.first_hold, settle(0)->settlements[1].charge.first_hold);
    fake_tell_settle(settle(0), FAULT_NONE, true);
}

Test(holdings, who_leaves_while_the_store_is_asked_gives_back_once_it_has_answered, .init = start,
     .fini = stop)
{
    struct asker asker = {0};

    charge(&asker, SLOTS);
    ask(&asker);
    loop_turn(loop, 0);
    limiter_leave(limiter, &asker.request);
    loop_turn(loop, 0);
    cr_assert_eq(settles(), 0, "it must not overtake the question");
    admit_all(0);
    cr_assert_eq(asker.decisions, 0);
    loop_turn(loop, 0);
    cr_assert_eq(settle(0)->settlements[0].charged, 0);
    fake_tell_settle(settle(0), FAULT_NONE, true);
}

Test(holdings, what_a_store_that_failed_may_have_taken_is_given_back_there_and_taken_locally, .init = start,
     .fini = stop)
{
    struct asker asker = {0};
    struct limit_state state = {.available = 1};
    int64_t asked_for;

    charge(&asker, SLOTS);
    ask(&asker);
    loop_turn(loop, 0);
    asked_for = admit(0)->tuples[0].charges[0].first_hold;
    fake_tell_admit(admit(0), FAULT_STORE_SILENT, NULL);
    loop_turn(loop, 0);
    cr_assert_eq(settle(0)->settlements[0].charge.first_hold, asked_for);
    fake_tell_settle(settle(0), FAULT_NONE, false);
    fake_tell_admit(fake_call_of(&fallback, FAKE_ADMIT, 0), FAULT_NONE, &(struct admit_answer){1, &state});
    cr_assert_eq(asker.request.ruling, RULING_ADMITTED);
    limiter_leave(limiter, &asker.request);
    loop_turn(loop, 0);
    cr_assert_eq(settles(), 1, "the store has nothing more of it");
    cr_assert_eq(fake_call_of(&fallback, FAKE_SETTLE, 0)->count, 1,
                 "what was taken locally is given back locally");
    fake_tell_settle(fake_call_of(&fallback, FAKE_SETTLE, 0), FAULT_NONE, true);
}

Test(holdings, a_refusal_by_another_limit_leaves_nothing_held, .init = start, .fini = stop)
{
    struct asker asker = {0};
    struct limit_state states[2] = {{.available = 2}, {.retry_after_us = 1000}};

    charge(&asker, SLOTS);
    charge(&asker, RATE);
    ask(&asker);
    loop_turn(loop, 0);
    fake_tell_admit(admit(0), FAULT_NONE, &(struct admit_answer){0, states});
    cr_assert_eq(asker.request.ruling, RULING_REFUSED);
    cr_assert_null(asker.request.holds[0]);
    limiter_leave(limiter, &asker.request);
    loop_turn(loop, 0);
    cr_assert_eq(settles(), 0);
}

Test(holdings, in_shadow_it_is_held_by_those_whom_it_would_have_let_in, .init = start, .fini = stop)
{
    struct asker askers[3] = {0};
    struct limit_state state = {0};
    struct admit_answer answers[2] = {{3, &state}, {2, &state}};

    for (int i = 0; i < 3; i++)
        charge(&askers[i], SHADOW), ask(&askers[i]);
    loop_turn(loop, 0);
    fake_tell_admit(admit(0), FAULT_NONE, answers);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(askers[i].request.ruling, RULING_ADMITTED);
        cr_assert_eq(askers[i].request.holds[0] != NULL, i < 2);
        limiter_leave(limiter, &askers[i].request);
    }
    loop_turn(loop, 0);
    cr_assert_eq(settle(0)->count, 2);
    fake_tell_settle(settle(0), FAULT_NONE, true);
}

Test(holdings, while_its_request_lives_it_is_renewed_and_then_ended, .init = start, .fini = stop)
{
    struct asker asker = {0};

    one_is_admitted(&asker, SLOTS);
    for (size_t renewal = 0; renewal < 2; renewal++) {
        turn_until_settles(renewal + 1);
        cr_assert_eq(settle(renewal)->settlements[0].charged, SETTLE_RENEW);
        fake_tell_settle(settle(renewal), FAULT_NONE, true);
    }
    turn_until_settles(3);
    limiter_leave(limiter, &asker.request); /* while it is being renewed */
    loop_turn(loop, 0);
    cr_assert_eq(settles(), 3, "the end does not overtake the renewal");
    fake_tell_settle(settle(2), FAULT_NONE, true);
    loop_turn(loop, 0);
    cr_assert_eq(settle(3)->settlements[0].charged, 0);
    fake_tell_settle(settle(3), FAULT_NONE, true);
}

Test(holdings, what_the_store_did_not_hear_is_told_again_and_at_once_when_it_answers, .init = start,
     .fini = stop)
{
    struct asker asker = {0}, other = {0};
    int64_t token;

    one_is_admitted(&asker, SLOTS);
    limiter_leave(limiter, &asker.request);
    loop_turn(loop, 0);
    token = settle(0)->settlements[0].charge.first_hold;
    fake_tell_settle(settle(0), FAULT_STORE_AWAY, false);
    loop_turn(loop, 0);
    cr_assert_eq(settles(), 1, "not in the same breath");
    turn_until_settles(2);
    cr_assert_eq(settle(1)->settlements[0].charge.first_hold, token);
    fake_tell_settle(settle(1), FAULT_STORE_SILENT, false);
    one_is_admitted(&other, RATE);
    loop_turn(loop, 0);
    cr_assert_eq(settles(), 3, "the store is there again");
    fake_tell_settle(settle(2), FAULT_NONE, false);
    cr_assert_not(limiter_is_settling(limiter));
    limiter_leave(limiter, &other.request);
}

Test(holdings, after_a_lease_a_store_that_stays_away_is_not_told_any_more, .init = start, .fini = stop)
{
    struct asker asker = {0};
    int64_t give_up_ms = clock_mono().ms + PATIENCE_MS;
    size_t failed = 0;

    one_is_admitted(&asker, SLOTS);
    limiter_leave(limiter, &asker.request);
    while (limiter_is_settling(limiter)) {
        cr_assert_lt(clock_mono().ms, give_up_ms, "it is remembered for ever");
        loop_turn(loop, 10);
        while (failed < settles())
            fake_tell_settle(settle(failed++), FAULT_STORE_AWAY, false);
    }
    cr_assert_geq(failed, 2);
}

Test(holdings, a_price_is_settled_once_by_what_the_answer_says, .init = start, .fini = stop)
{
    static const struct header priced[] = {{{"x-cost", 6}, {"7", 1}}};
    struct asker asker = {0};

    charge(&asker, SLOTS);
    one_is_admitted(&asker, UNITS);
    limiter_settle(&asker.request, priced, 1);
    limiter_settle(&asker.request, priced, 1);
    limiter_settle_unanswered(&asker.request);
    loop_turn(loop, 0);
    cr_assert_eq(settle(0)->count, 1, "the slot stays");
    cr_assert_eq(settle(0)->settlements[0].charge.cost, 10);
    cr_assert_eq(settle(0)->settlements[0].charged, 7);
    fake_tell_settle(settle(0), FAULT_NONE, true);
    limiter_leave(limiter, &asker.request);
    loop_turn(loop, 0);
    cr_assert_eq(settle(1)->count, 1);
    cr_assert_eq(settle(1)->settlements[0].charge.rule, &site_settings(site)->limits[SLOTS]);
    fake_tell_settle(settle(1), FAULT_NONE, true);
}

Test(holdings, without_an_answer_it_costs_what_was_held_and_without_a_question_nothing, .init = start,
     .fini = stop)
{
    struct asker asked = {0}, hit = {0};

    one_is_admitted(&asked, UNITS);
    limiter_settle_unanswered(&asked.request);
    one_is_admitted(&hit, UNITS);
    limiter_leave(limiter, &asked.request);
    limiter_leave(limiter, &hit.request);
    turn_until_settles(1);
    loop_turn(loop, 0);
    for (size_t i = 0, n = 0; i < settles(); i++)
        for (size_t j = 0; j < settle(i)->count; j++, n++)
            cr_assert_eq(settle(i)->settlements[j].charged, n == 0 ? 10 : 0);
    for (size_t i = 0; i < settles(); i++)
        fake_tell_settle(settle(i), FAULT_NONE, true);
}

Test(holdings, it_may_be_freed_with_whatever_is_under_way, .init = start)
{
    struct asker askers[4] = {0};

    for (int i = 0; i < 4; i++) {
        one_is_admitted(&askers[i], SLOTS);
        limiter_leave(limiter, &askers[i].request);
        if (i == 1)
            loop_turn(loop, 0); /* two are being told, one waits to be told, and one is asked about */
        if (i == 2)
            break;
    }
    charge(&askers[3], SLOTS);
    ask(&askers[3]);
    loop_turn(loop, 0);
    limiter_leave(limiter, &askers[3].request);
    stop();
}
