/* Worker: see worker.h. */
#include "worker.h"
#include "check.h"
#include "front.h"
#include "log.h"
#include "loop.h"
#include "memory.h"
#include "origin.h"
#include "site.h"
#include "story.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { MAX_LISTENERS = 32, TURN_MS = 1000, DRAIN_TURN_MS = 20, LAST_WORDS_MS = 1000 };
enum { DESCRIPTORS_OF_PROCESS = 24, DESCRIPTORS_OF_WORKER = 12 };

struct worker {
    pthread_t thread;
    struct commons *commons;
    struct settings *settings; /* what it starts with; later the story's site holds it */
    int fds[MAX_LISTENERS];
    size_t fd_count;
    pthread_barrier_t ready;
    /* the thread's own */
    struct loop *loop;
    struct stats *stats;
    struct story *story;
    struct front *front;
    bool is_draining, is_aborting;
    struct timer deadline;
};

struct store *commons_join(struct commons *commons, struct loop *loop)
{
    return commons->redis != NULL ? store_redis_join(commons->redis, loop)
                                  : store_memory_join(commons->memory, loop);
}

int affordable_connections(const struct settings *settings)
{
    int64_t own = DESCRIPTORS_OF_PROCESS + DESCRIPTORS_OF_WORKER * (int64_t)settings->workers, left,
            upstreams = 0;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > INT32_MAX)
        return settings->client.max_connections;
    for (size_t i = 0; i < settings->upstream_count; i++)
        upstreams += settings->upstreams[i].max_connections;
    left = (int64_t)limit.rlim_cur - own;
    left -= upstreams < left / 2 ? upstreams : left / 2;
    if (left >= settings->client.max_connections)
        return settings->client.max_connections;
    return left < 1 ? 1 : (int)left;
}

static struct front_limits limits_of(const struct settings *settings)
{
    int workers = settings->workers, connections = affordable_connections(settings);

    return (struct front_limits){
        .max_body_bytes = settings->max_body_bytes,
        .max_header_bytes = settings->client.max_header_bytes,
        .max_headers = settings->client.max_headers,
        .max_connections = (connections + workers - 1) / workers,
        .max_per_address = settings->client.max_per_address,
        .header_timeout_ms = settings->client.header_timeout_ms,
        .body_timeout_ms = settings->client.body_timeout_ms,
        .idle_timeout_ms = settings->client.idle_timeout_ms,
        .write_timeout_ms = settings->client.write_timeout_ms,
    };
}

static void set_up(struct worker *worker)
{
    struct commons *commons = worker->commons;
    struct store *fallback;
    struct front_limits limits;
    struct front_app app;

    worker->loop = loop_new();
    worker->stats = stats_join();
    fallback = commons->fallback == NULL ? NULL : store_memory_join(commons->fallback, worker->loop);
    worker->story =
        story_new(worker->loop, commons_join(commons, worker->loop), fallback,
                  site_new(worker->loop, commons->resolver, worker->settings, worker->stats), worker->stats);
    story_use_journal(worker->story, commons->journal);
    limits = limits_of(worker->settings);
    app = story_app(worker->story);
    worker->front = front_new(worker->loop, &limits, &app);
    front_share_peers(worker->front, commons->peers);
    front_set_stats(worker->front, worker->stats);
    for (size_t i = 0; i < worker->fd_count; i++)
        front_listen(worker->front, worker->fds[i]);
    settings_release(&worker->settings);
}

/* Of requests that were cut off, too: what they held is not to be lost to its lease. */
static void tell_of_holds(struct worker *worker)
{
    struct mono_ms give_up_at = mono_after(loop_now(worker->loop), LAST_WORDS_MS);

    while (story_is_settling(worker->story) && loop_now(worker->loop).ms < give_up_at.ms)
        loop_turn(worker->loop, DRAIN_TURN_MS);
}

