/* Store redis, push: what others do, told without being asked: who is to be woken, what was invalidated, whose
 * plan was changed, and that limits were reset.
 *
 * A thread of its own with two connections, so that neither the number of workers nor their work matters.
 * `ask` runs scripts; `ear` is subscribed, and exists only while `ask` is up: a server that has turned
 * read-only ends `ask`, and with it an ear that would listen to the wrong one. Pushes count (is_pushed) from
 * when the subscription is confirmed and the epoch was read after that: what was invalidated before is in
 * that answer, what comes later is pushed. A message tells which epoch it follows. If ours is older,
 * something was missed: its tags are applied, but not its epoch, so that the next question still asks for all
 * that lies between; once we know the epoch that a run of messages follows, we know the last one's too. The
 * epoch is read once a second in any case, which bounds the harm of a lost message.
 *
 * Plans are the server's to tell of, whoever changes them and by whichever command: `ask` has it track all keys of plans and send
 * what changes to `ear` (CLIENT TRACKING, BCAST, REDIRECT), which says on a new connection by which number the server knows it. The
 * process's copies count (known_plans) from when both that and the subscription are confirmed.
 */
#include "store_redis.h"

#include "check.h"
#include "log.h"
#include "memory.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    ASK_AGAIN_MS = 1000,
    ASK_SOON_MS = 50, /* after a failure, or a gap */
    MAX_TURN_MS = 1000,
    TAGS_A_TIME = 64,
    IDENTIFY_MS = 3600000, /* longer than any link stays mute */
};

#define TRACKING_CHANNEL "__redis__:invalidate" /* the server's own name for it */

enum channel { CHANNEL_WAKES, CHANNEL_INVALIDATIONS, CHANNEL_RESETS, CHANNEL_TRACKING /* last */, CHANNELS };

struct subscription {
    struct push *push;
    enum channel channel;
    struct redis_call call;
    bool is_confirmed;
};

struct push {
    struct store_redis *shared;
    pthread_t thread;
    _Atomic bool is_stopping;

    pthread_mutex_t lock; /* over loop, until it is there */
    pthread_cond_t ready;
    struct loop *loop;

    /* the thread's own */
    struct redis_words words;
    struct redis_link *ask, *ear;
    struct subscription subscriptions[CHANNELS];
    struct redis_call identifying, untracking, tracking;
    unsigned ear_connection;  /* of which ear_id is */
    int64_t ear_id;           /* -1: not known */
    bool is_tracked;          /* plans */
    bool is_tracking_refused; /* by this server: asked for again on the next connection only */
    struct redis_run reading; /* of the epoch */
    bool is_reading, is_reading_since_subscribed;
    struct timer next_reading;
    bool is_gap;                   /* messages came that follow an epoch we do not know */
    int64_t run_follows, run_ends; /* what the first of them follows, and the last one's epoch */
    int64_t reading_follows;       /* run_follows when the reading began; -1: no gap then */
};

/* To all that is our own. A server may refuse the channel of plans to us (by its access rules) and all else be well. */
static bool is_subscribed(const struct push *push)
{
    for (int i = 0; i < CHANNEL_TRACKING; i++)
        if (!push->subscriptions[i].is_confirmed)
            return false;
    return true;
}

/* Or will not, on this connection. */
static bool hears_of_plans(const struct push *push)
{
    return push->subscriptions[CHANNEL_TRACKING].is_confirmed || push->is_tracking_refused;
}

/* ---- reading the epoch ---- */

static bool compose_reading(void *arg, struct redis_words *words)
{
    struct push *push = arg;

    redis_words_add_int(words, 1);
    words_add_text(words, push->shared->tags_key);
    words_add_begin(words, push->shared->near);
    words_add_text(words, ""); /* an empty batch */
    return true;
}

static void read_after(struct push *push, int64_t wait_ms)
{
    timer_start(push->loop, &push->next_reading, mono_after(loop_now(push->loop), wait_ms));
}

static void close_gap(struct push *push)
{
    struct near *near = push->shared->near;

    if (!push->is_gap || near_epoch(near) < push->run_follows)
        return;
    near_apply(near, push->run_ends, 0, NULL, 0); /* the tags were applied when they came */
    push->is_gap = false;
}

static void subscribe_all(struct push *push);
static void track(struct push *push);

