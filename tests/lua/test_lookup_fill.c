/* What the cache's scripts promise: one load a key, nothing served that was invalidated or has ended, and
 * nobody waits for nothing. Time is an argument; a lease that ran out is a flight that is gone. */
#include "cache_rig.h"

#include <criterion/criterion.h>

TestSuite(cache_scripts, .init = start, .fini = stop, .timeout = 60);

static bool let_go(const char *token, const char *why, int64_t status, int64_t ms)
{
    return give_up(redis,
                   (struct release_words){
                       .key = "k", .token = token, .why = why, .now_us = now_us, .status = status, .ms = ms});
}

static void pass_s(int64_t seconds)
{
    now_us += seconds * SECOND;
}

#define expect_kind(looked, want) cr_assert_str_eq((looked).kind, want)

/* An entry, stored now. */
static void store_one(void)
{
    struct looked mine = ask(TOKEN_A, "");

    expect_kind(mine, "load");
    cr_assert_str_eq(land(TOKEN_A, mine.began), "stored");
}

Test(cache_scripts, of_all_who_want_a_cold_key_one_loads_and_the_others_are_told_whom_to_wait_for)
{
    struct looked first = ask(TOKEN_A, ""), second = ask(TOKEN_B, "");

    expect_kind(first, "load");
    cr_assert_str_eq(first.token, TOKEN_A);
    cr_assert_eq(first.began, first.epoch, "a load begins at the epoch of its lookup");
    expect_kind(second, "wait");
    cr_assert_str_eq(second.token, TOKEN_A);
    cr_assert(second.wait_ms > 0 && second.wait_ms <= 30000, "at most the lease");
}

Test(cache_scripts, an_entry_is_fresh_then_stale_then_only_for_errors_then_gone)
{
    static const struct {
        const char *why;
        int64_t at_us;
        const char *kind, *bytes;
        int64_t fresh_us, stale_us, error_us, age_us;
    } rows[] = {
        {"just stored", 0, "fresh", "body", 10 * SECOND, 20 * SECOND, 40 * SECOND, 3 * SECOND},
        {"the last fresh microsecond", 10 * SECOND - 1, "fresh", "body", 1, 10 * SECOND + 1, 30 * SECOND + 1,
         13 * SECOND - 1},
        {"fresh ends where stale begins", 10 * SECOND, "stale", "body", 0, 10 * SECOND, 30 * SECOND,
         13 * SECOND},
        {"the last stale microsecond", 20 * SECOND - 1, "stale", "body", 0, 1, 20 * SECOND + 1,
         23 * SECOND - 1},
        {"then it only stands in for an error", 20 * SECOND, "load", "body", 0, 0, 20 * SECOND, 23 * SECOND},
        {"to the end of that window", 40 * SECOND - 1, "load", "body", 0, 0, 1, 43 * SECOND - 1},
        {"and is gone", 40 * SECOND, "load", "", 0, 0, 0, 0},
        {"a clock that was set back leaves it as if stored now", -5 * SECOND, "fresh", "body", 10 * SECOND,
         20 * SECOND, 40 * SECOND, 3 * SECOND},
    };
    int64_t stored_us = now_us;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct looked seen;

        freeReplyObject(redis_says(redis, "FLUSHALL"));
        now_us = stored_us;
        store_one();
        now_us += rows[i].at_us;
        seen = ask(TOKEN_B, "");
        cr_assert_str_eq(seen.kind, rows[i].kind, "%s", rows[i].why);
        cr_assert_str_eq(seen.bytes, rows[i].bytes, "%s", rows[i].why);
        cr_assert_eq(seen.fresh_us, rows[i].fresh_us, "%s", rows[i].why);
        cr_assert_eq(seen.stale_us, rows[i].stale_us, "%s", rows[i].why);
        cr_assert_eq(seen.error_us, rows[i].error_us, "%s", rows[i].why);
        cr_assert_eq(seen.age_us, rows[i].age_us, "%s", rows[i].why);
    }
}

