/* Origin answer: what do an upstream's bytes say? Interim heads, the head, pieces of the body, the
 * end. "100 Continue" is left out: it answers us, who asked for none.
 *
 * Give it bytes, then ask for steps until it is hungry. Memory: no more than one head (64 KiB) and what was
 * given with it.
 */
#ifndef WEIR_ORIGIN_ANSWER_H
#define WEIR_ORIGIN_ANSWER_H

#include "chunked.h"
#include "http1_head.h"
#include "origin.h"

enum answer_step {
    ANSWER_HUNGRY,  /* used up: give more, or say that there is no more */
    ANSWER_INTERIM, /* `response` is a forerunner, 1xx: its status and fields, valid until the next call */
    ANSWER_HEAD,    /* `response` is set; its slices are valid until the next call */
    ANSWER_DATA,    /* `data` is a piece of the body, valid until more is given */
    ANSWER_END,     /* whole */
    ANSWER_SWITCHED, /* 101, as was asked: `response` as with HEAD. What follows is none of HTTP: see answer_rest() */
    ANSWER_BAD, /* no HTTP, or not without ambiguity */
};

enum answer_state { ANSWER_IN_HEAD, ANSWER_IN_BODY, ANSWER_OVER };

struct answer {
    enum answer_state state;
    struct slice method;    /* of the request; borrowed */
    struct slice upgrade;   /* what the request asked to change to, base NULL: nothing; borrowed */
    struct header *scratch; /* HTTP1_MAX_HEADERS of them, used while a head is looked at; borrowed */
    struct http1_head head;
    struct http1_framing framing;
    struct chunked chunked;
    int64_t left; /* of a body with a length */
    int interim_heads;
    bool has_begun; /* at least one byte came */
    bool keeps_alive;
    char *rest; /* not looked at yet: in the caller's bytes or in `held` */
    size_t rest_len;
    char *held; /* the beginning of a head */
    size_t held_len, held_room;
    struct origin_response response;
    struct slice data;
};

void answer_init(struct answer *answer, struct slice method, struct slice upgrade, struct header *scratch);
void answer_dispose(struct answer *answer);
/* Everything given before has been used up by steps. `bytes` are changed (field names become lower case) and
 * must stay until answer_next() was hungry. */
void answer_give(struct answer *answer, char *bytes, size_t len);
enum answer_step answer_next(struct answer *answer);
/* The upstream has ended its half in order, after all that was given: ANSWER_END if the body may end so, else
 * ANSWER_BAD. */
enum answer_step answer_close(struct answer *answer);
/* After ANSWER_END: may the connection carry another request? Not where bytes follow that nobody asked for.
 */
bool answer_keeps_connection(const struct answer *answer);
struct slice
answer_rest(const struct answer *answer); /* given and not used; valid until more is given or disposal */

#endif
