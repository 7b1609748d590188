/* Fake store: records what it is asked and answers when the test says so. */
#ifndef WEIR_TESTS_FAKE_STORE_H
#define WEIR_TESTS_FAKE_STORE_H

#include "store.h"

#include <criterion/criterion.h>
#include <string.h>

enum { FAKE_CALLS = 512 };

enum fake_op { FAKE_ADMIT, FAKE_SETTLE, FAKE_LOOKUP, FAKE_FILL, FAKE_RELEASE, FAKE_RENEW, FAKE_INVALIDATE };

struct fake_call {
    struct store_call call;
    enum fake_op op;
    bool is_answered;
    void *arg;
    union {
        admit_done *admit;
        settle_done *settle;
        lookup_done *lookup;
        fill_done *fill;
        release_done *release;
        invalidate_done *invalidate;
    } done;
    const struct admit_tuple *tuples;          /* the caller's own: valid until answered */
    const struct hold_settlement *settlements; /* likewise */
    size_t count, soft_count;                  /* of tuples, settlements or tags */
    struct load_token token;                   /* a lookup's `waited` */
    struct key32 key;                          /* of a lookup or fill */
    struct object *object;
    struct lifetimes lifetimes;
    enum release_reason why;
    int status;
    int64_t marker_ms;
    char first_tag[64];
};

struct fake_store {
    struct store store;
    struct fake_call calls[FAKE_CALLS];
    size_t count;
    size_t heeded; /* tuples */
};

static inline struct fake_call *fake_call_new(struct store *store, enum fake_op op, void *arg)
{
    struct fake_store *fake = (struct fake_store *)(void *)store;

    cr_assert_lt(fake->count, FAKE_CALLS, "the store is asked without end");
    fake->calls[fake->count] = (struct fake_call){.op = op, .arg = arg};
    return &fake->calls[fake->count++];
}

static inline struct store_call *fake_admit(struct store *store, const struct admit_tuple *tuples,
                                            size_t count, admit_done *done, void *arg)
{
    struct fake_call *call = fake_call_new(store, FAKE_ADMIT, arg);

    call->done.admit = done;
    call->tuples = tuples;
    call->count = count;
    return &call->call;
}

static inline struct store_call *fake_settle(struct store *store, const struct hold_settlement *settlements,
                                             size_t count, settle_done *done, void *arg)
{
    struct fake_call *call = fake_call_new(store, FAKE_SETTLE, arg);

    call->done.settle = done;
    call->settlements = settlements;
    call->count = count;
    return &call->call;
}

static inline struct store_call *fake_lookup(struct store *store, const struct lookup_ask *ask,
                                             lookup_done *done, void *arg)
{
    struct fake_call *call = fake_call_new(store, FAKE_LOOKUP, arg);

    call->done.lookup = done;
    call->key = ask->key;
    call->token = ask->waited;
    return &call->call;
}

static inline struct store_call *fake_fill(struct store *store, const struct key32 *key,
                                           struct load_token token, struct object *object,
                                           const struct lifetimes *lifetimes, fill_done *done, void *arg)
{
    struct fake_call *call = fake_call_new(store, FAKE_FILL, arg);

    call->key = *key;
    call->done.fill = done;
    call->token = token;
    call->object = object_hold(object);
    call->lifetimes = *lifetimes;
    return &call->call;
}

static inline struct store_call *fake_release(struct store *store, const struct key32 *key,
                                              struct load_token token, enum release_reason why, int status,
                                              int64_t marker_ms, release_done *done, void *arg)
{
    struct fake_call *call = fake_call_new(store, FAKE_RELEASE, arg);

    (void)key;
    call->done.release = done;
    call->token = token;
    call->why = why;
    call->status = status;
    call->marker_ms = marker_ms;
    return &call->call;
}

static inline struct store_call *fake_renew(struct store *store, const struct key32 *key,
                                            struct load_token token, int64_t lease_ms, release_done *done,
                                            void *arg)
{
    struct fake_call *call = fake_call_new(store, FAKE_RENEW, arg);

    (void)key, (void)lease_ms;
    call->done.release = done;
    call->token = token;
    return &call->call;
}