Test(cache_scripts, a_mere_look_takes_nothing_and_lets_nobody_wait)
{
    struct lookup_words words = {.key = "k", .token = "", .now_us = now_us, .lease_ms = LOOKS};
    struct looked seen = look(redis, words), mine;

    expect_kind(seen, "absent");
    cr_assert_str_eq(seen.token, "");
    mine = ask(TOKEN_A, "");
    expect_kind(mine, "load");
    expect_kind(look(redis, words), "absent");
    cr_assert_str_eq(land(TOKEN_A, mine.began), "stored");
    seen = look(redis, words);
    expect_kind(seen, "fresh");
    cr_assert_str_eq(seen.bytes, "body");
    pass_s(15);
    words.now_us = now_us;
    seen = look(redis, words);
    expect_kind(seen, "stale");
    cr_assert_str_eq(seen.token, "", "nobody refreshes for having looked");
    cr_assert_str_eq(ask(TOKEN_B, "").token, TOKEN_B);
    pass_s(15);
    words.now_us = now_us;
    seen = look(redis, words);
    expect_kind(seen, "absent");
    cr_assert_str_eq(seen.bytes, "body", "good for what may be given in place of an error");
}

Test(cache_scripts, a_stale_copy_is_served_to_all_and_refreshed_by_one)
{
    struct looked refresher, other;

    store_one();
    pass_s(15);
    refresher = ask(TOKEN_B, "");
    other = ask(TOKEN_C, "");
    expect_kind(refresher, "stale");
    cr_assert_str_eq(refresher.token, TOKEN_B);
    expect_kind(other, "stale");
    cr_assert_str_eq(other.token, "");
    cr_assert_str_eq(land(TOKEN_B, refresher.began), "stored");
    expect_kind(ask(TOKEN_C, ""), "fresh");
}

Test(cache_scripts, a_refresh_that_failed_is_not_tried_again_before_its_marker_ends)
{
    store_one();
    pass_s(15);
    cr_assert_str_eq(ask(TOKEN_B, "").token, TOKEN_B);
    cr_assert(let_go(TOKEN_B, "failed", 502, 60000));
    cr_assert_str_eq(ask(TOKEN_C, "").token, "", "the copy is served, and nobody asks the upstream");
    expire_flight(redis, "k");
    cr_assert_str_eq(ask(TOKEN_C, "").token, TOKEN_C);
}

Test(cache_scripts, who_waited_for_a_load_that_failed_shares_its_status_and_who_did_not_loads)
{
    expect_kind(ask(TOKEN_A, ""), "load");
    expect_kind(ask(TOKEN_B, ""), "wait");
    cr_assert(let_go(TOKEN_A, "failed", 504, 60000));
    struct looked waiter = ask(TOKEN_B, TOKEN_A);
    expect_kind(waiter, "failed");
    cr_assert_eq(waiter.status, 504);
    expect_kind(ask(TOKEN_C, ""), "load");
}

/* Else a slow failing upstream is asked by one waiter after the other. */
Test(cache_scripts, a_waiter_who_comes_late_shares_the_failure_although_another_load_has_begun)
{
    expect_kind(ask(TOKEN_A, ""), "load");
    cr_assert(let_go(TOKEN_A, "failed", 502, 60000));
    expect_kind(ask(TOKEN_C, ""), "load");
    struct looked late = ask(TOKEN_B, TOKEN_A);
    expect_kind(late, "failed");
    cr_assert_eq(late.status, 502);
    expect_kind(ask(TOKEN_B, ""), "wait");
    pass_s(61);
    expect_kind(ask(TOKEN_B, TOKEN_A), "wait");
}

Test(cache_scripts, while_a_copy_may_stand_in_a_failing_upstream_is_asked_once_per_back_off)
{
    store_one();
    pass_s(25);
    expect_kind(ask(TOKEN_B, ""), "load");
    cr_assert(let_go(TOKEN_B, "failed", 503, 60000));
    struct looked next = ask(TOKEN_C, "");
    expect_kind(next, "failed");
    cr_assert_eq(next.status, 503);
    cr_assert_str_eq(next.bytes, "body", "the copy to serve instead");
    expire_flight(redis, "k");
    expect_kind(ask(TOKEN_C, ""), "load");
}

Test(cache_scripts, an_uncacheable_answer_lets_everybody_go_alone_and_takes_the_old_copy_away)
{
    store_one();
    pass_s(15);
    ask(TOKEN_B, "");
    cr_assert(let_go(TOKEN_B, "uncacheable", 0, 60000));
    expect_kind(ask(TOKEN_C, ""), "probe");
    expect_kind(ask(TOKEN_A, ""), "pass");
    expect_kind(ask(TOKEN_A, TOKEN_C), "pass");
    expire_flight(redis, "k");
    expect_kind(ask(TOKEN_C, ""), "load");
}

