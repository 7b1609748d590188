/* Story: what one worker's exchanges share: its loop, stores and services, and the configuration new requests
 * begin with. */
#ifndef WEIR_STORY_H
#define WEIR_STORY_H

#include "aftermath.h"
#include "flight.h"
#include "front.h"
#include "invalidator.h"
#include "limiter.h"
#include "site.h"
#include "store.h"

struct planner;
struct principals;
struct waits;

struct story {
    struct loop *loop;
    struct store *store, *fallback;
    struct limiter *limiter;
    struct planner *planner;
    struct waits *waits;
    struct flights *flights;
    struct invalidator *invalidator;
    struct aftermaths *aftermaths;
    struct stats *stats;
    struct site *site;
    struct principals *principals;
    size_t exchanges; /* under way */
};

struct journal;

/* The stores pass to the story. */
struct story *story_new(struct loop *loop, struct store *store, struct store *fallback, struct site *site,
                        struct stats *stats);
void story_set_site(struct story *story,
                    struct site *site); /* takes the reference; requests under way keep theirs */
void story_use_journal(struct story *story, struct journal *journal); /* borrows it; NULL: none */
/* No new clients are let in: who waits for a limit has a last turn now. */
void story_drain(struct story *story);
/* Nothing is left to do behind the clients' backs: no load, no change that is awaited, no
 * invalidation on its way to the store. */
bool story_is_quiet(const struct story *story);
/* And the store was told of all that it could not be told at once. */
bool story_is_recorded(const struct story *story);
bool story_is_settling(
    const struct story *story); /* the store is being told what requests do not hold any more */
void story_stop(
    struct story *story); /* ends what is; turn the loop, so that the store hears of it, then free */
void story_free(struct story *story); /* no exchange may be under way; the site closes in the next turn */
struct front_app story_app(struct story *story);

#endif
