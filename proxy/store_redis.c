/* Store redis: the store that nodes share. See store.h for what it promises and docs/store.md for what it
 * keeps where.
 *
 * Each worker has a connection of its own; all operations of a turn leave in one write. What workers share is
 * small: the near cache, and a list of handles by which the subscriber's thread reaches them.
 */
#include "store_redis.h"

#include "clock.h"
#include "digest.h"
#include "log.h"
#include "entry.h"
#include "memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    LEAST_MAX_ENTRY_BYTES = 64 << 20, /* so that a reload may raise cache.max_object some way */
    MAX_REPLY_EXTRA_BYTES = 1 << 20,
    MAX_OUTPUT_EXTRA_BYTES = 64 << 20,
};

/* A worker's letter box outlives its handle for as long as letters to it are under way. */
struct mailbox {
    _Atomic int refs;
    struct redis_store *store; /* NULL once the handle is gone; the worker's own */
    struct letter correction;
    _Atomic bool has_correction; /* it is with the loop */
};

struct wake_letter {
    struct letter letter;
    struct mailbox *mailbox;
    struct key32 key;
};

/* ---- operations ---- */

void op_restart(struct redis_op *op)
{
    op->started_us = clock_mono_us();
    op->started = loop_now(op->store->loop);
    op->give_up_at = mono_after(op->started, op->store->shared->settings.timeout_ms);
}

void op_start(struct redis_op *op, struct redis_store *store, enum store_op_kind kind,
              void (*drop)(struct redis_op *))
{
    op->kind = kind;
    op->store = store;
    op->drop = drop;
    op_restart(op);
    op->next = store->ops;
    if (op->next != NULL)
        op->next->before = op;
    store->ops = op;
}

void op_settle(struct redis_op *op, enum fault fault)
{
    const struct store_redis *shared = op->store->shared;

    stats_observe(op->store->stats, shared->durations[op->kind], clock_mono_us() - op->started_us);
    if (fault != FAULT_NONE)
        stats_add(op->store->stats, shared->faults[op->kind][fault - FAULT_STORE_AWAY], 1);
}

void op_end(struct redis_op *op)
{
    *(op->before != NULL ? &op->before->next : &op->store->ops) = op->next;
    if (op->next != NULL)
        op->next->before = op->before;
    op->drop(op);
    free(op);
}

enum fault store_take_news(struct near *near, const struct redis_reply *reply,
                           const struct redis_reply **result_out)
{
    struct store_news news;

    if (!answer_read_news(reply, &news)) {
        log_warn("redis: a script's answer makes no sense; is something else using its keys?");
        return FAULT_STORE_NONSENSE;
    }
    near_apply(near, news.epoch, news.floor, news.stamps, news.stamp_count);
    *result_out = news.result;
    return FAULT_NONE;
}

void words_add_text(struct redis_words *words, const char *text)
{
    redis_words_borrow(words, slice_text(text));
}

void words_add_begin(struct redis_words *words, struct near *near)
{
    words_add_text(words, "");
    redis_words_add_int(words, near_epoch(near));
}

/* ---- what the subscriber tells the workers ---- */

static void mailbox_release(struct mailbox *mailbox)
{
    if (atomic_fetch_sub_explicit(&mailbox->refs, 1, memory_order_acq_rel) == 1)
        free(mailbox);
}

static void deliver_wake(struct letter *letter, void *arg)
{
    struct wake_letter *wake = arg;
    struct redis_store *store = wake->mailbox->store;

    (void)letter;
    if (store != NULL && store->store.on_wake != NULL)
        store->store.on_wake(store->store.on_wake_arg, &wake->key);
    mailbox_release(wake->mailbox);
    free(wake);
}

void store_redis_wake(struct store_redis *shared, const struct key32 *key)
{
    pthread_mutex_lock(&shared->lock);
    for (struct redis_store *each = shared->handles; each != NULL; each = each->next) {
        struct wake_letter *wake = must_alloc(sizeof(*wake));

        wake->letter = (struct letter){.deliver = deliver_wake, .arg = wake};
        wake->mailbox = each->mailbox;
        wake->key = *key;
        atomic_fetch_add_explicit(&each->mailbox->refs, 1, memory_order_relaxed);
        loop_post(each->loop,
                  &wake->letter); /* under the lock: the handle's loop lives as long as it is listed */
    }
    pthread_mutex_unlock(&shared->lock);
}

void store_redis_set_pushed(struct store_redis *shared, bool is_pushed)
{
    pthread_mutex_lock(&shared->lock);
    shared->is_pushed = is_pushed;
    for (struct redis_store *each = shared->handles; each != NULL; each = each->next)
        atomic_store(&each->store.is_pushed, is_pushed);
    pthread_mutex_unlock(&shared->lock);
}

