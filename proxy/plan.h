/* Plan: an owned copy of a load_plan, in one allocation. */
#ifndef WEIR_PLAN_H
#define WEIR_PLAN_H

#include "flight.h"

struct load_plan *plan_copy(const struct load_plan *from); /* holds the site */
void plan_free(struct load_plan **plan);

#endif
