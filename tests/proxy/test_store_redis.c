/* The store on Redis: two nodes (each a near cache, a store, a worker's handle) on one real server, in one
 * test's loop. */
#include "clock.h"
#include "log.h"
#include "loop.h"
#include "objects.h"
#include "redis_fixture.h"
#include "settings.h"
#include "store.h"

#include <criterion/criterion.h>

enum { MIB = 1 << 20, PATIENCE_MS = 20000, LEASE_MS = 30000, NODES = 2 };

struct node {
    struct near *near;
    struct store_redis *redis;
    struct store *store;
    int wakes;
    struct key32 woken;
};

static struct redis_fixture fixture;
static redisContext *raw; /* an operator's hand */
static struct loop *loop;
static struct node nodes[NODES], *const a = &nodes[0], *const b = &nodes[1];
static struct settings settings;

#define turn_until(condition)                                                                                \
    do {                                                                                                     \
        int64_t give_up_ms_ = clock_mono().ms + PATIENCE_MS;                                                 \
        while (!(condition)) {                                                                               \
            cr_assert_lt(clock_mono().ms, give_up_ms_, "never came true: %s", #condition);                   \
            loop_turn(loop, 5);                                                                              \
        }                                                                                                    \
    } while (0)

static void on_wake(void *arg, const struct key32 *key)
{
    struct node *node = arg;

    node->wakes++;
    node->woken = *key;
}

static void open_node(struct node *node)
{
    node->near = near_new(64 * MIB, 8 * MIB);
    node->redis = store_redis_new(&settings, node->near);
    node->store = store_redis_join(node->redis, loop);
    node->store->on_wake = on_wake;
    node->store->on_wake_arg = node;
}

static void close_node(struct node *node)
{
    node->store->ops->free(node->store);
    store_redis_free(node->redis);
    near_free(node->near);
}

static bool is_ready(const struct node *node)
{
    return node->store->is_up && node->store->is_pushed;
}

static void start_with(int64_t timeout_ms)
{
    log_set_level(LOG_ERROR);
    fixture = redis_fixture_start();
    raw = redis_fixture_connect(&fixture);
    settings.store = (struct store_settings){.kind = STORE_REDIS,
                                             .host = (char *)"127.0.0.1",
                                             .port = fixture.port,
                                             .prefix = (char *)"w",
                                             .timeout_ms = timeout_ms};
    loop = loop_new();
    open_node(a);
    open_node(b);
    turn_until(is_ready(a) && is_ready(b));
}

static void start(void)
{
    start_with(5000);
}

static void stop(void)
{
    close_node(a);
    close_node(b);
    loop_turn(loop, 0);
    loop_free(loop);
    redisFree(raw);
    redis_fixture_stop(&fixture);
}

TestSuite(store_redis, .init = start, .fini = stop, .timeout = 60);

/* Statements to the server itself. */
static int64_t tell(const char *format, ...)
{
    va_list words;
    redisReply *reply;
    int64_t number;

    va_start(words, format);
    reply = redisvCommand(raw, format, words);
    va_end(words);
    cr_assert_not_null(reply);
    cr_assert_neq(reply->type, REDIS_REPLY_ERROR, "%s: %s", format, reply->str);
    number = reply->integer;
    freeReplyObject(reply);
    return number;
}

/* ---- the operations, each waited for ---- */

struct seen {
    int runs;
    enum fault fault;
    struct lookup_answer answer; /* object held */
    enum fill_result filled;
    bool was_held;
    int64_t epoch;
};

static void on_lookup(void *arg, enum fault fault, const struct lookup_answer *answer)
{
    struct seen *seen = arg;

    seen->runs++;
    seen->fault = fault;
    if (fault != FAULT_NONE)
        return;
    seen->answer = *answer;
    if (answer->object != NULL)
        object_hold(answer->object);
}

static struct store_call *start_lookup(struct node *node, uint64_t number, struct load_token waited,
                                       struct seen *seen)
{
    struct slice tags[1] = {SLICE("route")};
    struct lookup_ask ask = {
        .key = test_key(number), .tags = tags, .tag_count = 1, .waited = waited, .lease_ms = LEASE_MS};
    struct store_call *call;

    *seen = (struct seen){.runs = 0};
    call = store_lookup(node->store, &ask, on_lookup, seen);
    cr_assert_eq(seen->runs, 0, "never inside the start");
    return call;
}

static const struct load_token nobody = {0, 0};

static struct seen look_after(struct node *node, uint64_t number, struct load_token waited)
{
    struct seen seen;

    start_lookup(node, number, waited, &seen);
    turn_until(seen.runs == 1);
    return seen;
}

static struct seen look(struct node *node, uint64_t number)
{
    return look_after(node, number, nobody);
}

static void forget(struct seen *seen)
{
    object_release(&seen->answer.object);
}

#define expect_kind(node, number, want)                                                                      \
    do {                                                                                                     \
        struct seen seen_ = look(node, number);                                                              \
        cr_assert_eq(seen_.fault, FAULT_NONE, "%s", fault_name(seen_.fault));                                \
        cr_assert_eq(seen_.answer.kind, want, "kind %d", (int)seen_.answer.kind);                            \
        forget(&seen_);                                                                                      \
    } while (0)

static void on_fill(void *arg, enum fault fault, enum fill_result result)
{
    struct seen *seen = arg;

    seen->runs++;
    seen->fault = fault;
    seen->filled = result;
}

static const struct lifetimes a_minute = {
    .fresh_ms = 60000, .stale_ms = 90000, .error_ms = 120000, .age_ms = 7000};

static struct seen fill_object(struct node *node, struct load_token token, struct object *object,
                               const struct lifetimes *lifetimes)
{
    struct seen seen = {.runs = 0};

    store_fill(node->store, &object->key, token, object, lifetimes, on_fill, &seen);
    cr_assert_eq(seen.runs, 0);
    turn_until(seen.runs == 1);
    return seen;
}

static struct seen fill(struct node *node, uint64_t number, const struct seen *load)
{
    struct object *object =
        test_object(number, load->answer.epoch, "tag", 100, 60000, 90000, 120000, loop_now(loop));
    struct seen seen = fill_object(node, load->answer.load, object, &a_minute);

    object_release(&object);
    return seen;
}

/* Looked for, loaded and stored. */
static void store_one(struct node *node, uint64_t number)
{
    struct seen load = look(node, number);

    cr_assert_eq(load.answer.kind, LOOKUP_LOAD);
    cr_assert_eq(fill(node, number, &load).filled, FILL_STORED);
}

static void on_released(void *arg, enum fault fault, bool was_held)
{
    struct seen *seen = arg;

    seen->runs++;
    seen->fault = fault;
    seen->was_held = was_held;
}

static struct seen let_go(struct node *node, uint64_t number, struct load_token token,
                          enum release_reason why, int status, int64_t ms)
{
    struct key32 key = test_key(number);
    struct seen seen = {.runs = 0};

    store_release(node->store, &key, token, why, status, ms, on_released, &seen);
    turn_until(seen.runs == 1);
    return seen;
}

static void on_invalidated(void *arg, enum fault fault, int64_t epoch)
{
    struct seen *seen = arg;

    seen->runs++;
    seen->fault = fault;
    seen->epoch = epoch;
}

static struct seen invalidate(struct node *node, const char *tag)
{
    struct slice tags[1] = {slice_text(tag)};
    struct seen seen = {.runs = 0};

    store_invalidate(node->store, tags, 1, 0, on_invalidated, &seen);
    turn_until(seen.runs == 1);
    return seen;
}

static struct seen invalidate_softly(struct node *node, const char *tag)
{
    struct slice tags[2] = {slice_text(tag), SLICE("another")};
    struct seen seen = {.runs = 0};

    store_invalidate(node->store, tags, 2, 1, on_invalidated, &seen);
    turn_until(seen.runs == 1);
    return seen;
}

static bool has_near(struct node *node, uint64_t number)
{
    struct key32 key = test_key(number);
    struct object *object = near_find(node->near, &key, loop_now(loop));
    bool has = object != NULL;

    object_release(&object);
    return has;
}

/* ---- the cache ---- */

Test(store_redis, what_one_node_stores_the_other_serves_byte_for_byte)
{
    static const struct header headers[] = {{{"content-type", 12}, {"text/plain", 10}},
                                            {{"x-empty", 7}, {"", 0}}};
    const struct slice tags[] = {SLICE("one"), SLICE("two:2")};
    struct block *blocks[3] = {block_new(3 * MIB), block_new(10), block_new(5)};
    struct seen load = look(a, 1), served;
    int64_t asked_ms = clock_mono().ms;

    for (size_t i = 0; i < blocks[0]->room; i++)
        blocks[0]->bytes[i] = (char)(i * 31 % 251);
    blocks[0]->len = blocks[0]->room;
    memcpy(blocks[1]->bytes, "\0\r\n$5\r\n*1", 9);
    blocks[1]->len = 9;
    struct object *object = object_new(&(struct key32){{0}}, load.answer.epoch, 203, headers, 2, tags, 2,
                                       blocks, 3, &a_minute, loop_now(loop));
    object->key = test_key(1);
    cr_assert_eq(fill_object(a, load.answer.load, object, &a_minute).filled, FILL_STORED);

    served = look(b, 1);
    cr_assert_eq(served.answer.kind, LOOKUP_FRESH);
    const struct object *copy = served.answer.object;
    cr_assert(copy->status == 203 && copy->header_count == 2 && copy->tag_count == 2 &&
              copy->epoch == object->epoch);
    cr_assert(slice_eq(copy->headers[0].name, headers[0].name) &&
              slice_eq(copy->headers[0].value, headers[0].value));
    cr_assert(slice_eq(copy->headers[1].name, headers[1].name) && copy->headers[1].value.len == 0);
    cr_assert(slice_eq(copy->tags[0], tags[0]) && slice_eq(copy->tags[1], tags[1]));
    cr_assert_eq(copy->body_bytes, object->body_bytes);
    cr_assert_eq(memcmp(copy->blocks[0]->bytes, blocks[0]->bytes, blocks[0]->len), 0);
    cr_assert_eq(memcmp(copy->blocks[0]->bytes + blocks[0]->len, blocks[1]->bytes, 9), 0);
    int64_t spent_ms = clock_mono().ms - asked_ms;
    cr_assert(copy->fresh_until.ms <= clock_mono().ms + 60000 &&
              copy->fresh_until.ms >= asked_ms + 60000 - spent_ms - 5);
    cr_assert(copy->stale_until.ms - copy->fresh_until.ms >= 29998 &&
              copy->error_until.ms - copy->stale_until.ms <= 30002);
    cr_assert(copy->born.ms <= clock_mono().ms - 7000, "it is as old as it said, and what passed since");
    object_release(&object);
    for (int i = 0; i < 3; i++)
        block_release(&blocks[i]);
    forget(&served);
}

Test(store_redis, a_soft_invalidation_reaches_every_node_and_one_of_them_refreshes)
{
    struct seen first, second;

    store_one(a, 1);
    first = look(b, 1);
    near_put(b->near, first.answer.object);
    forget(&first);
    cr_assert(has_near(b, 1));
    cr_assert_eq(invalidate_softly(a, "tag").fault, FAULT_NONE);
    turn_until(!has_near(b, 1)); /* told by the push */

    first = look(b, 1);
    cr_assert_eq(first.answer.kind, LOOKUP_STALE);
    cr_assert_neq(first.answer.load.hi | first.answer.load.lo, 0);
    cr_assert_leq(first.answer.object->stale_until.ms, clock_mono().ms + 30000, "its window, from the stamp");
    second = look(a, 1);
    cr_assert_eq(second.answer.kind, LOOKUP_STALE);
    cr_assert_eq(second.answer.load.hi | second.answer.load.lo, 0);
    near_put(a->near, second.answer.object);
    cr_assert(has_near(a, 1), "a stale copy that shows the stamp may be near");
    forget(&second);

    cr_assert_eq(invalidate(a, "tag").fault, FAULT_NONE);
    cr_assert_not(has_near(a, 1));
    cr_assert_eq(fill(b, 1, &first).filled, FILL_INVALIDATED, "hard, after soft");
    forget(&first);
    expect_kind(a, 1, LOOKUP_LOAD);
}

/* More stamps than an answer has room for: the node's floor is then the epoch, below which nothing of its own is trusted. What
 * the store itself hands out after that is: it knows them all. Once a node that had missed many asked the upstream for
 * every such entry, for as long as it lived. */
Test(store_redis, a_node_that_missed_many_invalidations_still_serves_what_none_of_them_was_about)
{
    enum { MANY = 200 };
    static char names[MANY][16];
    struct slice tags[MANY];
    struct seen seen = {.runs = 0}, served;

    store_one(a, 1);
    served = look(b, 1);
    near_put(b->near, served.answer.object);
    forget(&served);
    for (size_t i = 0; i < MANY; i++)
        tags[i] = slice_of(names[i], (size_t)snprintf(names[i], sizeof(names[i]), "many:%zu", i));
    store_invalidate(a->store, tags, MANY, 0, on_invalidated, &seen);
    turn_until(seen.runs == 1);

    served = look(a, 1);
    cr_assert_eq(served.answer.kind, LOOKUP_FRESH);
    cr_assert_not(near_outdates(a->near, served.answer.object));
    near_put(a->near, served.answer.object);
    cr_assert(has_near(a, 1));
    forget(&served);
    cr_assert_eq(invalidate(b, "tag").fault, FAULT_NONE);
    turn_until(!has_near(a, 1) && !has_near(b, 1));
}

Test(store_redis, an_empty_body_is_a_body)
{
    struct seen load = look(a, 1), served;
    struct object *object = object_new(&(struct key32){{0}}, load.answer.epoch, 404, NULL, 0, NULL, 0, NULL,
                                       0, &a_minute, loop_now(loop));

    object->key = test_key(1);
    cr_assert_eq(fill_object(a, load.answer.load, object, &a_minute).filled, FILL_STORED);
    served = look(b, 1);
    cr_assert(served.answer.kind == LOOKUP_FRESH && served.answer.object->status == 404);
    cr_assert_eq(served.answer.object->body_bytes, 0);
    object_release(&object);
    forget(&served);
}

Test(store_redis, one_node_loads_and_who_waits_on_the_other_is_woken)
{
    struct seen load = look(a, 1), waiter = look(b, 1);

    cr_assert_eq(load.answer.kind, LOOKUP_LOAD);
    cr_assert_eq(waiter.answer.kind, LOOKUP_WAIT);
    cr_assert(waiter.answer.load.hi == load.answer.load.hi && waiter.answer.load.lo == load.answer.load.lo);
    cr_assert(waiter.answer.wait_ms > 0 && waiter.answer.wait_ms <= LEASE_MS);
    cr_assert_eq(fill(a, 1, &load).filled, FILL_STORED);
    turn_until(b->wakes == 1 && a->wakes == 1);
    struct key32 key = test_key(1);
    cr_assert_eq(memcmp(&b->woken, &key, sizeof(key)), 0);
    expect_kind(b, 1, LOOKUP_FRESH);
}

Test(store_redis, a_failure_is_shared_an_uncacheable_answer_is_passed_and_a_renewed_lease_is_held)
{
    struct seen load = look(a, 1), waiter = look(b, 1), after;
    struct key32 key = test_key(1);
    struct seen renewed = {.runs = 0};

    store_renew(a->store, &key, load.answer.load, 60000, on_released, &renewed);
    turn_until(renewed.runs == 1);
    cr_assert(renewed.fault == FAULT_NONE && renewed.was_held);
    cr_assert(let_go(a, 1, load.answer.load, RELEASE_FAILED, 504, 30000).was_held);
    after = look_after(b, 1, waiter.answer.load);
    cr_assert(after.answer.kind == LOOKUP_FAILED && after.answer.status == 504);
    load = look(b, 1);
    cr_assert_eq(load.answer.kind, LOOKUP_LOAD);
    cr_assert_not(let_go(a, 1, waiter.answer.load, RELEASE_UNCACHEABLE, 0, 30000).was_held,
                  "an old token is worth nothing");
    cr_assert(let_go(b, 1, load.answer.load, RELEASE_UNCACHEABLE, 0, 30000).was_held);
    expect_kind(a, 1, LOOKUP_PROBE);
    expect_kind(b, 1, LOOKUP_PASS);
}

Test(store_redis, a_status_that_cannot_be_told_is_made_one_that_can)
{
    struct seen load = look(a, 1), after;

    let_go(a, 1, load.answer.load, RELEASE_FAILED, 0, 30000);
    after = look_after(b, 1, load.answer.load);
    cr_assert(after.fault == FAULT_NONE && after.answer.kind == LOOKUP_FAILED && after.answer.status == 502);
}

Test(store_redis, what_cannot_be_stored_still_gives_its_lock_back)
{
    struct seen load = look(a, 1);
    const struct header bad = {{"bad name", 8}, {"x", 1}};
    struct object *object = object_new(&(struct key32){{0}}, load.answer.epoch, 200, &bad, 1, NULL, 0, NULL,
                                       0, &a_minute, loop_now(loop));
    struct seen filled;

    object->key = test_key(1);
    filled = fill_object(a, load.answer.load, object, &a_minute);
    cr_assert(filled.fault == FAULT_NONE && filled.filled == FILL_SUPERSEDED);
    expect_kind(b, 1, LOOKUP_LOAD);
    object_release(&object);
}

Test(store_redis, an_entry_that_nobody_can_read_is_removed_and_loaded_again)
{
    static const char *const damages[] = {
        "", "x", "wEnt", "wEnt\x63\x00 a later version, which this one does not know at all........"};
    char field[160];

    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        struct seen load;
        redisReply *keys;

        tell("FLUSHALL");
        store_one(a, 1);
        keys = redisCommand(raw, "KEYS w:c:*");
        snprintf(field, sizeof(field), "%s", keys->element[0]->str);
        tell("HSET %s d %s", field, damages[i]);
        freeReplyObject(keys);
        load = look(b, 1);
        if (i == 0) { /* no bytes at all: not even a script's answer */
            cr_assert_eq(load.fault, FAULT_STORE_NONSENSE);
            continue;
        }
        cr_assert_eq(load.fault, FAULT_NONE, "damage %zu", i);
        cr_assert_eq(load.answer.kind, LOOKUP_LOAD);
        cr_assert_null(load.answer.object);
        cr_assert_eq(fill(b, 1, &load).filled, FILL_STORED);
        expect_kind(a, 1, LOOKUP_FRESH);
    }
}

