/* Limiter: one question for all requests of a turn, each answered as if it had been asked alone, and the
 * rules for a store that is away. */
#include "fake_origin.h"
#include "fake_store.h"
#include "limiter.h"
#include "loop.h"
#include "test_site.h"

#include <criterion/criterion.h>

TestSuite(limiter, .timeout = 20);

static struct loop *loop;
static struct near *near;
static struct fake_store store, fallback;
static struct site *site;
static struct limiter *limiter;

struct asker {
    struct limit_request request;
    int decisions;
    int place_in_order; /* when it was told, among all */
    struct asker *leaves, *asks;
};

static int told;

static void on_decided(void *arg)
{
    struct asker *asker = arg;

    asker->decisions++;
    asker->place_in_order = told++;
    if (asker->leaves != NULL)
        limiter_leave(limiter, &asker->leaves->request);
    if (asker->asks != NULL)
        limiter_ask(limiter, &asker->asks->request);
}

static void start(void)
{
    loop = loop_new();
    near = near_new(1 << 20, 1 << 18);
    fake_store_init(&store, near, true);
    fake_store_init(&fallback, near, false);
    site = test_site_new(loop);
    limiter = limiter_new(loop, &store.store, &fallback.store);
}

static void stop(void)
{
    limiter_free(limiter);
    site_release(&site);
    loop_turn(loop, 0);
    cr_assert_eq(fake_origin.pools, 0, "each batch gave its site back");
    near_free(near);
    loop_free(loop);
}

static void charge(struct asker *asker, size_t limit, char principal, int64_t cost)
{
    struct limit_charge *new = &asker->request.charges[asker->request.charge_count++];

    *new = (struct limit_charge){.rule = &site_settings(site)->limits[limit],
                                 .terms = &site_settings(site)->limits[limit].terms,
                                 .cost = cost};
    memset(new->principal, principal, sizeof(new->principal));
}

static void ask(struct asker *asker)
{
    asker->request.site = site;
    asker->request.decided = on_decided;
    asker->request.arg = asker;
    limiter_ask(limiter, &asker->request);
    cr_assert_eq(asker->decisions, 0);
}

/* One limit (TEST_LIMIT_CLOSED), one unit. */
static void ask_as(struct asker *asker, char principal)
{
    charge(asker, TEST_LIMIT_CLOSED, principal, 1);
    ask(asker);
}

static struct fake_call *question(size_t nth)
{
    return fake_call_of(&store, FAKE_ADMIT, nth);
}

static const struct limit_state ROOM_FOR_5 = {.available = 5, .reset_us = 1000};
static const struct limit_state EXHAUSTED = {.available = 0, .reset_us = 1000, .retry_after_us = 1000};
static const struct limit_state TOO_SMALL = {.available = 10, .never = true};

/* ---- merging ---- */

Test(limiter, a_turn_is_one_question_in_which_equal_requests_are_a_count)
{
    struct asker askers[4] = {0};

    start();
    ask_as(&askers[0], 'a');
    ask_as(&askers[1], 'b');
    ask_as(&askers[2], 'a');
    ask_as(&askers[3], 'a');
    cr_assert_eq(store.count, 0, "not before the end of the turn");
    loop_turn(loop, 0);
    cr_assert_eq(store.count, 1);
    cr_assert_eq(question(0)->count, 2);
    cr_assert_eq(question(0)->tuples[0].count, 3);
    cr_assert_eq(question(0)->tuples[1].count, 1);
    struct admit_answer answers[2] = {{2, &(struct limit_state){0, 1000, 1000, false, false}},
                                      {1, &(struct limit_state){9, 0, 0, false, false}}};
    fake_tell_admit(question(0), FAULT_NONE, answers);
    cr_assert_eq(askers[0].request.ruling, RULING_ADMITTED);
    cr_assert_eq(askers[0].request.states[0].available, 1, "one was left after the first of two");
    cr_assert_eq(askers[0].request.states[0].retry_after_us, 0, "it passed");
    cr_assert_eq(askers[2].request.ruling, RULING_ADMITTED);
    cr_assert_eq(askers[2].request.states[0].available, 0);
    cr_assert_eq(askers[3].request.ruling, RULING_REFUSED, "the last to arrive");
    cr_assert_eq(askers[3].request.states[0].retry_after_us, 1000);
    cr_assert_eq(askers[3].request.named, &site_settings(site)->limits[TEST_LIMIT_CLOSED]);
    cr_assert_eq(askers[1].request.states[0].available, 9);
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(askers[i].decisions, 1);
        cr_assert_eq(askers[i].place_in_order, i, "told in order of arrival");
        cr_assert(askers[i].request.epoch_is_known);
        cr_assert(!askers[i].request.is_degraded);
    }
    stop();
}

