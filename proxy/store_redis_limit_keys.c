/* Store redis limit keys: see store_redis_limit_keys.h. */
#include "store_redis_limit_keys.h"

#include "check.h"
#include "memory.h"
#include "settings.h"
#include "store_redis_answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The name counts, not the rule's address: after a reload two rules may stand for one limit. */
static bool is_same_key(const struct limit_key_word *word, const struct limit_charge *charge, bool has_holds)
{
    return word->has_holds == has_holds &&
           memcmp(word->charge->principal, charge->principal, sizeof(charge->principal)) == 0 &&
           (word->charge->rule == charge->rule || strcmp(word->charge->rule->name, charge->rule->name) == 0);
}

static size_t slot_of(const struct limit_charge *charge, bool has_holds)
{
    uint32_t hash;

    memcpy(&hash, charge->principal, sizeof(hash)); /* a digest already */
    for (const char *name = charge->rule->name; *name != '\0'; name++)
        hash = hash * 31 + (unsigned char)*name;
    return (hash + has_holds) % LIMIT_KEY_SLOTS;
}

static size_t key_place(struct limit_keys *keys, const struct limit_charge *charge, bool has_holds)
{
    size_t slot = slot_of(charge, has_holds);

    while (keys->slots[slot] != 0 && !is_same_key(&keys->words[keys->slots[slot] - 1], charge, has_holds))
        slot = (slot + 1) % LIMIT_KEY_SLOTS;
    if (keys->slots[slot] == 0) {
        CHECK(keys->count < LIMIT_KEYS_PER_CALL);
        keys->readings[keys->count] = has_holds ? ADMIT_WIRE_HOLDS : ADMIT_WIRE_WHOLE;
        keys->words[keys->count++] = (struct limit_key_word){charge, has_holds};
        keys->slots[slot] = (uint16_t)keys->count;
    }
    return keys->slots[slot] - 1u;
}

struct limit_places limit_keys_place(struct limit_keys *keys, const struct limit_charge *charge)
{
    struct limit_places at = {0, 0};
    size_t place;

    if (charge->terms->lease_us > 0)
        at.holds = 2 + key_place(keys, charge, true);
    if (charge->terms->algorithm == LIMIT_CONCURRENCY) {
        at.state = at.holds;
        return at;
    }
    place = key_place(keys, charge, false);
    if (admit_wire_reading(charge->terms) == ADMIT_WIRE_LOG)
        keys->readings[place] = ADMIT_WIRE_LOG;
    at.state = 2 + place;
    return at;
}

static void add_key(const struct limit_key_word *word, const char *prefix, char *room, size_t room_bytes,
                    struct redis_words *words)
{
    const struct limit_charge *charge = word->charge;
    char principal[PRINCIPAL_HEX_BYTES + 1] = {0};
    int len;

    principal_write(charge->principal, principal);
    len = snprintf(room, room_bytes, "%s:%c:{%s}:%s", prefix, word->has_holds ? 'h' : 'l', principal,
                   charge->rule->name);
    CHECK(len > 0 && (size_t)len < room_bytes);
    redis_words_add(words, slice_of(room, (size_t)len));
}

static size_t longest_key(const struct limit_keys *keys, const char *prefix)
{
    size_t longest = 0;

    for (size_t i = 0; i < keys->count; i++) {
        size_t len = strlen(keys->words[i].charge->rule->name);

        longest = len > longest ? len : longest;
    }
    return strlen(prefix) + sizeof(":l:{}:") + PRINCIPAL_HEX_BYTES + longest;
}

void limit_keys_write(const struct limit_keys *keys, const char *tags_key, const char *prefix,
                      struct redis_words *words)
{
    size_t room_bytes = longest_key(keys, prefix);
    char *room = must_alloc(room_bytes);

    redis_words_add_int(words, (int64_t)keys->count + 1);
    redis_words_borrow(words, slice_text(tags_key));
    for (size_t i = 0; i < keys->count; i++)
        add_key(&keys->words[i], prefix, room, room_bytes, words);
    free(room);
}
