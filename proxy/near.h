/* Near: the objects of this process, under one byte budget, and the tag table by which they are valid.
 *
 * With the memory store this is the store of entries itself and its tag table is the only one. With Redis it
 * mirrors: objects are copies, and the stamps that every store answer brings are applied before the answer is
 * acted upon. An object is valid while no tag of it has a stamp above its epoch and its epoch is not below
 * the floor. A soft stamp above its epoch ends its freshness: where epochs are moments of this process (the
 * memory store) it goes on as a stale one; a copy of what Redis has is dropped, for Redis knows what is left
 * of it. Shared by all threads: sharded, a mutex each, held for no call out. Eviction is SIEVE
 * (policies/sieve).
 */
#ifndef WEIR_NEAR_H
#define WEIR_NEAR_H

#include "object.h"

struct near;

struct tag_stamp {
    struct slice tag;
    int64_t epoch;
    bool is_soft;
};

/* The budget counts everything: objects, their bookkeeping, and the tag table, which is bounded by a share of
 * it. */
struct near *near_new(size_t budget_bytes, size_t max_object_bytes);
void near_free(struct near *near);
/* Memory store only, before any thread looks: epochs are microseconds of this process's monotonic clock, and so much
 * ahead of it. */
void near_date_epochs(struct near *near, int64_t ahead_us);

/* Held reference or NULL. Gone (past every lifetime) and invalidated objects are dropped on the way. */
struct object *near_find(struct near *near, const struct key32 *key, struct mono_ms now);
/* Holds it and replaces what was there. Not kept: over max_object_bytes (then what was there goes too), or
 * already invalidated. */
void near_put(struct near *near, struct object *object);
void near_drop(struct near *near, const struct key32 *key);
void near_clear(struct near *near);

int64_t near_epoch(const struct near *near); /* the highest epoch this process has seen; lock-free */
/* Raises the epoch to `epoch` and records the stamps and the floor, each only upwards. When this returns no
 * thread is given an object that they invalidate. */
void near_apply(struct near *near, int64_t epoch, int64_t floor, const struct tag_stamp *stamps,
                size_t count);
/* Did an invalidation, hard or soft, overtake a load that began at `epoch` and carries these tags? Whoever asks after
 * that waits for another. */
bool near_is_outdated(struct near *near, int64_t epoch, const struct slice *tags, size_t tag_count);
/* Would what it loaded be invalid? Soft invalidations do not count: it may be stored, and is stale. */
bool near_is_void(struct near *near, int64_t epoch, const struct slice *tags, size_t tag_count);
/* Is there an invalidation, hard or soft, that this object's moments and validity do not show? */
bool near_outdates(struct near *near, const struct object *object);
/* For an invalidation that the store has yet to be told of: until it is let go again, nothing that carries one of the
 * tags is valid here, whatever its epoch; when hold returns no thread is given such an object. Counted. `tags` NULL:
 * nothing at all is valid. */
void near_hold_back(struct near *near, const struct slice *tags, size_t tag_count);
void near_let_go(struct near *near, const struct slice *tags, size_t tag_count);
/* Memory store only: the next epoch, max(previous + 1, wall_us), stamped on each tag in one step, on the first
 * `soft_count` softly. */
int64_t near_invalidate(struct near *near, const struct slice *tags, size_t tag_count, size_t soft_count,
                        int64_t wall_us);

/* The same, with all that is stored for its tags: the floor. */
int64_t near_invalidate_all(struct near *near, int64_t wall_us);

struct near_figures {
    size_t objects, bytes, budget_bytes, tags;
    uint64_t evicted, invalidated;
};
struct near_figures near_count(struct near *near);

#endif
