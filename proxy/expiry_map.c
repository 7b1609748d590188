/* Expiry map: see expiry_map.h. */
#include "expiry_map.h"

#include "check.h"
#include "memory.h"

#include <stdlib.h>

enum { FIRST_CHAINS = 16, CHAINS_PER_SWEEP = 2, SAMPLE = 16 };

static struct expiry_node **chain_of(const struct expiry_map *map, uint64_t hash)
{
    return &map->chains[hash & (map->chain_count - 1)];
}

struct expiry_node *expiry_map_first(const struct expiry_map *map, uint64_t hash)
{
    return map->chain_count == 0 ? NULL : *chain_of(map, hash);
}

static void grow(struct expiry_map *map)
{
    struct expiry_map grown = {.chain_count = map->chain_count == 0 ? FIRST_CHAINS : map->chain_count * 2};

    grown.chains = must_alloc(grown.chain_count * sizeof(struct expiry_node *));
    for (size_t i = 0; i < map->chain_count; i++) {
        for (struct expiry_node *node = map->chains[i], *next; node != NULL; node = next) {
            struct expiry_node **chain = chain_of(&grown, node->hash);

            next = node->next;
            node->next = *chain;
            *chain = node;
        }
    }
    free(map->chains);
    map->chains = grown.chains;
    map->chain_count = grown.chain_count;
}

void expiry_map_add(struct expiry_map *map, struct expiry_node *node)
{
    if (map->count >= map->chain_count)
        grow(map);
    struct expiry_node **chain = chain_of(map, node->hash);

    node->next = *chain;
    *chain = node;
    map->count++;
}

void expiry_map_remove(struct expiry_map *map, struct expiry_node *node)
{
    struct expiry_node **link = chain_of(map, node->hash);

    while (*link != node) {
        CHECK(*link != NULL);
        link = &(*link)->next;
    }
    *link = node->next;
    map->count--;
}

void expiry_map_sweep(struct expiry_map *map, int64_t now, void (*free_node)(struct expiry_node *node))
{
    for (int i = 0; i < CHAINS_PER_SWEEP && map->count > 0; i++) {
        struct expiry_node **link = &map->chains[map->hand++ & (map->chain_count - 1)];

        while (*link != NULL) {
            struct expiry_node *node = *link;

            if (node->expires_at > now) {
                link = &node->next;
                continue;
            }
            *link = node->next;
            map->count--;
            free_node(node);
        }
    }
}

struct expiry_node *expiry_map_choose(struct expiry_map *map, int64_t now,
                                      bool (*goes_before)(const struct expiry_node *a,
                                                          const struct expiry_node *b, int64_t now))
{
    struct expiry_node *chosen = NULL;
    size_t seen = 0;

    for (size_t i = 0; i < map->chain_count && seen < SAMPLE; i++) {
        struct expiry_node *node = map->chains[map->hand++ & (map->chain_count - 1)];

        for (; node != NULL; node = node->next, seen++)
            if (chosen == NULL || goes_before(node, chosen, now))
                chosen = node;
    }
    return chosen;
}

void expiry_map_clear(struct expiry_map *map, void (*free_node)(struct expiry_node *node))
{
    for (size_t i = 0; i < map->chain_count; i++) {
        for (struct expiry_node *node = map->chains[i], *next; node != NULL; node = next) {
            next = node->next;
            free_node(node);
        }
    }
    free(map->chains);
    *map = (struct expiry_map){0};
}