Test(store_redis, a_lock_that_its_taker_does_not_want_any_more_is_given_back)
{
    struct seen dropped;
    struct store_call *call = start_lookup(a, 1, nobody, &dropped);

    store_cancel(&call);
    cr_assert_null(call);
    turn_until(tell("EXISTS w:tags") == 1); /* it was carried out */
    struct seen next;
    do
        next = look(b, 1);
    while (next.answer.kind == LOOKUP_WAIT);
    cr_assert_eq(next.answer.kind, LOOKUP_LOAD);
    cr_assert_eq(dropped.runs, 0);
}

/* ---- invalidation ---- */

Test(store_redis, once_acknowledged_an_invalidation_is_known_wherever_an_answer_comes_from)
{
    struct seen load = look(a, 1), served;

    store_one(b, 2);
    served = look(b, 2);
    near_put(b->near, served.answer.object);
    cr_assert(has_near(b, 2));
    struct seen done = invalidate(a, "tag");
    cr_assert(done.fault == FAULT_NONE && done.epoch > load.answer.epoch);
    cr_assert_eq(near_epoch(a->near), done.epoch, "the caller's own near cache knew it first");
    turn_until(!has_near(b, 2)); /* pushed: b asks nothing */
    cr_assert_eq(near_epoch(b->near), done.epoch);
    cr_assert_eq(fill(a, 1, &load).filled, FILL_INVALIDATED);
    expect_kind(b, 2, LOOKUP_LOAD);
    forget(&served);
}

