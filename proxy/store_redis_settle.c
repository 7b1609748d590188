/* Store redis, settle: what becomes of a batch of holds, in parts. Where one fails, all of it may be asked again. */
#include "store_redis_parts.h"

#include "admit_wire.h"
#include "memory.h"
#include "store_redis_limit_keys.h"

#include <stdlib.h>

enum { SETTLEMENTS_PER_CALL = 64 };

struct settle_op {
    struct parted_op parted;
    const struct hold_settlement *settlements; /* the caller's, until `done` or a cancel */
    size_t count;
    bool *was_held;
    settle_done *done;
    void *arg;
};

static const struct settle_op *op_of(const struct op_part *part)
{
    return (const struct settle_op *)part->parted;
}

static bool compose(void *arg, struct redis_words *words)
{
    const struct op_part *part = arg;
    const struct redis_store *store = part->parted->op.store;
    char batch[SETTLEMENTS_PER_CALL * SETTLE_WIRE_ITEM_BYTES];
    struct limit_keys keys = {.count = 0};
    size_t len = 0;

    if (part->parted->op.call.is_cancelled)
        return false; /* the settlements may be gone */
    for (size_t i = part->first; i < part->first + part->count; i++) {
        const struct hold_settlement *settlement = &op_of(part)->settlements[i];
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

static bool read_part(const struct op_part *part, const struct redis_reply *result)
{
    return answer_read_settle(result, op_of(part)->was_held + part->first, part->count);
}

static void tell(struct parted_op *parted)
{
    struct settle_op *op = (struct settle_op *)parted;

    if (parted->fault == FAULT_NONE)
        op->done(op->arg, FAULT_NONE, op->was_held, op->count);
    else
        op->done(op->arg, parted->fault, NULL, 0);
}

static void drop(struct redis_op *base)
{
    struct settle_op *op = (struct settle_op *)base;

    parted_op_drop(&op->parted);
    free(op->was_held);
}

static void cut(struct settle_op *op)
{
    size_t first = 0;

    do { /* none at all still ask for the epoch */
        size_t left = op->count - first, count = left < SETTLEMENTS_PER_CALL ? left : SETTLEMENTS_PER_CALL;

        parted_op_add(&op->parted, first, count);
        first += count;
    } while (first < op->count);
}

struct store_call *redis_store_settle(struct store *handle, const struct hold_settlement *settlements,
                                      size_t count, settle_done *done, void *arg)
{
    struct redis_store *store = (struct redis_store *)handle;
    struct settle_op *op = must_alloc(sizeof(*op));

    op_start(&op->parted.op, store, OP_SETTLE, drop);
    op->parted.read = read_part;
    op->parted.tell = tell;
    op->settlements = settlements;
    op->count = count;
    op->done = done;
    op->arg = arg;
    op->was_held = must_alloc((count + 1) * sizeof(op->was_held[0]));
    cut(op);
    parted_op_run(&op->parted, store->shared->scripts.settle, compose);
    return &op->parted.op.call;
}
