/* The limit decision is written twice, in C and in Lua. They must agree with each other and with a model that
 * only knows the definitions, on every decision, remainder, reset and wait, whatever the algorithms, the
 * arrivals, the clock and the configuration do.
 *
 * WEIR_SEED repeats a failed run, and gives long runs their own histories. WEIR_STEPS is how many decisions
 * each algorithm gets from each pair of judges (the default is for a run that somebody waits for). What fails
 * is shrunk to the steps that matter before it is shown. */
#include "redis_fixture.h"
#include "support_admit.h"

#include <criterion/criterion.h>

enum { HISTORY_STEPS = 500, SHORT_STEPS = 30000, SCRIPT_HISTORY_STEPS = 256 };

static uint64_t first_seed(void)
{
    const char *wanted = getenv("WEIR_SEED");

    return wanted == NULL ? 20261130 : strtoull(wanted, NULL, 10);
}

static int64_t wanted_steps(void)
{
    const char *wanted = getenv("WEIR_STEPS");

    return wanted == NULL ? SHORT_STEPS : strtoll(wanted, NULL, 10);
}

/* How many charges of each algorithm were decided. */
struct tally {
    int64_t decided[ALGORITHMS]; /* settlements included */
    int64_t settled;
};

static void count(struct tally *tally, const struct request *request)
{
    tally->settled += request->settles;
    for (size_t j = 0; j < request->charge_count; j++)
        tally->decided[request->charges[j].terms.algorithm]++;
}

static int64_t fewest(const struct tally *tally)
{
    int64_t least = INT64_MAX;

    for (int i = 0; i < ALGORITHMS; i++)
        least = tally->decided[i] < least ? tally->decided[i] : least;
    return least;
}

static void report(const char *judges, const struct tally *tally, uint64_t next_seed)
{
    fprintf(stderr,
            "%s: seeds %llu to %llu; decisions: sliding_window %lld, sliding_log %lld, token_bucket %lld, "
            "fixed_window %lld, concurrency %lld; of them holds that were settled %lld\n",
            judges, (unsigned long long)first_seed(), (unsigned long long)next_seed - 1,
            (long long)tally->decided[LIMIT_SLIDING_WINDOW], (long long)tally->decided[LIMIT_SLIDING_LOG],
            (long long)tally->decided[LIMIT_TOKEN_BUCKET], (long long)tally->decided[LIMIT_FIXED_WINDOW],
            (long long)tally->decided[LIMIT_CONCURRENCY], (long long)tally->settled);
}

/* ---- histories that can be shortened ---- */

struct step {
    int64_t now_us;
    struct request request;
};

struct steps {
    size_t count;
    struct step list[HISTORY_STEPS];
};

/* True when two judges part at the last of the steps, or before; `*where` is the step. */
typedef bool parts_fn(const struct steps *steps, bool quietly, size_t *where);

static redisContext *redis; /* of the tests that ask the script */

/* Leaves out halves, quarters, ... single steps, as long as the judges still part. */
static void shrink(struct steps *steps, parts_fn *part)
{
    static struct steps shorter;
    size_t where;

    for (size_t chunk = steps->count / 2; chunk > 0; chunk /= 2)
        for (size_t from = 0; from + chunk <= steps->count;) {
            shorter.count = steps->count - chunk;
            memcpy(shorter.list, steps->list, from * sizeof(*steps->list));
            memcpy(shorter.list + from, steps->list + from + chunk,
                   (steps->count - from - chunk) * sizeof(*steps->list));
            if (shorter.count > 0 && part(&shorter, true, &where)) {
                shorter.count = where + 1;
                *steps = shorter;
            } else {
                from += chunk;
            }
        }
}

static void show(const struct steps *steps)
{
    static const char *const names[] = {"sliding_window", "sliding_log", "token_bucket", "fixed_window",
                                        "concurrency"};

    for (size_t i = 0; i < steps->count; i++) {
        const struct request *request = &steps->list[i].request;
        if (request->settles)
            fprintf(stderr, "at %lld: settled at %lld:", (long long)steps->list[i].now_us,
                    (long long)request->charged);
        else
            fprintf(stderr, "at %lld: %lld of", (long long)steps->list[i].now_us, (long long)request->count);
        for (size_t j = 0; j < request->charge_count; j++) {
            const struct limit_terms *terms = &request->charges[j].terms;
            fprintf(
                stderr,
                " [key %zu, %s %lld in %lld us, tick %lld, burst %lld, calendar %d, lease %lld, cost %lld, "
                "%s %lld]",
                request->charges[j].key, names[terms->algorithm], (long long)terms->limit,
                (long long)terms->window_us, (long long)terms->tick_us, (long long)terms->burst,
                (int)terms->calendar, (long long)terms->lease_us, (long long)request->charges[j].cost,
                request->charges[j].takes_hold ? "hold" : "no hold",
                (long long)request->charges[j].first_hold);
            if (j >= enforced_count(request))
                fprintf(stderr, " (in shadow)");
        }
        fprintf(stderr, "\n");
    }
}

