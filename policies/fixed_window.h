/* Fixed window: how much of a quota is left in the present unit of the calendar?
 *
 * Windows begin where the unit of the calendar begins in UTC: a week on Monday, a month on its first day, and
 * every other window at a multiple of its length since 1970-01-01T00:00:00Z, which is where seconds, minutes,
 * hours and days begin. Leap seconds do not exist for the clock that is asked (POSIX time).
 *
 * A request of cost k passes while   count + k <= limit.   Up to twice the limit can pass within a moment
 * that contains a border: it is a quota for accounting, not a guard against bursts.
 *
 * Time never runs backwards for a key; a state stamped more than a window ahead counts in the present window.
 */
#ifndef WEIR_FIXED_WINDOW_H
#define WEIR_FIXED_WINDOW_H

#include "limit_numbers.h"

#include <stdbool.h>

enum calendar { CALENDAR_MULTIPLES, CALENDAR_WEEK, CALENDAR_MONTH };

struct fixed_rule {
    int64_t limit; /* units per window, >= 1, at most 2^53 */
    enum calendar calendar;
    int64_t window_us; /* of a month: its longest, 31 days */
};

struct fixed_window { /* all zero: never seen */
    int64_t stamp_us; /* the last admission; the count is that of its window */
    int64_t count;    /* units */
};

struct calendar_span {
    int64_t begin_us, end_us; /* the end is the next one's begin */
};
/* The window of the calendar that holds the moment at_us >= 0. */
struct calendar_span calendar_span_at(enum calendar calendar, int64_t window_us, int64_t at_us);

/* As sliding_window_advance(). Where the windows were changed, the whole count stays as long as its stamp
 * lies in the present one; a count above a lowered limit stays what it is. */
bool fixed_window_advance(struct fixed_window *state, const struct fixed_rule *rule, int64_t now_us);
int64_t fixed_window_remembered(const struct fixed_window *state);

int64_t fixed_window_available(const struct fixed_window *state, const struct fixed_rule *rule);
/* Units that the state could count beside those it has, whether the limit allows them or not. */
int64_t fixed_window_room(const struct fixed_window *state);
void fixed_window_charge(struct fixed_window *state, int64_t units);
int64_t fixed_window_reset_us(const struct fixed_window *state, const struct fixed_rule *rule,
                              int64_t now_us);
int64_t fixed_window_retry_us(const struct fixed_window *state, const struct fixed_rule *rule, int64_t cost,
                              int64_t now_us);
int64_t fixed_window_ttl_ms(const struct fixed_window *state, const struct fixed_rule *rule, int64_t now_us);

#endif
