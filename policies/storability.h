/* Storability: may this response be kept and given to somebody else; and if not, why not (RFC 9111 section
 * 3)?
 *
 * Stricter than the standard where a shared mistake would be expensive. Nothing at all, not even
 * override_origin, stores: 206, 304 or 429; an answer that says private or no-store; one that sets a cookie;
 * one to a request with Authorization, unless it says public, must-revalidate or a valid s-maxage, or the
 * route shared_with_authorization; one with Vary: *; one whose Cache-Control cannot be read; one of events that go
 * on and on. One whose end only a closed connection marks is whole by RFC 9112 section 8, but nobody can tell: it is kept where the upstream says for how
 * long, and the route does not rule it out. override_origin does win over the response's lifetimes and over no-cache.
 *
 * The route lists the statuses that its ttl may keep, and a 5xx is never among them. A response that says
 * itself for how long, or whose lifetime may be guessed, is kept whatever its status.
 *
 * What is never fresh (no-cache, a lifetime of zero) is kept where it has a validator, to be asked about.
 * no-cache and private that name fields withhold those fields alone, see response_control_withholds().
 */
#ifndef WEIR_STORABILITY_H
#define WEIR_STORABILITY_H

#include "freshness.h"

struct storing_request {
    struct slice method;
    bool has_authorization, has_range;
    struct cache_control control;
};

struct storing_response {
    int status;
    struct cache_control control;
    struct response_times times;
    bool has_set_cookie;
    bool varies_on_all;  /* Vary: * */
    bool is_until_close; /* framed by the close of the connection */
    bool is_endless;     /* server-sent events and the like: what it says is over when it has been said */
};

enum storability {
    STORABLE,
    /* of the request: the next one for the same key may fare better */
    UNSTORABLE_METHOD,
    UNSTORABLE_REQUEST_NO_STORE,
    UNSTORABLE_RANGE,
    UNSTORABLE_AUTHORIZATION,
    /* of the response: the next one is likely to be the same, so that a pass marker is worth while */
    UNSTORABLE_STATUS,
    UNSTORABLE_PARTIAL,
    UNSTORABLE_UNTIL_CLOSE,
    UNSTORABLE_ENDLESS,
    UNSTORABLE_MALFORMED,
    UNSTORABLE_NO_STORE,
    UNSTORABLE_PRIVATE,
    UNSTORABLE_SET_COOKIE,
    UNSTORABLE_VARY,
    UNSTORABLE_NO_CACHE,
    UNSTORABLE_NO_LIFETIME,   /* neither the response nor the route says how long */
    UNSTORABLE_ALREADY_STALE, /* it may not be used even now */
};

/* What is known before asking the upstream: STORABLE, or one of METHOD, REQUEST_NO_STORE, RANGE. */
enum storability storability_of_request(const struct storing_request *request);

/* The whole answer. `freshness` is set in every case; with STORABLE keep_ms at least is above 0. */
enum storability storability_judge(const struct storing_request *request,
                                   const struct storing_response *response, const struct caching_rule *rule,
                                   struct freshness *freshness);

const char *
storability_name(enum storability storability); /* a token for Cache-Status's detail: "set-cookie" */
bool storability_blames_response(
    enum storability storability); /* false for STORABLE and for reasons of the request */

/* Read the facts from headers (lower-case names). */
void storing_request_read(struct slice method, const struct header *headers, size_t count,
                          struct storing_request *out);
void storing_response_read(int status, const struct header *headers, size_t count, bool is_until_close,
                           int64_t delay_ms, struct wall_s received, struct storing_response *out);

#endif