struct admitted {
    int runs;
    enum fault fault;
    size_t count;
    int64_t passed, last_available, epoch_then;
    struct node *node;
    bool in_order;
};

static void on_admit(void *arg, enum fault fault, const struct admit_answer *answers, size_t count)
{
    struct admitted *admitted = arg;

    admitted->runs++;
    admitted->fault = fault;
    admitted->count = count;
    admitted->epoch_then = near_epoch(admitted->node->near);
    admitted->in_order = true;
    for (size_t i = 0; i < count; i++) {
        admitted->passed += answers[i].admitted;
        admitted->last_available = answers[i].states != NULL ? answers[i].states[0].available : -1;
        if (i > 0 && answers[i].admitted > answers[i - 1].admitted)
            admitted->in_order = false;
    }
}

static struct limit_rule rule_named(const char *name, int64_t limit)
{
    return (struct limit_rule){
        .name = (char *)name, .terms = {.limit = limit, .window_us = 3600000000, .tick_us = 1000}, .cost = 1};
}

static struct admitted admit(struct node *node, const struct admit_tuple *tuples, size_t count)
{
    struct admitted admitted = {.node = node};

    store_admit(node->store, tuples, count, on_admit, &admitted);
    cr_assert_eq(admitted.runs, 0);
    turn_until(admitted.runs == 1);
    return admitted;
}

