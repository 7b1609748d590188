/* Clock: the two clocks of this host. The story takes time as an argument; only the edges read a clock. */
#ifndef WEIR_CLOCK_H
#define WEIR_CLOCK_H

#include "units.h"

struct mono_ms clock_mono(void);
struct wall_s clock_wall(void);
int64_t clock_mono_us(void); /* for latencies in metrics and logs */
int64_t clock_wall_us(void); /* the memory store's clock, and log stamps */

#endif