/* Once one private answer kept a key from being stored for ten seconds, whatever all others got. */
Test(cache_scripts, the_first_answer_that_can_be_shared_ends_the_passing)
{
    expect_kind(ask(TOKEN_A, ""), "load");
    cr_assert(let_go(TOKEN_A, "uncacheable", 0, 60000));
    struct looked probe = ask(TOKEN_B, "");
    expect_kind(probe, "probe");
    cr_assert_str_eq(fill(redis, (struct fill_words){.key = "k",
                                                     .token = TOKEN_B,
                                                     .bytes = "body",
                                                     .now_us = now_us,
                                                     .began = probe.began,
                                                     .fresh_s = 10,
                                                     .stale_s = 20,
                                                     .error_s = 20}),
                     "stored");
    expect_kind(ask(TOKEN_C, ""), "fresh");
}

Test(cache_scripts, a_probe_that_teaches_nothing_leaves_the_passing_as_it_was)
{
    static const char *const reasons[] = {"cancelled", "failed"};

    expect_kind(ask(TOKEN_A, ""), "load");
    cr_assert(let_go(TOKEN_A, "uncacheable", 0, 60000));
    for (size_t i = 0; i < 2; i++) {
        expect_kind(ask(TOKEN_B, ""), "probe");
        pass_s(20);
        cr_assert(let_go(TOKEN_B, reasons[i], 502, 1000));
    }
    expect_kind(ask(TOKEN_B, ""), "probe");
    expect_kind(ask(TOKEN_C, TOKEN_B), "pass");
    pass_s(20);
    cr_assert(let_go(TOKEN_B, "cancelled", 0, 0));
    expect_kind(ask(TOKEN_C, ""), "load");
}

Test(cache_scripts, a_probe_that_an_invalidation_overtook_is_taken_over_by_another)
{
    struct lookup_words words = {.key = "k", .token = TOKEN_A, .now_us = now_us, .tags = {"route"}};

    expect_kind(look(redis, words), "load");
    cr_assert(let_go(TOKEN_A, "uncacheable", 0, 60000));
    words.token = TOKEN_B;
    expect_kind(look(redis, words), "probe");
    invalidate(redis, now_us, 0, TAGS("route"));
    words.token = TOKEN_C;
    expect_kind(look(redis, words), "probe");
    cr_assert_not(let_go(TOKEN_B, "uncacheable", 0, 60000), "its owner has lost it");
}

Test(cache_scripts, a_load_given_up_without_a_marker_is_free_at_once)
{
    static const char *const reasons[] = {"cancelled", "failed", "uncacheable"};

    for (size_t i = 0; i < 3; i++) {
        expect_kind(ask(TOKEN_A, ""), "load");
        cr_assert(let_go(TOKEN_A, reasons[i], 502, 0));
        expect_kind(ask(TOKEN_B, TOKEN_A), "load");
        cr_assert(let_go(TOKEN_B, "cancelled", 0, 0));
    }
}

Test(cache_scripts, an_owner_whose_lease_ran_out_can_neither_fill_nor_release_nor_renew)
{
    struct looked old = ask(TOKEN_A, "");

    expire_flight(redis, "k");
    struct looked young = ask(TOKEN_B, "");
    expect_kind(young, "load");
    cr_assert_str_eq(land(TOKEN_A, old.began), "superseded");
    cr_assert_not(let_go(TOKEN_A, "failed", 502, 60000));
    cr_assert_not(let_go(TOKEN_A, "uncacheable", 0, 60000));
    cr_assert_not(let_go(TOKEN_A, "cancelled", 0, 0));
    cr_assert_not(let_go(TOKEN_A, "renew", 0, 60000));
    expect_kind(ask(TOKEN_C, ""), "wait");
    cr_assert_str_eq(land(TOKEN_B, young.began), "stored");
    cr_assert_not(let_go(TOKEN_B, "cancelled", 0, 0), "a flight that landed is no more");
}