static void tear_down(struct worker *worker)
{
    front_free(worker->front);
    story_stop(worker->story);
    loop_turn(worker->loop, 0); /* the store is told of locks given back */
    tell_of_holds(worker);
    story_free(worker->story);
    loop_turn(worker->loop, 0); /* the pools close; a wake may still be on its way */
    loop_turn(worker->loop, 0); /* and so may names that the pools asked for */
    loop_free(worker->loop);
}

static bool has_ended(const struct worker *worker)
{
    if (!worker->is_draining || front_connections(worker->front) > 0 || worker->story->exchanges > 0)
        return false;
    return worker->is_aborting || (story_is_quiet(worker->story) && story_is_recorded(worker->story));
}

static void *run(void *arg)
{
    struct worker *worker = arg;

    set_up(worker);
    pthread_barrier_wait(&worker->ready);
    while (!has_ended(worker))
        loop_turn(worker->loop, worker->is_draining ? DRAIN_TURN_MS : TURN_MS);
    timer_cancel(worker->loop, &worker->deadline);
    tear_down(worker);
    return NULL;
}

struct worker *worker_start(struct commons *commons, struct settings *settings, const int *fds,
                            size_t fd_count)
{
    struct worker *worker = must_alloc(sizeof(*worker));

    CHECK(fd_count <= MAX_LISTENERS);
    worker->commons = commons;
    worker->settings = settings_hold(settings);
    memcpy(worker->fds, fds, fd_count * sizeof(*fds));
    worker->fd_count = fd_count;
    pthread_barrier_init(&worker->ready, NULL, 2);
    CHECK(pthread_create(&worker->thread, NULL, run, worker) == 0);
    pthread_barrier_wait(&worker->ready);
    return worker;
}

/* ---- letters from the control thread ---- */

struct order {
    struct letter letter;
    struct worker *worker;
    struct settings *settings;
};

static void send_order(struct worker *worker, struct settings *settings,
                       void (*deliver)(struct letter *, void *))
{
    struct order *order = must_alloc(sizeof(*order));

    order->letter.deliver = deliver;
    order->letter.arg = order;
    order->worker = worker;
    order->settings = settings == NULL ? NULL : settings_hold(settings);
    loop_post(worker->loop, &order->letter);
}

static void on_reload(struct letter *letter, void *arg)
{
    struct order *order = arg;
    struct worker *worker = order->worker;
    struct front_limits limits = limits_of(order->settings);

    (void)letter;
    front_set_limits(worker->front, &limits);
    story_set_site(worker->story,
                   site_new(worker->loop, worker->commons->resolver, order->settings, worker->stats));
    settings_release(&order->settings);
    free(order);
}

void worker_reload(struct worker *worker, struct settings *settings)
{
    send_order(worker, settings, on_reload);
}

static void on_deadline(void *arg)
{
    struct worker *worker = arg;

    log_warn("drain: %zu connections and %zu loads did not end in time and are cut",
             front_connections(worker->front), flights_under_way(worker->story->flights));
    worker->is_aborting = true;
    front_abort(worker->front);
}

static void on_drain(struct letter *letter, void *arg)
{
    struct order *order = arg;
    struct worker *worker = order->worker;

    (void)letter;
    free(order);
    if (worker->is_draining)
        return;
    worker->is_draining = true;
    front_stop_listening(worker->front);
    front_drain(worker->front);
    story_drain(worker->story);
    timer_init(&worker->deadline, on_deadline, worker);
    timer_start(worker->loop, &worker->deadline,
                mono_after(loop_now(worker->loop), site_settings(worker->story->site)->drain_timeout_ms));
}

void worker_drain(struct worker *worker)
{
    send_order(worker, NULL, on_drain);
}

void worker_join(struct worker **taken)
{
    struct worker *worker = *taken;

    *taken = NULL;
    pthread_join(worker->thread, NULL);
    pthread_barrier_destroy(&worker->ready);
    free(worker);
}
