/* Store model: random histories of reads, loads, invalidations, failures and deaths on three nodes, against one rule: no read
 * that starts after an acknowledged invalidation is given what was loaded before that invalidation began, and after a soft one
 * nothing of that as fresh.
 *
 * Each node has its near cache and store, as a worker has, and does with their answers what a flight does. All run on one loop; which
 * operations overlap, and in which order they begin and end, is drawn. Two worlds: nodes on a real Redis, and workers of one
 * process on the memory store. WEIR_SEED is the first of WEIR_HISTORIES.
 */
#include "clock.h"
#include "log.h"
#include "loop.h"
#include "objects.h"
#include "redis_fixture.h"
#include "settings.h"
#include "store.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    MIB = 1 << 20,
    NODES = 3,
    KEYS = 2,
    TAGS = 3, /* one a key, and one that only the response reveals */
    SHARED_TAG = KEYS,
    READS = 24,
    LOADS = 12,
    CHANGES = 8,
    STEPS = 120,
    LEASE_MS = 30000,
    PATIENCE_MS = 20000,
};

static const char *const TAG_NAMES[TAGS] = {"own:0", "own:1", "shared"};

struct node {
    struct near *near;
    struct store_redis *redis;
    struct store *store;
};

struct floors { /* the beginnings of the last acknowledged invalidations */
    int64_t hard[TAGS], soft[TAGS];
};

struct read {
    bool is_used;
    struct node *node;
    size_t key;
    struct floors floors; /* when it began */
    struct store_call *call;
    struct admit_tuple tuple;
};

struct load {
    bool is_used, has_read, is_ending;
    struct node *node;
    size_t key;
    struct load_token token;
    int64_t epoch;
    int64_t read_at; /* of the upstream */
    struct object *object;
};

struct change {
    bool is_used, is_soft;
    struct node *node;
    size_t tag;
    int64_t began_at;
};

static struct {
    bool is_redis;
    struct redis_fixture fixture;
    redisContext *raw;
    struct settings settings;
    struct near *shared_near;
    struct store_memory *memory;
    struct loop *loop;
    struct node nodes[NODES];
    struct read reads[READS];
    struct load loads[LOADS];
    struct change changes[CHANGES];
    struct floors floors;
    int64_t clock; /* of events, not of time */
    uint64_t dice, history;
    int64_t seed;
    size_t served_fresh, served_stale, acknowledged, stored;
} world;

static uint64_t roll(uint64_t sides)
{
    world.dice ^= world.dice << 13;
    world.dice ^= world.dice >> 7;
    world.dice ^= world.dice << 17;
    return (world.dice >> 20) % sides;
}

static struct key32 key_of(size_t key)
{
    return test_key(world.history * KEYS + key);
}

/* ---- nodes ---- */

static void open_node(struct node *node)
{
    if (!world.is_redis) {
        node->near = world.shared_near;
        node->store = store_memory_join(world.memory, world.loop);
        return;
    }
    node->near = near_new(4 * MIB, MIB);
    node->redis = store_redis_new(&world.settings, node->near);
    node->store = store_redis_join(node->redis, world.loop);
}

static void close_node(struct node *node)
{
    node->store->ops->free(node->store);
    loop_turn(world.loop, 0);
    loop_turn(world.loop, 0);
    if (world.is_redis) {
        store_redis_free(node->redis);
        near_free(node->near);
    }
}

