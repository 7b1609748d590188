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
 * epoch is read once a second in any case, which bounds the harm of a lost message. Of plans the server itself tells
 * (store_redis_tracking.h).
 */
#include "store_redis_tracking.h"

#include "check.h"
#include "log.h"
#include "memory.h"

#include <signal.h>
#include <stdlib.h>

enum {
    ASK_AGAIN_MS = 1000,
    ASK_SOON_MS = 50, /* after a failure, or a gap */
    MAX_TURN_MS = 1000,
    TAGS_A_TIME = 64,
};

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
    struct tracking tracking; /* of plans */
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
    return push->subscriptions[CHANNEL_TRACKING].is_confirmed || tracking_is_refused(&push->tracking);
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
    tracking_try_again(&push->tracking);
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
    case CHANNEL_TRACKING: tracking_hear(&push->tracking, what); return;
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

/* ---- the subscription ---- */

static void on_subscribed(void *arg, enum fault fault, const struct redis_reply *reply)
{
    struct subscription *subscription = arg;
    struct push *push = subscription->push;

    if (fault != FAULT_NONE)
        return; /* tried again after the next reading, or when the link is back */
    if (subscription->channel == CHANNEL_TRACKING && reply->kind == REDIS_ERROR) {
        tracking_refuse(&push->tracking, reply);
        return;
    }
    if (reply->kind == REDIS_ERROR) {
        log_error("redis: no subscription, so invalidations of other nodes are not pushed: %s",
                  reply->text.base);
        return;
    }
    subscription->is_confirmed = true;
    if (subscription->channel == CHANNEL_TRACKING)
        tracking_listens(&push->tracking);
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
                    mono_after(loop_now(push->loop), push->shared->settings.timeout_ms), on_subscribed,
                    subscription);
}

static void subscribe_all(struct push *push)
{
    if (push->ear == NULL || !redis_link_is_up(push->ear) || is_subscribing(push))
        return;
    for (int i = 0; i < CHANNELS; i++)
        if (i != CHANNEL_TRACKING || !tracking_is_refused(&push->tracking))
            subscribe(push, &push->subscriptions[i]);
}

static void forget(struct subscription *subscription)
{
    redis_call_cancel(&subscription->call);
    subscription->is_confirmed = false;
}

static void forget_subscription(struct push *push)
{
    tracking_forget(&push->tracking);
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
    tracking_begin(&push->tracking);
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
        push->ear = redis_link_new(push->loop, &options);
        tracking_follow(&push->tracking, push->ask, push->ear);
        read_after(push, 0);
        return;
    }
    forget_subscription(push);
    tracking_follow(&push->tracking, push->ask, NULL);
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
    tracking_init(&push->tracking, push->shared, loop);
    push->ask = redis_link_new(loop, &options);
    while (!atomic_load(&push->is_stopping))
        loop_turn(loop, MAX_TURN_MS);
    redis_script_cancel(&push->reading);
    if (push->ear != NULL) {
        forget_subscription(push);
        tracking_follow(&push->tracking, NULL, NULL);
        redis_link_free(push->ear);
    }
    redis_link_free(push->ask);
    timer_cancel(loop, &push->next_reading);
    tracking_free(&push->tracking);
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
