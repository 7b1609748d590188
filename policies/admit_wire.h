/* Admit wire: how batches are written for lua/admit.lua and lua/settle.lua, whose headers state the form.
 *
 * Packed little-endian without padding; numbers are doubles, which hold every integer of a limit exactly.
 */
#ifndef WEIR_ADMIT_WIRE_H
#define WEIR_ADMIT_WIRE_H

#include "budget.h"

#include <stddef.h>

enum {
    ADMIT_WIRE_TUPLE_BYTES = 9,
    ADMIT_WIRE_CHARGE_BYTES = 61, /* at most: 45 where nothing is held */
    SETTLE_WIRE_ITEM_BYTES = ADMIT_WIRE_CHARGE_BYTES + 8,
    ADMIT_WIRE_MAX_CHARGES = 255,
    ADMIT_WIRE_MAX_KEYS = 65535
};

/* A tuple's count may be -1: a shadow of the tuple before it. Each writes its fixed number of bytes to `out` and returns it. A tuple is followed by its charges. */
size_t admit_wire_tuple(int64_t count, size_t charges, char *out);
/* Where a limit keeps what: indices in KEYS as Lua counts, so that the first limit key is 2. */
struct limit_places {
    size_t state; /* with concurrency the same as `holds` */
    size_t holds; /* 0: it takes none, terms->lease_us is 0 */
};
/* first_hold: the serial of the first request's hold; those of the others follow. Or it is charged beside the holds of others. */
#define ADMIT_WIRE_NO_HOLD INT64_C(-1)
size_t admit_wire_charge(struct limit_places at, const struct limit_terms *terms, int64_t cost,
                         int64_t first_hold, char *out);
/* One hold to settle, of `held` units: it ends and `charged` units are charged; or it is renewed. */
#define SETTLE_WIRE_RENEW INT64_C(-1)
size_t settle_wire_item(struct limit_places at, const struct limit_terms *terms, int64_t held, int64_t serial,
                        int64_t charged, char *out);

/* The byte by which the script knows how to read a key; of a key with several charges ADMIT_WIRE_LOG wins. */
#define ADMIT_WIRE_LOG 'l'
#define ADMIT_WIRE_WHOLE '-'
#define ADMIT_WIRE_HOLDS 'h' /* a key of holds, which is never anything else */
char admit_wire_reading(const struct limit_terms *terms);

#endif
