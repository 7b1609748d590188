/* Verdict: several limits judged one request; which one refuses it, when may it come back, and which is
 * nearest to its end?
 *
 * The standings are those after the decision: of a refused request they are what refused it, because it was
 * charged nothing.
 */
#ifndef WEIR_VERDICT_H
#define WEIR_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct limit_standing {
    int64_t limit, available; /* units; 0 <= available <= limit */
    int64_t retry_after_us;   /* 0: one more of the same passes this limit; ignored with `never` */
    bool never;               /* the cost is above capacity */
    bool is_unforeseen; /* refused until somebody gives back what he holds: the wait is unknown, and 0 here */
};

struct verdict {
    bool admitted; /* every limit lets one more of the same pass */
    size_t
        refused_by; /* the limit to name: one that can never pass, else the one with the longest wait, else one
                          whose wait is unknown; the first of equals */
    bool never;     /* no waiting helps */
    int64_t retry_after_us; /* the longest known wait of those that refuse; 0 if admitted, or if `never` */
};

bool limit_refuses(const struct limit_standing *standing);
struct verdict verdict_reach(const struct limit_standing *standings,
                             size_t count); /* no limits at all: admitted */

/* The limit whose available/limit is smallest; of equals the one with fewer units left, then the first.
 * `count` >= 1. */
size_t verdict_closest(const struct limit_standing *standings, size_t count);

/* For how long after the store was asked a refusal with this wait is certain to stand, where only time can free what is used up. A
 * thousandth less than the wait, for clocks that do not run alike; and VERDICT_CERTAIN_MOST_US at most, for all that nobody tells us of: a
 * clock that is set, state that was lost, reset by hand or written by another node's other rule. */
enum { VERDICT_CERTAIN_MOST_US = 100000 };
int64_t verdict_certain_us(int64_t retry_after_us);

/* What a request gets that a limit refuses. */
enum when_refused {
    REFUSE,
    GIVE_STORED, /* the stored copy instead, where there is one */
    WAIT_FOR_IT, /* it waits until it would pass */
};

/* ... that several refuse: each of these must agree to what is more than a refusal, and where one of them wants it to wait, no
 * copy makes it pass. `whens` are those of the standings, at the same places. */
enum when_refused verdict_resort(const struct limit_standing *standings, const enum when_refused *whens,
                                 size_t count);

/* Whole seconds, rounded up, at least 1: what Retry-After says. */
int64_t verdict_retry_s(int64_t retry_after_us);

#endif
