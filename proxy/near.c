/* Near: see near.h.
 *
 * Why an invalidated object cannot be handed out: near_apply() writes the stamps, then raises `version`;
 * near_find() reads `version`, then the stamps. A find that begins after an apply has returned reads the new
 * version, does not take an earlier check's word for it, and finds the stamp. `version` rather than the
 * epoch, because stamps may also arrive behind their epoch.
 *
 * Locks: `changing` before a shard before the tag table's; none is held while an object is freed.
 */
#include "near.h"

#include "check.h"
#include "digest.h"
#include "held_tags.h"
#include "memory.h"
#include "sieve.h"
#include "tag_table.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHARDS = 16,
    EXPECTED_OBJECT_BYTES = 1024, /* sets the number of hash chains; the byte budget keeps even the smallest
                                     objects few to a chain */
    NODE_OVERHEAD_BYTES = 16,     /* malloc's own, about */
    TAG_SHARE = 8,                /* at most an eighth of the budget goes to tags */
    MOST_TAGS = 1000000,
    FEWEST_TAGS = 1024,
};

struct node {
    struct node *next; /* in its chain */
    struct sieve_node queue;
    struct object *object;
};

struct shard {
    pthread_mutex_t lock;
    struct sieve sieve;
    struct node **chains;
    uint64_t evicted, invalidated;
} __attribute__((aligned(64)));

struct near {
    struct shard shards[SHARDS];
    size_t chain_mask;
    uint64_t secret; /* keys are hashes that a client can choose, at some cost: this makes the chains
                        unpredictable */
    size_t budget_bytes, max_object_bytes;
    struct tag_table *tags;
    struct held_tags *held;
    pthread_mutex_t
        changing;     /* one change of the tag table at a time, so that epochs are published in order */
    int64_t ahead_us; /* of the monotonic clock, with are_dated; fixed before a second thread looks */
    bool are_dated;
    _Atomic int64_t epoch;
    _Atomic int64_t version;        /* of the tag table; read on every find, written only with `changing` */
    _Atomic size_t bytes;           /* objects, nodes and chains; the tag table counts itself */
    _Atomic size_t objects[SHARDS]; /* written under each shard's lock, compared without */
};

static uint64_t hash_key(const struct near *near, const struct key32 *key)
{
    uint64_t word;

    memcpy(&word, key->bytes, sizeof(word));
    return (word ^ near->secret) * (near->secret | 1);
}

static struct shard *shard_of(struct near *near, uint64_t hash)
{
    return &near->shards[hash >> 60];
}

/* The link that points to the key's node, or to NULL at the end of its chain. */
static struct node **find_link(struct near *near, struct shard *shard, uint64_t hash, const struct key32 *key)
{
    struct node **link = &shard->chains[(hash >> 24) & near->chain_mask];

    while (*link != NULL && memcmp(&(*link)->object->key, key, sizeof(*key)) != 0)
        link = &(*link)->next;
    return link;
}

static size_t cost_bytes(const struct object *object)
{
    return object->footprint_bytes + sizeof(struct node) + NODE_OVERHEAD_BYTES;
}

static struct node *node_of(struct sieve_node *queue)
{
    return (struct node *)(void *)((char *)queue - offsetof(struct node, queue));
}

static void note_count(struct near *near, const struct shard *shard)
{
    atomic_store_explicit(&near->objects[shard - near->shards], shard->sieve.count, memory_order_relaxed);
}

/* Under the shard's lock. The node is then the caller's, to give to free_node() once the lock is released. */
static struct node *take_out(struct near *near, struct shard *shard, struct node **link)
{
    struct node *node = *link;

    *link = node->next;
    sieve_remove(&shard->sieve, &node->queue);
    note_count(near, shard);
    return node;
}

static void free_node(struct near *near, struct node *node)
{
    if (node == NULL)
        return;
    atomic_fetch_sub_explicit(&near->bytes, cost_bytes(node->object), memory_order_relaxed);
    object_release(&node->object);
    free(node);
}

static bool is_void(struct near *near, int64_t epoch, const uint64_t *prints, size_t count)
{
    return held_tags_cover(near->held, prints, count) || tag_table_outdates(near->tags, epoch, prints, count);
}

/* Up to which epoch is it known that nothing has made the object void? What a shared store handed out it has checked against all
 * stamps up to its answer, and knows more of them than were told here. */
static int64_t vouched_epoch(const struct near *near, const struct object *object)
{
    return near->are_dated ? object->epoch : object->aged_epoch;
}