/* So that a node which answers from its near cache after each admit never serves what was invalidated. */
Test(store_redis, an_admit_brings_what_was_invalidated_before_it_answers)
{
    struct seen served;
    struct admitted admitted;
    struct admit_tuple nothing = {.count = 1};

    store_one(b, 2);
    served = look(b, 2);
    near_put(b->near, served.answer.object);
    /* Behind the subscriber's back: as lua/invalidate.lua writes it, without its message. */
    int64_t epoch = near_epoch(b->near) + 5;
    tell("ZADD w:tags %lld !epoch %lld ttag", (long long)epoch, (long long)epoch);
    admitted = admit(b, &nothing, 1);
    cr_assert(admitted.fault == FAULT_NONE && admitted.epoch_then == epoch);
    cr_assert_not(has_near(b, 2));
    forget(&served);
}

Test(store_redis, more_invalidations_than_an_answer_can_name_empty_the_near_cache)
{
    struct seen served;
    struct admit_tuple nothing = {.count = 1};
    int64_t epoch;

    store_one(b, 2);
    served = look(b, 2);
    near_put(b->near, served.answer.object);
    epoch = near_epoch(b->near);
    for (int i = 0; i < 200; i++)
        tell("ZADD w:tags %lld tother%d", (long long)epoch + i, i);
    tell("ZADD w:tags %lld !epoch", (long long)epoch + 200);
    cr_assert_eq(admit(b, &nothing, 1).fault, FAULT_NONE);
    cr_assert_not(has_near(b, 2));
    forget(&served);
}

