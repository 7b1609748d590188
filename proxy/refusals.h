/* Refusals: what the store refused a moment ago and must refuse still, so that hammering a closed door costs no round trip.
 *
 * A refusal names the moment at which the same request would pass if nobody else came. Until then the store can only refuse it:
 * others who come take more, and nobody gives back. So the same charges are refused from here, for as long as that is certain
 * (verdict_certain_us()), and told what the store said, counted on to the present. One for each worker, of a fixed size; a new
 * refusal takes the place of an old one that falls on it. Time is an argument: microseconds of a monotonic clock.
 */
#ifndef WEIR_REFUSALS_H
#define WEIR_REFUSALS_H

#include "store.h"

struct refusals;

struct refusals *refusals_new(void);
void refusals_free(struct refusals *refusals);

/* Rules are known by their address: to be called before one may stand for another, and wherever state is changed by hand. */
void refusals_forget(struct refusals *refusals);

/* The store was asked at `asked_us` and its answer, which refused one more of the same, came at `answered_us`. Charges of the same
 * request with `counts` false had no part in it; `states` are those of the others, at the same places. Requests with more than a
 * few limits are not remembered. */
void refusals_note(struct refusals *refusals, const struct limit_charge *charges, const bool *counts,
                   const struct limit_state *states, size_t count, int64_t asked_us, int64_t answered_us);

/* True: refused still. Then `counts` and `states` are filled, and at least one state has a wait above zero. */
bool refusals_recall(const struct refusals *refusals, const struct limit_charge *charges, size_t count,
                     bool *counts, struct limit_state *states, int64_t now_us);

#endif