Test(limiter, only_equal_charges_merge)
{
    static const struct {
        const char *why;
        size_t limit;
        char principal;
        int64_t cost;
    } rows[] = {
        {"another caller", TEST_LIMIT_CLOSED, 'b', 1},
        {"another cost", TEST_LIMIT_CLOSED, 'a', 2},
        {"another limit", TEST_LIMIT_OPEN, 'a', 1},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct asker askers[2] = {0};

        start();
        ask_as(&askers[0], 'a');
        charge(&askers[1], rows[i].limit, rows[i].principal, rows[i].cost);
        ask(&askers[1]);
        loop_turn(loop, 0);
        cr_assert_eq(question(0)->count, 2, "%s", rows[i].why);
        limiter_leave(limiter, &askers[0].request), limiter_leave(limiter, &askers[1].request);
        stop();
    }
}

Test(limiter, a_request_does_not_overtake_one_that_came_between_and_shares_a_key)
{
    struct asker askers[3] = {0};

    start();
    for (int i = 0; i < 3; i++) {
        charge(&askers[i], TEST_LIMIT_CLOSED, 'g', 1); /* all share this one */
        charge(&askers[i], TEST_LIMIT_OPEN, i == 1 ? 'b' : 'a', 1);
        ask(&askers[i]);
    }
    loop_turn(loop, 0);
    cr_assert_eq(question(0)->count, 3);
    cr_assert_eq(question(0)->tuples[0].charges[1].principal[0], 'a');
    cr_assert_eq(question(0)->tuples[1].charges[1].principal[0], 'b');
    cr_assert_eq(question(0)->tuples[2].charges[1].principal[0], 'a');
    for (int i = 0; i < 3; i++)
        limiter_leave(limiter, &askers[i].request);
    stop();
}

Test(limiter, one_caller_by_the_terms_of_two_plans_is_asked_about_in_order)
{
    struct limit_terms before = {.limit = 2, .window_us = 1000000, .tick_us = 1}, after = before;
    struct asker askers[4] = {0};

    start();
    for (int i = 0; i < 4; i++) {
        charge(&askers[i], TEST_LIMIT_CLOSED, 'a', 1);
        askers[i].request.charges[0].terms = i < 2 ? &before : &after;
        ask(&askers[i]);
    }
    loop_turn(loop, 0);
    cr_assert_eq(question(0)->count, 2, "equal ones still merge");
    cr_assert_eq(question(0)->tuples[0].charges[0].terms, &before);
    cr_assert_eq(question(0)->tuples[1].charges[0].terms, &after);
    cr_assert_eq(question(0)->tuples[0].count, 2);
    cr_assert_eq(question(0)->tuples[1].count, 2);
    for (int i = 0; i < 4; i++)
        limiter_leave(limiter, &askers[i].request);
    stop();
}

Test(limiter, a_request_of_fewer_limits_between_two_equal_ones_keeps_them_apart)
{
    struct asker askers[3] = {0};

    start();
    for (int i = 0; i < 3; i++) {
        charge(&askers[i], TEST_LIMIT_CLOSED, 'g', 1);
        if (i != 1)
            charge(&askers[i], TEST_LIMIT_OPEN, 'a', 1);
        ask(&askers[i]);
    }
    loop_turn(loop, 0);
    cr_assert_eq(question(0)->count, 3);
    for (int i = 0; i < 3; i++)
        limiter_leave(limiter, &askers[i].request);
    stop();
}

Test(limiter, a_whole_turn_of_different_callers_stays_in_order)
{
    enum { MANY = 1000 };
    static struct asker askers[MANY];
    static struct admit_answer answers[MANY];
    static struct limit_state states[MANY];

    start();
    for (int i = 0; i < MANY; i++) {
        charge(&askers[i], TEST_LIMIT_CLOSED, 0, 1);
        memcpy(askers[i].request.charges[0].principal, &i, sizeof(i));
        ask(&askers[i]);
        states[i] = ROOM_FOR_5;
        states[i].available = i;
        answers[i] = (struct admit_answer){1, &states[i]};
    }
    loop_turn(loop, 0);
    cr_assert_eq(question(0)->count, MANY);
    fake_tell_admit(question(0), FAULT_NONE, answers);
    for (int i = 0; i < MANY; i++) {
        cr_assert_eq(askers[i].place_in_order, i);
        cr_assert_eq(askers[i].request.states[0].available, i, "each its own answer");
    }
    stop();
}

