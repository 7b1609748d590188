/* Store redis, admit: a batch of limit decisions, cut into script calls that do not keep Redis from its other
 * work for long.
 *
 * The parts leave in one write and Redis decides them in order. When one of them fails, the whole call fails
 * with its fault; what the other parts charged stays charged: the limits err on the side of refusing.
 */
#include "store_redis.h"

#include "admit_wire.h"
#include "check.h"
#include "memory.h"
#include "store_redis_limit_keys.h"

#include <stdlib.h>

enum {
    TUPLES_PER_CALL = 64, /* with LIMIT_CHARGES_PER_CALL in all, which one alone never has */
};

struct admit_part {
    struct redis_run run;
    struct admit_op *op;
    size_t first, count; /* of the tuples */
};

struct admit_op {
    struct redis_op op;
    const struct admit_tuple *tuples; /* the caller's, until `done` or a cancel */
    size_t count;
    struct admit_part *parts;
    size_t part_count, parts_left;
    enum fault fault; /* the first part's that failed */
    struct admit_answer *answers;
    struct limit_state *states;
    admit_done *done;
    void *arg;
};

/* ---- the command ---- */

static size_t write_batch(const struct admit_part *part, struct limit_keys *keys, char *out)
{
    size_t len = 0;

    for (size_t i = part->first; i < part->first + part->count; i++) {
        const struct admit_tuple *tuple = &part->op->tuples[i];

        len += admit_wire_tuple(tuple->count, tuple->charge_count, out + len);
        for (size_t j = 0; j < tuple->charge_count; j++) {
            const struct limit_charge *charge = &tuple->charges[j];

            len += admit_wire_charge(limit_keys_place(keys, charge), charge->terms, charge->cost,
                                     charge->takes_hold ? charge->first_hold : ADMIT_WIRE_NO_HOLD, out + len);
        }
    }
    return len;
}

static bool compose(void *arg, struct redis_words *words)
{
    const struct admit_part *part = arg;
    const struct redis_store *store = part->op->op.store;
    char batch[TUPLES_PER_CALL * ADMIT_WIRE_TUPLE_BYTES + LIMIT_CHARGES_PER_CALL * ADMIT_WIRE_CHARGE_BYTES];
    struct limit_keys keys = {.count = 0};
    size_t batch_len;

    if (part->op->op.call.is_cancelled)
        return false; /* the tuples may be gone */
    batch_len = write_batch(part, &keys, batch);
    limit_keys_write(&keys, store->shared->tags_key, store->shared->settings.prefix, words);
    words_add_begin(words, store->shared->near);
    redis_words_add(words, slice_of(batch, batch_len));
    redis_words_add(words, slice_of(keys.readings, keys.count));
    words_add_text(words, store->owner);
    return true;
}

/* ---- answers ---- */

static void deliver(struct admit_op *op)
{
    op_settle(&op->op, op->fault);
    if (!op->op.call.is_cancelled && op->fault == FAULT_NONE)
        op->done(op->arg, FAULT_NONE, op->answers, op->count);
    else if (!op->op.call.is_cancelled)
        op->done(op->arg, op->fault, NULL, 0);
    op_end(&op->op);
}

static enum fault take_part(struct admit_part *part, enum fault fault, const struct redis_reply *reply)
{
    struct admit_op *op = part->op;
    const struct redis_reply *result;

    if (fault == FAULT_NONE)
        fault = store_take_news(op->op.store->store.near, reply, &result);
    if (fault != FAULT_NONE || op->op.call.is_cancelled)
        return fault;
    return answer_read_admit(result, op->tuples + part->first, part->count, op->answers + part->first)
               ? FAULT_NONE
               : FAULT_STORE_NONSENSE;
}

static void on_part(void *arg, enum fault fault, const struct redis_reply *reply)
{
    struct admit_part *part = arg;
    struct admit_op *op = part->op;

    fault = take_part(part, fault, reply);
    if (op->fault == FAULT_NONE)
        op->fault = fault;
    if (--op->parts_left == 0)
        deliver(op);
}

/* ---- starting ---- */

static void drop(struct redis_op *base)
{
    struct admit_op *op = (struct admit_op *)base;

    for (size_t i = 0; i < op->part_count; i++)
        redis_script_cancel(&op->parts[i].run);
    free(op->parts);
    free(op->answers);
    free(op->states);
}

static void place_states(struct admit_op *op)
{
    size_t charges = 0, at = 0;

    for (size_t i = 0; i < op->count; i++) {
        CHECK(op->tuples[i].charge_count <= ADMIT_WIRE_MAX_CHARGES);
        charges += op->tuples[i].charge_count;
    }
    op->answers = must_alloc((op->count + 1) * sizeof(op->answers[0]));
    op->states = must_alloc((charges + 1) * sizeof(op->states[0]));
    for (size_t i = 0; i < op->count; at += op->tuples[i++].charge_count)
        op->answers[i].states = op->states + at;
}

/* Does a part that ends before this tuple part a shadow from what it follows? */
static bool is_shadow(const struct admit_op *op, size_t tuple)
{
    return tuple < op->count && op->tuples[tuple].count == ADMIT_WHAT_PASSED;
}

/* At least one tuple, where there are any; then as many as fit. Shadows stay with what they follow: a request has fewer of
 * them than a call has room. */
static size_t part_size(const struct admit_op *op, size_t first)
{
    size_t count = 0, charges = 0, whole;

    while (first + count < op->count && count < TUPLES_PER_CALL &&
           charges + op->tuples[first + count].charge_count <= LIMIT_CHARGES_PER_CALL)
        charges += op->tuples[first + count++].charge_count;
    for (whole = count; whole > 0 && is_shadow(op, first + whole);)
        whole--;
    return whole > 0 ? whole : count;
}

static void cut(struct admit_op *op)
{
    size_t first = 0, room = 0;

    do { /* no tuples at all still ask for the epoch */
        size_t count = part_size(op, first);

        if (op->part_count == room) {
            room = room * 2 + 1;
            op->parts = must_realloc(op->parts, room * sizeof(op->parts[0]));
        }
        op->parts[op->part_count++] = (struct admit_part){.op = op, .first = first, .count = count};
        first += count;
    } while (first < op->count);
}

struct store_call *redis_store_admit(struct store *handle, const struct admit_tuple *tuples, size_t count,
                                     admit_done *done, void *arg)
{
    struct redis_store *store = (struct redis_store *)handle;
    struct admit_op *op = must_alloc(sizeof(*op));

    op_start(&op->op, store, OP_ADMIT, drop);
    op->tuples = tuples;
    op->count = count;
    op->done = done;
    op->arg = arg;
    place_states(op);
    cut(op);
    op->parts_left = op->part_count;
    for (size_t i = 0; i < op->part_count; i++)
        redis_script_run(&op->parts[i].run, store->link, &store->words, store->shared->scripts.admit,
                         op->op.give_up_at, compose, on_part, &op->parts[i]);
    return &op->op.call;
}
