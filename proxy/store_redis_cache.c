/* Store redis, cache: lookup, fill, release, renew, invalidate, each one script call.
 *
 * A lookup may take a rebuild lock that its caller never hears of: it was cancelled, or its answer came too
 * late. A fill may be refused by a server that is out of memory. Such a lock is given back, so that nobody
 * waits for a load that does not happen.
 */
#include "store_redis.h"

#include "digest.h"
#include "entry.h"
#include "log.h"
#include "memory.h"

#include <stdlib.h>

/* Lifetimes above this (35 years) are cut, so that every sum with them stays exact in the scripts. */
static const int64_t LONGEST_MS = (INT64_C(1) << 50) / 1000;

enum { LEAST_STATUS = 100, MOST_STATUS = 599, BAD_GATEWAY = 502 };

struct cache_op { /* of one key; each operation uses what it needs */
    struct redis_op op;
    struct redis_run run;
    struct key32 key;
    struct load_token token; /* a lookup's own, should it become a load */
    void *arg;
    union {
        struct {
            lookup_done *done;
            struct load_token waited;
            int64_t lease_ms, damaged_us; /* -1: no entry was found damaged */
        } lookup;
        struct {
            fill_done *done;
            struct object *object;
            struct lifetimes lifetimes;
            bool is_unfit; /* it cannot be stored: only give the lock back */
        } fill;
        struct {
            release_done *done;
            const char *why;
            int status;
            int64_t ms;
        } release;
        invalidate_done *invalidated;
    };
    struct slice *tags; /* own, in one allocation */
    size_t tag_count;
};

/* ---- words ---- */

static void add_cache_keys(struct redis_words *words, const struct cache_op *op)
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

/* The token alone, or "" for none. */
static void add_token(struct redis_words *words, struct load_token token)
{
    char hex[TOKEN_HEX_BYTES];

    token_write(token, hex);
    redis_words_add(words, slice_of(hex, token.hi == 0 && token.lo == 0 ? 0 : sizeof(hex)));
}

static void add_wake(struct redis_words *words, const struct cache_op *op)
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

