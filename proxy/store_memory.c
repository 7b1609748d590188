/* Store memory: the operations of a store for the threads of one process.
 *
 * What must be exclusive is decided by the claims (who loads what), the limit table and the near cache, each
 * under its own locks. Here is the way to them: a start queues a call, and a deferred task carries the queued
 * calls out in their order and answers each at once, within the same turn. Nothing lies between a decision
 * and its answer, so a cancelled lookup leaves no lock behind.
 *
 * The end of a load that somebody waits for is told to the loops of all workers, each by a letter that takes
 * along whatever ends before it is delivered.
 */
#include "store.h"

#include "check.h"
#include "clock.h"
#include "digest.h"
#include "loop.h"
#include "memory.h"
#include "settings.h"
#include "store_memory_claims.h"
#include "store_memory_limits.h"
#include "store_memory_plans.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_TRACKED_KEYS = 1000000,
    IDLE_CALLS_KEPT = 64,
    OWN_TAGS = 8, /* of a call; more are allocated */
    OWN_TAG_BYTES = 256,
    MOST_WAKES =
        65536, /* not yet delivered to one loop; further ones are dropped, waiters have their deadlines */
};

/* ---- the ends of loads, on their way to one worker's loop ---- */

struct inbox {
    struct letter letter;
    pthread_mutex_t lock;
    struct key32 *keys, *delivered; /* swapped at each delivery */
    size_t count, room, delivered_room;
    bool is_posted;             /* the letter is with the loop */
    struct memory_store *owner; /* of the worker's thread alone; NULL: gone, the delivery frees the inbox */
};

struct memory_store {
    struct store store; /* first */
    struct store_memory *memory;
    struct loop *loop;
    struct inbox *inbox;
    struct memory_store *next; /* among the members */
    struct task carry_out;
    struct memory_call *first, *last; /* started, not yet carried out */
    struct memory_call *idle;
    size_t idle_count;
    bool is_carrying_out;
    struct admit_answer *answers; /* room that every admit of this worker uses again */
    struct limit_state *states;
    struct limit_work *work;
    bool *was_held;
    size_t answer_room, state_room, work_room, was_held_room;
    uint64_t owner; /* of this handle's holds */
};

struct store_memory {
    struct near *near;
    struct claims *claims;
    struct limit_table *limits;
    struct plan_table *plan_table;
    struct known_plans *plans;
    int64_t (*read_us)(void);
    int64_t
        wall_ahead_us; /* of read_us: fixed at the start, so that a step of the wall clock changes no limit */
    pthread_mutex_t members_lock; /* held while letters are posted, so that a loop outlives the posting */
    struct memory_store *members;
};

static void free_inbox(struct inbox *inbox)
{
    pthread_mutex_destroy(&inbox->lock);
    free(inbox->keys);
    free(inbox->delivered);
    free(inbox);
}

static void deliver_wakes(struct letter *letter, void *arg)
{
    struct inbox *inbox = arg;
    struct key32 *keys;
    size_t count, room;

    (void)letter;
    if (inbox->owner == NULL) {
        free_inbox(inbox);
        return;
    }
    pthread_mutex_lock(&inbox->lock);
    keys = inbox->keys;
    count = inbox->count;
    room = inbox->room;
    inbox->keys = inbox->delivered;
    inbox->room = inbox->delivered_room;
    inbox->count = 0;
    inbox->delivered = keys;
    inbox->delivered_room = room;
    inbox->is_posted = false;
    pthread_mutex_unlock(&inbox->lock);
    for (size_t i = 0; i < count && inbox->owner->store.on_wake != NULL; i++)
        inbox->owner->store.on_wake(inbox->owner->store.on_wake_arg, &keys[i]);
}

static void add_wake(struct inbox *inbox, struct loop *loop, const struct key32 *key)
{
    bool must_post;

    pthread_mutex_lock(&inbox->lock);
    if (inbox->count == inbox->room && inbox->room < MOST_WAKES) {
        inbox->room = inbox->room == 0 ? 16 : inbox->room * 2;
        inbox->keys = must_realloc(inbox->keys, inbox->room * sizeof(*inbox->keys));
    }
    if (inbox->count < inbox->room)
        inbox->keys[inbox->count++] = *key;
    must_post = !inbox->is_posted;
    inbox->is_posted = true;
    pthread_mutex_unlock(&inbox->lock);
    if (must_post)
        loop_post(loop, &inbox->letter);
}

static void wake_all(struct store_memory *memory, const struct key32 *key)
{
    pthread_mutex_lock(&memory->members_lock);
    for (struct memory_store *member = memory->members; member != NULL; member = member->next)
        add_wake(member->inbox, member->loop, key);
    pthread_mutex_unlock(&memory->members_lock);
}

