/* Store redis parts: see store_redis_parts.h. */
#include "store_redis_parts.h"

#include "memory.h"

#include <stdlib.h>

static void deliver(struct parted_op *parted)
{
    op_settle(&parted->op, parted->fault);
    if (!parted->op.call.is_cancelled)
        parted->tell(parted);
    op_end(&parted->op);
}

static enum fault take_part(const struct op_part *part, enum fault fault, const struct redis_reply *reply)
{
    const struct redis_op *op = &part->parted->op;
    const struct redis_reply *result;

    if (fault == FAULT_NONE)
        fault = store_take_news(op->store->store.near, reply, &result);
    if (fault != FAULT_NONE || op->call.is_cancelled)
        return fault;
    return part->parted->read(part, result) ? FAULT_NONE : FAULT_STORE_NONSENSE;
}

static void on_part(void *arg, enum fault fault, const struct redis_reply *reply)
{
    struct op_part *part = arg;
    struct parted_op *parted = part->parted;

    fault = take_part(part, fault, reply);
    if (parted->fault == FAULT_NONE)
        parted->fault = fault;
    if (--parted->parts_left == 0)
        deliver(parted);
}

void parted_op_add(struct parted_op *parted, size_t first, size_t count)
{
    if (parted->part_count == parted->part_room) {
        parted->part_room = parted->part_room * 2 + 1;
        parted->parts = must_realloc(parted->parts, parted->part_room * sizeof(parted->parts[0]));
    }
    parted->parts[parted->part_count++] = (struct op_part){.parted = parted, .first = first, .count = count};
}

void parted_op_run(struct parted_op *parted, const struct lua_script *script, redis_compose *compose)
{
    struct redis_store *store = parted->op.store;

    parted->parts_left = parted->part_count;
    for (size_t i = 0; i < parted->part_count; i++)
        redis_script_run(&parted->parts[i].run, store->link, &store->words, script, parted->op.give_up_at,
                         compose, on_part, &parted->parts[i]);
}

void parted_op_drop(struct parted_op *parted)
{
    for (size_t i = 0; i < parted->part_count; i++)
        redis_script_cancel(&parted->parts[i].run);
    free(parted->parts);
}