/* The soft stamp that the object's moments do not show yet, or 0. */
static int64_t unseen_soft(struct near *near, const struct object *object)
{
    int64_t soft = tag_table_soft(near->tags, object->tag_prints, object->tag_count);

    return soft > object->aged_epoch ? soft : 0;
}

/* A soft stamp's moment, or now where that has yet to come: an epoch may be ahead of the clock. */
static struct mono_ms moment_of(const struct near *near, int64_t epoch, struct mono_ms now)
{
    int64_t ms = (epoch - near->ahead_us) / 1000;

    return (struct mono_ms){ms < now.ms ? ms : now.ms};
}

/* Under the lock of the node's shard: can what it holds be handed out? A soft stamp may exchange it; the former
 * object is then `*replaced_out`, to be released without the lock. */
static bool is_valid(struct near *near, struct node *node, struct mono_ms now, struct object **replaced_out)
{
    int64_t version = atomic_load(&near->version); /* before the stamps */
    struct object *object = node->object;
    int64_t soft;

    if (atomic_load_explicit(&object->checked_version, memory_order_relaxed) == version)
        return true;
    if (is_void(near, vouched_epoch(near, object), object->tag_prints, object->tag_count))
        return false;
    soft = unseen_soft(near, object);
    if (soft != 0) {
        if (!near->are_dated)
            return false;
        node->object = object_aged(object, moment_of(near, soft, now), soft);
        *replaced_out = object;
    }
    atomic_store_explicit(&node->object->checked_version, version, memory_order_relaxed);
    return true;
}

struct object *near_find(struct near *near, const struct key32 *key, struct mono_ms now)
{
    uint64_t hash = hash_key(near, key);
    struct shard *shard = shard_of(near, hash);
    struct object *found = NULL, *replaced = NULL;
    struct node *dropped = NULL;

    pthread_mutex_lock(&shard->lock);
    struct node **link = find_link(near, shard, hash, key);

    if (*link != NULL) {
        if (now.ms >= object_gone_at((*link)->object).ms) {
            dropped = take_out(near, shard, link);
        } else if (!is_valid(near, *link, now, &replaced)) {
            dropped = take_out(near, shard, link);
            shard->invalidated++;
        } else {
            sieve_touch(&(*link)->queue);
            found = object_hold((*link)->object);
        }
    }
    pthread_mutex_unlock(&shard->lock);
    object_release(&replaced); /* costs as much as the one in its place */
    free_node(near, dropped);
    return found;
}

static size_t used_bytes(const struct near *near)
{
    return atomic_load_explicit(&near->bytes, memory_order_relaxed) + tag_table_bytes(near->tags);
}

/* Keys spread evenly, so the fullest shard holds the oldest of all. Taking turns instead would now and then
 * empty a shard down to what is in use. */
static struct shard *fullest_shard(struct near *near)
{
    size_t fullest = 0, most = 0;

    for (size_t i = 0; i < SHARDS; i++) {
        size_t objects = atomic_load_explicit(&near->objects[i], memory_order_relaxed);

        if (objects > most) {
            most = objects;
            fullest = i;
        }
    }
    return most == 0 ? NULL : &near->shards[fullest];
}

/* False: there is nothing left to evict. */
static bool evict_one(struct near *near)
{
    struct shard *shard;

    while ((shard = fullest_shard(near)) != NULL) {
        struct node *evicted = NULL;

        pthread_mutex_lock(&shard->lock);
        struct sieve_node *victim = sieve_victim(&shard->sieve);

        if (victim != NULL) {
            const struct key32 *key = &node_of(victim)->object->key;

            evicted = take_out(near, shard, find_link(near, shard, hash_key(near, key), key));
            CHECK(evicted == node_of(victim));
            shard->evicted++;
        }
        pthread_mutex_unlock(&shard->lock);
        if (evicted != NULL) { /* else another thread was faster: look again */
            free_node(near, evicted);
            return true;
        }
    }
    return false;
}

/* Takes `bytes` from the budget before they are used, so that no thread ever oversteps it. */
static bool make_room(struct near *near, size_t bytes)
{
    atomic_fetch_add_explicit(&near->bytes, bytes, memory_order_relaxed);
    while (used_bytes(near) > near->budget_bytes) {
        if (!evict_one(near)) {
            atomic_fetch_sub_explicit(&near->bytes, bytes, memory_order_relaxed);
            return false;
        }
    }
    return true;
}

