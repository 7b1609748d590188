/* Token bucket: how many tokens has one key left, and when will there be enough? */
#include "token_bucket.h"

static int64_t window_ticks(const struct bucket_rule *rule)
{
    return rule->window_us / rule->tick_us;
}

static int64_t quotient_up(int64_t number, int64_t by)
{
    return number / by + (number % by > 0 ? 1 : 0);
}

int64_t token_bucket_tick(int64_t limit, int64_t burst, int64_t owed, int64_t window_us)
{
    static const int64_t ticks_us[] = {1, LIMIT_US_PER_MS};

    if (limit < 1 || burst < 1 || burst > LIMIT_EXACT || owed < 0 || owed > LIMIT_EXACT || window_us < 1 ||
        window_us > LIMIT_MAX_US)
        return 0;
    int64_t most = burst + owed, larger = limit > most ? limit : most;
    for (int i = 0; i < 2; i++) {
        int64_t ticks = window_us / ticks_us[i];
        if (window_us % ticks_us[i] != 0 || larger > LIMIT_EXACT / (ticks + 1))
            continue;
        if (quotient_up(most * ticks, limit) <= LIMIT_MAX_US / ticks_us[i])
            return ticks_us[i];
    }
    return 0;
}

int64_t token_bucket_fill_us(const struct bucket_rule *rule)
{
    return quotient_up(rule->burst * window_ticks(rule), rule->limit) * rule->tick_us;
}

/* Could any limit of ours have left this? */
static bool is_sane(const struct token_bucket *state)
{
    return state->token > 0 && state->token < LIMIT_EXACT && state->stamp_us >= 0 &&
           state->stamp_us <= LIMIT_LAST_US && state->missing >= 0 && state->missing < LIMIT_EXACT;
}

int64_t token_bucket_remembered(const struct token_bucket *state)
{
    return is_sane(state) ? quotient_up(state->missing, state->token) : 0;
}

bool token_bucket_advance(struct token_bucket *state, const struct bucket_rule *rule, int64_t now_us)
{
    const struct token_bucket was = *state;
    int64_t token = window_ticks(rule);

    *state = (struct token_bucket){.token = token, .stamp_us = now_us};
    if (!is_sane(&was))
        return false;
    int64_t missing = was.missing;
    if (was.token != token) /* rounded up; compared before the product, which could be too large */
        missing = limit_smaller(rule->burst + rule->owed, quotient_up(was.missing, was.token)) * token;
    missing = limit_smaller(missing, (rule->burst + rule->owed) * token);
    if (was.stamp_us > now_us + rule->window_us) {
        state->missing = missing;
        return true;
    }
    if (was.stamp_us > now_us)
        state->stamp_us = was.stamp_us;
    int64_t elapsed = state->stamp_us / rule->tick_us - was.stamp_us / rule->tick_us;
    if (elapsed <
        quotient_up(missing, rule->limit)) /* else it is full; so the product stays below `missing` */
        state->missing = missing - rule->limit * elapsed;
    return false;
}

int64_t token_bucket_available(const struct token_bucket *state, const struct bucket_rule *rule)
{
    int64_t free = rule->burst * state->token - state->missing;

    return free > 0 ? free / state->token : 0;
}

int64_t token_bucket_room(const struct token_bucket *state, const struct bucket_rule *rule)
{
    return ((rule->burst + rule->owed) * state->token - state->missing) / state->token;
}

void token_bucket_charge(struct token_bucket *state, int64_t units)
{
    state->missing += units * state->token;
}

/* From now_us to the tick at which at most `missing` parts are missing. */
static int64_t until_us(const struct token_bucket *state, const struct bucket_rule *rule, int64_t missing,
                        int64_t now_us)
{
    int64_t ticks = quotient_up(state->missing - missing, rule->limit);

    return (state->stamp_us / rule->tick_us + ticks) * rule->tick_us - now_us;
}

int64_t token_bucket_reset_us(const struct token_bucket *state, const struct bucket_rule *rule,
                              int64_t now_us)
{
    int64_t more = token_bucket_available(state, rule) + 1;

    if (state->missing == 0)
        return 0;
    return until_us(state, rule, (rule->burst - more) * state->token, now_us);
}

int64_t token_bucket_retry_us(const struct token_bucket *state, const struct bucket_rule *rule, int64_t cost,
                              int64_t now_us)
{
    if (cost > rule->burst)
        return LIMIT_NEVER;
    if (cost <= token_bucket_available(state, rule))
        return 0;
    return until_us(state, rule, (rule->burst - cost) * state->token, now_us);
}

int64_t token_bucket_ttl_ms(const struct token_bucket *state, const struct bucket_rule *rule, int64_t now_us)
{
    return limit_ttl_ms(now_us + until_us(state, rule, 0, now_us), now_us);
}