Test(limiter, several_limits_are_told_apart_and_the_one_that_refuses_is_named)
{
    struct asker asker = {0};
    struct limit_state states[3] = {ROOM_FOR_5, EXHAUSTED, ROOM_FOR_5};

    start();
    charge(&asker, TEST_LIMIT_CLOSED, 'a', 1);
    charge(&asker, TEST_LIMIT_OPEN, 'a', 2);
    charge(&asker, TEST_LIMIT_LOCAL, 'a', 1);
    ask(&asker);
    loop_turn(loop, 0);
    fake_tell_admit(question(0), FAULT_NONE, &(struct admit_answer){0, states});
    cr_assert_eq(asker.request.ruling, RULING_REFUSED);
    cr_assert_str_eq(asker.request.named->name, "open");
    cr_assert_eq(asker.request.states[0].available, 5, "what was not charged is left whole");
    stop();
}

Test(limiter, a_cost_above_capacity_is_told_apart)
{
    struct asker asker = {0};
    struct limit_state states[2] = {EXHAUSTED, TOO_SMALL};

    start();
    charge(&asker, TEST_LIMIT_CLOSED, 'a', 1);
    charge(&asker, TEST_LIMIT_OPEN, 'a', 99);
    ask(&asker);
    loop_turn(loop, 0);
    fake_tell_admit(question(0), FAULT_NONE, &(struct admit_answer){0, states});
    cr_assert_eq(asker.request.ruling, RULING_TOO_COSTLY);
    cr_assert_str_eq(asker.request.named->name, "open");
    stop();
}

Test(limiter, what_is_left_counts_by_cost)
{
    struct asker askers[3] = {0};
    struct limit_state left = {.available = 1};

    start();
    for (int i = 0; i < 3; i++) {
        charge(&askers[i], TEST_LIMIT_CLOSED, 'a', 3);
        ask(&askers[i]);
    }
    loop_turn(loop, 0);
    fake_tell_admit(question(0), FAULT_NONE, &(struct admit_answer){3, &left});
    cr_assert_eq(askers[0].request.states[0].available, 7);
    cr_assert_eq(askers[1].request.states[0].available, 4);
    cr_assert_eq(askers[2].request.states[0].available, 1);
    stop();
}

/* ---- only the epoch ---- */

Test(limiter, requests_without_limits_are_one_question_for_the_epoch_and_always_pass)
{
    static const int64_t counted[] = {2, 0 /* an answer that makes no sense refuses nobody */};

    for (size_t i = 0; i < 2; i++) {
        struct asker askers[2] = {0};

        start();
        ask(&askers[0]), ask(&askers[1]);
        loop_turn(loop, 0);
        cr_assert_eq(question(0)->count, 1);
        cr_assert_eq(question(0)->tuples[0].charge_count, 0);
        fake_tell_admit(question(0), FAULT_NONE, &(struct admit_answer){counted[i], NULL});
        cr_assert_eq(askers[0].request.ruling, RULING_ADMITTED);
        cr_assert_eq(askers[1].request.ruling, RULING_ADMITTED);
        cr_assert(askers[1].request.epoch_is_known);
        stop();
    }
}

Test(limiter, without_the_store_the_epoch_is_unknown_and_that_refuses_nobody)
{
    struct asker asker = {0};

    start();
    ask(&asker);
    loop_turn(loop, 0);
    fake_tell_admit(question(0), FAULT_STORE_AWAY, NULL);
    cr_assert_eq(asker.request.ruling, RULING_ADMITTED);
    cr_assert(!asker.request.epoch_is_known);
    cr_assert(asker.request.is_degraded);
    cr_assert_eq(fallback.count, 0);
    stop();
}

/* ---- leaving ---- */

Test(limiter, who_leaves_is_not_told_wherever_it_was)
{
    struct asker before = {0}, after = {0}, stays = {0};
    struct limit_state state = ROOM_FOR_5;

    start();
    ask_as(&before, 'a');
    limiter_leave(limiter, &before.request);
    ask_as(&after, 'a');
    ask_as(&stays, 'a');
    loop_turn(loop, 0);
    cr_assert_eq(question(0)->tuples[0].count, 2, "who left before the question is not in it");
    limiter_leave(limiter, &after.request);
    limiter_leave(limiter, &after.request);
    fake_tell_admit(question(0), FAULT_NONE, &(struct admit_answer){2, &state});
    cr_assert_eq(before.decisions + after.decisions, 0);
    cr_assert_eq(stays.decisions, 1);
    limiter_leave(limiter, &stays.request); /* harmless when decided */
    stop();
}