void near_put(struct near *near, struct object *object)
{
    uint64_t hash = hash_key(near, &object->key);
    struct shard *shard = shard_of(near, hash);
    struct node *fresh, *replaced = NULL;

    if (is_void(near, vouched_epoch(near, object), object->tag_prints, object->tag_count) ||
        (!near->are_dated && unseen_soft(near, object) != 0))
        return;
    if (object->footprint_bytes > near->max_object_bytes || !make_room(near, cost_bytes(object))) {
        near_drop(near, &object->key); /* what it would have replaced is no longer the truth */
        return;
    }
    fresh = must_alloc(sizeof(*fresh));
    fresh->object = object_hold(object);

    pthread_mutex_lock(&shard->lock);
    struct node **link = find_link(near, shard, hash, &object->key);

    if (*link != NULL)
        replaced = take_out(near, shard, link);
    fresh->next = *link;
    *link = fresh;
    sieve_insert(&shard->sieve, &fresh->queue);
    note_count(near, shard);
    pthread_mutex_unlock(&shard->lock);
    free_node(near, replaced);
}

void near_drop(struct near *near, const struct key32 *key)
{
    uint64_t hash = hash_key(near, key);
    struct shard *shard = shard_of(near, hash);
    struct node *dropped = NULL;

    pthread_mutex_lock(&shard->lock);
    struct node **link = find_link(near, shard, hash, key);

    if (*link != NULL)
        dropped = take_out(near, shard, link);
    pthread_mutex_unlock(&shard->lock);
    free_node(near, dropped);
}

void near_clear(struct near *near)
{
    for (size_t i = 0; i < SHARDS; i++) {
        struct shard *shard = &near->shards[i];
        struct node *cleared = NULL;

        pthread_mutex_lock(&shard->lock);
        for (size_t c = 0; c <= near->chain_mask; c++) {
            while (shard->chains[c] != NULL) {
                struct node *node = take_out(near, shard, &shard->chains[c]);

                node->next = cleared;
                cleared = node;
            }
        }
        pthread_mutex_unlock(&shard->lock);
        while (cleared != NULL) {
            struct node *next = cleared->next;

            free_node(near, cleared);
            cleared = next;
        }
    }
}

int64_t near_epoch(const struct near *near)
{
    return atomic_load(&near->epoch);
}

/* With `changing` held, after the stamps were written. */
static void publish(struct near *near, int64_t epoch, bool has_news)
{
    if (epoch > atomic_load(&near->epoch))
        atomic_store(&near->epoch, epoch);
    if (has_news)
        atomic_fetch_add(&near->version, 1);
}

void near_apply(struct near *near, int64_t epoch, int64_t floor, const struct tag_stamp *stamps, size_t count)
{
    bool has_news;

    if (count == 0 && epoch <= near_epoch(near) && floor <= tag_table_floor(near->tags))
        return; /* what nearly every answer of a store says: nothing happened */
    pthread_mutex_lock(&near->changing);
    has_news = tag_table_raise_floor(near->tags, floor);
    for (size_t i = 0; i < count; i++)
        has_news |= tag_table_stamp(near->tags, tag_print(stamps[i].tag), stamps[i].epoch, stamps[i].is_soft);
    publish(near, epoch, has_news);
    pthread_mutex_unlock(&near->changing);
}

/* With `changing` held. */
static int64_t next_epoch(const struct near *near, int64_t wall_us)
{
    int64_t epoch = near_epoch(near) + 1;

    return epoch < wall_us ? wall_us : epoch;
}

int64_t near_invalidate(struct near *near, const struct slice *tags, size_t tag_count, size_t soft_count,
                        int64_t wall_us)
{
    int64_t epoch;

    pthread_mutex_lock(&near->changing);
    epoch = next_epoch(near, wall_us);
    for (size_t i = 0; i < tag_count; i++)
        tag_table_stamp(near->tags, tag_print(tags[i]), epoch, i < soft_count);
    publish(near, epoch, true);
    pthread_mutex_unlock(&near->changing);
    return epoch;
}

int64_t near_invalidate_all(struct near *near, int64_t wall_us)
{
    int64_t epoch;

    pthread_mutex_lock(&near->changing);
    epoch = next_epoch(near, wall_us);
    tag_table_raise_floor(near->tags, epoch);
    publish(near, epoch, true);
    pthread_mutex_unlock(&near->changing);
    return epoch;
}

