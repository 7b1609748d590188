/* Admit wire: how a batch of limit decisions is written for lua/admit.lua, whose header states the form.
 *
 * Packed little-endian without padding; numbers are doubles, which hold every integer of a limit exactly.
 */
#ifndef WEIR_ADMIT_WIRE_H
#define WEIR_ADMIT_WIRE_H

#include "budget.h"

#include <stddef.h>

enum {
    ADMIT_WIRE_TUPLE_BYTES = 9,
    ADMIT_WIRE_CHARGE_BYTES = 43,
    ADMIT_WIRE_MAX_CHARGES = 255,
    ADMIT_WIRE_MAX_KEYS = 65535
};

/* A tuple's count may be -1: a shadow of the tuple before it. Each writes its fixed number of bytes to `out` and returns it. A tuple is followed by its charges. */
size_t admit_wire_tuple(int64_t count, size_t charges, char *out);
/* key: the index in KEYS as Lua counts, so that the first limit key is 2. */
size_t admit_wire_charge(size_t key, const struct limit_terms *terms, int64_t cost, char *out);

/* The byte by which the script knows how to read a key; of a key with several charges ADMIT_WIRE_LOG wins. */
#define ADMIT_WIRE_LOG 'l'
#define ADMIT_WIRE_WHOLE '-'
char admit_wire_reading(const struct limit_terms *terms);

#endif
