/* Distinct: about how many different things were seen, in a kilobyte however many they are?
 *
 * HyperLogLog (Flajolet et al. 2007) over 1,024 places: each thing belongs to one place and has a rank, r with probability 2^-r; a place
 * keeps the highest. The standard error is 3.3 %. Where many places are empty, those are counted instead, which is nearer.
 * What is kept of two crowds is, place by place the higher, what would be kept of both together.
 */
#ifndef WEIR_DISTINCT_H
#define WEIR_DISTINCT_H

#include <stddef.h>
#include <stdint.h>

enum { DISTINCT_PLACES = 1024 };

/* Of a thing, by a well mixed hash of it. rank >= 1; a place that nothing belongs to keeps 0. */
size_t distinct_place(uint64_t hash, uint8_t *rank);
int64_t distinct_estimate(const uint8_t ranks[DISTINCT_PLACES]);

#endif
