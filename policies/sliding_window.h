/* Sliding window: how much of a limit is left for one key, and when will more be?
 *
 * A request of cost k passes while   previous * (W - e) + (current + k) * W <= L * W
 * where L units are allowed per window of W ticks, e ticks of the present window have passed, `current` units
 * were admitted in it and `previous` in the one before. Windows are aligned to the epoch of the store's
 * clock. Everything is an integer below 2^53, because lua/admit.lua decides the same in doubles: there is one
 * specification, and a test holds both to it.
 *
 * Time never runs backwards for a key: a moment before the last admission is read as that admission's moment.
 * A state stamped more than a window ahead (a clock that was set back far) is taken over into the present
 * instead, with all it remembers, so that a key is neither admitted twice nor closed for as long as the clock
 * was wrong.
 */
#ifndef WEIR_SLIDING_WINDOW_H
#define WEIR_SLIDING_WINDOW_H

#include "limit_numbers.h"

#include <stdbool.h>

#define SLIDING_WINDOW_EXACT LIMIT_EXACT
#define SLIDING_WINDOW_MAX_US LIMIT_MAX_US
#define SLIDING_WINDOW_LAST_US LIMIT_LAST_US
#define SLIDING_WINDOW_NEVER LIMIT_NEVER

struct sliding_rule {
    int64_t limit;     /* units per window, >= 1 */
    int64_t window_us; /* a multiple of tick_us */
    int64_t tick_us;   /* sliding_window_tick() of the two, not 0 */
};

/* All zero is a key that was never seen. What the store holds may be anything: sliding_window_advance() reads
 * nonsense as empty. */
struct sliding_window {
    int64_t window_us;         /* the length of window that the counts belong to */
    int64_t stamp_us;          /* the last admission, on the store's clock; names the present window */
    int64_t current, previous; /* units */
};

/* The finest tick, 1 or 1000 us, with which the limit can be decided exactly: limit * (window + 1) <= 2^53 in
 * ticks. 0: neither fits (or the limit or window is out of range), the configuration must refuse it. */
int64_t sliding_window_tick(int64_t limit, int64_t window_us);

/* Brings a state to `now_us`. Every function below wants a state that was advanced in the same decision.
 * True: the state must be kept even if nothing is charged (it was stamped too far ahead); else a refusal
 * keeps nothing. A state of another window length (changed by a reload) counts, with both its windows and at
 * most up to the limit, as admitted in the window of its stamp. A count above a lowered limit stays what it
 * is. */
bool sliding_window_advance(struct sliding_window *state, const struct sliding_rule *rule, int64_t now_us);

/* Units that both its windows hold, of a state as it was stored; 0 if it is not sane. */
int64_t sliding_window_remembered(const struct sliding_window *state);

/* How many of `count` identical requests of `cost` (>= 1) pass, one after another: the first so many. */
int64_t sliding_window_passing(const struct sliding_window *state, const struct sliding_rule *rule,
                               int64_t cost, int64_t count);

/* Takes `units`, which are known to fit. */
void sliding_window_charge(struct sliding_window *state, int64_t units);

/* Units that the state could count beside those it has, whether the limit allows them or not. */
int64_t sliding_window_room(const struct sliding_window *state, const struct sliding_rule *rule);

/* Units that one request could take now, 0..limit. */
int64_t sliding_window_available(const struct sliding_window *state, const struct sliding_rule *rule);

/* From now_us to the end of the present window, > 0. */
int64_t sliding_window_reset_us(const struct sliding_window *state, const struct sliding_rule *rule,
                                int64_t now_us);

/* From now_us to the first moment at which a request of `cost` passes if nobody else comes: exact, a
 * microsecond earlier it is refused. 0: it passes now. SLIDING_WINDOW_NEVER: its cost is above the limit. */
int64_t sliding_window_retry_us(const struct sliding_window *state, const struct sliding_rule *rule,
                                int64_t cost, int64_t now_us);

/* How long a store must remember the state: two windows from its stamp (then nothing of it counts), and a
 * second for clocks that drift. Always > 0. */
int64_t sliding_window_ttl_ms(const struct sliding_window *state, int64_t now_us);

#endif