static inline struct store_call *fake_invalidate(struct store *store, const struct slice *tags, size_t count,
                                                 size_t soft_count, invalidate_done *done, void *arg)
{
    struct fake_call *call = fake_call_new(store, FAKE_INVALIDATE, arg);

    call->done.invalidate = done;
    call->count = count;
    call->soft_count = soft_count;
    if (count > 0 && tags[0].len < sizeof(call->first_tag))
        memcpy(call->first_tag, tags[0].base, tags[0].len);
    return &call->call;
}

static inline struct store_call *fake_invalidate_all(struct store *store, invalidate_done *done, void *arg)
{
    struct fake_call *call = fake_call_new(store, FAKE_INVALIDATE, arg);

    call->done.invalidate = done;
    memcpy(call->first_tag, "(all)", sizeof("(all)"));
    return &call->call;
}

static inline void fake_free(struct store *store)
{
    struct fake_store *fake = (struct fake_store *)(void *)store;

    for (size_t i = 0; i < fake->count; i++)
        object_release(&fake->calls[i].object);
    fake->count = 0;
}

static inline void fake_heed(struct store *store, const struct admit_tuple *tuples, size_t count,
                             const struct admit_answer *answers)
{
    struct fake_store *fake = (struct fake_store *)(void *)store;

    (void)tuples, (void)answers;
    fake->heeded += count;
}

static const struct store_ops FAKE_OPS = {.admit = fake_admit,
                                          .heed = fake_heed,
                                          .settle = fake_settle,
                                          .lookup = fake_lookup,
                                          .fill = fake_fill,
                                          .release = fake_release,
                                          .renew = fake_renew,
                                          .invalidate = fake_invalidate,
                                          .invalidate_all = fake_invalidate_all,
                                          .free = fake_free};

static inline void fake_store_init(struct fake_store *fake, struct near *near, bool is_shared)
{
    memset(fake, 0, sizeof(*fake));
    fake->store.ops = &FAKE_OPS;
    fake->store.near = near;
    fake->store.is_shared = is_shared;
    fake->store.is_up = true;
    fake->store.is_pushed = true;
}

/* ---- what the test says ---- */

/* The `nth` (0-based) call of a kind. */
static inline struct fake_call *fake_call_of(struct fake_store *fake, enum fake_op op, size_t nth)
{
    for (size_t i = 0; i < fake->count; i++)
        if (fake->calls[i].op == op && nth-- == 0)
            return &fake->calls[i];
    cr_assert_fail("the store has not been asked that");
    return NULL;
}

static inline size_t fake_count_of(const struct fake_store *fake, enum fake_op op)
{
    size_t count = 0;

    for (size_t i = 0; i < fake->count; i++)
        count += fake->calls[i].op == op;
    return count;
}

/* True where there is somebody to be told. */
static inline bool fake_answer(struct fake_call *call)
{
    cr_assert(!call->is_answered);
    call->is_answered = true;
    return !call->call.is_cancelled;
}

static inline void fake_tell_admit(struct fake_call *call, enum fault fault,
                                   const struct admit_answer *answers)
{
    if (fake_answer(call))
        call->done.admit(call->arg, fault, fault == FAULT_NONE ? answers : NULL, call->count);
}

/* `was_held`: of all its holds. */
static inline void fake_tell_settle(struct fake_call *call, enum fault fault, bool was_held)
{
    bool each[FAKE_CALLS];

    cr_assert_leq(call->count, FAKE_CALLS);
    for (size_t i = 0; i < call->count; i++)
        each[i] = was_held;
    if (fake_answer(call))
        call->done.settle(call->arg, fault, fault == FAULT_NONE ? each : NULL, call->count);
}

static inline void fake_tell_lookup(struct fake_call *call, enum fault fault, struct lookup_answer answer)
{
    if (fake_answer(call))
        call->done.lookup(call->arg, fault, fault == FAULT_NONE ? &answer : NULL);
}

static inline void fake_tell_fill(struct fake_call *call, enum fault fault, enum fill_result result)
{
    if (fake_answer(call) && call->done.fill != NULL)
        call->done.fill(call->arg, fault, result);
}

static inline void fake_tell_release(struct fake_call *call, enum fault fault, bool was_held)
{
    if (fake_answer(call) && call->done.release != NULL)
        call->done.release(call->arg, fault, was_held);
}

static inline void fake_tell_invalidate(struct fake_call *call, enum fault fault, int64_t epoch)
{
    if (fake_answer(call) && call->done.invalidate != NULL)
        call->done.invalidate(call->arg, fault, epoch);
}

#endif