Test(cache_scripts, a_lease_is_as_long_as_its_owner_renews_it)
{
    struct lookup_words words = {.key = "k", .token = TOKEN_A, .now_us = now_us, .lease_ms = 5000};

    expect_kind(look(redis, words), "load");
    cr_assert(redis_number(redis, "PTTL w:f:{k}") <= 5000);
    cr_assert(let_go(TOKEN_A, "renew", 0, 60000));
    cr_assert(redis_number(redis, "PTTL w:f:{k}") > 5000);
    expect_kind(ask(TOKEN_B, ""), "wait");
    cr_assert(let_go(TOKEN_A, "renew", 0, 60000), "also with somebody waiting");
}

Test(cache_scripts, a_load_that_overlaps_an_invalidation_is_not_stored)
{
    struct looked slow = ask(TOKEN_A, "");
    int64_t epoch = invalidate(redis, now_us, 0, TAGS("tag"));

    cr_assert_gt(epoch, slow.began);
    cr_assert_str_eq(land(TOKEN_A, slow.began), "invalidated");
    struct looked next = ask(TOKEN_B, "");
    expect_kind(next, "load");
    cr_assert_eq(next.began, epoch,
                 "the lock was given back, and the next load begins after the invalidation");
    cr_assert_str_eq(land(TOKEN_B, next.began), "stored");
    expect_kind(ask(TOKEN_C, ""), "fresh");
}

Test(cache_scripts, tags_that_only_the_response_reveals_count_as_well)
{
    struct lookup_words words = {.key = "k", .token = TOKEN_A, .now_us = now_us};
    struct looked slow = look(redis, words);

    invalidate(redis, now_us, 0, TAGS("tag"));
    cr_assert_str_eq(land(TOKEN_A, slow.began), "invalidated");
}

Test(cache_scripts, an_invalidation_of_another_tag_disturbs_nothing)
{
    struct looked slow = ask(TOKEN_A, "");

    invalidate(redis, now_us, 0, TAGS("tags", "ta", "other"));
    cr_assert_str_eq(land(TOKEN_A, slow.began), "stored");
    invalidate(redis, now_us, 0, TAGS("tag2"));
    expect_kind(ask(TOKEN_B, ""), "fresh");
}

Test(cache_scripts, a_stored_entry_is_gone_with_its_tag)
{
    store_one();
    invalidate(redis, now_us, 0, TAGS("x", "tag"));
    struct looked next = ask(TOKEN_B, "");
    expect_kind(next, "load");
    cr_assert_str_eq(next.bytes, "", "not even in place of an error");
    cr_assert_eq(redis_number(redis, "EXISTS w:c:{k}"), 0);
}

/* As if its fill had slipped through: the lookup checks again. */
Test(cache_scripts, an_entry_written_by_too_old_a_load_is_never_served)
{
    struct looked slow = ask(TOKEN_A, "");

    invalidate(redis, now_us, 0, TAGS("tag"));
    redisReply *planted =
        redis_says(redis, "HSET w:c:{k} e %lld a %lld f 9000000 s 9000000 x 9000000 g 0 t %b d body",
                   (long long)slow.began, (long long)now_us, "\3\0tag", (size_t)5);
    freeReplyObject(planted);
    freeReplyObject(redis_says(redis, "PEXPIRE w:c:{k} 9000"));
    expire_flight(redis, "k");
    expect_kind(ask(TOKEN_B, ""), "load");
}

Test(cache_scripts, a_lock_older_than_an_invalidation_is_taken_over_and_its_owner_fenced)
{
    struct looked slow = ask(TOKEN_A, "");

    ask(TOKEN_C, "");
    invalidate(redis, now_us, 0, TAGS("tag"));
    struct looked next = ask(TOKEN_B, "");
    expect_kind(next, "load");
    cr_assert_str_eq(land(TOKEN_A, slow.began), "superseded");
    cr_assert_str_eq(land(TOKEN_B, next.began), "stored");
}

Test(cache_scripts, a_refresh_older_than_an_invalidation_of_a_tag_of_the_route_is_taken_over)
{
    struct lookup_words words = {.key = "k", .token = TOKEN_A, .now_us = now_us, .tags = {"route"}};

    store_one();
    pass_s(15);
    words.now_us = now_us;
    cr_assert_str_eq(look(redis, words).token, TOKEN_A);
    invalidate(redis, now_us, 0, TAGS("route"));
    words.token = TOKEN_B;
    cr_assert_str_eq(look(redis, words).token, TOKEN_B);
}

