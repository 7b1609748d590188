/* Reuse: may a stored response be given to this request as it is (RFC 9111 sections 4.2.4 and 5.2.1)?
 *
 * The request may ask for more freshness than the response has (no-cache, max-age, min-fresh), or be content
 * with less (max-stale, unless the response forbids that). Pragma: no-cache counts where there is no
 * Cache-Control (section 5.4).
 */
#ifndef WEIR_REUSE_H
#define WEIR_REUSE_H

#include "cache_control.h"

struct reuse_wish { /* of a request */
    struct cache_control control;
};

void reuse_wish_read(const struct header *request, size_t count, struct reuse_wish *out);

/* `age_ms` and `fresh_ms` (left; negative: stale for so long) of a stored response that we may serve by our own rules, fresh or
 * stale: does that suit the request, too? */
bool reuse_suits(const struct reuse_wish *wish, int64_t age_ms, int64_t fresh_ms);

/* One that is stale by our rules: does the request take it all the same, and the response not forbid it? */
bool reuse_takes_stale(const struct reuse_wish *wish, const struct cache_control *response, int64_t age_ms,
                       int64_t fresh_ms);

#endif
