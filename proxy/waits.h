/* Waits: requests over a limit that are kept waiting until they would pass, in the order in which they came.
 *
 * One line for each limit and principal of this worker. Only those at its head are tried, at the moment at which the store said
 * that they would pass, so a long line costs the store no more questions than a short one: about two for each that gets in.
 * Whether one passes the store says, each time anew; nothing is charged for waiting. A line is as long as WAITERS_PER_LINE at
 * most, and nobody stands in it for longer than the limit's max_wait.
 *
 * A limit that is freed by others giving back what they hold names no moment: then its line is tried at a steady, slow pace, and whenever
 * waits_nudge() says that something was given back here.
 */
#ifndef WEIR_WAITS_H
#define WEIR_WAITS_H

#include "list.h"
#include "loop.h"
#include "store.h"

struct waits;

enum { WAITERS_PER_LINE = 1000 };

/* Embedded in an exchange, zeroed at first. */
struct waiter {
    void (*turn)(void *arg); /* it is this one's turn: ask again, and say what came of it; not inside */
    void *arg;

    struct link link; /* the line's own from here on */
    struct wait_line *line;
    uint64_t arrival;     /* 0: it does not wait */
    struct mono_ms since; /* when it began to */
    uint64_t tried_in;    /* the round */
    bool is_trying;
};

struct waits *waits_new(struct loop *loop);
void waits_free(struct waits *waits); /* nobody may be waiting */

/* Of these charges the first for which others wait already, by a limit that lets wait; NULL: none. Who comes now stands behind them. */
const struct limit_charge *waits_find_line(const struct waits *waits, const struct limit_charge *charges,
                                           size_t count);

/* Behind the others, without having asked. False: there is no room, or waiting is over; then it does not wait. */
bool waits_join(struct waits *waits, struct waiter *waiter, const struct limit_charge *charge);

/* It was refused by this charge's limit (again): it takes, or keeps, the place that its arrival gives it in that limit's line.
 * `retry_after_us`: the wait that the store named; 0: it named none. False: it cannot wait so long, there is no room, or waiting
 * is over; then it does not wait. */
bool waits_stay(struct waits *waits, struct waiter *waiter, const struct limit_charge *charge,
                int64_t retry_after_us);

/* It passed, or is gone. Fine when it does not wait. */
void waits_leave(struct waits *waits, struct waiter *waiter);

void waits_nudge(struct waits *waits,
                 const struct limit_charge *charge); /* somebody gave back what it takes */
/* Something was corrected by hand: whoever it concerns may pass now. At most twenty times a second, so that whoever sells many
 * plans at once does not have all lines ask all the time. */
void waits_nudge_all(struct waits *waits);

/* From now on nobody waits; all who do have their turn at once, and no other. */
void waits_end(struct waits *waits);

#endif
