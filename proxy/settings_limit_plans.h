/* Settings limit plans: what is allowed by which plan of the caller's? */
#ifndef WEIR_SETTINGS_LIMIT_PLANS_H
#define WEIR_SETTINGS_LIMIT_PLANS_H

#include "settings_schema.h"

#define LIMIT_PLANS_FORM                                                                                     \
    "a map of plans: default: NAME, and for each NAME a rate (with concurrency a number), or a map"

extern const struct section section_plan;

void read_limit_plans(struct draft *draft, const struct node *node, void *limit); /* a row's reader */

/* Once the limit's other keys are read: each plan has the limit's terms as they are written, and its own instead. */
void check_limit_plans(struct draft *draft, const struct node *node, const struct limit_terms *as_written,
                       struct limit_rule *rule);

#endif
