/* Over-admission: how many more than its limit does sliding_window let through in an interval of a window's length, when clients
 * come at the moments that suit them best?
 *
 * Each pattern of arrivals is offered to sliding_window and, beside it, to the exact log. Printed is the most that passed in any
 * interval shorter than a window, what the log let through of the same arrivals, and the bound that docs/limits.md states for the
 * length D of that interval, L (1 + D/W), rounded down. Every interval is held against its bound: exits 1 if one was passed.
 *
 *     bench_over_admission [seed]        the table of docs/limits.md
 */
#include "budget.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_US INT64_C(1000000)

enum { MOST_ADMISSIONS = 1 << 16, WINDOWS = 6, CLIMBS = 4000, PHASES = 24, RANDOM_HISTORIES = 200 };

static const int64_t start_us = INT64_C(1764504000000000); /* a window begins */

struct admissions {
    size_t count;
    int64_t at_us[MOST_ADMISSIONS], units[MOST_ADMISSIONS];
};

/* A limit under attack, twice: as it is, and exactly. */
struct trial {
    struct limit_terms window, log;
    struct budget by_window, by_log;
    struct admissions admitted, exactly;
};

static struct trial trial;
static uint64_t dice;

static int64_t roll(int64_t sides)
{
    dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((dice >> 33) % (uint64_t)sides);
}

static void begin(int64_t limit)
{
    if (trial.by_log.algorithm == LIMIT_SLIDING_LOG)
        free(trial.by_log.of.log.ring);
    memset(&trial, 0, sizeof(trial));
    trial.window = (struct limit_terms){
        .algorithm = LIMIT_SLIDING_WINDOW, .limit = limit, .window_us = WINDOW_US, .tick_us = 1};
    trial.log = trial.window;
    trial.log.algorithm = LIMIT_SLIDING_LOG;
}

static void note(struct admissions *list, int64_t at_us, int64_t units)
{
    if (units == 0)
        return;
    if (list->count == MOST_ADMISSIONS) {
        fprintf(stderr, "a pattern is too long\n");
        exit(2);
    }
    list->at_us[list->count] = at_us;
    list->units[list->count++] = units;
}

static int64_t admit(struct budget *budget, const struct limit_terms *terms, int64_t cost, int64_t count,
                     int64_t now_us)
{
    int64_t passing;
    uint32_t room;

    budget_advance(budget, terms, now_us);
    passing = budget_passing(budget, terms, cost, count);
    if (passing == 0)
        return 0;
    room = budget_room_wanted(budget);
    if (room > 0) {
        struct log_run *old = budget->of.log.ring;
        sliding_log_move(&budget->of.log, calloc(room, sizeof(*old)), room);
        free(old);
    }
    budget_charge(budget, passing * cost);
    return passing * cost;
}

static void offer(int64_t at_us, int64_t cost, int64_t count)
{
    note(&trial.admitted, at_us, admit(&trial.by_window, &trial.window, cost, count, start_us + at_us));
    note(&trial.exactly, at_us, admit(&trial.by_log, &trial.log, cost, count, start_us + at_us));
}

/* From at_us on as soon as it passes, for so long. */
static void offer_asap(int64_t at_us, int64_t cost, int64_t for_us)
{
    int64_t end_us = at_us + for_us;

    while (at_us < end_us) {
        struct budget now = trial.by_window;
        int64_t wait_us;

        budget_advance(&now, &trial.window, start_us + at_us);
        wait_us = budget_retry_us(&now, &trial.window, cost, start_us + at_us);
        if (wait_us == LIMIT_NEVER || at_us + wait_us >= end_us)
            return;
        at_us += wait_us;
        offer(at_us, cost, 1);
    }
}

/* ---- patterns ---- */

static void steady(int64_t limit)
{
    for (int64_t at_us = 0; at_us < WINDOWS * WINDOW_US; at_us += WINDOW_US / limit)
        offer(at_us, 1, 1);
}

