/* Invalidator: see invalidator.h. */
#include "invalidator.h"
#include "list.h"
#include "log.h"
#include "loop.h"
#include "memory.h"
#include "stats.h"

#include <stdlib.h>

enum { RETRY_MS = 100 };

struct invalidation {
    struct invalidator *invalidator;
    struct link link;
    struct slice *tags; /* in the same allocation */
    size_t count;
    void (*done)(void *arg, int64_t epoch);
    void *arg;
    struct store_call *call;
    bool is_kept; /* the one who asked was told; only the store is left to be */
};

struct invalidator {
    struct loop *loop;
    struct store *store;
    struct stats *stats;
    stats_id recorded, deferred;
    struct link all;
    size_t kept;
    struct timer retry;
};

static void send(struct invalidation *invalidation);

static void invalidation_free(struct invalidation *invalidation)
{
    store_cancel(&invalidation->call);
    list_leave(&invalidation->link);
    free(invalidation);
}

static void tell(struct invalidation *invalidation, int64_t epoch)
{
    void (*done)(void *arg, int64_t epoch) = invalidation->done;

    invalidation->done = NULL;
    if (done != NULL)
        done(invalidation->arg, epoch);
}

/* A stamp above every epoch that was ever handed out here: what the store still holds is outdated for this
 * process. */
static void stamp_locally(struct invalidation *invalidation)
{
    struct near *near = invalidation->invalidator->store->near;
    int64_t epoch = near_epoch(near);

    for (size_t i = 0; i < invalidation->count; i++) {
        struct tag_stamp stamp = {invalidation->tags[i], epoch + 1};

        near_apply(near, epoch, 0, &stamp, 1);
    }
}

static void keep(struct invalidation *invalidation)
{
    struct invalidator *invalidator = invalidation->invalidator;

    if (!invalidation->is_kept) {
        invalidation->is_kept = true;
        invalidator->kept++;
        stats_add(invalidator->stats, invalidator->deferred, 1);
        log_error(
            "store: an invalidation of %zu tags could not be recorded: kept, and sent again until it is",
            invalidation->count);
    }
    stamp_locally(invalidation);
    timer_start(invalidator->loop, &invalidator->retry, mono_after(loop_now(invalidator->loop), RETRY_MS));
    tell(invalidation, -1);
}

static void on_invalidated(void *arg, enum fault fault, int64_t epoch)
{
    struct invalidation *invalidation = arg;
    struct invalidator *invalidator = invalidation->invalidator;

    invalidation->call = NULL;
    if (fault != FAULT_NONE) {
        keep(invalidation);
        return;
    }
    if (invalidation->is_kept)
        invalidator->kept--;
    stats_add(invalidator->stats, invalidator->recorded, 1);
    tell(invalidation, epoch);
    invalidation_free(invalidation);
}

static void send(struct invalidation *invalidation)
{
    invalidation->call = store_invalidate(invalidation->invalidator->store, invalidation->tags,
                                          invalidation->count, on_invalidated, invalidation);
}

static void on_retry(void *arg)
{
    struct invalidator *invalidator = arg;

    if (!invalidator->store->is_up) { /* no use in asking; the tags stay stamped */
        timer_start(invalidator->loop, &invalidator->retry,
                    mono_after(loop_now(invalidator->loop), RETRY_MS));
        return;
    }
    for (struct link *at = invalidator->all.next; at != &invalidator->all; at = at->next) {
        struct invalidation *invalidation = LIST_OWNER(at, struct invalidation, link);

        if (invalidation->is_kept && invalidation->call == NULL)
            send(invalidation);
    }
}

struct invalidator *invalidator_new(struct loop *loop, struct store *store, struct stats *stats)
{
    struct invalidator *invalidator = must_alloc(sizeof(*invalidator));
    const char *recorded = "recorded", *deferred = "deferred";

    invalidator->loop = loop;
    invalidator->store = store;
    invalidator->stats = stats;
    invalidator->recorded = stats_series(STATS_invalidations, &recorded);
    invalidator->deferred = stats_series(STATS_invalidations, &deferred);
    list_init(&invalidator->all);
    timer_init(&invalidator->retry, on_retry, invalidator);
    return invalidator;
}

void invalidator_free(struct invalidator *invalidator)
{
    if (invalidator->kept > 0)
        log_error("store: %zu invalidations end with this process, not recorded", invalidator->kept);
    timer_cancel(invalidator->loop, &invalidator->retry);
    while (!list_is_empty(&invalidator->all))
        invalidation_free(LIST_OWNER(invalidator->all.next, struct invalidation, link));
    free(invalidator);
}

struct invalidation *invalidator_ask(struct invalidator *invalidator, const struct slice *tags, size_t count,
                                     void (*done)(void *arg, int64_t epoch), void *arg)
{
    size_t bytes = sizeof(struct invalidation) + count * sizeof(struct slice), at = bytes;
    struct invalidation *invalidation;

    for (size_t i = 0; i < count; i++)
        bytes += tags[i].len;
    invalidation = must_alloc(bytes);
    invalidation->invalidator = invalidator;
    invalidation->tags = (struct slice *)(invalidation + 1);
    invalidation->count = count;
    for (size_t i = 0; i < count; i++) {
        char *copy = (char *)invalidation + at;

        if (tags[i].len > 0)
            memcpy(copy, tags[i].base, tags[i].len);
        invalidation->tags[i] = slice_of(copy, tags[i].len);
        at += tags[i].len;
    }
    invalidation->done = done;
    invalidation->arg = arg;
    list_init(&invalidation->link);
    list_append(&invalidator->all, &invalidation->link);
    send(invalidation);
    return invalidation;
}

void invalidation_forget(struct invalidation **taken)
{
    if (*taken != NULL)
        (*taken)->done = NULL;
    *taken = NULL;
}

size_t invalidator_kept(const struct invalidator *invalidator)
{
    return invalidator->kept;
}
