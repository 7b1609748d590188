/* What lua/admit.lua and lua/settle.lua promise of the values in which holds are kept: their size and form, when they end, and what is done
 * with broken ones. Their arithmetic is test_admit_differential.c's. */
#include "admit_wire.h"
#include "script_rig.h"

#include <criterion/criterion.h>

TestSuite(settle, .init = start, .fini = stop);

#define MINUTE_US INT64_C(60000000)
static const int64_t noon_us = INT64_C(1764504000000000);
static const struct limit_terms slots = {
    .algorithm = LIMIT_CONCURRENCY, .limit = 5000, .tick_us = 1, .lease_us = MINUTE_US};
static const struct limit_terms units = {.algorithm = LIMIT_SLIDING_WINDOW,
                                         .limit = 100,
                                         .window_us = MINUTE_US,
                                         .tick_us = 1,
                                         .lease_us = MINUTE_US};

static struct request hold(struct limit_terms terms, int64_t cost, int64_t first, int64_t count)
{
    return (struct request){.charges = {{0, terms, cost, true, first}}, .charge_count = 1, .count = count};
}

static struct request settled(struct limit_terms terms, int64_t cost, int64_t serial, int64_t charged)
{
    struct request request = hold(terms, cost, serial, 0);

    request.settles = true;
    request.charged = charged;
    return request;
}

static struct outcome told(int64_t now_us, struct request request)
{
    static struct script_answer answer;
    struct script_call call = {"k", &request, 1, now_us, 0};

    script_admit(redis, &call, &answer);
    freeReplyObject(answer.reply);
    return answer.outcomes[0];
}

Test(settle, a_hold_is_a_member_and_one_more_has_the_sum)
{
    told(noon_us, hold(slots, 2, 41, 3));
    cr_assert_eq(redis_number(redis, "ZCARD k:h0"), 4);
    cr_assert_eq(redis_number(redis, "ZCOUNT k:h0 -6 -6"), 1);
    for (int serial = 41; serial < 44; serial++) {
        redisReply *score = redis_says(redis, "ZSCORE k:h0 %s",
                                       serial == 41   ? "00000000000000aa 41 2"
                                       : serial == 42 ? "00000000000000aa 42 2"
                                                      : "00000000000000aa 43 2");
        cr_assert_eq(score->type, REDIS_REPLY_STRING);
        cr_assert_eq(strtoll(score->str, NULL, 10), noon_us + MINUTE_US);
        freeReplyObject(score);
    }
    cr_assert_eq(redis_number(redis, "EXISTS k:0"), 0, "nothing was charged");
}

Test(settle, nothing_held_is_no_key)
{
    told(noon_us, hold(slots, 1, 1, 2));
    told(noon_us, settled(slots, 1, 1, 0));
    cr_assert_eq(redis_number(redis, "EXISTS k:h0"), 1);
    told(noon_us, settled(slots, 1, 2, 0));
    cr_assert_eq(redis_number(redis, "EXISTS k:h0"), 0);
    told(noon_us, hold(slots, 1, 1, 2));
    told(noon_us + MINUTE_US, hold(slots, 5001, 9, 1)); /* a look, which is refused */
    cr_assert_eq(redis_number(redis, "EXISTS k:h0"), 0, "what has ended is dropped by whoever looks");
}

Test(settle, a_key_lives_as_long_as_the_last_of_its_holds_and_a_second)
{
    struct limit_terms shorter = slots;
    int64_t ms;

    told(noon_us, hold(slots, 1, 1, 1));
    ms = redis_number(redis, "PTTL k:h0");
    cr_assert(ms > 60000 && ms <= 61000, "%lld", (long long)ms);
    shorter.lease_us = 1000000;
    told(noon_us, hold(shorter, 1, 2, 1));
    cr_assert_gt(redis_number(redis, "PTTL k:h0"), 50000, "a shorter lease takes nothing from a longer one");
    freeReplyObject(redis_says(redis, "PERSIST k:h0"));
    told(noon_us, hold(slots, 5001, 3, 1));
    cr_assert_gt(redis_number(redis, "PTTL k:h0"), 0, "a key without TTL is given one, by a refusal too");
    freeReplyObject(redis_says(redis, "PERSIST k:h0"));
    told(noon_us, settled(slots, 1, 2, 0));
    cr_assert_gt(redis_number(redis, "PTTL k:h0"), 0, "and by what ends");
    told(noon_us, settled(slots, 1, 77, SETTLE_WIRE_RENEW));
    cr_assert_gt(redis_number(redis, "PTTL k:h0"), 0);
}