static void on_read_epoch(void *arg, enum fault fault, const struct redis_reply *reply)
{
    struct push *push = arg;
    const struct redis_reply *result;

    push->is_reading = false;
    if (fault == FAULT_NONE)
        fault = store_take_news(push->shared->near, reply, &result);
    close_gap(push);
    if (fault == FAULT_NONE && push->is_gap && push->run_follows == push->reading_follows)
        push->is_gap =
            false; /* asked since, and there is no such epoch: it was lost with its table, or never was */
    if (fault == FAULT_NONE && !push->is_gap && push->is_reading_since_subscribed && is_subscribed(push))
        store_redis_set_pushed(push->shared, true);
    read_after(push, push->is_gap ? ASK_SOON_MS : ASK_AGAIN_MS);
    if (!is_subscribed(push) || !hears_of_plans(push))
        subscribe_all(push);
    if (!push->is_tracked)
        track(push);
}

static void read_epoch(void *arg)
{
    struct push *push = arg;
    struct mono_ms give_up_at = mono_after(loop_now(push->loop), push->shared->settings.timeout_ms);

    if (push->is_reading || !redis_link_is_up(push->ask))
        return; /* its end, or the link's return, begins the next one */
    push->is_reading = true;
    push->is_reading_since_subscribed = is_subscribed(push);
    push->reading_follows = push->is_gap ? push->run_follows : -1;
    redis_script_run(&push->reading, push->ask, &push->words, push->shared->scripts.admit, give_up_at,
                     compose_reading, on_read_epoch, push);
}

static void missed(struct push *push)
{
    store_redis_set_pushed(push->shared, false);
    read_after(push, 0);
}

/* ---- messages ---- */

static bool apply_stamps(struct near *near, const struct invalidation_message *message)
{
    struct tag_stamp stamps[TAGS_A_TIME];
    struct slice rest = message->stamps;
    size_t count = 0;

    while (message_next_stamp(&rest, &stamps[count])) {
        stamps[count++].epoch = message->epoch;
        if (count == TAGS_A_TIME) {
            near_apply(near, 0, 0, stamps, count);
            count = 0;
        }
    }
    near_apply(near, 0, 0, stamps, count);
    return rest.len == 0;
}

static void apply(struct push *push, const struct invalidation_message *message)
{
    if (!apply_stamps(push->shared->near, message)) {
        missed(push);
        return;
    }
    if (!push->is_gap || message->previous > push->run_ends)
        push->run_follows = message->previous;
    push->run_ends = message->epoch;
    push->is_gap = true;
    close_gap(push);
    if (push->is_gap)
        missed(push);
}

static void hear_wake(struct push *push, const struct redis_reply *what)
{
    struct key32 key;

    if (what->kind == REDIS_TEXT && message_read_key(what->text, &key))
        store_redis_wake(push->shared, &key);
}

static void hear_invalidation(struct push *push, const struct redis_reply *what)
{
    struct invalidation_message invalidation;

    if (what->kind == REDIS_TEXT && message_read_invalidation(what->text, &invalidation))
        apply(push, &invalidation);
    else
        missed(push); /* whatever it was meant to say */
}

/* The keys that were changed. Nothing: all of them (FLUSHALL). */
static void hear_plans(struct push *push, const struct redis_reply *what)
{
    struct known_plans *plans = push->shared->plans;
    unsigned char principal[PRINCIPAL_BYTES];

    if (what->kind != REDIS_LIST)
        known_plans_doubt_all(plans);
    for (size_t i = 0; what->kind == REDIS_LIST && i < what->count; i++)
        if (what->items[i]->kind == REDIS_TEXT &&
            message_read_plan_key(what->items[i]->text, slice_text(push->shared->plan_prefix), principal))
            known_plans_doubt(plans, principal);
    store_redis_note_correction(push->shared);
}

static const char *channel_name(const struct push *push, enum channel channel)
{
    switch (channel) {
    case CHANNEL_WAKES: return push->shared->wake_channel;
    case CHANNEL_INVALIDATIONS: return push->shared->invalidation_channel;
    case CHANNEL_RESETS: return push->shared->reset_channel;
    case CHANNEL_TRACKING: return TRACKING_CHANNEL;
    case CHANNELS: break;
    }
    CHECK(!"a channel is one of its own values");
    return NULL;
}

static void hear(struct push *push, enum channel channel, const struct redis_reply *what)
{
    switch (channel) {
    case CHANNEL_WAKES: hear_wake(push, what); return;
    case CHANNEL_INVALIDATIONS: hear_invalidation(push, what); return;
    case CHANNEL_RESETS: store_redis_note_correction(push->shared); return;
    case CHANNEL_TRACKING: hear_plans(push, what); return;
    case CHANNELS: break;
    }
}

static void on_message(void *arg, const struct redis_reply *message)
{
    struct push *push = arg;

    if (message->items[1]->kind != REDIS_TEXT)
        return;
    for (int channel = 0; channel < CHANNELS; channel++)
        if (slice_eq(message->items[1]->text, slice_text(channel_name(push, (enum channel)channel)))) {
            hear(push, (enum channel)channel, message->items[2]);
            return;
        }
}