static void deliver_correction(struct letter *letter, void *arg)
{
    struct mailbox *mailbox = arg;
    struct redis_store *store = mailbox->store;

    (void)letter;
    atomic_store(&mailbox->has_correction, false); /* what comes from here on is told anew */
    if (store != NULL && store->store.on_correction != NULL)
        store->store.on_correction(store->store.on_correction_arg);
    mailbox_release(mailbox);
}

void store_redis_note_correction(struct store_redis *shared)
{
    pthread_mutex_lock(&shared->lock);
    for (struct redis_store *each = shared->handles; each != NULL; each = each->next) {
        struct mailbox *mailbox = each->mailbox;

        atomic_fetch_add(&each->store.corrections, 1);
        if (atomic_exchange(&mailbox->has_correction, true))
            continue;
        mailbox->correction = (struct letter){.deliver = deliver_correction, .arg = mailbox};
        atomic_fetch_add_explicit(&mailbox->refs, 1, memory_order_relaxed);
        loop_post(each->loop, &mailbox->correction);
    }
    pthread_mutex_unlock(&shared->lock);
}

/* ---- handles ---- */

static void on_change(void *arg, bool is_up)
{
    struct redis_store *store = arg;

    atomic_store(&store->store.is_up, is_up);
    atomic_fetch_add(&store->shared->handles_up, is_up ? 1 : -1);
    if (is_up && store->was_up)
        stats_add(store->stats, store->shared->reconnects, 1);
    store->was_up = true;
    if (is_up)
        redis_store_give_back_orphans(store);
}

struct redis_options store_redis_options(const struct store_redis *shared, const char *name)
{
    const struct store_settings *settings = &shared->settings;

    return (struct redis_options){
        .host = settings->host,
        .port = settings->port,
        .unix_path = settings->unix_path,
        .database = settings->database,
        .user = settings->user,
        .password = settings->password,
        .name = name,
        .timeout_ms = settings->timeout_ms,
        .max_reply_bytes = shared->max_entry_bytes + MAX_REPLY_EXTRA_BYTES,
        .max_output_bytes = shared->max_entry_bytes + MAX_OUTPUT_EXTRA_BYTES,
    };
}

static void list_handle(struct store_redis *shared, struct redis_store *store)
{
    pthread_mutex_lock(&shared->lock);
    atomic_store(&store->store.is_pushed, shared->is_pushed);
    store->next = shared->handles;
    shared->handles = store;
    pthread_mutex_unlock(&shared->lock);
}

static void unlist_handle(struct store_redis *shared, struct redis_store *store)
{
    struct redis_store **at = &shared->handles;

    pthread_mutex_lock(&shared->lock);
    while (*at != store)
        at = &(*at)->next;
    *at = store->next;
    pthread_mutex_unlock(&shared->lock);
}

static void free_handle(struct store *handle)
{
    struct redis_store *store = (struct redis_store *)handle;

    unlist_handle(store->shared, store);
    store->mailbox->store = NULL;
    mailbox_release(store->mailbox);
    while (store->ops != NULL)
        op_end(store->ops);
    if (redis_link_is_up(store->link))
        atomic_fetch_sub(&store->shared->handles_up, 1);
    redis_link_free(store->link);
    redis_words_free(&store->words);
    free(store);
}

/* What other stores say is nothing to the one that all nodes share: whoever decided without it, decided for himself. */
static void heed_nobody(struct store *handle, const struct admit_tuple *tuples, size_t count,
                        const struct admit_answer *answers)
{
    (void)handle, (void)tuples, (void)count, (void)answers;
}

static const struct store_ops redis_store_ops = {
    .admit = redis_store_admit,
    .heed = heed_nobody,
    .settle = redis_store_settle,
    .lookup = redis_store_lookup,
    .fill = redis_store_fill,
    .release = redis_store_release,
    .renew = redis_store_renew,
    .invalidate = redis_store_invalidate,
    .invalidate_all = redis_store_invalidate_all,
    .read_plan = redis_store_read_plan,
    .write_plan = redis_store_write_plan,
    .reset_limit = redis_store_reset_limit,
    .free = free_handle,
};

/* No other handle of any process has this one. */
static void name_owner(char out[HOLD_OWNER_BYTES + 1])
{
    uint64_t number;

    digest_random(&number, sizeof(number));
    snprintf(out, HOLD_OWNER_BYTES + 1, "%016" PRIx64, number);
}

struct store *store_redis_join(struct store_redis *shared, struct loop *loop)
{
    struct redis_store *store = must_alloc(sizeof(*store));
    struct redis_options options = store_redis_options(shared, "weir");

