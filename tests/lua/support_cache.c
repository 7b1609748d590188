/* See support_cache.h. */
#include "support_cache.h"
#include "support_admit.h"

#include "lua_scripts.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 40, NUMBER_ROOM = 24 };

struct command {
    const char *words[MAX_WORDS];
    size_t lens[MAX_WORDS];
    char numbers[MAX_WORDS][NUMBER_ROOM];
    char keys[2][80];
    char packed[256];
    int count;
};

static void add_bytes(struct command *command, const char *bytes, size_t len)
{
    cr_assert_lt(command->count, MAX_WORDS);
    command->words[command->count] = bytes;
    command->lens[command->count++] = len;
}

static void add(struct command *command, const char *word)
{
    add_bytes(command, word == NULL ? "" : word, word == NULL ? 0 : strlen(word));
}

static void add_number(struct command *command, int64_t number)
{
    char *room = command->numbers[command->count];

    snprintf(room, NUMBER_ROOM, "%lld", (long long)number);
    add(command, room);
}

static void add_keys(struct command *command, const char *key)
{
    add(command, "w:tags");
    for (int i = 0; i < 2; i++) {
        snprintf(command->keys[i], sizeof(command->keys[i]), "w:%c:{%s}", "cf"[i], key);
        add(command, command->keys[i]);
    }
}

redisReply *run_script(redisContext *redis, const char *name, int keys, int count, const char **words,
                       const size_t *lens)
{
    const struct lua_script *script = lua_scripts;
    const char *all[MAX_WORDS + 3];
    size_t all_lens[MAX_WORDS + 3];
    char key_count[NUMBER_ROOM];

    while (strcmp(script->name, name) != 0)
        script++;
    snprintf(key_count, sizeof(key_count), "%d", keys);
    all[0] = "EVAL";
    all_lens[0] = 4;
    all[1] = script->text;
    all_lens[1] = script->len;
    all[2] = key_count;
    all_lens[2] = strlen(key_count);
    memcpy(all + 3, words, (size_t)count * sizeof(words[0]));
    memcpy(all_lens + 3, lens, (size_t)count * sizeof(lens[0]));
    return redisCommandArgv(redis, count + 3, all, all_lens);
}

/* The reply, which must have the form that all scripts share. */
static redisReply *run(redisContext *redis, const char *name, int keys, struct command *command)
{
    redisReply *reply = run_script(redis, name, keys, command->count, command->words, command->lens);

    cr_assert_not_null(reply);
    cr_assert_neq(reply->type, REDIS_REPLY_ERROR, "%s: %s", name, reply->str);
    cr_assert_eq(reply->type, REDIS_REPLY_ARRAY);
    cr_assert_eq(reply->elements, 5);
    return reply;
}

static void copy_text(char *out, size_t room, const redisReply *reply)
{
    cr_assert_eq(reply->type, REDIS_REPLY_STRING);
    snprintf(out, room, "%.*s", (int)reply->len, reply->str);
}

static int64_t number_at(const redisReply *list, size_t i)
{
    cr_assert_eq(list->element[i]->type, REDIS_REPLY_INTEGER, "element %zu", i);
    return list->element[i]->integer;
}

struct looked look(redisContext *redis, struct lookup_words words)
{
    struct command command = {.count = 0};
    struct looked looked;
    redisReply *reply, *result;

    add_keys(&command, words.key);
    add_number(&command, words.now_us);
    add_number(&command, words.seen);
    add(&command, words.token);
    add_number(&command, words.lease_ms == 0 ? 30000 : words.lease_ms == LOOKS ? 0 : words.lease_ms);
    add(&command, words.waited);
    add(&command, words.damaged);
    for (int i = 0; i < 4 && words.tags[i] != NULL; i++)
        add(&command, words.tags[i]);
    reply = run(redis, "lookup", 3, &command);
    looked.epoch = number_at(reply, 0);
    result = reply->element[4];
    cr_assert_eq(result->elements, 11);
    copy_text(looked.kind, sizeof(looked.kind), result->element[0]);
    copy_text(looked.token, sizeof(looked.token), result->element[1]);
    looked.began = number_at(result, 2);
    looked.wait_ms = number_at(result, 3);
    looked.status = number_at(result, 4);
    looked.stored_us = number_at(result, 5);
    looked.fresh_us = number_at(result, 6);
    looked.stale_us = number_at(result, 7);
    looked.error_us = number_at(result, 8);
    looked.age_us = number_at(result, 9);
    copy_text(looked.bytes, sizeof(looked.bytes), result->element[10]);
    freeReplyObject(reply);
    return looked;
}