Test(limiter, a_turn_that_everybody_left_asks_nothing)
{
    struct asker asker = {0};

    start();
    ask_as(&asker, 'a');
    limiter_leave(limiter, &asker.request);
    loop_turn(loop, 0);
    cr_assert_eq(store.count, 0);
    stop();
}

Test(limiter, who_is_told_may_make_others_leave_and_ask_anew)
{
    struct asker first = {0}, second = {0}, third = {0}, fresh = {0};
    struct limit_state state = ROOM_FOR_5;

    start();
    first.leaves = &second;
    first.asks = &fresh;
    ask_as(&first, 'a'), ask_as(&second, 'a'), ask_as(&third, 'a');
    charge(&fresh, TEST_LIMIT_CLOSED, 'a', 1);
    fresh.request.site = site;
    fresh.request.decided = on_decided;
    fresh.request.arg = &fresh;
    loop_turn(loop, 0);
    fake_tell_admit(question(0), FAULT_NONE, &(struct admit_answer){3, &state});
    cr_assert_eq(second.decisions, 0);
    cr_assert_eq(third.decisions, 1);
    cr_assert_eq(fresh.decisions, 0);
    loop_turn(loop, 0);
    fake_tell_admit(question(1), FAULT_NONE, &(struct admit_answer){1, &state});
    cr_assert_eq(fresh.decisions, 1);
    stop();
}

Test(limiter, who_is_told_of_a_failure_may_make_those_leave_who_are_asked_about_locally)
{
    struct asker closed = {0}, local = {0}, also_closed = {0};

    start();
    closed.leaves = &local;
    charge(&closed, TEST_LIMIT_CLOSED, 'a', 1), ask(&closed);
    charge(&local, TEST_LIMIT_LOCAL, 'a', 1), ask(&local);
    charge(&also_closed, TEST_LIMIT_CLOSED, 'b', 1), ask(&also_closed);
    loop_turn(loop, 0);
    fake_tell_admit(question(0), FAULT_STORE_AWAY, NULL);
    cr_assert_eq(closed.decisions, 1);
    cr_assert_eq(also_closed.decisions, 1);
    fake_tell_admit(fake_call_of(&fallback, FAKE_ADMIT, 0), FAULT_NONE,
                    &(struct admit_answer){1, (struct limit_state[]){ROOM_FOR_5}});
    cr_assert_eq(local.decisions, 0);
    stop();
}

/* ---- limits in shadow ---- */

static int64_t decisions(const char *limit, const char *outcome)
{
    const char *labels[] = {limit, outcome};

    return stats_total(stats_series(STATS_limit_decisions, labels));
}

Test(limiter, a_limit_in_shadow_is_a_tuple_of_its_own_for_what_passed)
{
    struct asker askers[4] = {0};

    start();
    for (int i = 0; i < 4; i++) {
        charge(&askers[i], TEST_LIMIT_SHADOW, 'a', 2);
        charge(&askers[i], TEST_LIMIT_CLOSED, 'a', 1);
        charge(&askers[i], TEST_LIMIT_SHADOW_OPEN, 'b', 1);
        ask(&askers[i]);
    }
    loop_turn(loop, 0);
    cr_assert_eq(question(0)->count, 3, "of equal requests, once");
    cr_assert_eq(question(0)->tuples[0].count, 4);
    cr_assert_eq(question(0)->tuples[0].charge_count, 1);
    cr_assert_str_eq(question(0)->tuples[0].charges[0].rule->name, "closed");
    cr_assert_eq(question(0)->tuples[1].count, ADMIT_WHAT_PASSED);
    cr_assert_str_eq(question(0)->tuples[1].charges[0].rule->name, "shadow");
    cr_assert_eq(question(0)->tuples[1].charges[0].cost, 2);
    cr_assert_eq(question(0)->tuples[2].count, ADMIT_WHAT_PASSED);
    cr_assert_str_eq(question(0)->tuples[2].charges[0].rule->name, "shadow_open");
    struct limit_state exhausted = EXHAUSTED, room = ROOM_FOR_5;
    struct admit_answer answers[3] = {{3, &exhausted}, {2, &exhausted}, {3, &room}};
    fake_tell_admit(question(0), FAULT_NONE, answers);
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(askers[i].request.ruling, i < 3 ? RULING_ADMITTED : RULING_REFUSED);
        cr_assert(!askers[i].request.has_state[0] && !askers[i].request.has_state[2],
                  "clients are told nothing");
        cr_assert(askers[i].request.has_state[1]);
    }
    cr_assert_eq(askers[0].request.states[1].available, 2, "what was left after the first of three");
    cr_assert_eq(decisions("shadow", "admitted"), 2);
    cr_assert_eq(decisions("shadow", "shadow_refused"), 1,
                 "of the three that passed; the fourth was not its to judge");
    cr_assert_eq(decisions("shadow", "refused"), 0);
    cr_assert_eq(decisions("shadow_open", "admitted"), 3);
    cr_assert_eq(decisions("closed", "admitted"), 3);
    cr_assert_eq(decisions("closed", "refused"), 1);
    stop();
}