/* ---- wakes ---- */

static redisContext *subscribe(const char *channel)
{
    redisContext *ear = redis_fixture_connect(&fixture);

    freeReplyObject(redis_says(ear, "SUBSCRIBE %s", channel));
    return ear;
}

static void expect_message(redisContext *ear, const char *want)
{
    void *reply = NULL;

    cr_assert_eq(redisGetReply(ear, &reply), REDIS_OK);
    cr_assert_str_eq(((redisReply *)reply)->element[2]->str, want);
    freeReplyObject(reply);
}

Test(cache_scripts, waiters_are_woken_by_every_end_of_a_load_and_nobody_else_is)
{
    redisContext *ear = subscribe("w:wake");
    static const char *const reasons[] = {"failed", "uncacheable", "cancelled"};

    for (size_t i = 0; i < 3; i++) {
        ask(TOKEN_A, "");
        let_go(TOKEN_A, reasons[i], 502, 0);
        ask(TOKEN_A, "");
        ask(TOKEN_B, "");
        let_go(TOKEN_A, reasons[i], 502, 0);
        expect_message(ear, "k");
    }
    struct looked mine = ask(TOKEN_A, "");
    ask(TOKEN_B, "");
    invalidate(redis, now_us, 0, TAGS("tag"));
    cr_assert_str_eq(land(TOKEN_A, mine.began), "invalidated");
    expect_message(ear, "k");
    mine = ask(TOKEN_A, "");
    ask(TOKEN_B, "");
    cr_assert_str_eq(land(TOKEN_A, mine.began), "stored");
    expect_message(ear, "k");
    freeReplyObject(redis_says(redis, "PUBLISH w:wake last"));
    expect_message(ear, "last");
    redisFree(ear);
}

Test(cache_scripts, waiters_stay_to_be_woken_when_their_load_is_taken_over)
{
    redisContext *ear = subscribe("w:wake");

    ask(TOKEN_A, "");
    ask(TOKEN_C, "");
    invalidate(redis, now_us, 0, TAGS("tag"));
    struct looked next = ask(TOKEN_B, "");
    cr_assert_str_eq(land(TOKEN_B, next.began), "stored");
    expect_message(ear, "k");
    redisFree(ear);
}

Test(cache_scripts, an_invalidation_says_which_epoch_it_follows)
{
    redisContext *ear = subscribe("w:inv");
    int64_t first = invalidate(redis, now_us, 0, TAGS("a:1", ""));
    int64_t second = invalidate(redis, now_us, 0, TAGS("b"));
    char want[100];
    void *reply = NULL;

    cr_assert_eq(redisGetReply(ear, &reply), REDIS_OK);
    snprintf(want, sizeof(want), " %lld 4:ta:11:t", (long long)first);
    cr_assert_not_null(strstr(((redisReply *)reply)->element[2]->str, want));
    freeReplyObject(reply);
    snprintf(want, sizeof(want), "%lld %lld 2:tb", (long long)first, (long long)second);
    expect_message(ear, want);
    redisFree(ear);
}

/* ---- the epoch ---- */

Test(cache_scripts, the_epoch_only_rises_whatever_the_clock_and_the_server_lose)
{
    int64_t last = 0;

    for (int round = 0; round < 40; round++) {
        int64_t epoch = invalidate(redis, now_us, last, TAGS("tag"));

        cr_assert_gt(epoch, last);
        last = epoch;
        now_us += round % 3 == 0 ? -7 * SECOND : SECOND;
        if (round % 5 == 0)
            freeReplyObject(redis_says(redis, "FLUSHALL"));
        if (round % 7 == 0)
            freeReplyObject(redis_says(redis, "DEL w:tags"));
    }
}

Test(cache_scripts, without_its_tag_table_an_entry_is_worth_nothing)
{
    store_one();
    struct looked slow =
        look(redis, (struct lookup_words){.key = "slow", .token = TOKEN_B, .now_us = now_us});
    freeReplyObject(redis_says(redis, "DEL w:tags"));
    pass_s(1);
    expect_kind(ask(TOKEN_C, ""), "load");
    struct fill_words late = {
        .key = "slow", .token = TOKEN_B, .bytes = "x", .now_us = now_us, .began = slow.began, .fresh_s = 9};
    cr_assert_str_eq(fill(redis, late), "invalidated", "nor is a load that began before");
}

