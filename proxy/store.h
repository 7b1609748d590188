/* Store: the atomic operations by which threads and nodes agree, one interface for memory and Redis.
 *
 * One `struct store` handle per worker; its callbacks run on that worker's loop, exactly once per start,
 * never inside the start, by `timeout` at the latest (then with a fault). An operation whose answer no longer
 * matters is cancelled by its handle. Every answer's epoch and tag stamps have been applied to the near cache
 * before the callback runs. What each promises stands in docs/store.md.
 */
#ifndef WEIR_STORE_H
#define WEIR_STORE_H

#include "fault.h"
#include "known_plans.h"
#include "near.h"
#include "object.h"

#include <string.h>

struct limit_rule;  /* settings.h */
struct limit_terms; /* budget.h */
struct cost_rule;   /* cost.h */
struct loop;
struct store;
struct store_call; /* an operation under way */

/* ---- admit ---- */
struct limit_charge {
    const struct limit_rule *rule;
    const struct limit_terms
        *terms; /* those of the caller's plan, or the rule's own; they live as long as the rule */
    unsigned char principal[16]; /* SHA-256 of (kind, value), cut to 128 bits */
    int64_t cost;                /* >= 1 */
    /* Instead of being charged: the units are taken provisionally, until store_settle(); with terms->lease_us only. Of a tuple
     * each admitted request's token is its place (0-based) after first_hold. No handle of a store is given a token
     * twice for one key. */
    bool takes_hold;
    int64_t first_hold;
    const struct cost_rule
        *told_by; /* NULL: nothing but the end of the request settles it; lives as long as the rule */
};

static inline bool limit_charge_equals(const struct limit_charge *a, const struct limit_charge *b)
{
    return a->rule == b->rule && a->terms == b->terms && a->cost == b->cost &&
           a->takes_hold == b->takes_hold && memcmp(a->principal, b->principal, sizeof(a->principal)) == 0;
}

/* In place of a count: a shadow, decided for those requests alone that the last tuple with a count of its own let pass, right
 * after it. It is charged and answered as any other, and no other depends on it. */
#define ADMIT_WHAT_PASSED INT64_C(-1)

struct admit_tuple { /* `count` identical requests; a tuple without charges only asks for the epoch */
    const struct limit_charge *charges;
    size_t charge_count;
    int64_t count;
};

struct limit_state {        /* of one charge of one tuple, after the tuple was decided */
    int64_t available;      /* units one request could still take now */
    int64_t reset_us;       /* until more becomes available by the window's own turn */
    int64_t retry_after_us; /* 0: this limit allows one more of the same; else when it will */
    bool never;             /* the cost is above capacity: no waiting helps */
    bool is_unforeseen; /* refused until somebody gives back what he holds, and nobody knows when that is */
};

struct admit_answer {           /* one per tuple */
    int64_t admitted;           /* the first `admitted` of `count` pass */
    struct limit_state *states; /* charge_count of them; available before request j (0-based) = available +
                                   (admitted - j) * cost */
};

/* `fault` not FAULT_NONE: no answers, nothing is known to be charged. Tuples and charges live until `done`.
 */
typedef void admit_done(void *arg, enum fault fault, const struct admit_answer *answers, size_t count);

/* ---- settle ---- */
#define SETTLE_RENEW INT64_C(-1)

struct hold_settlement {
    struct limit_charge charge; /* as it was admitted, with its own token for first_hold */
    int64_t
        charged; /* it ends, and so many units are charged; or SETTLE_RENEW: it is needed for another lease */
};

/* `fault` not FAULT_NONE: it may have been done or not; doing it again does no harm. was_held[i]: the hold was still there. One that was
 * not has been settled before, or has ended by its lease: it charges nothing. The settlements live until `done`. */
typedef void settle_done(void *arg, enum fault fault, const bool *was_held, size_t count);

/* ---- lookup ---- */
struct load_token { /* unique per taking of a rebuild lock; all zero: none */
    uint64_t hi, lo;
};