Test(limiter, limits_in_shadow_alone_refuse_nobody_whatever_the_answer_is)
{
    struct asker askers[2] = {0};
    struct limit_state never = TOO_SMALL;
    struct admit_answer answers[2] = {{0, NULL}, {0, &never}};

    start();
    for (int i = 0; i < 2; i++) {
        charge(&askers[i], TEST_LIMIT_SHADOW, 'a', 100);
        ask(&askers[i]);
    }
    loop_turn(loop, 0);
    cr_assert_eq(question(0)->count, 2);
    cr_assert_eq(question(0)->tuples[0].charge_count, 0);
    cr_assert_eq(question(0)->tuples[0].count, 2);
    fake_tell_admit(question(0), FAULT_NONE, answers);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(askers[i].request.ruling, RULING_ADMITTED);
        cr_assert(askers[i].request.epoch_is_known);
    }
    cr_assert_eq(decisions("shadow", "shadow_refused"), 2);
    stop();
}

Test(limiter, requests_that_share_a_key_in_shadow_keep_their_order)
{
    struct asker askers[3] = {0};

    start();
    for (int i = 0; i < 3; i++) {
        charge(&askers[i], TEST_LIMIT_CLOSED, i == 1 ? 'b' : 'a', 1);
        charge(&askers[i], TEST_LIMIT_SHADOW, 'g', 1);
        ask(&askers[i]);
    }
    loop_turn(loop, 0);
    cr_assert_eq(question(0)->count, 6);
    for (int i = 0; i < 3; i++)
        limiter_leave(limiter, &askers[i].request);
    stop();
}

Test(limiter, without_the_store_a_limit_in_shadow_refuses_nobody_either)
{
    struct asker closed = {0}, open = {0}, local = {0};
    struct limit_state room = ROOM_FOR_5, exhausted = EXHAUSTED;
    struct admit_answer answers[3] = {{1, &room}, {0, &exhausted}};

    start();
    charge(&closed, TEST_LIMIT_SHADOW_CLOSED, 'a', 1), ask(&closed);
    charge(&open, TEST_LIMIT_SHADOW_OPEN, 'a', 1), ask(&open);
    charge(&local, TEST_LIMIT_SHADOW, 'a', 1), charge(&local, TEST_LIMIT_LOCAL, 'a', 1), ask(&local);
    loop_turn(loop, 0);
    fake_tell_admit(question(0), FAULT_STORE_AWAY, NULL);
    cr_assert_eq(closed.request.ruling, RULING_ADMITTED);
    cr_assert_eq(decisions("shadow_closed", "shadow_refused"), 1, "it would have been unavailable");
    cr_assert_eq(open.request.ruling, RULING_ADMITTED);
    cr_assert_eq(decisions("shadow_open", "passed_open"), 1);
    cr_assert_eq(fake_call_of(&fallback, FAKE_ADMIT, 0)->count, 2);
    cr_assert_eq(fake_call_of(&fallback, FAKE_ADMIT, 0)->tuples[1].count, ADMIT_WHAT_PASSED);
    fake_tell_admit(fake_call_of(&fallback, FAKE_ADMIT, 0), FAULT_NONE, answers);
    cr_assert_eq(local.request.ruling, RULING_ADMITTED);
    cr_assert_eq(decisions("shadow", "shadow_refused"), 1);
    cr_assert_eq(decisions("shadow", "decided_locally"), 1);
    cr_assert_eq(decisions("local", "admitted"), 1);
    stop();
}

/* ---- what was refused a moment ago ---- */

static int64_t now_us = 1000000;

static int64_t read_clock(void)
{
    return now_us;
}

static void refuse_first(struct asker *asker, int64_t retry_us)
{
    struct limit_state state = {.available = 0, .reset_us = 2 * retry_us, .retry_after_us = retry_us};

    limiter_use_clock(limiter, read_clock);
    ask_as(asker, 'a');
    loop_turn(loop, 0);
    fake_tell_admit(question(0), FAULT_NONE, &(struct admit_answer){0, &state});
    cr_assert_eq(asker->request.ruling, RULING_REFUSED);
}

