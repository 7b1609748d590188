/* The histories that all judges are given: limits of every algorithm and size, and arrivals at the moments
 * that matter. */
#include "support_admit.h"

#include "admit_wire.h"

#include <criterion/criterion.h>

int64_t roll(struct dice *dice, int64_t sides)
{
    dice->state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    uint64_t z = dice->state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return (int64_t)(z % (uint64_t)sides);
}

static int64_t largest_limit(const struct limit_terms *terms, bool in_ms)
{
    int64_t ticks = in_ms ? terms->window_us / 1000 : terms->window_us;

    switch (terms->algorithm) {
    case LIMIT_SLIDING_WINDOW: return LIMIT_EXACT / (ticks + 1);
    case LIMIT_TOKEN_BUCKET: return LIMIT_EXACT / (ticks + 1);
    case LIMIT_SLIDING_LOG: return SLIDING_LOG_MAX_LIMIT;
    case LIMIT_FIXED_WINDOW: return LIMIT_EXACT;
    case LIMIT_CONCURRENCY: return LIMIT_MOST_SLOTS;
    }
    return 1;
}

static int64_t roll_size(struct dice *dice, int64_t largest)
{
    int64_t size = 1;

    switch (roll(dice, 5)) {
    case 0: size = largest; break;
    case 1: size = 1 + roll(dice, 3); break;
    case 2: size = 1 + roll(dice, 40); break;
    case 3: size = 1 + roll(dice, 40); break;
    case 4: size = 1 + roll(dice, largest); break;
    }
    return size < largest ? size : largest;
}

static struct limit_terms roll_rule(struct dice *dice)
{
    static const int64_t windows_us[] = {1,        1000,        7000,           250000,
                                         333333,   1000000,     2500000,        60000000,
                                         60000000, 86400000000, 31622400000000, LIMIT_MAX_US};
    static const int64_t leases_us[] = {1, 1000, 300000, 2000000, 60000000};
    struct limit_terms terms;

    do {
        terms = (struct limit_terms){.algorithm = (enum limit_algorithm)roll(dice, ALGORITHMS),
                                     .window_us =
                                         windows_us[roll(dice, sizeof(windows_us) / sizeof(*windows_us))]};
        int64_t largest = largest_limit(&terms, terms.window_us % 1000 == 0 && roll(dice, 2) == 0);
        terms.limit = roll_size(dice, largest);
        if (terms.algorithm == LIMIT_TOKEN_BUCKET)
            terms.burst = roll(dice, 3) == 0 ? terms.limit : roll_size(dice, largest);
        if (terms.algorithm == LIMIT_FIXED_WINDOW && roll(dice, 2) == 0) {
            terms.calendar = roll(dice, 2) == 0 ? CALENDAR_WEEK : CALENDAR_MONTH;
            terms.window_us = (terms.calendar == CALENDAR_WEEK ? 7 : 31) * INT64_C(86400000000);
        }
        if (terms.algorithm == LIMIT_CONCURRENCY || roll(dice, 3) == 0)
            terms.lease_us = leases_us[roll(dice, sizeof(leases_us) / sizeof(*leases_us))];
        terms.tick_us = budget_tick(&terms);
    } while (terms.tick_us == 0);
    return terms;
}

void history_begin(struct history *history, uint64_t seed)
{
    history->dice.state = seed;
    history->promised_us = 0;
    history->next_hold = 1;
    history->held_count = 0;
    history->now_us = INT64_C(1764000000000000) + roll(&history->dice, INT64_C(1) << 40);
    for (size_t i = 0; i < WORLD_KEYS; i++)
        history->rules[i] = roll_rule(&history->dice);
}

static int64_t border_us(const struct limit_terms *terms, int64_t now_us)
{
    if (terms->algorithm == LIMIT_FIXED_WINDOW)
        return calendar_span_at(terms->calendar, terms->window_us, now_us).end_us;
    return now_us - now_us % terms->window_us + terms->window_us;
}

/* Time moves in units of some key's window, so that each key is seen at all of its moments. Years must not
 * pass in a few turns: 2112 is the last one. */
static void move_clock(struct history *history)
{
    struct dice *dice = &history->dice;
    const struct limit_terms *terms = &history->rules[roll(dice, WORLD_KEYS)];
    int64_t window_us = terms->window_us, now_us = history->now_us;
    int64_t move = roll(dice, 100);
    bool is_long = window_us > INT64_C(3000000000000);

    if (is_long)
        window_us = INT64_C(100000000);
    if (move < 25) /* a burst */
        return;
    if (move < 60)
        now_us += roll(dice, window_us / 20 + 2);
    else if (move < 70)
        now_us += roll(dice, window_us);
    else if (move < 75)
        now_us += roll(dice, 3 * window_us);
    else if (move < 82 && !is_long) /* the border of a window, and its neighbours */
        now_us = border_us(terms, now_us) - 1 + roll(dice, 3);
    else if (move < 92 && history->promised_us > now_us &&
             history->promised_us - now_us < INT64_C(6000000000000))
        now_us = history->promised_us - 1 + roll(dice, 3);
    else if (move < 97) /* the clock is set back */
        now_us -= roll(dice, window_us);
    else
        now_us -= roll(dice, 5 * window_us);
    history->now_us = now_us;
}

