/* Invalidator: see invalidator.h. */
#include "invalidator.h"
#include "list.h"
#include "log.h"
#include "loop.h"
#include "memory.h"
#include "stats.h"

#include <stdlib.h>

enum {
    RETRY_MS = 100,
    RETRIES_AT_ONCE = 64, /* then the next with each that is recorded */
    KEPT_MAX = 65536,
    KEPT_BUCKETS = 4096,
};

struct invalidation {
    struct invalidator *invalidator;
    struct link link;         /* in asking or kept */
    struct slice *tags;       /* in the same allocation */
    size_t count, soft_count; /* the first are soft */
    void (*done)(void *arg, int64_t epoch);
    void *arg;
    struct store_call *call;
    bool is_kept; /* the one who asked was told; only the store is left to be */
    struct link bucket_link;
};

struct invalidator {
    struct loop *loop;
    struct store *store;
    struct stats *stats;
    stats_id recorded, deferred, lost;
    struct link asking; /* the store is asked */
    struct link kept;   /* until it may be asked again; each set of tags once */
    struct link buckets[KEPT_BUCKETS];
    size_t asking_first, asking_again, kept_count;
    bool is_losing, waits_for_retry;
    struct timer retry;
};

static void send(struct invalidation *invalidation);

static void invalidation_free(struct invalidation *invalidation)
{
    store_cancel(&invalidation->call);
    list_leave(&invalidation->link);
    list_leave(&invalidation->bucket_link);
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
        struct tag_stamp stamp = {invalidation->tags[i], epoch + 1, i < invalidation->soft_count};

        near_apply(near, epoch, 0, &stamp, 1);
    }
}

/* ---- kept ---- */

static struct link *bucket_of(const struct invalidation *invalidation)
{
    uint64_t hash = invalidation->count;

    for (size_t i = 0; i < invalidation->count; i++)
        hash = hash * 31 + tag_print(invalidation->tags[i]);
    return &invalidation->invalidator->buckets[hash % KEPT_BUCKETS];
}