/* ---- calls ---- */

enum operation {
    OP_ADMIT,
    OP_SETTLE,
    OP_LOOKUP,
    OP_FILL,
    OP_RELEASE,
    OP_RENEW,
    OP_INVALIDATE,
    OP_INVALIDATE_ALL,
    OP_READ_PLAN,
    OP_WRITE_PLAN,
    OP_RESET
};

struct memory_call {
    struct store_call call; /* first */
    struct memory_call *next;
    enum operation operation;
    union {
        admit_done *admit;
        settle_done *settle;
        lookup_done *lookup;
        fill_done *fill;
        release_done *release; /* and renew */
        invalidate_done *invalidate;
        plan_done *plan;
        change_done *change;
    } done;
    void *arg;
    const struct admit_tuple *tuples; /* borrowed */
    size_t tuple_count;
    const struct hold_settlement *settlements; /* borrowed */
    size_t settlement_count;
    struct lookup_ask
        ask; /* of the others only the key; its tags, and those of an invalidation, are copies */
    struct load_token token;
    struct object *object; /* held */
    enum release_reason why;
    int status;
    int64_t lasts_ms;  /* a marker or a lease */
    size_t soft_count; /* of an invalidation's tags, the first */
    unsigned char principal[PRINCIPAL_BYTES];
    struct plan_name plan;
    char *limit; /* whose state is reset; allocated */
    struct slice own_tags[OWN_TAGS];
    char own_bytes[OWN_TAG_BYTES];
    struct slice *more_tags; /* instead of own_tags, with the bytes behind them; allocated */
};

static struct memory_store *store_of(struct store *store)
{
    return (struct memory_store *)(void *)store; /* its first member */
}

static struct memory_call *start(struct store *store, enum operation operation, void *arg)
{
    struct memory_store *self = store_of(store);
    struct memory_call *call = self->idle;

    if (call != NULL) {
        self->idle = call->next;
        self->idle_count--;
    } else {
        call = must_alloc(sizeof(*call));
    }
    call->call.is_cancelled = false;
    call->next = NULL;
    call->operation = operation;
    call->arg = arg;
    if (self->first == NULL)
        self->first = call;
    else
        self->last->next = call;
    self->last = call;
    loop_defer(self->loop, &self->carry_out);
    return call;
}

static void finish(struct memory_store *self, struct memory_call *call)
{
    object_release(&call->object);
    free(call->more_tags);
    call->more_tags = NULL;
    free(call->limit);
    call->limit = NULL;
    if (self->idle_count >= IDLE_CALLS_KEPT) {
        free(call);
        return;
    }
    call->next = self->idle;
    self->idle = call;
    self->idle_count++;
}

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

static struct store_call *start_admit(struct store *store, const struct admit_tuple *tuples, size_t count,
                                      admit_done *done, void *arg)
{
    struct memory_call *call = start(store, OP_ADMIT, arg);

    call->done.admit = done;
    call->tuples = tuples;
    call->tuple_count = count;
    return &call->call;
}

static struct store_call *start_settle(struct store *store, const struct hold_settlement *settlements,
                                       size_t count, settle_done *done, void *arg)
{
    struct memory_call *call = start(store, OP_SETTLE, arg);

    call->done.settle = done;
    call->settlements = settlements;
    call->settlement_count = count;
    return &call->call;
}

static struct store_call *start_lookup(struct store *store, const struct lookup_ask *ask, lookup_done *done,
                                       void *arg)
{
    struct memory_call *call = start(store, OP_LOOKUP, arg);

    call->done.lookup = done;
    call->ask = *ask;
    copy_tags(call, ask->tags, ask->tag_count);
    return &call->call;
}

/* The lifetimes are in the object already: it was made by this process. */
static struct store_call *start_fill(struct store *store, const struct key32 *key, struct load_token token,
                                     struct object *object, const struct lifetimes *lifetimes,
                                     fill_done *done, void *arg)
{
    struct memory_call *call = start(store, OP_FILL, arg);

    (void)lifetimes;
    call->done.fill = done;
    call->ask.key = *key;
    call->token = token;
    call->object = object_hold(object);
    return &call->call;
}

static struct store_call *start_release(struct store *store, const struct key32 *key, struct load_token token,
                                        enum release_reason why, int status, int64_t marker_ms,
                                        release_done *done, void *arg)
{
    struct memory_call *call = start(store, OP_RELEASE, arg);

    call->done.release = done;
    call->ask.key = *key;
    call->token = token;
    call->why = why;
    call->status = status;
    call->lasts_ms = marker_ms;
    return &call->call;
}

