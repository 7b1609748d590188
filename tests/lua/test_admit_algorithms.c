/* What lua/admit.lua promises of the algorithms' values: what they take, when they end, what is done with broken ones, and
 * that a log is decided without reading it. Its arithmetic is test_admit_differential.c's. */
#include "script_rig.h"

#include <criterion/criterion.h>

enum { TIMED = 4 }; /* the algorithms that count over time come first */

TestSuite(admit_algorithms, .init = start, .fini = stop);

#define MINUTE_US INT64_C(60000000)
static const int64_t noon_us = INT64_C(1764504000000000);
static const struct limit_terms ten[TIMED] = {
    {.algorithm = LIMIT_SLIDING_WINDOW, .limit = 10, .window_us = MINUTE_US, .tick_us = 1},
    {.algorithm = LIMIT_SLIDING_LOG, .limit = 10, .window_us = MINUTE_US, .tick_us = 1},
    {.algorithm = LIMIT_TOKEN_BUCKET, .limit = 10, .window_us = MINUTE_US, .tick_us = 1, .burst = 10},
    {.algorithm = LIMIT_FIXED_WINDOW, .limit = 10, .window_us = MINUTE_US, .tick_us = 1},
};

static struct request ask(size_t key, struct limit_terms terms, int64_t cost, int64_t count)
{
    return (struct request){.charges = {{key, terms, cost}}, .charge_count = 1, .count = count};
}

static struct outcome admit_at(int64_t now_us, struct request request)
{
    static struct script_answer answer;
    struct script_call call = {"k", &request, 1, now_us, 0};

    script_admit(redis, &call, &answer);
    freeReplyObject(answer.reply);
    return answer.outcomes[0];
}

static void forget(void)
{
    freeReplyObject(redis_says(redis, "DEL k:0"));
}

Test(admit_algorithms, a_value_has_the_size_that_the_documentation_says)
{
    static const int64_t bytes[TIMED] = {33, 37, 25, 17};

    for (int a = 0; a < TIMED; a++) {
        forget();
        admit_at(noon_us, ask(0, ten[a], 1, 3));
        cr_assert_eq(redis_number(redis, "STRLEN k:0"), bytes[a]);
    }
    forget();
    for (int i = 0; i < 3; i++)
        admit_at(noon_us + i, ask(0, ten[LIMIT_SLIDING_LOG], 1, 1));
    cr_assert_eq(redis_number(redis, "STRLEN k:0"), 37 + 2 * 12, "a dozen bytes for each further moment");
}

Test(admit_algorithms, a_value_lives_as_long_as_it_counts_and_a_second)
{
    static const int64_t ttls_ms[TIMED] = {
        121000, /* two windows */
        61000,  /* one */
        7000,   /* one token comes back in six seconds */
        61000,  /* to the end of the window, which began at noon */
    };

    for (int a = 0; a < TIMED; a++) {
        forget();
        admit_at(noon_us, ask(0, ten[a], 1, 1));
        int64_t ttl_ms = redis_number(redis, "PTTL k:0");
        cr_assert(ttl_ms <= ttls_ms[a] && ttl_ms > ttls_ms[a] - 5000, "algorithm %d: %lld", a,
                  (long long)ttl_ms);
    }
}

static redisReply *dump(void)
{
    return redis_says(
        redis, "EVAL %s 0",
        "local all = {} for i = 0, 3 do all[#all + 1] = redis.call('DUMP', 'k:' .. i) or '-' end "
        "return table.concat(all)");
}

Test(admit_algorithms, a_refusal_by_one_writes_to_no_other)
{
    for (int refusing = 0; refusing < TIMED; refusing++) {
        struct request three = {.charge_count = MAX_CHARGES, .count = 4};
        freeReplyObject(redis_says(redis, "FLUSHALL"));
        for (size_t a = 0; a < TIMED; a++)
            for (int i = 0; i < 3; i++) /* logs of some runs too */
                admit_at(noon_us + i, ask(a, ten[a], 1, 1));
        admit_at(noon_us + 3, ask((size_t)refusing, ten[refusing], 7, 1));
        for (size_t j = 0; j < MAX_CHARGES; j++) {
            size_t a = ((size_t)refusing + j) % TIMED;
            three.charges[MAX_CHARGES - 1 - j] = (struct charge){a, ten[a], 1, false, 0};
        }
        redisReply *before = dump();
        struct outcome out = admit_at(noon_us + 5, three);
        redisReply *after = dump();
        cr_assert_eq(out.passing, 0);
        cr_assert_gt(out.standings[MAX_CHARGES - 1].retry_us, 0);
        cr_assert_eq(out.standings[0].available, 7);
        cr_assert_eq(before->len, after->len);
        cr_assert_arr_eq(before->str, after->str, before->len,
                         "algorithm %d refused and somebody was charged", refusing);
        freeReplyObject(before);
        freeReplyObject(after);
    }
}