Test(cache_scripts, a_clock_set_back_and_a_lost_table_do_not_bring_an_entry_back)
{
    store_one();
    freeReplyObject(redis_says(redis, "DEL w:tags"));
    pass_s(-3600);
    expect_kind(ask(TOKEN_B, ""), "load");
}

/* A failover to a replica that had not heard of the last invalidation, with the entry still there. */
Test(cache_scripts, a_node_that_has_seen_more_makes_an_older_table_distrust_what_it_holds)
{
    store_one();
    redisReply *table = redis_says(redis, "DUMP w:tags"), *entry = redis_says(redis, "DUMP w:c:{k}");
    int64_t seen = invalidate(redis, now_us, 0, TAGS("tag"));

    freeReplyObject(redis_says(redis, "FLUSHALL"));
    freeReplyObject(redis_says(redis, "RESTORE w:tags 0 %b", table->str, table->len));
    freeReplyObject(redis_says(redis, "RESTORE w:c:{k} 30000 %b", entry->str, entry->len));
    freeReplyObject(table);
    freeReplyObject(entry);
    struct lookup_words words = {.key = "k", .token = TOKEN_B, .now_us = now_us, .seen = seen};
    struct looked looked = look(redis, words);
    expect_kind(looked, "load");
    cr_assert_gt(looked.epoch, seen);
}

Test(cache_scripts, a_master_that_was_demoted_serves_nothing)
{
    store_one();
    freeReplyObject(redis_says(redis, "REPLICAOF 127.0.0.1 1"));
    const char *words[] = {"w:tags", "w:c:{k}", "w:f:{k}", "", "0", TOKEN_A, "1000", "", ""};
    size_t lens[9];

    for (size_t i = 0; i < 9; i++)
        lens[i] = strlen(words[i]);
    redisReply *reply = run_script(redis, "lookup", 3, 9, words, lens);
    cr_assert_eq(reply->type, REDIS_REPLY_ERROR);
    cr_assert_eq(strncmp(reply->str, "READONLY", 8), 0, "%s", reply->str);
    freeReplyObject(reply);
}

/* ---- what lies about ---- */

Test(cache_scripts, every_key_but_the_tag_table_has_an_end)
{
    static const char *const endings[] = {"failed", "uncacheable", "cancelled"};
    char key[8];

    for (int i = 0; i < 12; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        struct looked mine =
            look(redis, (struct lookup_words){.key = key, .token = TOKEN_A, .now_us = now_us});
        look(redis, (struct lookup_words){.key = key, .token = TOKEN_B, .now_us = now_us});
        if (i % 4 == 3)
            fill(redis,
                 (struct fill_words){
                     .key = key, .token = TOKEN_A, .bytes = "x", .now_us = now_us, .began = mine.began});
        else if (i < 8)
            give_up(redis, (struct release_words){.key = key,
                                                  .token = TOKEN_A,
                                                  .why = endings[i % 4],
                                                  .now_us = now_us,
                                                  .status = 502,
                                                  .ms = 5000});
    }
    store_one();
    redisReply *keys = redis_says(redis, "KEYS *");
    cr_assert_gt(keys->elements, 8);
    for (size_t i = 0; i < keys->elements; i++) {
        int64_t ttl_ms = redis_number(redis, "PTTL %s", keys->element[i]->str);

        cr_assert(strcmp(keys->element[i]->str, "w:tags") == 0 || ttl_ms >= 0 || ttl_ms == -2, "%s",
                  keys->element[i]->str);
    }
    freeReplyObject(keys);
}

Test(cache_scripts, a_lock_found_without_an_end_is_given_one)
{
    ask(TOKEN_A, "");
    cr_assert_eq(redis_number(redis, "PERSIST w:f:{k}"), 1);
    struct looked waiter = ask(TOKEN_B, "");
    expect_kind(waiter, "wait");
    cr_assert(waiter.wait_ms > 0 && waiter.wait_ms <= 30000);
    cr_assert(redis_number(redis, "PTTL w:f:{k}") > 0);
}

