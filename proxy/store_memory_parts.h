/* Store memory: what its files share. Who uses a store includes store.h.
 *
 * store_memory.c           the process's part, the handles of its workers, the way of an operation
 * store_memory_counts.c    limits and plans, by store_memory_limits.h and store_memory_plans.h
 * store_memory_entries.c   entries and loads, by store_memory_claims.h and near.h
 * store_memory_inbox.h     what a worker's loop is told
 */
#ifndef WEIR_STORE_MEMORY_PARTS_H
#define WEIR_STORE_MEMORY_PARTS_H

#include "loop.h"
#include "store.h"
#include "store_memory_claims.h"
#include "store_memory_inbox.h"
#include "store_memory_limits.h"
#include "store_memory_plans.h"

#include <pthread.h>

enum { OWN_TAGS = 8 /* of a call; more are allocated */, OWN_TAG_BYTES = 256 };

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

/* An operation that was started: carried out, and answered, at the end of the turn. */
struct memory_call {
    struct store_call call; /* first */
    struct memory_call *next;
    void (*carry_out)(struct memory_store *, struct memory_call *);
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
    bool is_of_all;    /* an invalidation of everything, whatever its tags */
    unsigned char principal[PRINCIPAL_BYTES];
    struct plan_name plan;
    char *limit; /* whose state is reset; allocated */
    struct slice own_tags[OWN_TAGS];
    char own_bytes[OWN_TAG_BYTES];
    struct slice *more_tags; /* instead of own_tags, with the bytes behind them; allocated */
};

static inline struct memory_store *memory_store_of(struct store *store)
{
    return (struct memory_store *)(void *)store; /* its first member */
}

static inline int64_t memory_now_us(const struct store_memory *memory)
{
    return memory->read_us() + memory->wall_ahead_us;
}

static inline struct mono_ms memory_now_ms(const struct store_memory *memory)
{
    return (struct mono_ms){memory->read_us() / 1000};
}

struct memory_call *memory_call_new(struct store *store,
                                    void (*carry_out)(struct memory_store *, struct memory_call *),
                                    void *arg);
/* To the loops of all workers. */
void memory_wake_all(struct store_memory *memory, const struct key32 *key);
void memory_note_correction(struct store_memory *memory);

/* The operations, for the table of struct store_ops. */
struct store_call *memory_store_admit(struct store *store, const struct admit_tuple *tuples, size_t count,
                                      admit_done *done, void *arg);
struct store_call *memory_store_settle(struct store *store, const struct hold_settlement *settlements,
                                       size_t count, settle_done *done, void *arg);
struct store_call *memory_store_read_plan(struct store *store, const unsigned char principal[PRINCIPAL_BYTES],
                                          plan_done *done, void *arg);
struct store_call *memory_store_write_plan(struct store *store,
                                           const unsigned char principal[PRINCIPAL_BYTES],
                                           const struct plan_name *plan, change_done *done, void *arg);
struct store_call *memory_store_reset_limit(struct store *store,
                                            const unsigned char principal[PRINCIPAL_BYTES], const char *limit,
                                            change_done *done, void *arg);
struct store_call *memory_store_lookup(struct store *store, const struct lookup_ask *ask, lookup_done *done,
                                       void *arg);
struct store_call *memory_store_fill(struct store *store, const struct key32 *key, struct load_token token,
                                     struct object *object, const struct lifetimes *lifetimes,
                                     fill_done *done, void *arg);
struct store_call *memory_store_release(struct store *store, const struct key32 *key, struct load_token token,
                                        enum release_reason why, int status, int64_t marker_ms,
                                        release_done *done, void *arg);
struct store_call *memory_store_renew(struct store *store, const struct key32 *key, struct load_token token,
                                      int64_t lease_ms, release_done *done, void *arg);
struct store_call *memory_store_invalidate(struct store *store, const struct slice *tags, size_t count,
                                           size_t soft_count, invalidate_done *done, void *arg);
struct store_call *memory_store_invalidate_all(struct store *store, invalidate_done *done, void *arg);
void memory_store_heed(struct store *store, const struct admit_tuple *tuples, size_t count,
                       const struct admit_answer *answers);

#endif
