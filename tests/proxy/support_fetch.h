/* For tests of the origin: a loop, a pool, and what each fetch was told. */
#ifndef WEIR_SUPPORT_FETCH_H
#define WEIR_SUPPORT_FETCH_H

#include "loop.h"
#include "origin.h"

enum cancel_at { CANCEL_NEVER, CANCEL_IN_INTERIM, CANCEL_IN_HEAD, CANCEL_IN_BODY };

struct told { /* of one fetch */
    struct origin_fetch *fetch;
    bool is_starting; /* inside origin_start(): no callback may run */
    int heads, ends, status;
    int interims, interim_status; /* forerunners, and the last one's */
    char interim_headers[512];
    int64_t content_length;
    bool until_close;
    char headers[8192]; /* "name: value\n" each */
    char *body;
    size_t body_len, body_room;
    enum fault fault;
    bool pause_in_body;
    enum cancel_at cancel_at;
    int order;                    /* which end this was, from 1 */
    struct origin_tunnel *tunnel; /* what it ended as instead */
};

struct bench {
    struct loop *loop;
    struct resolver *resolver;
    struct origin *origin;
    struct origin_limits limits;
    int ended;
};

/* Limits that no test runs into by chance: 5 s each, 8 connections, 8 pending, 1 retry. */
void bench_start(struct bench *bench, const char *host, int port);
void bench_open(struct bench *bench); /* the origin, with bench->limits as they are by now */
void bench_stop(struct bench *bench);

void fetch_start(struct bench *bench, struct told *told, const char *method, struct slice body);
void fetch_get(struct bench *bench, struct told *told);
void fetch_upgrade(struct bench *bench, struct told *told, const char *protocols);
void told_free(struct told *told);
void wait_end(struct bench *bench, struct told *told);
/* Turns the loop until the condition holds; fails the test after 20 s. */
#define WAIT_UNTIL(bench, condition)                                                                         \
    do {                                                                                                     \
        for (int64_t wait_until_ms_ = wait_clock_ms() + 20000; !(condition);) {                              \
            cr_assert(wait_clock_ms() < wait_until_ms_, "never came true: %s", #condition);                  \
            loop_turn((bench)->loop, 10);                                                                    \
        }                                                                                                    \
    } while (0)
int64_t wait_clock_ms(void);

#endif
