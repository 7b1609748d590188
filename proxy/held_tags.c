/* Held tags: see held_tags.h. */
#include "held_tags.h"

#include "check.h"
#include "memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { CHAINS = 4096 };

struct held {
    struct held *next;
    uint64_t print;
    size_t holds;
};

struct held_tags {
    pthread_mutex_t lock;
    struct held *chains[CHAINS];
    uint64_t secret;
    _Atomic size_t count, all; /* tags that are held; holds of everything */
};

/* The link to the tag, or to NULL at its chain's end; under the lock. */
static struct held **find(struct held_tags *held, uint64_t print)
{
    uint64_t hash = (print ^ held->secret) * (held->secret | 1);
    struct held **at = &held->chains[(hash >> 32) % CHAINS];

    while (*at != NULL && (*at)->print != print)
        at = &(*at)->next;
    return at;
}

void held_tags_hold(struct held_tags *held, uint64_t print)
{
    pthread_mutex_lock(&held->lock);
    struct held **at = find(held, print);

    if (*at == NULL) {
        *at = must_alloc(sizeof(**at));
        (*at)->print = print;
        atomic_fetch_add(&held->count, 1);
    }
    (*at)->holds++;
    pthread_mutex_unlock(&held->lock);
}

void held_tags_release(struct held_tags *held, uint64_t print)
{
    pthread_mutex_lock(&held->lock);
    struct held **at = find(held, print), *found = *at;

    CHECK(found != NULL);
    if (--found->holds == 0) {
        *at = found->next;
        free(found);
        atomic_fetch_sub(&held->count, 1);
    }
    pthread_mutex_unlock(&held->lock);
}

void held_tags_hold_all(struct held_tags *held)
{
    atomic_fetch_add(&held->all, 1);
}

void held_tags_release_all(struct held_tags *held)
{
    size_t before = atomic_fetch_sub(&held->all, 1);

    CHECK(before > 0);
}

bool held_tags_cover(struct held_tags *held, const uint64_t *prints, size_t count)
{
    bool covers = false;

    if (atomic_load(&held->all) > 0)
        return true;
    if (atomic_load(&held->count) == 0)
        return false;
    pthread_mutex_lock(&held->lock);
    for (size_t i = 0; i < count && !covers; i++)
        covers = *find(held, prints[i]) != NULL;
    pthread_mutex_unlock(&held->lock);
    return covers;
}

struct held_tags *held_tags_new(uint64_t secret)
{
    struct held_tags *held = must_alloc(sizeof(*held));

    held->secret = secret;
    pthread_mutex_init(&held->lock, NULL);
    return held;
}

void held_tags_free(struct held_tags *held)
{
    for (size_t i = 0; i < CHAINS; i++)
        while (held->chains[i] != NULL) {
            struct held *next = held->chains[i]->next;

            free(held->chains[i]);
            held->chains[i] = next;
        }
    pthread_mutex_destroy(&held->lock);
    free(held);
}
