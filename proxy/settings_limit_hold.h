/* Settings limit hold: how much may be held at a time, and for how long after the last that was heard of its holder? */
#ifndef WEIR_SETTINGS_LIMIT_HOLD_H
#define WEIR_SETTINGS_LIMIT_HOLD_H

#include "settings_schema.h"

void read_limit_max(struct draft *draft, const struct node *node, void *limit); /* a row's reader */

/* Once algorithm and cost are known. The first fills in terms.lease_us, on which it depends what can be decided exactly; the second,
 * for concurrency, the tick. */
void check_limit_lease(struct draft *draft, const struct node *node, struct limit_rule *rule);
void refuse_rates(struct draft *draft,
                  const struct node *node); /* of a limit or a plan of it that has max instead */
void check_limit_max(struct draft *draft, const struct node *node, struct limit_rule *rule);

#endif
