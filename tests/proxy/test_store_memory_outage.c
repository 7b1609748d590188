/* What nodes admit together while their store comes and goes, held to the bound of docs/limits.md ("local, and how much it can
 * admit") in every interval up to a window.
 *
 * A store and the local tables of a few nodes live through generated arrivals and outages under one clock. Printed with a failure is
 * the seed; WEIR_SEED is the first one, WEIR_STEPS how many arrivals each algorithm gets. */
#include "settings.h"
#include "store_memory_limits.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_US INT64_C(1000000)

enum { ARRIVALS = 300, MOST_NODES = 3, MOST_OUTAGES = 64 };

static const enum limit_algorithm every[] = {LIMIT_SLIDING_WINDOW, LIMIT_SLIDING_LOG, LIMIT_TOKEN_BUCKET,
                                             LIMIT_FIXED_WINDOW};
enum { ALGORITHMS = sizeof(every) / sizeof(*every) };

static unsigned long long seed;
static uint64_t dice;

static int64_t roll(int64_t sides)
{
    dice += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    uint64_t z = dice;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return (int64_t)(z % (uint64_t)sides);
}

struct world {
    struct limit_rule rule;
    struct limit_charge charge;
    struct limit_table *store, *local[MOST_NODES];
    int nodes;
    int64_t now_us;
    struct outage {
        int64_t from_us, to_us;
    } outages[MOST_OUTAGES]; /* the last one is under way while to_us is INT64_MAX */
    int outage_count;
    struct admission {
        int64_t at_us, units;
    } list[ARRIVALS];
    int count;
};

static void begin(struct world *world, enum limit_algorithm algorithm, int nodes)
{
    static char name[] = "limit";
    struct limit_terms *terms = &world->rule.terms;

    memset(world, 0, sizeof(*world));
    world->nodes = nodes;
    world->rule.name = name;
    *terms = (struct limit_terms){
        .algorithm = algorithm, .limit = 1 + roll(30), .window_us = WINDOW_US, .burst = 1 + roll(40)};
    terms->tick_us = budget_tick(terms);
    world->charge = (struct limit_charge){.rule = &world->rule, .terms = terms, .cost = 1};
    world->store = limit_table_new(16);
    for (int n = 0; n < nodes; n++)
        world->local[n] = limit_table_new(16);
    world->now_us = INT64_C(1764504000000000) + roll(WINDOW_US);
}

static void end(struct world *world)
{
    limit_table_free(world->store);
    for (int n = 0; n < world->nodes; n++)
        limit_table_free(world->local[n]);
}

static bool is_away(const struct world *world)
{
    return world->outage_count > 0 && world->outages[world->outage_count - 1].to_us == INT64_MAX;
}

static void leave(struct world *world)
{
    if (world->outage_count < MOST_OUTAGES)
        world->outages[world->outage_count++] = (struct outage){world->now_us, INT64_MAX};
}

static void come_back(struct world *world)
{
    world->outages[world->outage_count - 1].to_us = world->now_us;
}

static void arrive(struct world *world)
{
    struct limit_work work[1];
    struct limit_state state;
    struct limit_table *local = world->local[roll(world->nodes)];
    struct admit_tuple tuple = {&world->charge, 1, 1 + roll(roll(4) == 0 ? 60 : 2)};
    int64_t admitted =
        limit_table_decide(is_away(world) ? local : world->store, &tuple, 0, world->now_us, work, &state);

    if (!is_away(world))
        limit_table_heed(local, &world->charge, state.available, world->now_us);
    if (admitted > 0)
        world->list[world->count++] = (struct admission){world->now_us, admitted};
}

/* ---- the bound ---- */

/* From the first moment without the store to the last, within the interval: what was used locally comes back in between too. -1: it
 * was there all the time. */
static int64_t away_us(const struct world *world, int64_t from_us, int64_t to_us)
{
    int64_t first_us = INT64_MAX, last_us = INT64_MIN;

    for (int i = 0; i < world->outage_count; i++) {
        const struct outage *outage = &world->outages[i];
        int64_t begin_us = outage->from_us > from_us ? outage->from_us : from_us;
        int64_t end_us = outage->to_us < to_us ? outage->to_us : to_us;

        if (begin_us > end_us)
            continue;
        first_us = begin_us < first_us ? begin_us : first_us;
        last_us = end_us > last_us ? end_us : last_us;
    }
    return last_us >= first_us ? last_us - first_us : -1;
}