static bool has_same_tags(const struct invalidation *a, const struct invalidation *b)
{
    if (a->count != b->count || a->soft_count != b->soft_count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (!slice_eq(a->tags[i], b->tags[i]))
            return false;
    return true;
}

/* One that is still to be sent will be recorded later than now, so it stands for both. */
static bool is_kept_already(const struct invalidation *invalidation)
{
    const struct link *bucket = bucket_of(invalidation);

    for (const struct link *at = bucket->next; at != bucket; at = at->next)
        if (has_same_tags(LIST_OWNER(at, struct invalidation, bucket_link), invalidation))
            return true;
    return false;
}

static bool may_be_kept(struct invalidator *invalidator)
{
    if (invalidator->kept_count < KEPT_MAX)
        return true;
    stats_add(invalidator->stats, invalidator->lost, 1);
    if (!invalidator->is_losing)
        log_error(
            "store: %d invalidations are kept already, further ones are lost: other nodes may serve what "
            "they cover",
            KEPT_MAX);
    invalidator->is_losing = true;
    return false;
}

/* A wait that has begun is not prolonged, or a stream of new ones would put it off for ever. */
static void wait_for_retry(struct invalidator *invalidator)
{
    if (invalidator->waits_for_retry)
        return;
    invalidator->waits_for_retry = true;
    timer_start(invalidator->loop, &invalidator->retry, mono_after(loop_now(invalidator->loop), RETRY_MS));
}

static void put_back(struct invalidation *invalidation)
{
    list_leave(&invalidation->link);
    list_append(&invalidation->invalidator->kept, &invalidation->link);
    list_append(bucket_of(invalidation), &invalidation->bucket_link);
    wait_for_retry(invalidation->invalidator);
}

static void keep(struct invalidation *invalidation)
{
    struct invalidator *invalidator = invalidation->invalidator;

    stats_add(invalidator->stats, invalidator->deferred, 1);
    stamp_locally(invalidation);
    if (is_kept_already(invalidation) || !may_be_kept(invalidator)) {
        list_leave(&invalidation->link);
        tell(invalidation, -1);
        invalidation_free(invalidation);
        return;
    }
    if (invalidator->kept_count++ == 0)
        log_error("store: invalidations can't be recorded: they are kept, and sent again until they are");
    invalidation->is_kept = true;
    put_back(invalidation);
    tell(invalidation, -1);
}

static void forget_kept(struct invalidator *invalidator)
{
    invalidator->is_losing = false;
    if (--invalidator->kept_count == 0)
        log_info("store: all invalidations that were kept are recorded");
}

static void send_kept(struct invalidator *invalidator)
{
    while (invalidator->asking_again < RETRIES_AT_ONCE && !list_is_empty(&invalidator->kept)) {
        struct invalidation *invalidation = LIST_OWNER(invalidator->kept.next, struct invalidation, link);

        list_leave(&invalidation->link);
        list_leave(&invalidation->bucket_link);
        send(invalidation);
    }
}

static void on_retry(void *arg)
{
    struct invalidator *invalidator = arg;

    invalidator->waits_for_retry = false;
    if (invalidator->store->is_up)
        send_kept(invalidator);
    else /* no use in asking; the tags stay stamped */
        wait_for_retry(invalidator);
}

/* ---- asking the store ---- */

static void on_recorded_again(struct invalidation *invalidation, enum fault fault)
{
    struct invalidator *invalidator = invalidation->invalidator;

    invalidator->asking_again--;
    if (fault != FAULT_NONE) {
        put_back(invalidation);
        return;
    }
    stats_add(invalidator->stats, invalidator->recorded, 1);
    forget_kept(invalidator);
    invalidation_free(invalidation);
    if (!invalidator->waits_for_retry)
        send_kept(invalidator);
}

static void on_invalidated(void *arg, enum fault fault, int64_t epoch)
{
    struct invalidation *invalidation = arg;
    struct invalidator *invalidator = invalidation->invalidator;

    invalidation->call = NULL;
    if (invalidation->is_kept) {
        on_recorded_again(invalidation, fault);
        return;
    }
    invalidator->asking_first--;
    if (fault != FAULT_NONE) {
        keep(invalidation);
        return;
    }
    stats_add(invalidator->stats, invalidator->recorded, 1);
    list_leave(&invalidation->link);
    tell(invalidation, epoch);
    invalidation_free(invalidation);
}

static void send(struct invalidation *invalidation)
{
    struct invalidator *invalidator = invalidation->invalidator;

    if (invalidation->is_kept)
        invalidator->asking_again++;
    else
        invalidator->asking_first++;
    list_append(&invalidator->asking, &invalidation->link);
    invalidation->call = store_invalidate(invalidator->store, invalidation->tags, invalidation->count,
                                          invalidation->soft_count, on_invalidated, invalidation);
}

struct invalidator *invalidator_new(struct loop *loop, struct store *store, struct stats *stats)
{
    struct invalidator *invalidator = must_alloc(sizeof(*invalidator));
    const char *recorded = "recorded", *deferred = "deferred", *lost = "lost";

    invalidator->loop = loop;
    invalidator->store = store;
    invalidator->stats = stats;
    invalidator->recorded = stats_series(STATS_invalidations, &recorded);
    invalidator->deferred = stats_series(STATS_invalidations, &deferred);
    invalidator->lost = stats_series(STATS_invalidations, &lost);
    list_init(&invalidator->asking);
    list_init(&invalidator->kept);
    for (size_t i = 0; i < KEPT_BUCKETS; i++)
        list_init(&invalidator->buckets[i]);
    timer_init(&invalidator->retry, on_retry, invalidator);
    return invalidator;
}

void invalidator_free(struct invalidator *invalidator)
{
    if (invalidator->kept_count > 0)
        log_error("store: %zu invalidations end with this process, not recorded", invalidator->kept_count);
    timer_cancel(invalidator->loop, &invalidator->retry);
    list_move_all(&invalidator->asking, &invalidator->kept);
    while (!list_is_empty(&invalidator->asking))
        invalidation_free(LIST_OWNER(invalidator->asking.next, struct invalidation, link));
    free(invalidator);
}

struct invalidation *invalidator_ask(struct invalidator *invalidator, const struct slice *tags, size_t count,
                                     size_t soft_count, void (*done)(void *arg, int64_t epoch), void *arg)
{
    size_t bytes = sizeof(struct invalidation) + count * sizeof(struct slice), at = bytes;
    struct invalidation *invalidation;

    for (size_t i = 0; i < count; i++)
        bytes += tags[i].len;
    invalidation = must_alloc(bytes);
    invalidation->invalidator = invalidator;
    invalidation->tags = (struct slice *)(invalidation + 1);
    invalidation->count = count;
    invalidation->soft_count = soft_count;
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
    list_init(&invalidation->bucket_link);
    send(invalidation);
    return invalidation;
}

void invalidation_forget(struct invalidation **taken)
{
    if (*taken != NULL)
        (*taken)->done = NULL;
    *taken = NULL;
}

size_t invalidator_asking(const struct invalidator *invalidator)
{
    return invalidator->asking_first;
}

size_t invalidator_kept(const struct invalidator *invalidator)
{
    return invalidator->kept_count;
}
