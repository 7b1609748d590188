/* The limit decision is written twice, in C and in Lua. They must agree with each other and with a model that
 * only knows the definition, on every decision, remainder, reset and wait, whatever the arrivals, the clock
 * and the configuration do. */
#include "redis_fixture.h"
#include "support_admit.h"

#include <criterion/criterion.h>

/* WEIR_SEED repeats a failed run, and gives long runs their own histories. */
static uint64_t first_seed(void)
{
    const char *wanted = getenv("WEIR_SEED");

    return wanted == NULL ? 20261130 : strtoull(wanted, NULL, 10);
}

static void compare_policy_with_model(uint64_t seed, int turns)
{
    static struct naive_world naive;
    struct policy_world policy = {0};
    struct history history;

    memset(&naive, 0, sizeof(naive));
    history_begin(&history, seed);
    for (int turn = 0; turn < turns; turn++) {
        struct request request;
        struct outcome by_policy, by_model;
        history_turn(&history);
        history_request(&history, &request);
        policy_admit(&policy, &request, history.now_us, &by_policy);
        naive_admit(&naive, &request, history.now_us, &by_model);
        cr_assert(outcomes_agree(&request, &by_policy, &by_model),
                  "policy and model part at turn %d of seed %llu (WEIR_SEED)", turn,
                  (unsigned long long)seed);
    }
}

Test(admit_differential, the_policy_decides_what_the_definition_says)
{
    for (uint64_t i = 0; i < 500; i++)
        compare_policy_with_model(first_seed() + i, 500);
}

enum { CALLS_AT_ONCE = 64, MOST_REQUESTS_A_CALL = 6 };

struct planned_call {
    struct script_call call;
    struct request requests[MOST_REQUESTS_A_CALL];
    struct outcome expected[MOST_REQUESTS_A_CALL];
};

static void plan_call(struct planned_call *planned, struct history *history, struct policy_world *policy)
{
    history_turn(history);
    planned->call = (struct script_call){
        .prefix = "h", .requests = planned->requests, .now_us = history->now_us, .seen = 0};
    planned->call.count = (size_t)(1 + roll(&history->dice, MOST_REQUESTS_A_CALL));
    for (size_t r = 0; r < planned->call.count; r++) {
        history_request(history, &planned->requests[r]);
        policy_admit(policy, &planned->requests[r], history->now_us, &planned->expected[r]);
    }
}

/* Redis lets keys die by the real clock, the history has its own: so each key's TTL is looked at and taken
 * away after each call, which the next call must repair. */
static void append_ttl_checks(redisContext *redis)
{
    for (size_t key = 0; key < WORLD_KEYS; key++) {
        redisAppendCommand(redis, "PTTL h:%d", (int)key);
        redisAppendCommand(redis, "PERSIST h:%d", (int)key);
    }
}

static void read_ttl_checks(redisContext *redis, const struct script_call *call)
{
    bool was_named[WORLD_KEYS] = {false};

    for (size_t r = 0; r < call->count; r++)
        for (size_t j = 0; j < call->requests[r].charge_count; j++)
            was_named[call->requests[r].charges[j].key] = true;
    for (size_t key = 0; key < WORLD_KEYS; key++) {
        redisReply *ttl = NULL, *persisted = NULL;
        cr_assert_eq(redisGetReply(redis, (void **)&ttl), REDIS_OK);
        cr_assert_eq(redisGetReply(redis, (void **)&persisted), REDIS_OK);
        if (was_named[key])
            cr_assert_neq(ttl->integer, -1, "key %zu was left without a TTL", key);
        freeReplyObject(ttl);
        freeReplyObject(persisted);
    }
}

