/* Plan table: see store_memory_plans.h. */
#include "store_memory_plans.h"

#include "expiry_map.h"
#include "memory.h"

#include <pthread.h>
#include <stdlib.h>

enum { MOST_CALLERS = 65536 };

struct subscriber {
    struct expiry_node node; /* first; never expires */
    unsigned char principal[PRINCIPAL_BYTES];
    struct plan_name name;
};

struct plan_table {
    pthread_mutex_t lock; /* known_plans answer the hot questions */
    struct expiry_map callers;
};

static uint64_t hash_of(const unsigned char principal[PRINCIPAL_BYTES])
{
    uint64_t word;

    memcpy(&word, principal, sizeof(word)); /* a digest, of a caller that an operator names */
    return word;
}

static struct subscriber *find(struct plan_table *table, const unsigned char principal[PRINCIPAL_BYTES])
{
    struct expiry_node *node = expiry_map_first(&table->callers, hash_of(principal));

    for (; node != NULL; node = node->next) {
        struct subscriber *caller = (struct subscriber *)(void *)node; /* its first member */

        if (memcmp(caller->principal, principal, sizeof(caller->principal)) == 0)
            return caller;
    }
    return NULL;
}

struct plan_name plan_table_find(struct plan_table *table, const unsigned char principal[PRINCIPAL_BYTES])
{
    struct plan_name name = {0};
    const struct subscriber *caller;

    pthread_mutex_lock(&table->lock);
    caller = find(table, principal);
    if (caller != NULL)
        name = caller->name;
    pthread_mutex_unlock(&table->lock);
    return name;
}

static void add(struct plan_table *table, const unsigned char principal[PRINCIPAL_BYTES],
                const struct plan_name *name)
{
    struct subscriber *caller = must_alloc(sizeof(*caller));

    caller->node.hash = hash_of(principal);
    caller->node.expires_at = INT64_MAX;
    memcpy(caller->principal, principal, sizeof(caller->principal));
    caller->name = *name;
    expiry_map_add(&table->callers, &caller->node);
}

static bool set(struct plan_table *table, struct subscriber *caller,
                const unsigned char principal[PRINCIPAL_BYTES], const struct plan_name *name)
{
    if (name->len == 0) {
        if (caller != NULL) {
            expiry_map_remove(&table->callers, &caller->node);
            free(caller);
        }
    } else if (caller != NULL)
        caller->name = *name;
    else if (table->callers.count >= MOST_CALLERS)
        return false;
    else
        add(table, principal, name);
    return true;
}

bool plan_table_set(struct plan_table *table, const unsigned char principal[PRINCIPAL_BYTES],
                    const struct plan_name *name, bool *had_one)
{
    struct subscriber *caller;
    bool is_set;

    pthread_mutex_lock(&table->lock);
    caller = find(table, principal);
    *had_one = caller != NULL;
    is_set = set(table, caller, principal, name);
    pthread_mutex_unlock(&table->lock);
    return is_set;
}

struct plan_table *plan_table_new(void)
{
    struct plan_table *table = must_alloc(sizeof(*table));

    pthread_mutex_init(&table->lock, NULL);
    return table;
}

static void free_subscriber(struct expiry_node *node)
{
    free(node);
}

void plan_table_free(struct plan_table *table)
{
    expiry_map_clear(&table->callers, free_subscriber);
    pthread_mutex_destroy(&table->lock);
    free(table);
}