enum lookup_kind {
    LOOKUP_FRESH,  /* object: serve it */
    LOOKUP_STALE,  /* object: serve it; with `load` set this caller, alone in the fleet, refreshes it */
    LOOKUP_LOAD,   /* the caller holds the lock `load`; object (or NULL) may stand in for an upstream error */
    LOOKUP_PROBE,  /* as LOAD, but others PASS meanwhile: the last answer could not be shared, this one may */
    LOOKUP_WAIT,   /* somebody loads: wait for the wake, at most wait_ms, then look up again; object as with
                      LOAD */
    LOOKUP_PASS,   /* known to be unshareable for a while: go alone, store nothing */
    LOOKUP_FAILED, /* the load this caller waited for failed with `status`; object as with LOAD */
    LOOKUP_ABSENT, /* to a mere look: there is nothing to be served as it is; object as with LOAD */
};

struct lookup_ask {
    struct key32 key;
    const struct slice *tags; /* those the route declares; a lock older than a stamp of them is taken over */
    size_t tag_count;
    struct load_token waited; /* the holder named by an earlier LOOKUP_WAIT, or zero */
    bool
        wants_new; /* what is loaded from now on, whatever is stored, and without waiting: LOAD, PROBE or PASS. Not with `waited` */
    int64_t
        lease_ms; /* 0: a mere look, which takes no lock and lets nobody wait: FRESH, STALE without `load`, or ABSENT */
};

struct lookup_answer {
    enum lookup_kind kind;
    struct object *object;  /* borrowed: object_hold() to keep */
    struct load_token load; /* yours with LOAD and PROBE (and STALE); the holder's with WAIT */
    int64_t epoch;          /* at which your load begins */
    int64_t wait_ms;
    int status;
};

typedef void lookup_done(void *arg, enum fault fault, const struct lookup_answer *answer);

/* ---- fill, release, renew, invalidate ---- */
enum fill_result { FILL_STORED, FILL_SUPERSEDED, FILL_INVALIDATED };
typedef void fill_done(void *arg, enum fault fault, enum fill_result result);

enum release_reason { RELEASE_FAILED, RELEASE_UNCACHEABLE, RELEASE_CANCELLED };
typedef void release_done(void *arg, enum fault fault, bool was_held);
typedef void invalidate_done(void *arg, enum fault fault, int64_t epoch);

/* ---- plans, and limits by hand ---- */
struct plan_answer {
    struct plan_name plan; /* none: the store does not know this caller */
    int64_t lasts_ms;      /* -1: until it is changed */
};

typedef void plan_done(void *arg, enum fault fault, const struct plan_answer *answer);
/* Was there something to change? */
typedef void change_done(void *arg, enum fault fault, bool was_there);

struct store_ops {
    struct store_call *(*admit)(struct store *, const struct admit_tuple *tuples, size_t count, admit_done *,
                                void *arg);
    void (*heed)(struct store *, const struct admit_tuple *tuples, size_t count,
                 const struct admit_answer *answers);
    struct store_call *(*settle)(struct store *, const struct hold_settlement *, size_t count, settle_done *,
                                 void *arg);
    struct store_call *(*lookup)(struct store *, const struct lookup_ask *, lookup_done *, void *arg);
    struct store_call *(*fill)(struct store *, const struct key32 *, struct load_token, struct object *,
                               const struct lifetimes *, fill_done *, void *arg);
    struct store_call *(*release)(struct store *, const struct key32 *, struct load_token,
                                  enum release_reason, int status, int64_t marker_ms, release_done *,
                                  void *arg);
    struct store_call *(*renew)(struct store *, const struct key32 *, struct load_token, int64_t lease_ms,
                                release_done *, void *arg);
    struct store_call *(*invalidate)(struct store *, const struct slice *tags, size_t count,
                                     size_t soft_count, invalidate_done *, void *arg);
    struct store_call *(*read_plan)(struct store *, const unsigned char principal[PRINCIPAL_BYTES],
                                    plan_done *, void *arg);
    struct store_call *(*write_plan)(struct store *, const unsigned char principal[PRINCIPAL_BYTES],
                                     const struct plan_name *, change_done *, void *arg);
    struct store_call *(*reset_limit)(struct store *, const unsigned char principal[PRINCIPAL_BYTES],
                                      const char *limit, change_done *, void *arg);
    struct store_call *(*invalidate_all)(struct store *, invalidate_done *, void *arg);
    void (*free)(struct store *);
};

