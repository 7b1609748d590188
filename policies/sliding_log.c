/* Sliding log: how much of a limit is left for one key, exactly? */
#include "sliding_log.h"

#include "check.h"

#include <stddef.h>

enum { FIRST_ROOM = 4 };

/* The older runs and, behind them, the last one. */
static struct log_run run_at(const struct sliding_log *state, uint32_t index)
{
    if (index == state->count)
        return (struct log_run){state->last_us, state->total};
    return state->ring[(state->first + index) & (state->room - 1)];
}

static uint32_t units_up_to(const struct sliding_log *state, struct log_run run)
{
    return run.total - state->base;
}

static uint32_t units_counted(const struct sliding_log *state)
{
    return state->total - state->base;
}

/* What the two searches look for: both facts of a run hold for all later runs too. */
struct log_fact {
    int64_t after_us; /* the run is younger than this ... */
    uint32_t units;   /* ... and at least so many units had been admitted with it */
};

static bool holds(const struct sliding_log *state, struct log_fact fact, uint32_t index)
{
    struct log_run run = run_at(state, index);

    return run.at_us > fact.after_us && units_up_to(state, run) >= fact.units;
}

/* The first run for which the fact holds; it holds for the last one. In strides that double, then by halves.
 */
static uint32_t search(const struct sliding_log *state, struct log_fact fact)
{
    uint32_t low = 0, stride = 1; /* it does not hold for any before `low` */

    while (low < state->count && !holds(state, fact, low + stride - 1)) {
        low += stride;
        stride = stride * 2 <= state->count - low ? stride * 2 : state->count - low;
    }
    if (low >= state->count)
        return state->count;
    uint32_t high = low + stride - 1; /* it holds for this one */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (holds(state, fact, middle))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Could any limit of ours have left this? */
static bool is_sane(const struct sliding_log *state)
{
    return state->last_us >= 0 && state->last_us <= LIMIT_LAST_US &&
           units_counted(state) <= SLIDING_LOG_MAX_LIMIT && state->count <= state->room &&
           state->room <= SLIDING_LOG_MAX_ROOM && state->count <= units_counted(state);
}

int64_t sliding_log_remembered(const struct sliding_log *state)
{
    return is_sane(state) ? units_counted(state) : 0;
}

static void forget_all(struct sliding_log *state)
{
    state->base = state->total;
    state->count = state->first = 0;
}

static void forget_ended(struct sliding_log *state, int64_t ended_us)
{
    uint32_t ended;

    if (state->last_us <= ended_us) {
        forget_all(state);
        return;
    }
    ended = search(state, (struct log_fact){.after_us = ended_us});
    if (ended == 0)
        return;
    state->base = run_at(state, ended - 1).total;
    state->first = (state->first + ended) & (state->room - 1);
    state->count -= ended;
}

bool sliding_log_advance(struct sliding_log *state, const struct log_rule *rule, int64_t now_us)
{
    state->now_us = now_us;
    if (!is_sane(state) || units_counted(state) == 0) {
        state->last_us = 0;
        state->total = 0;
        forget_all(state);
        return false;
    }
    if (state->last_us > now_us + rule->window_us) {
        uint32_t units = (uint32_t)limit_smaller(rule->limit, units_counted(state));
        forget_all(state);
        state->total = state->base + units;
        state->last_us = now_us;
        return true;
    }
    if (state->last_us > now_us)
        state->now_us = state->last_us;
    forget_ended(state, state->now_us - rule->window_us);
    return false;
}

void sliding_log_forget_moments(struct sliding_log *state)
{
    state->count = state->first = 0;
}

int64_t sliding_log_available(const struct sliding_log *state, const struct log_rule *rule)
{
    int64_t counted = units_counted(state);

    return counted < rule->limit ? rule->limit - counted : 0;
}

int64_t sliding_log_room(const struct sliding_log *state)
{
    return SLIDING_LOG_MAX_LIMIT - (int64_t)units_counted(state);
}

static bool begins_a_run(const struct sliding_log *state)
{
    return units_counted(state) > 0 && state->last_us != state->now_us;
}

uint32_t sliding_log_room_wanted(const struct sliding_log *state)
{
    if (!begins_a_run(state) || state->count < state->room)
        return 0;
    return state->room == 0 ? FIRST_ROOM : state->room * 2;
}

void sliding_log_move(struct sliding_log *state, struct log_run *ring, uint32_t room)
{
    CHECK(room >= state->count && (room & (room - 1)) == 0);
    for (uint32_t i = 0; i < state->count; i++)
        ring[i] = run_at(state, i);
    state->ring = ring;
    state->room = room;
    state->first = 0;
}

void sliding_log_charge(struct sliding_log *state, int64_t units)
{
    if (begins_a_run(state)) {
        CHECK(state->count < state->room);
        state->count++; /* the last run becomes the youngest of the older ones */
        state->ring[(state->first + state->count - 1) & (state->room - 1)] =
            (struct log_run){state->last_us, state->total};
    }
    state->last_us = state->now_us;
    state->total += (uint32_t)units;
}

int64_t sliding_log_reset_us(const struct sliding_log *state, const struct log_rule *rule, int64_t now_us)
{
    if (units_counted(state) == 0)
        return 0;
    return run_at(state, 0).at_us + rule->window_us - now_us;
}

int64_t sliding_log_retry_us(const struct sliding_log *state, const struct log_rule *rule, int64_t cost,
                             int64_t now_us)
{
    int64_t counted = units_counted(state);

    if (cost > rule->limit)
        return LIMIT_NEVER;
    if (counted + cost <= rule->limit)
        return 0;
    /* So many of the oldest units must end; the run that holds the last of them decides. */
    uint32_t surplus = (uint32_t)(counted + cost - rule->limit);
    uint32_t decisive = search(state, (struct log_fact){.after_us = -1, .units = surplus});
    return run_at(state, decisive).at_us + rule->window_us - now_us;
}

int64_t sliding_log_ttl_ms(const struct sliding_log *state, const struct log_rule *rule, int64_t now_us)
{
    return limit_ttl_ms(state->last_us + rule->window_us, now_us);
}
