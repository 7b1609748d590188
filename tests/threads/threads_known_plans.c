/* Known plans, by several threads at once: whoever finds a plan after a change of it was heard, finds that one or a later one,
 * whichever answers of the store are on their way meanwhile, and nothing is found while changes cannot be heard.
 */
#include "known_plans.h"
#include "../support/thread_claims.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4, STEPS = 200000, CALLERS = 40 };

static struct known_plans *plans;
static _Atomic int64_t truth[CALLERS]; /* what the store says: a number that grows with each change */
static _Atomic int64_t heard[CALLERS]; /* the change that this process was told of last */
static _Atomic long found_total, missed_total;

static void name_caller(uint32_t number, unsigned char caller[PRINCIPAL_BYTES])
{
    memset(caller, 0, PRINCIPAL_BYTES);
    caller[0] = (unsigned char)(number % 3); /* so that they share few sets */
    caller[5] = (unsigned char)number;
}

static struct plan_name name_of(int64_t version)
{
    char text[24];

    return plan_name_of(slice_of(text, (size_t)snprintf(text, sizeof(text), "%lld", (long long)version)));
}

static void raise(_Atomic int64_t *what, int64_t to)
{
    int64_t known = atomic_load(what);

    while (known < to && !atomic_compare_exchange_weak(what, &known, to))
        ;
}

static void change(uint32_t number)
{
    unsigned char caller[PRINCIPAL_BYTES];
    int64_t version = atomic_fetch_add(&truth[number], 1) + 1;

    name_caller(number, caller);
    if (version % 16 == 0)
        known_plans_doubt_all(plans);
    else
        known_plans_doubt(plans, caller);
    raise(&heard[number], version);
}

/* Nobody is told of this one, and whoever listens knows that he cannot hear. */
static void change_unheard(uint32_t number)
{
    int64_t version;

    known_plans_set_told(plans, false);
    version = atomic_fetch_add(&truth[number], 1) + 1;
    raise(&heard[number], version);
    known_plans_set_told(plans, true);
}

static void look(uint32_t number)
{
    unsigned char caller[PRINCIPAL_BYTES];
    int64_t at_least = atomic_load(&heard[number]);
    struct plan_name name;
    char text[PLAN_NAME_MAX_BYTES + 2] = "";

    name_caller(number, caller);
    if (known_plans_find(plans, caller, 0, &name)) {
        memcpy(text, name.text, name.len);
        MUST(atoll(text) >= at_least);
        atomic_fetch_add_explicit(&found_total, 1, memory_order_relaxed);
        return;
    }
    uint64_t mark = known_plans_mark(plans, caller);
    name = name_of(atomic_load(&truth[number]));
    if (number % 2 == 0)
        sched_yield(); /* a slow answer */
    known_plans_learn(plans, caller, mark, &name, INT64_MAX);
    atomic_fetch_add_explicit(&missed_total, 1, memory_order_relaxed);
}

static void *run(void *arg)
{
    uint32_t random = (uint32_t)(uintptr_t)arg * 2654435761u + 1;

    for (int step = 0; step < STEPS; step++) {
        uint32_t number = next_random(&random) % CALLERS, what = next_random(&random) % 1000;

        if (what < 40)
            change(number);
        else if (what == 40 && arg == (void *)1) /* one thread hears for all */
            change_unheard(number);
        else
            look(number);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];

    plans = known_plans_new();
    known_plans_set_told(plans, true);
    for (uintptr_t i = 0; i < THREADS; i++)
        MUST(pthread_create(&threads[i], NULL, run, (void *)(i + 1)) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    MUST(atomic_load(&found_total) > 1000 && atomic_load(&missed_total) > 1000);
    printf("found %ld, missed %ld\n", atomic_load(&found_total), atomic_load(&missed_total));
    known_plans_free(plans);
    return 0;
}
