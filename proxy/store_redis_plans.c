/* Store redis plans: which plan has a caller, from now on which; and a limit's state that is forgotten by hand.
 *
 * What this node changes it does not wait to be told of: its own copy is doubted, and its workers' refusals end, before the
 * change is acknowledged. The messages that tell the others come here as well, and do no harm.
 */
#include "store_redis.h"

#include "memory.h"

#include <stdlib.h>

struct plan_op {
    struct redis_op op;
    struct redis_run run;
    unsigned char principal[PRINCIPAL_BYTES];
    struct plan_name plan;
    char *limit; /* of a reset */
    plan_done *read;
    change_done *changed;
    void *arg;
};

static void drop(struct redis_op *base)
{
    struct plan_op *op = (struct plan_op *)base;

    redis_script_cancel(&op->run);
    free(op->limit);
}

static struct plan_op *op_new(struct store *handle, enum store_op_kind kind,
                              const unsigned char principal[PRINCIPAL_BYTES], void *arg)
{
    struct plan_op *op = must_alloc(sizeof(*op));

    op_start(&op->op, (struct redis_store *)handle, kind, drop);
    memcpy(op->principal, principal, sizeof(op->principal));
    op->arg = arg;
    return op;
}

static struct store_call *run(struct plan_op *op, const struct lua_script *script, redis_compose *compose,
                              redis_done *done)
{
    struct redis_store *store = op->op.store;

    redis_script_run(&op->run, store->link, &store->words, script, op->op.give_up_at, compose, done, op);
    return &op->op.call;
}

/* `begin`, the principal, and the rest. */
static void add_key(struct redis_words *words, const char *begin, const struct plan_op *op,
                    const char *middle, const char *end)
{
    char principal[PRINCIPAL_HEX_BYTES];

    principal_write(op->principal, principal);
    redis_words_add(words, slice_text(begin));
    redis_words_add_more(words, slice_of(principal, sizeof(principal)));
    redis_words_add_more(words, slice_text(middle));
    redis_words_add_more(words, slice_text(end));
}

/* ---- plans ---- */

static bool compose_read(void *arg, struct redis_words *words)
{
    const struct plan_op *op = arg;

    redis_words_add_int(words, 1);
    add_key(words, op->op.store->shared->plan_prefix, op, "}", "");
    words_add_text(words, "get");
    return true;
}

static void on_read(void *arg, enum fault fault, const struct redis_reply *reply)
{
    struct plan_op *op = arg;
    struct plan_answer answer;

    if (fault == FAULT_NONE && !answer_read_plan(reply, &answer))
        fault = FAULT_STORE_NONSENSE;
    op_settle(&op->op, fault);
    if (!op->op.call.is_cancelled)
        op->read(op->arg, fault, fault == FAULT_NONE ? &answer : NULL);
    op_end(&op->op);
}

struct store_call *redis_store_read_plan(struct store *handle, const unsigned char principal[PRINCIPAL_BYTES],
                                         plan_done *done, void *arg)
{
    struct plan_op *op = op_new(handle, OP_READ_PLAN, principal, arg);

    op->read = done;
    return run(op, op->op.store->shared->scripts.plan, compose_read, on_read);
}

static bool compose_write(void *arg, struct redis_words *words)
{
    const struct plan_op *op = arg;

    redis_words_add_int(words, 1);
    add_key(words, op->op.store->shared->plan_prefix, op, "}", "");
    words_add_text(words, op->plan.len > 0 ? "set" : "del");
    if (op->plan.len > 0)
        redis_words_add(words, plan_name_text(&op->plan));
    return true;
}

/* Also where the server was silent: it may have done it. */
static void on_changed(void *arg, enum fault fault, const struct redis_reply *reply)
{
    struct plan_op *op = arg;
    struct store_redis *shared = op->op.store->shared;
    bool was_there = false;

    if (fault == FAULT_NONE && !answer_read_held(reply, &was_there))
        fault = FAULT_STORE_NONSENSE;
    if (op->op.kind == OP_WRITE_PLAN)
        known_plans_doubt(shared->plans, op->principal);
    store_redis_note_correction(shared);
    op_settle(&op->op, fault);
    if (!op->op.call.is_cancelled)
        op->changed(op->arg, fault, was_there);
    op_end(&op->op);
}

struct store_call *redis_store_write_plan(struct store *handle,
                                          const unsigned char principal[PRINCIPAL_BYTES],
                                          const struct plan_name *plan, change_done *done, void *arg)
{
    struct plan_op *op = op_new(handle, OP_WRITE_PLAN, principal, arg);

    op->plan = *plan;
    op->changed = done;
    return run(op, op->op.store->shared->scripts.plan, compose_write, on_changed);
}

/* ---- limits ---- */

static bool compose_reset(void *arg, struct redis_words *words)
{
    const struct plan_op *op = arg;
    const struct store_redis *shared = op->op.store->shared;
    char principal[PRINCIPAL_HEX_BYTES];

    redis_words_add_int(words, 2);
    add_key(words, shared->limit_prefix, op, "}:", op->limit);
    add_key(words, shared->holds_prefix, op, "}:", op->limit);
    words_add_text(words, shared->reset_channel);
    principal_write(op->principal, principal);
    redis_words_add(words, slice_of(principal, sizeof(principal)));
    return true;
}

struct store_call *redis_store_reset_limit(struct store *handle,
                                           const unsigned char principal[PRINCIPAL_BYTES], const char *limit,
                                           change_done *done, void *arg)
{
    struct plan_op *op = op_new(handle, OP_RESET, principal, arg);

    op->limit = must_copy(limit, strlen(limit));
    op->changed = done;
    return run(op, op->op.store->shared->scripts.reset, compose_reset, on_changed);
}
