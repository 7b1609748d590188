/* Freshness: for how long may a response be used, and how old is it already (RFC 9111 sections 4.2.1
 * and 4.2.3)?
 *
 * What a response states itself: s-maxage, else max-age, else Expires - Date (which does not count beside a field
 * that is targeted at us, see response_control.h). Its age counts against that, by
 * the full formula of section 4.2.3. Where it states nothing the route's ttl applies; that one counts from
 * the receipt, less the Age the response declares, because a slow or wrongly set upstream must not make the
 * operator's ttl useless. With override_origin the ttl counts from the receipt whatever the response says of
 * itself. Where neither says anything, a tenth of the time since Last-Modified counts, a day at most, for
 * those statuses to which RFC 9110 section 15.1 permits such a guess, and for any that is marked public.
 *
 * Of several Ages the first counts; one that is no number is ignored (section 5.1).
 *
 * Stale windows: the response's own stale-while-revalidate and stale-if-error, else the route's.
 * must-revalidate and proxy-revalidate forbid both, always. s-maxage alone does not, although RFC 9111
 * section 5.2.2.10 gives it the meaning of proxy-revalidate: whoever asks for a window beside it, origin or
 * operator, has said something more precise. A response that states a lifetime of zero is not extended by the
 * route's windows, only by its own.
 *
 * A third window is nobody's wish but the standard's leave (section 4.2.4): while the upstream gives no answer at all, what
 * was fresh may be used. It is closed by must-revalidate, proxy-revalidate, no-cache and s-maxage, and a response that
 * states a stale-if-error has said itself for how long.
 *
 * no-cache: never fresh, no windows; it is kept to be asked about. Where Cache-Control cannot be read, too.
 *
 * 404 and 410 that do not state a lifetime live at most negative_ttl. Neither has stale windows.
 *
 * What has a validator (ETag, Last-Modified) is kept for longer than it may be used, so that the upstream can
 * be asked whether it changed: for as long again as it was fresh, ten minutes at least, a day at most.
 */
#ifndef WEIR_FRESHNESS_H
#define WEIR_FRESHNESS_H

#include "cache_control.h"
#include "slice.h"
#include "units.h"

#define FRESHNESS_MAX_MS INT64_C(2592000000) /* 30 days: no entry lives longer, whatever it says */

/* What a response says of its own time; `base` NULL: the field is absent. */
struct response_times {
    struct slice date, expires, age, last_modified;
    bool expires_is_repeated; /* more than one line: cannot be trusted, already expired */
    bool has_validator;       /* an ETag or a Last-Modified */
    int64_t delay_ms;         /* from sending the request to receiving the head */
    struct wall_s received;   /* this host's clock at that moment */
};

/* The cache settings of a route, as plain values. */
struct caching_rule {
    int64_t ttl_ms; /* -1: none */
    bool override_origin;
    int64_t negative_ttl_ms;
    int64_t stale_while_revalidate_ms, stale_if_error_ms, stale_if_unreachable_ms;
    const int *statuses;
    size_t status_count;
    bool shared_with_authorization;
    bool passes_until_close; /* what the close of the connection ends is not kept */
};

/* override_origin needs something to override with. */
static inline bool caching_overrides(const struct caching_rule *rule)
{
    return rule->override_origin && rule->ttl_ms >= 0;
}

enum freshness_source {
    FRESHNESS_NONE,
    FRESHNESS_S_MAXAGE,
    FRESHNESS_MAX_AGE,
    FRESHNESS_EXPIRES,
    FRESHNESS_TTL,
    FRESHNESS_HEURISTIC
};

/* The same meaning as struct lifetimes of the store: in ms from the receipt, each counted from there. */
struct freshness {
    enum freshness_source source; /* NONE: nobody says how long; all the others are 0 */
    int64_t fresh_ms;             /* 0: not fresh even now */
    int64_t stale_ms;             /* >= fresh_ms */
    int64_t error_ms;             /* >= fresh_ms */
    int64_t unreachable_ms;       /* >= error_ms */
    int64_t keep_ms;              /* >= all the above: until here it can be validated */
    int64_t age_ms;               /* at the receipt, >= 0 */
};

struct freshness freshness_of(int status, const struct cache_control *control,
                              const struct response_times *times, const struct caching_rule *rule);

/* Did the response itself say for how long? Then its status need not be one that anybody listed. */
bool freshness_is_explicit(const struct freshness *freshness);

/* Fills the slices from the headers (lower-case names); delay_ms and received are the caller's to set. */
void response_times_read(const struct header *headers, size_t count, struct response_times *out);

#endif
