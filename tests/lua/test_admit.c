/* What lua/admit.lua promises beside its arithmetic: what it writes and when, what it repairs, and the epoch
 * it brings. */
#include "script_rig.h"

#include "admit_wire.h"

#include <criterion/criterion.h>

TestSuite(admit, .init = start, .fini = stop);

static const struct limit_terms ten_a_minute = {.limit = 10, .window_us = 60000000, .tick_us = 1};
static const int64_t noon_us = INT64_C(1764504000000000); /* a window of ten_a_minute begins here */

static struct request ask(size_t key, struct limit_terms rule, int64_t cost, int64_t count)
{
    return (struct request){.charges = {{key, rule, cost}}, .charge_count = 1, .count = count};
}

/* One request of one limit; `now_us` 0 is the server's clock. */
static struct outcome admit_at(int64_t now_us, struct request request)
{
    static struct script_answer answer;
    struct script_call call = {"k", &request, 1, now_us, 0};

    script_admit(redis, &call, &answer);
    freeReplyObject(answer.reply);
    return answer.outcomes[0];
}

/* Only what it says about the epoch; the reply is the caller's. */
static struct script_answer epoch_at(int64_t now_us, int64_t seen)
{
    static struct script_answer answer;
    struct request nothing = {.count = 3};
    struct script_call call = {"k", &nothing, 1, now_us, seen};

    script_admit(redis, &call, &answer);
    cr_assert_eq(answer.outcomes[0].passing, 3, "a tuple without charges passes whole");
    return answer;
}

static redisReply *dump(void)
{
    return redis_says(redis, "EVAL %s 0",
                      "local all = {} for _, k in ipairs(redis.call('KEYS', 'k:?')) do "
                      "all[#all + 1] = k all[#all + 1] = redis.call('DUMP', k) end "
                      "return table.concat(all)");
}

Test(admit, the_servers_clock_is_used_unless_a_test_gives_one)
{
    redisReply *time = redis_says(redis, "TIME");
    int64_t before_us =
        strtoll(time->element[0]->str, NULL, 10) * 1000000 + strtoll(time->element[1]->str, NULL, 10);
    struct script_answer answer = epoch_at(0, 0);

    cr_assert_geq(answer.epoch, before_us, "a new epoch is not below the clock");
    cr_assert_lt(answer.epoch, before_us + INT64_C(60000000));
    freeReplyObject(time);
    freeReplyObject(answer.reply);
}

Test(admit, value_and_ttl_are_written_together_and_outlive_two_windows)
{
    admit_at(noon_us + 1, ask(0, ten_a_minute, 1, 1));
    int64_t ttl_ms = redis_number(redis, "PTTL k:0");

    cr_assert_leq(ttl_ms, 121000);
    cr_assert_gt(ttl_ms, 110000);
}

Test(admit, a_refusal_writes_nothing)
{
    admit_at(noon_us, ask(0, ten_a_minute, 10, 1));
    admit_at(noon_us, ask(1, ten_a_minute, 1, 1));
    redisReply *before = dump();
    struct request both = {.charges = {{1, ten_a_minute, 1}, {0, ten_a_minute, 1}, {2, ten_a_minute, 1}},
                           .charge_count = 3,
                           .count = 5};
    struct outcome refused = admit_at(noon_us + 5, both);
    redisReply *after = dump();

    cr_assert_eq(refused.passing, 0);
    cr_assert_eq(refused.standings[0].retry_us, 0, "this limit allows it");
    cr_assert_gt(refused.standings[1].retry_us, 0, "this one refuses for all");
    cr_assert_eq(before->len, after->len);
    cr_assert_arr_eq(before->str, after->str, before->len, "nobody may be charged for a refused request");
    cr_assert_eq(redis_number(redis, "EXISTS k:2"), 0);
    freeReplyObject(before);
    freeReplyObject(after);
}

Test(admit, a_key_without_ttl_is_given_one_even_by_a_refusal)
{
    admit_at(noon_us, ask(0, ten_a_minute, 10, 1));
    redis_number(redis, "PERSIST k:0");
    cr_assert_eq(redis_number(redis, "PTTL k:0"), -1);
    cr_assert_eq(admit_at(noon_us, ask(0, ten_a_minute, 1, 1)).passing, 0);
    cr_assert_gt(redis_number(redis, "PTTL k:0"), 0);
}