static struct cache_op *cache_op_new(struct store *handle, enum store_op_kind kind, const struct key32 *key,
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

static void copy_tags(struct cache_op *op, const struct slice *tags, size_t count)
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

static struct store_call *cache_op_run(struct cache_op *op, const struct lua_script *script,
                                       redis_compose *compose, redis_done *done)
{
    struct redis_store *store = op->op.store;

    redis_script_run(&op->run, store->link, &store->words, script, op->op.give_up_at, compose, done, op);
    return &op->op.call;
}

/* ---- release and renew ---- */

static bool compose_release(void *arg, struct redis_words *words)
{
    const struct cache_op *op = arg;

    add_cache_keys(words, op);
    words_add_begin(words, op->op.store->store.near);
    add_token(words, op->token);
    words_add_text(words, op->release.why);
    redis_words_add_int(words, op->release.status);
    redis_words_add_int(words, op->release.ms);
    add_wake(words, op);
    return true;
}

static void on_release(void *arg, enum fault fault, const struct redis_reply *reply)
{
    struct cache_op *op = arg;
    const struct redis_reply *result;
    bool was_held = false;

    if (fault == FAULT_NONE)
        fault = store_take_news(op->op.store->store.near, reply, &result);
    if (fault == FAULT_NONE && !answer_read_held(result, &was_held))
        fault = FAULT_STORE_NONSENSE;
    op_settle(&op->op, fault);
    if (op->release.done != NULL && !op->op.call.is_cancelled)
        op->release.done(op->arg, fault, was_held);
    op_end(&op->op);
}

static const char *reason_word(enum release_reason why)
{
    switch (why) {
    case RELEASE_FAILED: return "failed";
    case RELEASE_UNCACHEABLE: return "uncacheable";
    case RELEASE_CANCELLED: return "cancelled";
    }
    return "cancelled";
}

static struct cache_op *release_op(struct store *handle, const struct key32 *key, struct load_token token,
                                   const char *why, int64_t ms, release_done *done, void *arg)
{
    enum store_op_kind kind = strcmp(why, "renew") == 0 ? OP_RENEW : OP_RELEASE;
    struct cache_op *op = cache_op_new(handle, kind, key, token, arg);

    op->release.done = done;
    op->release.why = why;
    op->release.ms = ms;
    return op;
}

static struct store_call *run_release(struct cache_op *op)
{
    return cache_op_run(op, op->op.store->shared->scripts.release, compose_release, on_release);
}

struct store_call *redis_store_release(struct store *handle, const struct key32 *key, struct load_token token,
                                       enum release_reason why, int status, int64_t marker_ms,
                                       release_done *done, void *arg)
{
    struct cache_op *op =
        release_op(handle, key, token, reason_word(why), marker_ms < 0 ? 0 : marker_ms, done, arg);

    /* Who waited must have something to say. */
    op->release.status = status >= LEAST_STATUS && status <= MOST_STATUS ? status : BAD_GATEWAY;
    return run_release(op);
}

struct store_call *redis_store_renew(struct store *handle, const struct key32 *key, struct load_token token,
                                     int64_t lease_ms, release_done *done, void *arg)
{
    return run_release(release_op(handle, key, token, "renew", lease_ms > 0 ? lease_ms : 1, done, arg));
}

/* ---- lookup ---- */

static bool compose_lookup(void *arg, struct redis_words *words)
{
    struct cache_op *op = arg;

    if (op->op.call.is_cancelled)
        return false;
    add_cache_keys(words, op);
    words_add_begin(words, op->op.store->store.near);
    add_token(words, op->token);
    redis_words_add_int(words, op->lookup.lease_ms);
    add_token(words, op->lookup.waited);
    if (op->lookup.damaged_us < 0)
        words_add_text(words, "");
    else
        redis_words_add_int(words, op->lookup.damaged_us);
    for (size_t i = 0; i < op->tag_count; i++)
        redis_words_borrow(words, op->tags[i]);
    return true;
}

static bool is_same_token(struct load_token a, struct load_token b)
{
    return a.hi == b.hi && a.lo == b.lo;
}

static struct block *block_of(struct slice body)
{
    struct block *block = block_new(body.len);

    memcpy(block->bytes, body.base, body.len);
    block->len = body.len;
    return block;
}

/* The stored response, one reference, or NULL where the bytes are none of ours. Its moments count from the
 * time at which the lookup was started, which was before the store read its clock: never later than the
 * store's own. */
static struct object *decode(const struct cache_op *op, const struct lookup_reply *reply)
{
    struct lifetimes left = {reply->fresh_us / 1000, reply->stale_us / 1000, reply->error_us / 1000,
                             reply->age_us / 1000};
    struct entry_view view;
    struct object *object;
    struct block *body;
    enum entry_fault fault = entry_decode(reply->entry, digest_checksum, &view);

    if (fault != ENTRY_OK) {
        log_warn("redis: an entry cannot be used (%s) and is removed", entry_fault_name(fault));
        return NULL;
    }
    body = view.body.len > 0 ? block_of(view.body) : NULL;
    object = object_new(&op->key, view.epoch, view.status, view.headers, view.header_count, view.tags,
                        view.tag_count, &body, body != NULL, &left, op->op.started);
    block_release(&body);
    return object;
}

/* With the script's text: a server that was silent will find this among what it missed, and cannot ask back.
 */
static void give_back(struct cache_op *op)
{
    struct cache_op *giving =
        release_op(&op->op.store->store, &op->key, op->token, "cancelled", 0, NULL, NULL);

    giving->run.with_text = true;
    giving->run.call.is_patient = true;
    run_release(giving);
}

static void end_lookup(struct cache_op *op, enum fault fault, const struct lookup_answer *answer)
{
    op_settle(&op->op, fault);
    if (!op->op.call.is_cancelled)
        op->lookup.done(op->arg, fault, answer);
    op_end(&op->op);
}

static void on_lookup(void *arg, enum fault fault, const struct redis_reply *reply);

/* An answer that can be used: FAULT_NONE. `*object_out` is a reference or NULL. */
static enum fault take_lookup(struct cache_op *op, const struct redis_reply *reply, struct lookup_reply *wire,
                              struct object **object_out)
{
    const struct redis_reply *result;
    enum fault fault = store_take_news(op->op.store->store.near, reply, &result);

    if (fault != FAULT_NONE)
        return fault;
    if (!answer_read_lookup(result, wire))
        return FAULT_STORE_NONSENSE;
    if ((wire->kind == LOOKUP_LOAD ||
         (wire->kind == LOOKUP_STALE && (wire->token.hi | wire->token.lo) != 0)) &&
        !is_same_token(wire->token, op->token))
        return FAULT_STORE_NONSENSE; /* a lock is taken by its owner's name only */
    if (wire->entry.len > 0)
        *object_out = decode(op, wire);
    return FAULT_NONE;
}

/* Once, with the same deadline: what cannot be decoded was not stored by this version of Weir, or was
 * damaged. */
static void look_again(struct cache_op *op, int64_t damaged_us)
{
    op->lookup.damaged_us = damaged_us;
    cache_op_run(op, op->op.store->shared->scripts.lookup, compose_lookup, on_lookup);
}

static void on_lookup(void *arg, enum fault fault, const struct redis_reply *reply)
{
    struct cache_op *op = arg;
    struct lookup_reply wire = {.kind = LOOKUP_PASS};
    struct object *object = NULL;
    struct lookup_answer answer;
    bool is_damaged, is_taken;

    if (fault == FAULT_NONE)
        fault = take_lookup(op, reply, &wire, &object);
    is_taken = is_same_token(wire.token, op->token);
    if (fault == FAULT_STORE_SILENT || (op->op.call.is_cancelled && is_taken))
        give_back(op);
    is_damaged = fault == FAULT_NONE && wire.entry.len > 0 && object == NULL;
    if (is_damaged && !op->op.call.is_cancelled) {
        if (is_taken)
            give_back(op); /* before the second lookup, on the same connection */
        if (op->lookup.damaged_us < 0) {
            op->token = load_token_new();
            look_again(op, wire.stored_us);
            return;
        }
        fault = FAULT_STORE_NONSENSE;
    }
    answer = (struct lookup_answer){wire.kind, object, wire.token, wire.epoch, wire.wait_ms, wire.status};
    end_lookup(op, fault, fault == FAULT_NONE ? &answer : NULL);
    object_release(&object);
}

struct store_call *redis_store_lookup(struct store *handle, const struct lookup_ask *ask, lookup_done *done,
                                      void *arg)
{
    struct cache_op *op = cache_op_new(handle, OP_LOOKUP, &ask->key, load_token_new(), arg);

    op->lookup.done = done;
    op->lookup.waited = ask->waited;
    op->lookup.lease_ms = ask->lease_ms > 0 ? ask->lease_ms : 1;
    op->lookup.damaged_us = -1;
    copy_tags(op, ask->tags, ask->tag_count);
    return cache_op_run(op, op->op.store->shared->scripts.lookup, compose_lookup, on_lookup);
}

/* ---- fill ---- */

static void add_lifetime(struct redis_words *words, int64_t ms)
{
    redis_words_add_int(words, (ms < 0 ? 0 : ms > LONGEST_MS ? LONGEST_MS : ms) * 1000);
}

static void add_tags(struct redis_words *words, const struct slice *tags, size_t count)
{
    redis_words_add(words, SLICE(""));
    for (size_t i = 0; i < count; i++) {
        char len[2] = {(char)(unsigned char)(tags[i].len & 255), (char)(unsigned char)(tags[i].len >> 8)};

        redis_words_add_more(words, slice_of(len, sizeof(len)));
        redis_words_borrow_more(words, tags[i]);
    }
}

static struct entry entry_of(const struct object *object, struct slice *body)
{
    for (size_t i = 0; i < object->block_count; i++)
        body[i] = slice_of(object->blocks[i]->bytes, object->blocks[i]->len);
    return (struct entry){
        object->status,    object->epoch, object->headers,    object->header_count, object->tags,
        object->tag_count, body,          object->block_count};
}

static bool compose_give_back(const struct cache_op *op, struct redis_words *words)
{
    add_cache_keys(words, op);
    words_add_begin(words, op->op.store->store.near);
    add_token(words, op->token);
    words_add_text(words, "cancelled");
    words_add_text(words, "0");
    words_add_text(words, "0");
    add_wake(words, op);
    return true;
}

static bool compose_fill(void *arg, struct redis_words *words)
{
    struct cache_op *op = arg;
    const struct object *object = op->fill.object;
    struct slice *body;
    struct entry entry;
    size_t head_bytes;
    char *head;

    if (op->fill.is_unfit)
        return compose_give_back(op, words);
    body = must_alloc((object->block_count + 1) * sizeof(*body));
    entry = entry_of(object, body);
    head_bytes = entry_head_bytes(&entry);
    head = must_alloc(head_bytes);
    entry_encode_head(&entry, digest_checksum, head);
    add_cache_keys(words, op);
    words_add_begin(words, op->op.store->store.near);
    add_token(words, op->token);
    redis_words_add_int(words, object->epoch);
    add_lifetime(words, op->fill.lifetimes.fresh_ms);
    add_lifetime(words, op->fill.lifetimes.stale_ms);
    add_lifetime(words, op->fill.lifetimes.error_ms);
    add_lifetime(words, op->fill.lifetimes.age_ms);
    add_tags(words, object->tags, object->tag_count);
    add_wake(words, op);
    redis_words_add(words, slice_of(head, head_bytes));
    for (size_t i = 0; i < object->block_count; i++)
        redis_words_borrow_more(words, body[i]);
    free(head);
    free(body);
    return true;
}

static void on_fill(void *arg, enum fault fault, const struct redis_reply *reply)
{
    struct cache_op *op = arg;
    const struct redis_reply *result;
    enum fill_result filled = FILL_SUPERSEDED;

    if (fault == FAULT_NONE)
        fault = store_take_news(op->op.store->store.near, reply, &result);
    if (fault == FAULT_NONE && !op->fill.is_unfit && !answer_read_fill(result, &filled))
        fault = FAULT_STORE_NONSENSE;
    if (fault != FAULT_NONE)
        give_back(op);
    op_settle(&op->op, fault);
    if (op->fill.done != NULL && !op->op.call.is_cancelled)
        op->fill.done(op->arg, fault, filled);
    op_end(&op->op);
}

static bool is_unfit(const struct redis_store *store, const struct object *object)
{
    struct slice *body = must_alloc((object->block_count + 1) * sizeof(*body));
    struct entry entry = entry_of(object, body);
    size_t head_bytes = entry_head_bytes(&entry);

    free(body);
    return head_bytes == 0 ||
           (uint64_t)object->body_bytes > store->shared->max_entry_bytes - ENTRY_MAX_HEAD_BYTES;
}

struct store_call *redis_store_fill(struct store *handle, const struct key32 *key, struct load_token token,
                                    struct object *object, const struct lifetimes *lifetimes, fill_done *done,
                                    void *arg)
{
    struct cache_op *op = cache_op_new(handle, OP_FILL, key, token, arg);
    const struct store_scripts *scripts = &op->op.store->shared->scripts;

    op->fill.done = done;
    op->fill.object = object_hold(object);
    op->fill.lifetimes = *lifetimes;
    op->fill.is_unfit = is_unfit(op->op.store, object);
    return cache_op_run(op, op->fill.is_unfit ? scripts->release : scripts->fill, compose_fill, on_fill);
}

/* ---- invalidate ---- */

static bool compose_invalidate(void *arg, struct redis_words *words)
{
    const struct cache_op *op = arg;
    const struct store_redis *shared = op->op.store->shared;

    redis_words_add_int(words, 1);
    words_add_text(words, shared->tags_key);
    words_add_begin(words, shared->near);
    words_add_text(words, shared->invalidation_channel);
    for (size_t i = 0; i < op->tag_count; i++)
        redis_words_borrow(words, op->tags[i]);
    return true;
}

static void on_invalidate(void *arg, enum fault fault, const struct redis_reply *reply)
{
    struct cache_op *op = arg;
    const struct redis_reply *result;
    int64_t epoch = 0;

    if (fault == FAULT_NONE)
        fault = store_take_news(op->op.store->store.near, reply, &result);
    if (fault == FAULT_NONE && !answer_read_epoch(result, &epoch))
        fault = FAULT_STORE_NONSENSE;
    op_settle(&op->op, fault);
    if (!op->op.call.is_cancelled)
        op->invalidated(op->arg, fault, epoch);
    op_end(&op->op);
}

struct store_call *redis_store_invalidate(struct store *handle, const struct slice *tags, size_t count,
                                          invalidate_done *done, void *arg)
{
    struct cache_op *op = cache_op_new(handle, OP_INVALIDATE, NULL, (struct load_token){0, 0}, arg);

    op->invalidated = done;
    copy_tags(op, tags, count);
    return cache_op_run(op, op->op.store->shared->scripts.invalidate, compose_invalidate, on_invalidate);
}
