/* Invalidator: invalidations on their way to the store; none is dropped because the store is away.
 *
 * Recorded means: the store has advanced the epoch, so no node serves what it covers. Where the store fails,
 * the tags are stamped in this process's own near cache at once, so that nothing affected is served from
 * here, and are sent again until recorded; of equal ones only one is kept, and 65,536 at most. What is kept
 * so is lost with the process. One per worker.
 */
#ifndef WEIR_INVALIDATOR_H
#define WEIR_INVALIDATOR_H

#include "store.h"

struct invalidator;
struct invalidation;
struct stats;

struct invalidator *invalidator_new(struct loop *loop, struct store *store, struct stats *stats);
void invalidator_free(struct invalidator *invalidator);

/* `done` runs exactly once, never inside this call: with the epoch, or with epoch -1 where it is kept for
 * later. */
struct invalidation *invalidator_ask(struct invalidator *invalidator, const struct slice *tags, size_t count,
                                     size_t soft_count, void (*done)(void *arg, int64_t epoch), void *arg);
/* Takes the handle: `done` will not run. The invalidation goes on. NULL is fine. */
void invalidation_forget(struct invalidation **invalidation);
size_t
invalidator_asking(const struct invalidator *invalidator); /* the store has yet to answer the first time */
size_t invalidator_kept(const struct invalidator *invalidator);

#endif