static void hammering(int64_t limit)
{
    for (int64_t at_us = 0; at_us < WINDOWS * WINDOW_US; at_us += WINDOW_US / (20 * limit))
        offer(at_us, 1, 1);
}

static void bursts_at_borders(int64_t limit)
{
    for (int64_t turn = 1; turn < WINDOWS; turn++) {
        offer(turn * WINDOW_US - 1, 1, 2 * limit);
        offer(turn * WINDOW_US, 1, 2 * limit);
    }
}

static void half_on_half_off(int64_t limit)
{
    for (int64_t turn = 0; turn < WINDOWS; turn++)
        for (int64_t at_us = WINDOW_US / 2; at_us < WINDOW_US; at_us += WINDOW_US / (20 * limit))
            offer(turn * WINDOW_US + at_us, 1, 1);
}

static void as_soon_as_it_passes(int64_t limit)
{
    (void)limit;
    offer_asap(0, 1, WINDOWS * WINDOW_US);
}

static void burst_then_as_soon_as_it_passes(int64_t limit)
{
    offer(WINDOW_US - 1, 1, 2 * limit);
    offer_asap(WINDOW_US - 1, 1, 4 * WINDOW_US);
}

static void burst_then_dear_ones(int64_t limit)
{
    int64_t cost = limit / 4 > 0 ? limit / 4 : 1;

    offer(WINDOW_US - 1, 1, 2 * limit);
    offer_asap(WINDOW_US - 1, cost, 4 * WINDOW_US);
}

static void scattered(int64_t limit)
{
    int64_t at_us = 0;

    while (at_us < WINDOWS * WINDOW_US) {
        at_us += roll(4) == 0 ? roll(WINDOW_US) : roll(4 * WINDOW_US / limit + 1);
        offer(at_us, 1 + (roll(4) == 0 ? roll(limit) : 0), 1 + roll(limit));
    }
}

/* ---- measuring ---- */

struct worst {
    int64_t exactly, units, interval_us; /* the most in an interval of one window, and how long that was */
    bool is_within_bound;                /* so far, in every interval */
};

static bool is_within_bound(int64_t units, int64_t interval_us, int64_t limit)
{
    return units < 2 * limit && units * WINDOW_US <= limit * (WINDOW_US + interval_us);
}

/* All intervals that begin and end with an admission, and are shorter than a window. */
static void look_at_intervals(const struct admissions *list, int64_t limit, struct worst *worst)
{
    for (size_t from = 0; from < list->count; from++) {
        int64_t units = 0;

        for (size_t to = from; to < list->count; to++) {
            int64_t interval_us = list->at_us[to] - list->at_us[from];

            if (interval_us >= WINDOW_US)
                break;
            units += list->units[to];
            worst->is_within_bound &= is_within_bound(units, interval_us, limit);
            if (units > worst->units) {
                worst->units = units;
                worst->interval_us = interval_us;
            }
        }
    }
}

static void measure(struct worst *worst, int64_t limit)
{
    struct worst exact = {.is_within_bound = true};

    look_at_intervals(&trial.admitted, limit, worst);
    look_at_intervals(&trial.exactly, limit, &exact);
    worst->exactly = exact.units > worst->exactly ? exact.units : worst->exactly;
}

/* A burst in every phase of a window, and then as soon as it passes. */
static struct worst search_phases(int64_t limit)
{
    struct worst worst = {.is_within_bound = true};

    for (int64_t phase = 0; phase <= PHASES; phase++) {
        begin(limit);
        offer(phase * (WINDOW_US - 1) / PHASES, 1, 2 * limit);
        offer_asap(phase * (WINDOW_US - 1) / PHASES, 1, 4 * WINDOW_US);
        measure(&worst, limit);
    }
    return worst;
}

static struct worst try_many(void (*pattern)(int64_t limit), int64_t limit)
{
    struct worst worst = {.is_within_bound = true};

    for (int i = 0; i < RANDOM_HISTORIES; i++) {
        begin(limit);
        pattern(limit);
        measure(&worst, limit);
    }
    return worst;
}

