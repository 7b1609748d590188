/* Sliding window: how much of a limit is left for one key, and when will more be? */
#include "sliding_window.h"

static int64_t window_ticks(const struct sliding_rule *rule)
{
    return rule->window_us / rule->tick_us;
}

static int64_t elapsed_ticks(const struct sliding_window *state, const struct sliding_rule *rule)
{
    return state->stamp_us % rule->window_us / rule->tick_us;
}

static int64_t window_start_us(const struct sliding_window *state, const struct sliding_rule *rule)
{
    return state->stamp_us - state->stamp_us % rule->window_us;
}

int64_t sliding_window_tick(int64_t limit, int64_t window_us)
{
    static const int64_t ticks_us[] = {1, LIMIT_US_PER_MS};

    if (limit < 1 || window_us < 1 || window_us > SLIDING_WINDOW_MAX_US)
        return 0;
    for (int i = 0; i < 2; i++)
        if (window_us % ticks_us[i] == 0 && limit <= SLIDING_WINDOW_EXACT / (window_us / ticks_us[i] + 1))
            return ticks_us[i];
    return 0;
}

/* Could any limit of ours have left this? What could not is read as a key that was never seen. */
static bool is_sane(const struct sliding_window *state)
{
    return state->window_us > 0 && state->window_us <= SLIDING_WINDOW_LAST_US && state->stamp_us >= 0 &&
           state->stamp_us <= SLIDING_WINDOW_LAST_US && state->current >= 0 && state->previous >= 0 &&
           state->current < SLIDING_WINDOW_EXACT && state->previous < SLIDING_WINDOW_EXACT;
}

int64_t sliding_window_remembered(const struct sliding_window *state)
{
    return is_sane(state) ? state->current + state->previous : 0;
}

/* The most that can be weighed exactly. Never below the limit; above it after the limit was lowered, or when more was used than
 * was held for it. */
static int64_t most_weighable(const struct sliding_rule *rule)
{
    return (SLIDING_WINDOW_EXACT - 1) / window_ticks(rule);
}

bool sliding_window_advance(struct sliding_window *state, const struct sliding_rule *rule, int64_t now_us)
{
    const struct sliding_window was = *state;
    int64_t most = most_weighable(rule);

    *state = (struct sliding_window){.window_us = rule->window_us, .stamp_us = now_us};
    if (!is_sane(&was))
        return false;
    if (was.stamp_us > now_us + rule->window_us) {
        state->current = limit_smaller(rule->limit, was.current + was.previous);
        return true;
    }
    bool is_same_length = was.window_us == rule->window_us;
    int64_t current = is_same_length ? was.current : limit_smaller(rule->limit, was.current + was.previous);
    int64_t previous = is_same_length ? was.previous : 0;
    if (was.stamp_us > now_us)
        state->stamp_us = was.stamp_us;
    int64_t turns = state->stamp_us / rule->window_us - was.stamp_us / rule->window_us;
    if (turns == 0) {
        state->current = limit_smaller(current, most);
        state->previous = limit_smaller(previous, most);
    } else if (turns == 1) {
        state->previous = limit_smaller(current, most);
    }
    return false;
}

int64_t sliding_window_available(const struct sliding_window *state, const struct sliding_rule *rule)
{
    int64_t window = window_ticks(rule);

    if (state->current >= rule->limit)
        return 0;
    int64_t free =
        (rule->limit - state->current) * window - state->previous * (window - elapsed_ticks(state, rule));
    return free > 0 ? free / window : 0;
}

int64_t sliding_window_passing(const struct sliding_window *state, const struct sliding_rule *rule,
                               int64_t cost, int64_t count)
{
    return limit_smaller(count, sliding_window_available(state, rule) / cost);
}

int64_t sliding_window_room(const struct sliding_window *state, const struct sliding_rule *rule)
{
    int64_t room = most_weighable(rule) - state->current;

    return room > 0 ? room : 0;
}

void sliding_window_charge(struct sliding_window *state, int64_t units)
{
    state->current += units;
}

int64_t sliding_window_reset_us(const struct sliding_window *state, const struct sliding_rule *rule,
                                int64_t now_us)
{
    return window_start_us(state, rule) + rule->window_us - now_us;
}

int64_t sliding_window_retry_us(const struct sliding_window *state, const struct sliding_rule *rule,
                                int64_t cost, int64_t now_us)
{
    int64_t window = window_ticks(rule), start_us = window_start_us(state, rule);

    if (cost > rule->limit)
        return SLIDING_WINDOW_NEVER;
    if (state->current <= rule->limit - cost) {
        /* It passes in this window, once the previous count weighs no more than the room; at its end at the
         * latest. */
        int64_t room = (rule->limit - state->current - cost) * window;
        if (state->previous * (window - elapsed_ticks(state, rule)) <= room)
            return 0;
        return start_us + (window - room / state->previous) * rule->tick_us - now_us;
    }
    /* Not in this window. In the next the current count is the previous one, and loses its weight likewise.
     */
    int64_t room = (rule->limit - cost) * window;
    return start_us + rule->window_us + (window - room / state->current) * rule->tick_us - now_us;
}

int64_t sliding_window_ttl_ms(const struct sliding_window *state, int64_t now_us)
{
    return limit_ttl_ms(state->stamp_us + 2 * state->window_us, now_us);
}
