/* Limiter, memory: with and without the memory of refusals the same requests pass, at any time; with it the store is asked
 * less.
 *
 * Two limiters, each on a store of its own, live through the same history under one clock; one forgets what was refused before
 * each question, so that the store answers it. Every ruling must be the same.
 */
#include "fake_origin.h"
#include "limiter.h"
#include "loop.h"
#include "settings.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { SIDES = 2, REMEMBERS = 0, FORGETS = 1, CALLERS = 2 };

static int64_t now_us = INT64_C(1000000) * 1000;

static int64_t read_clock(void)
{
    return now_us;
}

static const char SETTINGS[] =
    "upstreams:\n"
    "  api: { servers: ['http://127.0.0.1:9'] }\n"
    "limits:\n"
    "  client: { key: ip, rate: 5/250ms }\n"
    "  slow: { key: ip, rate: 7/3s }\n"
    "  everyone: { key: global, rate: 30/s }\n"
    "  watched: { key: ip, rate: 3/s, mode: shadow }\n"
    "  log: { key: ip, algorithm: sliding_log, rate: 4/200ms }\n"
    "  bucket: { key: ip, algorithm: token_bucket, rate: 5/s, burst: 3 }\n"
    "  fixed: { key: ip, algorithm: fixed_window, rate: 6/s }\n"
    "routes:\n"
    "  - { match: /**, upstream: api, limits: [client, slow, everyone, watched] }\n";

struct side {
    struct near *near;
    struct store_memory *memory;
    struct loop *loop;
    struct store *store;
    struct limiter *limiter;
    struct site *site;
    int64_t asked;
    int decisions;
};

static struct settings *settings;

static struct store_call *(*memory_admit)(struct store *, const struct admit_tuple *, size_t, admit_done *,
                                          void *);
static int64_t asked; /* requests that the store decided */

static struct store_call *counting_admit(struct store *store, const struct admit_tuple *tuples, size_t count,
                                         admit_done *done, void *arg)
{
    for (size_t i = 0; i < count; i++)
        asked += tuples[i].count > 0 ? tuples[i].count : 0;
    return memory_admit(store, tuples, count, done, arg);
}

static void set_up(struct side *side)
{
    static struct store_ops ops;

    side->near = near_new(1 << 20, 1 << 18);
    side->memory = store_memory_new(side->near);
    store_memory_use_clock(side->memory, read_clock);
    side->loop = loop_new();
    side->store = store_memory_join(side->memory, side->loop);
    side->store->is_shared = true; /* as if it were far away */
    ops = *side->store->ops;
    if (memory_admit == NULL)
        memory_admit = ops.admit;
    ops.admit = counting_admit;
    side->store->ops = &ops;
    side->limiter = limiter_new(side->loop, side->store, NULL);
    limiter_use_clock(side->limiter, read_clock);
    side->site = site_new(side->loop, NULL, settings, stats_join());
}

static void tear_down(struct side *side)
{
    limiter_free(side->limiter);
    site_release(&side->site);
    loop_turn(side->loop, 0);
    side->store->ops->free(side->store);
    loop_free(side->loop);
    store_memory_free(side->memory);
    near_free(side->near);
}

static void on_decided(void *arg)
{
    struct side *side = arg;

    side->decisions++;
}

static int64_t last_wait_us; /* of the last that was refused: the moment at which a mistake would show */

/* One turn with a few requests, on both sides; how many were refused. */
static int live(struct side *sides, unsigned *seed)
{
    enum { MOST = 3 };
    struct limit_request requests[SIDES][MOST];
    int count = 1 + rand_r(seed) % MOST, refused = 0;

    memset(requests, 0, sizeof(requests));
    for (int i = 0; i < count; i++) {
        unsigned char caller = (unsigned char)(rand_r(seed) % CALLERS);
        unsigned which =
            rand_r(seed) % 8 != 0 ? 1u << (unsigned)rand_r(seed) % 7 : 1 + (unsigned)rand_r(seed) % 127;
        int64_t cost = rand_r(seed) % 16 == 0 ? 1 + rand_r(seed) % 6 : 1;

        for (int s = 0; s < SIDES; s++) {
            struct limit_request *request = &requests[s][i];

            *request = (struct limit_request){.site = sides[s].site, .decided = on_decided, .arg = &sides[s]};
            for (size_t rule = 0; rule < settings->limit_count; rule++) {
                struct limit_charge *charge = &request->charges[request->charge_count];

                if ((which >> rule & 1) == 0)
                    continue;
                charge->rule = &settings->limits[rule];
                charge->terms = &charge->rule->terms;
                charge->cost = cost;
                charge->principal[0] = rule == 2 ? 'g' : caller;
                request->charge_count++;
            }
            if (s == FORGETS)
                limiter_forget_refusals(sides[s].limiter);
            limiter_ask(sides[s].limiter, request);
        }
    }
    for (int s = 0; s < SIDES; s++) {
        int64_t before = asked;

        sides[s].decisions = 0;
        loop_turn(sides[s].loop, 0);
        cr_assert_eq(sides[s].decisions, count);
        sides[s].asked += asked - before;
    }
    for (int i = 0; i < count; i++) {
        cr_assert_eq(requests[REMEMBERS][i].ruling, requests[FORGETS][i].ruling, "at %lld",
                     (long long)now_us);
        if (requests[FORGETS][i].ruling != RULING_REFUSED)
            continue;
        refused++;
        for (size_t j = 0; j < requests[FORGETS][i].charge_count; j++)
            if (requests[FORGETS][i].has_state[j] && requests[FORGETS][i].states[j].retry_after_us > 0)
                last_wait_us = requests[FORGETS][i].states[j].retry_after_us;
    }
    return refused;
}

Test(limiter_memory, what_is_refused_from_memory_the_store_would_have_refused, .timeout = 60)
{
    const char *chosen = getenv("WEIR_SEED");
    unsigned began = chosen == NULL ? 20240607u : (unsigned)strtoul(chosen, NULL, 10), seed = began;
    struct side sides[SIDES] = {0};
    int refused = 0;

    settings = settings_parse("test.yaml", SETTINGS, sizeof(SETTINGS) - 1, stderr);
    cr_assert_not_null(settings);
    for (int s = 0; s < SIDES; s++)
        set_up(&sides[s]);
    for (int step = 0; step < 60000; step++) {
        static const int pauses_us[] = {0, 0, 0, 0, 1, 50, 900, 1000, 5000, 20000};

        if (rand_r(&seed) % 16 == 0 && last_wait_us > 0)
            now_us += last_wait_us - rand_r(&seed) % 2;
        else
            now_us += pauses_us[(unsigned)rand_r(&seed) % (sizeof(pauses_us) / sizeof(*pauses_us))];
        refused += live(sides, &seed);
    }
    cr_assert_gt(refused, 10000, "%d", refused);
    cr_assert_lt(sides[REMEMBERS].asked, sides[FORGETS].asked - 5000, "seed %u: %lld and %lld", began,
                 (long long)sides[REMEMBERS].asked, (long long)sides[FORGETS].asked);
    for (int s = 0; s < SIDES; s++)
        tear_down(&sides[s]);
    settings_release(&settings);
}
