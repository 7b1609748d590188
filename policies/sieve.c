/* SIEVE: which of the entries shall go when there is no room left? */
#include "sieve.h"

#include "check.h"

void sieve_insert(struct sieve *sieve, struct sieve_node *node)
{
    CHECK(!node->is_linked);
    *node = (struct sieve_node){.older = sieve->newest, .is_linked = true};
    if (sieve->newest != NULL)
        sieve->newest->newer = node;
    else
        sieve->oldest = node;
    sieve->newest = node;
    sieve->count++;
}

struct sieve_node *sieve_victim(struct sieve *sieve)
{
    struct sieve_node *node = sieve->hand != NULL ? sieve->hand : sieve->oldest;

    if (node == NULL)
        return NULL;
    while (node->is_visited) { /* ends after one round at the latest: the first that was passed is no longer
                                  visited */
        node->is_visited = false;
        node = node->newer != NULL ? node->newer : sieve->oldest;
    }
    sieve->hand = node;
    return node;
}

void sieve_remove(struct sieve *sieve, struct sieve_node *node)
{
    CHECK(node->is_linked);
    if (sieve->hand == node)
        sieve->hand = node->newer;
    if (node->newer != NULL)
        node->newer->older = node->older;
    else
        sieve->newest = node->older;
    if (node->older != NULL)
        node->older->newer = node->newer;
    else
        sieve->oldest = node->newer;
    *node = (struct sieve_node){0};
    sieve->count--;
}
