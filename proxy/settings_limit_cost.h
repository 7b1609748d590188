/* Settings limit cost: what does one request take, and who says so? */
#ifndef WEIR_SETTINGS_LIMIT_COST_H
#define WEIR_SETTINGS_LIMIT_COST_H

#include "settings_schema.h"

extern const struct section section_cost;

void read_limit_cost(struct draft *draft, const struct node *node, void *limit); /* a row's reader */

/* Could no request that costs what `cost` says ever pass? The rule has the limit's rate already. */
void check_limit_cost(struct draft *draft, const struct node *cost, const struct limit_rule *rule);

#endif