/* Implementations embed this first. */
struct store {
    const struct store_ops *ops;
    struct near *near;
    struct known_plans *plans; /* what this process knows of callers' plans */
    bool is_shared;            /* false: near is the whole truth, and a look at it needs no round trip */
    _Atomic bool is_up;        /* commands have a chance; false while disconnected */
    _Atomic bool is_pushed;    /* invalidations made elsewhere reach this process without being asked for */
    _Atomic uint64_t
        corrections; /* counts up when a plan or the state of a limit was changed by hand: what was refused before may
                                     pass now */
    void (*on_wake)(
        void *arg,
        const struct key32 *key); /* a load that somebody waits for has ended; on this worker's loop */
    void *on_wake_arg;
    void (*on_correction)(void *arg); /* `corrections` went up; on this worker's loop, once for several */
    void *on_correction_arg;
};

/* Admits are decided in the order they are given. `done` may be NULL for fill, release, renew. All inputs but
 * the admit tuples, the settlements and the fill object (held) are copied. A change that is cancelled happens all the same. */
static inline struct store_call *store_admit(struct store *s, const struct admit_tuple *tuples, size_t count,
                                             admit_done *done, void *arg)
{
    return s->ops->admit(s, tuples, count, done, arg);
}
/* What another store has answered: where this one is asked later because that one is away, it starts from there (see docs/limits.md,
 * "When the store is away"). Done at once; nothing of it is kept by reference. Limits that are never decided here are passed over. */
static inline void store_heed(struct store *s, const struct admit_tuple *tuples, size_t count,
                              const struct admit_answer *answers)
{
    s->ops->heed(s, tuples, count, answers);
}
/* Of holds that this handle's admits took. Done in order, each by itself. */
static inline struct store_call *store_settle(struct store *s, const struct hold_settlement *settlements,
                                              size_t count, settle_done *done, void *arg)
{
    return s->ops->settle(s, settlements, count, done, arg);
}
static inline struct store_call *store_lookup(struct store *s, const struct lookup_ask *ask,
                                              lookup_done *done, void *arg)
{
    return s->ops->lookup(s, ask, done, arg);
}
static inline struct store_call *store_fill(struct store *s, const struct key32 *key, struct load_token token,
                                            struct object *object, const struct lifetimes *lifetimes,
                                            fill_done *done, void *arg)
{
    return s->ops->fill(s, key, token, object, lifetimes, done, arg);
}
/* marker_ms: how long the pass marker (UNCACHEABLE) or the failure (FAILED, with its status: waiters of this
 * token share it, and nobody refreshes a stale copy meanwhile) is remembered. A PROBE that was FAILED or CANCELLED
 * has taught nothing: the pass marker that it found stays for its own time. */
static inline struct store_call *store_release(struct store *s, const struct key32 *key,
                                               struct load_token token, enum release_reason why, int status,
                                               int64_t marker_ms, release_done *done, void *arg)
{
    return s->ops->release(s, key, token, why, status, marker_ms, done, arg);
}
static inline struct store_call *store_renew(struct store *s, const struct key32 *key,
                                             struct load_token token, int64_t lease_ms, release_done *done,
                                             void *arg)
{
    return s->ops->renew(s, key, token, lease_ms, done, arg);
}
/* Of what carries one of the tags and was loaded before, nothing is served any more; where only the first
 * `soft_count` name it, it is stale from now on. */
