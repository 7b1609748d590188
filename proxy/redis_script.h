/* Redis script: run one of lua/'s scripts, wherever it is: EVALSHA, and its text only to a server that does
 * not know it (yet, or no longer) - within the same decision and its deadline.
 */
#ifndef WEIR_REDIS_SCRIPT_H
#define WEIR_REDIS_SCRIPT_H

#include "lua_scripts.h"
#include "redis_link.h"

const struct lua_script *redis_script_find(const char *name); /* it is there: they are part of the program */

/* Adds the script's number of keys, the keys and the arguments. Runs inside redis_script_run(), and a second
 * time where the text must be sent; then it may return false: not wanted any more. */
typedef bool redis_compose(void *arg, struct redis_words *words);

/* A run under way, embedded in its owner. Zeroed before its first use. */
struct redis_run {
    struct redis_call call;
    struct redis_link *link;
    struct redis_words *scratch;
    const struct lua_script *script;
    struct mono_ms give_up_at;
    bool with_text;
    redis_compose *compose;
    redis_done *done;
    void *arg;
};

/* `done` as in redis_link.h, but its reply is never an error: those became faults. A server that cannot write
 * now (out of memory, busy, disk full) is FAULT_STORE_AWAY, any other error FAULT_STORE_NONSENSE. `scratch`
 * is free again on return. */
void redis_script_run(struct redis_run *run, struct redis_link *link, struct redis_words *scratch,
                      const struct lua_script *script, struct mono_ms give_up_at, redis_compose *compose,
                      redis_done *done, void *arg);
/* In `done`: could the server have run it? False: it was refused before it was sent. */
bool redis_script_was_sent(const struct redis_run *run);
void redis_script_cancel(struct redis_run *run); /* `done` will not run; fine when not under way */

#endif
