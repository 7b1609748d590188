/* Two stores, one specification: the memory store and the scripts on a real Redis are told the same at the same
 * moments of one clock, and must say the same of every key: who loads, what may be served, and for how long still. */
#include "support_admit.h"
#include "support_cache.h"

#include "loop.h"
#include "objects.h"
#include "redis_fixture.h"
#include "store.h"

#include <criterion/criterion.h>

enum { MS = 1000, KEYS = 4, TAGS = 3, LOADS = 6, LEASE_MS = 1 << 30, STEPS = 6000 };

static const char *const KEY_NAMES[KEYS] = {"k0", "k1", "k2", "k3"};
static const char *const TAG_NAMES[TAGS] = {"t0", "t1", "t2"};

static int64_t clock_us;

static int64_t read_clock(void)
{
    return clock_us;
}

/* A load that both stores have granted. */
struct load {
    size_t key;
    char token[33];
    int64_t redis_began;
    struct load_token memory_token;
    int64_t memory_began;
};

struct world {
    struct redis_fixture fixture;
    redisContext *redis;
    int64_t redis_seen;
    struct near *near;
    struct store_memory *memory;
    struct loop *loop;
    struct store *store;
    struct load loads[LOADS];
    size_t load_count;
    int serial, served_stale, served_fresh;
};

static void open_world(struct world *world)
{
    *world = (struct world){.fixture = redis_fixture_start()};
    world->redis = redis_fixture_connect(&world->fixture);
    clock_us = server_now_us(world->redis) / MS * MS;
    world->near = near_new(4 << 20, 1 << 20);
    world->memory = store_memory_new(world->near);
    store_memory_use_clock(world->memory, read_clock);
    world->loop = loop_new();
    world->store = store_memory_join(world->memory, world->loop);
}

static void close_world(struct world *world)
{
    world->store->ops->free(world->store);
    loop_turn(world->loop, 0);
    loop_turn(world->loop, 0);
    loop_free(world->loop);
    store_memory_free(world->memory);
    near_free(world->near);
    redisFree(world->redis);
    redis_fixture_stop(&world->fixture);
}

/* ---- one look at each ---- */

struct judgement {
    const char *kind;
    bool is_loader, has_copy;
    int64_t fresh_ms, stale_ms, error_ms; /* left of the copy */
    struct load_token token;
    int64_t began;
};

static int64_t left_ms(struct mono_ms until)
{
    int64_t ms = until.ms - clock_us / MS;

    return ms < 0 ? 0 : ms;
}

static void on_lookup(void *arg, enum fault fault, const struct lookup_answer *answer)
{
    static const char *const kinds[] = {"fresh", "stale", "load",   "probe",
                                        "wait",  "pass",  "failed", "absent"};
    struct judgement *out = arg;

    cr_assert_eq(fault, FAULT_NONE);
    *out = (struct judgement){.kind = kinds[answer->kind], .has_copy = answer->object != NULL};
    out->is_loader = answer->kind != LOOKUP_WAIT && (answer->load.hi | answer->load.lo) != 0;
    out->token = answer->load;
    out->began = answer->epoch;
    if (answer->object != NULL) {
        out->fresh_ms = left_ms(answer->object->fresh_until);
        out->stale_ms = left_ms(answer->object->stale_until);
        out->error_ms = left_ms(answer->object->error_until);
    }
}

enum look { LOOK_TO_LOAD, LOOK_MERELY, LOOK_FOR_NEW };

static struct judgement ask_memory(struct world *world, size_t key, enum look look)
{
    struct slice tags[1] = {slice_text(TAG_NAMES[key % TAGS])};
    struct lookup_ask ask = {.key = test_key(key),
                             .tags = tags,
                             .tag_count = 1,
                             .wants_new = look == LOOK_FOR_NEW,
                             .lease_ms = look == LOOK_MERELY ? 0 : LEASE_MS};
    struct judgement judgement = {.kind = NULL};

