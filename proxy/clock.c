/* Clock: see clock.h. */
#include "clock.h"

#include <time.h>

static int64_t read_us(clockid_t which)
{
    struct timespec now;

    clock_gettime(which, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

struct mono_ms clock_mono(void)
{
    return (struct mono_ms){read_us(CLOCK_MONOTONIC) / 1000};
}

struct wall_s clock_wall(void)
{
    return (struct wall_s){read_us(CLOCK_REALTIME) / 1000000};
}

int64_t clock_mono_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

int64_t clock_wall_us(void)
{
    return read_us(CLOCK_REALTIME);
}
