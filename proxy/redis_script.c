/* Redis script: see redis_script.h. */
#include "redis_script.h"

#include "check.h"
#include "log.h"

enum { SHOWN_ERROR_BYTES = 200 };

const struct lua_script *redis_script_find(const char *name)
{
    const struct lua_script *script = lua_scripts;

    while (script->name != NULL && strcmp(script->name, name) != 0)
        script++;
    CHECK(script->name != NULL);
    return script;
}

static void on_reply(void *arg, enum fault fault, const struct redis_reply *reply);

static bool send(struct redis_run *run)
{
    redis_words_clear(run->scratch);
    if (run->with_text) {
        redis_words_borrow(run->scratch, SLICE("EVAL"));
        redis_words_borrow(run->scratch, slice_of(run->script->text, run->script->len));
    } else {
        redis_words_borrow(run->scratch, SLICE("EVALSHA"));
        redis_words_borrow(run->scratch, slice_text(run->script->sha1));
    }
    if (!run->compose(run->arg, run->scratch))
        return false;
    redis_link_send(run->link, &run->call, run->scratch, run->give_up_at, on_reply, run);
    return true;
}

/* The server is well but may not write, or not now. */
static bool is_away(const struct redis_reply *error)
{
    static const char *const words[] = {"OOM",         "MISCONF",  "BUSY",  "NOREPLICAS",
                                        "CLUSTERDOWN", "TRYAGAIN", "MOVED", "UNKILLABLE"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (redis_error_is(error, words[i]))
            return true;
    return false;
}

static enum fault fault_of(const struct redis_run *run, const struct redis_reply *error)
{
    size_t len = error->text.len < SHOWN_ERROR_BYTES ? error->text.len : SHOWN_ERROR_BYTES;

    log_warn("redis: %s was answered with: %.*s", run->script->name, (int)len, error->text.base);
    return is_away(error) ? FAULT_STORE_AWAY : FAULT_STORE_NONSENSE;
}

static void on_reply(void *arg, enum fault fault, const struct redis_reply *reply)
{
    struct redis_run *run = arg;

    if (fault == FAULT_NONE && reply->kind == REDIS_ERROR) {
        if (!run->with_text && redis_error_is(reply, "NOSCRIPT")) {
            run->with_text = true;
            if (send(run))
                return;
            fault = FAULT_STORE_AWAY; /* nobody wants the answer */
        } else {
            fault = fault_of(run, reply);
        }
    }
    run->done(run->arg, fault, fault == FAULT_NONE ? reply : NULL);
}

void redis_script_run(struct redis_run *run, struct redis_link *link, struct redis_words *scratch,
                      const struct lua_script *script, struct mono_ms give_up_at, redis_compose *compose,
                      redis_done *done, void *arg)
{
    bool is_sent;

    run->link = link;
    run->scratch = scratch;
    run->script = script;
    run->give_up_at = give_up_at;
    run->with_text = false;
    run->compose = compose;
    run->done = done;
    run->arg = arg;
    is_sent = send(run);
    CHECK(is_sent); /* only a repetition may be declined */
}

bool redis_script_was_sent(const struct redis_run *run)
{
    return run->call.place != 0;
}

void redis_script_cancel(struct redis_run *run)
{
    redis_call_cancel(&run->call);
}
