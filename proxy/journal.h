/* Journal: invalidations that the store was not told of yet, in a file, so that they outlive the process.
 *
 * A thread of its own appends and syncs, many at a time, so that no loop waits for a disk. What is in the file but not
 * done is found by the next process that opens it. Two processes never share a file: where another one has it (while
 * a new binary takes over), FILE.1 to FILE.7 are used, and what dead processes have left in any of them is found.
 * A file that cannot be read to its end has lost nobody knows what: then what is found is "everything".
 */
#ifndef WEIR_JOURNAL_H
#define WEIR_JOURNAL_H

#include "slice.h"

#include <stdbool.h>
#include <stdio.h>

struct journal;
struct journal_mark; /* one invalidation's place in it */
struct loop;

/* NULL where no such file can be used; why was written to `errors`. The thread runs. */
struct journal *journal_open(const char *path, FILE *errors);
/* After all loops that it was used from have ended. What is not done stays in the file. NULL is fine. */
void journal_close(struct journal *journal);

/* What an earlier process left, one at a time; NULL: no more. The tags (none: everything, else the first *soft_count are
 * soft) are copies that live as long as the mark, which is now the caller's. */
struct journal_mark *journal_next_found(struct journal *journal, const struct slice **tags, size_t *count,
                                        size_t *soft_count);

/* `found` runs on `loop` whenever there is more of that: another process had a file, and has ended. Until it is
 * unwatched, on that loop; turn the loop once more before it ends. */
void journal_watch(struct journal *journal, struct loop *loop, void (*found)(void *arg), void *arg);
void journal_unwatch(struct journal *journal);

/* `tags` are copied; none: everything. `done` runs once on `loop`, never inside this call, when the file has it
 * (is_safe) or cannot take it; not any more once the mark is forgotten or removed. */
struct journal_mark *journal_add(struct journal *journal, const struct slice *tags, size_t count,
                                 size_t soft_count, struct loop *loop, void (*done)(void *arg, bool is_safe),
                                 void *arg);
/* Both take the mark, on the loop it was added for; NULL is fine. Turn the loop once more before it ends. */
void journal_remove(struct journal *journal, struct journal_mark **mark); /* the store has been told */
void journal_forget(struct journal *journal, struct journal_mark **mark); /* it stays in the file */

#endif