#define turn_until(condition)                                                                                \
    do {                                                                                                     \
        int64_t give_up_ms_ = clock_mono().ms + PATIENCE_MS;                                                 \
        while (!(condition)) {                                                                               \
            cr_assert_lt(clock_mono().ms, give_up_ms_, "never came true: %s", #condition);                   \
            loop_turn(world.loop, 1);                                                                        \
        }                                                                                                    \
    } while (0)

/* ---- what is read ---- */

static void check(const struct read *read, const struct object *object, bool is_fresh)
{
    int64_t loaded_at;

    memcpy(&loaded_at, object->blocks[0]->bytes, sizeof(loaded_at));
    for (size_t i = 0; i < object->tag_count; i++)
        for (size_t t = 0; t < TAGS; t++) {
            if (!slice_eq(object->tags[i], slice_text(TAG_NAMES[t])))
                continue;
            cr_assert_geq(loaded_at, read->floors.hard[t],
                          "seed %lld: loaded at %lld, invalidated at %lld and acknowledged before this read",
                          (long long)world.seed, (long long)loaded_at, (long long)read->floors.hard[t]);
            if (is_fresh)
                cr_assert_geq(loaded_at, read->floors.soft[t],
                              "seed %lld: loaded at %lld, softly invalidated at %lld, and served as fresh",
                              (long long)world.seed, (long long)loaded_at, (long long)read->floors.soft[t]);
        }
    if (is_fresh)
        world.served_fresh++;
    else
        world.served_stale++;
}

static struct load *new_load(struct node *node, size_t key, struct load_token token, int64_t epoch)
{
    for (size_t i = 0; i < LOADS; i++)
        if (!world.loads[i].is_used) {
            world.loads[i] =
                (struct load){.is_used = true, .node = node, .key = key, .token = token, .epoch = epoch};
            return &world.loads[i];
        }
    return NULL; /* its lease may end it */
}

static void on_looked_up(void *arg, enum fault fault, const struct lookup_answer *answer)
{
    struct read *read = arg;

    read->is_used = false;
    read->call = NULL;
    if (fault != FAULT_NONE)
        return;
    if ((answer->kind == LOOKUP_FRESH || answer->kind == LOOKUP_STALE) &&
        !near_outdates(read->node->near, answer->object)) { /* what a flight looks at before it serves */
        check(read, answer->object, answer->kind == LOOKUP_FRESH);
        if (world.is_redis)
            near_put(read->node->near, answer->object);
    }
    if (answer->kind != LOOKUP_WAIT && (answer->load.hi | answer->load.lo) != 0)
        new_load(read->node, read->key, answer->load, answer->epoch);
}

/* The near cache, once its epoch is known to be that of the store; then the store. */
static void look(struct read *read)
{
    struct slice tags[1] = {slice_text(TAG_NAMES[read->key])};
    struct lookup_ask ask = {.key = key_of(read->key), .tags = tags, .tag_count = 1, .lease_ms = LEASE_MS};
    struct object *object = near_find(read->node->near, &ask.key, loop_now(world.loop));

    if (object != NULL && loop_now(world.loop).ms < object->fresh_until.ms) {
        check(read, object, true);
        read->is_used = false;
    } else {
        if (object != NULL && loop_now(world.loop).ms < object->stale_until.ms)
            check(read, object, false); /* and somebody refreshes it */
        read->call = store_lookup(read->node->store, &ask, on_looked_up, read);
    }
    object_release(&object);
}

static void on_epoch(void *arg, enum fault fault, const struct admit_answer *answers, size_t count)
{
    struct read *read = arg;

    (void)answers, (void)count;
    read->call = NULL;
    if (fault == FAULT_NONE)
        look(read);
    else
        read->is_used = false;
}

static void begin_read(struct node *node)
{
    for (size_t i = 0; i < READS; i++) {
        struct read *read = &world.reads[i];

        if (read->is_used)
            continue;
        *read = (struct read){.is_used = true,
                              .node = node,
                              .key = (size_t)roll(KEYS),
                              .floors = world.floors,
                              .tuple = {NULL, 0, 1}};
        if (node->store->is_shared)
            read->call = store_admit(node->store, &read->tuple, 1, on_epoch, read);
        else
            look(read);
        return;
    }
}

/* Its client leaves. */
static void cancel_read(struct read *read)
{
    if (read->is_used && read->call != NULL) {
        store_cancel(&read->call);
        read->is_used = false;
    }
}

/* ---- what is loaded ---- */

static void end_load(struct load *load)
{
    object_release(&load->object);
    load->is_used = false;
}

static void on_filled(void *arg, enum fault fault, enum fill_result result)
{
    struct load *load = arg;

    if (fault == FAULT_NONE && result == FILL_STORED) {
        world.stored++;
        if (world.is_redis)
            near_put(load->node->near, load->object);
    }
    end_load(load);
}

static void on_released(void *arg, enum fault fault, bool was_held)
{
    (void)fault, (void)was_held;
    end_load(arg);
}

static void fill(struct load *load)
{
    struct slice tags[2] = {slice_text(TAG_NAMES[load->key]), slice_text(TAG_NAMES[SHARED_TAG])};
    int64_t fresh_ms = roll(4) == 0 ? 0 : (int64_t)roll(200);
    struct lifetimes lifetimes = {.fresh_ms = fresh_ms,
                                  .stale_ms = fresh_ms + (int64_t)roll(30),
                                  .error_ms = fresh_ms + (int64_t)roll(60)};
    struct block *block = block_new(sizeof(load->read_at));
    struct key32 key = key_of(load->key);

    memcpy(block->bytes, &load->read_at, sizeof(load->read_at));
    block->len = sizeof(load->read_at);
    load->object = object_new(&key, load->epoch, 200, NULL, 0, tags, 1 + (size_t)roll(2), &block, 1,
                              &lifetimes, loop_now(world.loop));
    block_release(&block);
    store_fill(load->node->store, &key, load->token, load->object, &lifetimes, on_filled, load);
}

/* It reads the upstream, and later ends in one way or another. */
static void go_on(struct load *load)
{
    static const enum release_reason reasons[] = {RELEASE_FAILED, RELEASE_UNCACHEABLE, RELEASE_CANCELLED};
    struct key32 key = key_of(load->key);

    if (!load->is_used || load->is_ending)
        return;
    if (!load->has_read) {
        load->has_read = true;
        load->read_at = ++world.clock;
        return;
    }
    load->is_ending = true;
    if (roll(4) > 0)
        fill(load);
    else
        store_release(load->node->store, &key, load->token, reasons[roll(3)], 503, (int64_t)roll(5),
                      on_released, load);
}

/* One that is under way, if there is one. */
static struct load *a_load(void)
{
    size_t from = (size_t)roll(LOADS), at = from;

    while (!world.loads[at].is_used && (at = (at + 1) % LOADS) != from)
        ;
    return &world.loads[at];
}

/* ---- what changes ---- */

static void on_invalidated(void *arg, enum fault fault, int64_t epoch)
{
    struct change *change = arg;
    int64_t *floor = change->is_soft ? &world.floors.soft[change->tag] : &world.floors.hard[change->tag];

    (void)epoch;
    change->is_used = false;
    if (fault != FAULT_NONE)
        return;
    world.acknowledged++;
    if (*floor < change->began_at)
        *floor = change->began_at;
}

static void begin_change(struct node *node)
{
    for (size_t i = 0; i < CHANGES; i++) {
        struct change *change = &world.changes[i];
        struct slice tags[1];

        if (change->is_used)
            continue;
        *change = (struct change){.is_used = true,
                                  .is_soft = roll(3) == 0,
                                  .node = node,
                                  .tag = (size_t)roll(TAGS),
                                  .began_at = ++world.clock};
        tags[0] = slice_text(TAG_NAMES[change->tag]);
        store_invalidate(node->store, tags, 1, change->is_soft ? 1 : 0, on_invalidated, change);
        return;
    }
}

/* A node dies with all that it has under way, and another one begins. */
static void kill_node(struct node *node)
{
    close_node(node);
    for (size_t i = 0; i < READS; i++)
        if (world.reads[i].node == node)
            world.reads[i].is_used = false;
    for (size_t i = 0; i < LOADS; i++)
        if (world.loads[i].is_used && world.loads[i].node == node)
            end_load(&world.loads[i]);
    for (size_t i = 0; i < CHANGES; i++)
        if (world.changes[i].node == node)
            world.changes[i].is_used = false;
    open_node(node);
    turn_until(node->store->is_up);
}

static void rob_redis(void)
{
    static const char *const thefts[] = {"FLUSHALL", "DEL w:tags", "ZREM w:tags !epoch",
                                         "ZREM w:tags !floor"};

    freeReplyObject(redisCommand(world.raw, thefts[roll(4)]));
}

/* What was asked is answered before anything else begins: else little would be known when the next read begins. */
static bool is_reading_or_changing(void)
{
    bool is_busy = false;

    for (size_t i = 0; i < READS; i++)
        is_busy |= world.reads[i].is_used;
    for (size_t i = 0; i < CHANGES; i++)
        is_busy |= world.changes[i].is_used;
    return is_busy;
}

static void step(void)
{
    struct node *node = &world.nodes[roll(NODES)];

    switch (roll(16)) {
    case 0: begin_change(node); return;
    case 1: turn_until(!is_reading_or_changing()); return;
    case 2: cancel_read(&world.reads[roll(READS)]); return;
    case 3:
        if (world.is_redis && roll(20) == 0)
            kill_node(node);
        return;
    case 4:
        if (world.is_redis && roll(20) == 0)
            rob_redis();
        return;
    case 5:
    case 6:
    case 7:
    case 8: go_on(a_load()); return;
    case 9: loop_turn(world.loop, 1); return;
    case 10:
    case 11: loop_turn(world.loop, 0); return;
    default: begin_read(node);
    }
}

/* ---- histories ---- */

static bool is_busy(void)
{
    bool is_loading = false;

    for (size_t i = 0; i < LOADS; i++)
        go_on(&world.loads[i]);
    for (size_t i = 0; i < LOADS; i++)
        is_loading |= world.loads[i].is_used;
    return is_loading || is_reading_or_changing();
}

static void run_history(int64_t seed)
{
    world.seed = seed;
    world.history++;
    world.dice = (uint64_t)seed * 0x9e3779b97f4a7c15u + 1;
    for (int i = 0; i < 10; i++)
        roll(2);
    for (int i = 0; i < STEPS; i++)
        step();
    turn_until(!is_busy());
    for (size_t i = 0; i < NODES; i++) /* and what is there in the end is right as well */
        begin_read(&world.nodes[i]);
    turn_until(!is_busy());
}

static int64_t number_of(const char *name, int64_t otherwise)
{
    const char *given = getenv(name);

    return given == NULL ? otherwise : strtoll(given, NULL, 10);
}

static void run_histories(int64_t otherwise)
{
    int64_t first = number_of("WEIR_SEED", 1), count = number_of("WEIR_HISTORIES", otherwise);

    fprintf(stderr, "seeds %lld to %lld\n", (long long)first, (long long)(first + count - 1));
    for (int64_t seed = first; seed < first + count; seed++)
        run_history(seed);
    fprintf(stderr, "%zu reads fresh, %zu stale, %zu loads stored, %zu invalidations acknowledged\n",
            world.served_fresh, world.served_stale, world.stored, world.acknowledged);
    if (count >= otherwise)
        cr_assert(world.served_fresh > 100 && world.served_stale > 100 && world.acknowledged > 100,
                  "it was about something");
}

static void open_world(bool is_redis)
{
    log_set_level(LOG_ERROR);
    world.is_redis = is_redis;
    world.loop = loop_new();
    if (is_redis) {
        world.fixture = redis_fixture_start();
        world.raw = redis_fixture_connect(&world.fixture);
        world.settings.store = (struct store_settings){.kind = STORE_REDIS,
                                                       .unix_path = world.fixture.socket,
                                                       .host = (char *)"",
                                                       .prefix = (char *)"w",
                                                       .timeout_ms = 5000};
    } else {
        world.shared_near = near_new(64 * MIB, MIB);
        world.memory = store_memory_new(world.shared_near);
    }
    for (size_t i = 0; i < NODES; i++)
        open_node(&world.nodes[i]);
    for (size_t i = 0; i < NODES; i++)
        turn_until(world.nodes[i].store->is_up);
}

static void close_world(void)
{
    for (size_t i = 0; i < NODES; i++)
        close_node(&world.nodes[i]);
    loop_turn(world.loop, 0);
    if (world.is_redis) {
        redisFree(world.raw);
        redis_fixture_stop(&world.fixture);
    } else {
        store_memory_free(world.memory);
        near_free(world.shared_near);
    }
    loop_free(world.loop);
}

Test(store_model, no_read_on_three_nodes_is_given_what_was_invalidated, .timeout = 3600)
{
    open_world(true);
    run_histories(200);
    close_world();
}

Test(store_model, no_read_of_three_workers_is_given_what_was_invalidated, .timeout = 3600)
{
    open_world(false);
    run_histories(1000);
    close_world();
}