    store_lookup(world->store, &ask, on_lookup, &judgement);
    loop_turn(world->loop, 0);
    cr_assert_not_null(judgement.kind);
    return judgement;
}

static void look_at_both(struct world *world, size_t key, enum look how, int step)
{
    struct judgement memory = ask_memory(world, key, how);
    struct load load = {.key = key, .memory_token = memory.token, .memory_began = memory.began};
    struct looked redis;

    snprintf(load.token, sizeof(load.token), "%032x", ++world->serial);
    redis = look(world->redis, (struct lookup_words){.key = KEY_NAMES[key],
                                                     .token = load.token,
                                                     .now_us = clock_us,
                                                     .seen = world->redis_seen,
                                                     .waited = how == LOOK_FOR_NEW ? "new" : NULL,
                                                     .lease_ms = how == LOOK_MERELY ? LOOKS : LEASE_MS,
                                                     .tags = {TAG_NAMES[key % TAGS]}});
    load.redis_began = redis.began;
    cr_assert_str_eq(memory.kind, redis.kind, "step %d, key %zu", step, key);
    cr_assert_eq(memory.is_loader, strcmp(redis.token, load.token) == 0, "step %d: who loads?", step);
    cr_assert_eq(memory.has_copy, redis.bytes[0] != '\0', "step %d: %s, is there a copy?", step, memory.kind);
    cr_assert_eq(memory.fresh_ms, redis.fresh_us / MS, "step %d: fresh", step);
    cr_assert_eq(memory.stale_ms, redis.stale_us / MS, "step %d: stale", step);
    cr_assert_eq(memory.error_ms, redis.error_us / MS, "step %d: for errors", step);
    cr_assert(!(how == LOOK_MERELY && memory.is_loader));
    cr_assert(how != LOOK_FOR_NEW || memory.is_loader || strcmp(memory.kind, "pass") == 0, "step %d: %s",
              step, memory.kind);
    world->served_fresh += strcmp(memory.kind, "fresh") == 0;
    world->served_stale += strcmp(memory.kind, "stale") == 0;
    if (memory.is_loader && world->load_count < LOADS)
        world->loads[world->load_count++] = load;
}

/* ---- a load's end, in both ---- */

static void on_fill(void *arg, enum fault fault, enum fill_result result)
{
    static const char *const results[] = {"stored", "superseded", "invalidated"};

    cr_assert_eq(fault, FAULT_NONE);
    *(const char **)arg = results[result];
}

static void land(struct world *world, size_t which, struct dice *dice, int step)
{
    struct load load = world->loads[which];
    struct key32 key = test_key(load.key);
    const char *tag = TAG_NAMES[load.key % TAGS], *memory = NULL, *redis;
    int64_t fresh_s = roll(dice, 30), stale_s = fresh_s + roll(dice, 20), error_s = fresh_s + roll(dice, 40);
    struct lifetimes lifetimes = {fresh_s * 1000, stale_s * 1000, error_s * 1000, 0, 0};
    struct object *object =
        test_object(load.key, load.memory_began, tag, 4, lifetimes.fresh_ms, lifetimes.stale_ms,
                    lifetimes.error_ms, (struct mono_ms){clock_us / MS});

    world->loads[which] = world->loads[--world->load_count];
    store_fill(world->store, &key, load.memory_token, object, &lifetimes, on_fill, &memory);
    object_release(&object);
    loop_turn(world->loop, 0);
    redis = fill(world->redis, (struct fill_words){.key = KEY_NAMES[load.key],
                                                   .token = load.token,
                                                   .bytes = "xxxx",
                                                   .now_us = clock_us,
                                                   .seen = world->redis_seen,
                                                   .began = load.redis_began,
                                                   .fresh_s = fresh_s,
                                                   .stale_s = stale_s,
                                                   .error_s = error_s,
                                                   .tags = {tag}});
    cr_assert_str_eq(memory, redis, "step %d: fill", step);
}

