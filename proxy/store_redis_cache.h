/* Store redis cache: what the operations on entries and flights share.
 *
 * store_redis_lookup.c  lookup
 * store_redis_load.c    how a load ends: fill, release, renew; and invalidate
 */
#ifndef WEIR_STORE_REDIS_CACHE_H
#define WEIR_STORE_REDIS_CACHE_H

#include "store_redis.h"

struct cache_op { /* of one key; each operation uses what it needs */
    struct redis_op op;
    struct redis_run run;
    struct key32 key;
    struct load_token token; /* a lookup's own, should it become a load */
    int64_t lease_ms;        /* of that load; 0: not known here */
    void *arg;
    union {
        struct {
            lookup_done *done;
            struct load_token waited;
            bool wants_new;
            int64_t damaged_us; /* -1: no entry was found damaged */
        } lookup;
        struct {
            fill_done *done;
            struct object *object;
            struct lifetimes lifetimes;
            bool is_unfit; /* it cannot be stored: only give the lock back */
        } fill;
        struct {
            release_done *done;
            const char *why;
            int status;
            int64_t ms;
            struct mono_ms orphaned_until; /* set: an orphan, which is tried until then */
            bool is_waiting;               /* for the server */
        } release;
        struct {
            invalidate_done *done;
            size_t soft_count; /* of the tags, the first */
            bool is_all;
        } invalidate;
    };
    struct slice *tags; /* own, in one allocation */
    size_t tag_count;
};

struct cache_op *cache_op_new(struct store *handle, enum store_op_kind kind, const struct key32 *key,
                              struct load_token token, void *arg);
void cache_op_copy_tags(struct cache_op *op, const struct slice *tags, size_t count);
struct store_call *cache_op_run(struct cache_op *op, const struct lua_script *script, redis_compose *compose,
                                redis_done *done);

/* The lock of this operation's token is nobody's: it is given back, so that nobody waits for a load that does
 * not happen. At once, or (then it is an orphan) as soon as the server is there again, while its lease may
 * still run. */
void cache_op_give_back(const struct cache_op *op);

/* The number of keys and the keys: tag table, entry, flight. */
void words_add_cache_keys(struct redis_words *words, const struct cache_op *op);
void words_add_token(struct redis_words *words, struct load_token token);  /* "" for none */
void words_add_wake(struct redis_words *words, const struct cache_op *op); /* channel and message */

#endif