static struct store_call *start_renew(struct store *store, const struct key32 *key, struct load_token token,
                                      int64_t lease_ms, release_done *done, void *arg)
{
    struct memory_call *call = start(store, OP_RENEW, arg);

    call->done.release = done;
    call->ask.key = *key;
    call->token = token;
    call->lasts_ms = lease_ms;
    return &call->call;
}

static struct store_call *start_invalidate(struct store *store, const struct slice *tags, size_t count,
                                           size_t soft_count, invalidate_done *done, void *arg)
{
    struct memory_call *call = start(store, OP_INVALIDATE, arg);

    call->done.invalidate = done;
    copy_tags(call, tags, count);
    call->soft_count = soft_count;
    return &call->call;
}

static struct store_call *start_read_plan(struct store *store, const unsigned char principal[PRINCIPAL_BYTES],
                                          plan_done *done, void *arg)
{
    struct memory_call *call = start(store, OP_READ_PLAN, arg);

    call->done.plan = done;
    memcpy(call->principal, principal, sizeof(call->principal));
    return &call->call;
}

static struct store_call *start_write_plan(struct store *store,
                                           const unsigned char principal[PRINCIPAL_BYTES],
                                           const struct plan_name *plan, change_done *done, void *arg)
{
    struct memory_call *call = start(store, OP_WRITE_PLAN, arg);

    call->done.change = done;
    memcpy(call->principal, principal, sizeof(call->principal));
    call->plan = *plan;
    return &call->call;
}

static struct store_call *start_reset(struct store *store, const unsigned char principal[PRINCIPAL_BYTES],
                                      const char *limit, change_done *done, void *arg)
{
    struct memory_call *call = start(store, OP_RESET, arg);

    call->done.change = done;
    memcpy(call->principal, principal, sizeof(call->principal));
    call->limit = must_copy(limit, strlen(limit));
    return &call->call;
}

static struct store_call *start_invalidate_all(struct store *store, invalidate_done *done, void *arg)
{
    struct memory_call *call = start(store, OP_INVALIDATE_ALL, arg);

    call->done.invalidate = done;
    return &call->call;
}

/* ---- carrying them out ---- */

static int64_t store_us(const struct store_memory *memory)
{
    return memory->read_us() + memory->wall_ahead_us;
}

static struct mono_ms store_ms(const struct store_memory *memory)
{
    return (struct mono_ms){memory->read_us() / 1000};
}

static void *make_room(void *old, size_t *room, size_t wanted, size_t each_bytes)
{
    if (wanted <= *room)
        return old;
    *room = wanted < 16 ? 16 : wanted * 2;
    return must_realloc(old, *room * each_bytes);
}

static void carry_out_admit(struct memory_store *self, struct memory_call *call)
{
    size_t states = 0, widest = 0;
    int64_t passed = 0; /* of the last tuple with a count of its own */

    if (call->call.is_cancelled) /* its tuples may be gone */
        return;
    for (size_t i = 0; i < call->tuple_count; i++) {
        states += call->tuples[i].charge_count;
        if (widest < call->tuples[i].charge_count)
            widest = call->tuples[i].charge_count;
    }
    self->answers = make_room(self->answers, &self->answer_room, call->tuple_count, sizeof(*self->answers));
    self->states = make_room(self->states, &self->state_room, states, sizeof(*self->states));
    self->work = make_room(self->work, &self->work_room, widest, sizeof(*self->work));
    states = 0;
    for (size_t i = 0; i < call->tuple_count; i++) {
        struct admit_tuple tuple = call->tuples[i];
        bool is_shadow = tuple.count == ADMIT_WHAT_PASSED;

        tuple.count = is_shadow ? passed : tuple.count;
        self->answers[i].states = self->states + states;
        self->answers[i].admitted =
            limit_table_decide(self->memory->limits, &tuple, self->owner, store_us(self->memory), self->work,
                               self->states + states);
        passed = is_shadow ? passed : self->answers[i].admitted;
        states += tuple.charge_count;
    }
    call->done.admit(call->arg, FAULT_NONE, self->answers, call->tuple_count);
}

static void carry_out_settle(struct memory_store *self, struct memory_call *call)
{
    if (call->call.is_cancelled) /* its settlements may be gone */
        return;
    self->was_held =
        make_room(self->was_held, &self->was_held_room, call->settlement_count, sizeof(*self->was_held));
    for (size_t i = 0; i < call->settlement_count; i++)
        self->was_held[i] = limit_table_settle(self->memory->limits, &call->settlements[i], self->owner,
                                               store_us(self->memory));
    call->done.settle(call->arg, FAULT_NONE, self->was_held, call->settlement_count);
}

