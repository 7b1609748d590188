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
#include "store_memory_parts.h"

#include "check.h"
#include "clock.h"
#include "digest.h"
#include "memory.h"

#include <stdlib.h>

enum { MOST_TRACKED_KEYS = 1000000, IDLE_CALLS_KEPT = 64 };

/* ---- what all workers are told ---- */

void memory_wake_all(struct store_memory *memory, const struct key32 *key)
{
    pthread_mutex_lock(&memory->members_lock);
    for (struct memory_store *member = memory->members; member != NULL; member = member->next)
        inbox_add_wake(member->inbox, key);
    pthread_mutex_unlock(&memory->members_lock);
}

void memory_note_correction(struct store_memory *memory)
{
    pthread_mutex_lock(&memory->members_lock);
    for (struct memory_store *member = memory->members; member != NULL; member = member->next) {
        atomic_fetch_add(&member->store.corrections, 1);
        inbox_add_correction(member->inbox);
    }
    pthread_mutex_unlock(&memory->members_lock);
}

/* ---- calls ---- */

struct memory_call *memory_call_new(struct store *store,
                                    void (*carry_out)(struct memory_store *, struct memory_call *), void *arg)
{
    struct memory_store *self = memory_store_of(store);
    struct memory_call *call = self->idle;

    if (call != NULL) {
        self->idle = call->next;
        self->idle_count--;
    } else {
        call = must_alloc(sizeof(*call));
    }
    call->call.is_cancelled = false;
    call->next = NULL;
    call->is_of_all = false;
    call->carry_out = carry_out;
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

/* What the callbacks start is left to the next run of the task, so that others of the turn get between. */
static void carry_out(void *arg)
{
    struct memory_store *self = arg;
    struct memory_call *call = self->first;

    self->first = self->last = NULL;
    self->is_carrying_out = true;
    while (call != NULL) {
        struct memory_call *next = call->next;

        call->carry_out(self, call);
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

    inbox_close(self->inbox); /* nobody can post any more */
}

static void free_handle(struct store *store)
{
    struct memory_store *self = memory_store_of(store);

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

static const struct store_ops memory_ops = {
    .admit = memory_store_admit,
    .heed = memory_store_heed,
    .settle = memory_store_settle,
    .lookup = memory_store_lookup,
    .fill = memory_store_fill,
    .release = memory_store_release,
    .renew = memory_store_renew,
    .invalidate = memory_store_invalidate,
    .invalidate_all = memory_store_invalidate_all,
    .read_plan = memory_store_read_plan,
    .write_plan = memory_store_write_plan,
    .reset_limit = memory_store_reset_limit,
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
    self->inbox = inbox_new(&self->store, loop);

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
