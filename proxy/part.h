/* Part: a piece of a response, loaded and kept as what it is (RFC 9111 section 3.3).
 *
 * Who asks for a range of what is not stored gets that range loaded, not the whole: a film would else have to come to its
 * end before its last minute is shown. A part lies at a key of its own, made of the whole's and of the range, so that it is
 * never taken for the whole; the same range is loaded once in the fleet. The latest part of each whole is also kept near
 * under a key of that whole alone, where a range within it finds it. An upstream that answers such a request with the whole
 * has loaded the whole: the flight moves to that key.
 */
#ifndef WEIR_PART_H
#define WEIR_PART_H

#include "flight.h"
#include "range.h"

/* Turns the plan for a whole into one for this range of it, in its one spelling. `room` has one header more than the plan's
 * request; it and `range` live as long as the plan. */
void part_plan(struct load_plan *plan, struct slice range, struct header *room);
void part_plan_whole(struct load_plan *plan); /* back again, but for the request's fields */

/* What a part with these fields says it is. False: nothing that could be made use of. */
bool part_of_fields(const struct header *headers, size_t count, struct byte_range *held, int64_t *whole);

/* Which bytes of the whole does the stored part give to a request for `range`? At least one, and none but those that it
 * holds; where fewer came than it says, fewer (RFC 9110 section 15.3.7: the answer tells). False: the range is not within it. */
bool part_gives(const struct object *part, struct slice range, struct byte_range *given, int64_t *skip_bytes,
                int64_t *whole);

/* Held, or NULL. With a range: what was loaded for this very range; with an empty one: the latest part. */
struct object *part_find_near(struct near *near, const struct key32 *whole, struct slice range,
                              struct mono_ms now);
void part_put_near(struct near *near, const struct key32 *whole, const struct object *part);

#endif
