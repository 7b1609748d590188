/* Server: see server.h. The control thread: it starts the workers, listens on the admin port, and is told of
 * signals by letters. */
#include "server.h"
#include "admin.h"
#include "check.h"
#include "journal.h"
#include "limit_gauges.h"
#include "listener.h"
#include "log.h"
#include "loop.h"
#include "memory.h"
#include "origin.h"
#include "peers.h"
#include "settings.h"
#include "stats.h"
#include "worker.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { HEAP_KEPT_BYTES = 16 << 20, HEAP_STEP_BYTES = 1 << 20 };
enum { RESOLVER_THREADS = 2, TURN_MS = 1000, FALLBACK_NEAR_BYTES = 1 << 20, EXIT_CONFIGURATION = 2 };

struct server {
    const char *config_path;
    struct settings *settings;
    struct loop *loop;
    struct stats *stats;
    struct commons commons;
    struct admin *admin;
    struct limit_gauges *gauges;
    struct worker **workers;
    size_t worker_count;
    bool is_stopping;
    pthread_t signal_thread;
    sigset_t signals;
};

/* ---- shared things ---- */

static int64_t read_near_objects(void *arg)
{
    return (int64_t)near_count(arg).objects;
}

static int64_t read_near_bytes(void *arg)
{
    return (int64_t)near_count(arg).bytes;
}

static int64_t read_near_evicted(void *arg)
{
    return (int64_t)near_count(arg).evicted;
}

/* False: the journal cannot be used, which was said. */
static bool open_commons(struct server *server)
{
    const struct settings *settings = server->settings;
    struct commons *commons = &server->commons;
    bool is_memory = settings->store.kind == STORE_MEMORY;

    if (settings->store.journal_path != NULL) {
        commons->journal = journal_open(settings->store.journal_path, stderr);
        if (commons->journal == NULL)
            return false;
    }
    /* With the memory store the near cache is the store of entries: what routes admit must fit (their
     * max_object), within reason. */
    commons->near = near_new(settings->near_cache_bytes,
                             is_memory ? settings->near_cache_bytes / 4 : settings->near_object_bytes);
    commons->resolver = resolver_new(RESOLVER_THREADS);
    commons->peers = peers_new();
    if (is_memory)
        commons->memory = store_memory_new(commons->near);
    else {
        commons->redis = store_redis_new(settings, commons->near);
        commons->fallback_near = near_new(FALLBACK_NEAR_BYTES, FALLBACK_NEAR_BYTES / 4);
        commons->fallback = store_memory_new(commons->fallback_near);
    }
    server->gauges = limit_gauges_new(is_memory ? commons->memory : commons->fallback);
    limit_gauges_follow(server->gauges, settings);
    stats_probe(STATS_near_objects, NULL, read_near_objects, commons->near);
    stats_probe(STATS_near_bytes, NULL, read_near_bytes, commons->near);
    stats_probe(STATS_near_evicted, NULL, read_near_evicted, commons->near);
    return true;
}

static void close_commons(struct server *server)
{
    struct commons *commons = &server->commons;

    limit_gauges_free(server->gauges);
    stats_probe(STATS_near_objects, NULL, NULL, NULL);
    stats_probe(STATS_near_bytes, NULL, NULL, NULL);
    stats_probe(STATS_near_evicted, NULL, NULL, NULL);
    if (commons->redis != NULL)
        store_redis_free(commons->redis);
    if (commons->memory != NULL)
        store_memory_free(commons->memory);
    if (commons->fallback != NULL) {
        store_memory_free(commons->fallback);
        near_free(commons->fallback_near);
    }
    near_free(commons->near);
    resolver_free(commons->resolver);
    peers_free(commons->peers);
    journal_close(commons->journal);
}

/* ---- workers ---- */

/* All sockets are bound before anything starts, so that a taken port is an error of the start and not of one
 * worker. */
static bool bind_all(struct server *server, int **fds_out, int *admin_fd)
{
    const struct settings *settings = server->settings;
    int *fds = must_alloc(settings->listen_count * (size_t)settings->workers * sizeof(*fds));

    *fds_out = fds;
    if (!listener_open(&settings->admin, 1, admin_fd, stderr))
        return false;
    for (size_t i = 0; i < settings->listen_count; i++)
        if (!listener_open(&settings->listens[i], settings->workers, fds + i * (size_t)settings->workers,
                           stderr))
            return false;
    return true;
}

static void start_workers(struct server *server, const int *fds)
{
    size_t workers = (size_t)server->settings->workers, listens = server->settings->listen_count;
    int *own = must_alloc(listens * sizeof(*own));

    server->workers = must_alloc(workers * sizeof(*server->workers));
    for (size_t w = 0; w < workers; w++) {
        for (size_t i = 0; i < listens; i++)
            own[i] = fds[i * workers + w];
        server->workers[w] = worker_start(&server->commons, server->settings, own, listens);
    }
    server->worker_count = workers;
    free(own);
}

static void *join_workers(void *arg)
{
    struct server *server = arg;

    for (size_t w = 0; w < server->worker_count; w++) {
        struct worker *worker =
            server->workers[w]; /* the control thread still sends orders by its own pointer */

        worker_join(&worker);
    }
    return NULL;
}

/* ---- signals ---- */

struct notice {
    struct letter letter;
    struct server *server;
    int signal;
};

static void count_reload(struct server *server, const char *outcome)
{
    stats_add(server->stats, stats_series(STATS_reloads, &outcome), 1);
}

