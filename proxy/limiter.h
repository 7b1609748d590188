/* Limiter: collects the limit decisions of one loop turn and asks the store for all of them at once.
 *
 * Requests of a turn with the same charges become one tuple with a count, as long as no other one that shares
 * a key came between: who gets in is decided by the order of arrival. Where the store fails, each limit's
 * on_store_failure speaks: closed refuses, open passes, local asks this process's own memory store, in one
 * atomic decision for all local limits of the request. That store is told what the other one answers, and goes on from there.
 *
 * What is held instead of charged (concurrency, a cost that the answer tells) stays with its request until limiter_settle() or
 * limiter_leave(), which every request is to end with.
 *
 * A limit in shadow is decided in the same step, for what the others let pass and alone, is charged as if it were enforced,
 * and shows in nothing but its figures.
 */
#ifndef WEIR_LIMITER_H
#define WEIR_LIMITER_H

#include "holdings.h"
#include "list.h"
#include "site.h"
#include "store.h"
#include "verdict.h"

struct limiter;

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

/* `fallback`: a memory store handle for local decisions; the limiter owns neither store. */
struct limiter *limiter_new(struct loop *loop, struct store *store, struct store *fallback);
void limiter_free(struct limiter *limiter);

/* `decided` runs exactly once, not before the turn's LOOP_DECIDE phase, unless limiter_leave() is called
 * first. */
void limiter_ask(struct limiter *limiter, struct limit_request *request);
/* What was asked may still be charged; what is held is given back. */
void limiter_leave(struct limiter *limiter, struct limit_request *request);

/* What the request holds of limits whose cost the upstream's answer tells is settled, once. By the answer's fields; or, where it
 * was asked and none came, at what was held. */
void limiter_settle(struct limit_request *request, const struct header *headers, size_t count);
void limiter_settle_unanswered(struct limit_request *request);

/* Holds have ended of which a store that is there has not heard: turn the loop. */
bool limiter_is_settling(const struct limiter *limiter);

/* Of a tentative request that was refused or is too costly: that is what its client is told. */
void limiter_count_refusal(const struct limit_request *request);

/* What a shared store refused a moment ago is refused without asking it (refusals.h), until something in the store is corrected by
 * hand. To be called when rules are replaced. */
void limiter_forget_refusals(struct limiter *limiter);
/* For tests: another clock, in microseconds that never go backwards. */
void limiter_use_clock(struct limiter *limiter, int64_t (*read_us)(void));

#endif