Test(admit_algorithms, what_random_bytes_say_is_survived_and_bounded)
{
    static const char letters[] = "sltf";
    static const size_t lens[] = {33, 37, 25, 17};
    struct dice dice = {11};

    for (int i = 0; i < 6000; i++) {
        char value[37 + 6 * 12];
        size_t was = (size_t)roll(&dice, 4), len = lens[was] + (was == 1 ? 12 * (size_t)roll(&dice, 7) : 0);
        const struct limit_terms *terms = &ten[roll(&dice, TIMED)];
        for (size_t at = 0; at < len; at++) /* high bytes zero: some of it is plausible */
            value[at] = (char)(at % 8 == 0 || at % 8 >= 6 ? 0 : roll(&dice, 256));
        value[0] = letters[was];
        if (was == 1) { /* a plausible head, so that the ring is believed in */
            uint64_t stamp = (uint64_t)(noon_us - roll(&dice, 60000000));
            uint32_t head[5] = {(uint32_t)roll(&dice, 12), 0, (uint32_t)roll(&dice, 4),
                                (uint32_t)roll(&dice, 4), 4};
            memcpy(value + 1, &stamp, 8);
            stamp = (uint64_t)(noon_us - 60000000 - roll(&dice, 100));
            memcpy(value + 9, &stamp, 8);
            memcpy(value + 17, head, sizeof(head));
        }
        freeReplyObject(redis_says(redis, "SET k:0 %b", value, len));
        struct outcome out = admit_at(noon_us, ask(0, *terms, 3, 2));
        cr_assert(out.standings[0].available >= 0 && out.standings[0].available <= 10);
        cr_assert(out.standings[0].reset_us >= 0 && out.standings[0].reset_us <= 2 * MINUTE_US);
        cr_assert(out.standings[0].retry_us >= 0 && out.standings[0].retry_us <= 4 * MINUTE_US);
        cr_assert_gt(redis_number(redis, "PTTL k:0"), 0, "left without a TTL");
    }
}

Test(admit_algorithms, what_is_no_string_is_overwritten)
{
    for (int a = 0; a < TIMED; a++) {
        forget();
        freeReplyObject(redis_says(redis, "RPUSH k:0 list"));
        cr_assert_eq(admit_at(noon_us, ask(0, ten[a], 11, 1)).standings[0].available, 10);
        cr_assert_eq(admit_at(noon_us, ask(0, ten[a], 10, 1)).passing, 1);
        cr_assert_gt(redis_number(redis, "PTTL k:0"), 0);
    }
}

Test(admit_algorithms, a_log_for_a_limit_that_is_none_any_more_is_cut_to_what_that_can_know)
{
    for (int i = 0; i < 10; i++)
        admit_at(noon_us + i, ask(0, ten[LIMIT_SLIDING_LOG], 1, 1));
    cr_assert_gt(redis_number(redis, "STRLEN k:0"), 37);
    struct outcome refused = admit_at(noon_us + 10, ask(0, ten[LIMIT_TOKEN_BUCKET], 1, 1));
    cr_assert_eq(refused.passing, 0, "ten were used");
    cr_assert_eq(redis_number(redis, "STRLEN k:0"), 37, "the next refusal need not read the ring");
    cr_assert_gt(redis_number(redis, "PTTL k:0"), 0);
    cr_assert_eq(admit_at(noon_us + 10, ask(0, ten[LIMIT_TOKEN_BUCKET], 1, 1)).standings[0].retry_us,
                 refused.standings[0].retry_us, "and it says the same");
}

/* Calls that Redis counted of a command. */
static int64_t calls_of(const char *command)
{
    redisReply *info = redis_says(redis, "INFO commandstats");
    char name[64];
    snprintf(name, sizeof(name), "cmdstat_%s:calls=", command);
    const char *found = strstr(info->str, name);
    int64_t calls = found == NULL ? 0 : strtoll(found + strlen(name), NULL, 10);
    freeReplyObject(info);
    return calls;
}

/* A thousand units a second, one by one, some hundred wrappings of the ring, and long enough that all of it ends many times. */
Test(admit_algorithms, a_long_log_is_decided_without_reading_it)
{
    enum { LIMIT = 1000, DECISIONS = 20000 };
    struct limit_terms terms = {
        .algorithm = LIMIT_SLIDING_LOG, .limit = LIMIT, .window_us = 1000000, .tick_us = 1};
    static struct policy_world policy;
    struct dice dice = {5};
    int64_t now_us = noon_us, passed = 0, most_bytes = 0;

    for (int i = 0; i < DECISIONS; i++) {
        struct request one = ask(0, terms, 1 + roll(&dice, 3) / 2, 1);
        struct outcome expected, out;
        now_us += roll(&dice, 500) == 0 ? roll(&dice, 1200000) : 1 + roll(&dice, 1500);
        policy_admit(&policy, &one, now_us, &expected);
        out = admit_at(now_us, one);
        cr_assert(outcomes_agree(&one, &expected, &out, false), "decision %d", i);
        passed += out.passing;
        if (i % 100 == 0) {
            int64_t bytes = redis_number(redis, "STRLEN k:0");
            most_bytes = bytes > most_bytes ? bytes : most_bytes;
        }
        freeReplyObject(redis_says(redis, "PERSIST k:0"));
    }
    policy_forget(&policy);
    cr_assert_gt(passed, DECISIONS / 2);
    cr_assert_leq(most_bytes, 37 + 12 * 1024, "bounded by the limit");
    cr_assert_lt(calls_of("getrange"), 6 * DECISIONS,
                 "a few looks for each decision: the head, and where the oldest ended");
}
