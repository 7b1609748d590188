/* Refusals: see refusals.h. */
#include "refusals.h"
#include "memory.h"
#include "settings.h"
#include "verdict.h"

#include <stdlib.h>
#include <string.h>

enum { PLACES = 1024, MOST_CHARGES = 4 };

struct refusal_place {
    size_t count; /* 0: empty */
    int64_t asked_us, answered_us;
    struct limit_charge charges[MOST_CHARGES];
    bool counts[MOST_CHARGES];
    struct limit_state states[MOST_CHARGES];
};

struct refusals {
    struct refusal_place places[PLACES];
};

struct refusals *refusals_new(void)
{
    return must_alloc(sizeof(struct refusals));
}

void refusals_free(struct refusals *refusals)
{
    free(refusals);
}

void refusals_forget(struct refusals *refusals)
{
    for (size_t i = 0; i < PLACES; i++)
        refusals->places[i].count = 0;
}

/* Principals are digests: whoever chooses them so that they meet takes away nothing but his own short cut. */
static size_t place_of(const struct limit_charge *charges, size_t count)
{
    uint64_t hash = 0, word;

    for (size_t i = 0; i < count; i++) {
        memcpy(&word, charges[i].principal, sizeof(word));
        hash = (hash ^ word ^ (uint64_t)(uintptr_t)charges[i].rule ^ (uint64_t)charges[i].cost) *
               UINT64_C(0x9E3779B97F4A7C15);
    }
    return (size_t)(hash >> 32) % PLACES;
}

/* Can nothing but the passing of time make this limit let a request through that it refused? Not where somebody may give back what he
 * holds. */
static bool only_time_frees(const struct limit_terms *terms)
{
    if (terms->lease_us > 0)
        return false;
    switch (terms->algorithm) { /* no default: of a new algorithm it must be known */
    case LIMIT_SLIDING_WINDOW:
    case LIMIT_SLIDING_LOG:
    case LIMIT_TOKEN_BUCKET:
    case LIMIT_FIXED_WINDOW: return true;
    case LIMIT_CONCURRENCY: return false;
    }
    return false;
}

void refusals_note(struct refusals *refusals, const struct limit_charge *charges, const bool *counts,
                   const struct limit_state *states, size_t count, int64_t asked_us, int64_t answered_us)
{
    struct refusal_place *place;

    if (count == 0 || count > MOST_CHARGES)
        return;
    for (size_t i = 0; i < count; i++)
        if (counts[i] && (states[i].never || !only_time_frees(charges[i].terms)))
            return;
    place = &refusals->places[place_of(charges, count)];
    place->count = count;
    place->asked_us = asked_us;
    place->answered_us = answered_us;
    memcpy(place->charges, charges, count * sizeof(*charges));
    memcpy(place->counts, counts, count * sizeof(*counts));
    memcpy(place->states, states, count * sizeof(*states));
}

static int64_t less(int64_t us, int64_t by_us)
{
    return us > by_us ? us - by_us : 0;
}

/* What the store said, counted on. It decided after it was asked and before it answered: what is certain counts from the former, what
 * a client is told to wait from the latter. */
static struct limit_state count_on(const struct refusal_place *place, size_t i, int64_t now_us)
{
    struct limit_state state = place->states[i];
    int64_t certain_us = verdict_certain_us(state.retry_after_us);

    state.reset_us = less(state.reset_us, now_us - place->answered_us);
    state.retry_after_us =
        now_us - place->asked_us < certain_us ? less(state.retry_after_us, now_us - place->answered_us) : 0;
    return state;
}

bool refusals_recall(const struct refusals *refusals, const struct limit_charge *charges, size_t count,
                     bool *counts, struct limit_state *states, int64_t now_us)
{
    const struct refusal_place *place = &refusals->places[place_of(charges, count)];
    bool is_refused = false;

    if (count == 0 || place->count != count)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!limit_charge_equals(&place->charges[i], &charges[i]))
            return false;
    for (size_t i = 0; i < count; i++) {
        counts[i] = place->counts[i];
        states[i] = count_on(place, i, now_us);
        is_refused |= counts[i] && states[i].retry_after_us > 0;
    }
    return is_refused;
}