static void on_release(void *arg, enum fault fault, bool was_held)
{
    cr_assert_eq(fault, FAULT_NONE);
    *(bool *)arg = was_held;
}

static void give_up_both(struct world *world, size_t which, int step)
{
    struct load load = world->loads[which];
    struct key32 key = test_key(load.key);
    bool memory = false;

    world->loads[which] = world->loads[--world->load_count];
    store_release(world->store, &key, load.memory_token, RELEASE_CANCELLED, 0, 0, on_release, &memory);
    loop_turn(world->loop, 0);
    cr_assert_eq(memory,
                 give_up(world->redis, (struct release_words){.key = KEY_NAMES[load.key],
                                                              .token = load.token,
                                                              .why = "cancelled",
                                                              .now_us = clock_us,
                                                              .seen = world->redis_seen}),
                 "step %d: was it held?", step);
}

static void on_invalidated(void *arg, enum fault fault, int64_t epoch)
{
    cr_assert_eq(fault, FAULT_NONE);
    *(int64_t *)arg = epoch;
}

static void invalidate_both(struct world *world, size_t tag, bool is_soft)
{
    const char *const names[] = {TAG_NAMES[tag], NULL};
    struct slice tags[1] = {slice_text(names[0])};
    int64_t memory = 0;

    clock_us += MS; /* so that the epochs are the moments themselves */
    store_invalidate(world->store, tags, 1, is_soft ? 1 : 0, on_invalidated, &memory);
    loop_turn(world->loop, 0);
    world->redis_seen =
        (is_soft ? invalidate_softly : invalidate)(world->redis, clock_us, world->redis_seen, names);
    cr_assert_eq(memory, clock_us);
    cr_assert_eq(memory, world->redis_seen);
}

static void tell_both_a_history(int64_t seed)
{
    struct dice dice = {.state = (uint64_t)seed};
    struct world world;

    open_world(&world);
    look_at_both(&world, 0, LOOK_TO_LOAD, -1); /* the tag table begins here */
    for (int step = 0; step < STEPS; step++) {
        clock_us += roll(&dice, 4) == 0 ? roll(&dice, 8000) * MS : roll(&dice, 20) * MS;
        switch (roll(&dice, 12)) {
        case 0: invalidate_both(&world, (size_t)roll(&dice, TAGS), true); break;
        case 1: invalidate_both(&world, (size_t)roll(&dice, TAGS), roll(&dice, 3) > 0); break;
        case 2:
            if (world.load_count > 0)
                give_up_both(&world, (size_t)roll(&dice, (int64_t)world.load_count), step);
            break;
        case 3:
        case 4:
        case 5:
            if (world.load_count > 0)
                land(&world, (size_t)roll(&dice, (int64_t)world.load_count), &dice, step);
            break;
        case 6: look_at_both(&world, (size_t)roll(&dice, KEYS), LOOK_MERELY, step); break;
        case 7: look_at_both(&world, (size_t)roll(&dice, KEYS), LOOK_FOR_NEW, step); break;
        default: look_at_both(&world, (size_t)roll(&dice, KEYS), LOOK_TO_LOAD, step);
        }
    }
    cr_assert(world.served_fresh > 100 && world.served_stale > 100,
              "it was about something: %d fresh, %d stale", world.served_fresh, world.served_stale);
    close_world(&world);
}

/* WEIR_SEED is the first of WEIR_HISTORIES. */
Test(cache_differential, memory_and_redis_say_the_same_of_every_history, .timeout = 600)
{
    const char *given = getenv("WEIR_SEED"), *many = getenv("WEIR_HISTORIES");
    int64_t first = given == NULL ? 1 : strtoll(given, NULL, 10);
    int64_t count = many == NULL ? 4 : strtoll(many, NULL, 10);

    for (int64_t seed = first; seed < first + count; seed++) {
        fprintf(stderr, "seed %lld\n", (long long)seed);
        tell_both_a_history(seed);
    }
}