Test(admit, a_key_that_is_not_ours_counts_as_empty_and_gets_a_ttl)
{
    static const struct {
        const char *why, *value;
        size_t len;
    } rows[] = {
        {"empty", "", 0},
        {"a number", "17", 2},
        {"one byte short", "s\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0", 32},
        {"another algorithm", "t\0\207\223\3\0\0\0\0\0\0\0\0\0\0\0\0\377\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 33},
        {"a negative count",
         "s\0\207\223\3\0\0\0\0\0\0\0\0\0\0\0\0\377\377\377\377\377\377\377\377\1\0\0\0\0\0\0\0", 33},
        {"a count above 2^53", "s\0\207\223\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\20\1\0\0\0\0\0\0\0", 33},
        {"a window of nothing", "s\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 33},
        {"a stamp beyond all time", "s\0\207\223\3\0\0\0\0\0\0\0\0\0\0\0\100\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0",
         33},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        freeReplyObject(redis_says(redis, "SET k:0 %b", rows[i].value, rows[i].len));
        struct outcome out = admit_at(noon_us, ask(0, ten_a_minute, 11, 1));
        cr_assert_eq(out.standings[0].available, 10, "%s", rows[i].why);
        cr_assert_gt(redis_number(redis, "PTTL k:0"), 0, "%s: left without a TTL", rows[i].why);
        cr_assert_eq(admit_at(noon_us, ask(0, ten_a_minute, 10, 1)).passing, 1, "%s", rows[i].why);
    }
    freeReplyObject(redis_says(redis, "DEL k:0"));
    freeReplyObject(redis_says(redis, "RPUSH k:0 list"));
    cr_assert_eq(admit_at(noon_us, ask(0, ten_a_minute, 10, 1)).passing, 1,
                 "a list in its place is overwritten");
    cr_assert_gt(redis_number(redis, "PTTL k:0"), 0);
}

Test(admit, what_random_bytes_say_is_survived_and_bounded)
{
    struct dice dice = {7};

    for (int i = 0; i < 2000; i++) {
        char value[33] = {'s'};
        for (size_t at = 1; at < sizeof(value);
             at++) /* half of the high bytes zero: some of it is plausible */
            value[at] = (char)(at % 8 == 0 || at % 8 == 7 ? 0 : roll(&dice, 256));
        freeReplyObject(redis_says(redis, "SET k:0 %b", value, sizeof(value)));
        struct outcome out = admit_at(noon_us, ask(0, ten_a_minute, 3, 2));
        cr_assert(out.standings[0].available >= 0 && out.standings[0].available <= 10);
        cr_assert(out.standings[0].reset_us > 0 && out.standings[0].reset_us <= 2 * 60000000);
        cr_assert(out.standings[0].retry_us >= 0 && out.standings[0].retry_us <= 4 * INT64_C(60000000));
        cr_assert_gt(redis_number(redis, "PTTL k:0"), 0);
    }
}

Test(admit, a_clock_set_back_neither_admits_twice_nor_closes_for_long)
{
    static const int64_t steps_us[] = {1, 30000000, 60000000, 60000001, 3600000000, INT64_C(31536000000000)};

    for (size_t i = 0; i < sizeof(steps_us) / sizeof(*steps_us); i++) {
        freeReplyObject(redis_says(redis, "DEL k:0"));
        int64_t now_us = noon_us - steps_us[i];
        cr_assert_eq(admit_at(noon_us, ask(0, ten_a_minute, 1, 12)).passing, 10);
        struct outcome out = admit_at(now_us, ask(0, ten_a_minute, 1, 12));
        cr_assert_eq(out.passing, 0, "a step of %lld us admits twice", (long long)steps_us[i]);
        cr_assert_leq(out.standings[0].retry_us, 3 * ten_a_minute.window_us);
        int64_t back_us = now_us + out.standings[0].retry_us;
        cr_assert_eq(admit_at(back_us - 1, ask(0, ten_a_minute, 1, 1)).passing, 0);
        cr_assert_eq(admit_at(back_us, ask(0, ten_a_minute, 1, 1)).passing, 1);
    }
}

Test(admit, waiting_as_told_suffices_and_a_microsecond_less_does_not)
{
    struct history history;

    for (uint64_t seed = 1; seed <= 150; seed++) {
        history_begin(&history, seed);
        if (history.rules[0].algorithm == LIMIT_CONCURRENCY) /* it names no wait */
            continue;
        freeReplyObject(redis_says(redis, "FLUSHALL"));
        for (int turn = 0; turn < 8; turn++) {
            struct limit_terms rule = history.rules[0];
            struct request one = ask(0, rule, 1 + roll(&history.dice, limit_capacity(&rule)), 1);
            struct outcome out = admit_at(history.now_us, one);
            freeReplyObject(redis_says(redis, "PERSIST k:0"));
            if (out.standings[0].retry_us == 0)
                continue;
            history.now_us += out.standings[0].retry_us;
            if (history.now_us > LIMIT_LAST_US) /* windows of decades: no clock gets there */
                break;
            cr_assert_eq(admit_at(history.now_us - 1, one).passing, 0, "seed %d: too late", (int)seed);
            cr_assert_eq(admit_at(history.now_us, one).passing, 1, "seed %d: too early", (int)seed);
            freeReplyObject(redis_says(redis, "PERSIST k:0"));
        }
    }
}

Test(admit, the_largest_legal_limit_is_decided_to_the_unit)
{
    static const int64_t windows_us[] = {1000, 60000000, INT64_C(86400000000), LIMIT_MAX_US};

    for (size_t i = 0; i < sizeof(windows_us) / sizeof(*windows_us); i++) {
        int64_t window_us = windows_us[i], largest = LIMIT_EXACT / (window_us / 1000 + 1);
        struct limit_terms rule = {.limit = largest, .window_us = window_us, .tick_us = 1000};
        size_t key = i;
        if (sliding_window_tick(largest, window_us) == 0) /* 2^50 us is no whole number of ms */
            rule = (struct limit_terms){
                .limit = LIMIT_EXACT / (window_us + 1), .window_us = window_us, .tick_us = 1};
        int64_t start_us = noon_us - noon_us % window_us;
        cr_assert_eq(admit_at(start_us, ask(key, rule, rule.limit + 1, 1)).standings[0].retry_us,
                     LIMIT_NEVER);
        cr_assert_eq(admit_at(start_us, ask(key, rule, rule.limit - 1, 1)).passing, 1);
        cr_assert_eq(admit_at(start_us, ask(key, rule, 1, 2)).passing, 1, "the last unit, and not one more");
        struct outcome full = admit_at(start_us, ask(key, rule, rule.limit, 1));
        cr_assert_eq(full.standings[0].available, 0);
        cr_assert_eq(full.standings[0].retry_us, 2 * window_us,
                     "all of it is free when both windows have gone");
        cr_assert_eq(admit_at(start_us + 2 * window_us - 1, ask(key, rule, rule.limit, 1)).passing, 0);
    }
}

Test(admit, several_limits_charge_all_or_none)
{
    struct limit_terms three = {.limit = 3, .window_us = 60000000, .tick_us = 1};
    struct request both = {.charges = {{0, ten_a_minute, 2}, {1, three, 1}}, .charge_count = 2, .count = 9};
    struct outcome out = admit_at(noon_us, both);

    cr_assert_eq(out.passing, 3);
    cr_assert_eq(out.standings[0].available, 4, "three times two of ten");
    cr_assert_eq(out.standings[0].retry_us, 0);
    cr_assert_eq(out.standings[1].available, 0);
    cr_assert_eq(out.standings[1].retry_us, 60000000 + 20000000,
                 "a third of three must fade in the next minute");
}

/* ---- the epoch ---- */

Test(admit, a_missing_tag_table_comes_back_above_everything_handed_out)
{
    struct script_answer first = epoch_at(noon_us, 0);
    cr_assert_eq(first.epoch, noon_us);
    cr_assert_eq(first.floor, noon_us, "a node that saw nothing must trust nothing older");
    struct script_answer second = epoch_at(noon_us + 5, first.epoch);
    cr_assert_eq(second.epoch, noon_us, "admit does not advance it");
    cr_assert_eq(second.floor, 0, "nothing happened since: nothing to apply");
    cr_assert_eq(second.stamps->elements, 0);

    freeReplyObject(redis_says(redis, "FLUSHALL"));
    struct script_answer ahead = epoch_at(noon_us - 100, first.epoch);
    cr_assert_eq(ahead.epoch, noon_us + 1, "above what was seen, though the clock is behind it");
    cr_assert_eq(ahead.floor, noon_us + 1);
    freeReplyObject(first.reply);
    freeReplyObject(second.reply);
    freeReplyObject(ahead.reply);
}

Test(admit, a_table_older_than_what_was_seen_invalidates_all_of_it)
{
    freeReplyObject(redis_says(redis, "ZADD k:tags 100 !epoch 50 !floor 90 tproduct"));
    struct script_answer answer = epoch_at(noon_us, 200);

    cr_assert_eq(answer.epoch, noon_us);
    cr_assert_eq(answer.floor, noon_us);
    cr_assert_eq(redis_number(redis, "TTL k:tags"), -1, "the tag table outlives everything");
    freeReplyObject(answer.reply);
}

Test(admit, a_table_without_a_floor_gets_the_epoch_for_one)
{
    freeReplyObject(redis_says(redis, "ZADD k:tags 100 !epoch"));
    struct script_answer answer = epoch_at(noon_us, 7);

    cr_assert_eq(answer.epoch, 100);
    cr_assert_eq(answer.floor, 100);
    freeReplyObject(answer.reply);
}

Test(admit, stamps_since_what_was_seen_come_along_exactly)
{
    freeReplyObject(redis_says(redis,
                               "ZADD k:tags 1764504000000003 !epoch 1764000000000000 !floor "
                               "1764504000000001 told 1764504000000002 tnew 1764504000000003 t!epoch"));
    struct script_answer answer = epoch_at(noon_us, noon_us + 1);

    cr_assert_eq(answer.epoch, noon_us + 3);
    cr_assert_eq(answer.floor, INT64_C(1764000000000000));
    cr_assert_not(answer.has_more);
    cr_assert_eq(answer.stamps->elements, 4);
    cr_assert_str_eq(answer.stamps->element[0]->str, "tnew");
    cr_assert_eq(answer.stamps->element[1]->integer, noon_us + 2);
    cr_assert_str_eq(answer.stamps->element[2]->str, "t!epoch", "a tag may be named as it likes");
    cr_assert_eq(answer.stamps->element[3]->integer, noon_us + 3);
    freeReplyObject(answer.reply);
}

Test(admit, too_many_stamps_are_admitted_to)
{
    for (int tags = 127; tags <= 129; tags++) {
        freeReplyObject(redis_says(redis, "ZADD k:tags %d !epoch 900 !floor", 1000 + tags));
        for (int i = 1; i <= tags; i++)
            freeReplyObject(redis_says(redis, "ZADD k:tags %d ttag%d", 1000 + i, i));
        struct script_answer answer = epoch_at(noon_us, 800);
        cr_assert_eq(answer.stamps->elements, 2 * (size_t)(tags < 128 ? tags : 128));
        cr_assert_eq(answer.has_more, tags > 128);
        freeReplyObject(answer.reply);
    }
}

Test(admit, a_batch_it_cannot_read_charges_nobody)
{
    char batch[ADMIT_WIRE_TUPLE_BYTES + 2 * ADMIT_WIRE_CHARGE_BYTES];
    size_t len = admit_wire_tuple(1, 2, batch);
    len += admit_wire_charge((struct limit_places){2, 0}, &ten_a_minute, 1, ADMIT_WIRE_NO_HOLD, batch + len);
    size_t last = len;
    len += admit_wire_charge((struct limit_places){2, 0}, &ten_a_minute, 1, ADMIT_WIRE_NO_HOLD, batch + len);
    batch[last + 4] = 'x'; /* an algorithm of a later release */

    for (int cut = 0; cut < 2; cut++) {
        redisReply *reply = redisCommand(redis, "EVALSHA %s 2 k:tags k:0 %s 0 %b - 00000000000000aa",
                                         script_sha1(), "1764504000000000", batch, len - (size_t)cut * 10);
        cr_assert_eq(reply->type, REDIS_REPLY_ERROR);
        cr_assert_eq(redis_number(redis, "EXISTS k:0"), 0);
        freeReplyObject(reply);
    }
}
