/* Flight: of many requests for one missing response, one asks the origin and the rest ride.
 *
 * One flight per key and worker at a time takes new riders. It looks the key up in the store, which tells it
 * to load, to wait for another worker's or node's load, or brings the answer. A load belongs to its flight,
 * not to the rider that boarded first: a rider that leaves is only forgotten. The flight ends exactly once
 * (stored, not storable, failed, abandoned) and gives the rebuild lock back on every way out. A flight that
 * an invalidation has overtaken takes no riders that came after it.
 *
 * A load may have its price (limits that count misses). It is paid once, between the taking of the lock and the question to
 * the upstream, by one of those whom it is for.
 */
#ifndef WEIR_FLIGHT_H
#define WEIR_FLIGHT_H

#include "list.h"
#include "site.h"
#include "storability.h"
#include "store.h"
#include "stream.h"
#include "vary.h"
#include "loop.h"

struct flights;
struct flight;
struct limiter;
struct limit_request; /* limiter.h */

/* What is asked for, and what a load for it would send. Passed by view; a flight copies what it keeps. */
struct load_plan {
    struct site *site;
    const struct route_rule *route; /* with a cache */
    struct key32 key;
    const struct slice *tags; /* those the route declares */
    size_t tag_count;
    struct origin_request request;      /* a GET without body, without conditions */
    bool has_authorization;             /* and the route does not say that it makes no difference */
    const struct limit_charge *charges; /* what a load costs the one whose plan it is */
    size_t charge_count;                /* 0: it is free */
    char varied[VARY_NAMES_ROOM];       /* the fields that the key tells requests apart by, see variant.h */
    size_t varied_len;
    struct key32 rule_key;  /* with varied_len > 0: that of the rule from which the last step came */
    bool is_part;           /* it asks for a range of what is at whole_key, see part.h */
    struct key32 whole_key; /* with is_part */
};

enum boarding {
    BOARDING_OBJECT, /* object: held for the rider, who takes it */
    BOARDING_STREAM, /* stream: join it before returning from `landed` */
    BOARDING_ALONE, /* ask the upstream yourself, store nothing; `why` says why. object, held for the rider, or NULL:
                        a copy to ask about */
    BOARDING_FAILED,  /* answer with `status` (and `fault`, if it was ours to see) */
    BOARDING_REFUSED, /* nobody could pay for the load; why this one could not, stands in its bill */
};

/* Embedded in an exchange. */
struct rider {
    struct load_plan *plan; /* lives as long as it rides; its key goes down the tree of variants */
    struct limit_request *
        bill; /* says what came of paying the plan's charges, if this rider was asked to; NULL where there are none */
    bool
        wants_new; /* what is loaded from now on, not what is stored or on its way; where another loads: ALONE */
    bool wants_part; /* of a whole that will not be stored it would rather not read all */
    void (*paid)(
        void *
            arg); /* it has paid, and will be told more once there is more to tell; or NULL. Must not end it */
    void (*landed)(void *arg);
    void (*informed)(void *arg,
                     const struct origin_response *interim); /* forerunners of what its plan loads; or NULL */
    void *arg;

    enum boarding outcome;
    struct object *object;
    struct stream *stream;
    enum cache_result result; /* with OBJECT and STREAM */
    const char *why;          /* a token, for Cache-Status; or NULL */
    enum fault fault;
    int status;
    int64_t waited_us; /* for the upstream, with an OBJECT that it has just confirmed */
    bool is_stored;    /* with STREAM: as far as is known now, it will be stored */
    bool is_renewal;   /* with STREAM: it replaces a copy that has become stale */
    bool is_refused;   /* could not pay; it may ride all the same if another one does */
    bool has_led;      /* the upstream was asked for this one, whoever rides with it */

    struct link link; /* the flight's own from here on */
    struct flight *flight;
    struct timer patience;
};

struct flights *flights_new(struct loop *loop, struct store *store, struct limiter *limiter);
void flights_free(struct flights *flights); /* as flights_cancel() */
/* Loads under way end and give their locks back: turn the loop, so that the store hears of it. Riders must
 * have left. */
void flights_cancel(struct flights *flights);
size_t flights_under_way(const struct flights *flights);

/* `landed` runs exactly once, never inside this call, by the route's lock_timeout at the latest (then with
 * BOARDING_ALONE), save for the rider whose plan is being loaded, which waits as long as its upstream may;
 * unless flight_leave() is called first. */
void flight_board(struct flights *flights, struct rider *rider);
void flight_leave(struct flights *flights, struct rider *rider); /* fine when not aboard */

/* Is one up in this worker whose answer may be awaited? */
bool flights_have(struct flights *flights, const struct key32 *key);

/* Nobody waits: asks the store whether a stale copy may be refreshed, and if so does it, where the plan's charges are admitted.
 * Nothing if a flight is up. */
void flight_refresh(struct flights *flights, const struct load_plan *plan);

void flights_wake(struct flights *flights,
                  const struct key32 *key); /* the load that others waited for has ended */

#endif
