/* Store redis, settle: what becomes of a batch of holds, cut into script calls that do not keep Redis from its other work for long.
 *
 * The parts leave in one write. When one of them fails, the whole call fails with its fault: all of it may be asked again.
 */
#include "store_redis.h"

#include "admit_wire.h"
#include "memory.h"
#include "store_redis_limit_keys.h"

#include <stdlib.h>

enum { SETTLEMENTS_PER_CALL = 64 };

struct settle_part {
    struct redis_run run;
    struct settle_op *op;
    size_t first, count; /* of the settlements */
};

struct settle_op {
    struct redis_op op;
    const struct hold_settlement *settlements; /* the caller's, until `done` or a cancel */
    size_t count;
    struct settle_part *parts;
    size_t part_count, parts_left;
    enum fault fault; /* the first part's that failed */
    bool *was_held;
    settle_done *done;
    void *arg;
};

static bool compose(void *arg, struct redis_words *words)
{
    const struct settle_part *part = arg;
    const struct redis_store *store = part->op->op.store;
    char batch[SETTLEMENTS_PER_CALL * SETTLE_WIRE_ITEM_BYTES];
    struct limit_keys keys = {.count = 0};
    size_t len = 0;

    if (part->op->op.call.is_cancelled)
        return false; /* the settlements may be gone */
    for (size_t i = part->first; i < part->first + part->count; i++) {
        const struct hold_settlement *settlement = &part->op->settlements[i];
        const struct limit_charge *charge = &settlement->charge;

        len += settle_wire_item(limit_keys_place(&keys, charge), charge->terms, charge->cost,
                                charge->first_hold, settlement->charged, batch + len);
    }
    limit_keys_write(&keys, store->shared->tags_key, store->shared->settings.prefix, words);
    words_add_begin(words, store->shared->near);
    redis_words_add(words, slice_of(batch, len));
    redis_words_add(words, slice_of(keys.readings, keys.count));
    words_add_text(words, store->owner);
    return true;
}

static void deliver(struct settle_op *op)
{
    op_settle(&op->op, op->fault);
    if (!op->op.call.is_cancelled && op->fault == FAULT_NONE)
        op->done(op->arg, FAULT_NONE, op->was_held, op->count);
    else if (!op->op.call.is_cancelled)
        op->done(op->arg, op->fault, NULL, 0);
    op_end(&op->op);
}

static enum fault take_part(struct settle_part *part, enum fault fault, const struct redis_reply *reply)
{
    struct settle_op *op = part->op;
    const struct redis_reply *result;

    if (fault == FAULT_NONE)
        fault = store_take_news(op->op.store->store.near, reply, &result);
    if (fault != FAULT_NONE)
        return fault;
    return answer_read_settle(result, op->was_held + part->first, part->count) ? FAULT_NONE
                                                                               : FAULT_STORE_NONSENSE;
}

static void on_part(void *arg, enum fault fault, const struct redis_reply *reply)
{
    struct settle_part *part = arg;
    struct settle_op *op = part->op;

    fault = take_part(part, fault, reply);
    if (op->fault == FAULT_NONE)
        op->fault = fault;
    if (--op->parts_left == 0)
        deliver(op);
}

static void drop(struct redis_op *base)
{
    struct settle_op *op = (struct settle_op *)base;

    for (size_t i = 0; i < op->part_count; i++)
        redis_script_cancel(&op->parts[i].run);
    free(op->parts);
    free(op->was_held);
}

static void cut(struct settle_op *op)
{
    op->part_count = op->count == 0 ? 1 : (op->count - 1) / SETTLEMENTS_PER_CALL + 1;
    op->parts = must_alloc(op->part_count * sizeof(op->parts[0]));
    for (size_t i = 0; i < op->part_count; i++) {
        size_t first = i * SETTLEMENTS_PER_CALL, left = op->count - first;

        op->parts[i] = (struct settle_part){
            .op = op, .first = first, .count = left < SETTLEMENTS_PER_CALL ? left : SETTLEMENTS_PER_CALL};
    }
}

struct store_call *redis_store_settle(struct store *handle, const struct hold_settlement *settlements,
                                      size_t count, settle_done *done, void *arg)
{
    struct redis_store *store = (struct redis_store *)handle;
    struct settle_op *op = must_alloc(sizeof(*op));

    op_start(&op->op, store, OP_SETTLE, drop);
    op->settlements = settlements;
    op->count = count;
    op->done = done;
    op->arg = arg;
    op->was_held = must_alloc((count + 1) * sizeof(op->was_held[0]));
    cut(op);
    op->parts_left = op->part_count;
    for (size_t i = 0; i < op->part_count; i++)
        redis_script_run(&op->parts[i].run, store->link, &store->words, store->shared->scripts.settle,
                         op->op.give_up_at, compose, on_part, &op->parts[i]);
    return &op->op.call;
}
