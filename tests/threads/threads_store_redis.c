/* Two workers of one process, and the subscriber's thread between them, on one real Redis: for the thread
 * sanitizer, and for what must hold whatever the interleaving: nothing served that was invalidated before the
 * lookup, limits exact.
 */
#include "log.h"
#include "loop.h"
#include "objects.h"
#include "redis_fixture.h"
#include "settings.h"
#include "store.h"

#include <pthread.h>

enum { WORKERS = 2, KEYS = 8, ROUNDS = 3000, UNDER_WAY = 8, LIMIT = 500, MIB = 1 << 20, MAX_TURNS = 200000 };

static struct near *near;
static struct store_redis *redis;
static _Atomic int64_t acknowledged[KEYS]; /* the highest epoch at which a key's tag was invalidated */
static _Atomic int64_t admitted, wakes, served, faults;
static _Atomic int finished;

static struct limit_rule rule = {
    .name = (char *)"all", .terms = {.limit = LIMIT, .window_us = 3600000000, .tick_us = 1000}, .cost = 1};
static const struct limit_charge charge = {.rule = &rule, .terms = &rule.terms, .principal = {9}, .cost = 1};
static const struct admit_tuple tuple = {&charge, 1, 1};

#define MUST(claim)                                                                                          \
    do {                                                                                                     \
        if (!(claim)) {                                                                                      \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #claim);                              \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

struct worker {
    struct loop *loop;
    struct store *store;
    uint32_t random;
    int started, under_way;
};

struct job {
    struct worker *worker;
    uint64_t number;
    int64_t known; /* invalidations acknowledged when it began */
    char tag[8];
};

static uint32_t roll(struct worker *worker, uint32_t sides)
{
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 17;
    worker->random ^= worker->random << 5;
    return worker->random % sides;
}

static void end(struct job *job)
{
    job->worker->under_way--;
    free(job);
}

static void on_filled(void *arg, enum fault fault, enum fill_result result)
{
    struct job *job = arg;

    (void)result;
    faults += fault != FAULT_NONE;
    end(job);
}

static void on_released(void *arg, enum fault fault, bool was_held)
{
    struct job *job = arg;

    (void)was_held;
    faults += fault != FAULT_NONE;
    end(job);
}

static void load(struct job *job, const struct lookup_answer *answer)
{
    struct lifetimes lifetimes = {.fresh_ms = 5, .stale_ms = 3000, .error_ms = 3000};
    struct key32 key = test_key(job->number);
    struct object *object;

    if (roll(job->worker, 5) == 0) {
        store_release(job->worker->store, &key, answer->load, (enum release_reason)roll(job->worker, 3), 502,
                      5, on_released, job);
        return;
    }
    object =
        test_object(job->number, answer->epoch, job->tag, 2000, 5, 3000, 3000, loop_now(job->worker->loop));
    store_fill(job->worker->store, &key, answer->load, object, &lifetimes, on_filled, job);
    object_release(&object);
}

static void on_lookup(void *arg, enum fault fault, const struct lookup_answer *answer)
{
    struct job *job = arg;

    faults += fault != FAULT_NONE;
    if (fault != FAULT_NONE) {
        end(job);
        return;
    }
    if (answer->object != NULL) {
        MUST(answer->object->epoch >= job->known);
        near_put(near, answer->object);
        served++;
    }
    if ((answer->kind == LOOKUP_LOAD || answer->kind == LOOKUP_STALE) && answer->load.lo != 0)
        load(job, answer);
    else
        end(job);
}

static void on_invalidated(void *arg, enum fault fault, int64_t epoch)
{
    struct job *job = arg;
    int64_t before = atomic_load(&acknowledged[job->number]);

    faults += fault != FAULT_NONE;
    while (fault == FAULT_NONE && before < epoch &&
           !atomic_compare_exchange_weak(&acknowledged[job->number], &before, epoch))
        ;
    end(job);
}

static void on_admitted(void *arg, enum fault fault, const struct admit_answer *answers, size_t count)
{
    faults += fault != FAULT_NONE;
    for (size_t i = 0; i < count; i++)
        admitted += answers[i].admitted;
    end(arg);
}

static void on_wake(void *arg, const struct key32 *key)
{
    (void)arg;
    (void)key;
    wakes++;
}

static void start_job(struct worker *worker)
{
    struct job *job = calloc(1, sizeof(*job));
    struct slice tag = {job->tag, 2};
    struct store_call *call;

    job->worker = worker;
    job->number = roll(worker, KEYS);
    job->known = atomic_load(&acknowledged[job->number]);
    snprintf(job->tag, sizeof(job->tag), "t%d", (int)job->number);
    worker->under_way++;
    worker->started++;
    switch (roll(worker, 8)) {
    case 0: store_invalidate(worker->store, &tag, 1, 0, on_invalidated, job); return;
    case 1:
    case 2: store_admit(worker->store, &tuple, 1, on_admitted, job); return;
    case 3: { /* nobody wants the answer after all */
        struct lookup_ask ask = {.key = test_key(job->number), .lease_ms = 2000};
        call = store_lookup(worker->store, &ask, on_lookup, job);
        store_cancel(&call);
        end(job);
        return;
    }
    default: {
        struct lookup_ask ask = {
            .key = test_key(job->number), .tags = &tag, .tag_count = 1, .lease_ms = 2000};
        struct object *held = near_find(near, &ask.key, loop_now(worker->loop));

        object_release(&held);
        store_lookup(worker->store, &ask, on_lookup, job);
    }
    }
}

static void *work(void *arg)
{
    struct worker *worker = arg;

    worker->loop = loop_new();
    worker->store = store_redis_join(redis, worker->loop);
    worker->store->on_wake = on_wake;
    for (int turns = 0; !worker->store->is_up || !worker->store->is_pushed; turns++) {
        MUST(turns < MAX_TURNS);
        loop_turn(worker->loop, 5);
    }
    for (int turns = 0; worker->started < ROUNDS || worker->under_way > 0; turns++) {
        MUST(turns < MAX_TURNS);
        while (worker->started < ROUNDS && worker->under_way < UNDER_WAY)
            start_job(worker);
        loop_turn(worker->loop, 5);
    }
    finished++;
    while (finished < WORKERS) /* wakes still come */
        loop_turn(worker->loop, 5);
    worker->store->ops->free(worker->store);
    loop_turn(worker->loop, 0);
    loop_free(worker->loop);
    return NULL;
}

int main(void)
{
    struct redis_fixture fixture = redis_fixture_start();
    struct settings settings = {.store = {.kind = STORE_REDIS,
                                          .host = (char *)"localhost",
                                          .port = fixture.port,
                                          .prefix = (char *)"w",
                                          .timeout_ms = 10000}};
    struct worker workers[WORKERS] = {{.random = 1}, {.random = 2}};
    pthread_t threads[WORKERS];

    log_set_level(LOG_ERROR);
    near = near_new(4 * MIB, MIB);
    redis = store_redis_new(&settings, near);
    for (int i = 0; i < WORKERS; i++)
        MUST(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    store_redis_free(redis);
    near_free(near);
    redis_fixture_stop(&fixture);
    MUST(faults == 0);
    MUST(admitted <= LIMIT && admitted > 0);
    MUST(served > 0 && wakes > 0);
    printf("%d operations, %d served, %d wakes, %d admitted\n", WORKERS * ROUNDS, (int)served, (int)wakes,
           (int)admitted);
    return 0;
}
