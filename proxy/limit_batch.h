/* Limit batch: in which tuples is a store asked about the requests of one turn, and which of them speaks of which request?
 *
 * Requests with the same charges share a tuple. What a tuple is to hold has its tokens before the store is asked, so that
 * whatever becomes of the answer there is something to give back.
 */
#ifndef WEIR_LIMIT_BATCH_H
#define WEIR_LIMIT_BATCH_H

#include "limit_request.h"

/* The requests of one turn (or those of a turn that must be decided locally), on their way through one store.
 */
struct limit_batch {
    struct limiter *limiter;   /* who asks */
    struct holdings *holdings; /* of the store that is asked */
    struct link link;          /* among the limiter's batches */
    struct link asked;         /* requests, in order of arrival */
    struct admit_tuple *tuples;
    struct limit_charge *charges;
    size_t count, room, charge_count, charge_room;
    struct link asked_holdings; /* what is to be held, until that is known */
    struct store_call *call;
    int64_t asked_us;
    uint64_t corrections; /* of the store, when it was asked */
    bool is_fallback;
    /* whose rules the charges point to: few, but who waits in line may have come many reloads ago */
    struct site **sites;
    size_t site_count, site_room;
};

/* With room for `requests`, which are put in by one of the two below. */
struct limit_batch *limit_batch_new(struct limiter *limiter, struct holdings *holdings,
                                    const struct link *requests);
/* Cancels the call, and ends what is to be held for requests that have left. */
void limit_batch_free(struct limit_batch *batch);

/* Moves the requests here. Together: equal ones in one tuple. */
void limit_batch_take_together(struct limit_batch *batch, struct link *requests);
/* Each in tuples of its own: for the rare path, where each may have other limits left over. */
void limit_batch_take_singly(struct limit_batch *batch, struct link *requests);

#endif
