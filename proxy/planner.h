/* Planner: by the terms of which plan is each charge of a request decided?
 *
 * What this process knows (known_plans) answers at once. Who is not known is asked of the store: once a caller for all requests of
 * a turn of the loop, and all callers of the turn in one write. A request never rides on a question of an earlier turn: its answer could be
 * older than a change that the client has already been told of.
 *
 * A plan that a limit does not have counts as its default one, and is counted. While the store fails, the last plan that was heard
 * counts, else the default.
 */
#ifndef WEIR_PLANNER_H
#define WEIR_PLANNER_H

#include "limiter.h"

struct planner;

struct plan_wish { /* one charge whose limit has plans */
    struct limit_charge *charge;
    unsigned char own[PRINCIPAL_BYTES];    /* who is charged, unless the address is */
    unsigned char caller[PRINCIPAL_BYTES]; /* whose plan it is */
    unsigned char address
        [PRINCIPAL_BYTES]; /* with `unknown: ip`: who is charged instead of a caller that the store does not know */
    struct link link; /* the planner's own from here on */
    struct plan_request *request;
};

/* Embedded in an exchange. Fill the first part, then ask. */
struct plan_request {
    struct site *site;
    struct plan_wish wishes[LIMITS_PER_REQUEST];
    size_t wish_count;
    void (*settled)(void *arg);
    void *arg;

    size_t unanswered; /* wishes; the planner's own */
};

struct planner *planner_new(struct loop *loop, struct store *store); /* borrows the store */
void planner_free(struct planner *planner);

/* Also again, for a request that waited: by what its callers' plans are now. True: each charge has its terms, and where need be another principal, by now. False: `settled` runs exactly once, on a later turn or
 * at the end of this one, unless planner_leave() is called first. */
bool planner_ask(struct planner *planner, struct plan_request *request);
void planner_leave(struct plan_request *request);

#endif