Test(cache_scripts, what_was_not_written_by_us_counts_as_absent)
{
    static const char *const plants[] = {
        "SET w:c:{k} text",
        "HSET w:c:{k} e 1",
        "HSET w:c:{k} e x a 1 f 1 s 1 x 1 g 1 t t d d",
        "HSET w:c:{k} e 1 a 1 f 9e15 s 1 x 1 g 1 t \xff\xff d d",
        "HSET w:c:{k} d body",
        "LPUSH w:f:{k} a",
        "SET w:f:{k} L",
        "SET w:f:{k} Lxyz",
        "SET w:f:{k} something",
        "SET w:f:{k} F12",
    };

    for (size_t i = 0; i < sizeof(plants) / sizeof(plants[0]); i++) {
        freeReplyObject(redis_says(redis, plants[i]));
        struct looked mine = ask(TOKEN_A, "");
        cr_assert_str_eq(mine.kind, "load", "%s", plants[i]);
        cr_assert_str_eq(land(TOKEN_A, mine.began), "stored", "%s", plants[i]);
        cr_assert_str_eq(ask(TOKEN_B, "").kind, "fresh", "%s", plants[i]);
        freeReplyObject(redis_says(redis, "DEL w:c:{k} w:f:{k}"));
    }
}

Test(cache_scripts, an_entry_that_a_node_could_not_read_is_removed_and_only_that_one)
{
    char stored[24];

    store_one();
    struct lookup_words words = {.key = "k", .token = TOKEN_B, .damaged = stored, .now_us = now_us};
    snprintf(stored, sizeof(stored), "%lld", (long long)now_us - 1);
    expect_kind(look(redis, words), "fresh");
    snprintf(stored, sizeof(stored), "%lld", (long long)now_us);
    expect_kind(look(redis, words), "load");
}

/* ---- the sweep ---- */

Test(cache_scripts, stamps_that_no_living_entry_can_be_older_than_are_swept_a_few_at_a_time)
{
    int64_t last_old = 0;
    char tag[16];

    for (int i = 0; i < 40; i++) {
        snprintf(tag, sizeof(tag), "old%d", i);
        last_old = invalidate(redis, now_us + i, 0, TAGS(tag));
    }
    pass_s(HOUR_S + 1);
    cr_assert_eq(redis_number(redis, "ZCARD w:tags"), 42);
    invalidate(redis, now_us, 0, TAGS("new"));
    cr_assert_eq(redis_number(redis, "ZCARD w:tags"), 42 + 1 - 16);
    invalidate(redis, now_us, 0, TAGS("new"));
    invalidate(redis, now_us, 0, TAGS("new"));
    cr_assert_eq(redis_number(redis, "ZCARD w:tags"), 3, "the epoch, the floor and one tag");
    redisReply *floor = redis_says(redis, "ZSCORE w:tags !floor");
    cr_assert_eq(strtoll(floor->str, NULL, 10), last_old);
    freeReplyObject(floor);
}

Test(cache_scripts, stamps_are_kept_as_long_as_the_longest_entry_lives)
{
    struct looked mine = ask(TOKEN_A, "");
    struct fill_words words = {.key = "k",
                               .token = TOKEN_A,
                               .bytes = "x",
                               .now_us = now_us,
                               .began = mine.began,
                               .fresh_s = 5 * HOUR_S};

    cr_assert_str_eq(fill(redis, words), "stored");
    invalidate(redis, now_us, 0, TAGS("tag"));
    pass_s(4 * HOUR_S);
    invalidate(redis, now_us, 0, TAGS("other"));
    cr_assert_eq(redis_number(redis, "ZCARD w:tags"), 5);
    pass_s(2 * HOUR_S);
    invalidate(redis, now_us, 0, TAGS("other"));
    cr_assert_eq(redis_number(redis, "ZCARD w:tags"), 4);
}

Test(cache_scripts, a_sweep_takes_no_entry_with_it_that_began_after_the_swept_stamp)
{
    int64_t old = invalidate(redis, now_us, 0, TAGS("old"));
    struct looked mine;

    pass_s(HOUR_S + 60);
    mine = ask(TOKEN_A, "");
    cr_assert_eq(mine.began, old, "nothing was invalidated since");
    cr_assert_str_eq(land(TOKEN_A, mine.began), "stored");
    invalidate(redis, now_us, 0, TAGS("other"));
    expect_kind(ask(TOKEN_B, ""), "fresh");
}

