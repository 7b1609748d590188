/* Expiry map: a hash map of things that end by themselves, in a unit of time its user chooses.
 *
 * Nodes are embedded in what they stand for. Nobody is called when a thing has ended: a look-up compares the
 * time, and every addition sweeps a few chains, which removes faster than additions can pile up. Under the
 * lock of the owner.
 */
#ifndef WEIR_EXPIRY_MAP_H
#define WEIR_EXPIRY_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct expiry_node {
    struct expiry_node *next;
    uint64_t hash; /* its lower bits choose the chain */
    int64_t expires_at;
};

struct expiry_map { /* all zero is an empty one */
    struct expiry_node **chains;
    size_t chain_count; /* a power of two, or 0 */
    size_t count;
    size_t hand; /* the chain that is swept next */
};

/* Those that may have this hash: follow `next`, and compare. NULL at the end. */
struct expiry_node *expiry_map_first(const struct expiry_map *map, uint64_t hash);
void expiry_map_add(struct expiry_map *map, struct expiry_node *node);    /* hash and expires_at are set */
void expiry_map_remove(struct expiry_map *map, struct expiry_node *node); /* it must be in */
/* Frees, by free_node, what has ended by `now` in the next few chains. */
void expiry_map_sweep(struct expiry_map *map, int64_t now, void (*free_node)(struct expiry_node *node));
/* Of a few, the one that `goes_before` puts before the others; NULL when empty. */
struct expiry_node *expiry_map_choose(struct expiry_map *map, int64_t now,
                                      bool (*goes_before)(const struct expiry_node *a,
                                                          const struct expiry_node *b, int64_t now));
void expiry_map_clear(struct expiry_map *map,
                      void (*free_node)(struct expiry_node *node)); /* empty again, nothing allocated */

#endif
