/* Reading what Redis says: an answer of our scripts is understood, and nothing else is mistaken for one. */
#include "redis_reader.h"
#include "store_redis_answer.h"

#include <criterion/criterion.h>
#include <stdio.h>

/* The reply that these bytes are; lines end with a blank here. */
static struct redis_reply *reply_of(const char *text)
{
    char bytes[2048];
    size_t len = 0;
    struct redis_reader *reader = redis_reader_new(1 << 16);
    struct redis_reply *reply = NULL;

    for (; *text != '\0'; text++) {
        if (*text == ' ')
            bytes[len++] = '\r';
        bytes[len++] = *text == ' ' ? '\n' : *text;
    }
    cr_assert(redis_reader_feed(reader, slice_of(bytes, len)) && redis_reader_next(reader, &reply));
    cr_assert_not_null(reply);
    redis_reader_free(reader);
    return reply;
}

Test(store_redis_answer, news_are_the_epoch_the_floor_and_the_stamps)
{
    struct redis_reply *reply = reply_of("*5 :90 :40 :0 *4 $2 ta :50 $1 s :90 $2 ok ");
    struct store_news news;

    cr_assert(answer_read_news(reply, &news));
    cr_assert(news.epoch == 90 && news.floor == 40 && news.stamp_count == 2);
    cr_assert(slice_eq(news.stamps[0].tag, SLICE("a")) && news.stamps[0].epoch == 50 &&
              !news.stamps[0].is_soft);
    cr_assert(news.stamps[1].tag.len == 0 && news.stamps[1].epoch == 90 && news.stamps[1].is_soft);
    cr_assert(slice_eq(news.result->text, SLICE("ok")));
    redis_reply_free(reply);
}

Test(store_redis_answer, where_stamps_were_left_out_the_epoch_is_the_floor)
{
    struct redis_reply *reply = reply_of("*5 :90 :40 :1 *2 $2 ta :50 $2 ok ");
    struct store_news news;

    cr_assert(answer_read_news(reply, &news));
    cr_assert_eq(news.floor, 90);
    redis_reply_free(reply);
}

Test(store_redis_answer, what_no_script_of_ours_says_is_no_news)
{
    static const char *const rows[] = {
        "+OK ",
        ":1 ",
        "$-1 ",
        "*0 ",
        "*4 :1 :0 :0 *0 ",
        "*5 $1 9 :0 :0 *0 :1 ",
        "*5 :-1 :0 :0 *0 :1 ",
        "*5 :9000000000000000 :0 :0 *0 :1 ", /* it would outbid every epoch to come */
        "*5 :5 :6 :0 *0 :1 ",
        "*5 :5 :0 :2 *0 :1 ",
        "*5 :5 :0 :0 $-1 :1 ",
        "*5 :5 :0 :0 *1 $2 ta :1 ",
        "*5 :5 :0 :0 *2 :1 :1 :1 ",
        "*5 :5 :0 :0 *2 $2 ta $2 tb :1 ",
        "*5 :5 :0 :0 *2 $2 xa :1 :1 ", /* a stamp of no kind */
        "*5 :5 :0 :0 *2 $0  :1 :1 ",
    };
    struct store_news news;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct redis_reply *reply = reply_of(rows[i]);

        cr_assert_not(answer_read_news(reply, &news), "%s", rows[i]);
        redis_reply_free(reply);
    }
}

#define TOKEN "$32 000000000000000a000000000000000b "

