/* Limit request: what does one request ask of its limits, and what came of it?
 *
 * The lower half is the limiter's own: it turns what a store answered, or that none did, into a ruling, and counts that in the
 * figures of the limits it concerns.
 */
#ifndef WEIR_LIMIT_REQUEST_H
#define WEIR_LIMIT_REQUEST_H

#include "holdings.h"
#include "list.h"
#include "site.h"
#include "store.h"
#include "verdict.h"

enum { LIMITS_PER_REQUEST = 16 };

enum limit_ruling {
    RULING_ADMITTED,
    RULING_REFUSED,     /* by `named`, not now */
    RULING_TOO_COSTLY,  /* by `named`, never */
    RULING_UNAVAILABLE, /* the store is away and `named` is closed */
};

/* Embedded in an exchange. Fill the first part, ask, and read the rest once `decided` runs. */
struct limit_request {
    struct site *site;
    struct limit_charge charges[LIMITS_PER_REQUEST];
    size_t charge_count; /* 0: only the epoch is wanted */
    bool is_tentative;   /* whoever asks may yet find another way: a refusal is not counted before
                            limiter_count_refusal() says that it stands */
    void (*decided)(void *arg);
    void *arg;

    enum limit_ruling ruling;
    const struct limit_rule *named;
    bool has_state[LIMITS_PER_REQUEST]; /* false: passed open, in shadow, or the store did not say */
    struct limit_state states[LIMITS_PER_REQUEST];
    bool is_degraded;    /* decided without the store */
    bool is_recalled;    /* refused without asking the store */
    bool epoch_is_known; /* the near cache is up to date as of this decision */

    struct holding
        *holds[LIMITS_PER_REQUEST]; /* the limiter's own from here on; NULL: nothing of this limit */
    struct link link;
    struct limit_batch *batch;
    size_t tuple;
    int64_t place;
};

/* Of a request that was decided: where its i-th limit stands, if has_state[i]; and the longest wait that the limits which refuse it
 * named, 0: none did. */
struct limit_standing limit_request_standing(const struct limit_request *request, size_t i);
int64_t limit_request_wait_us(const struct limit_request *request);

/* What was decided of `from`, for one with the same charges. */
void limit_request_copy_ruling(struct limit_request *to, const struct limit_request *from);

/* ---- for the limiter ---- */

bool limit_charge_is_shadow(const struct limit_charge *charge);
/* Is there a limit that has a say and is not in shadow? */
bool limit_request_enforces(const struct limit_request *request);

/* `answer` is of the tuples that the request was asked in (limit_batch.h). */
void limit_request_take_answer(struct limit_request *request, const struct admit_answer *answer,
                               bool is_fallback);
/* Without the store: true when the request is decided by that, false when its local limits are still to be
 * asked. */
bool limit_request_rule_without_store(struct limit_request *request);

/* Which limit refused, by the one rule for that (policies/verdict). */
void limit_request_name_refusing(struct limit_request *request);
void limit_request_count_refusal(const struct limit_request *request, bool is_fallback);

#endif
