/* Holds: which units of a limit are provisionally taken, by whom, and until when if nobody says more? */
#include "holds.h"

#include "check.h"
#include "limit_numbers.h"

#include <string.h>

enum { FIRST_ROOM = 4, SLOTS_PER_HOLD = 2 };

/* ---- memory ---- */

uint32_t holds_room_wanted(const struct holds *holds, int64_t more)
{
    uint32_t room = holds->room > 0 ? holds->room : FIRST_ROOM;

    CHECK(more >= 0 && more < INT32_MAX / SLOTS_PER_HOLD - holds->count);
    while (room - holds->count < (uint64_t)more)
        room *= 2;
    return room == holds->room ? 0 : room;
}

size_t holds_memory_bytes(uint32_t room)
{
    return room * (sizeof(struct hold) + SLOTS_PER_HOLD * sizeof(uint32_t));
}

/* ---- the hash: a token's place in the heap ---- */

static uint32_t slot_after(const struct holds *holds, uint32_t slot)
{
    return (slot + 1) & (SLOTS_PER_HOLD * holds->room - 1);
}

static uint32_t home_of(const struct holds *holds, struct hold_token token)
{
    uint64_t mixed =
        (token.owner ^ token.serial * UINT64_C(0x9E3779B97F4A7C15)) * UINT64_C(0xD6E8FEB86659FD93);

    return (uint32_t)(mixed >> 32) & (SLOTS_PER_HOLD * holds->room - 1);
}

static bool is_token(struct hold_token a, struct hold_token b)
{
    return a.owner == b.owner && a.serial == b.serial;
}

/* The token's slot, or the free one where it would be. */
static uint32_t find_slot(const struct holds *holds, struct hold_token token)
{
    uint32_t slot = home_of(holds, token);

    while (holds->slots[slot] != 0 && !is_token(holds->heap[holds->slots[slot] - 1].token, token))
        slot = slot_after(holds, slot);
    return slot;
}

/* Whoever was pushed past the slot that becomes free moves back, so that no search ends too early. */
static void free_slot(struct holds *holds, uint32_t freed)
{
    uint32_t mask = SLOTS_PER_HOLD * holds->room - 1;

    holds->slots[freed] = 0;
    for (uint32_t slot = slot_after(holds, freed); holds->slots[slot] != 0; slot = slot_after(holds, slot)) {
        struct hold *hold = &holds->heap[holds->slots[slot] - 1];
        uint32_t home = home_of(holds, hold->token);

        if (((slot - home) & mask) < ((slot - freed) & mask))
            continue;
        holds->slots[freed] = holds->slots[slot];
        hold->slot = freed;
        holds->slots[slot] = 0;
        freed = slot;
    }
}

/* ---- the heap: the soonest end on top ---- */

static void put(struct holds *holds, uint32_t place, struct hold hold)
{
    holds->heap[place] = hold;
    holds->slots[hold.slot] = place + 1;
}

/* Finds the place for a hold whose end is not that of its place any more. */
static void sift(struct holds *holds, uint32_t place)
{
    struct hold hold = holds->heap[place];

    while (place > 0 && holds->heap[(place - 1) / 2].ends_us > hold.ends_us) {
        put(holds, place, holds->heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    for (uint32_t child; (child = 2 * place + 1) < holds->count; place = child) {
        if (child + 1 < holds->count && holds->heap[child + 1].ends_us < holds->heap[child].ends_us)
            child++;
        if (holds->heap[child].ends_us >= hold.ends_us)
            break;
        put(holds, place, holds->heap[child]);
    }
    put(holds, place, hold);
}

static void drop(struct holds *holds, uint32_t place)
{
    holds->units -= holds->heap[place].units;
    free_slot(holds, holds->heap[place].slot);
    holds->count--;
    if (place < holds->count) {
        put(holds, place, holds->heap[holds->count]);
        sift(holds, place);
    }
}

/* ---- public ---- */

void *holds_move(struct holds *holds, void *memory, uint32_t room)
{
    struct hold *old = holds->heap;

    CHECK(room >= holds->count && (room & (room - 1)) == 0);
    holds->heap = memory;
    holds->slots = (uint32_t *)(void *)(holds->heap + room);
    holds->room = room;
    memset(holds->slots, 0, SLOTS_PER_HOLD * room * sizeof(*holds->slots));
    for (uint32_t place = 0; place < holds->count; place++) {
        holds->heap[place] = old[place];
        holds->heap[place].slot = find_slot(holds, old[place].token);
        holds->slots[holds->heap[place].slot] = place + 1;
    }
    return old;
}

void holds_drop_ended(struct holds *holds, int64_t now_us)
{
    while (holds->count > 0 && holds->heap[0].ends_us <= now_us)
        drop(holds, 0);
    if (holds->count == 0)
        holds->last_end_us = 0;
}

bool holds_take(struct holds *holds, struct hold_token token, int64_t units, int64_t ends_us)
{
    uint32_t slot;
    bool was_held;

    CHECK(holds->count < holds->room && units > 0);
    slot = find_slot(holds, token);
    was_held = holds->slots[slot] != 0;
    if (!was_held &&
        units > LIMIT_EXACT - holds->units) /* who renews what was lost could exceed all bounds */
        return false;
    if (!was_held) {
        holds->heap[holds->count] = (struct hold){.token = token, .units = units, .slot = slot};
        holds->slots[slot] = ++holds->count;
        holds->units += units;
    }
    holds->heap[holds->slots[slot] - 1].ends_us = ends_us;
    if (ends_us > holds->last_end_us)
        holds->last_end_us = ends_us;
    sift(holds, holds->slots[slot] - 1);
    return was_held;
}

bool holds_end(struct holds *holds, struct hold_token token)
{
    uint32_t slot;

    if (holds->count == 0)
        return false;
    slot = find_slot(holds, token);
    if (holds->slots[slot] == 0)
        return false;
    drop(holds, holds->slots[slot] - 1);
    return true;
}
