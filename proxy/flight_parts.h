/* Flight parts: what the files of a flight share, and nobody else sees. flight.c keeps the table, boards riders and looks keys up;
 * flight_pay.c finds who pays; flight_tell.c tells riders what became of it; flight_load.c holds the rebuild lock, loads and ends.
 */
#ifndef WEIR_FLIGHT_PARTS_H
#define WEIR_FLIGHT_PARTS_H

#include "flight.h"
#include "limiter.h"
#include "load_answer.h"

enum {
    FLIGHT_BUCKETS = 4096,
    LEASE_MS = 3000,          /* how long a dead owner keeps others waiting */
    RENEW_MS = 1000,          /* two renewals may be lost */
    POLL_MS = 100,            /* backstop for a wake that got lost */
    PASS_MARKER_MS = 10000,   /* for how long "not shareable" is remembered */
    FAILED_MARKER_MS = 1000,  /* for how long a failure is shared with its waiters, and refreshes back off */
    OUTDATED_ANSWERS_MAX = 3, /* then the store lacks an invalidation that is known here: serve none of it */
};

enum flight_state {
    FLIGHT_LOOKING,   /* the store is asked */
    FLIGHT_WAITING,   /* somebody else loads */
    FLIGHT_PAYING,    /* we may, once somebody has paid */
    FLIGHT_LOADING,   /* we do; no head yet */
    FLIGHT_STREAMING, /* the head came and may be shared */
    FLIGHT_FILLING,   /* the answer is whole, the store is told */
    FLIGHT_FAILING,   /* the load failed, the store is told; takes no more riders */
};

struct flight {
    struct flights *all;
    struct flight *next_in_bucket;
    bool is_listed; /* in the table: takes riders */
    struct link link;
    enum flight_state state;
    struct load_plan *plan;
    struct link riders;   /* parked: not told anything yet */
    struct rider *leader; /* the one whose plan this is, while it is aboard */
    bool has_waited;
    bool
        wants_new; /* for a rider that wants a new one: off the table, takes no others, and leaves what is stored as it is unless a
                        better one takes its place */
    bool is_probe; /* of a key that others pass: nobody rides before it proves that it can be shared */
    bool has_error_answer;    /* the upstream's own */
    bool is_error_unshared;   /* and that is for the leader alone: the others are told that it failed */
    const char *unstored_why; /* once the answer turned out to be for its leader alone */
    bool asks_if_changed;     /* the load carries the validators of the stand-in */
    bool is_moved;            /* to the key of its variant, and no longer holds the lock that it began with */
    struct compressor *compressor; /* of what is to be kept compressed */
    bool has_whole;    /* the answer came to its end before that key's lock did, or its packed form */
    bool is_confirmed; /* and it has not changed: the leader gets the answer's object */
    int outdated_answers;
    struct load_token token, waited;
    int64_t epoch;
    struct object *stand_in;
    struct store_call *call, *renewal;
    struct limit_request bill;
    struct timer poll, renew;
    struct stream *stream;
    bool is_released; /* the lock is no longer ours to give back */
    struct load_answer answer;
    struct link dispatch_link;
};

struct flights {
    struct loop *loop;
    struct store *store;
    struct limiter *limiter;
    struct flight *buckets[FLIGHT_BUCKETS];
    struct link all;
    struct link to_dispatch;
    struct task dispatch;
    size_t count;
};

/* flight.c */
void flight_board_again(struct flights *flights, struct rider *rider);
struct flight **flight_bucket_of(struct flights *flights, const struct key32 *key);
struct flight *flight_find(struct flights *flights, const struct key32 *key);
void flight_free(struct flight *flight);
bool flight_token_is_set(struct load_token token);
void flight_unlist(struct flight *flight);

/* flight_tell.c: each of these may end riders, and land_* the flight too */
void flight_dispatch(void *arg);
void flight_dispatch_soon(struct flight *flight);
void flight_land_all(struct flight *flight, const struct rider *outcome);
void flight_land_alone(struct flight *flight, const char *why);
void flight_land_failed(struct flight *flight, enum fault fault, int status);
void flight_land_object(struct flight *flight, struct object *object, enum cache_result result,
                        const char *why);
bool flight_may_serve_stale(const struct flight *flight);
bool flight_may_stand_in(const struct flight *flight);
void flight_send_authorized_alone(struct flight *flight);
void flight_tell(struct rider *rider);
void flight_tell_all_confirmed(struct flight *flight);
void flight_tell_all_stale(struct flight *flight, struct object *object);
void flight_tell_all_stream(struct flight *flight);
void flight_tell_all_whole(struct flight *flight);
void flight_tell_confirmed(struct flight *flight, struct rider *rider);
void flight_tell_stream(struct flight *flight, struct rider *rider);

/* flight_pay.c */
void flight_load_once_paid(struct flight *flight);

/* flight_load.c */
void flight_choose_leader(struct flight *flight);
void flight_follow_rule(struct flight *flight, const struct object *rule);
bool flight_is_outdated(const struct flight *flight);
void flight_keep_stand_in(struct flight *flight, struct object *object);
void flight_on_renew(void *arg);
void flight_release_lock(struct flight *flight, enum release_reason why, int status, int64_t marker_ms);
void flight_send_others_alone(struct flight *flight, const char *why);
void flight_start_load(struct flight *flight);
void flight_take_lead(struct flight *flight, struct rider *rider);

#endif
