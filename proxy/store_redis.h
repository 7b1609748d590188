/* Store redis: what its files share. Who uses a store includes store.h.
 *
 * store_redis.c        the process's part, the handles of its workers, the life of an operation
 * store_redis_admit.c  limit decisions: a batch cut into script calls, and joined again
 * store_redis_settle.c likewise: what becomes of holds
 * store_redis_limit_keys.h  where Redis keeps what of a limit
 * store_redis_cache.h  what concerns entries: store_redis_lookup.c, store_redis_load.c
 * store_redis_plans.c  callers' plans, and limits that are reset by hand
 * store_redis_push.c   the thread that hears what other nodes do; with store_redis_tracking.c, of plans
 */
#ifndef WEIR_STORE_REDIS_H
#define WEIR_STORE_REDIS_H

#include "redis_script.h"
#include "settings.h"
#include "stats.h"
#include "store.h"
#include "store_redis_answer.h"

#include <pthread.h>

enum { HOLD_OWNER_BYTES = 16 };

struct push;
struct mailbox;

enum store_op_kind {
    OP_ADMIT,
    OP_SETTLE,
    OP_LOOKUP,
    OP_FILL,
    OP_RELEASE,
    OP_RENEW,
    OP_INVALIDATE,
    OP_READ_PLAN,
    OP_WRITE_PLAN,
    OP_RESET,
    OP_KINDS
};

struct store_scripts {
    const struct lua_script *admit, *settle, *lookup, *fill, *release, *invalidate, *plan, *reset;
};

struct store_redis { /* everything but the list is fixed before a second thread knows it */
    struct near *near;
    struct known_plans *plans;
    struct store_settings settings; /* own strings */
    struct store_scripts scripts;
    size_t max_entry_bytes; /* of an encoded entry */
    char *tags_key, *wake_channel, *invalidation_channel, *reset_channel;
    char *plan_prefix, *limit_prefix, *holds_prefix; /* of keys, up to the principal */
    stats_id durations[OP_KINDS], faults[OP_KINDS][3], reconnects;

    pthread_mutex_t lock; /* over the handles' list and is_pushed */
    struct redis_store *handles;
    bool is_pushed;
    _Atomic int64_t handles_up;
    struct push *push;
};

struct redis_store { /* the handle of one worker */
    struct store store;
    struct store_redis *shared;
    struct redis_store *next; /* under shared->lock */
    struct loop *loop;
    struct redis_link *link;
    struct redis_words words; /* of the command being built */
    struct mailbox *mailbox;
    struct stats *stats;
    struct redis_op *ops; /* under way */
    bool was_up;
    char owner[HOLD_OWNER_BYTES + 1]; /* of this handle's holds, in hexadecimal */
    size_t orphans;                   /* of the ops: locks that could not be given back yet */
};

/* An operation under way; each kind embeds it first. Freed, with `drop` before, when its answer was
 * delivered. */
struct redis_op {
    struct store_call call;
    enum store_op_kind kind;
    struct redis_store *store;
    struct redis_op *next, *before;
    int64_t started_us;
    struct mono_ms started, give_up_at;
    void (*drop)(struct redis_op *op); /* what the kind holds, runs under way included */
};

void op_start(struct redis_op *op, struct redis_store *store, enum store_op_kind kind,
              void (*drop)(struct redis_op *));
void op_restart(struct redis_op *op); /* with a new deadline */
/* Counts how it ended. Then the callback, unless the call was cancelled; then op_end(). */
void op_settle(struct redis_op *op, enum fault fault);
void op_end(struct redis_op *op);

/* Reads and applies what a reply says of invalidations; `result_out` is the script's own part. FAULT_NONE, or
 * NONSENSE. */
enum fault store_take_news(struct near *near, const struct redis_reply *reply,
                           const struct redis_reply **result_out);

/* The words that all scripts begin with after their keys: the server's clock, and the epoch seen. */
void words_add_begin(struct redis_words *words, struct near *near);
void words_add_text(struct redis_words *words, const char *text);

struct redis_options store_redis_options(const struct store_redis *shared, const char *name);

/* The server is there again: what could not be given back is tried once more. */
void redis_store_give_back_orphans(struct redis_store *store);

/* For the subscriber. */
void store_redis_set_pushed(struct store_redis *shared, bool is_pushed);
void store_redis_wake(struct store_redis *shared, const struct key32 *key); /* tells every worker */
void store_redis_note_correction(struct store_redis *shared); /* what was refused before may pass now */
struct push *push_start(struct store_redis *shared);          /* NULL: no thread, nothing is pushed */
void push_stop(struct push **push);

/* The operations, for the table of struct store_ops. */
struct store_call *redis_store_admit(struct store *, const struct admit_tuple *, size_t count, admit_done *,
                                     void *arg);
struct store_call *redis_store_settle(struct store *, const struct hold_settlement *, size_t count,
                                      settle_done *, void *arg);
struct store_call *redis_store_lookup(struct store *, const struct lookup_ask *, lookup_done *, void *arg);
struct store_call *redis_store_fill(struct store *, const struct key32 *, struct load_token, struct object *,
                                    const struct lifetimes *, fill_done *, void *arg);
struct store_call *redis_store_release(struct store *, const struct key32 *, struct load_token,
                                       enum release_reason, int status, int64_t marker_ms, release_done *,
                                       void *arg);
struct store_call *redis_store_renew(struct store *, const struct key32 *, struct load_token,
                                     int64_t lease_ms, release_done *, void *arg);
struct store_call *redis_store_invalidate(struct store *, const struct slice *tags, size_t count,
                                          size_t soft_count, invalidate_done *, void *arg);
struct store_call *redis_store_invalidate_all(struct store *, invalidate_done *, void *arg);
struct store_call *redis_store_read_plan(struct store *, const unsigned char principal[PRINCIPAL_BYTES],
                                         plan_done *, void *arg);
struct store_call *redis_store_write_plan(struct store *, const unsigned char principal[PRINCIPAL_BYTES],
                                          const struct plan_name *, change_done *, void *arg);
struct store_call *redis_store_reset_limit(struct store *, const unsigned char principal[PRINCIPAL_BYTES],
                                           const char *limit, change_done *, void *arg);

#endif
