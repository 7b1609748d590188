/* Census: see census.h. */
#include "census.h"

#include "digest.h"
#include "distinct.h"
#include "memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { MINUTE_MS = 60000, MINUTES = 3, MOST_NAMES = 1000 };

struct minute {
    _Atomic int64_t number; /* since the clock began, from 1; 0: never used */
    _Atomic uint8_t ranks[DISTINCT_PLACES];
};

struct census {
    struct census *next;
    char *limit;
    struct minute minutes[MINUTES];
};

static struct {
    pthread_mutex_t lock; /* over the list, and over the beginning of a minute */
    struct census *first;
    size_t count;
    uint64_t secret; /* callers choose their keys, and must not choose their ranks */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct census *census_of(const char *limit)
{
    struct census *census;

    pthread_mutex_lock(&all.lock);
    if (all.secret == 0)
        digest_random(&all.secret, sizeof(all.secret));
    for (census = all.first; census != NULL && strcmp(census->limit, limit) != 0; census = census->next)
        ;
    if (census == NULL && all.count < MOST_NAMES) {
        census = must_alloc(sizeof(*census));
        census->limit = must_copy(limit, strlen(limit));
        census->next = all.first;
        all.first = census;
        all.count++;
    }
    pthread_mutex_unlock(&all.lock);
    return census;
}

static int64_t number_of(struct mono_ms now)
{
    return now.ms / MINUTE_MS + 1;
}

static void begin(struct minute *minute, int64_t number)
{
    pthread_mutex_lock(&all.lock);
    if (atomic_load(&minute->number) < number) {
        for (size_t i = 0; i < DISTINCT_PLACES; i++)
            atomic_store_explicit(&minute->ranks[i], 0, memory_order_relaxed);
        atomic_store(&minute->number, number);
    }
    pthread_mutex_unlock(&all.lock);
}

static uint64_t mix(const unsigned char principal[16])
{
    uint64_t words[2];

    memcpy(words, principal, sizeof(words));
    words[0] = (words[0] ^ all.secret) * UINT64_C(0x9E3779B97F4A7C15);
    words[0] = (words[0] ^ words[0] >> 32 ^ words[1]) * UINT64_C(0xD6E8FEB86659FD93);
    return words[0] ^ words[0] >> 32;
}

void census_note(struct census *census, const unsigned char principal[16], struct mono_ms now)
{
    int64_t number = number_of(now);
    struct minute *minute;
    uint8_t rank, known;
    size_t place;

    if (census == NULL)
        return;
    minute = &census->minutes[number % MINUTES];
    if (atomic_load_explicit(&minute->number, memory_order_acquire) < number)
        begin(minute, number);
    place = distinct_place(mix(principal), &rank);
    known = atomic_load_explicit(&minute->ranks[place], memory_order_relaxed);
    while (known < rank && !atomic_compare_exchange_weak_explicit(&minute->ranks[place], &known, rank,
                                                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

int64_t census_count(struct census *census, struct mono_ms now)
{
    uint8_t ranks[DISTINCT_PLACES] = {0};
    int64_t number = number_of(now);

    for (size_t m = 0; m < MINUTES; m++) {
        struct minute *minute = &census->minutes[m];
        int64_t its = atomic_load(&minute->number);

        if (its != number && its != number - 1)
            continue;
        for (size_t i = 0; i < DISTINCT_PLACES; i++) {
            uint8_t rank = atomic_load_explicit(&minute->ranks[i], memory_order_relaxed);

            ranks[i] = rank > ranks[i] ? rank : ranks[i];
        }
    }
    return distinct_estimate(ranks);
}
