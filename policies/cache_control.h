/* Cache-Control: what the field lines of one message say together (RFC 9111 section 5.2).
 *
 * Read so that a mistake never loosens anything. Where a directive is repeated the most restrictive one
 * counts; a number that is none makes a lifetime 0 (already stale); an element that is no directive by the
 * grammar ("private; max-age=60") may hide a restriction, so it sets `is_malformed`, and such a response is
 * not stored.
 *
 * What a *response* says to this cache may stand in another field: see response_control.h.
 */
#ifndef WEIR_CACHE_CONTROL_H
#define WEIR_CACHE_CONTROL_H

#include "slice.h"

#include <stdint.h>

#define CACHE_SECONDS_MAX INT64_C(2147483648) /* RFC 9111 section 1.2.2: larger ones become this */
enum { CACHE_SECONDS_ABSENT = -1 };

struct cache_control {
    bool is_targeted; /* said to us in a field of its own: Expires does not count beside it */
    bool is_malformed;
    bool no_store;
    bool no_cache, no_cache_fields_only; /* fields_only: every occurrence named header fields */
    bool is_private, private_fields_only;
    bool is_public;
    bool must_revalidate, proxy_revalidate, must_understand;
    bool no_transform;
    bool
        yields_no_store; /* a must-understand without argument: no_store is for caches that do not know the status
                             (RFC 9111 section 5.2.2.3) */
    bool s_maxage_is_valid; /* every s-maxage there was is a number */
    /* RFC 9111 section 3.5: a well-formed public, must-revalidate or s-maxage lets a shared cache store the
     * answer to a request with Authorization. False as soon as anything is malformed. */
    bool permits_authorization;
    /* Seconds 0..CACHE_SECONDS_MAX, or CACHE_SECONDS_ABSENT. Invalid ones are 0. */
    int64_t max_age_s, s_maxage_s, stale_while_revalidate_s, stale_if_error_s;
    /* Of requests. max-stale without a number is CACHE_SECONDS_MAX; an invalid max-stale is 0, an invalid
     * min-fresh is absent. */
    int64_t max_stale_s, min_fresh_s;
    bool only_if_cached;
};

/* Takes all "cache-control" lines among the headers (lower-case names). */
void cache_control_parse(const struct header *headers, size_t count, struct cache_control *out);

/* Is the field `name` one that private="..." or no-cache="..." of Cache-Control names? See response_control.h. */
bool cache_control_withholds(const struct header *headers, size_t count, struct slice name);

/* The same grammar in Surrogate-Control (the W3C note "Edge Architecture Specification"), with two more things to
 * say: "max-age=60+30", fresh for 60 s and then usable for 30 s more; and ";name" behind a directive, which then
 * counts for those of that name alone. `us` is ours. no-store-remote is read as no-store.
 *
 * False: the field is not there, or says nothing that we know (as `content="ESI/1.0"`). */
bool surrogate_control_parse(const struct header *headers, size_t count, struct slice us,
                             struct cache_control *out);
bool surrogate_control_withholds(const struct header *headers, size_t count, struct slice us,
                                 struct slice name);

/* For other spellings of the same directives. */
void cache_control_clear(struct cache_control *out);            /* nothing is said */
void cache_control_settle(struct cache_control *out);           /* once all of it is read */
bool cache_control_names(struct slice list, struct slice name); /* in a list of field names, without case? */
bool cache_control_is_name_list(struct slice list); /* nothing but field names, and one at least? */

#endif
