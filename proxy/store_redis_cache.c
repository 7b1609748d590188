/* Store redis cache: see store_redis_cache.h. */
#include "store_redis_cache.h"

#include "memory.h"

#include <stdlib.h>

/* ---- words ---- */

void words_add_cache_keys(struct redis_words *words, const struct cache_op *op)
{
    const struct store_redis *shared = op->op.store->shared;
    size_t prefix_len = strlen(shared->settings.prefix);
    static const char kinds[] = {'c', 'f'};
    char *name = must_alloc(prefix_len + KEY_HEX_BYTES + 8);

    redis_words_add_int(words, 3);
    words_add_text(words, shared->tags_key);
    memcpy(name, shared->settings.prefix, prefix_len);
    for (size_t i = 0; i < sizeof(kinds);
         i++) { /* ":c:{<hex>}": the braces keep both in one slot of a cluster */
        char *at = name + prefix_len;

        *at++ = ':';
        *at++ = kinds[i];
        *at++ = ':';
        *at++ = '{';
        key_write(&op->key, at);
        at += KEY_HEX_BYTES;
        *at++ = '}';
        redis_words_add(words, slice_of(name, (size_t)(at - name)));
    }
    free(name);
}

void words_add_token(struct redis_words *words, struct load_token token)
{
    char hex[TOKEN_HEX_BYTES];

    token_write(token, hex);
    redis_words_add(words, slice_of(hex, token.hi == 0 && token.lo == 0 ? 0 : sizeof(hex)));
}

void words_add_wake(struct redis_words *words, const struct cache_op *op)
{
    char hex[KEY_HEX_BYTES];

    key_write(&op->key, hex);
    words_add_text(words, op->op.store->shared->wake_channel);
    redis_words_add(words, slice_of(hex, sizeof(hex)));
}

/* ---- life ---- */

static void drop(struct redis_op *base)
{
    struct cache_op *op = (struct cache_op *)base;

    redis_script_cancel(&op->run);
    if (op->op.kind == OP_FILL)
        object_release(&op->fill.object);
    free(op->tags);
}

struct cache_op *cache_op_new(struct store *handle, enum store_op_kind kind, const struct key32 *key,
                              struct load_token token, void *arg)
{
    struct cache_op *op = must_alloc(sizeof(*op));

    op_start(&op->op, (struct redis_store *)handle, kind, drop);
    if (key != NULL)
        op->key = *key;
    op->token = token;
    op->arg = arg;
    return op;
}

void cache_op_copy_tags(struct cache_op *op, const struct slice *tags, size_t count)
{
    size_t bytes = count * sizeof(struct slice);
    char *at;

    for (size_t i = 0; i < count; i++)
        bytes += tags[i].len;
    if (bytes == 0)
        return;
    op->tags = must_alloc(bytes);
    op->tag_count = count;
    at = (char *)(op->tags + count);
    for (size_t i = 0; i < count; i++) {
        if (tags[i].len > 0)
            memcpy(at, tags[i].base, tags[i].len);
        op->tags[i] = slice_of(at, tags[i].len);
        at += tags[i].len;
    }
}

struct store_call *cache_op_run(struct cache_op *op, const struct lua_script *script, redis_compose *compose,
                                redis_done *done)
{
    struct redis_store *store = op->op.store;

    redis_script_run(&op->run, store->link, &store->words, script, op->op.give_up_at, compose, done, op);
    return &op->op.call;
}
