/* Store memory rig: one process with a memory store and one worker, the clock in the test's hand, and each operation to its end.
 */
#ifndef WEIR_STORE_MEMORY_RIG_H
#define WEIR_STORE_MEMORY_RIG_H

#include "digest.h"
#include "loop.h"
#include "objects.h"
#include "settings.h"
#include "store.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

enum { MIB = 1024 * 1024, LEASE_MS = 5000 };

static int64_t clock_us = 1000000000;

static inline int64_t read_clock(void)
{
    return clock_us;
}

static inline struct mono_ms now_ms(void)
{
    return (struct mono_ms){clock_us / 1000};
}

static inline void pass_ms(int64_t ms)
{
    clock_us += ms * 1000;
}

/* One process: a near cache, the store, one worker. */
struct fixture {
    struct near *near;
    struct store_memory *memory;
    struct loop *loop;
    struct store *store;
    size_t wakes;
    struct key32 woken;
};

static inline void on_wake(void *arg, const struct key32 *key)
{
    struct fixture *f = arg;

    f->wakes++;
    f->woken = *key;
}

static inline void set_up(struct fixture *f)
{
    *f = (struct fixture){.near = near_new(4 * MIB, MIB), .loop = loop_new()};
    f->memory = store_memory_new(f->near);
    store_memory_use_clock(f->memory, read_clock);
    f->store = store_memory_join(f->memory, f->loop);
    f->store->on_wake = on_wake;
    f->store->on_wake_arg = f;
}

static inline void tear_down(struct fixture *f)
{
    f->store->ops->free(f->store);
    loop_turn(f->loop, 0);
    loop_turn(f->loop, 0);
    loop_free(f->loop);
    store_memory_free(f->memory);
    near_free(f->near);
}

/* ---- one operation, to its end ---- */

struct answer { /* of any operation */
    int calls;
    enum fault fault;
    struct lookup_answer lookup; /* object held */
    enum fill_result fill;
    bool was_held;
    int64_t epoch;
};

static inline void on_lookup(void *arg, enum fault fault, const struct lookup_answer *lookup)
{
    struct answer *answer = arg;

    answer->calls++;
    answer->fault = fault;
    answer->lookup = *lookup;
    if (lookup->object != NULL)
        object_hold(lookup->object);
}

static inline void on_fill(void *arg, enum fault fault, enum fill_result result)
{
    struct answer *answer = arg;

    answer->calls++;
    answer->fault = fault;
    answer->fill = result;
}

static inline void on_release(void *arg, enum fault fault, bool was_held)
{
    struct answer *answer = arg;

    answer->calls++;
    answer->fault = fault;
    answer->was_held = was_held;
}

static inline void on_invalidate(void *arg, enum fault fault, int64_t epoch)
{
    struct answer *answer = arg;

    answer->calls++;
    answer->fault = fault;
    answer->epoch = epoch;
}

static inline void wait_for(struct fixture *f, const struct answer *answer)
{
    cr_assert_eq(answer->calls, 0, "never inside the start");
    loop_turn(f->loop, 0);
    cr_assert_eq(answer->calls, 1, "within the turn");
    cr_assert_eq(answer->fault, FAULT_NONE);
}

static inline struct lookup_answer look_as_waiter(struct fixture *f, uint64_t number, const char *tag,
                                                  struct load_token waited)
{
    struct slice tags[1] = {slice_text(tag)};
    struct lookup_ask ask = {.key = test_key(number),
                             .tags = tags,
                             .tag_count = tag == NULL ? 0 : 1,
                             .waited = waited,
                             .lease_ms = LEASE_MS};
    struct answer answer = {0};

    store_lookup(f->store, &ask, on_lookup, &answer);
    tags[0] = SLICE("overwritten: the store has its copy");
    wait_for(f, &answer);
    return answer.lookup;
}

/* The object of the answer is checked for, then let go: only its presence matters to the caller. */
static inline struct lookup_answer look(struct fixture *f, uint64_t number, const char *tag)
{
    struct lookup_answer answer = look_as_waiter(f, number, tag, (struct load_token){0, 0});
    struct object *object = answer.object;

    object_release(&object);
    return answer;
}

static inline enum fill_result fill_lives(struct fixture *f, uint64_t number, struct lookup_answer load,
                                          const char *tag, int64_t fresh_ms, int64_t stale_ms,
                                          int64_t error_ms)
{
    struct object *object = test_object(number, load.epoch, tag, 10, fresh_ms, stale_ms, error_ms, now_ms());
    struct lifetimes lifetimes = {fresh_ms, stale_ms, error_ms, 0, 0};
    struct key32 key = test_key(number);
    struct answer answer = {0};

    store_fill(f->store, &key, load.load, object, &lifetimes, on_fill, &answer);
    object_release(&object);
    wait_for(f, &answer);
    return answer.fill;
}

static inline enum fill_result fill(struct fixture *f, uint64_t number, struct lookup_answer load,
                                    const char *tag)
{
    return fill_lives(f, number, load, tag, 1000, 2000, 3000);
}

static inline bool release(struct fixture *f, uint64_t number, struct load_token token,
                           enum release_reason why, int status, int64_t marker_ms)
{
    struct key32 key = test_key(number);
    struct answer answer = {0};

    store_release(f->store, &key, token, why, status, marker_ms, on_release, &answer);
    wait_for(f, &answer);
    return answer.was_held;
}

static inline bool renew(struct fixture *f, uint64_t number, struct load_token token, int64_t lease_ms)
{
    struct key32 key = test_key(number);
    struct answer answer = {0};

    store_renew(f->store, &key, token, lease_ms, on_release, &answer);
    wait_for(f, &answer);
    return answer.was_held;
}

static inline int64_t invalidate(struct fixture *f, const char *tag)
{
    struct slice tags[1] = {slice_text(tag)};
    struct answer answer = {0};

    store_invalidate(f->store, tags, 1, 0, on_invalidate, &answer);
    wait_for(f, &answer);
    return answer.epoch;
}

static inline bool same(struct load_token a, struct load_token b)
{
    return a.hi == b.hi && a.lo == b.lo;
}

static inline bool is_none(struct load_token token)
{
    return same(token, (struct load_token){0, 0});
}

/* Wakes travel by letter; a turn that has none to deliver changes nothing. */
static inline size_t wakes_after_turns(struct fixture *f)
{
    loop_turn(f->loop, 0);
    loop_turn(f->loop, 0);
    return f->wakes;
}

#endif