static void carry_out_lookup(struct memory_store *self, struct memory_call *call)
{
    struct lookup_answer answer;

    if (call->call.is_cancelled) /* nobody would give back what it might take */
        return;
    claims_lookup(self->memory->claims, &call->ask, store_ms(self->memory), &answer);
    call->object = answer.object; /* for finish() to release */
    call->done.lookup(call->arg, FAULT_NONE, &answer);
}

static void carry_out_fill(struct memory_store *self, struct memory_call *call)
{
    bool wakes;
    enum fill_result result = claims_fill(self->memory->claims, &call->ask.key, call->token, call->object,
                                          store_ms(self->memory), &wakes);

    if (wakes)
        wake_all(self->memory, &call->ask.key);
    if (!call->call.is_cancelled && call->done.fill != NULL)
        call->done.fill(call->arg, FAULT_NONE, result);
}

static void carry_out_release(struct memory_store *self, struct memory_call *call)
{
    bool wakes;
    bool was_held = claims_release(self->memory->claims, &call->ask.key, call->token, call->why, call->status,
                                   call->lasts_ms, store_ms(self->memory), &wakes);

    if (wakes)
        wake_all(self->memory, &call->ask.key);
    if (!call->call.is_cancelled && call->done.release != NULL)
        call->done.release(call->arg, FAULT_NONE, was_held);
}

static void carry_out_renew(struct memory_store *self, struct memory_call *call)
{
    bool was_held = claims_renew(self->memory->claims, &call->ask.key, call->token, call->lasts_ms,
                                 store_ms(self->memory));

    if (!call->call.is_cancelled && call->done.release != NULL)
        call->done.release(call->arg, FAULT_NONE, was_held);
}

static void carry_out_invalidate(struct memory_store *self, struct memory_call *call)
{
    struct near *near = self->memory->near;
    int64_t now_us = store_us(self->memory);
    int64_t epoch =
        call->operation == OP_INVALIDATE_ALL
            ? near_invalidate_all(near, now_us)
            : near_invalidate(near, call->ask.tags, call->ask.tag_count, call->soft_count, now_us);

    if (!call->call.is_cancelled && call->done.invalidate != NULL)
        call->done.invalidate(call->arg, FAULT_NONE, epoch);
}

static void carry_out_read_plan(struct memory_store *self, struct memory_call *call)
{
    struct plan_answer answer = {.plan = plan_table_find(self->memory->plan_table, call->principal),
                                 .lasts_ms = -1};

    if (!call->call.is_cancelled)
        call->done.plan(call->arg, FAULT_NONE, &answer);
}

static void carry_out_write_plan(struct memory_store *self, struct memory_call *call)
{
    bool had_one;
    enum fault fault = plan_table_set(self->memory->plan_table, call->principal, &call->plan, &had_one)
                           ? FAULT_NONE
                           : FAULT_STORE_AWAY;

    known_plans_doubt(self->memory->plans, call->principal);
    if (!call->call.is_cancelled)
        call->done.change(call->arg, fault, had_one);
}

static void carry_out_reset(struct memory_store *self, struct memory_call *call)
{
    bool was_there = limit_table_reset(self->memory->limits, call->principal, call->limit);

    if (!call->call.is_cancelled)
        call->done.change(call->arg, FAULT_NONE, was_there);
}

static void carry_out_call(struct memory_store *self, struct memory_call *call)
{
    switch (call->operation) {
    case OP_ADMIT: carry_out_admit(self, call); break;
    case OP_SETTLE: carry_out_settle(self, call); break;
    case OP_LOOKUP: carry_out_lookup(self, call); break;
    case OP_FILL: carry_out_fill(self, call); break;
    case OP_RELEASE: carry_out_release(self, call); break;
    case OP_RENEW: carry_out_renew(self, call); break;
    case OP_INVALIDATE:
    case OP_INVALIDATE_ALL: carry_out_invalidate(self, call); break;
    case OP_READ_PLAN: carry_out_read_plan(self, call); break;
    case OP_WRITE_PLAN: carry_out_write_plan(self, call); break;
    case OP_RESET: carry_out_reset(self, call); break;
    }
}

/* What the callbacks start is left to the next run of the task, so that others of the turn get between. */
static void carry_out(void *arg)
{
    struct memory_store *self = arg;
    struct memory_call *call = self->first;

    self->first = self->last = NULL;
    self->is_carrying_out = true;
    while (call != NULL) {
        struct memory_call *next = call->next;

        carry_out_call(self, call);
        finish(self, call);
        call = next;
    }
    self->is_carrying_out = false;
}