/* ---- the tracking of plans ---- */

static void trust_plans(struct push *push)
{
    if (push->subscriptions[CHANNEL_TRACKING].is_confirmed && push->is_tracked)
        known_plans_set_told(push->shared->plans, true);
}

static void refuse_tracking(struct push *push, const struct redis_reply *error)
{
    push->is_tracking_refused = true;
    log_error("redis: no client tracking, so callers' plans are read anew for each request: %s",
              error->kind == REDIS_ERROR ? error->text.base : "an answer that makes no sense");
}

static void on_tracked(void *arg, enum fault fault, const struct redis_reply *reply)
{
    struct push *push = arg;

    if (fault != FAULT_NONE)
        return; /* tried again after the next reading, or when the link is back */
    if (reply->kind != REDIS_TEXT) {
        refuse_tracking(push, reply);
        return;
    }
    push->is_tracked = true;
    trust_plans(push);
}

static void on_untracked(void *arg, enum fault fault, const struct redis_reply *reply)
{
    (void)arg; /* whether it worked, the next answer tells */
    (void)fault;
    (void)reply;
}

static void say(struct push *push, struct redis_link *link, struct redis_call *call, const char *const *words,
                size_t count, int64_t timeout_ms, redis_done *done)
{
    redis_words_clear(&push->words);
    for (size_t i = 0; i < count; i++)
        words_add_text(&push->words, words[i]);
    redis_link_send(link, call, &push->words, mono_after(loop_now(push->loop), timeout_ms), done, push);
}

static int64_t timeout_of(const struct push *push)
{
    return push->shared->settings.timeout_ms;
}

/* An earlier ear's tracking is ended first: the same prefix cannot be asked for twice. */
static void track(struct push *push)
{
    const char *prefix = push->shared->plan_prefix;
    char ear[24];

    if (push->ear == NULL || !redis_link_is_up(push->ear) || !redis_link_is_up(push->ask) ||
        push->ear_id < 0 || push->is_tracking_refused || push->tracking.link != NULL ||
        push->untracking.link != NULL)
        return;
    snprintf(ear, sizeof(ear), "%lld", (long long)push->ear_id);
    say(push, push->ask, &push->untracking, (const char *const[]){"CLIENT", "TRACKING", "OFF"}, 3,
        timeout_of(push), on_untracked);
    say(push, push->ask, &push->tracking,
        (const char *const[]){"CLIENT", "TRACKING", "ON", "REDIRECT", ear, "BCAST", "PREFIX", prefix}, 8,
        timeout_of(push), on_tracked);
}

static void on_identified(void *arg, enum fault fault, const struct redis_reply *reply)
{
    struct push *push = arg;

    if (fault != FAULT_NONE)
        return; /* the link has ended: it is asked again on the next connection */
    if (reply->kind != REDIS_INTEGER) {
        refuse_tracking(push, reply);
        return;
    }
    push->ear_id = reply->integer;
    track(push);
}

/* Once it is subscribed a connection cannot be asked any more. So the answer is waited for, also while the server is mute, until it
 * comes or the link is given up. */
static void identify_ear(struct push *push)
{
    if (push->ear_connection == redis_link_connection(push->ear)) {
        track(push);
        return;
    }
    push->ear_connection = redis_link_connection(push->ear);
    push->ear_id = -1;
    push->is_tracking_refused = false;
    say(push, push->ear, &push->identifying, (const char *const[]){"CLIENT", "ID"}, 2, IDENTIFY_MS,
        on_identified);
}

static void forget_tracking(struct push *push)
{
    known_plans_set_told(push->shared->plans, false);
    redis_call_cancel(&push->untracking);
    redis_call_cancel(&push->tracking);
    push->is_tracked = false;
}

/* ---- the subscription ---- */

static void on_subscribed(void *arg, enum fault fault, const struct redis_reply *reply)
{
    struct subscription *subscription = arg;
    struct push *push = subscription->push;

    if (fault != FAULT_NONE)
        return; /* tried again after the next reading, or when the link is back */
    if (subscription->channel == CHANNEL_TRACKING && reply->kind == REDIS_ERROR) {
        refuse_tracking(push, reply);
        return;
    }
    if (reply->kind == REDIS_ERROR) {
        log_error("redis: no subscription, so invalidations of other nodes are not pushed: %s",
                  reply->text.base);
        return;
    }
    subscription->is_confirmed = true;
    if (subscription->channel == CHANNEL_TRACKING)
        trust_plans(push);
    else if (is_subscribed(push))
        read_after(push, 0);
}

