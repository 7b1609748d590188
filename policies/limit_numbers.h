/* Limit numbers: within which bounds is every algorithm of a limit exact?
 *
 * lua/admit.lua decides in doubles what policies/ decides in integers, so every product must stay below 2^53;
 * moments and windows stay far enough below it to be added.
 */
#ifndef WEIR_LIMIT_NUMBERS_H
#define WEIR_LIMIT_NUMBERS_H

#include <stdint.h>

#define LIMIT_EXACT (INT64_C(1) << 53)
#define LIMIT_MAX_US (INT64_C(1) << 50)  /* a window, or the time that a bucket takes to fill: 35 years */
#define LIMIT_LAST_US (INT64_C(1) << 52) /* a moment: year 2112 */
#define LIMIT_NEVER INT64_C(-1)          /* a wait: no waiting helps, the cost is above the capacity */
#define LIMIT_UNFORESEEN INT64_C(-2) /* a wait: until somebody gives back, and nobody knows when that is */

enum { LIMIT_US_PER_MS = 1000, LIMIT_TTL_SLACK_MS = 1000 /* for clocks that drift */ };

static inline int64_t limit_larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t limit_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* How long a store must keep what counts until `end_us`: whole milliseconds, rounded up, and the slack. > 0
 */
static inline int64_t limit_ttl_ms(int64_t end_us, int64_t now_us)
{
    int64_t left_us = end_us > now_us ? end_us - now_us : 0;

    return (left_us + LIMIT_US_PER_MS - 1) / LIMIT_US_PER_MS + LIMIT_TTL_SLACK_MS;
}

#endif