Test(settle, thousands_that_end_at_once_are_dropped_at_once)
{
    told(noon_us, hold(slots, 1, 1, 4500));
    cr_assert_eq(redis_number(redis, "ZCARD k:h0"), 4501);
    cr_assert_eq(told(noon_us + MINUTE_US - 1, hold(slots, 1, 9000, 600)).passing, 500);
    cr_assert_eq(told(noon_us + MINUTE_US, hold(slots, 1, 20000, 5000)).passing, 4500);
    cr_assert_eq(redis_number(redis, "ZCARD k:h0"), 5001);
}

Test(settle, what_is_not_ours_is_removed_and_counts_as_nothing)
{
    static const char *const broken[] = {
        "SET k:h0 text",      "HSET k:h0 a b",        "ZADD k:h0 7 somebody",
        "ZADD k:h0 -3 !held", "ZADD k:h0 -3 sum 7 x",
    };

    for (size_t i = 0; i < sizeof(broken) / sizeof(*broken); i++) {
        freeReplyObject(redis_says(redis, broken[i]));
        cr_assert_eq(told(noon_us, hold(slots, 1, 1, 5001)).passing, 5000, "%s", broken[i]);
        cr_assert_eq(redis_number(redis, "ZCARD k:h0"), 5001);
        freeReplyObject(redis_says(redis, "DEL k:h0"));
        freeReplyObject(redis_says(redis, broken[i]));
        cr_assert_eq(told(noon_us, settled(slots, 1, 1, 0)).passing, 0, "%s", broken[i]);
        cr_assert_eq(redis_number(redis, "EXISTS k:h0"), 0);
    }
}

Test(settle, the_charge_and_the_end_are_one_step_with_its_ttl)
{
    told(noon_us, hold(units, 10, 1, 1));
    cr_assert_eq(told(noon_us, settled(units, 10, 1, 7)).passing, 1);
    cr_assert_eq(redis_number(redis, "EXISTS k:h0"), 0);
    cr_assert_eq(redis_number(redis, "STRLEN k:0"), 33);
    cr_assert_gt(redis_number(redis, "PTTL k:0"), 119000);
    cr_assert_eq(told(noon_us, hold(units, 94, 2, 1)).passing, 0, "seven are used");
    cr_assert_eq(told(noon_us, hold(units, 93, 2, 1)).passing, 1);
}

Test(settle, a_server_without_memory_to_spare_is_still_told)
{
    told(noon_us, hold(slots, 1, 1, 2));
    freeReplyObject(redis_says(redis, "CONFIG SET maxmemory 1"));
    cr_assert_eq(told(noon_us, settled(slots, 1, 1, 0)).passing, 1);
    cr_assert_eq(told(noon_us, settled(slots, 1, 2, SETTLE_WIRE_RENEW)).passing, 1);
    freeReplyObject(redis_says(redis, "CONFIG SET maxmemory 0"));
}

Test(settle, a_batch_it_cannot_read_settles_nothing)
{
    char item[SETTLE_WIRE_ITEM_BYTES];
    size_t len = settle_wire_item((struct limit_places){2, 2}, &slots, 1, 1, 0, item);

    told(noon_us, hold(slots, 1, 1, 1));
    item[4] = 'x'; /* an algorithm of a later release */
    for (int cut = 0; cut < 2; cut++) {
        redisReply *reply = redisCommand(redis, "EVALSHA %s 2 k:tags k:h0 %s 0 %b h 00000000000000aa",
                                         settle_sha1(), "1764504000000000", item, len - (size_t)cut * 10);
        cr_assert_eq(reply->type, REDIS_REPLY_ERROR);
        cr_assert_eq(redis_number(redis, "ZCARD k:h0"), 2);
        freeReplyObject(reply);
    }
}
