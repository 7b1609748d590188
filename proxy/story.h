/* Story: what one worker's exchanges share: its loop, stores and services, and the configuration new requests
 * begin with. */
#ifndef WEIR_STORY_H
#define WEIR_STORY_H

#include "flight.h"
#include "front.h"
#include "invalidator.h"
#include "limiter.h"
#include "site.h"
#include "store.h"

struct principals;

struct story {
    struct loop *loop;
    struct store *store, *fallback;
    struct limiter *limiter;
    struct flights *flights;
    struct invalidator *invalidator;
    struct stats *stats;
    struct site *site;
    struct principals *principals;
    size_t exchanges; /* under way */
};

/* The stores pass to the story. */
struct story *story_new(struct loop *loop, struct store *store, struct store *fallback, struct site *site,
                        struct stats *stats);
void story_set_site(struct story *story,
                    struct site *site); /* takes the reference; requests under way keep theirs */
void story_free(struct story *story);   /* no exchange may be under way */
struct front_app story_app(struct story *story);

#endif
