/* Store redis load: how a load ends (fill, release) or goes on (renew), and what ends entries (invalidate).
 *
 * A server that is away, or out of memory, cannot take a lock back. It is offered again, see
 * cache_op_give_back().
 */
#include "store_redis_cache.h"

#include "digest.h"
#include "entry.h"
#include "memory.h"

#include <stdlib.h>

/* Lifetimes above this (35 years) are cut, so that every sum with them stays exact in the scripts. */
static const int64_t LONGEST_MS = (INT64_C(1) << 50) / 1000;

enum {
    MAX_ORPHANS = 1024,
    UNKNOWN_LEASE_MS = 30000,
    LEAST_STATUS = 100,
    MOST_STATUS = 599,
    BAD_GATEWAY = 502
};

/* ---- release and renew ---- */

static bool compose_release(void *arg, struct redis_words *words)
{
    const struct cache_op *op = arg;

    words_add_cache_keys(words, op);
    words_add_begin(words, op->op.store->store.near);
    words_add_token(words, op->token);
    words_add_text(words, op->release.why);
    redis_words_add_int(words, op->release.status);
    redis_words_add_int(words, op->release.ms);
    words_add_wake(words, op);
    return true;
}

/* Kept for when the server is there again? */
static bool keep_orphan(struct cache_op *op)
{
    struct redis_store *store = op->op.store;

    if (loop_now(store->loop).ms >= op->release.orphaned_until.ms || store->orphans == MAX_ORPHANS)
        return false;
    op->release.is_waiting = true;
    store->orphans++;
    return true;
}

static bool is_orphan(const struct cache_op *op)
{
    return op->release.orphaned_until.ms != 0;
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
    if (fault == FAULT_STORE_AWAY || fault == FAULT_STORE_SILENT) {
        if (is_orphan(op) && keep_orphan(op))
            return;
        if (!is_orphan(op) && op->op.kind == OP_RELEASE)
            cache_op_give_back(op);
    }
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

/* ---- giving back ---- */

void cache_op_give_back(const struct cache_op *op)
{
    struct redis_store *store = op->op.store;
    struct cache_op *orphan = release_op(&store->store, &op->key, op->token, "cancelled", 0, NULL, NULL);

    orphan->release.orphaned_until =
        mono_after(loop_now(store->loop), op->lease_ms > 0 ? op->lease_ms : UNKNOWN_LEASE_MS);
    run_release(orphan);
}

void redis_store_give_back_orphans(struct redis_store *store)
{
    struct redis_op *next;

    for (struct redis_op *each = store->ops; each != NULL; each = next) {
        struct cache_op *op = (struct cache_op *)each;

        next = each->next;
        if (each->kind != OP_RELEASE || !op->release.is_waiting)
            continue;
        op->release.is_waiting = false;
        store->orphans--;
        if (loop_now(store->loop).ms >= op->release.orphaned_until.ms) {
            op_end(each);
            continue;
        }
        op_restart(each);
        run_release(op);
    }
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
        object->status,    object->epoch, object->headers,     object->header_count,         object->tags,
        object->tag_count, body,          object->block_count, (uint32_t)object->plain_bytes};
}

static bool compose_give_back(const struct cache_op *op, struct redis_words *words)
{
    words_add_cache_keys(words, op);
    words_add_begin(words, op->op.store->store.near);
    words_add_token(words, op->token);
    words_add_text(words, "cancelled");
    words_add_text(words, "0");
    words_add_text(words, "0");
    words_add_wake(words, op);
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
    words_add_cache_keys(words, op);
    words_add_begin(words, op->op.store->store.near);
    words_add_token(words, op->token);
    redis_words_add_int(words, object->epoch);
    add_lifetime(words, op->fill.lifetimes.fresh_ms);
    add_lifetime(words, op->fill.lifetimes.stale_ms);
    add_lifetime(words, op->fill.lifetimes.error_ms);
    add_lifetime(words, op->fill.lifetimes.age_ms);
    add_tags(words, object->tags, object->tag_count);
    words_add_wake(words, op);
    redis_words_add(words, slice_of(head, head_bytes));
    for (size_t i = 0; i < object->block_count; i++)
        redis_words_borrow_more(words, body[i]);
    add_lifetime(words, op->fill.lifetimes.keep_ms);
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
        cache_op_give_back(op);
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
    for (size_t i = 0; i < op->tag_count; i++) {
        redis_words_add(words, i < op->invalidate.soft_count ? SLICE("s") : SLICE("t"));
        redis_words_borrow_more(words, op->tags[i]);
    }
    if (op->invalidate.is_all)
        words_add_text(words, "!floor");
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
        op->invalidate.done(op->arg, fault, epoch);
    op_end(&op->op);
}

struct store_call *redis_store_invalidate(struct store *handle, const struct slice *tags, size_t count,
                                          size_t soft_count, invalidate_done *done, void *arg)
{
    struct cache_op *op = cache_op_new(handle, OP_INVALIDATE, NULL, (struct load_token){0, 0}, arg);

    op->invalidate.done = done;
    op->invalidate.soft_count = soft_count;
    cache_op_copy_tags(op, tags, count);
    return cache_op_run(op, op->op.store->shared->scripts.invalidate, compose_invalidate, on_invalidate);
}

struct store_call *redis_store_invalidate_all(struct store *handle, invalidate_done *done, void *arg)
{
    struct cache_op *op = cache_op_new(handle, OP_INVALIDATE, NULL, (struct load_token){0, 0}, arg);

    op->invalidate.done = done;
    op->invalidate.is_all = true;
    return cache_op_run(op, op->op.store->shared->scripts.invalidate, compose_invalidate, on_invalidate);
}