    store->store.ops = &redis_store_ops;
    store->store.near = shared->near;
    store->store.plans = shared->plans;
    store->store.is_shared = true;
    store->shared = shared;
    store->loop = loop;
    store->stats = stats_join();
    name_owner(store->owner);
    store->mailbox = must_alloc(sizeof(*store->mailbox));
    atomic_init(&store->mailbox->refs, 1);
    store->mailbox->store = store;
    options.on_change = on_change;
    options.arg = store;
    store->link = redis_link_new(loop, &options);
    list_handle(shared, store);
    return &store->store;
}

/* ---- the process's part ---- */

static char *copy_text(const char *text)
{
    return text == NULL ? NULL : must_copy(text, strlen(text));
}

static char *name_under(const char *prefix, const char *what)
{
    char *name = must_alloc(strlen(prefix) + strlen(what) + 1);

    strcpy(name, prefix);
    return strcat(name, what);
}

static void copy_settings(struct store_redis *shared, const struct settings *settings)
{
    struct store_settings *own = &shared->settings;

    *own = settings->store;
    own->host = copy_text(own->host);
    own->unix_path = copy_text(own->unix_path);
    own->user = copy_text(own->user);
    own->password = copy_text(own->password);
    own->prefix = copy_text(own->prefix);
    shared->tags_key = name_under(own->prefix, ":tags");
    shared->wake_channel = name_under(own->prefix, ":wake");
    shared->invalidation_channel = name_under(own->prefix, ":inv");
    shared->reset_channel = name_under(own->prefix, ":reset");
    shared->plan_prefix = name_under(own->prefix, ":p:{");
    shared->limit_prefix = name_under(own->prefix, ":l:{");
    shared->holds_prefix = name_under(own->prefix, ":h:{");
    shared->max_entry_bytes = LEAST_MAX_ENTRY_BYTES;
    for (size_t i = 0; i < settings->route_count; i++) {
        const struct cache_rule *cache = settings->routes[i].cache;

        if (cache != NULL && cache->max_object_bytes > shared->max_entry_bytes)
            shared->max_entry_bytes = cache->max_object_bytes;
    }
    shared->max_entry_bytes += ENTRY_MAX_HEAD_BYTES;
}

static int64_t read_up(void *arg)
{
    struct store_redis *shared = arg;
    int64_t handles = 0;

    /* Each finds out for itself, and one that asks nothing finds out last: the slowest to notice must not
     * hide that others already do without. */
    pthread_mutex_lock(&shared->lock);
    for (struct redis_store *each = shared->handles; each != NULL; each = each->next)
        handles++;
    pthread_mutex_unlock(&shared->lock);
    return atomic_load(&shared->handles_up) >= handles;
}

static void open_stats(struct store_redis *shared)
{
    static const char *const names[OP_KINDS] = {"admit", "settle",     "lookup",    "fill",       "release",
                                                "renew", "invalidate", "read_plan", "write_plan", "reset"};

    for (int kind = 0; kind < OP_KINDS; kind++) {
        shared->durations[kind] = stats_series(STATS_store_duration, (const char *const[]){names[kind]});
        for (int fault = FAULT_STORE_AWAY; fault <= FAULT_STORE_NONSENSE; fault++)
            shared->faults[kind][fault - FAULT_STORE_AWAY] = stats_series(
                STATS_store_errors, (const char *const[]){names[kind], fault_name((enum fault)fault)});
    }
    shared->reconnects = stats_series(STATS_store_reconnects, NULL);
    stats_probe(STATS_store_up, NULL, read_up, shared);
}

struct store_redis *store_redis_new(const struct settings *settings, struct near *near)
{
    struct store_redis *shared = must_alloc(sizeof(*shared));

    shared->near = near;
    shared->plans = known_plans_new();
    copy_settings(shared, settings);
    shared->scripts = (struct store_scripts){
        .admit = redis_script_find("admit"),
        .settle = redis_script_find("settle"),
        .lookup = redis_script_find("lookup"),
        .fill = redis_script_find("fill"),
        .release = redis_script_find("release"),
        .invalidate = redis_script_find("invalidate"),
        .plan = redis_script_find("plan"),
        .reset = redis_script_find("reset"),
    };
    pthread_mutex_init(&shared->lock, NULL);
    open_stats(shared);
    shared->push = push_start(shared);
    return shared;
}

void store_redis_free(struct store_redis *shared)
{
    if (shared == NULL)
        return;
    push_stop(&shared->push);
    stats_probe(STATS_store_up, NULL, NULL, NULL);
    pthread_mutex_destroy(&shared->lock);
    free(shared->settings.host);
    free(shared->settings.unix_path);
    free(shared->settings.user);
    free(shared->settings.password);
    free(shared->settings.prefix);
    free(shared->tags_key);
    free(shared->wake_channel);
    free(shared->invalidation_channel);
    free(shared->reset_channel);
    free(shared->plan_prefix);
    free(shared->limit_prefix);
    free(shared->holds_prefix);
    known_plans_free(shared->plans);
    free(shared);
}
