/* Budget: what has one principal used of one limit, whatever the limit's algorithm?
 *
 * One door to the algorithms for the stores: each algorithm's own header says what it promises. A budget that
 * was kept by another algorithm than the limit now has (a reload changed it) is not lost: all that it
 * remembers counts as admitted at its last admission, at most the new capacity.
 */
#ifndef WEIR_BUDGET_H
#define WEIR_BUDGET_H

#include "fixed_window.h"
#include "sliding_log.h"
#include "sliding_window.h"
#include "token_bucket.h"

enum limit_algorithm {
    LIMIT_SLIDING_WINDOW,
    LIMIT_SLIDING_LOG,
    LIMIT_TOKEN_BUCKET,
    LIMIT_FIXED_WINDOW,
    LIMIT_CONCURRENCY, /* nothing is ever charged: only holds take units (holds.h) */
};

enum { LIMIT_MOST_SLOTS = 1000000 }; /* of a concurrency limit */

struct limit_terms {
    enum limit_algorithm algorithm;
    int64_t limit; /* units per window; with concurrency, at a time */
    int64_t window_us;
    int64_t tick_us;        /* sliding_window, token_bucket: budget_tick() */
    int64_t burst;          /* token_bucket: its capacity */
    enum calendar calendar; /* fixed_window */
    /* Above 0: units may also be held (holds.h, allowance.h), for so long after the holder was last heard of. Always with
     * concurrency; with the others where a cost is known only later. */
    int64_t lease_us;
};

struct budget { /* all zero: never seen. A sliding log's ring is its keeper's to allocate and free. */
    enum limit_algorithm algorithm;
    union {
        struct sliding_window window;
        struct sliding_log log;
        struct token_bucket bucket;
        struct fixed_window fixed;
    } of;
};

/* Can these terms be decided exactly? Then the tick that they need (1 where the algorithm has none), else 0.
 */
int64_t budget_tick(const struct limit_terms *terms);
int64_t limit_capacity(const struct limit_terms *terms); /* units that can be taken at once, after a rest */
/* In which time can the whole capacity be used again and again? The window, or a bucket's time to fill; 0: in none that
 * could be told, with concurrency. */
int64_t limit_period_us(const struct limit_terms *terms);

/* Brings a budget to `now_us`; every function below wants that first, in the same decision. True: it must be
 * kept even if nothing is charged. Never writes to a log's ring: a copy may be dropped. */
bool budget_advance(struct budget *budget, const struct limit_terms *terms, int64_t now_us);

/* For a stored budget, whenever a decision asks it by these terms, whatever comes of it: a log that is asked by another algorithm keeps no
 * more than that can know of it, all admitted at its last admission. So a store need not read it whole again and again. */
void budget_note_asked(struct budget *stored, const struct limit_terms *terms);

/* The budget of which no more is known: so many units (up to the capacity counts) were admitted, all of them at `at_us`. With
 * concurrency it is empty: what others held says nothing of when they give it back. */
struct budget budget_of_units(const struct limit_terms *terms, int64_t units, int64_t at_us);

int64_t budget_available(const struct budget *budget, const struct limit_terms *terms);
/* How many of `count` identical requests of `cost` (>= 1) pass: the first so many. */
int64_t budget_passing(const struct budget *budget, const struct limit_terms *terms, int64_t cost,
                       int64_t count);

/* 0, or the runs for which a log needs room before a charge: see sliding_log_room_wanted(). */
uint32_t budget_room_wanted(const struct budget *budget);
void budget_charge(struct budget *budget, int64_t units); /* units that are known to fit */
/* How many of `units`, which became known only after the work was done and may not fit any more, are to be charged all the
 * same: what is above the capacity is owed. As far as the state can count: a log up to SLIDING_LOG_MAX_LIMIT, a
 * bucket up to another burst, and the others in effect all of it. */
int64_t budget_owing(const struct budget *budget, const struct limit_terms *terms, int64_t units);

/* From now_us until more becomes available by the passing of time alone; 0: all of it is, and a log or bucket
 * waits for nothing. */
int64_t budget_reset_us(const struct budget *budget, const struct limit_terms *terms, int64_t now_us);
/* From now_us to the first moment at which `cost` passes if nobody else comes; 0: now; LIMIT_NEVER. */
int64_t budget_retry_us(const struct budget *budget, const struct limit_terms *terms, int64_t cost,
                        int64_t now_us);
int64_t budget_ttl_ms(const struct budget *budget, const struct limit_terms *terms, int64_t now_us); /* > 0 */

#endif
