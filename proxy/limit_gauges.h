/* Limit gauges: how many callers does each limit of the configuration in force have?
 *
 * Exposed as weir_limit_keys (whose state this process keeps, counted exactly) and weir_limit_callers (who were seen lately, about).
 */
#ifndef WEIR_LIMIT_GAUGES_H
#define WEIR_LIMIT_GAUGES_H

struct limit_gauges;
struct settings;
struct store_memory;

/* `memory`: the store, or the one that stands in for it; borrowed, longer than the gauges live. */
struct limit_gauges *limit_gauges_new(struct store_memory *memory);
void limit_gauges_free(struct limit_gauges *gauges);
void limit_gauges_follow(struct limit_gauges *gauges,
                         const struct settings *settings); /* at the start, after a reload */

#endif
