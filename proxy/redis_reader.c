/* Redis reader: see redis_reader.h. hiredis parses, but builds our values through the functions below, which
 * count what a reply costs: its own would reserve whatever an array's header claims to hold.
 */
#include "redis_reader.h"

#include "memory.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>

struct redis_reader {
    redisReader *parser;
    size_t max_reply_bytes;
    size_t reply_bytes; /* of the reply that is being built */
};

/* NULL makes hiredis give up with an error, and free what was built so far. */
static struct redis_reply *build(const redisReadTask *task, enum redis_kind kind, size_t text_len)
{
    struct redis_reader *reader = task->privdata;
    struct redis_reply *reply;
    size_t cost = sizeof(*reply) + text_len + 1;

    if (cost > reader->max_reply_bytes - reader->reply_bytes)
        return NULL;
    reply = malloc(cost);
    if (reply == NULL)
        return NULL;
    reader->reply_bytes += cost;
    *reply = (struct redis_reply){.kind = kind};
    if (task->parent != NULL) {
        struct redis_reply *list = task->parent->obj;

        list->items[task->idx] = reply;
    }
    return reply;
}

static void *build_text(const redisReadTask *task, char *bytes, size_t len)
{
    struct redis_reply *reply = build(task, task->type == REDIS_REPLY_ERROR ? REDIS_ERROR : REDIS_TEXT, len);
    char *text;

    if (reply == NULL)
        return NULL;
    text = (char *)(reply + 1);
    memcpy(text, bytes, len);
    text[len] = '\0';
    reply->text = slice_of(text, len);
    return reply;
}

static void *build_list(const redisReadTask *task, int items)
{
    struct redis_reader *reader = task->privdata;
    struct redis_reply *reply = build(task, REDIS_LIST, 0);
    size_t cost = (size_t)items * sizeof(reply->items[0]);

    if (reply == NULL)
        return NULL;
    if (items < 0 || items > REDIS_MAX_ITEMS || cost > reader->max_reply_bytes - reader->reply_bytes)
        goto fail;
    if (items > 0) {
        reply->items = calloc((size_t)items, sizeof(reply->items[0]));
        if (reply->items == NULL)
            goto fail;
        reader->reply_bytes += cost;
        reply->count = (size_t)items;
    }
    return reply;
fail: /* the list above us holds it already, and will be freed with it */
    if (task->parent == NULL)
        redis_reply_free(reply);
    return NULL;
}

static void *build_integer(const redisReadTask *task, long long number)
{
    struct redis_reply *reply = build(task, REDIS_INTEGER, 0);

    if (reply != NULL)
        reply->integer = number;
    return reply;
}

static void *build_nil(const redisReadTask *task)
{
    return build(task, REDIS_NIL, 0);
}

static void free_built(void *reply)
{
    redis_reply_free(reply);
}

static redisReplyObjectFunctions builders = {build_text, build_list, build_integer, build_nil, free_built};

struct redis_reader *redis_reader_new(size_t max_reply_bytes)
{
    struct redis_reader *reader = must_alloc(sizeof(*reader));

    reader->parser = redisReaderCreateWithFunctions(&builders);
    if (reader->parser == NULL)
        abort(); /* as for any small allocation */
    reader->parser->privdata = reader;
    reader->max_reply_bytes = max_reply_bytes;
    return reader;
}

void redis_reader_free(struct redis_reader *reader)
{
    if (reader == NULL)
        return;
    redisReaderFree(reader->parser);
    free(reader);
}

bool redis_reader_feed(struct redis_reader *reader, struct slice bytes)
{
    return redisReaderFeed(reader->parser, bytes.base, bytes.len) == REDIS_OK;
}

bool redis_reader_next(struct redis_reader *reader, struct redis_reply **reply)
{
    void *built = NULL;

    *reply = NULL;
    if (redisReaderGetReply(reader->parser, &built) != REDIS_OK)
        return false;
    if (built != NULL) {
        *reply = built;
        reader->reply_bytes = 0;
        return true;
    }
    /* A text of which the end is still missing lies here unbuilt. */
    return reader->parser->len - reader->parser->pos <= reader->max_reply_bytes;
}

const char *redis_reader_complaint(const struct redis_reader *reader)
{
    if (reader->parser->err == REDIS_ERR_OOM || reader->parser->err == 0)
        return "a reply is larger than anything that was asked for";
    return "it does not speak the Redis protocol";
}
