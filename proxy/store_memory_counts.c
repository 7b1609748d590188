/* Store memory, counts: what one caller may take and has taken, decided by the limit table and the plan table. See store_memory_parts.h. */
#include "store_memory_parts.h"

#include "memory.h"
#include "settings.h"

#include <stdlib.h>
#include <string.h>

/* ---- limits ---- */

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
            limit_table_decide(self->memory->limits, &tuple, self->owner, memory_now_us(self->memory),
                               self->work, self->states + states);
        passed = is_shadow ? passed : self->answers[i].admitted;
        states += tuple.charge_count;
    }
    call->done.admit(call->arg, FAULT_NONE, self->answers, call->tuple_count);
}

struct store_call *memory_store_admit(struct store *store, const struct admit_tuple *tuples, size_t count,
                                      admit_done *done, void *arg)
{
    struct memory_call *call = memory_call_new(store, carry_out_admit, arg);

    call->done.admit = done;
    call->tuples = tuples;
    call->tuple_count = count;
    return &call->call;
}

static void carry_out_settle(struct memory_store *self, struct memory_call *call)
{
    if (call->call.is_cancelled) /* its settlements may be gone */
        return;
    self->was_held =
        make_room(self->was_held, &self->was_held_room, call->settlement_count, sizeof(*self->was_held));
    for (size_t i = 0; i < call->settlement_count; i++)
        self->was_held[i] = limit_table_settle(self->memory->limits, &call->settlements[i], self->owner,
                                               memory_now_us(self->memory));
    call->done.settle(call->arg, FAULT_NONE, self->was_held, call->settlement_count);
}

struct store_call *memory_store_settle(struct store *store, const struct hold_settlement *settlements,
                                       size_t count, settle_done *done, void *arg)
{
    struct memory_call *call = memory_call_new(store, carry_out_settle, arg);

    call->done.settle = done;
    call->settlements = settlements;
    call->settlement_count = count;
    return &call->call;
}

void memory_store_heed(struct store *store, const struct admit_tuple *tuples, size_t count,
                       const struct admit_answer *answers)
{
    struct store_memory *memory = memory_store_of(store)->memory;
    int64_t now_us = memory_now_us(memory);

    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < tuples[i].charge_count; j++)
            if (tuples[i].charges[j].rule->on_store_failure == FAILURE_LOCAL)
                limit_table_heed(memory->limits, &tuples[i].charges[j], answers[i].states[j].available,
                                 now_us);
}

static void carry_out_reset(struct memory_store *self, struct memory_call *call)
{
    bool was_there = limit_table_reset(self->memory->limits, call->principal, call->limit);

    memory_note_correction(self->memory);
    if (!call->call.is_cancelled)
        call->done.change(call->arg, FAULT_NONE, was_there);
}

struct store_call *memory_store_reset_limit(struct store *store,
                                            const unsigned char principal[PRINCIPAL_BYTES], const char *limit,
                                            change_done *done, void *arg)
{
    struct memory_call *call = memory_call_new(store, carry_out_reset, arg);

    call->done.change = done;
    memcpy(call->principal, principal, sizeof(call->principal));
    call->limit = must_copy(limit, strlen(limit));
    return &call->call;
}

/* ---- plans ---- */

static void carry_out_read_plan(struct memory_store *self, struct memory_call *call)
{
    struct plan_answer answer = {.plan = plan_table_find(self->memory->plan_table, call->principal),
                                 .lasts_ms = -1};

    if (!call->call.is_cancelled)
        call->done.plan(call->arg, FAULT_NONE, &answer);
}

struct store_call *memory_store_read_plan(struct store *store, const unsigned char principal[PRINCIPAL_BYTES],
                                          plan_done *done, void *arg)
{
    struct memory_call *call = memory_call_new(store, carry_out_read_plan, arg);

    call->done.plan = done;
    memcpy(call->principal, principal, sizeof(call->principal));
    return &call->call;
}

static void carry_out_write_plan(struct memory_store *self, struct memory_call *call)
{
    bool had_one;
    enum fault fault = plan_table_set(self->memory->plan_table, call->principal, &call->plan, &had_one)
                           ? FAULT_NONE
                           : FAULT_STORE_AWAY;

    known_plans_doubt(self->memory->plans, call->principal);
    memory_note_correction(self->memory);
    if (!call->call.is_cancelled)
        call->done.change(call->arg, fault, had_one);
}

struct store_call *memory_store_write_plan(struct store *store,
                                           const unsigned char principal[PRINCIPAL_BYTES],
                                           const struct plan_name *plan, change_done *done, void *arg)
{
    struct memory_call *call = memory_call_new(store, carry_out_write_plan, arg);

    call->done.change = done;
    memcpy(call->principal, principal, sizeof(call->principal));
    call->plan = *plan;
    return &call->call;
}
