/* Invalidator: invalidations on their way to the store; none is dropped because the store is away.
 *
 * Recorded means: the store has advanced the epoch, so no node serves what it covers. Where the store fails,
 * the tags are held back at once, so that nothing that carries one is served from here whatever the store says of
 * it, and are sent again until recorded; of equal ones only one is kept. Beyond 65,536 the store is told to
 * invalidate everything instead. With a journal what is kept outlives the process: who asked is told once the file
 * has it. One per worker.
 */
#ifndef WEIR_INVALIDATOR_H
#define WEIR_INVALIDATOR_H

#include "store.h"

struct invalidator;
struct invalidation;
struct journal;
struct journal_mark;
struct stats;

struct invalidator *invalidator_new(struct loop *loop, struct store *store, struct stats *stats);
void invalidator_use_journal(struct invalidator *invalidator, struct journal *journal); /* borrows it */
/* What is kept is not told any more: it stays in the journal, and held back in this process. */
void invalidator_free(struct invalidator *invalidator);
/* Keeps what an earlier process left: takes the mark, copies the tags (none: everything). */
void invalidator_adopt(struct invalidator *invalidator, const struct slice *tags, size_t count,
                       size_t soft_count, struct journal_mark *mark);

/* `done` runs exactly once, never inside this call: with the epoch, or with epoch -1 where it is kept for
 * later. */
struct invalidation *invalidator_ask(struct invalidator *invalidator, const struct slice *tags, size_t count,
                                     size_t soft_count, void (*done)(void *arg, int64_t epoch), void *arg);
/* Takes the handle: `done` will not run. The invalidation goes on. NULL is fine. */
void invalidation_forget(struct invalidation **invalidation);
size_t
invalidator_asking(const struct invalidator *invalidator); /* the store has yet to answer the first time */
void invalidator_note_unnamed(
    struct invalidator *invalidator); /* an answer did not name the tags that it should */
size_t invalidator_kept(const struct invalidator *invalidator);

#endif
