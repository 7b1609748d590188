/* Units: moments that cannot be mixed up, because they are different types.
 *
 * mono_ms   this process's monotonic clock, in milliseconds: deadlines, near-cache lifetimes
 * wall_s    seconds since 1970 UTC by this host: only for Date arithmetic of HTTP and for logs
 * A store's own clock travels as plain int64_t microseconds, named `..._us`.
 */
#ifndef WEIR_UNITS_H
#define WEIR_UNITS_H

#include <stdint.h>

struct mono_ms {
    int64_t ms;
};

struct wall_s {
    int64_t s;
};

static inline struct mono_ms mono_after(struct mono_ms from, int64_t wait_ms)
{
    return (struct mono_ms){from.ms + wait_ms};
}

#endif
