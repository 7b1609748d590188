/* Near, by several threads at once: what an invalidation has taken is not found by any find that begins after
 * it returned, what a soft one has is not fresh, what is held back is not found at all, the budget holds, and every
 * object is freed once.
 */
#include "near.h"
#include "../support/objects.h"
#include "../support/thread_claims.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4, STEPS = 150000, KEYS = 300, TAGS = 12, BUDGET_BYTES = 128 * 1024 };

static const struct mono_ms NOW = {1000000};
static const char *const tags[TAGS] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"};

static struct near *near;
static _Atomic int64_t recorded[TAGS],
    softly[TAGS]; /* the highest epochs that near_invalidate() or near_apply() returned with */
static _Atomic long found_total, missed_total;

static void raise_to(_Atomic int64_t *highest, int64_t epoch)
{
    int64_t known = atomic_load(highest);

    while (known < epoch && !atomic_compare_exchange_weak(highest, &known, epoch))
        ;
}

static void invalidate(int tag, bool by_stamp)
{
    struct slice name = slice_text(tags[tag]);
    int64_t epoch;

    if (by_stamp) { /* as a shared store tells it */
        struct tag_stamp stamp = {name, near_epoch(near) + 1, false};

        epoch = stamp.epoch;
        near_apply(near, epoch, 0, &stamp, 1);
    } else {
        epoch = near_invalidate(near, &name, 1, 0, 0);
    }
    raise_to(&recorded[tag], epoch);
}

static void invalidate_softly(int tag)
{
    struct slice name = slice_text(tags[tag]);

    raise_to(&softly[tag], near_invalidate(near, &name, 1, 1, 0));
}

static void hold_back(uint32_t k)
{
    struct slice name = slice_text(tags[k % TAGS]);
    struct key32 key = test_key(k);

    near_hold_back(near, &name, 1);
    MUST(near_find(near, &key, NOW) == NULL);
    near_let_go(near, &name, 1);
}

/* Key k always carries tag k % TAGS. */
static void load(uint32_t k, uint32_t *random)
{
    int64_t epoch = near_epoch(near);
    struct object *object =
        test_object(k, epoch, tags[k % TAGS], next_random(random) % 2000, 1000, 1000, 1000, NOW);

    near_put(near, object);
    object_release(&object);
}

static void find(uint32_t k)
{
    struct key32 key = test_key(k);
    int64_t taken = atomic_load(&recorded[k % TAGS]), stale = atomic_load(&softly[k % TAGS]);
    struct object *object = near_find(near, &key, NOW);

    if (object == NULL) {
        atomic_fetch_add_explicit(&missed_total, 1, memory_order_relaxed);
        return;
    }
    MUST(object->epoch >= taken);
    MUST(object->epoch >= stale || object->fresh_until.ms <= NOW.ms);
    MUST(memcmp(&object->key, &key, sizeof(key)) == 0);
    MUST(object->body_bytes == 0 || object->blocks[0]->bytes[object->body_bytes - 1] == 'x');
    atomic_fetch_add_explicit(&found_total, 1, memory_order_relaxed);
    object_release(&object);
}

static void *run(void *arg)
{
    uint32_t random = (uint32_t)(uintptr_t)arg * 2654435761u + 1;

    for (int step = 0; step < STEPS; step++) {
        uint32_t k = next_random(&random) % KEYS, what = next_random(&random) % 100;

        if (what < 3)
            invalidate((int)(next_random(&random) % TAGS), what == 0);
        else if (what < 5)
            invalidate_softly((int)(next_random(&random) % TAGS));
        else if (what < 6)
            hold_back(k);
        else if (what < 24)
            load(k, &random);
        else if (what < 25)
            near_drop(near, &(struct key32){{0}});
        else
            find(k);
        if (what == 99 && step % 50 == 0)
            MUST(near_count(near).objects <= KEYS);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];

    near = near_new(BUDGET_BYTES, BUDGET_BYTES);
    near_date_epochs(near, 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        MUST(pthread_create(&threads[i], NULL, run, (void *)(i + 1)) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    MUST(near_count(near).bytes <= BUDGET_BYTES);
    MUST(near_count(near).invalidated > 0);
    MUST(near_count(near).evicted > 0);
    MUST(atomic_load(&found_total) > 1000);
    printf("found %ld, missed %ld, evicted %lu\n", atomic_load(&found_total), atomic_load(&missed_total),
           (unsigned long)near_count(near).evicted);
    near_free(near);
    return 0;
}