static void reload(struct server *server)
{
    struct settings *fresh = settings_load(server->config_path, stderr);

    if (fresh == NULL || !settings_may_replace(server->settings, fresh, stderr)) {
        log_error("reload: %s is refused, the old configuration stays in force", server->config_path);
        count_reload(server, "refused");
        settings_release(&fresh);
        return;
    }
    log_set_level(fresh->log.level);
    for (size_t w = 0; w < server->worker_count; w++)
        worker_reload(server->workers[w], fresh);
    admin_set_settings(server->admin, fresh);
    limit_gauges_follow(server->gauges, fresh);
    settings_release(&server->settings);
    server->settings = fresh;
    count_reload(server, "accepted");
    log_info("reload: %s is in force for new requests", server->config_path);
}

static void on_signal(struct letter *letter, void *arg)
{
    struct notice *notice = arg;
    struct server *server = notice->server;
    int signal = notice->signal;

    (void)letter;
    free(notice);
    if (signal == SIGHUP) {
        if (!server->is_stopping)
            reload(server);
        return;
    }
    if (server->is_stopping)
        return;
    log_info("stopping: requests under way may finish");
    server->is_stopping = true;
    admin_set_ready(server->admin, false);
    for (size_t w = 0; w < server->worker_count; w++)
        worker_drain(server->workers[w]);
}

/* Signals are blocked in every thread and taken here, so that none interrupts anything. SIGUSR1 ends this
 * thread. */
static void *wait_for_signals(void *arg)
{
    struct server *server = arg;
    int signal;

    while (sigwait(&server->signals, &signal) == 0 && signal != SIGUSR1) {
        struct notice *notice = must_alloc(sizeof(*notice));

        notice->letter.deliver = on_signal;
        notice->letter.arg = notice;
        notice->server = server;
        notice->signal = signal;
        loop_post(server->loop, &notice->letter);
    }
    return NULL;
}

static void take_signals(struct server *server)
{
    sigemptyset(&server->signals);
    sigaddset(&server->signals, SIGTERM);
    sigaddset(&server->signals, SIGINT);
    sigaddset(&server->signals, SIGHUP);
    sigaddset(&server->signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &server->signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a log or journal at the limit of its size is a full disk, not our end */
}

/* ---- life ---- */

/* Each client may need two descriptors; the hard limit is what we are allowed. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* What a turn allocates and frees again is not to be given to the kernel in between: the page faults cost
 * more than the rest. */
static void keep_heap(void)
{
    mallopt(M_TRIM_THRESHOLD, HEAP_KEPT_BYTES);
    mallopt(M_TOP_PAD, HEAP_STEP_BYTES);
}

static bool workers_have_ended(pthread_t joiner)
{
    return pthread_tryjoin_np(joiner, NULL) == 0;
}

static void warn_of_few_descriptors(const struct settings *settings)
{
    int connections = affordable_connections(settings);

    if (connections < settings->client.max_connections)
        log_warn("client.max_connections is %d, but the process may have so few open files that only %d are "
                 "let in",
                 settings->client.max_connections, connections);
}

static void serve(struct server *server)
{
    pthread_t joiner;
    struct mono_ms drain_until;

    CHECK(pthread_create(&joiner, NULL, join_workers, server) == 0);
    CHECK(pthread_create(&server->signal_thread, NULL, wait_for_signals, server) == 0);
    admin_set_ready(server->admin, true);
    log_info("weir %s: %d workers, %zu routes, listening on %s port %d, admin on %s port %d", WEIR_VERSION,
             server->settings->workers, server->settings->route_count, server->settings->listens[0].host,
             server->settings->listens[0].port, server->settings->admin.host, server->settings->admin.port);
    warn_of_few_descriptors(server->settings);
    while (!server->is_stopping)
        loop_turn(server->loop, TURN_MS);
    drain_until = mono_after(loop_now(server->loop), server->settings->drain_timeout_ms);
    while (!workers_have_ended(joiner))
        loop_turn(server->loop, 20);
    admin_stop(server->admin);
    while (!admin_has_ended(server->admin) ||
           (admin_kept(server->admin) > 0 && loop_now(server->loop).ms < drain_until.ms))
        loop_turn(server->loop, 20);
    pthread_kill(server->signal_thread, SIGUSR1);
    pthread_join(server->signal_thread, NULL);
}

static void close_all(int *fds, const struct settings *settings, int admin_fd)
{
    for (size_t i = 0; i < settings->listen_count * (size_t)settings->workers; i++)
        close(fds[i]);
    close(admin_fd);
    free(fds);
}

static int run(struct server *server)
{
    int *fds = NULL, admin_fd = -1;

    if (!bind_all(server, &fds, &admin_fd)) {
        free(fds);
        return EXIT_FAILURE;
    }
    server->loop = loop_new();
    server->stats = stats_join();
    if (!open_commons(server)) {
        close_all(fds, server->settings, admin_fd);
        loop_free(server->loop);
        return EXIT_FAILURE;
    }
    server->admin = admin_start(server->loop, &server->commons, server->settings, admin_fd);
    start_workers(server, fds);
    free(fds);
    serve(server);
    admin_free(&server->admin);
    loop_turn(server->loop, 0); /* a signal or a wake may still be on its way */
    close_commons(server);
    loop_free(server->loop);
    free(server->workers);
    return EXIT_SUCCESS;
}

int server_run(const char *config_path)
{
    struct server server = {.config_path = config_path};
    int code;

    server.settings = settings_load(config_path, stderr);
    if (server.settings == NULL)
        return EXIT_CONFIGURATION;
    log_set_level(server.settings->log.level);
    take_signals(&server);
    raise_descriptor_limit();
    keep_heap();
    if (!access_log_open(&server.settings->log)) {
        settings_release(&server.settings);
        return EXIT_FAILURE;
    }
    code = run(&server);
    access_log_close();
    settings_release(&server.settings);
    return code;
}
