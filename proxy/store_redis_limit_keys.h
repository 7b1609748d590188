/* Store redis limit keys: under which names does Redis keep what a batch of charges is about? Each key stands in a call once.
 */
#ifndef WEIR_STORE_REDIS_LIMIT_KEYS_H
#define WEIR_STORE_REDIS_LIMIT_KEYS_H

#include "admit_wire.h"
#include "redis_words.h"
#include "store.h"

enum {
    LIMIT_CHARGES_PER_CALL = 256,
    LIMIT_KEYS_PER_CALL = 2 * LIMIT_CHARGES_PER_CALL,
    LIMIT_KEY_SLOTS = 2048, /* above twice the keys that a call can have */
};

struct limit_keys { /* all zero: none yet */
    struct limit_key_word {
        const struct limit_charge *charge; /* borrowed */
        bool has_holds;                    /* of the two keys of a limit, that of its holds */
    } words[LIMIT_KEYS_PER_CALL];
    char readings[LIMIT_KEYS_PER_CALL]; /* admit_wire_reading() */
    size_t count;
    uint16_t slots[LIMIT_KEY_SLOTS]; /* 1-based; 0: free */
};

/* Where the charge's keys stand in KEYS, where they are added unless they are there; of at most LIMIT_CHARGES_PER_CALL charges. */
struct limit_places limit_keys_place(struct limit_keys *keys, const struct limit_charge *charge);

/* Adds the number of all keys, the tag table's key and the others. */
void limit_keys_write(const struct limit_keys *keys, const char *tags_key, const char *prefix,
                      struct redis_words *words);

#endif