static void expect_no_parting(struct steps *steps, parts_fn *part, uint64_t seed)
{
    size_t where;

    if (!part(steps, true, &where))
        return;
    steps->count = where + 1;
    shrink(steps, part);
    show(steps);
    part(steps, false, &where);
    cr_assert_fail("the judges part in the history of seed %llu (WEIR_SEED); shrunk to %zu steps, above",
                   (unsigned long long)seed, steps->count);
}

/* What a history asks may depend on what it was told: the policy tells, without being judged yet. */
static void write_history(struct steps *steps, size_t length, uint64_t seed, struct tally *tally)
{
    static struct policy_world policy;
    struct history history;

    history_begin(&history, seed);
    for (steps->count = 0; steps->count < length; steps->count++) {
        struct step *step = &steps->list[steps->count];
        struct outcome outcome;
        history_turn(&history);
        step->now_us = history.now_us;
        step->request = (struct request){0};
        if (roll(&history.dice, 4) > 0 || !history_settlement(&history, &step->request))
            history_request(&history, &step->request);
        policy_admit(&policy, &step->request, step->now_us, &outcome);
        history_heard(&history, &step->request, &outcome);
        count(tally, &step->request);
    }
    policy_forget(&policy);
}

/* ---- the policy and the model ---- */

static bool policy_parts_from_model(const struct steps *steps, bool quietly, size_t *where)
{
    static struct naive_world naive;
    static struct policy_world policy;
    bool agree = true;

    naive_forget(&naive);
    for (*where = 0; *where < steps->count && agree; ++*where) {
        const struct step *step = &steps->list[*where];
        struct outcome by_policy, by_model;
        policy_admit(&policy, &step->request, step->now_us, &by_policy);
        naive_admit(&naive, &step->request, step->now_us, &by_model);
        agree = outcomes_agree(&step->request, &by_policy, &by_model, quietly);
    }
    --*where;
    policy_forget(&policy);
    return !agree;
}

Test(admit_differential, the_policy_decides_what_the_definition_says)
{
    static struct steps steps;
    struct tally tally = {0};
    uint64_t seed = first_seed();

    for (; fewest(&tally) < wanted_steps(); seed++) {
        write_history(&steps, HISTORY_STEPS, seed, &tally);
        expect_no_parting(&steps, policy_parts_from_model, seed);
    }
    report("policy and model", &tally, seed);
}

/* ---- the script and the policy ---- */

enum { MOST_REQUESTS_A_CALL = 6 };

/* Consecutive steps of one moment travel in one call. */
static size_t calls_of(const struct steps *steps, struct script_call *calls, struct request *requests)
{
    size_t count = 0;

    for (size_t i = 0; i < steps->count; i++) {
        requests[i] = steps->list[i].request;
        if (count > 0 && calls[count - 1].now_us == steps->list[i].now_us &&
            calls[count - 1].requests[0].settles == requests[i].settles &&
            calls[count - 1].count < MOST_REQUESTS_A_CALL)
            calls[count - 1].count++;
        else
            calls[count++] = (struct script_call){
                .prefix = "h", .requests = &requests[i], .count = 1, .now_us = steps->list[i].now_us};
    }
    return count;
}

/* Redis lets keys die by the real clock, the history has its own: so each key's TTL is looked at and taken
 * away after each call, which the next call must repair. */
static void append_ttl_checks(void)
{
    for (size_t key = 0; key < WORLD_KEYS; key++) {
        redisAppendCommand(redis, "PTTL h:%d", (int)key);
        redisAppendCommand(redis, "PERSIST h:%d", (int)key);
        redisAppendCommand(redis, "PTTL h:h%d", (int)key);
        redisAppendCommand(redis, "PERSIST h:h%d", (int)key);
    }
}

static int64_t next_ttl(void)
{
    redisReply *ttl = NULL, *persisted = NULL;
    int64_t ms;

    cr_assert_eq(redisGetReply(redis, (void **)&ttl), REDIS_OK);
    cr_assert_eq(redisGetReply(redis, (void **)&persisted), REDIS_OK);
    ms = ttl->integer;
    freeReplyObject(ttl);
    freeReplyObject(persisted);
    return ms;
}