static size_t compare_script_with_policy(redisContext *redis, uint64_t seed, int rounds)
{
    static struct planned_call plan[CALLS_AT_ONCE];
    static struct script_answer answer;
    struct policy_world policy = {0};
    struct history history;
    size_t compared = 0;

    freeReplyObject(redis_says(redis, "FLUSHALL"));
    history_begin(&history, seed);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < CALLS_AT_ONCE; i++) {
            plan_call(&plan[i], &history, &policy);
            script_append(redis, &plan[i].call);
            append_ttl_checks(redis);
        }
        for (int i = 0; i < CALLS_AT_ONCE; i++) {
            script_read(redis, &plan[i].call, &answer);
            for (size_t r = 0; r < plan[i].call.count; r++, compared++)
                cr_assert(outcomes_agree(&plan[i].requests[r], &plan[i].expected[r], &answer.outcomes[r]),
                          "policy and script part in call %d of round %d of seed %llu (WEIR_SEED)", i, round,
                          (unsigned long long)seed);
            freeReplyObject(answer.reply);
            read_ttl_checks(redis, &plan[i].call);
        }
    }
    return compared;
}

Test(admit_differential, the_script_decides_what_the_policy_decides)
{
    struct redis_fixture fixture = redis_fixture_start();
    redisContext *redis = redis_fixture_connect(&fixture);
    size_t compared = 0;

    script_load(redis);
    for (uint64_t i = 0; i < 30; i++)
        compared += compare_script_with_policy(redis, first_seed() + i, 4);
    cr_assert_gt(compared, 20000);
    redisFree(redis);
    redis_fixture_stop(&fixture);
}

/* Each request of a call, one by one in calls of their own, on another copy of the world. */
static void compare_with_single_calls(redisContext *redis, const struct script_call *batch,
                                      const struct script_answer *together)
{
    static struct script_answer alone;

    for (size_t r = 0; r < batch->count; r++) {
        struct request one = batch->requests[r];
        struct script_call call = {"one", &one, 1, batch->now_us, 0};
        struct outcome joined = {.passing = 0};
        bool has_refused = false;
        one.count = 1;
        for (int64_t i = 0; i < batch->requests[r].count; i++) {
            script_admit(redis, &call, &alone);
            int64_t passed = alone.outcomes[0].passing;
            cr_assert(passed == 0 || !has_refused, "a later one of identical requests passed");
            has_refused = passed == 0;
            memcpy(joined.standings, alone.outcomes[0].standings, sizeof(joined.standings));
            joined.passing += passed;
            freeReplyObject(alone.reply);
        }
        cr_assert(outcomes_agree(&batch->requests[r], &together->outcomes[r], &joined));
    }
}

Test(admit_differential, a_batch_decides_what_its_requests_would_one_by_one)
{
    struct redis_fixture fixture = redis_fixture_start();
    redisContext *redis = redis_fixture_connect(&fixture);
    static struct request requests[12];
    static struct script_answer together;

    script_load(redis);
    for (uint64_t seed = first_seed(); seed < first_seed() + 20; seed++) {
        struct history history;
        freeReplyObject(redis_says(redis, "FLUSHALL"));
        history_begin(&history, seed);
        for (int turn = 0; turn < 12; turn++) {
            struct script_call batch = {"batch", requests, (size_t)(1 + roll(&history.dice, 12)),
                                        history.now_us, 0};
            for (size_t r = 0; r < batch.count; r++) {
                if (roll(&history.dice, 20) == 0) /* two configurations at work: a reload, or two nodes */
                    history.rules[roll(&history.dice, WORLD_KEYS)].limit = 1 + roll(&history.dice, 3);
                history_request(&history, &requests[r]);
                requests[r].count += requests[r].count == 0;
            }
            script_admit(redis, &batch, &together);
            compare_with_single_calls(redis, &batch, &together);
            freeReplyObject(together.reply);
            /* the real clock must not outlive the history's */
            for (size_t key = 0; key < WORLD_KEYS; key++) {
                freeReplyObject(redis_says(redis, "PERSIST batch:%d", (int)key));
                freeReplyObject(redis_says(redis, "PERSIST one:%d", (int)key));
            }
            history_turn(&history);
        }
    }
    redisFree(redis);
    redis_fixture_stop(&fixture);
}