/* An adversary that learns: of a few bursts it moves one, makes it larger or smaller, and keeps what did more. It knows nothing of
 * windows and borders. */
static struct worst climb(int64_t limit)
{
    enum { BURSTS = 16 };
    struct burst {
        int64_t at_us, count;
    } best[BURSTS], tried[BURSTS];
    struct worst worst = {.is_within_bound = true};
    int64_t most = 0;

    for (int i = 0; i < BURSTS; i++)
        best[i] = (struct burst){i * 3 * WINDOW_US / BURSTS, 1 + roll(limit)};
    for (int step = 0; step < CLIMBS; step++) {
        struct worst found = {.is_within_bound = true};

        memcpy(tried, best, sizeof(best));
        for (int64_t changes = 1 + roll(3); changes > 0; changes--) {
            struct burst *burst = &tried[roll(BURSTS)];
            if (roll(2) == 0)
                burst->at_us = roll(2) == 0 ? roll(3 * WINDOW_US) : burst->at_us + roll(2001) - 1000;
            else
                burst->count = 1 + roll(2 * limit);
        }
        for (int i = 1; i < BURSTS; i++) /* in order of time */
            for (int j = i; j > 0 && tried[j].at_us < tried[j - 1].at_us; j--) {
                struct burst later = tried[j - 1];
                tried[j - 1] = tried[j];
                tried[j] = later;
            }
        begin(limit);
        for (int i = 0; i < BURSTS; i++)
            offer(tried[i].at_us > 0 ? tried[i].at_us : 0, 1, tried[i].count);
        look_at_intervals(&trial.admitted, limit, &found);
        if (found.units >= most) {
            most = found.units;
            memcpy(best, tried, sizeof(best));
        }
        measure(&worst, limit);
    }
    return worst;
}

static bool tell(const char *name, int64_t limit, const struct worst *worst)
{
    bool is_held = worst->is_within_bound && worst->exactly <= limit;

    printf("| %s | %lld | %lld | %lld | %+.1f%% | %lld |%s\n", name, (long long)limit,
           (long long)worst->exactly, (long long)worst->units,
           100.0 * (double)(worst->units - limit) / (double)limit,
           (long long)(limit * (WINDOW_US + worst->interval_us) / WINDOW_US),
           is_held ? "" : " PASSES THE BOUND");
    return is_held;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*pattern)(int64_t limit);
    } fixed[] = {
        {"steady, at the rate", steady},
        {"one after the other, twenty times too fast", hammering},
        {"as soon as it passes, always", as_soon_as_it_passes},
        {"half a window on, half a window off", half_on_half_off},
        {"bursts on both sides of each border", bursts_at_borders},
        {"a burst at the end of a window, then requests of L/4", burst_then_dear_ones},
        {"a burst at the end of a window, then as soon as it passes", burst_then_as_soon_as_it_passes},
    };
    static const int64_t limits[] = {20, 1000};
    bool is_held = true;

    dice = argc > 1 ? strtoull(argv[1], NULL, 10) : 20261130;
    printf("| arrivals | L | `sliding_log` | `sliding_window` | above L | bound there "
           "|\n|---|---|---|---|---|---|\n");
    for (size_t l = 0; l < sizeof(limits) / sizeof(*limits); l++) {
        struct worst worst;

        for (size_t i = 0; i < sizeof(fixed) / sizeof(*fixed); i++) {
            worst = (struct worst){.is_within_bound = true};
            begin(limits[l]);
            fixed[i].pattern(limits[l]);
            measure(&worst, limits[l]);
            is_held &= tell(fixed[i].name, limits[l], &worst);
        }
        worst = search_phases(limits[l]);
        is_held &= tell("the same in 25 phases of the window", limits[l], &worst);
        worst = try_many(scattered, limits[l]);
        is_held &= tell("200 random histories, costs to L", limits[l], &worst);
        worst = climb(limits[l]);
        is_held &= tell("an adversary that learns, 16 bursts", limits[l], &worst);
    }
    begin(1);
    return is_held ? 0 : 1;
}