Test(store_redis_answer, a_lookup_promises_what_its_kind_needs)
{
    static const struct {
        const char *why, *text;
        bool is_good;
    } rows[] = {
        {"fresh", "*11 $5 fresh $0  :0 :0 :0 :1 :2 :3 :4 :5 $1 x ", true},
        {"fresh, of nothing", "*11 $5 fresh $0  :0 :0 :0 :1 :2 :3 :4 :5 $0  ", false},
        {"stale, to be refreshed by another", "*11 $5 stale $0  :0 :0 :0 :1 :0 :3 :4 :5 $1 x ", true},
        {"stale, of nothing", "*11 $5 stale " TOKEN ":7 :0 :0 :1 :0 :3 :4 :5 $0  ", false},
        {"load", "*11 $4 load " TOKEN ":7 :0 :0 :0 :0 :0 :0 :0 $0  ", true},
        {"load, without a token", "*11 $4 load $0  :7 :0 :0 :0 :0 :0 :0 :0 $0  ", false},
        {"load, with half a token", "*11 $4 load $16 000000000000000a :7 :0 :0 :0 :0 :0 :0 :0 $0  ", false},
        {"load, with a token in capitals",
         "*11 $4 load $32 000000000000000A000000000000000b :7 :0 :0 :0 :0 :0 :0 :0 $0  ", false},
        {"probe", "*11 $5 probe " TOKEN ":7 :0 :0 :0 :0 :0 :0 :0 $0  ", true},
        {"probe, without a token", "*11 $5 probe $0  :7 :0 :0 :0 :0 :0 :0 :0 $0  ", false},
        {"absent", "*11 $6 absent $0  :0 :0 :0 :0 :0 :0 :0 :0 $0  ", true},
        {"wait", "*11 $4 wait " TOKEN ":0 :900 :0 :0 :0 :0 :0 :0 $0  ", true},
        {"wait, for nobody", "*11 $4 wait $0  :0 :900 :0 :0 :0 :0 :0 :0 $0  ", false},
        {"wait, into the past", "*11 $4 wait " TOKEN ":0 :-1 :0 :0 :0 :0 :0 :0 $0  ", false},
        {"pass", "*11 $4 pass $0  :0 :0 :0 :0 :0 :0 :0 :0 $0  ", true},
        {"failed", "*11 $6 failed $0  :0 :0 :502 :0 :0 :0 :0 :0 $0  ", true},
        {"failed, nobody knows how", "*11 $6 failed $0  :0 :0 :0 :0 :0 :0 :0 :0 $0  ", false},
        {"failed, with no status of HTTP", "*11 $6 failed $0  :0 :0 :99999 :0 :0 :0 :0 :0 $0  ", false},
        {"another kind", "*11 $4 hope $0  :0 :0 :0 :0 :0 :0 :0 :0 $0  ", false},
        {"one field short", "*10 $4 pass $0  :0 :0 :0 :0 :0 :0 :0 :0 ", false},
        {"no bytes but nil", "*11 $4 pass $0  :0 :0 :0 :0 :0 :0 :0 :0 $-1 ", false},
        {"no list", "$4 pass ", false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct redis_reply *reply = reply_of(rows[i].text);
        struct lookup_reply lookup;

        cr_assert_eq(answer_read_lookup(reply, &lookup), rows[i].is_good, "%s", rows[i].why);
        if (rows[i].is_good && lookup.kind == LOOKUP_LOAD)
            cr_assert(lookup.token.hi == 10 && lookup.token.lo == 11 && lookup.epoch == 7);
        redis_reply_free(reply);
    }
}

Test(store_redis_answer, a_token_is_read_as_it_was_written)
{
    char text[200] = "*11 $4 load $32 ";
    struct lookup_reply lookup;
    struct load_token token = {0x0123456789abcdefu, 0xfedcba9876543210u};

    token_write(token, text + 16);
    snprintf(text + 48, sizeof(text) - 48, " :7 :0 :0 :0 :0 :0 :0 :0 $0  ");
    struct redis_reply *reply = reply_of(text);
    cr_assert(answer_read_lookup(reply, &lookup));
    cr_assert(lookup.token.hi == token.hi && lookup.token.lo == token.lo);
    redis_reply_free(reply);
}

Test(store_redis_answer, an_admit_answers_every_charge_of_every_tuple_and_nothing_more)
{
    static const struct limit_charge charges[2];
    const struct admit_tuple tuples[2] = {{charges, 2, 3}, {charges, 0, 1}};
    static const struct {
        const char *why, *text;
        bool is_good;
    } rows[] = {
        {"all", "*8 :3 :7 :1 :0 :9 :1 :-1 :1 ", true},
        {"one short", "*7 :3 :7 :1 :0 :9 :1 :-1 ", false},
        {"one too many", "*9 :3 :7 :1 :0 :9 :1 :-1 :1 :1 ", false},
        {"more admitted than asked", "*8 :4 :7 :1 :0 :9 :1 :-1 :1 ", false},
        {"less than none", "*8 :-1 :7 :1 :0 :9 :1 :-1 :1 ", false},
        {"a text", "*8 :3 :7 $1 1 :0 :9 :1 :-1 :1 ", false},
        {"no list", ":3 ", false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct redis_reply *reply = reply_of(rows[i].text);
        struct limit_state states[2];
        struct admit_answer answers[2] = {{0, states}, {0, states + 2}};

        cr_assert_eq(answer_read_admit(reply, tuples, 2, answers), rows[i].is_good, "%s", rows[i].why);
        if (rows[i].is_good)
            cr_assert(answers[0].admitted == 3 && answers[1].admitted == 1 && states[0].available == 7 &&
                      !states[0].never && states[1].never && states[1].retry_after_us == 0);
        redis_reply_free(reply);
    }
}

Test(store_redis_answer, an_invalidation_is_read_tag_by_tag)
{
    static const char text[] = "17 23 4:ta:11:s3:t\0\n";
    struct invalidation_message message;
    struct tag_stamp stamp;
    struct slice stamps;

    cr_assert(message_read_invalidation(slice_of(text, sizeof(text) - 1), &message));
    cr_assert(message.previous == 17 && message.epoch == 23);
    stamps = message.stamps;
    cr_assert(message_next_stamp(&stamps, &stamp) && slice_eq(stamp.tag, SLICE("a:1")) && !stamp.is_soft);
    cr_assert(message_next_stamp(&stamps, &stamp) && stamp.tag.len == 0 && stamp.is_soft);
    cr_assert(message_next_stamp(&stamps, &stamp) && stamp.tag.len == 2 && !stamp.is_soft);
    cr_assert_not(message_next_stamp(&stamps, &stamp));
    cr_assert_eq(stamps.len, 0);
}

Test(store_redis_answer, a_message_that_is_none_is_found_out)
{
    static const char *const rows[] = {
        "", " ", "17", "17 23", "23 17 ", "17 17 ", "-1 5 ", "99999999999999999999 5 ", "1  2 ", "a b "};
    static const char *const bad_tags[] = {"3:ab", "x",  ":",   "1", "99999999999999999999:a",
                                           "-1:a", "0:", "2:xa"};
    struct invalidation_message message;
    struct key32 key;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_assert_not(message_read_invalidation(slice_text(rows[i]), &message), "%s", rows[i]);
    for (size_t i = 0; i < sizeof(bad_tags) / sizeof(bad_tags[0]); i++) {
        struct slice stamps = slice_text(bad_tags[i]);
        struct tag_stamp stamp;

        cr_assert_not(message_next_stamp(&stamps, &stamp), "%s", bad_tags[i]);
        cr_assert_eq(stamps.len, strlen(bad_tags[i]), "what is left tells that it is not the end");
    }
    cr_assert_not(message_read_key(SLICE("00"), &key));
    cr_assert_not(
        message_read_key(SLICE("000000000000000000000000000000000000000000000000000000000000000g"), &key));
}

Test(store_redis_answer, a_key_is_read_as_it_was_written)
{
    struct key32 key, again;
    char text[KEY_HEX_BYTES];

    for (size_t i = 0; i < sizeof(key.bytes); i++)
        key.bytes[i] = (unsigned char)(i * 37 + 200);
    key_write(&key, text);
    cr_assert(message_read_key(slice_of(text, sizeof(text)), &again));
    cr_assert_eq(memcmp(&key, &again, sizeof(key)), 0);
}

/* ---- anything at all ---- */

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

/* Any reply tree, with the words and numbers that ours are made of. */
static struct redis_reply *random_reply(uint32_t *random, int depth)
{
    static const char *const texts[] = {
        "fresh",  "stale", "load",   "wait",       "pass",
        "failed", "",      "stored", "superseded", "0123456789abcdef0123456789abcdef",
        "tag"};
    static const int64_t numbers[] = {
        0, 1, -1, 2, 5, 502, INT64_MAX, INT64_MIN, STORE_LAST_US, STORE_LAST_US + 1, 1764504000000000};
    static const size_t sizes[] = {0, 1, 2, 3, 4, 5, 5, 5, 8, 11, 11, 11, 256, 258};
    struct redis_reply *reply = calloc(1, sizeof(*reply));
    uint32_t kind = next_random(random) % (depth > 0 ? 8 : 5);

    reply->kind = kind < 2 ? REDIS_TEXT : kind < 4 ? REDIS_INTEGER : kind == 4 ? REDIS_NIL : REDIS_LIST;
    reply->text = slice_text(texts[next_random(random) % 11]);
    reply->integer = numbers[next_random(random) % 11];
    if (reply->kind != REDIS_LIST)
        return reply;
    reply->count = sizes[next_random(random) % 14];
    reply->items = calloc(reply->count + 1, sizeof(reply->items[0]));
    for (size_t i = 0; i < reply->count; i++)
        reply->items[i] = random_reply(random, depth - 1);
    return reply;
}

Test(store_redis_answer, the_key_of_a_plan_is_its_prefix_and_one_caller)
{
    static const struct {
        const char *why, *key;
        bool is_one;
    } rows[] = {
        {"one", "w:p:{0123456789abcdef0123456789abcdef}", true},
        {"another prefix", "v:p:{0123456789abcdef0123456789abcdef}", false},
        {"too short", "w:p:{0123456789abcdef0123456789abcde}", false},
        {"too long", "w:p:{0123456789abcdef0123456789abcdef0}", false},
        {"not closed", "w:p:{0123456789abcdef0123456789abcdef)", false},
        {"no digits", "w:p:{0123456789abcdefg123456789abcdef}", false},
        {"the prefix alone", "w:p:{", false},
        {"nothing", "", false},
    };
    unsigned char caller[PRINCIPAL_BYTES];
    char hex[PRINCIPAL_HEX_BYTES];

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        cr_expect_eq(message_read_plan_key(slice_text(rows[i].key), SLICE("w:p:{"), caller), rows[i].is_one,
                     "%s", rows[i].why);
    cr_assert(message_read_plan_key(slice_text(rows[0].key), SLICE("w:p:{"), caller));
    principal_write(caller, hex);
    cr_assert_arr_eq(hex, rows[0].key + 5, sizeof(hex));
}

Test(store_redis_answer, a_plan_is_a_name_or_none_and_how_long_it_lasts)
{
    struct redis_reply name = {.kind = REDIS_TEXT, .text = SLICE("pro")}, none = {.kind = REDIS_NIL},
                       number = {.kind = REDIS_INTEGER}, list = {.kind = REDIS_LIST, .count = 2};
    struct redis_reply *items[2] = {&name, &number};
    static const struct {
        int64_t said, means;
    } lasts[] = {{-2, -1}, {-1, -1}, {0, 0}, {1500, 1500}};
    struct plan_answer plan;

    list.items = items;
    for (size_t i = 0; i < sizeof(lasts) / sizeof(*lasts); i++) {
        number.integer = lasts[i].said;
        cr_assert(answer_read_plan(&list, &plan));
        cr_expect_eq(plan.lasts_ms, lasts[i].means);
        cr_expect(slice_eq(plan_name_text(&plan.plan), SLICE("pro")));
    }
    items[0] = &none;
    cr_assert(answer_read_plan(&list, &plan));
    cr_assert_eq(plan.plan.len, 0);
    number.integer = -3;
    cr_assert_not(answer_read_plan(&list, &plan));
    items[0] = &number;
    cr_assert_not(answer_read_plan(&list, &plan));
    list.count = 1;
    cr_assert_not(answer_read_plan(&list, &plan));
    cr_assert_not(answer_read_plan(&name, &plan));
}

Test(store_redis_answer, any_reply_gets_a_yes_or_a_no)
{
    static const struct limit_charge charges[3];
    const struct admit_tuple tuples[2] = {{charges, 3, 2}, {charges, 1, 2}};
    uint32_t random = 2463534242u;
    int good = 0;

    for (int round = 0; round < 30000; round++) {
        struct redis_reply *reply = random_reply(&random, 2);
        struct limit_state states[4];
        struct admit_answer answers[2] = {{0, states}, {0, states + 3}};
        struct store_news news;
        struct lookup_reply lookup;
        enum fill_result filled;
        bool held;
        int64_t epoch;

        good += answer_read_news(reply, &news);
        good += answer_read_lookup(reply, &lookup);
        good += answer_read_admit(reply, tuples, 2, answers);
        good += answer_read_fill(reply, &filled);
        good += answer_read_held(reply, &held);
        good += answer_read_epoch(reply, &epoch);
        redis_reply_free(reply);
    }
    cr_assert_gt(good, 100, "some of them make sense");
}
