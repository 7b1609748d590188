/* Token bucket: how many tokens has one key left, and when will there be enough?
 *
 * `limit` tokens drip in per window, evenly, and at most `burst` are kept. What is stored is what is missing,
 * in parts of a token: one token is W parts, where W is the window in ticks, so that `limit` parts come back
 * in every tick. A refill is an integer product then, and nothing is rounded or lost, however often one asks.
 *
 *     missing(now) = max(0, missing - limit * ticks since the stamp);   cost k passes while missing + k * W
 * <= burst * W
 *
 * A key that was never seen misses nothing: it is full. Ticks are those of the store's clock since its epoch;
 * a fraction of a tick is never dropped, because a stamp is kept in microseconds and only its tick counts.
 * Time never runs backwards for a key; a state stamped more than a window ahead is taken into the present as
 * it is.
 */
#ifndef WEIR_TOKEN_BUCKET_H
#define WEIR_TOKEN_BUCKET_H

#include "limit_numbers.h"

#include <stdbool.h>

struct bucket_rule {
    int64_t limit;     /* tokens per window, >= 1 */
    int64_t burst;     /* capacity, >= 1 */
    int64_t window_us; /* a multiple of tick_us */
    int64_t tick_us;   /* token_bucket_tick() of these, not 0 */
    int64_t
        owed; /* tokens that may be missing beyond an empty bucket, after more was used than was held for it */
};

struct token_bucket { /* all zero: never seen */
    int64_t token;    /* parts of one token, as `missing` is counted */
    int64_t stamp_us; /* the last admission */
    int64_t missing;  /* parts below full at that moment */
};

/* 1 or 1000: the finest tick with which bucket and refill stay exact and the bucket fills in 35 years; else
 * 0. */
int64_t token_bucket_tick(int64_t limit, int64_t burst, int64_t owed, int64_t window_us);

/* From empty to full, in microseconds, rounded up. */
int64_t token_bucket_fill_us(const struct bucket_rule *rule);

/* As sliding_window_advance(). A state counted in other parts (another window) is rounded up to whole tokens;
 * one that misses more than a lowered burst (and what may be owed) is so empty, no more. */
bool token_bucket_advance(struct token_bucket *state, const struct bucket_rule *rule, int64_t now_us);

/* What was taken and has not come back, in whole tokens, rounded up. Wants a state as it was stored. */
int64_t token_bucket_remembered(const struct token_bucket *state);

int64_t token_bucket_available(const struct token_bucket *state, const struct bucket_rule *rule);
/* Tokens that can be taken in all: those that are there, and those that may be owed. */
int64_t token_bucket_room(const struct token_bucket *state, const struct bucket_rule *rule);
void token_bucket_charge(struct token_bucket *state, int64_t units);

/* From now_us until one more token is there; 0 when full. */
int64_t token_bucket_reset_us(const struct token_bucket *state, const struct bucket_rule *rule,
                              int64_t now_us);
/* Exact: a microsecond earlier it is refused. */
int64_t token_bucket_retry_us(const struct token_bucket *state, const struct bucket_rule *rule, int64_t cost,
                              int64_t now_us);
/* Until it is full again: then nothing need be remembered. */
int64_t token_bucket_ttl_ms(const struct token_bucket *state, const struct bucket_rule *rule, int64_t now_us);

#endif