/* ---- handles ---- */

static void leave(struct memory_store *self)
{
    struct memory_store **link = &self->memory->members;

    pthread_mutex_lock(&self->memory->members_lock);
    while (*link != self) {
        CHECK(*link != NULL);
        link = &(*link)->next;
    }
    *link = self->next;
    pthread_mutex_unlock(&self->memory->members_lock);

    /* nobody can post any more */
    self->inbox->owner = NULL;
    if (!self->inbox->is_posted)
        free_inbox(self->inbox);
}

static void free_handle(struct store *store)
{
    struct memory_store *self = store_of(store);

    CHECK(!self->is_carrying_out);
    for (struct memory_call *call = self->first; call != NULL; call = call->next)
        call->call.is_cancelled = true;
    carry_out(self); /* the locks it still gives back */
    task_cancel(self->loop, &self->carry_out);
    leave(self);
    while (self->idle != NULL) {
        struct memory_call *next = self->idle->next;

        free(self->idle);
        self->idle = next;
    }
    free(self->answers);
    free(self->states);
    free(self->work);
    free(self->was_held);
    free(self);
}

static void heed(struct store *store, const struct admit_tuple *tuples, size_t count,
                 const struct admit_answer *answers)
{
    struct store_memory *memory = store_of(store)->memory;
    int64_t now_us = store_us(memory);

    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < tuples[i].charge_count; j++)
            if (tuples[i].charges[j].rule->on_store_failure == FAILURE_LOCAL)
                limit_table_heed(memory->limits, &tuples[i].charges[j], answers[i].states[j].available,
                                 now_us);
}

static const struct store_ops memory_ops = {
    .admit = start_admit,
    .heed = heed,
    .settle = start_settle,
    .lookup = start_lookup,
    .fill = start_fill,
    .release = start_release,
    .renew = start_renew,
    .invalidate = start_invalidate,
    .invalidate_all = start_invalidate_all,
    .read_plan = start_read_plan,
    .write_plan = start_write_plan,
    .reset_limit = start_reset,
    .free = free_handle,
};

struct store *store_memory_join(struct store_memory *memory, struct loop *loop)
{
    struct memory_store *self = must_alloc(sizeof(*self));

    self->store.ops = &memory_ops;
    self->store.near = memory->near;
    self->store.plans = memory->plans;
    atomic_init(&self->store.is_up, true);
    atomic_init(&self->store.is_pushed, true);
    self->memory = memory;
    self->loop = loop;
    digest_random(&self->owner, sizeof(self->owner));
    task_init(&self->carry_out, LOOP_DECIDE, carry_out, self);
    self->inbox = must_alloc(sizeof(*self->inbox));
    self->inbox->letter.deliver = deliver_wakes;
    self->inbox->letter.arg = self->inbox;
    self->inbox->owner = self;
    pthread_mutex_init(&self->inbox->lock, NULL);

    pthread_mutex_lock(&memory->members_lock);
    self->next = memory->members;
    memory->members = self;
    pthread_mutex_unlock(&memory->members_lock);
    return &self->store;
}

struct store_memory *store_memory_new(struct near *near)
{
    struct store_memory *memory = must_alloc(sizeof(*memory));

    memory->near = near;
    memory->claims = claims_new(near);
    memory->limits = limit_table_new(MOST_TRACKED_KEYS);
    memory->plan_table = plan_table_new();
    memory->plans = known_plans_new();
    known_plans_set_told(memory->plans, true); /* who changes one says so himself */
    memory->read_us = clock_mono_us;
    memory->wall_ahead_us = clock_wall_us() - clock_mono_us();
    near_date_epochs(near, memory->wall_ahead_us);
    pthread_mutex_init(&memory->members_lock, NULL);
    return memory;
}

int64_t store_memory_keys(struct store_memory *memory, const char *limit)
{
    return limit_table_keys(memory->limits, limit);
}

void store_memory_use_clock(struct store_memory *memory, int64_t (*read_us)(void))
{
    CHECK(memory->members == NULL);
    memory->read_us = read_us;
    memory->wall_ahead_us = 0;
    near_date_epochs(memory->near, 0);
}

void store_memory_free(struct store_memory *memory)
{
    CHECK(memory->members == NULL);
    claims_free(memory->claims);
    limit_table_free(memory->limits);
    plan_table_free(memory->plan_table);
    known_plans_free(memory->plans);
    pthread_mutex_destroy(&memory->members_lock);
    free(memory);
}
