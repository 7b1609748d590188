/* Stats: counters, gauges and histograms, written by threads without a lock and summed when scraped.
 *
 * A family is declared once, in stats.def, with its help text and the operator's conclusion. A series is a
 * family with label values; asking for it again gives the same id, so a reload keeps its counts. Ids are
 * valid in every thread for ever.
 */
#ifndef WEIR_STATS_H
#define WEIR_STATS_H

#include "slice.h"

#include <stdint.h>
#include <stdio.h>

enum stats_family {
#define COUNTER(id, labels, help, conclusion) STATS_##id,
#define GAUGE(id, labels, help, conclusion) STATS_##id,
#define HISTOGRAM(id, labels, help, conclusion) STATS_##id,
#include "stats.def"
#undef COUNTER
#undef GAUGE
#undef HISTOGRAM
    STATS_FAMILIES
};

typedef uint32_t stats_id;
struct stats; /* one thread's figures */

struct stats *stats_join(void); /* this thread's own, kept after the thread has ended */
/* Label values in the order of the family's label names ("route,status" in stats.def takes two; "" none, then
 * NULL is fine). Takes a lock: keep the id. Series beyond some 200,000 cells share an id that is counted but
 * not exposed. */
stats_id stats_series(enum stats_family family, const char *const *label_values);
void stats_add(struct stats *mine, stats_id id, int64_t n); /* counters; gauges may go down */
void stats_observe(struct stats *mine, stats_id id,
                   int64_t us);   /* histograms: microseconds, exposed as seconds */
int64_t stats_total(stats_id id); /* summed over threads; a histogram's count */

/* Gauges that are read when scraped, such as the near cache's bytes. A later probe of the same labels takes
 * the earlier one's place; `read` NULL takes it away, and has done so when this returns. `read` runs in the
 * scraping thread and must not call stats_series() or stats_probe(). */
void stats_probe(enum stats_family family, const char *const *label_values, int64_t (*read)(void *arg),
                 void *arg);
/* Each series of a family, in the order in which they were first asked for: its two label values ("" where it has
 * fewer), its value or a histogram's count, and a histogram's sum. `visit` must not call anything of this file. */
typedef void stats_visit(void *arg, const char *first, const char *second, int64_t value, int64_t sum_us);
void stats_each(enum stats_family family, stats_visit *visit, void *arg);
void stats_write_prometheus(FILE *out); /* text format 0.0.4 */

#endif