void history_turn(struct history *history)
{
    struct dice *dice = &history->dice;

    move_clock(history);
    if (roll(dice, 150) == 0) { /* another limit, perhaps in another tick */
        struct limit_terms *rule = &history->rules[roll(dice, WORLD_KEYS)], changed = *rule;
        changed.limit = roll(dice, 2) == 0 ? 1 + rule->limit / 2 : 1 + roll(dice, 50);
        if (changed.algorithm == LIMIT_TOKEN_BUCKET && roll(dice, 2) == 0)
            changed.burst = roll(dice, 2) == 0 ? 1 + rule->burst / 2 : 1 + roll(dice, 50);
        changed.tick_us = budget_tick(&changed);
        if (changed.tick_us != 0)
            *rule = changed;
    }
    if (roll(dice, 300) == 0) /* another window and algorithm too */
        history->rules[roll(dice, WORLD_KEYS)] = roll_rule(dice);
}

static int64_t roll_cost(struct dice *dice, int64_t capacity)
{
    switch (roll(dice, 8)) {
    case 0: return capacity;
    case 1: return capacity < LIMIT_EXACT ? capacity + 1 : capacity;
    case 2: return 1 + capacity / 2;
    case 3: return 1 + roll(dice, capacity);
    case 4: return 1 + capacity / 7;
    case 5: return 1 + roll(dice, 3);
    default: return 1;
    }
}

void history_request(struct history *history, struct request *request)
{
    struct dice *dice = &history->dice;
    size_t first = (size_t)roll(dice, WORLD_KEYS);

    request->charge_count = (size_t)(roll(dice, 10) == 0 ? 0 : 1 + roll(dice, MAX_CHARGES));
    request->count = roll(dice, 3) > 0 ? 1 : roll(dice, 12);
    request->shadow_count = roll(dice, 4) == 0 ? (size_t)roll(dice, (int64_t)request->charge_count + 1) : 0;
    for (size_t j = 0; j < request->charge_count; j++) { /* the keys of one request are distinct */
        struct charge *charge = &request->charges[j];
        charge->key = (first + j) % WORLD_KEYS;
        charge->terms = history->rules[charge->key];
        charge->cost = roll_cost(dice, limit_capacity(&charge->terms));
        charge->takes_hold =
            charge->terms.algorithm == LIMIT_CONCURRENCY || (charge->terms.lease_us > 0 && roll(dice, 4) > 0);
        charge->first_hold = history->next_hold;
    }
    history->next_hold += request->count;
}

static int64_t roll_charged(struct dice *dice, int64_t held)
{
    switch (roll(dice, 7)) {
    case 0:
    case 1: return SETTLE_WIRE_RENEW;
    case 2: return 0;
    case 3: return held;
    case 4: return held < LIMIT_EXACT ? held + 1 : held; /* more than it held */
    case 5: return 1 + roll(dice, LIMIT_EXACT);
    default: return roll(dice, held + 1);
    }
}

/* What is settled stays in the list for a while: it may be settled again. */
bool history_settlement(struct history *history, struct request *request)
{
    struct dice *dice = &history->dice;

    if (history->held_count == 0)
        return false;
    *request = (struct request){.charge_count = 1, .settles = true};
    request->charges[0] = history->held[roll(dice, (int64_t)history->held_count)];
    request->charged = roll_charged(dice, request->charges[0].cost);
    if (request->charges[0].terms.algorithm == LIMIT_CONCURRENCY && request->charged > 0)
        request->charged = 0;
    return true;
}

static void remember_hold(struct history *history, const struct charge *charge, int64_t passing)
{
    size_t place = history->held_count < HISTORY_HOLDS ? history->held_count++
                                                       : (size_t)roll(&history->dice, HISTORY_HOLDS);

    history->held[place] = *charge;
    history->held[place].first_hold += roll(&history->dice, passing);
}

static int64_t passing_of(const struct request *request, const struct outcome *outcome, size_t j)
{
    return j < enforced_count(request) ? outcome->passing : outcome->shadow_passing[j];
}

void history_heard(struct history *history, const struct request *request, const struct outcome *outcome)
{
    for (size_t j = 0; j < request->charge_count && !request->settles; j++) {
        const struct charge *charge = &request->charges[j];
        int64_t passing = passing_of(request, outcome, j);
        if (charge->takes_hold && passing > 0)
            remember_hold(history, charge, passing);
        if (charge->takes_hold && roll(&history->dice, 4) == 0)
            history->promised_us = history->now_us + charge->terms.lease_us;
        if (outcome->standings[j].retry_us > 0)
            history->promised_us = history->now_us + outcome->standings[j].retry_us;
    }
}