Test(limiter, what_was_refused_is_refused_again_without_a_question_until_it_may_pass)
{
    struct asker first = {0}, again = {0}, other = {0}, later = {0};

    start();
    refuse_first(&first, 50000);
    now_us += 20000;
    ask_as(&again, 'a'), ask_as(&other, 'b');
    loop_turn(loop, 0);
    cr_assert_eq(again.decisions, 1);
    cr_assert_eq(again.request.ruling, RULING_REFUSED);
    cr_assert_eq(again.request.named, &site_settings(site)->limits[TEST_LIMIT_CLOSED]);
    cr_assert_eq(again.request.states[0].retry_after_us, 30000);
    cr_assert_eq(decisions("closed", "refused"), 2);
    cr_assert_eq(decisions("closed", "fast_denied"), 1);
    cr_assert_eq(question(1)->count, 1, "of the other caller alone");
    now_us += 30000;
    ask_as(&later, 'a');
    loop_turn(loop, 0);
    cr_assert_eq(later.decisions, 0);
    cr_assert_eq(question(2)->count, 1, "the store is asked as soon as it may pass");
    limiter_leave(limiter, &other.request), limiter_leave(limiter, &later.request);
    stop();
}

Test(limiter, who_is_refused_from_memory_may_leave_and_ask_again)
{
    struct asker first = {0}, leaves = {0}, stays = {0}, fresh = {0};

    start();
    refuse_first(&first, 50000);
    stays.asks = &fresh;
    charge(&fresh, TEST_LIMIT_CLOSED, 'a', 1);
    fresh.request.site = site;
    fresh.request.decided = on_decided;
    fresh.request.arg = &fresh;
    stays.leaves = &leaves;
    ask_as(&stays, 'a'), ask_as(&leaves, 'a');
    loop_turn(loop, 0);
    cr_assert_eq(stays.decisions, 1);
    cr_assert_eq(leaves.decisions, 0);
    loop_turn(loop, 0);
    cr_assert_eq(fresh.decisions, 1);
    cr_assert_eq(fake_count_of(&store, FAKE_ADMIT), 1);
    stop();
}

Test(limiter, new_rules_a_reset_and_a_store_of_its_own_are_asked_at_once)
{
    struct asker first = {0}, after = {0}, alone = {0};

    start();
    refuse_first(&first, 50000);
    limiter_forget_refusals(limiter);
    ask_as(&after, 'a');
    loop_turn(loop, 0);
    cr_assert_eq(fake_count_of(&store, FAKE_ADMIT), 2);
    fake_tell_admit(question(1), FAULT_NONE, &(struct admit_answer){0, (struct limit_state[]){EXHAUSTED}});
    store.store.is_shared = false;
    ask_as(&alone, 'a');
    loop_turn(loop, 0);
    cr_assert_eq(fake_count_of(&store, FAKE_ADMIT), 3, "it is no further than the memory");
    limiter_leave(limiter, &alone.request);
    stop();
}

Test(limiter, what_was_corrected_by_hand_is_asked_about_at_once)
{
    struct asker first = {0}, after = {0}, late = {0}, again = {0};

    start();
    refuse_first(&first, 50000);
    store.store.corrections++;
    ask_as(&after, 'a');
    loop_turn(loop, 0);
    cr_assert_eq(fake_count_of(&store, FAKE_ADMIT), 2);
    fake_tell_admit(question(1), FAULT_NONE,
                    &(struct admit_answer){.admitted = 1, .states = (struct limit_state[]){ROOM_FOR_5}});
    cr_assert_eq(after.request.ruling, RULING_ADMITTED);
    ask_as(&late, 'a');
    loop_turn(loop, 0);
    store.store.corrections++; /* while the store's answer, which may be older, is on its way */
    fake_tell_admit(question(2), FAULT_NONE, &(struct admit_answer){0, (struct limit_state[]){EXHAUSTED}});
    cr_assert_eq(late.request.ruling, RULING_REFUSED);
    ask_as(&again, 'a');
    loop_turn(loop, 0);
    cr_assert_eq(fake_count_of(&store, FAKE_ADMIT), 4);
    limiter_leave(limiter, &again.request);
    stop();
}

