/* Fixed window: how much of a quota is left in the present unit of the calendar? */
#include "fixed_window.h"

#include "check.h"

#define US_PER_DAY INT64_C(86400000000)
#define US_PER_WEEK (7 * US_PER_DAY)
#define FIRST_MONDAY_US (4 * US_PER_DAY) /* 1970-01-05 */

/* Days since 1970-01-01 of the first day of a month; months are counted from March 0000, so that the leap day
 * is the last of its year. */
static int64_t first_day_of(int64_t march_months)
{
    int64_t year = march_months / 12, month = march_months % 12;

    return 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 - 719468;
}

static struct calendar_span month_at(int64_t at_us)
{
    int64_t day = at_us / US_PER_DAY;
    /* Where it would be if all months were as long as the average of 400 years: one beside it at most. */
    int64_t month = (day + 719468) * 4800 / 146097;

    while (first_day_of(month) > day)
        month--;
    while (first_day_of(month + 1) <= day)
        month++;
    return (struct calendar_span){first_day_of(month) * US_PER_DAY, first_day_of(month + 1) * US_PER_DAY};
}

static struct calendar_span multiple_at(int64_t length_us, int64_t offset_us, int64_t at_us)
{
    /* One length more below, so that the remainder is not taken of a negative number. */
    int64_t into_us = (at_us + length_us - offset_us % length_us) % length_us;

    return (struct calendar_span){at_us - into_us, at_us - into_us + length_us};
}

struct calendar_span calendar_span_at(enum calendar calendar, int64_t window_us, int64_t at_us)
{
    switch (calendar) {
    case CALENDAR_MULTIPLES: return multiple_at(window_us, 0, at_us);
    case CALENDAR_WEEK: return multiple_at(US_PER_WEEK, FIRST_MONDAY_US, at_us);
    case CALENDAR_MONTH: return month_at(at_us);
    }
    CHECK(!"a calendar is one of its own values");
    return (struct calendar_span){0, 0};
}

static struct calendar_span span_of(const struct fixed_window *state, const struct fixed_rule *rule)
{
    return calendar_span_at(rule->calendar, rule->window_us, state->stamp_us);
}

/* Could any limit of ours have left this? */
static bool is_sane(const struct fixed_window *state)
{
    return state->stamp_us >= 0 && state->stamp_us <= LIMIT_LAST_US && state->count >= 0 &&
           state->count <= LIMIT_EXACT;
}

int64_t fixed_window_remembered(const struct fixed_window *state)
{
    return is_sane(state) ? state->count : 0;
}

bool fixed_window_advance(struct fixed_window *state, const struct fixed_rule *rule, int64_t now_us)
{
    const struct fixed_window was = *state;

    *state = (struct fixed_window){.stamp_us = now_us};
    if (!is_sane(&was))
        return false;
    if (was.stamp_us > now_us + rule->window_us) {
        state->count = limit_smaller(rule->limit, was.count);
        return true;
    }
    if (was.stamp_us > now_us)
        state->stamp_us = was.stamp_us;
    if (was.stamp_us >= span_of(state, rule).begin_us)
        state->count = was.count;
    return false;
}

int64_t fixed_window_available(const struct fixed_window *state, const struct fixed_rule *rule)
{
    return state->count < rule->limit ? rule->limit - state->count : 0;
}

int64_t fixed_window_room(const struct fixed_window *state)
{
    return LIMIT_EXACT - state->count;
}

void fixed_window_charge(struct fixed_window *state, int64_t units)
{
    state->count += units;
}

int64_t fixed_window_reset_us(const struct fixed_window *state, const struct fixed_rule *rule, int64_t now_us)
{
    return span_of(state, rule).end_us - now_us;
}

int64_t fixed_window_retry_us(const struct fixed_window *state, const struct fixed_rule *rule, int64_t cost,
                              int64_t now_us)
{
    if (cost > rule->limit)
        return LIMIT_NEVER;
    if (cost <= fixed_window_available(state, rule))
        return 0;
    return fixed_window_reset_us(state, rule, now_us);
}

int64_t fixed_window_ttl_ms(const struct fixed_window *state, const struct fixed_rule *rule, int64_t now_us)
{
    return limit_ttl_ms(span_of(state, rule).end_us, now_us);
}
