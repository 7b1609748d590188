/* Claims: for one key, who is loading it now, or what is remembered of the load that failed to give an
 * object?
 *
 * The memory store's lookup, fill, release and renew, each one locked section. What a key has at any moment
 * is one claim at most: a lock (until its lease ends), a pass marker, or the marker of a failed load. The
 * clock is an argument. Private to store_memory.c.
 */
#ifndef WEIR_STORE_MEMORY_CLAIMS_H
#define WEIR_STORE_MEMORY_CLAIMS_H

#include "store.h"

struct claims;

struct claims *claims_new(struct near *near); /* borrows it, longer than it lives */
void claims_free(struct claims *claims);

/* Answers, and takes the lock where the answer says so. answer_out->object is held (the caller releases it)
 * or NULL. */
void claims_lookup(struct claims *claims, const struct lookup_ask *ask, struct mono_ms now,
                   struct lookup_answer *answer_out);

/* These tell by wake_out whether somebody was told to wait for what has just ended. */
enum fill_result claims_fill(struct claims *claims, const struct key32 *key, struct load_token token,
                             struct object *object, struct mono_ms now, bool *wake_out);
bool claims_release(struct claims *claims, const struct key32 *key, struct load_token token,
                    enum release_reason why, int status, int64_t marker_ms, struct mono_ms now,
                    bool *wake_out); /* was the lock held by this token? */
bool claims_renew(struct claims *claims, const struct key32 *key, struct load_token token, int64_t lease_ms,
                  struct mono_ms now);

size_t claims_count(struct claims *claims); /* ended ones that were not swept yet included */

#endif
