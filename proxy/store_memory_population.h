/* Population: how many keys of each limit does a limit table keep? Private to store_memory_limits.c.
 *
 * A count for each limit, which its keys point to, so that nobody must walk over a million of them to know. Names are as many as
 * configurations have had while the process lives; beyond a thousand they are counted together, as nobody's.
 */
#ifndef WEIR_STORE_MEMORY_POPULATION_H
#define WEIR_STORE_MEMORY_POPULATION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { POPULATION_SLOTS = 2048, POPULATIONS_MAX = 1000 };

struct population {
    uint64_t rule_print; /* of the limit's name */
    _Atomic int64_t keys;
};

struct populations {
    pthread_mutex_t lock;                                 /* for adding one */
    _Atomic(struct population *) slots[POPULATION_SLOTS]; /* open addressing; nothing is ever taken out */
    size_t count;
    struct population others;
};

void populations_init(struct populations *all);
void populations_free(struct populations *all);                                 /* what it holds */
struct population *population_of(struct populations *all, uint64_t rule_print); /* never NULL */
int64_t population_count(const struct populations *all, uint64_t rule_print);   /* 0: there never was one */

#endif
