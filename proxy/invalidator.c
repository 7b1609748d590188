/* Invalidator: see invalidator.h. */
#include "invalidator.h"
#include "journal.h"
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
    struct journal_mark *mark; /* in the journal, once it is kept */
    bool is_kept;              /* the store is asked again and again */
    bool is_all;               /* everything, instead of its tags */
    struct link bucket_link;
};

struct invalidator {
    struct loop *loop;
    struct store *store;
    struct stats *stats;
    struct journal *journal; /* NULL: none */
    stats_id recorded, deferred, widened, kept_gauge;
    struct link asking; /* the store is asked */
    struct link kept;   /* until it may be asked again; each set of tags once */
    struct link buckets[KEPT_BUCKETS];
    size_t asking_first, asking_again, kept_count;
    bool waits_for_retry;
    struct timer retry;
};

static void send(struct invalidation *invalidation);

static void invalidation_free(struct invalidation *invalidation)
{
    store_cancel(&invalidation->call);
    if (invalidation->mark != NULL)
        journal_forget(invalidation->invalidator->journal, &invalidation->mark);
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

/* Until it is recorded, or the process ends: no epoch that is known here is above all that other nodes have seen. */
static void hold_back(const struct invalidation *invalidation)
{
    struct near *near = invalidation->invalidator->store->near;

    if (invalidation->is_all)
        near_hold_back(near, NULL, 0);
    else
        near_hold_back(near, invalidation->tags, invalidation->count);
}

static void let_go(const struct invalidation *invalidation)
{
    struct near *near = invalidation->invalidator->store->near;

    if (invalidation->is_all)
        near_let_go(near, NULL, 0);
    else
        near_let_go(near, invalidation->tags, invalidation->count);
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
    if (a->is_all != b->is_all || a->count != b->count || a->soft_count != b->soft_count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (!slice_eq(a->tags[i], b->tags[i]))
            return false;
    return true;
}

/* One that is still to be sent will be recorded later than now, so it stands for both, if the journal has it. */
static bool is_kept_already(const struct invalidation *invalidation)
{
    const struct link *bucket = bucket_of(invalidation);

    for (const struct link *at = bucket->next; at != bucket; at = at->next)
        if (has_same_tags(LIST_OWNER(at, struct invalidation, bucket_link), invalidation))
            return LIST_OWNER(at, struct invalidation, bucket_link)->done == NULL;
    return false;
}

/* Too many to be told one by one: the store is told of everything at once. */
static void widen(struct invalidation *invalidation)
{
    struct invalidator *invalidator = invalidation->invalidator;

    stats_add(invalidator->stats, invalidator->widened, 1);
    log_error("store: more than %d invalidations are kept: what exceeds them invalidates everything",
              KEPT_MAX);
    invalidation->is_all = true;
    invalidation->count = invalidation->soft_count = 0;
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

static void on_journaled(void *arg, bool is_safe)
{
    (void)is_safe; /* what could not be written is kept all the same, and the journal has said so */
    tell(arg, -1);
}

static void begin_keeping(struct invalidation *invalidation)
{
    struct invalidator *invalidator = invalidation->invalidator;

    if (invalidator->kept_count++ == 0)
        log_error("store: invalidations can't be recorded: they are kept, and sent again until they are");
    stats_add(invalidator->stats, invalidator->kept_gauge, 1);
    invalidation->is_kept = true;
    put_back(invalidation);
}

static void keep(struct invalidation *invalidation)
{
    struct invalidator *invalidator = invalidation->invalidator;

    stats_add(invalidator->stats, invalidator->deferred, 1);
    if (invalidator->kept_count >= KEPT_MAX && !is_kept_already(invalidation))
        widen(invalidation);
    if (is_kept_already(invalidation)) {
        list_leave(&invalidation->link);
        tell(invalidation, -1);
        invalidation_free(invalidation);
        return;
    }
    hold_back(invalidation);
    begin_keeping(invalidation);
    if (invalidator->journal != NULL)
        invalidation->mark =
            journal_add(invalidator->journal, invalidation->tags, invalidation->count,
                        invalidation->soft_count, invalidator->loop, on_journaled, invalidation);
    else
        tell(invalidation, -1);
}

static void forget_kept(struct invalidation *invalidation)
{
    struct invalidator *invalidator = invalidation->invalidator;

    let_go(invalidation);
    if (invalidation->mark != NULL)
        journal_remove(invalidator->journal, &invalidation->mark);
    stats_add(invalidator->stats, invalidator->kept_gauge, -1);
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

static void on_recorded_again(struct invalidation *invalidation, enum fault fault, int64_t epoch)
{
    struct invalidator *invalidator = invalidation->invalidator;

    invalidator->asking_again--;
    if (fault != FAULT_NONE) {
        put_back(invalidation);
        return;
    }
    stats_add(invalidator->stats, invalidator->recorded, 1);
    forget_kept(invalidation);
    tell(invalidation, epoch); /* where the journal was slower */
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
        on_recorded_again(invalidation, fault, epoch);
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
    invalidation->call = invalidation->is_all
                             ? store_invalidate_all(invalidator->store, on_invalidated, invalidation)
                             : store_invalidate(invalidator->store, invalidation->tags, invalidation->count,
                                                invalidation->soft_count, on_invalidated, invalidation);
}

struct invalidator *invalidator_new(struct loop *loop, struct store *store, struct stats *stats)
{
    struct invalidator *invalidator = must_alloc(sizeof(*invalidator));
    const char *recorded = "recorded", *deferred = "deferred", *widened = "widened", *none = "";

    invalidator->loop = loop;
    invalidator->store = store;
    invalidator->stats = stats;
    invalidator->recorded = stats_series(STATS_invalidations, &recorded);
    invalidator->deferred = stats_series(STATS_invalidations, &deferred);
    invalidator->widened = stats_series(STATS_invalidations, &widened);
    invalidator->kept_gauge = stats_series(STATS_invalidations_kept, &none);
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
        log_error("store: %zu invalidations are not recorded and %s", invalidator->kept_count,
                  invalidator->journal == NULL ? "end with this process" : "stay in the journal");
    timer_cancel(invalidator->loop, &invalidator->retry);
    list_move_all(&invalidator->asking, &invalidator->kept);
    while (!list_is_empty(&invalidator->asking))
        invalidation_free(LIST_OWNER(invalidator->asking.next, struct invalidation, link));
    free(invalidator);
}

void invalidator_use_journal(struct invalidator *invalidator, struct journal *journal)
{
    invalidator->journal = journal;
}

static struct invalidation *invalidation_new(struct invalidator *invalidator, const struct slice *tags,
                                             size_t count, size_t soft_count)
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
    list_init(&invalidation->link);
    list_init(&invalidation->bucket_link);
    return invalidation;
}

struct invalidation *invalidator_ask(struct invalidator *invalidator, const struct slice *tags, size_t count,
                                     size_t soft_count, void (*done)(void *arg, int64_t epoch), void *arg)
{
    struct invalidation *invalidation = invalidation_new(invalidator, tags, count, soft_count);

    invalidation->done = done;
    invalidation->arg = arg;
    send(invalidation);
    return invalidation;
}

void invalidator_adopt(struct invalidator *invalidator, const struct slice *tags, size_t count,
                       size_t soft_count, struct journal_mark *mark)
{
    struct invalidation *invalidation = invalidation_new(invalidator, tags, count, soft_count);

    invalidation->is_all = count == 0;
    invalidation->mark = mark;
    hold_back(invalidation);
    begin_keeping(invalidation);
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

void invalidator_note_unnamed(struct invalidator *invalidator)
{
    static const char *unnamed = "unnamed";

    stats_add(invalidator->stats, stats_series(STATS_invalidations, &unnamed), 1);
    log_warn(
        "invalidation: an upstream's answer does not name its tags as `invalidates` has it: it is no JSON, "
        "too long, "
        "encoded, broken off, or has something else there; what it changed may be served until it expires");
}

size_t invalidator_kept(const struct invalidator *invalidator)
{
    return invalidator->kept_count;
}
