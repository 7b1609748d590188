/* Store redis, tracking: see store_redis_tracking.h. */
#include "store_redis_tracking.h"

#include "log.h"

#include <stdio.h>

enum { IDENTIFY_MS = 3600000 /* longer than any link stays mute */ };

static void trust_plans(struct tracking *tracking)
{
    if (tracking->is_listening && tracking->is_on)
        known_plans_set_told(tracking->shared->plans, true);
}

static void say(struct tracking *tracking, struct redis_link *link, struct redis_call *call,
                const char *const *words, size_t count, int64_t timeout_ms, redis_done *done)
{
    redis_words_clear(&tracking->words);
    for (size_t i = 0; i < count; i++)
        words_add_text(&tracking->words, words[i]);
    redis_link_send(link, call, &tracking->words, mono_after(loop_now(tracking->loop), timeout_ms), done,
                    tracking);
}

/* ---- having the keys tracked ---- */

static void on_started(void *arg, enum fault fault, const struct redis_reply *reply)
{
    struct tracking *tracking = arg;

    if (fault != FAULT_NONE)
        return; /* tracking_try_again(), or a new connection */
    if (reply->kind != REDIS_TEXT) {
        tracking_refuse(tracking, reply);
        return;
    }
    tracking->is_on = true;
    trust_plans(tracking);
}

static void on_stopped(void *arg, enum fault fault, const struct redis_reply *reply)
{
    (void)arg; /* whether it worked, the next answer tells */
    (void)fault;
    (void)reply;
}

static bool may_start(const struct tracking *tracking)
{
    return tracking->ear != NULL && redis_link_is_up(tracking->ear) && redis_link_is_up(tracking->ask) &&
           tracking->ear_id >= 0 && !tracking->is_refused && tracking->starting.link == NULL &&
           tracking->stopping.link == NULL;
}

/* An earlier ear's tracking is ended first: the same prefix cannot be asked for twice. */
static void start(struct tracking *tracking)
{
    const char *prefix = tracking->shared->plan_prefix;
    int64_t timeout_ms = tracking->shared->settings.timeout_ms;
    char ear[24];

    if (!may_start(tracking))
        return;
    snprintf(ear, sizeof(ear), "%lld", (long long)tracking->ear_id);
    say(tracking, tracking->ask, &tracking->stopping, (const char *const[]){"CLIENT", "TRACKING", "OFF"}, 3,
        timeout_ms, on_stopped);
    say(tracking, tracking->ask, &tracking->starting,
        (const char *const[]){"CLIENT", "TRACKING", "ON", "REDIRECT", ear, "BCAST", "PREFIX", prefix}, 8,
        timeout_ms, on_started);
}

/* ---- which number has the ear ---- */

static void on_identified(void *arg, enum fault fault, const struct redis_reply *reply)
{
    struct tracking *tracking = arg;

    if (fault != FAULT_NONE)
        return; /* the link has ended: it is asked again on the next connection */
    if (reply->kind != REDIS_INTEGER) {
        tracking_refuse(tracking, reply);
        return;
    }
    tracking->ear_id = reply->integer;
    start(tracking);
}

/* Once it is subscribed a connection cannot be asked any more. So the answer is waited for, also while the server is mute, until it
 * comes or the link is given up. */
void tracking_begin(struct tracking *tracking)
{
    if (tracking->ear_connection == redis_link_connection(tracking->ear)) {
        start(tracking);
        return;
    }
    tracking->ear_connection = redis_link_connection(tracking->ear);
    tracking->ear_id = -1;
    tracking->is_refused = false;
    say(tracking, tracking->ear, &tracking->identifying, (const char *const[]){"CLIENT", "ID"}, 2,
        IDENTIFY_MS, on_identified);
}

/* ---- the rest of its life ---- */

void tracking_follow(struct tracking *tracking, struct redis_link *ask, struct redis_link *ear)
{
    redis_call_cancel(&tracking->identifying);
    tracking->ask = ask;
    tracking->ear = ear;
    tracking->ear_connection = 0;
    tracking->ear_id = -1;
}

void tracking_listens(struct tracking *tracking)
{
    tracking->is_listening = true;
    trust_plans(tracking);
}

void tracking_try_again(struct tracking *tracking)
{
    if (!tracking->is_on)
        start(tracking);
}

void tracking_forget(struct tracking *tracking)
{
    known_plans_set_told(tracking->shared->plans, false);
    redis_call_cancel(&tracking->stopping);
    redis_call_cancel(&tracking->starting);
    tracking->is_on = tracking->is_listening = false;
}

void tracking_refuse(struct tracking *tracking, const struct redis_reply *error)
{
    if (!tracking->is_refused)
        log_error("redis: no client tracking, so callers' plans are read anew for each request: %s",
                  error->kind == REDIS_ERROR ? error->text.base : "an answer that makes no sense");
    tracking->is_refused = true;
}

bool tracking_is_refused(const struct tracking *tracking)
{
    return tracking->is_refused;
}

/* The keys that were changed. Nothing: all of them (FLUSHALL). */
void tracking_hear(struct tracking *tracking, const struct redis_reply *what)
{
    struct store_redis *shared = tracking->shared;
    unsigned char principal[PRINCIPAL_BYTES];

    if (what->kind != REDIS_LIST)
        known_plans_doubt_all(shared->plans);
    for (size_t i = 0; what->kind == REDIS_LIST && i < what->count; i++)
        if (what->items[i]->kind == REDIS_TEXT &&
            message_read_plan_key(what->items[i]->text, slice_text(shared->plan_prefix), principal))
            known_plans_doubt(shared->plans, principal);
    store_redis_note_correction(shared);
}

void tracking_init(struct tracking *tracking, struct store_redis *shared, struct loop *loop)
{
    tracking->shared = shared;
    tracking->loop = loop;
    tracking->ear_id = -1;
}

void tracking_free(struct tracking *tracking)
{
    redis_words_free(&tracking->words);
}
