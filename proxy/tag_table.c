/* Tag table: see tag_table.h. Each shard is one array of stamps, chained by hash and, from the oldest to the
 * newest, by the order in which they were last stamped. Indices are 1-based; 0 is none.
 *
 * A stamp is forgotten in this order: floor raised, then stamp removed. A check therefore reads the stamps
 * first and the floor last: whoever no longer finds a stamp finds the floor that replaced it.
 */
#include "tag_table.h"

#include "check.h"
#include "memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { SHARDS = 16, FIRST_ROOM = 32, FORGET_AT_ONCE = 2 };

struct stamp {
    uint64_t print;
    int64_t hard, soft; /* 0: never */
    uint32_t next;      /* in its chain, or among the free ones */
    uint32_t older, newer;
};

struct tag_shard {
    pthread_mutex_t lock;
    struct stamp *stamps; /* [0] is not used */
    uint32_t *chains;     /* `room` of them, a power of two */
    uint32_t room, used;  /* stamps ever taken from the array; room of them fit */
    uint32_t count, free, oldest, newest;
} __attribute__((aligned(64)));

struct tag_table {
    struct tag_shard shards[SHARDS];
    uint64_t secret;
    uint32_t max_per_shard;
    _Atomic int64_t floor;
    _Atomic size_t bytes;
};

static uint64_t mix(const struct tag_table *table, uint64_t print)
{
    return (print ^ table->secret) * (table->secret | 1);
}

static struct tag_shard *shard_of(struct tag_table *table, uint64_t hash)
{
    return &table->shards[hash >> 60];
}

static uint32_t *chain_of(struct tag_shard *shard, uint64_t hash)
{
    return &shard->chains[(hash >> 28) & (shard->room - 1)];
}

static int64_t last_of(const struct stamp *stamp)
{
    return stamp->hard > stamp->soft ? stamp->hard : stamp->soft;
}

static size_t bytes_for(uint32_t room)
{
    return (room + (size_t)1) * sizeof(struct stamp) + room * sizeof(uint32_t);
}

/* Doubles the room. Only as many stamps as ever were wanted at once are paid for. */
static void grow(struct tag_table *table, struct tag_shard *shard)
{
    uint32_t room = shard->room == 0 ? FIRST_ROOM : shard->room * 2;

    shard->stamps = must_realloc(shard->stamps, (room + (size_t)1) * sizeof(struct stamp));
    free(shard->chains);
    shard->chains = must_alloc(room * sizeof(uint32_t));
    atomic_fetch_add_explicit(&table->bytes,
                              bytes_for(room) - (shard->room == 0 ? 0 : bytes_for(shard->room)),
                              memory_order_relaxed);
    shard->room = room;
    for (uint32_t at = shard->oldest; at != 0; at = shard->stamps[at].newer) {
        uint32_t *chain = chain_of(shard, mix(table, shard->stamps[at].print));

        shard->stamps[at].next = *chain;
        *chain = at;
    }
}

static void leave_order(struct tag_shard *shard, uint32_t at)
{
    struct stamp *stamp = &shard->stamps[at];

    if (stamp->older != 0)
        shard->stamps[stamp->older].newer = stamp->newer;
    else
        shard->oldest = stamp->newer;
    if (stamp->newer != 0)
        shard->stamps[stamp->newer].older = stamp->older;
    else
        shard->newest = stamp->older;
}

static void become_newest(struct tag_shard *shard, uint32_t at)
{
    struct stamp *stamp = &shard->stamps[at];

    stamp->older = shard->newest;
    stamp->newer = 0;
    if (shard->newest != 0)
        shard->stamps[shard->newest].newer = at;
    else
        shard->oldest = at;
    shard->newest = at;
}

static void forget_oldest(struct tag_table *table, struct tag_shard *shard)
{
    uint32_t at = shard->oldest;
    uint32_t *link = chain_of(shard, mix(table, shard->stamps[at].print));

    tag_table_raise_floor(table, last_of(&shard->stamps[at]));
    while (*link != at)
        link = &shard->stamps[*link].next;
    *link = shard->stamps[at].next;
    leave_order(shard, at);
    shard->stamps[at].next = shard->free;
    shard->free = at;
    shard->count--;
}

static uint32_t find(const struct tag_table *table, struct tag_shard *shard, uint64_t print)
{
    uint32_t at = shard->room == 0 ? 0 : *chain_of(shard, mix(table, print));

    while (at != 0 && shard->stamps[at].print != print)
        at = shard->stamps[at].next;
    return at;
}

