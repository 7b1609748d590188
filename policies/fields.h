/* Fields: the text of the response fields by which we tell what the cache and the proxy did.
 *
 * Cache-Status is RFC 9211, Proxy-Status RFC 9209; a field of a cache before us stays, and ours is added as a
 * line after it.
 */
#ifndef WEIR_FIELDS_H
#define WEIR_FIELDS_H

#include "slice.h"
#include "text.h"

/* X-Cache */
enum cache_result { CACHE_HIT, CACHE_MISS, CACHE_WAIT, CACHE_STALE, CACHE_REVALIDATED, CACHE_BYPASS };

const char *cache_result_name(enum cache_result result); /* "HIT" */

/* Why the request went on to the upstream: the fwd parameter of RFC 9211 section 2.2. */
enum cache_forward {
    FORWARD_NONE, /* it did not: a hit */
    FORWARD_BYPASS,
    FORWARD_METHOD,
    FORWARD_URI_MISS,
    FORWARD_VARY_MISS,
    FORWARD_MISS,
    FORWARD_REQUEST,
    FORWARD_STALE,
    FORWARD_PARTIAL,
};

struct cache_status {
    enum cache_forward forward;
    int forward_status; /* the upstream's; 0: say nothing. Only when forwarded */
    bool has_ttl;       /* ttl_s counts */
    int64_t ttl_s;      /* remaining freshness, negative when stale */
    bool is_stored;     /* only when forwarded */
    bool is_collapsed;  /* only when forwarded: it rode along with another request */
    struct slice key;   /* the cache key's bytes, told in hexadecimal; empty: say nothing */
    const char
        *detail; /* NULL: none. A token, such as storability_name() gives, else it is written as a string */
};

enum { CACHE_STATUS_ROOM = 288, AGE_ROOM = 16, PROXY_STATUS_ROOM = 96 };

/* "weir; hit; ttl=41", "weir; fwd=miss; fwd-status=200; stored; collapsed" */
void cache_status_write(const struct cache_status *status, struct text *out);

/* Whole seconds, rounded down; negative ages are 0, large ones 2^31 (RFC 9111 sections 1.2.2 and 5.1). */
void age_write(int64_t age_ms, struct text *out);

/* "weir; error=connection_timeout": an error type of RFC 9209 section 2.3. */
void proxy_status_write(const char *error, struct text *out);

#endif
