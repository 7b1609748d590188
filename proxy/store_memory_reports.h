/* Limit reports: what did another store say last of each key of a limit?
 *
 * The memory store that takes over while Redis is away starts from them. They are noted for each decision of Redis, so that costs no
 * allocation and a constant time: a table of a fixed size, made when something is heard for the first time, in which a key
 * has a few places. The oldest report in them makes room, so that clients with made-up keys take away nothing but reports. One table
 * for each shard of the limit table, under its lock. Private to store_memory_limits.c.
 */
#ifndef WEIR_STORE_MEMORY_REPORTS_H
#define WEIR_STORE_MEMORY_REPORTS_H

#include "store.h"

struct limit_report {
    unsigned char principal[16];
    uint64_t rule_print;
    int64_t used;  /* units that could not be taken any more */
    int64_t at_us; /* when it was said; 0: no report */
};

struct limit_reports { /* all zero: nothing was ever heard */
    struct limit_report *places;
};

void limit_reports_clear(struct limit_reports *reports);

/* `hash` (its lower bits) chooses the places; `rule_print` stands for the limit, whose rule a reload may replace. */
void limit_reports_note(struct limit_reports *reports, const struct limit_charge *charge, uint64_t hash,
                        uint64_t rule_print, int64_t available, int64_t at_us);

/* False where nothing is known of the key. */
bool limit_reports_find(const struct limit_reports *reports, const struct limit_charge *charge, uint64_t hash,
                        uint64_t rule_print, struct limit_report *out);

#endif
