/* Held tags: of which tags is nothing valid here for now, whatever its epoch says?
 *
 * An invalidation that the store was not told of yet: other nodes may still store, and raise the epoch over, what it
 * ought to end, so no epoch known here is high enough to stamp with. Counted, since several may hold one tag. Private
 * to near.c. Nearly always empty, and then a look costs no lock.
 */
#ifndef WEIR_HELD_TAGS_H
#define WEIR_HELD_TAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct held_tags;

struct held_tags *held_tags_new(uint64_t secret); /* as of struct tag_table */
void held_tags_free(struct held_tags *held);

/* Each hold is ended by one release of the same print. The holders bound how many there are. */
void held_tags_hold(struct held_tags *held, uint64_t print);
void held_tags_release(struct held_tags *held, uint64_t print);
/* Everything, with or without tags. */
void held_tags_hold_all(struct held_tags *held);
void held_tags_release_all(struct held_tags *held);

bool held_tags_cover(struct held_tags *held, const uint64_t *prints, size_t count);

#endif
