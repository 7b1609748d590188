/* Settings limit rate: how much is allowed in which time, and can the limit's algorithm decide it exactly? */
#ifndef WEIR_SETTINGS_LIMIT_RATE_H
#define WEIR_SETTINGS_LIMIT_RATE_H

#include "settings_schema.h"

#define LIMIT_RATE_FORMS "N/s, N/m, N/h, N/d or N/DURATION; with fixed_window also N/week or N/month"

/* Readers of rows: into a struct limit_rule. */
void read_limit_rate(struct draft *draft, const struct node *node, void *into);
void read_limit_burst(struct draft *draft, const struct node *node, void *into);

/* Once the limit's algorithm is known to be one of ours: what rate, burst and algorithm mean together. Fills in
 * the tick, and the burst that was left out. */
void check_limit_rate(struct draft *draft, const struct node *node, struct limit_rule *rule);

#endif
