/* Population: see store_memory_population.h. */
#include "store_memory_population.h"

#include "memory.h"

#include <stdlib.h>

void populations_init(struct populations *all)
{
    pthread_mutex_init(&all->lock, NULL);
}

void populations_free(struct populations *all)
{
    for (size_t i = 0; i < POPULATION_SLOTS; i++)
        free(atomic_load(&all->slots[i]));
    pthread_mutex_destroy(&all->lock);
}

/* Its place, or the free one where it belongs: there always is one, for half of them stay free. */
static size_t slot_of(const struct populations *all, uint64_t rule_print, struct population **found)
{
    size_t slot = (size_t)(rule_print % POPULATION_SLOTS);

    for (;; slot = (slot + 1) % POPULATION_SLOTS) {
        *found = atomic_load_explicit(&all->slots[slot], memory_order_acquire);
        if (*found == NULL || (*found)->rule_print == rule_print)
            return slot;
    }
}

struct population *population_of(struct populations *all, uint64_t rule_print)
{
    struct population *found;
    size_t slot;

    slot_of(all, rule_print, &found);
    if (found != NULL)
        return found;
    pthread_mutex_lock(&all->lock);
    slot = slot_of(all, rule_print, &found);
    if (found == NULL && all->count == POPULATIONS_MAX)
        found = &all->others;
    else if (found == NULL) {
        found = must_alloc(sizeof(*found));
        found->rule_print = rule_print;
        atomic_store_explicit(&all->slots[slot], found, memory_order_release);
        all->count++;
    }
    pthread_mutex_unlock(&all->lock);
    return found;
}

int64_t population_count(const struct populations *all, uint64_t rule_print)
{
    struct population *found;

    slot_of(all, rule_print, &found);
    return found == NULL ? 0 : atomic_load(&found->keys);
}