/* Messages that follow an epoch this node has not seen: their tags count at once, and the rest is asked for.
 */
Test(store_redis, a_message_missed_is_made_up_for)
{
    struct seen served[2];
    int64_t epoch;

    for (uint64_t i = 0; i < 2; i++) {
        struct seen load = look(b, i);
        struct object *object = test_object(i, load.answer.epoch, i == 0 ? "missed" : "told", 10, 60000,
                                            60000, 60000, loop_now(loop));

        cr_assert_eq(fill_object(b, load.answer.load, object, &a_minute).filled, FILL_STORED);
        object_release(&object);
        served[i] = look(b, i);
        near_put(b->near, served[i].answer.object);
    }
    epoch = near_epoch(b->near);
    tell("ZADD w:tags %lld !epoch %lld tmissed %lld ttold", (long long)epoch + 9, (long long)epoch + 5,
         (long long)epoch + 9);
    tell("PUBLISH w:inv %s", "nonsense");
    turn_until(!has_near(b, 0) && !has_near(b, 1));
    char message[80];
    snprintf(message, sizeof(message), "%lld %lld 5:ttold", (long long)epoch + 5, (long long)epoch + 9);
    tell("PUBLISH w:inv %b", message, strlen(message));
    turn_until(near_epoch(b->near) == epoch + 9 && b->store->is_pushed);
    forget(&served[0]);
    forget(&served[1]);
}