Test(limiter, what_was_refused_without_the_store_is_not_remembered)
{
    struct asker first = {0}, again = {0};

    start();
    limiter_use_clock(limiter, read_clock);
    charge(&first, TEST_LIMIT_LOCAL, 'a', 1), ask(&first);
    loop_turn(loop, 0);
    fake_tell_admit(question(0), FAULT_STORE_AWAY, NULL);
    fake_tell_admit(fake_call_of(&fallback, FAKE_ADMIT, 0), FAULT_NONE,
                    &(struct admit_answer){0, (struct limit_state[]){EXHAUSTED}});
    cr_assert_eq(first.request.ruling, RULING_REFUSED);
    charge(&again, TEST_LIMIT_LOCAL, 'a', 1), ask(&again);
    loop_turn(loop, 0);
    cr_assert_eq(fake_count_of(&store, FAKE_ADMIT), 2);
    limiter_leave(limiter, &again.request);
    stop();
}

/* ---- the store is away ---- */

Test(limiter, without_the_store_each_limit_says_what_happens)
{
    static const struct {
        const char *why;
        size_t limits[3], count;
        enum limit_ruling ruling; /* where it is ruled without asking locally */
        bool asks_locally;
        const char *named;
    } rows[] = {
        {"closed refuses", {TEST_LIMIT_CLOSED}, 1, RULING_UNAVAILABLE, false, "closed"},
        {"open passes", {TEST_LIMIT_OPEN}, 1, RULING_ADMITTED, false, NULL},
        {"closed wins over open",
         {TEST_LIMIT_OPEN, TEST_LIMIT_CLOSED},
         2,
         RULING_UNAVAILABLE,
         false,
         "closed"},
        {"closed wins over local, which is not charged",
         {TEST_LIMIT_LOCAL, TEST_LIMIT_CLOSED},
         2,
         RULING_UNAVAILABLE,
         false,
         "closed"},
        {"local is asked", {TEST_LIMIT_LOCAL}, 1, RULING_ADMITTED, true, NULL},
        {"open beside local passes", {TEST_LIMIT_OPEN, TEST_LIMIT_LOCAL}, 2, RULING_ADMITTED, true, NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct asker asker = {0};

        start();
        for (size_t j = 0; j < rows[i].count; j++)
            charge(&asker, rows[i].limits[j], 'a', 1);
        ask(&asker);
        loop_turn(loop, 0);
        fake_tell_admit(question(0), FAULT_STORE_SILENT, NULL);
        cr_assert_eq(fallback.count, rows[i].asks_locally, "%s", rows[i].why);
        if (rows[i].asks_locally)
            fake_tell_admit(&fallback.calls[0], FAULT_NONE,
                            &(struct admit_answer){1, (struct limit_state[]){ROOM_FOR_5}});
        cr_assert_eq(asker.decisions, 1, "%s", rows[i].why);
        cr_assert_eq(asker.request.ruling, rows[i].ruling, "%s", rows[i].why);
        cr_assert(asker.request.is_degraded);
        cr_assert(!asker.request.epoch_is_known, "%s", rows[i].why);
        if (rows[i].named != NULL)
            cr_assert_str_eq(asker.request.named->name, rows[i].named);
        stop();
    }
}

Test(limiter, what_the_store_answers_is_told_to_the_one_that_takes_over_and_nothing_else_is)
{
    struct asker told = {0}, failed = {0};

    start();
    charge(&told, TEST_LIMIT_LOCAL, 'a', 1), ask(&told);
    loop_turn(loop, 0);
    fake_tell_admit(question(0), FAULT_NONE, &(struct admit_answer){1, (struct limit_state[]){ROOM_FOR_5}});
    cr_assert_eq(fallback.heeded, 1);
    charge(&failed, TEST_LIMIT_LOCAL, 'a', 1), ask(&failed);
    loop_turn(loop, 0);
    fake_tell_admit(question(1), FAULT_STORE_AWAY, NULL);
    fake_tell_admit(fake_call_of(&fallback, FAKE_ADMIT, 0), FAULT_NONE,
                    &(struct admit_answer){1, (struct limit_state[]){ROOM_FOR_5}});
    cr_assert_eq(failed.decisions, 1);
    cr_assert_eq(fallback.heeded, 1, "not what it said itself");
    cr_assert_eq(store.heeded, 0, "what is decided locally stays here");
    stop();
}

Test(limiter, the_local_limits_of_a_request_are_one_atomic_decision)
{
    struct asker asker = {0};
    struct limit_state states[2] = {ROOM_FOR_5, EXHAUSTED};

    start();
    charge(&asker, TEST_LIMIT_LOCAL, 'a', 1);
    charge(&asker, TEST_LIMIT_OPEN, 'a', 1);
    charge(&asker, TEST_LIMIT_SECOND_LOCAL, 'b', 2);
    ask(&asker);
    loop_turn(loop, 0);
    fake_tell_admit(question(0), FAULT_STORE_AWAY, NULL);
    const struct fake_call *local = fake_call_of(&fallback, FAKE_ADMIT, 0);
    cr_assert_eq(local->count, 1);
    cr_assert_eq(local->tuples[0].charge_count, 2);
    cr_assert_eq(local->tuples[0].count, 1);
    cr_assert_eq(local->tuples[0].charges[1].cost, 2);
    cr_assert_eq(local->tuples[0].charges[1].principal[0], 'b');
    fake_tell_admit(&fallback.calls[0], FAULT_NONE, &(struct admit_answer){0, states});
    cr_assert_eq(asker.request.ruling, RULING_REFUSED);
    cr_assert_str_eq(asker.request.named->name, "second_local");
    cr_assert(asker.request.has_state[0]);
    cr_assert(!asker.request.has_state[1], "nothing is known of a limit that was passed over");
    cr_assert(asker.request.has_state[2]);
    cr_assert_eq(asker.request.states[2].retry_after_us, 1000, "each state stands with its own limit");
    stop();
}

Test(limiter, requests_of_one_failed_turn_are_each_ruled_by_their_own_limits)
{
    struct asker closed = {0}, open = {0}, local[2] = {0};
    struct limit_state states[2] = {ROOM_FOR_5, EXHAUSTED};

    start();
    charge(&local[0], TEST_LIMIT_LOCAL, 'a', 1), ask(&local[0]);
    charge(&closed, TEST_LIMIT_CLOSED, 'a', 1), ask(&closed);
    charge(&local[1], TEST_LIMIT_LOCAL, 'a', 1), ask(&local[1]);
    charge(&open, TEST_LIMIT_OPEN, 'a', 1), ask(&open);
    loop_turn(loop, 0);
    fake_tell_admit(question(0), FAULT_STORE_AWAY, NULL);
    cr_assert_eq(closed.request.ruling, RULING_UNAVAILABLE);
    cr_assert_eq(open.request.ruling, RULING_ADMITTED);
    cr_assert_eq(local[0].decisions, 0);
    fake_tell_admit(&fallback.calls[0], FAULT_NONE,
                    (struct admit_answer[]){{1, &states[0]}, {0, &states[1]}});
    cr_assert_eq(local[0].request.ruling, RULING_ADMITTED);
    cr_assert_eq(local[1].request.ruling, RULING_REFUSED);
    stop();
}

/* ---- shutdown, reload ---- */

Test(limiter, it_may_be_freed_while_questions_are_under_way)
{
    struct asker asker = {0};

    start();
    ask_as(&asker, 'a');
    loop_turn(loop, 0);
    limiter_leave(limiter, &asker.request);
    stop();
    cr_assert(store.calls[0].call.is_cancelled);
}

Test(limiter, the_rules_of_a_question_live_until_it_is_answered)
{
    struct asker asker = {0};
    struct limit_state state = EXHAUSTED;

    start();
    ask_as(&asker, 'a');
    loop_turn(loop, 0);
    site_release(&site); /* a reload, and the client left */
    limiter_leave(limiter, &asker.request);
    loop_turn(loop, 0);
    cr_assert_str_eq(question(0)->tuples[0].charges[0].rule->name, "closed");
    fake_tell_admit(question(0), FAULT_NONE, &(struct admit_answer){0, &state});
    stop();
}

/* Who waits for its turn asks by the rules that it came under, however many reloads ago. */
Test(limiter, the_rules_of_many_reloads_are_asked_about_in_one_turn)
{
    enum { RELOADS = 12 };
    struct site *sites[RELOADS];
    struct asker askers[RELOADS] = {0};
    struct limit_state state = EXHAUSTED;
    struct admit_answer answers[RELOADS];

    start();
    for (size_t i = 0; i < RELOADS; i++) {
        sites[i] = site;
        ask_as(&askers[i], 'a');
        site = test_site_new(loop);
    }
    loop_turn(loop, 0);
    cr_assert_eq(question(0)->count, RELOADS, "each by its own rule");
    for (size_t i = 0; i < RELOADS; i++) {
        site_release(&sites[i]);
        answers[i] = (struct admit_answer){0, &state};
    }
    fake_tell_admit(question(0), FAULT_NONE, answers);
    for (size_t i = 0; i < RELOADS; i++)
        cr_assert_eq(askers[i].request.ruling, RULING_REFUSED);
    stop();
}
