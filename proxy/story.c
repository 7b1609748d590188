/* Story: see story.h. */
#include "story.h"
#include "check.h"
#include "clock.h"
#include "exchange.h"
#include "log.h"
#include "memory.h"
#include "planner.h"
#include "principals.h"
#include "waits.h"

#include <stdio.h>
#include <stdlib.h>

static void on_wake(void *arg, const struct key32 *key)
{
    struct story *story = arg;

    flights_wake(story->flights, key);
}

static void on_correction(void *arg)
{
    struct story *story = arg;

    waits_nudge_all(story->waits);
}

struct story *story_new(struct loop *loop, struct store *store, struct store *fallback, struct site *site,
                        struct stats *stats)
{
    struct story *story = must_alloc(sizeof(*story));

    story->loop = loop;
    story->store = store;
    story->fallback = fallback;
    story->site = site;
    story->stats = stats;
    story->limiter = limiter_new(loop, store, fallback);
    story->planner = planner_new(loop, store);
    story->flights = flights_new(loop, store, story->limiter);
    story->invalidator = invalidator_new(loop, store, stats);
    story->aftermaths = aftermaths_new(loop, story->invalidator);
    story->principals = principals_new();
    story->waits = waits_new(loop);
    store->on_wake = on_wake;
    store->on_wake_arg = story;
    store->on_correction = on_correction;
    store->on_correction_arg = story;
    return story;
}

void story_set_site(struct story *story, struct site *site)
{
    site_release(&story->site);
    story->site = site;
    limiter_forget_refusals(story->limiter); /* the old rules' places in memory may be new ones' */
}

void story_use_journal(struct story *story, struct journal *journal)
{
    invalidator_use_journal(story->invalidator, journal);
}

bool story_is_recorded(const struct story *story)
{
    return invalidator_kept(story->invalidator) == 0;
}

void story_drain(struct story *story)
{
    waits_end(story->waits);
}

bool story_is_quiet(const struct story *story)
{
    return flights_under_way(story->flights) == 0 && aftermaths_under_way(story->aftermaths) == 0 &&
           invalidator_asking(story->invalidator) == 0 && !limiter_is_settling(story->limiter);
}

bool story_is_settling(const struct story *story)
{
    return limiter_is_settling(story->limiter);
}

void story_stop(struct story *story)
{
    flights_cancel(story->flights);
    aftermaths_hurry(story->aftermaths);
}

void story_free(struct story *story)
{
    CHECK(story->exchanges == 0);
    flights_free(story->flights);
    planner_free(story->planner);
    limiter_free(story->limiter);
    aftermaths_free(story->aftermaths);
    invalidator_free(story->invalidator);
    principals_free(story->principals);
    waits_free(story->waits);
    story->store->ops->free(story->store);
    if (story->fallback != NULL)
        story->fallback->ops->free(story->fallback);
    site_release(&story->site);
    free(story);
}

/* A request that never became an exchange is logged all the same; the front has counted it. */
static void on_refused(void *app, int status, const char *why, struct slice peer_text)
{
    struct access_record record = {
        .status = status, .code = front_refusal_code(status), .detail = why, .upstream_us = -1};

    (void)app;
    (void)peer_text; /* addresses are not written to logs */
    record.at_wall_us = clock_wall_us();
    access_log_write(&record);
}

struct front_app story_app(struct story *story)
{
    return (struct front_app){exchange_begin, on_refused, story};
}