/* ---- all of it at once ---- */

/* Random interleavings of loads, invalidations and losses, against what must hold at each step: no two
 * owners, and no entry served of which a tag was invalidated after its load began. */
Test(cache_scripts, no_interleaving_serves_what_was_invalidated)
{
    static const char *const tags[] = {"t0", "t1", "t2"};
    struct dice dice = {.state = 42};
    int64_t stamped[3] = {0}; /* when each tag was last invalidated, in steps */
    struct {
        char token[33];
        int64_t began, since; /* the epoch, and the step */
        int tag;
    } loads[4];
    size_t load_count = 0;
    int serial = 0, served = 0;
    int64_t seen = 0;

    for (int64_t step = 1; step <= 3000; step++) {
        int tag = (int)roll(&dice, 3);
        char key[4] = {'k', (char)('0' + tag), 0}, bytes[24], token[33];

        now_us += roll(&dice, 3) == 0 ? -roll(&dice, SECOND) : roll(&dice, SECOND);
        switch (roll(&dice, 10)) {
        case 0:
            seen = invalidate(redis, now_us, seen, TAGS(tags[tag]));
            stamped[tag] = step;
            break;
        case 1:
            if (roll(&dice, 20) == 0)
                freeReplyObject(redis_says(redis, "DEL w:tags"));
            break;
        case 2:
            if (roll(&dice, 4) == 0)
                freeReplyObject(redis_says(redis, "DEL w:f:{%s}", key));
            break;
        case 3:
        case 4:
        case 5: /* a load lands: perhaps one that was superseded long ago */
            if (load_count == 0)
                break;
            size_t which = (size_t)roll(&dice, (int64_t)load_count);
            key[1] = (char)('0' + loads[which].tag);
            snprintf(bytes, sizeof(bytes), "%lld", (long long)loads[which].since);
            fill(redis, (struct fill_words){.key = key,
                                            .token = loads[which].token,
                                            .bytes = bytes,
                                            .now_us = now_us,
                                            .seen = seen,
                                            .began = loads[which].began,
                                            .fresh_s = 30,
                                            .stale_s = 60,
                                            .error_s = 60,
                                            .tags = {tags[loads[which].tag]}});
            loads[which] = loads[--load_count];
            break;
        default:
            snprintf(token, sizeof(token), "%032x", ++serial);
            struct looked looked = look(
                redis, (struct lookup_words){
                           .key = key, .token = token, .now_us = now_us, .seen = seen, .tags = {tags[tag]}});
            if (looked.bytes[0] != '\0') {
                cr_assert_geq(strtoll(looked.bytes, NULL, 10), stamped[tag], "step %lld", (long long)step);
                served++;
            }
            if (strcmp(looked.token, token) == 0) {
                size_t at = load_count < 4 ? load_count++ : (size_t)roll(&dice, 4);
                memcpy(loads[at].token, token, sizeof(token));
                loads[at].began = looked.began;
                loads[at].since = step;
                loads[at].tag = tag;
            }
        }
    }
    cr_assert_gt(served, 100, "it was about something");
}

Test(cache_scripts, who_wants_a_new_one_loads_it_and_what_is_stored_stays_till_then)
{
    struct looked got = ask(TOKEN_A, NULL);

    cr_assert_str_eq(land(TOKEN_A, got.began), "stored");
    cr_assert_str_eq(ask(TOKEN_B, NULL).kind, "fresh");
    got = ask(TOKEN_B, "new");
    cr_assert_str_eq(got.kind, "load");
    cr_assert_str_eq(got.token, TOKEN_B);
    cr_assert_str_eq(got.bytes, "body", "to ask the upstream about");
    cr_assert_str_eq(ask(TOKEN_C, NULL).kind, "fresh", "others need not wait");
    cr_assert_str_eq(ask(TOKEN_C, "new").kind, "pass", "nor does a second one who wants it new");
    cr_assert_str_eq(land(TOKEN_B, got.began), "stored");
    cr_assert_str_eq(ask(TOKEN_C, "new").kind, "load");
    cr_assert(let_go(TOKEN_C, "cancelled", 0, 0));
    cr_assert_str_eq(ask(TOKEN_A, NULL).kind, "fresh", "what was given up took nothing from anybody");
}