/* A settlement looks at the state only where it charges. */
static bool read_ttl_checks(const struct script_call *call)
{
    bool was_named[WORLD_KEYS] = {false}, was_held[WORLD_KEYS] = {false}, all_have_one = true;

    for (size_t r = 0; r < call->count; r++)
        for (size_t j = 0; j < call->requests[r].charge_count; j++) {
            const struct charge *charge = &call->requests[r].charges[j];
            was_named[charge->key] |=
                charge->terms.algorithm != LIMIT_CONCURRENCY && !call->requests[r].settles;
            was_held[charge->key] |= charge->terms.lease_us > 0;
        }
    for (size_t key = 0; key < WORLD_KEYS; key++) {
        int64_t state_ttl = next_ttl(), holds_ttl = next_ttl();
        all_have_one &= !(was_named[key] && state_ttl == -1) && !(was_held[key] && holds_ttl == -1);
    }
    return all_have_one;
}

static bool script_parts_from_policy(const struct steps *steps, bool quietly, size_t *where)
{
    static struct policy_world policy;
    static struct script_call calls[HISTORY_STEPS];
    static struct request requests[HISTORY_STEPS];
    static struct script_answer answer;
    size_t call_count = calls_of(steps, calls, requests), at = 0, first_parting = SIZE_MAX;

    freeReplyObject(redis_says(redis, "FLUSHALL"));
    for (size_t i = 0; i < call_count; i++) {
        script_append(redis, &calls[i]);
        append_ttl_checks();
    }
    for (size_t i = 0; i < call_count; i++) {
        script_read(redis, &calls[i], &answer);
        for (size_t r = 0; r < calls[i].count; r++, at++) {
            struct outcome expected;
            policy_admit(&policy, &calls[i].requests[r], calls[i].now_us, &expected);
            if (!outcomes_agree(&calls[i].requests[r], &expected, &answer.outcomes[r],
                                quietly || first_parting != SIZE_MAX) &&
                first_parting == SIZE_MAX)
                first_parting = at;
        }
        freeReplyObject(answer.reply);
        if (!read_ttl_checks(&calls[i]) && first_parting == SIZE_MAX) {
            first_parting = at - 1;
            if (!quietly)
                fprintf(stderr, "a key was left without a TTL\n");
        }
    }
    policy_forget(&policy);
    *where = first_parting;
    return first_parting != SIZE_MAX;
}

static struct redis_fixture fixture;

static void start_redis(void)
{
    fixture = redis_fixture_start();
    redis = redis_fixture_connect(&fixture);
    script_load(redis);
}

static void stop_redis(void)
{
    redisFree(redis);
    redis_fixture_stop(&fixture);
}

Test(admit_differential, the_script_decides_what_the_policy_decides, .init = start_redis, .fini = stop_redis)
{
    static struct steps steps;
    struct tally tally = {0};
    uint64_t seed = first_seed();

    for (; fewest(&tally) < wanted_steps(); seed++) {
        write_history(&steps, SCRIPT_HISTORY_STEPS, seed, &tally);
        expect_no_parting(&steps, script_parts_from_policy, seed);
    }
    report("script and policy", &tally, seed);
}

/* Each request of a call, one by one in calls of their own, on another copy of the world. */
static void compare_with_single_calls(const struct script_call *batch, const struct script_answer *together)
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
            for (size_t j = 0; j < one.charge_count; j++)
                one.charges[j].first_hold++;
            for (size_t j = 0; j < MAX_CHARGES; j++)
                joined.shadow_passing[j] += alone.outcomes[0].shadow_passing[j];
            freeReplyObject(alone.reply);
        }
        cr_assert(outcomes_agree(&batch->requests[r], &together->outcomes[r], &joined, false));
    }
}

Test(admit_differential, a_batch_decides_what_its_requests_would_one_by_one, .init = start_redis,
     .fini = stop_redis)
{
    static struct request requests[12];
    static struct script_answer together;

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
            compare_with_single_calls(&batch, &together);
            freeReplyObject(together.reply);
            /* the real clock must not outlive the history's */
            for (size_t key = 0; key < WORLD_KEYS; key++) {
                freeReplyObject(redis_says(redis, "PERSIST batch:%d", (int)key));
                freeReplyObject(redis_says(redis, "PERSIST one:%d", (int)key));
                freeReplyObject(redis_says(redis, "PERSIST batch:h%d", (int)key));
                freeReplyObject(redis_says(redis, "PERSIST one:h%d", (int)key));
            }
            history_turn(&history);
        }
    }
}
