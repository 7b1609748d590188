/* Sieve: how many requests does SIEVE answer from a cache that is too small, beside LRU and beside what no algorithm can beat?
 *
 * Traces of Zipf's law, for several skews: the object of rank r is asked for r^-skew as often as the first. One kind has a crawler
 * among the clients, who asks for things that nobody asks for again. Each trace is played to the cache's own policies/sieve, to LRU,
 * and to Belady's optimum, which knows the future: it gives up what will be asked for last, be that the newcomer. Objects are of
 * one size. The first tenth of a trace only fills the caches.
 *
 *     bench_sieve [requests [seed]]      the table of docs/cache.md
 *
 * Exits 1 where SIEVE falls below LRU, or anything rises above the optimum.
 */
#include "sieve.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OBJECTS = 100 * 1000, REQUESTS = 1000 * 1000, CRAWLED_OF_TEN = 3 };

static uint64_t dice;

static uint64_t roll(void) /* splitmix64 */
{
    uint64_t z = (dice += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static void *must(size_t count, size_t bytes)
{
    void *memory = calloc(count, bytes);

    if (memory == NULL)
        exit(2);
    return memory;
}

/* ---- traces ---- */

struct trace {
    uint32_t *objects; /* crawled ones are numbered from OBJECTS on */
    size_t count, object_count;
};

static uint32_t draw(const double *upto)
{
    double at = (double)(roll() >> 11) / 9007199254740992.0 * upto[OBJECTS - 1];
    uint32_t low = 0, high = OBJECTS - 1;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (upto[middle] < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct trace trace_new(size_t requests, double skew, bool is_crawled)
{
    struct trace trace = {must(requests, sizeof(uint32_t)), requests, OBJECTS};
    double *upto = must(OBJECTS, sizeof(double)), sum = 0;

    for (size_t rank = 0; rank < OBJECTS; rank++)
        upto[rank] = sum += pow((double)(rank + 1), -skew);
    for (size_t i = 0; i < requests; i++)
        trace.objects[i] =
            is_crawled && roll() % 10 < CRAWLED_OF_TEN ? (uint32_t)trace.object_count++ : draw(upto);
    free(upto);
    return trace;
}

static bool counts(const struct trace *trace, size_t i)
{
    return i >= trace->count / 10;
}

/* ---- the caches: each returns how many of the requests that count were hits ---- */

static size_t play_sieve(const struct trace *trace, size_t room)
{
    struct sieve sieve = {0};
    struct sieve_node *nodes = must(trace->object_count, sizeof(*nodes));
    size_t hits = 0;

    for (size_t i = 0; i < trace->count; i++) {
        struct sieve_node *node = &nodes[trace->objects[i]];

        if (node->is_linked) {
            sieve_touch(node);
            hits += counts(trace, i);
            continue;
        }
        if (sieve.count == room)
            sieve_remove(&sieve, sieve_victim(&sieve));
        sieve_insert(&sieve, node);
    }
    free(nodes);
    return hits;
}

struct lru_node {
    uint32_t newer, older;
    bool is_linked;
};

/* nodes[end] closes the ring */
static void lru_unlink(struct lru_node *nodes, uint32_t at)
{
    nodes[nodes[at].newer].older = nodes[at].older;
    nodes[nodes[at].older].newer = nodes[at].newer;
    nodes[at].is_linked = false;
}

static void lru_link(struct lru_node *nodes, uint32_t end, uint32_t at)
{
    nodes[at] = (struct lru_node){.newer = end, .older = nodes[end].older, .is_linked = true};
    nodes[nodes[at].older].newer = at;
    nodes[end].older = at;
}

static size_t play_lru(const struct trace *trace, size_t room)
{
    uint32_t end = (uint32_t)trace->object_count;
    struct lru_node *nodes = must(trace->object_count + 1, sizeof(*nodes));
    size_t hits = 0, count = 0;

    nodes[end] = (struct lru_node){end, end, true};
    for (size_t i = 0; i < trace->count; i++) {
        uint32_t object = trace->objects[i];

        if (nodes[object].is_linked) {
            hits += counts(trace, i);
            lru_unlink(nodes, object);
        } else if (count == room) {
            lru_unlink(nodes, nodes[end].newer); /* the ring's first is the one not used for longest */
        } else {
            count++;
        }
        lru_link(nodes, end, object);
    }
    free(nodes);
    return hits;
}

struct use { /* of an object that is in the cache, or was */
    uint32_t next, object;
};

struct heap { /* the one whose next use is furthest away on top */
    struct use *uses;
    size_t count;
};

static void heap_push(struct heap *heap, struct use use)
{
    size_t at = heap->count++;

    for (; at > 0 && heap->uses[(at - 1) / 2].next < use.next; at = (at - 1) / 2)
        heap->uses[at] = heap->uses[(at - 1) / 2];
    heap->uses[at] = use;
}

static struct use heap_pop(struct heap *heap)
{
    struct use top = heap->uses[0], last = heap->uses[--heap->count];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < heap->count) {
        if (child + 1 < heap->count && heap->uses[child + 1].next > heap->uses[child].next)
            child++;
        if (heap->uses[child].next <= last.next)
            break;
        heap->uses[at] = heap->uses[child];
        at = child;
    }
    heap->uses[at] = last;
    return top;
}

/* When each request's object is asked for again; UINT32_MAX: never. */
static uint32_t *next_uses(const struct trace *trace)
{
    uint32_t *next = must(trace->count, sizeof(*next)), *seen = must(trace->object_count, sizeof(*seen));

    memset(seen, 0xff, trace->object_count * sizeof(*seen));
    for (size_t i = trace->count; i-- > 0;) {
        next[i] = seen[trace->objects[i]];
        seen[trace->objects[i]] = (uint32_t)i;
    }
    free(seen);
    return next;
}

static size_t play_optimum(const struct trace *trace, size_t room)
{
    uint32_t *next = next_uses(trace),
             *due = must(trace->object_count, sizeof(*due)); /* 0: not in the cache */
    struct heap heap = {must(trace->count + 1, sizeof(struct use)), 0};
    size_t hits = 0, count = 0;

    for (size_t i = 0; i < trace->count; i++) {
        uint32_t object = trace->objects[i];

        if (due[object] != 0)
            hits += counts(trace, i);
        else
            count++;
        due[object] = next[i];
        heap_push(&heap, (struct use){next[i], object});
        while (count > room) { /* the newcomer is one of those who may go */
            struct use furthest = heap_pop(&heap);

            if (due[furthest.object] != furthest.next) /* it was asked for since */
                continue;
            due[furthest.object] = 0;
            count--;
        }
    }
    free(heap.uses);
    free(due);
    free(next);
    return hits;
}

/* ---- the table ---- */

static double percent(size_t hits, const struct trace *trace)
{
    return 100.0 * (double)hits / (double)(trace->count - trace->count / 10);
}

/* False where a promise is broken. */
static bool row(size_t requests, double skew, bool is_crawled, size_t room)
{
    struct trace trace = trace_new(requests, skew, is_crawled);
    double lru = percent(play_lru(&trace, room), &trace), sieve = percent(play_sieve(&trace, room), &trace),
           optimum = percent(play_optimum(&trace, room), &trace);

    printf("| %.1f%s | %g %% | %.1f %% | %.1f %% | %.1f %% |\n", skew, is_crawled ? ", and a crawler" : "",
           100.0 * (double)room / OBJECTS, lru, sieve, optimum);
    free(trace.objects);
    return sieve >= lru && sieve <= optimum && lru <= optimum;
}

int main(int argc, char **argv)
{
    static const size_t rooms[] = {OBJECTS / 1000, OBJECTS / 100, OBJECTS / 10};
    size_t requests = argc > 1 ? strtoul(argv[1], NULL, 10) : REQUESTS;
    bool is_kept = true;

    if (requests < 1000 || requests > UINT32_MAX / 2) {
        fprintf(stderr, "usage: bench_sieve [requests [seed]]\n");
        return 2;
    }
    dice = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    printf("| skew | the cache holds | LRU | SIEVE | optimum |\n|---|---|---|---|---|\n");
    for (int tenths = 7; tenths <= 12; tenths++)
        for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++)
            is_kept = row(requests, tenths / 10.0, false, rooms[i]) && is_kept;
    for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++)
        is_kept = row(requests, 1.0, true, rooms[i]) && is_kept;
    return is_kept ? 0 : 1;
}