static bool is_subscribing(const struct push *push)
{
    for (int i = 0; i < CHANNELS; i++)
        if (push->subscriptions[i].call.link != NULL)
            return true;
    return false;
}

static void subscribe(struct push *push, struct subscription *subscription)
{
    redis_words_clear(&push->words);
    words_add_text(&push->words, "SUBSCRIBE");
    words_add_text(&push->words, channel_name(push, subscription->channel));
    redis_link_send(push->ear, &subscription->call, &push->words,
                    mono_after(loop_now(push->loop), timeout_of(push)), on_subscribed, subscription);
}

static void subscribe_all(struct push *push)
{
    if (push->ear == NULL || !redis_link_is_up(push->ear) || is_subscribing(push))
        return;
    for (int i = 0; i < CHANNELS; i++)
        if (i != CHANNEL_TRACKING || !push->is_tracking_refused)
            subscribe(push, &push->subscriptions[i]);
}

static void forget(struct subscription *subscription)
{
    redis_call_cancel(&subscription->call);
    subscription->is_confirmed = false;
}

static void forget_subscription(struct push *push)
{
    forget_tracking(push);
    for (int i = 0; i < CHANNELS; i++)
        forget(&push->subscriptions[i]);
    store_redis_set_pushed(push->shared, false);
}

/* Also when a mute server speaks again: to subscribe twice does no harm, and the epoch must be read in any
 * case. */
static void on_ear_change(void *arg, bool is_up)
{
    struct push *push = arg;

    forget_subscription(push);
    if (!is_up)
        return;
    identify_ear(push);
    subscribe_all(push);
}

static void on_ask_change(void *arg, bool is_up)
{
    struct push *push = arg;

    if (is_up) {
        struct redis_options options = store_redis_options(push->shared, "weir-ear");

        options.on_change = on_ear_change;
        options.on_push = on_message;
        options.arg = push;
        push->ear_connection = 0;
        push->ear_id = -1;
        push->ear = redis_link_new(push->loop, &options);
        read_after(push, 0);
        return;
    }
    forget_subscription(push);
    redis_link_free(push->ear);
    push->ear = NULL;
}

/* ---- the thread ---- */

static struct loop *open_loop(struct push *push)
{
    struct loop *loop = loop_new();

    pthread_mutex_lock(&push->lock);
    push->loop = loop;
    pthread_cond_signal(&push->ready);
    pthread_mutex_unlock(&push->lock);
    return loop;
}

static void *run(void *arg)
{
    struct push *push = arg;
    struct redis_options options = store_redis_options(push->shared, "weir-ask");
    struct loop *loop = open_loop(push);

    options.on_change = on_ask_change;
    options.arg = push;
    timer_init(&push->next_reading, read_epoch, push);
    push->ask = redis_link_new(loop, &options);
    while (!atomic_load(&push->is_stopping))
        loop_turn(loop, MAX_TURN_MS);
    redis_script_cancel(&push->reading);
    if (push->ear != NULL) {
        forget_subscription(push);
        redis_link_free(push->ear);
    }
    redis_link_free(push->ask);
    timer_cancel(loop, &push->next_reading);
    redis_words_free(&push->words);
    loop_turn(loop, 0); /* an answer about the host's name may lie in the letter box */
    return NULL;
}

static bool start_thread(struct push *push)
{
    sigset_t all, before;
    int error;

    sigfillset(&all); /* signals are the main thread's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&push->thread, NULL, run, push);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0;
}

static void free_push(struct push *push)
{
    pthread_mutex_destroy(&push->lock);
    pthread_cond_destroy(&push->ready);
    free(push);
}

struct push *push_start(struct store_redis *shared)
{
    struct push *push = must_alloc(sizeof(*push));

    push->shared = shared;
    for (int i = 0; i < CHANNELS; i++) {
        push->subscriptions[i].push = push;
        push->subscriptions[i].channel = (enum channel)i;
    }
    pthread_mutex_init(&push->lock, NULL);
    pthread_cond_init(&push->ready, NULL);
    if (!start_thread(push)) {
        log_error("redis: no thread to subscribe in; waiters poll, and other nodes' invalidations are asked "
                  "for only");
        free_push(push);
        return NULL;
    }
    pthread_mutex_lock(&push->lock);
    while (push->loop == NULL)
        pthread_cond_wait(&push->ready, &push->lock);
    pthread_mutex_unlock(&push->lock);
    return push;
}

void push_stop(struct push **taken)
{
    struct push *push = *taken;

    if (push == NULL)
        return;
    *taken = NULL;
    atomic_store(&push->is_stopping, true);
    loop_wake(push->loop);
    pthread_join(push->thread, NULL);
    loop_free(push->loop);
    free_push(push);
}
