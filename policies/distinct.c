/* Distinct: see distinct.h. */
#include "distinct.h"

static const int64_t MOST = INT64_C(1) << 50; /* whoever could count so far */

enum { PLACE_BITS = 10, MOST_RANK = 64 - PLACE_BITS + 1 };

size_t distinct_place(uint64_t hash, uint8_t *rank)
{
    uint64_t rest = hash >> PLACE_BITS;
    uint8_t r = 1;

    while (r < MOST_RANK && (rest & 1) == 0) {
        rest >>= 1;
        r++;
    }
    *rank = r;
    return (size_t)(hash % DISTINCT_PLACES);
}

/* After how many things are, on average, so many places left empty? (The sum stands for m ln(m / empty), to which it tends.) */
static double things_until(int empty)
{
    double sum = 0;

    for (int left = empty + 1; left <= DISTINCT_PLACES; left++)
        sum += 1.0 / left;
    return sum * DISTINCT_PLACES;
}

int64_t distinct_estimate(const uint8_t ranks[DISTINCT_PLACES])
{
    const double bias = 0.7213 / (1 + 1.079 / DISTINCT_PLACES), m = DISTINCT_PLACES;
    double sum = 0, estimate;
    int empty = 0;

    for (size_t i = 0; i < DISTINCT_PLACES; i++) {
        uint8_t rank = ranks[i] <= MOST_RANK ? ranks[i] : (uint8_t)MOST_RANK;

        empty += rank == 0;
        sum += 1.0 / (double)(UINT64_C(1) << rank);
    }
    estimate = bias * m * m / sum;
    if (estimate <= 2.5 * m && empty > 0)
        estimate = things_until(empty);
    return estimate < (double)MOST ? (int64_t)(estimate + 0.5) : MOST;
}
