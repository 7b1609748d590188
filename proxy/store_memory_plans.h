/* Plan table: which plan has each caller, where this process is the store? Private to store_memory.c.
 *
 * It ends with the process, and holds 65,536 callers at most: a further one is refused, because to forget another's plan would be
 * to change it.
 */
#ifndef WEIR_STORE_MEMORY_PLANS_H
#define WEIR_STORE_MEMORY_PLANS_H

#include "known_plans.h"

struct plan_table;

struct plan_table *plan_table_new(void);
void plan_table_free(struct plan_table *table);

struct plan_name plan_table_find(struct plan_table *table, const unsigned char principal[PRINCIPAL_BYTES]);
/* A name of no length takes the plan away. False: there is no room for one more. */
bool plan_table_set(struct plan_table *table, const unsigned char principal[PRINCIPAL_BYTES],
                    const struct plan_name *name, bool *had_one);

#endif
