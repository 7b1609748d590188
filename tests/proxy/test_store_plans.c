/* Plans and resets, by both stores: what one handle writes every other reads, and what was used is forgotten in one step. */
#include "clock.h"
#include "log.h"
#include "loop.h"
#include "redis_fixture.h"
#include "settings.h"
#include "store.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>

enum { PATIENCE_MS = 20000, MEMORY = 0, REDIS = 1 };

static struct redis_fixture fixture;
static redisContext *raw; /* a billing system */
static struct loop *loop;
static struct near *near;
static struct settings settings;
static struct store_redis *redis;
static struct store_memory *memory;
static struct store *one, *other;
static struct limit_rule client = {.name = (char[]){"client"},
                                   .terms = {.limit = 3, .window_us = 3600000000, .tick_us = 1}},
                         another = {.name = (char[]){"another"},
                                    .terms = {.limit = 3, .window_us = 3600000000, .tick_us = 1}};

#define turn_until(condition)                                                                                \
    do {                                                                                                     \
        int64_t give_up_ms_ = clock_mono().ms + PATIENCE_MS;                                                 \
        while (!(condition)) {                                                                               \
            cr_assert_lt(clock_mono().ms, give_up_ms_, "never came true: %s", #condition);                   \
            loop_turn(loop, 5);                                                                              \
        }                                                                                                    \
    } while (0)

static void start(int kind)
{
    log_set_level(LOG_ERROR);
    loop = loop_new();
    near = near_new(1 << 20, 1 << 18);
    if (kind == MEMORY) {
        memory = store_memory_new(near);
        one = store_memory_join(memory, loop);
        other = store_memory_join(memory, loop);
        return;
    }
    fixture = redis_fixture_start();
    raw = redis_fixture_connect(&fixture);
    settings.store = (struct store_settings){.kind = STORE_REDIS,
                                             .host = (char *)"127.0.0.1",
                                             .port = fixture.port,
                                             .prefix = (char *)"w",
                                             .timeout_ms = 5000};
    redis = store_redis_new(&settings, near);
    one = store_redis_join(redis, loop);
    other = store_redis_join(redis, loop);
    turn_until(one->is_up && other->is_up && one->is_pushed);
}

static void stop(int kind)
{
    one->ops->free(one);
    other->ops->free(other);
    loop_turn(loop, 0);
    if (kind == MEMORY)
        store_memory_free(memory);
    else {
        store_redis_free(redis);
        redisFree(raw);
        redis_fixture_stop(&fixture);
    }
    near_free(near);
    loop_free(loop);
}

/* ---- the operations, each waited for ---- */

struct seen {
    int runs;
    enum fault fault;
    struct plan_answer plan;
    bool was_there;
    int64_t admitted, available;
};

static void on_plan(void *arg, enum fault fault, const struct plan_answer *answer)
{
    struct seen *seen = arg;

    seen->runs++;
    seen->fault = fault;
    if (fault == FAULT_NONE)
        seen->plan = *answer;
}

static void on_change(void *arg, enum fault fault, bool was_there)
{
    struct seen *seen = arg;

    seen->runs++;
    seen->fault = fault;
    seen->was_there = was_there;
}

static void on_admit(void *arg, enum fault fault, const struct admit_answer *answers, size_t count)
{
    struct seen *seen = arg;

    seen->runs++;
    seen->fault = fault;
    cr_assert_eq(count, 1u);
    seen->admitted = answers[0].admitted;
    seen->available = answers[0].states[0].available;
}

static const unsigned char *caller(char name)
{
    static unsigned char rooms[2][PRINCIPAL_BYTES];
    static unsigned next;
    unsigned char *room = rooms[next++ % 2];

    memset(room, name, PRINCIPAL_BYTES);
    return room;
}

static struct plan_answer read_plan(struct store *store, char name)
{
    struct seen seen = {0};

    store_read_plan(store, caller(name), on_plan, &seen);
    cr_assert_eq(seen.runs, 0, "never inside the start");
    turn_until(seen.runs == 1);
    cr_assert_eq(seen.fault, FAULT_NONE);
    return seen.plan;
}

static bool plan_is(struct store *store, char name, const char *plan)
{
    struct plan_answer answer = read_plan(store, name);

    return slice_eq(plan_name_text(&answer.plan), slice_text(plan));
}

static bool write_plan(struct store *store, char name, const char *plan)
{
    struct plan_name text = plan_name_of(slice_text(plan));
    struct seen seen = {0};

    store_write_plan(store, caller(name), &text, on_change, &seen);
    memset(&text, 'x', sizeof(text)); /* it was copied */
    turn_until(seen.runs == 1);
    cr_assert_eq(seen.fault, FAULT_NONE);
    return seen.was_there;
}

static bool reset(struct store *store, char name, const char *limit)
{
    struct seen seen = {0};

    store_reset_limit(store, caller(name), limit, on_change, &seen);
    turn_until(seen.runs == 1);
    cr_assert_eq(seen.fault, FAULT_NONE);
    return seen.was_there;
}

static struct seen take(struct store *store, const struct limit_rule *rule, char name, int64_t count)
{
    struct limit_charge charge = {.rule = rule, .terms = &rule->terms, .cost = 1};
    struct admit_tuple tuple = {&charge, 1, count};
    struct seen seen = {0};

    memset(charge.principal, name, sizeof(charge.principal));
    store_admit(store, &tuple, 1, on_admit, &seen);
    turn_until(seen.runs == 1);
    cr_assert_eq(seen.fault, FAULT_NONE);
    return seen;
}

/* ---- both stores ---- */

ParameterizedTestParameters(store_plans, what_one_handle_writes_the_other_reads)
{
    static int kinds[] = {MEMORY, REDIS};

    return cr_make_param_array(int, kinds, 2);
}

ParameterizedTest(int *kind, store_plans, what_one_handle_writes_the_other_reads, .timeout = 60)
{
    start(*kind);
    cr_assert(plan_is(one, 'a', ""));
    cr_assert_not(write_plan(one, 'a', "pro"));
    cr_assert(plan_is(other, 'a', "pro"));
    cr_assert_eq(read_plan(other, 'a').lasts_ms, -1);
    cr_assert(plan_is(other, 'b', ""));
    cr_assert(write_plan(other, 'a', "free"));
    cr_assert(plan_is(one, 'a', "free"));
    cr_assert(write_plan(one, 'a', ""));
    cr_assert(plan_is(other, 'a', ""));
    cr_assert_not(write_plan(one, 'a', ""));
    stop(*kind);
}

ParameterizedTestParameters(store_plans, who_changes_a_plan_knows_it_before_the_answer)
{
    static int kinds[] = {MEMORY, REDIS};

    return cr_make_param_array(int, kinds, 2);
}

ParameterizedTest(int *kind, store_plans, who_changes_a_plan_knows_it_before_the_answer, .timeout = 60)
{
    struct plan_name old = plan_name_of(SLICE("old")), found;
    uint64_t corrections;

    start(*kind);
    for (int i = 0; i < 50; i++) {
        known_plans_learn(one->plans, caller('a'), known_plans_mark(one->plans, caller('a')), &old,
                          INT64_MAX);
        corrections = one->corrections;
        write_plan(other, 'a', i % 2 == 0 ? "pro" : "free");
        cr_assert_not(known_plans_find(one->plans, caller('a'), 0, &found),
                      "all handles of a process have one memory");
        cr_assert(*kind == MEMORY || one->corrections > corrections, "and its refusals end");
    }
    stop(*kind);
}

ParameterizedTestParameters(store_plans, a_reset_forgets_one_limit_of_one_caller)
{
    static int kinds[] = {MEMORY, REDIS};

    return cr_make_param_array(int, kinds, 2);
}

ParameterizedTest(int *kind, store_plans, a_reset_forgets_one_limit_of_one_caller, .timeout = 60)
{
    start(*kind);
    cr_assert_not(reset(one, 'a', "client"));
    cr_assert_eq(take(one, &client, 'a', 5).admitted, 3);
    cr_assert_eq(take(one, &another, 'a', 5).admitted, 3);
    cr_assert_eq(take(one, &client, 'b', 5).admitted, 3);
    cr_assert_eq(take(other, &client, 'a', 0).available, 0);
    cr_assert(reset(other, 'a', "client"));
    cr_assert_eq(take(one, &client, 'a', 5).admitted, 3);
    cr_assert_eq(take(one, &another, 'a', 5).admitted, 0);
    cr_assert_eq(take(one, &client, 'b', 5).admitted, 0);
    stop(*kind);
}

ParameterizedTestParameters(store_plans, a_look_at_a_state_takes_nothing)
{
    static int kinds[] = {MEMORY, REDIS};

    return cr_make_param_array(int, kinds, 2);
}

ParameterizedTest(int *kind, store_plans, a_look_at_a_state_takes_nothing, .timeout = 60)
{
    start(*kind);
    for (int i = 0; i < 10; i++)
        cr_assert_eq(take(one, &client, 'a', 0).available, 3);
    cr_assert_not(reset(one, 'a', "client"), "there is nothing that it could have left");
    cr_assert_eq(take(one, &client, 'a', 2).admitted, 2);
    for (int i = 0; i < 10; i++)
        cr_assert_eq(take(one, &client, 'a', 0).available, 1);
    cr_assert_eq(take(one, &client, 'a', 5).admitted, 1);
    stop(*kind);
}

/* ---- what is Redis's or memory's own ---- */

static int64_t tell(const char *format, ...)
{
    va_list words;
    redisReply *reply;
    int64_t number;

    va_start(words, format);
    reply = redisvCommand(raw, format, words);
    va_end(words);
    cr_assert(reply != NULL && reply->type != REDIS_REPLY_ERROR, "%s: %s", format,
              reply == NULL ? "" : reply->str);
    number = reply->integer;
    freeReplyObject(reply);
    return number;
}

static const char a_key[] = "w:p:{61616161616161616161616161616161}";

static bool is_known(char name)
{
    struct plan_name found;

    return known_plans_find(one->plans, caller(name), 0, &found);
}

static void learn(char name, const char *plan)
{
    struct plan_name text = plan_name_of(slice_text(plan));

    known_plans_learn(one->plans, caller(name), known_plans_mark(one->plans, caller(name)), &text, INT64_MAX);
}

Test(store_plans, in_redis_it_is_a_hash_that_others_may_write, .timeout = 60)
{
    struct plan_answer answer;

    start(REDIS);
    tell("HSET %s plan pro paid_by card", a_key);
    tell("PEXPIRE %s 1000000", a_key);
    answer = read_plan(one, 'a');
    cr_assert(answer.lasts_ms > 900000 && answer.lasts_ms <= 1000000);
    cr_assert(write_plan(one, 'a', "free"));
    cr_assert_eq(read_plan(one, 'a').lasts_ms, -1, "a plan that is set lasts");
    cr_assert(write_plan(one, 'a', ""));
    cr_assert_eq(tell("HEXISTS %s paid_by", a_key), 1, "what is not ours stays");
    cr_assert(plan_is(one, 'a', ""));
    stop(REDIS);
}

Test(store_plans, changes_in_redis_are_heard_from_when_the_process_says_so, .timeout = 60)
{
    uint64_t corrections;

    start(REDIS);
    turn_until((learn('a', "pro"), learn('b', "pro"), is_known('a'))); /* it is told */
    corrections = one->corrections;
    tell("HSET %s plan free", a_key);
    turn_until(!is_known('a'));
    turn_until(one->corrections > corrections);
    cr_assert(is_known('b'));
    tell("SET w:p:{short} x");
    tell("HSET w:other:{61616161616161616161616161616161} plan free");
    learn('a', "free");
    tell("FLUSHALL");
    turn_until(!is_known('a') && !is_known('b'));
    learn('a', "free");
    corrections = one->corrections;
    tell("PUBLISH w:reset somebody");
    turn_until(one->corrections > corrections);
    cr_assert(is_known('a'));
    stop(REDIS);
}

Test(store_plans, the_memory_store_refuses_more_callers_than_it_holds, .timeout = 60)
{
    enum { MOST = 65536 };
    struct plan_name plan = plan_name_of(SLICE("pro"));
    struct seen seen = {0};
    unsigned char who[PRINCIPAL_BYTES] = {0};

    start(MEMORY);
    for (uint32_t i = 0; i <= MOST; i++) {
        memcpy(who, &i, sizeof(i));
        store_write_plan(one, who, &plan, on_change, &seen);
        if (i % 1000 == 0 || i >= MOST - 1)
            loop_turn(loop, 0);
        cr_assert(i == MOST || seen.fault == FAULT_NONE);
    }
    cr_assert_eq(seen.fault, FAULT_STORE_AWAY);
    memset(who, 0, sizeof(who));
    plan.len = 0;
    store_write_plan(one, who, &plan, on_change, &seen);
    loop_turn(loop, 0);
    cr_assert(seen.fault == FAULT_NONE && seen.was_there);
    cr_assert_not(write_plan(one, 'z', "pro"), "there is room again");
    stop(MEMORY);
}

Test(store_plans, what_is_cancelled_is_not_told_and_a_change_happens_all_the_same, .timeout = 60)
{
    static const int kinds[] = {MEMORY, REDIS};

    for (size_t i = 0; i < 2; i++) {
        struct plan_name plan = plan_name_of(SLICE("pro"));
        struct seen seen = {0};
        struct store_call *calls[3];

        start(kinds[i]);
        take(one, &client, 'a', 3);
        calls[0] = store_read_plan(one, caller('a'), on_plan, &seen);
        calls[1] = store_write_plan(one, caller('a'), &plan, on_change, &seen);
        calls[2] = store_reset_limit(one, caller('a'), "client", on_change, &seen);
        for (int c = 0; c < 3; c++)
            store_cancel(&calls[c]);
        turn_until(plan_is(one, 'a', "pro"));
        cr_assert_eq(take(one, &client, 'a', 3).admitted, 3);
        cr_assert_eq(seen.runs, 0);
        calls[0] = store_read_plan(one, caller('a'), on_plan, &seen); /* under way when the handle ends */
        stop(kinds[i]);
        cr_assert(kinds[i] == MEMORY || seen.runs == 0);
    }
}