/* ---- limits ---- */

Test(store_redis, a_batch_of_any_size_is_decided_in_order_over_all_nodes)
{
    enum { TUPLES = 300 };
    struct limit_rule rule = rule_named("per_client", 250);
    struct limit_charge charge = {.rule = &rule, .terms = &rule.terms, .principal = {1}, .cost = 1};
    static struct admit_tuple tuples[TUPLES];
    struct admitted admitted;

    for (int i = 0; i < TUPLES; i++)
        tuples[i] = (struct admit_tuple){.charges = &charge, .charge_count = 1, .count = 1};
    admitted = admit(a, tuples, 100);
    cr_assert(admitted.fault == FAULT_NONE && admitted.count == 100 && admitted.passed == 100);
    admitted = admit(b, tuples, TUPLES);
    cr_assert(admitted.passed == 150 && admitted.in_order && admitted.last_available == 0, "%lld",
              (long long)admitted.passed);
    cr_assert_eq(tell("EXISTS w:l:{01000000000000000000000000000000}:per_client"), 1,
                 "under the documented name");
    cr_assert_gt(tell("PTTL w:l:{01000000000000000000000000000000}:per_client"), 0);
}

/* However the batch is cut into calls: each request is one with its shadow. */
Test(store_redis, a_shadow_is_decided_for_what_passed_wherever_a_batch_is_cut)
{
    enum { REQUESTS = 100, EACH = 3 };
    struct limit_rule enforced = rule_named("enforced", 3 * REQUESTS - 1),
                      watched = rule_named("watched", 100), costly = rule_named("costly", 1);
    struct limit_charge charges[EACH] = {
        {.rule = &enforced, .terms = &enforced.terms, .principal = {1}, .cost = 1},
        {.rule = &watched, .terms = &watched.terms, .principal = {1}, .cost = 1},
        {.rule = &costly, .terms = &costly.terms, .principal = {1}, .cost = 2}};
    static struct admit_tuple tuples[REQUESTS * EACH];

    for (int i = 0; i < REQUESTS * EACH; i++)
        tuples[i] = (struct admit_tuple){
            .charges = &charges[i % EACH], .charge_count = 1, .count = i % EACH == 0 ? 3 : ADMIT_WHAT_PASSED};
    cr_assert_eq(admit(a, tuples, REQUESTS * EACH).passed, 3 * REQUESTS - 1 + 100);
    cr_assert_eq(admit(b, tuples, 1).passed, 0);
}

