/* Store redis lookup: is it there, and if not, who loads it?
 *
 * The script may take a rebuild lock that the caller never hears of: it was cancelled, or the answer came too
 * late. Such a lock is given back. An entry that cannot be decoded is removed by a second lookup within the
 * same call.
 */
#include "store_redis_cache.h"

#include "digest.h"
#include "entry.h"
#include "log.h"

static bool compose_lookup(void *arg, struct redis_words *words)
{
    struct cache_op *op = arg;

    if (op->op.call.is_cancelled)
        return false;
    words_add_cache_keys(words, op);
    words_add_begin(words, op->op.store->store.near);
    words_add_token(words, op->token);
    redis_words_add_int(words, op->lease_ms);
    if (op->lookup.wants_new)
        words_add_text(words, "new");
    else
        words_add_token(words, op->lookup.waited);
    if (op->lookup.damaged_us < 0)
        words_add_text(words, "");
    else
        redis_words_add_int(words, op->lookup.damaged_us);
    for (size_t i = 0; i < op->tag_count; i++)
        redis_words_borrow(words, op->tags[i]);
    return true;
}

static bool is_token(struct load_token token)
{
    return token.hi != 0 || token.lo != 0;
}

static bool is_same_token(struct load_token a, struct load_token b)
{
    return a.hi == b.hi && a.lo == b.lo;
}

/* A lock is taken by its owner's name only, and by no mere look, which alone is told of what is absent. */
static bool is_for(const struct cache_op *op, const struct lookup_reply *wire)
{
    bool is_taken = wire->kind == LOOKUP_LOAD || wire->kind == LOOKUP_PROBE ||
                    (wire->kind == LOOKUP_STALE && is_token(wire->token));

    if (op->lease_ms == 0)
        return wire->kind == LOOKUP_FRESH || (wire->kind == LOOKUP_STALE && !is_taken) ||
               wire->kind == LOOKUP_ABSENT;
    return wire->kind != LOOKUP_ABSENT && (!is_taken || is_same_token(wire->token, op->token));
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
static struct object *decode(const struct cache_op *op, const struct lookup_reply *reply, int64_t epoch)
{
    struct lifetimes left = {reply->fresh_us / 1000, reply->stale_us / 1000, reply->error_us / 1000,
                             reply->age_us / 1000, 0};
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
    object->plain_bytes = view.plain_bytes;
    object->aged_epoch =
        epoch > view.epoch ? epoch : view.epoch; /* what is left of its times shows all that came before */
    block_release(&body);
    return object;
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
    if (!is_for(op, wire))
        return FAULT_STORE_NONSENSE;
    if (wire->entry.len > 0)
        *object_out = decode(op, wire, answer_epoch(reply));
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
    bool is_damaged, is_taken, is_lost;

    if (fault == FAULT_NONE)
        fault = take_lookup(op, reply, &wire, &object);
    is_taken = is_token(op->token) && is_same_token(wire.token, op->token);
    is_lost = is_token(op->token) && (fault == FAULT_STORE_SILENT || fault == FAULT_STORE_AWAY) &&
              redis_script_was_sent(&op->run);
    if (is_lost || (op->op.call.is_cancelled && is_taken))
        cache_op_give_back(op);
    is_damaged = fault == FAULT_NONE && wire.entry.len > 0 && object == NULL;
    if (is_damaged && !op->op.call.is_cancelled) {
        if (is_taken)
            cache_op_give_back(op); /* before the second lookup, on the same connection */
        if (op->lookup.damaged_us < 0) {
            if (is_token(op->token))
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
    struct load_token token = ask->lease_ms > 0 ? load_token_new() : (struct load_token){0, 0};
    struct cache_op *op = cache_op_new(handle, OP_LOOKUP, &ask->key, token, arg);

    op->lookup.done = done;
    op->lookup.waited = ask->waited;
    op->lookup.wants_new = ask->wants_new;
    op->lease_ms = ask->lease_ms;
    op->lookup.damaged_us = -1;
    cache_op_copy_tags(op, ask->tags, ask->tag_count);
    return cache_op_run(op, op->op.store->shared->scripts.lookup, compose_lookup, on_lookup);
}
