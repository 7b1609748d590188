/* Settings limit rate: how much is allowed in which time, and can the limit's algorithm decide it exactly? */
#ifndef WEIR_SETTINGS_LIMIT_RATE_H
#define WEIR_SETTINGS_LIMIT_RATE_H

#include "settings_schema.h"

#define LIMIT_RATE_FORMS "N/s, N/m, N/h, N/d or N/DURATION; with fixed_window also N/week or N/month"

/* Readers of rows: into a struct limit_rule. */
void read_limit_rate(struct draft *draft, const struct node *node, void *into);
void read_limit_burst(struct draft *draft, const struct node *node, void *into);

/* What rate, burst and algorithm mean together; `rate` is where the rate is written. Fills in the tick, and a burst that was left
 * out (0). */
void check_terms(struct draft *draft, const struct node *rate, struct limit_terms *terms);
/* Of a limit's or a plan's map. */
void check_limit_burst(struct draft *draft, const struct node *node, const struct limit_terms *terms);
/* Once the limit's algorithm is known to be one of ours: its own rate, which one with plans may do without. */
void check_limit_rate(struct draft *draft, const struct node *node, struct limit_rule *rule);

#endif