Test(store_redis, a_shadow_of_what_was_refused_is_not_charged)
{
    struct limit_rule enforced = rule_named("enforced", 1), watched = rule_named("watched", 5);
    struct limit_charge charges[2] = {
        {.rule = &enforced, .terms = &enforced.terms, .principal = {1}, .cost = 1},
        {.rule = &watched, .terms = &watched.terms, .principal = {1}, .cost = 1}};
    struct admit_tuple tuples[] = {{&charges[0], 1, 9}, {&charges[1], 1, ADMIT_WHAT_PASSED}};
    struct admitted admitted = admit(a, tuples, 2);

    cr_assert(admitted.passed == 2 && admitted.last_available == 4);
    admitted = admit(b, tuples, 2);
    cr_assert(admitted.passed == 0 && admitted.last_available == 4);
}

Test(store_redis, one_key_may_stand_under_many_tuples_and_rules_of_one_name)
{
    struct limit_rule before = rule_named("x", 10), after = rule_named("x", 10), other = rule_named("y", 4);
    struct limit_charge charges[3] = {{.rule = &before, .terms = &before.terms, .principal = {1}, .cost = 2},
                                      {.rule = &other, .terms = &other.terms, .principal = {1}, .cost = 1},
                                      {.rule = &after, .terms = &after.terms, .principal = {1}, .cost = 2}};
    struct admit_tuple tuples[2] = {{charges, 2, 3}, {&charges[2], 1, 9}};
    struct admitted admitted = admit(a, tuples, 2);

    cr_assert_eq(admitted.passed, 3 + 2, "2 x 3 of 10, and then 2 x 2");
}

Test(store_redis, no_tuples_at_all_still_bring_the_epoch)
{
    struct admitted admitted = admit(a, NULL, 0);

    cr_assert(admitted.fault == FAULT_NONE && admitted.count == 0 && admitted.epoch_then > 0);
}

/* ---- what Redis forgets ---- */

Test(store_redis, scripts_that_the_server_forgot_are_sent_again_within_the_decision)
{
    struct limit_rule rule = rule_named("x", 100);
    struct limit_charge charge = {.rule = &rule, .terms = &rule.terms, .principal = {2}, .cost = 1};
    struct admit_tuple tuple = {&charge, 1, 1};

    for (uint64_t round = 1; round < 4; round++) {
        struct seen load;

        tell("SCRIPT FLUSH");
        cr_assert_eq(admit(a, &tuple, 1).passed, 1);
        tell("SCRIPT FLUSH");
        load = look(a, round);
        cr_assert_eq(load.answer.kind, LOOKUP_LOAD);
        tell("SCRIPT FLUSH");
        cr_assert_eq(fill(a, round, &load).filled, FILL_STORED);
        tell("SCRIPT FLUSH");
        expect_kind(b, round, LOOKUP_FRESH);
        tell("SCRIPT FLUSH");
        cr_assert_eq(invalidate(a, "tag").fault, FAULT_NONE);
    }
}

Test(store_redis, a_flushed_server_resurrects_nothing)
{
    struct seen load = look(a, 1), served;
    int64_t before;

    store_one(a, 2);
    served = look(b, 2);
    near_put(b->near, served.answer.object);
    before = near_epoch(b->near);
    tell("FLUSHALL");
    struct seen again = look(b, 2);
    cr_assert_eq(again.answer.kind, LOOKUP_LOAD);
    cr_assert_gt(again.answer.epoch, before);
    cr_assert_not(has_near(b, 2), "the table that vouched for it is gone");
    cr_assert_eq(fill(a, 1, &load).filled, FILL_SUPERSEDED);
    forget(&served);
}

Test(store_redis, somebody_elses_key_under_our_name_is_a_fault_and_no_crash)
{
    struct admit_tuple nothing = {.count = 1};

    tell("DEL w:tags");
    tell("SET w:tags mine");
    cr_assert_eq(look(a, 1).fault, FAULT_STORE_NONSENSE);
    cr_assert_eq(admit(a, &nothing, 1).fault, FAULT_STORE_NONSENSE);
    cr_assert_eq(invalidate(a, "tag").fault, FAULT_STORE_NONSENSE);
    tell("DEL w:tags");
    expect_kind(a, 1, LOOKUP_LOAD);
}