static inline struct store_call *store_invalidate(struct store *s, const struct slice *tags, size_t count,
                                                  size_t soft_count, invalidate_done *done, void *arg)
{
    return s->ops->invalidate(s, tags, count, soft_count, done, arg);
}
/* The answer is known_plans' to keep: see known_plans_mark(). */
static inline struct store_call *
store_read_plan(struct store *s, const unsigned char principal[PRINCIPAL_BYTES], plan_done *done, void *arg)
{
    return s->ops->read_plan(s, principal, done, arg);
}
/* Gives the caller a plan that lasts until it is changed, or, with one of no length, none. This process knows before `done`, the
 * others within the time that a message takes. */
static inline struct store_call *store_write_plan(struct store *s,
                                                  const unsigned char principal[PRINCIPAL_BYTES],
                                                  const struct plan_name *plan, change_done *done, void *arg)
{
    return s->ops->write_plan(s, principal, plan, done, arg);
}
/* Forgets all that the caller used of a limit. Refusals that workers remember end: in this process before `done`, elsewhere within the
 * time that a message takes. */
static inline struct store_call *store_reset_limit(struct store *s,
                                                   const unsigned char principal[PRINCIPAL_BYTES],
                                                   const char *limit, change_done *done, void *arg)
{
    return s->ops->reset_limit(s, principal, limit, done, arg);
}
/* Of what was loaded before nothing is served any more. For when it is not known, or too much to say, what has changed. */
static inline struct store_call *store_invalidate_all(struct store *s, invalidate_done *done, void *arg)
{
    return s->ops->invalidate_all(s, done, arg);
}
/* Takes the handle: its callback will not run. The operation itself may still happen. NULL is fine. */
void store_cancel(struct store_call **call);

struct load_token load_token_new(void); /* random, never zero */

/* Layer 3 private: every implementation's call starts with this. */
struct store_call {
    bool is_cancelled;
};

/* ---- the two implementations ---- */
struct settings;
/* Shared by the threads of one process. An operation happens at the end of the turn in which it was started,
 * just before its callback, so a lookup that is cancelled takes no lock; a cancelled fill, release, renew or
 * invalidate happens all the same. A handle is freed by its own thread, outside of its callbacks, before its
 * loop and after its last answer is wanted; the loop is turned until it is idle before it is freed, because a
 * wake may still be on its way to it. */
struct store_memory;
struct store_memory *store_memory_new(struct near *near); /* borrows it, longer than it lives */
void store_memory_free(struct store_memory *memory);      /* after its handles */
struct store *store_memory_join(struct store_memory *memory, struct loop *loop); /* one handle per worker */
/* Whose state of the limit of this name is kept, ended ones that were not swept yet included. From any thread. */
int64_t store_memory_keys(struct store_memory *memory, const char *limit);
/* For tests: another clock, in microseconds that never go backwards. Before the first handle joins. */
void store_memory_use_clock(struct store_memory *memory, int64_t (*read_us)(void));

/* The process's subscriber and what its workers share. A handle is joined and freed by its own thread,
 * outside of its callbacks; operations under way are then dropped without a callback. The loop is turned once
 * more before it is freed, because a wake may still be on its way to it.
 *
 * A cancelled fill, release, renew or invalidate happens all the same. A lookup whose answer nobody hears
 * (cancelled, or too late) gives back the lock that it may have taken; so does a fill that failed, and a
 * release that did is tried again. A lock is thus lost to its lease only when the process dies. An admit that
 * failed may have charged some of its tuples. */
struct store_redis;
struct store_redis *store_redis_new(const struct settings *settings,
                                    struct near *near); /* borrows near, longer than it lives */
struct store *store_redis_join(struct store_redis *redis, struct loop *loop); /* one handle per worker */
void store_redis_free(struct store_redis *redis);                             /* after its handles */

#endif
