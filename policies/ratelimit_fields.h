/* Rate limit fields: what a client is told about its limits, in the response header and in the body of a
 * refusal.
 *
 * One serializer for all dialects. Seconds are rounded up and at least 1, windows too: a client that keeps to
 * what it is told is never refused for it (5/250ms is published as 5 in 1 s). Numbers are capped at RFC
 * 9651's largest Integer. Of what is held for as long as a request lasts no time is told: nobody knows it.
 */
#ifndef WEIR_RATELIMIT_FIELDS_H
#define WEIR_RATELIMIT_FIELDS_H

#include "slice.h"

#include <stdint.h>

struct ratelimit_item { /* one limit of the request, in the order of the route */
    struct slice name;
    int64_t limit, window_us; /* window_us 0: what requests take at a time, which they give back themselves */
    int64_t available, reset_us;
    int64_t retry_after_us; /* this limit's own; 0 or less where it would let one more pass, or never will */
};

struct ratelimit_dialects {
    bool draft_11; /* ratelimit-policy, ratelimit: structured fields, one item a limit */
    bool plain;    /* ratelimit-limit, -remaining, -reset of the closest limit */
    bool x;        /* the same as x-ratelimit-... */
};

enum { RATELIMIT_MAX_FIELDS = 8 };

/* Fills at most RATELIMIT_MAX_FIELDS fields, their values in buffer[room], and returns how many. `closest` is
 * verdict_closest(). `retry_after_us` is that of the whole refusal, 0 where there is none: no limit is said
 * to turn later than the client may come back. A field that does not fit in the room left is left out whole;
 * no items, no fields. */
size_t ratelimit_fields(const struct ratelimit_item *items, size_t count, size_t closest,
                        struct ratelimit_dialects dialects, int64_t retry_after_us, char *buffer, size_t room,
                        struct header *fields_out);

/* Room in which all of them fit, in every dialect. */
size_t ratelimit_fields_room(const struct ratelimit_item *items, size_t count);

enum refusal_kind {
    REFUSED_RATE,          /* 429 rate_limit_exceeded */
    REFUSED_SLOTS,         /* 429 concurrency_limit_hit */
    REFUSED_COST,          /* 400 cost_exceeds_limit */
    REFUSED_BAD_COST,      /* 400 bad_cost */
    REFUSED_BODY_SIZE,     /* 413 body_too_large */
    REFUSED_KEY_MISSING,   /* 401 key_required */
    REFUSED_KEY_AMBIGUOUS, /* 400 ambiguous_key */
    REFUSED_LIMITER_AWAY,  /* 503 limiter_unavailable */
};

struct refusal {
    enum refusal_kind kind;
    struct slice limit;           /* the limit to name */
    const struct slice *violated; /* names of all limits that refuse; the one above is among them */
    size_t violated_count;
    int64_t
        retry_after_us; /* > 0 only with REFUSED_RATE and REFUSED_LIMITER_AWAY: the others never pass later */
    struct slice words; /* of the detail, to be followed by the limit's name; empty: the kind's own */
};

int refusal_status(enum refusal_kind kind);
const char *refusal_code(enum refusal_kind kind);

/* The application/problem+json body (RFC 9457). Returns its length, or 0 if it does not fit into `room`. */
size_t refusal_body(const struct refusal *refusal, char *out, size_t room);

#endif