/* A(I): the most that the algorithm admits in an interval of this length, which is below a window. */
static double most_in(const struct limit_terms *terms, int64_t interval_us)
{
    double limit = (double)terms->limit, share = (double)(interval_us + terms->tick_us) / (double)WINDOW_US;

    switch (terms->algorithm) {
    case LIMIT_SLIDING_WINDOW: return limit * (1 + share);
    case LIMIT_SLIDING_LOG: return limit;
    case LIMIT_TOKEN_BUCKET: return (double)terms->burst + limit * share;
    case LIMIT_FIXED_WINDOW: return 2 * limit;
    case LIMIT_CONCURRENCY: break; /* admits nothing for good */
    }
    cr_assert_fail("no algorithm of this test");
    return 0;
}

static void check_interval(const struct world *world, int from, int to, int64_t units)
{
    const struct limit_terms *terms = &world->rule.terms;
    int64_t from_us = world->list[from].at_us, to_us = world->list[to].at_us;
    int64_t without_us = away_us(world, from_us, to_us);
    double bound = most_in(terms, to_us - from_us);

    if (without_us >= 0)
        bound += world->nodes * most_in(terms, without_us);
    cr_assert((double)units <= bound, "seed %llu, algorithm %d: %lld of %lld in %lld us, bound %.2f", seed,
              (int)terms->algorithm, (long long)units, (long long)terms->limit, (long long)(to_us - from_us),
              bound);
}

static void check_intervals(const struct world *world)
{
    for (int from = 0; from < world->count; from++) {
        int64_t units = 0;

        for (int to = from; to < world->count; to++) {
            if (world->list[to].at_us - world->list[from].at_us >= WINDOW_US)
                break;
            units += world->list[to].units;
            check_interval(world, from, to, units);
        }
    }
}

static void pass_time(struct world *world)
{
    static const int64_t pauses_us[] = {0, 1, 1000, 20000, 100000};

    if (roll(60) == 0)
        world->now_us += roll(3 * WINDOW_US);
    else
        world->now_us += roll(pauses_us[roll(sizeof(pauses_us) / sizeof(*pauses_us))] + 1);
}

static uint64_t first_seed(void)
{
    const char *wanted = getenv("WEIR_SEED");

    return wanted == NULL ? 1 : strtoull(wanted, NULL, 10);
}

static uint64_t histories(void)
{
    const char *steps = getenv("WEIR_STEPS");

    return steps == NULL ? 150 : strtoull(steps, NULL, 10) / ARRIVALS + 1;
}

Test(store_memory_outage, nodes_together_admit_no_more_than_the_stated_bound)
{
    static struct world world;

    for (seed = first_seed(); seed < first_seed() + histories(); seed++)
        for (int a = 0; a < ALGORITHMS; a++) {
            dice = seed;
            begin(&world, every[a], 1 + (int)roll(MOST_NODES));
            for (int i = 0; i < ARRIVALS; i++) {
                pass_time(&world);
                if (!is_away(&world) && roll(30) == 0)
                    leave(&world);
                else if (is_away(&world) && roll(20) == 0)
                    come_back(&world);
                arrive(&world);
            }
            check_intervals(&world);
            end(&world);
        }
}

/* The store leaves and stays away; who kept to one node, which so was told all of him, notices nothing. */
Test(store_memory_outage, on_one_node_nothing_begins_anew_when_the_store_leaves)
{
    static struct world world;

    for (seed = first_seed(); seed < first_seed() + histories(); seed++)
        for (int a = 0; a < ALGORITHMS; a++) {
            dice = seed;
            begin(&world, every[a], 1);
            for (int i = 0; i < ARRIVALS; i++) {
                pass_time(&world);
                if (i == ARRIVALS / 2)
                    leave(&world);
                arrive(&world);
            }
            world.outage_count = 0; /* so that the bound is the algorithm's own */
            check_intervals(&world);
            end(&world);
        }
}