void near_hold_back(struct near *near, const struct slice *tags, size_t tag_count)
{
    pthread_mutex_lock(&near->changing);
    if (tags == NULL)
        held_tags_hold_all(near->held);
    for (size_t i = 0; i < tag_count; i++)
        held_tags_hold(near->held, tag_print(tags[i]));
    publish(near, 0, true);
    pthread_mutex_unlock(&near->changing);
}

void near_let_go(struct near *near, const struct slice *tags, size_t tag_count)
{
    if (tags == NULL)
        held_tags_release_all(near->held);
    for (size_t i = 0; i < tag_count; i++)
        held_tags_release(near->held, tag_print(tags[i]));
}

static bool is_outdated(struct near *near, int64_t epoch, const struct slice *tags, size_t tag_count,
                        bool soft_counts)
{
    for (size_t i = 0; i < tag_count; i++) {
        uint64_t print = tag_print(tags[i]);

        if ((soft_counts && tag_table_soft(near->tags, &print, 1) > epoch) || is_void(near, epoch, &print, 1))
            return true;
    }
    return is_void(near, epoch, NULL, 0); /* the floor, after the stamps */
}

bool near_is_outdated(struct near *near, int64_t epoch, const struct slice *tags, size_t tag_count)
{
    return is_outdated(near, epoch, tags, tag_count, true);
}

bool near_is_void(struct near *near, int64_t epoch, const struct slice *tags, size_t tag_count)
{
    return is_outdated(near, epoch, tags, tag_count, false);
}

bool near_outdates(struct near *near, const struct object *object)
{
    return unseen_soft(near, object) != 0 ||
           is_void(near, vouched_epoch(near, object), object->tag_prints, object->tag_count);
}

struct near_figures near_count(struct near *near)
{
    struct near_figures figures = {.budget_bytes = near->budget_bytes};

    for (size_t i = 0; i < SHARDS; i++) {
        struct shard *shard = &near->shards[i];

        pthread_mutex_lock(&shard->lock);
        figures.objects += shard->sieve.count;
        figures.evicted += shard->evicted;
        figures.invalidated += shard->invalidated;
        pthread_mutex_unlock(&shard->lock);
    }
    figures.bytes = used_bytes(near);
    figures.tags = tag_table_count(near->tags);
    return figures;
}

/* A power of two. */
static size_t chains_for(size_t budget_bytes)
{
    size_t wanted = budget_bytes / EXPECTED_OBJECT_BYTES / SHARDS, chains = 1;

    while (chains < wanted)
        chains *= 2;
    return chains;
}

static size_t tags_for(size_t budget_bytes)
{
    size_t tags = budget_bytes / TAG_SHARE / TAG_TABLE_BYTES_PER_TAG;

    if (tags > MOST_TAGS)
        return MOST_TAGS;
    return tags < FEWEST_TAGS ? FEWEST_TAGS : tags;
}

struct near *near_new(size_t budget_bytes, size_t max_object_bytes)
{
    struct near *near = aligned_alloc(_Alignof(struct near), sizeof(*near));
    size_t chains = chains_for(budget_bytes);

    CHECK(near != NULL);
    memset(near, 0, sizeof(*near));
    for (size_t i = 0; i < SHARDS; i++) {
        pthread_mutex_init(&near->shards[i].lock, NULL);
        near->shards[i].chains = must_alloc(chains * sizeof(struct node *));
    }
    near->chain_mask = chains - 1;
    digest_random(&near->secret, sizeof(near->secret));
    near->budget_bytes = budget_bytes;
    near->max_object_bytes = max_object_bytes;
    near->tags = tag_table_new(tags_for(budget_bytes), near->secret);
    near->held = held_tags_new(near->secret);
    pthread_mutex_init(&near->changing, NULL);
    atomic_init(&near->epoch, 0);
    atomic_init(&near->version, 1); /* an object that was never checked says 0 */
    atomic_init(&near->bytes, sizeof(*near) + SHARDS * chains * sizeof(struct node *));
    return near;
}

void near_date_epochs(struct near *near, int64_t ahead_us)
{
    near->are_dated = true;
    near->ahead_us = ahead_us;
}

void near_free(struct near *near)
{
    near_clear(near);
    for (size_t i = 0; i < SHARDS; i++) {
        pthread_mutex_destroy(&near->shards[i].lock);
        free(near->shards[i].chains);
    }
    pthread_mutex_destroy(&near->changing);
    tag_table_free(near->tags);
    held_tags_free(near->held);
    free(near);
}
