/* SIEVE: which of the entries shall go when there is no room left?
 *
 * A queue in order of insertion and one hand that moves from the oldest to the newest, over and over: it
 * spares whatever was used since it last came by (and forgets that), and takes the first that was not. A hit
 * writes one bit and moves nothing. Nodes are embedded in what they stand for; nothing is allocated.
 * Everything, the touch too, belongs under the lock of the owner.
 */
#ifndef WEIR_SIEVE_H
#define WEIR_SIEVE_H

#include <stdbool.h>
#include <stddef.h>

struct sieve_node {
    struct sieve_node *newer, *older;
    bool is_visited, is_linked;
};

struct sieve { /* all zero is an empty one */
    struct sieve_node *newest, *oldest;
    struct sieve_node *hand; /* NULL: at the oldest */
    size_t count;
};

void sieve_insert(struct sieve *sieve,
                  struct sieve_node *node); /* as the newest, not visited; it must not be linked */
static inline void sieve_touch(struct sieve_node *node)
{
    node->is_visited = true;
}
/* The one to remove, still linked; NULL when empty. Passes each node at most once plus one step; every pass
 * is paid for by a touch. Without a touch or removal in between the same one is named again. */
struct sieve_node *sieve_victim(struct sieve *sieve);
void sieve_remove(struct sieve *sieve, struct sieve_node *node); /* it must be linked in this one */

#endif
