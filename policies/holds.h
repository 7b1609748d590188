/* Holds: which units of a limit are provisionally taken, by whom, and until when if nobody says more?
 *
 * A hold is units under a unique token with an end on the store's clock. Its owner renews it while its request lives and ends it when
 * that is over; where the owner dies it ends by itself, at its end, exclusive: at `ends_us` it does not count any more. Nothing that
 * has ended is counted, found or renewed: holds_drop_ended() comes first in every decision.
 *
 * What a hold does to a limit's figures stands in allowance.h; lua/holds.lua is this a second time. The soonest end is at the top of
 * a heap and each token is found through a hash, so that every call costs a logarithm of the live holds at most; what has ended is
 * dropped once. The memory is the keeper's, as that of a sliding log's ring.
 */
#ifndef WEIR_HOLDS_H
#define WEIR_HOLDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hold_token { /* unique per hold: who handed it out, and the how many-th of his it is */
    uint64_t owner, serial;
};

struct hold {
    struct hold_token token;
    int64_t units, ends_us;
    uint32_t slot; /* of the hash, where it is found */
};

struct holds { /* all zero: none */
    struct hold *heap;
    uint32_t *slots; /* behind the heap: 1-based places in it; 0: free */
    uint32_t count, room;
    int64_t units;       /* of all live holds */
    int64_t last_end_us; /* no hold ends later */
};

/* 0: `more` holds have room; else the room to move to first. */
uint32_t holds_room_wanted(const struct holds *holds, int64_t more);
size_t holds_memory_bytes(uint32_t room);
/* Moves to `memory` of so many bytes (of any content), which is the keeper's to free in the end. Returns the old memory, to be freed
 * now, or NULL. */
void *holds_move(struct holds *holds, void *memory, uint32_t room);

void holds_drop_ended(struct holds *holds, int64_t now_us);

/* For each of these there must be room for one more. A token that is held already is renewed instead: what is asked twice is done
 * once. False: it was not held. */
bool holds_take(struct holds *holds, struct hold_token token, int64_t units, int64_t ends_us);
bool holds_end(struct holds *holds, struct hold_token token); /* false: it was not held */

#endif
