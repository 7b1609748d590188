/* Planner: one question a caller and turn, none about who is known, and the terms that the answer means. */
#include "fake_origin.h"
#include "loop.h"
#include "planner.h"

#include <criterion/criterion.h>

TestSuite(planner, .timeout = 20);

enum { QUESTIONS = 64 };

static const char text[] =
    "upstreams: { api: { servers: ['http://127.0.0.1:9'] } }\n"
    "limits:\n"
    "  own: { key: header:k, plans: { default: free, free: 5/s, pro: 20/s } }\n"
    "  by_ip: { key: header:k, unknown: ip, plans: { default: free, free: 6/s, big: 60/s } }\n"
    "routes: [{ match: /**, upstream: api }]\n";

static struct loop *loop;
static struct site *site;
static const struct limit_rule *own, *by_ip;
static struct planner *planner;

/* ---- a store that answers when the test says so ---- */

static struct plan_call {
    struct store_call call;
    unsigned char caller[PRINCIPAL_BYTES];
    plan_done *done;
    void *arg;
} calls[QUESTIONS];
static size_t call_count;

static struct store_call *read_plan(struct store *store, const unsigned char caller[PRINCIPAL_BYTES],
                                    plan_done *done, void *arg)
{
    struct plan_call *call = &calls[call_count++];

    (void)store;
    cr_assert_leq(call_count, QUESTIONS);
    *call = (struct plan_call){.done = done, .arg = arg};
    memcpy(call->caller, caller, PRINCIPAL_BYTES);
    return &call->call;
}

static const struct store_ops ops = {.read_plan = read_plan};
static struct store store;

static void answer(size_t nth, enum fault fault, const char *plan)
{
    struct plan_answer answered = {.plan = plan_name_of(slice_text(plan)), .lasts_ms = -1};

    cr_assert_lt(nth, call_count, "the store was not asked so often");
    if (!calls[nth].call.is_cancelled)
        calls[nth].done(calls[nth].arg, fault, fault == FAULT_NONE ? &answered : NULL);
}

/* ---- requests ---- */

struct asker {
    struct plan_request request;
    struct limit_charge charges[2];
    int settled;
    struct asker *leaves; /* when this one is told */
};

static void on_settled(void *arg)
{
    struct asker *asker = arg;

    asker->settled++;
    if (asker->leaves != NULL)
        planner_leave(&asker->leaves->request);
}

static void wish(struct asker *asker, const struct limit_rule *rule, char caller)
{
    size_t i = asker->request.wish_count++;

    asker->charges[i] = (struct limit_charge){.rule = rule, .terms = &rule->terms, .cost = 1};
    asker->charges[i].principal[0] = (unsigned char)caller;
    asker->request.wishes[i].charge = &asker->charges[i];
    asker->request.wishes[i].own[0] = (unsigned char)caller;
    asker->request.wishes[i].caller[0] = (unsigned char)caller;
    asker->request.wishes[i].address[0] = 'A';
}

static bool ask(struct asker *asker)
{
    asker->request.site = site;
    asker->request.settled = on_settled;
    asker->request.arg = asker;
    return planner_ask(planner, &asker->request);
}

static void start(void)
{
    struct settings *settings = settings_parse("test.yaml", text, sizeof(text) - 1, stderr);

    cr_assert_not_null(settings);
    loop = loop_new();
    site = site_new(loop, NULL, settings, stats_join());
    own = &settings->limits[0];
    by_ip = &settings->limits[1];
    settings_release(&settings);
    store.ops = &ops;
    store.plans = known_plans_new();
    known_plans_set_told(store.plans, true);
    planner = planner_new(loop, &store);
    call_count = 0;
}

static void stop(void)
{
    planner_free(planner);
    known_plans_free(store.plans);
    site_release(&site);
    loop_turn(loop, 0);
    loop_free(loop);
}

static int64_t units(const struct asker *asker, size_t charge)
{
    return asker->charges[charge].terms->limit;
}

Test(planner, who_is_not_known_is_asked_about_once_and_then_known)
{
    struct asker first = {0}, second = {0};

    start();
    wish(&first, own, 'a');
    cr_assert_not(ask(&first));
    cr_assert_eq(call_count, 0, "not before the turn's questions go out together");
    loop_turn(loop, 0);
    cr_assert_eq(call_count, 1);
    cr_assert_eq(first.settled, 0);
    answer(0, FAULT_NONE, "pro");
    cr_assert_eq(first.settled, 1);
    cr_assert_eq(units(&first, 0), 20);
    wish(&second, own, 'a');
    cr_assert(ask(&second), "at once");
    cr_assert_eq(units(&second, 0), 20);
    loop_turn(loop, 0);
    cr_assert_eq(second.settled, 0, "nothing is said twice");
    cr_assert_eq(call_count, 1);
    stop();
}