Test(store_redis, a_server_without_memory_is_away_for_what_would_grow_it_and_nothing_else)
{
    struct seen load = look(a, 1);

    tell("CONFIG SET maxmemory 1");
    cr_assert_eq(fill(a, 1, &load).fault, FAULT_STORE_AWAY);
    cr_assert_eq(invalidate(a, "tag").fault, FAULT_NONE, "what must be forgotten can always be said");
    turn_until(tell("EVAL %s 0", "return #redis.call('KEYS', 'w:f:*')") == 0);
    expect_kind(b, 1, LOOKUP_LOAD); /* the lock was given back */
    tell("CONFIG SET maxmemory 0");
}

Test(store_redis, a_server_that_was_killed_and_comes_back_empty_is_used_again)
{
    struct admit_tuple nothing = {.count = 1};
    int64_t before = invalidate(a, "tag").epoch;

    redis_fixture_kill(&fixture);
    turn_until(!a->store->is_up && !a->store->is_pushed && !b->store->is_up);
    cr_assert_eq(admit(a, &nothing, 1).fault, FAULT_STORE_AWAY);
    cr_assert_eq(look(a, 1).fault, FAULT_STORE_AWAY);
    cr_assert(redis_fixture_run(&fixture));
    turn_until(is_ready(a) && is_ready(b));
    struct admitted admitted = admit(a, &nothing, 1);
    cr_assert(admitted.fault == FAULT_NONE && admitted.epoch_then > before);
    expect_kind(a, 1, LOOKUP_LOAD);
}

static void start_impatient(void)
{
    start_with(150);
}

TestSuite(store_redis_impatient, .init = start_impatient, .fini = stop, .timeout = 60);

Test(store_redis_impatient, while_the_server_is_stopped_operations_fail_fast_and_what_was_missed_is_caught_up)
{
    static struct seen stuck[20];
    struct seen served;

    store_one(b, 2);
    served = look(b, 2);
    near_put(b->near, served.answer.object);
    kill(fixture.pid, SIGSTOP);
    for (uint64_t i = 0; i < 20; i++)
        start_lookup(a, 10 + i, nobody, &stuck[i]); /* one turn, one write: all of them time out together */
    for (uint64_t i = 0; i < 20; i++) {
        turn_until(stuck[i].runs == 1);
        cr_assert_eq(stuck[i].fault, FAULT_STORE_SILENT);
    }
    for (int i = 0; i < 20; i++)
        cr_assert_eq(look(a, 99).fault, FAULT_STORE_AWAY, "they have paid for all that follow");
    turn_until(!a->store->is_up && !b->store->is_pushed);
    kill(fixture.pid, SIGCONT);
    tell("CLIENT KILL TYPE pubsub");
    int64_t epoch = near_epoch(b->near) + 1000;
    tell("ZADD w:tags %lld !epoch %lld ttag", (long long)epoch, (long long)epoch);
    turn_until(is_ready(a) && is_ready(b));
    cr_assert_geq(near_epoch(b->near), epoch, "it is called pushed only with everything known");
    cr_assert_not(has_near(b, 2));
    for (uint64_t i = 0; i < 20; i++) /* the locks of lookups that timed out are given back */
        turn_until(look(b, 10 + i).answer.kind == LOOKUP_LOAD);
    forget(&served);
}

/* ---- life ---- */

Test(store_redis, a_handle_freed_with_work_under_way_calls_nobody)
{
    struct node extra = {.near = near_new(MIB, MIB)};
    struct seen dropped;
    struct admitted admitted = {.node = &extra};
    struct limit_rule rule = rule_named("x", 100);
    struct limit_charge charge = {.rule = &rule, .terms = &rule.terms, .principal = {2}, .cost = 1};
    struct admit_tuple tuple = {&charge, 1, 1};

    for (int turns = 0; turns < 6; turns++) {
        extra.redis = store_redis_new(&settings, extra.near);
        extra.store = store_redis_join(extra.redis, loop);
        start_lookup(&extra, 1, nobody, &dropped);
        store_admit(extra.store, &tuple, 1, on_admit, &admitted);
        for (int i = 0; i < turns; i++)
            loop_turn(loop, 0);
        int runs = dropped.runs, admits = admitted.runs;
        extra.store->ops->free(extra.store);
        store_redis_free(extra.redis);
        loop_turn(loop, 1);
        cr_assert(dropped.runs == runs && admitted.runs == admits);
        forget(&dropped);
    }
    near_free(extra.near);
}
