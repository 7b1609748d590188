/* Store memory, entries: who may load what, what is kept of it and what is not served any more, decided by the claims and the near
 * cache. See store_memory_parts.h. */
#include "store_memory_parts.h"

#include "memory.h"

#include <string.h>

/* Into the call itself, or, where they are many or long, into one allocation. */
static void copy_tags(struct memory_call *call, const struct slice *tags, size_t count)
{
    size_t bytes = 0;
    struct slice *copies = call->own_tags;
    char *cursor = call->own_bytes;

    for (size_t i = 0; i < count; i++)
        bytes += tags[i].len;
    if (count > OWN_TAGS || bytes > OWN_TAG_BYTES) {
        call->more_tags = must_alloc(count * sizeof(*copies) + bytes);
        copies = call->more_tags;
        cursor = (char *)(copies + count);
    }
    for (size_t i = 0; i < count; i++) {
        copies[i] = slice_of(cursor, tags[i].len);
        if (tags[i].len > 0)
            memcpy(cursor, tags[i].base, tags[i].len);
        cursor += tags[i].len;
    }
    call->ask.tags = copies;
    call->ask.tag_count = count;
}

static void carry_out_lookup(struct memory_store *self, struct memory_call *call)
{
    struct lookup_answer answer;

    if (call->call.is_cancelled) /* nobody would give back what it might take */
        return;
    claims_lookup(self->memory->claims, &call->ask, memory_now_ms(self->memory), &answer);
    call->object = answer.object; /* for finish() to release */
    call->done.lookup(call->arg, FAULT_NONE, &answer);
}

struct store_call *memory_store_lookup(struct store *store, const struct lookup_ask *ask, lookup_done *done,
                                       void *arg)
{
    struct memory_call *call = memory_call_new(store, carry_out_lookup, arg);

    call->done.lookup = done;
    call->ask = *ask;
    copy_tags(call, ask->tags, ask->tag_count);
    return &call->call;
}

static void carry_out_fill(struct memory_store *self, struct memory_call *call)
{
    bool wakes;
    enum fill_result result = claims_fill(self->memory->claims, &call->ask.key, call->token, call->object,
                                          memory_now_ms(self->memory), &wakes);

    if (wakes)
        memory_wake_all(self->memory, &call->ask.key);
    if (!call->call.is_cancelled && call->done.fill != NULL)
        call->done.fill(call->arg, FAULT_NONE, result);
}

/* The lifetimes are in the object already: it was made by this process. */
struct store_call *memory_store_fill(struct store *store, const struct key32 *key, struct load_token token,
                                     struct object *object, const struct lifetimes *lifetimes,
                                     fill_done *done, void *arg)
{
    struct memory_call *call = memory_call_new(store, carry_out_fill, arg);

    (void)lifetimes;
    call->done.fill = done;
    call->ask.key = *key;
    call->token = token;
    call->object = object_hold(object);
    return &call->call;
}

static void carry_out_release(struct memory_store *self, struct memory_call *call)
{
    bool wakes;
    bool was_held = claims_release(self->memory->claims, &call->ask.key, call->token, call->why, call->status,
                                   call->lasts_ms, memory_now_ms(self->memory), &wakes);

    if (wakes)
        memory_wake_all(self->memory, &call->ask.key);
    if (!call->call.is_cancelled && call->done.release != NULL)
        call->done.release(call->arg, FAULT_NONE, was_held);
}

struct store_call *memory_store_release(struct store *store, const struct key32 *key, struct load_token token,
                                        enum release_reason why, int status, int64_t marker_ms,
                                        release_done *done, void *arg)
{
    struct memory_call *call = memory_call_new(store, carry_out_release, arg);

    call->done.release = done;
    call->ask.key = *key;
    call->token = token;
    call->why = why;
    call->status = status;
    call->lasts_ms = marker_ms;
    return &call->call;
}

static void carry_out_renew(struct memory_store *self, struct memory_call *call)
{
    bool was_held = claims_renew(self->memory->claims, &call->ask.key, call->token, call->lasts_ms,
                                 memory_now_ms(self->memory));

    if (!call->call.is_cancelled && call->done.release != NULL)
        call->done.release(call->arg, FAULT_NONE, was_held);
}

struct store_call *memory_store_renew(struct store *store, const struct key32 *key, struct load_token token,
                                      int64_t lease_ms, release_done *done, void *arg)
{
    struct memory_call *call = memory_call_new(store, carry_out_renew, arg);

    call->done.release = done;
    call->ask.key = *key;
    call->token = token;
    call->lasts_ms = lease_ms;
    return &call->call;
}

static void carry_out_invalidate(struct memory_store *self, struct memory_call *call)
{
    struct near *near = self->memory->near;
    int64_t now_us = memory_now_us(self->memory);
    int64_t epoch = call->is_of_all ? near_invalidate_all(near, now_us)
                                    : near_invalidate(near, call->ask.tags, call->ask.tag_count,
                                                      call->soft_count, now_us);

    if (!call->call.is_cancelled && call->done.invalidate != NULL)
        call->done.invalidate(call->arg, FAULT_NONE, epoch);
}

struct store_call *memory_store_invalidate(struct store *store, const struct slice *tags, size_t count,
                                           size_t soft_count, invalidate_done *done, void *arg)
{
    struct memory_call *call = memory_call_new(store, carry_out_invalidate, arg);

    call->done.invalidate = done;
    copy_tags(call, tags, count);
    call->soft_count = soft_count;
    return &call->call;
}

struct store_call *memory_store_invalidate_all(struct store *store, invalidate_done *done, void *arg)
{
    struct memory_call *call = memory_call_new(store, carry_out_invalidate, arg);

    call->done.invalidate = done;
    call->is_of_all = true;
    return &call->call;
}