Test(planner, requests_of_a_turn_share_a_question_and_those_of_the_next_ask_their_own)
{
    struct asker askers[4] = {0};

    start();
    for (int i = 0; i < 3; i++)
        wish(&askers[i], own, i == 2 ? 'b' : 'a');
    wish(&askers[0], by_ip, 'a');
    for (int i = 0; i < 3; i++)
        cr_assert_not(ask(&askers[i]));
    loop_turn(loop, 0);
    cr_assert_eq(call_count, 2, "one a caller");
    wish(&askers[3], own, 'a');
    cr_assert_not(ask(&askers[3]));
    loop_turn(loop, 0);
    cr_assert_eq(call_count, 3, "what is under way may be older than a change that this client knows of");
    answer(0, FAULT_NONE, "pro");
    cr_assert_eq(askers[0].settled + askers[1].settled, 2);
    cr_assert_eq(askers[2].settled + askers[3].settled, 0);
    cr_assert_eq(units(&askers[0], 0), 20);
    cr_assert_eq(units(&askers[0], 1), 6, "a plan that only the other limit has");
    answer(2, FAULT_NONE, "free"), answer(1, FAULT_NONE, "");
    cr_assert_eq(askers[2].settled + askers[3].settled, 2);
    cr_assert_eq(units(&askers[3], 0), 5);
    stop();
}

Test(planner, a_caller_the_store_does_not_know_has_the_default_and_maybe_its_address)
{
    struct asker asker = {0}, known = {0};

    start();
    wish(&asker, own, 'a'), wish(&asker, by_ip, 'a');
    wish(&known, by_ip, 'b');
    ask(&asker), ask(&known);
    loop_turn(loop, 0);
    answer(0, FAULT_NONE, ""), answer(1, FAULT_NONE, "gold");
    cr_assert_eq(units(&asker, 0), 5);
    cr_assert_eq(asker.charges[0].principal[0], 'a');
    cr_assert_eq(units(&asker, 1), 6);
    cr_assert_eq(asker.charges[1].principal[0], 'A');
    cr_assert_eq(units(&known, 0), 6);
    cr_assert_eq(known.charges[0].principal[0], 'b', "who has any plan is known");
    cr_assert_eq(stats_total(stats_series(STATS_unknown_plans, (const char *const[]){"by_ip"})), 1);
    stop();
}

Test(planner, who_asks_again_is_charged_by_what_is_known_by_then)
{
    struct asker asker = {0};

    start();
    wish(&asker, by_ip, 'a');
    ask(&asker);
    loop_turn(loop, 0);
    answer(0, FAULT_NONE, "");
    cr_assert(units(&asker, 0) == 6 && asker.charges[0].principal[0] == 'A');
    cr_assert(ask(&asker));
    cr_assert_eq(asker.charges[0].principal[0], 'A');
    known_plans_doubt(store.plans, asker.request.wishes[0].caller);
    cr_assert_not(ask(&asker));
    loop_turn(loop, 0);
    answer(1, FAULT_NONE, "big");
    cr_assert_eq(asker.settled, 2);
    cr_assert(units(&asker, 0) == 60 && asker.charges[0].principal[0] == 'a');
    stop();
}

Test(planner, without_the_store_the_last_plan_counts_else_the_default)
{
    static const enum fault faults[] = {FAULT_STORE_AWAY, FAULT_STORE_SILENT, FAULT_STORE_NONSENSE};

    for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
        struct asker heard = {0}, again = {0}, never = {0};

        start();
        wish(&heard, own, 'a');
        ask(&heard);
        loop_turn(loop, 0);
        answer(0, FAULT_NONE, "pro");
        known_plans_set_told(store.plans, false);
        wish(&again, own, 'a'), wish(&never, by_ip, 'b');
        cr_assert_not(ask(&again));
        cr_assert_not(ask(&never));
        loop_turn(loop, 0);
        answer(1, faults[i], ""), answer(2, faults[i], "");
        cr_assert_eq(units(&again, 0), 20);
        cr_assert_eq(units(&never, 0), 6);
        cr_assert_eq(never.charges[0].principal[0], 'A', "nobody has said that it is known");
        stop();
    }
}

Test(planner, an_answer_that_a_change_overtook_is_used_for_those_who_waited_and_not_kept)
{
    struct asker waited = {0}, after = {0};

    start();
    wish(&waited, own, 'a');
    ask(&waited);
    loop_turn(loop, 0);
    known_plans_doubt(store.plans, waited.request.wishes[0].caller);
    answer(0, FAULT_NONE, "pro");
    cr_assert_eq(units(&waited, 0), 20);
    wish(&after, own, 'a');
    cr_assert_not(ask(&after));
    loop_turn(loop, 0);
    cr_assert_eq(call_count, 2);
    answer(1, FAULT_NONE, "free");
    cr_assert_eq(units(&after, 0), 5);
    stop();
}

Test(planner, who_leaves_hears_nothing_before_the_question_after_it_and_inside_another_answer)
{
    struct asker early = {0}, late = {0}, first = {0}, second = {0};

    start();
    wish(&early, own, 'a');
    ask(&early);
    planner_leave(&early.request);
    loop_turn(loop, 0);
    wish(&late, own, 'b');
    ask(&late);
    loop_turn(loop, 0);
    planner_leave(&late.request);
    wish(&first, own, 'c'), wish(&second, own, 'c');
    first.leaves = &second;
    ask(&first), ask(&second);
    loop_turn(loop, 0);
    for (size_t i = 0; i < call_count; i++)
        answer(i, FAULT_NONE, "pro");
    cr_assert_eq(early.settled + late.settled + second.settled, 0);
    cr_assert_eq(first.settled, 1);
    stop();
}