static uint32_t add(struct tag_table *table, struct tag_shard *shard, uint64_t print)
{
    uint32_t at, *chain;

    if (shard->count >= table->max_per_shard)
        forget_oldest(table, shard);
    if (shard->free == 0 && shard->used == shard->room)
        grow(table, shard);
    if (shard->free != 0) {
        at = shard->free;
        shard->free = shard->stamps[at].next;
    } else {
        at = ++shard->used;
    }
    chain = chain_of(shard, mix(table, print));
    shard->stamps[at] = (struct stamp){.print = print, .next = *chain};
    *chain = at;
    become_newest(shard, at);
    shard->count++;
    return at;
}

bool tag_table_stamp(struct tag_table *table, uint64_t print, int64_t epoch, bool is_soft)
{
    struct tag_shard *shard = shard_of(table, mix(table, print));
    bool is_news = epoch > tag_table_floor(table);
    uint32_t at;

    pthread_mutex_lock(&shard->lock);
    /* what the floor covers says nothing any more */
    for (int i = 0; i < FORGET_AT_ONCE && shard->oldest != 0; i++)
        if (last_of(&shard->stamps[shard->oldest]) <= tag_table_floor(table))
            forget_oldest(table, shard);
    at = find(table, shard, print);
    if (at == 0 && is_news)
        at = add(table, shard, print);
    if (at != 0) {
        int64_t *stamped = is_soft ? &shard->stamps[at].soft : &shard->stamps[at].hard;

        is_news = *stamped < epoch;
        if (is_news) {
            *stamped = epoch;
            leave_order(shard, at);
            become_newest(shard, at);
        }
    }
    pthread_mutex_unlock(&shard->lock);
    return is_news;
}

bool tag_table_raise_floor(struct tag_table *table, int64_t floor)
{
    int64_t now = atomic_load(&table->floor);

    while (now < floor)
        if (atomic_compare_exchange_weak(&table->floor, &now, floor))
            return true;
    return false;
}

bool tag_table_outdates(struct tag_table *table, int64_t epoch, const uint64_t *prints, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct tag_shard *shard = shard_of(table, mix(table, prints[i]));
        bool is_stamped;

        pthread_mutex_lock(&shard->lock);
        uint32_t at = find(table, shard, prints[i]);

        is_stamped = at != 0 && shard->stamps[at].hard > epoch;
        pthread_mutex_unlock(&shard->lock);
        if (is_stamped)
            return true;
    }
    return epoch < tag_table_floor(table);
}

int64_t tag_table_soft(struct tag_table *table, const uint64_t *prints, size_t count)
{
    int64_t highest = 0;

    for (size_t i = 0; i < count; i++) {
        struct tag_shard *shard = shard_of(table, mix(table, prints[i]));

        pthread_mutex_lock(&shard->lock);
        uint32_t at = find(table, shard, prints[i]);

        if (at != 0 && shard->stamps[at].soft > highest)
            highest = shard->stamps[at].soft;
        pthread_mutex_unlock(&shard->lock);
    }
    return highest;
}

int64_t tag_table_floor(const struct tag_table *table)
{
    return atomic_load(&table->floor);
}

size_t tag_table_bytes(const struct tag_table *table)
{
    return atomic_load_explicit(&table->bytes, memory_order_relaxed);
}

size_t tag_table_count(struct tag_table *table)
{
    size_t sum = 0;

    for (size_t i = 0; i < SHARDS; i++) {
        pthread_mutex_lock(&table->shards[i].lock);
        sum += table->shards[i].count;
        pthread_mutex_unlock(&table->shards[i].lock);
    }
    return sum;
}

struct tag_table *tag_table_new(size_t max_tags, uint64_t secret)
{
    struct tag_table *table = aligned_alloc(_Alignof(struct tag_table), sizeof(*table));

    CHECK(table != NULL);
    memset(table, 0, sizeof(*table));
    for (size_t i = 0; i < SHARDS; i++)
        pthread_mutex_init(&table->shards[i].lock, NULL);
    table->secret = secret;
    table->max_per_shard = max_tags < SHARDS ? 1 : (uint32_t)(max_tags / SHARDS);
    atomic_init(&table->floor, 0);
    atomic_init(&table->bytes, sizeof(*table));
    return table;
}

void tag_table_free(struct tag_table *table)
{
    for (size_t i = 0; i < SHARDS; i++) {
        pthread_mutex_destroy(&table->shards[i].lock);
        free(table->shards[i].stamps);
        free(table->shards[i].chains);
    }
    free(table);
}
