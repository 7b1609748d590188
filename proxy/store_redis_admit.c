/* Store redis, admit: a batch of limit decisions, in parts. Where one fails, what the others charged stays charged: the limits err on
 * the side of refusing.
 */
#include "store_redis_parts.h"

#include "admit_wire.h"
#include "check.h"
#include "memory.h"
#include "store_redis_limit_keys.h"

#include <stdlib.h>

enum {
    TUPLES_PER_CALL = 64, /* with LIMIT_CHARGES_PER_CALL in all, which one alone never has */
};

struct admit_op {
    struct parted_op parted;
    const struct admit_tuple *tuples; /* the caller's, until `done` or a cancel */
    size_t count;
    struct admit_answer *answers;
    struct limit_state *states;
    admit_done *done;
    void *arg;
};

static const struct admit_op *op_of(const struct op_part *part)
{
    return (const struct admit_op *)part->parted;
}

/* ---- the command ---- */

static size_t write_batch(const struct op_part *part, struct limit_keys *keys, char *out)
{
    size_t len = 0;

    for (size_t i = part->first; i < part->first + part->count; i++) {
        const struct admit_tuple *tuple = &op_of(part)->tuples[i];

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
    const struct op_part *part = arg;
    const struct redis_store *store = part->parted->op.store;
    char batch[TUPLES_PER_CALL * ADMIT_WIRE_TUPLE_BYTES + LIMIT_CHARGES_PER_CALL * ADMIT_WIRE_CHARGE_BYTES];
    struct limit_keys keys = {.count = 0};
    size_t batch_len;

    if (part->parted->op.call.is_cancelled)
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

static bool read_part(const struct op_part *part, const struct redis_reply *result)
{
    const struct admit_op *op = op_of(part);

    return answer_read_admit(result, op->tuples + part->first, part->count, op->answers + part->first);
}

static void tell(struct parted_op *parted)
{
    struct admit_op *op = (struct admit_op *)parted;

    if (parted->fault == FAULT_NONE)
        op->done(op->arg, FAULT_NONE, op->answers, op->count);
    else
        op->done(op->arg, parted->fault, NULL, 0);
}

/* ---- starting ---- */

static void drop(struct redis_op *base)
{
    struct admit_op *op = (struct admit_op *)base;

    parted_op_drop(&op->parted);
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
    size_t first = 0;

    do { /* no tuples at all still ask for the epoch */
        size_t count = part_size(op, first);

        parted_op_add(&op->parted, first, count);
        first += count;
    } while (first < op->count);
}

struct store_call *redis_store_admit(struct store *handle, const struct admit_tuple *tuples, size_t count,
                                     admit_done *done, void *arg)
{
    struct redis_store *store = (struct redis_store *)handle;
    struct admit_op *op = must_alloc(sizeof(*op));

    op_start(&op->parted.op, store, OP_ADMIT, drop);
    op->parted.read = read_part;
    op->parted.tell = tell;
    op->tuples = tuples;
    op->count = count;
    op->done = done;
    op->arg = arg;
    place_states(op);
    cut(op);
    parted_op_run(&op->parted, store->shared->scripts.admit, compose);
    return &op->parted.op.call;
}