static void add_packed(struct command *command, const char *const *tags)
{
    size_t len = 0;

    for (int i = 0; i < 4 && tags[i] != NULL; i++) {
        size_t tag_len = strlen(tags[i]);

        command->packed[len++] = (char)tag_len;
        command->packed[len++] = 0;
        memcpy(command->packed + len, tags[i], tag_len);
        len += tag_len;
    }
    add_bytes(command, command->packed, len);
}

const char *fill(redisContext *redis, struct fill_words words)
{
    struct command command = {.count = 0};
    const char *result = NULL;
    redisReply *reply;

    add_keys(&command, words.key);
    add_number(&command, words.now_us);
    add_number(&command, words.seen);
    add(&command, words.token);
    add_number(&command, words.began);
    add_number(&command, words.fresh_s * SECOND);
    add_number(&command, words.stale_s * SECOND);
    add_number(&command, words.error_s * SECOND);
    add_number(&command, words.age_s * SECOND);
    add_packed(&command, words.tags);
    add(&command, "w:wake");
    add(&command, words.key);
    add(&command, words.bytes);
    reply = run(redis, "fill", 3, &command);
    for (const char *const *each = (const char *const[]){"stored", "superseded", "invalidated", NULL};
         *each != NULL; each++)
        if (strcmp(reply->element[4]->str, *each) == 0)
            result = *each;
    cr_assert_not_null(result);
    freeReplyObject(reply);
    return result;
}

bool give_up(redisContext *redis, struct release_words words)
{
    struct command command = {.count = 0};
    redisReply *reply;
    bool was_held;

    add_keys(&command, words.key);
    add_number(&command, words.now_us);
    add_number(&command, words.seen);
    add(&command, words.token);
    add(&command, words.why);
    add_number(&command, words.status);
    add_number(&command, words.ms);
    add(&command, "w:wake");
    add(&command, words.key);
    reply = run(redis, "release", 3, &command);
    was_held = number_at(reply, 4) == 1;
    freeReplyObject(reply);
    return was_held;
}

static int64_t stamp(redisContext *redis, int64_t now_us, int64_t seen, const char *const *tags,
                     const char *kind)
{
    char members[8][80];
    struct command command = {.count = 0};
    redisReply *reply;
    int64_t epoch;

    add(&command, "w:tags");
    add_number(&command, now_us);
    add_number(&command, seen);
    add(&command, "w:inv");
    for (size_t i = 0; tags[i] != NULL; i++) {
        cr_assert_lt(i, sizeof(members) / sizeof(members[0]));
        snprintf(members[i], sizeof(members[i]), "%s%s", kind, tags[i]);
        add(&command, members[i]);
    }
    reply = run(redis, "invalidate", 1, &command);
    epoch = number_at(reply, 4);
    cr_assert_eq(number_at(reply, 0), epoch, "what it answers is the table's epoch");
    freeReplyObject(reply);
    return epoch;
}

int64_t invalidate(redisContext *redis, int64_t now_us, int64_t seen, const char *const *tags)
{
    return stamp(redis, now_us, seen, tags, "t");
}

int64_t invalidate_softly(redisContext *redis, int64_t now_us, int64_t seen, const char *const *tags)
{
    return stamp(redis, now_us, seen, tags, "s");
}

int64_t server_now_us(redisContext *redis)
{
    redisReply *reply = redis_says(redis, "TIME");
    int64_t now_us =
        strtoll(reply->element[0]->str, NULL, 10) * SECOND + strtoll(reply->element[1]->str, NULL, 10);

    freeReplyObject(reply);
    return now_us;
}

void expire_flight(redisContext *redis, const char *key)
{
    cr_assert_eq(redis_number(redis, "DEL w:f:{%s}", key), 1, "there was a flight");
}
