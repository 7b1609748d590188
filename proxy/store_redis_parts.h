/* Store redis parts: an operation on a list, cut into script calls that do not keep Redis from its other work for long. When is it over,
 * and how did it end?
 *
 * The parts leave in one write and Redis runs them in order. When one of them fails, the whole operation fails with its fault, whatever
 * the others did.
 */
#ifndef WEIR_STORE_REDIS_PARTS_H
#define WEIR_STORE_REDIS_PARTS_H

#include "store_redis.h"

struct op_part {
    struct redis_run run;
    struct parted_op *parted;
    size_t first, count; /* of the list */
};

/* Each kind embeds it first. `op` is started by its kind, and its `drop` calls parted_op_drop(). */
struct parted_op {
    struct redis_op op;
    struct op_part *parts;
    size_t part_count, part_room, parts_left;
    enum fault fault; /* the first part's that failed */
    bool (*read)(const struct op_part *part, const struct redis_reply *result); /* false: nonsense */
    void (*tell)(struct parted_op *parted); /* calls back, with `fault`; once, when all parts are answered */
};

void parted_op_add(struct parted_op *parted, size_t first, size_t count);
/* `compose` is given its part. Neither it, nor `read`, nor `tell` is asked for a call that was cancelled: its list may be gone. */
void parted_op_run(struct parted_op *parted, const struct lua_script *script, redis_compose *compose);
void parted_op_drop(struct parted_op *parted);

#endif
