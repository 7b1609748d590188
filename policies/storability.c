/* Storability: may this response be kept and given to somebody else; and if not, why not (RFC 9111 section
 * 3)? */
#include "storability.h"

#include "response_control.h"
#include "vary.h"

static bool is_listed(int status, const struct caching_rule *rule)
{
    for (size_t i = 0; i < rule->status_count; i++)
        if (rule->statuses[i] == status)
            return true;
    return false;
}

/* Statuses that are never kept, whatever anybody says: 206 and 304 are parts of an answer, 429 is forbidden by
 * RFC 6585 section 4. 1xx are no final answers. */
static bool is_never_stored(int status)
{
    return status < 200 || status == 206 || status == 304 || status == 429;
}

/* Of which we know what they ask of a cache, for must-understand (RFC 9111 section 5.2.2.3). */
static bool is_understood(int status)
{
    static const int known[] = {200, 203, 204, 300, 301, 302, 303, 307, 308, 404, 405, 410, 414, 501};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i] == status)
            return true;
    return false;
}

enum storability storability_of_request(const struct storing_request *request)
{
    if (!slice_eq(request->method, SLICE("GET")))
        return UNSTORABLE_METHOD;
    if (request->control.no_store)
        return UNSTORABLE_REQUEST_NO_STORE;
    if (request->has_range)
        return UNSTORABLE_RANGE;
    return STORABLE;
}

/* What the response forbids or cannot be trusted with, beyond the reach of any setting. */
static enum storability forbid(const struct storing_response *response)
{
    if (response->status == 206)
        return UNSTORABLE_PARTIAL;
    if (is_never_stored(response->status))
        return UNSTORABLE_STATUS;
    if (response->control.must_understand && !is_understood(response->status))
        return UNSTORABLE_STATUS;
    if (response->control.no_store && !response->control.yields_no_store)
        return UNSTORABLE_NO_STORE;
    if (response->control.is_private && !response->control.private_fields_only)
        return UNSTORABLE_PRIVATE;
    if (response->control.is_malformed)
        return UNSTORABLE_MALFORMED;
    if (response->has_set_cookie)
        return UNSTORABLE_SET_COOKIE;
    if (response->varies_on_all)
        return UNSTORABLE_VARY;
    if (response->is_endless)
        return UNSTORABLE_ENDLESS;
    return STORABLE;
}

/* What says for how long itself needs no permission for its status; nor does what may be guessed. A failure
 * must not outlive itself by a setting. What only can be validated is kept where a lifetime would be. */
static bool permits_status(const struct storing_response *response, const struct caching_rule *rule,
                           const struct freshness *freshness)
{
    switch (freshness->source) {
    case FRESHNESS_S_MAXAGE:
    case FRESHNESS_MAX_AGE:
    case FRESHNESS_EXPIRES:
    case FRESHNESS_HEURISTIC: return true;
    case FRESHNESS_NONE:
    case FRESHNESS_TTL: return response->status < 500 && is_listed(response->status, rule);
    }
    return false;
}

/* With the settings of the route; the order decides which reason is told. */
static enum storability judge(const struct storing_request *request, const struct storing_response *response,
                              const struct caching_rule *rule, const struct freshness *freshness)
{
    enum storability verdict = storability_of_request(request);
    bool asks_always;

    if (verdict == STORABLE)
        verdict = forbid(response);
    if (verdict != STORABLE)
        return verdict;
    if (response->is_until_close && (rule->passes_until_close || !freshness_is_explicit(freshness)))
        return UNSTORABLE_UNTIL_CLOSE;
    if (!permits_status(response, rule, freshness))
        return UNSTORABLE_STATUS;
    if (request->has_authorization && !rule->shared_with_authorization &&
        !response->control.permits_authorization)
        return UNSTORABLE_AUTHORIZATION;
    asks_always = response->control.no_cache && !response->control.no_cache_fields_only;
    if (freshness->source == FRESHNESS_NONE && !asks_always)
        return UNSTORABLE_NO_LIFETIME;
    if (freshness->keep_ms > 0) /* none of the others is above it */
        return STORABLE;
    return asks_always && !caching_overrides(rule) ? UNSTORABLE_NO_CACHE : UNSTORABLE_ALREADY_STALE;
}

enum storability storability_judge(const struct storing_request *request,
                                   const struct storing_response *response, const struct caching_rule *rule,
                                   struct freshness *freshness)
{
    *freshness = freshness_of(response->status, &response->control, &response->times, rule);
    return judge(request, response, rule, freshness);
}

const char *storability_name(enum storability storability)
{
    /* clang-format off */
    switch (storability) {
    case STORABLE:                    return "storable";
    case UNSTORABLE_METHOD:           return "method";
    case UNSTORABLE_REQUEST_NO_STORE: return "request-no-store";
    case UNSTORABLE_RANGE:            return "range";
    case UNSTORABLE_AUTHORIZATION:    return "authorization";
    case UNSTORABLE_STATUS:           return "status";
    case UNSTORABLE_PARTIAL:          return "partial";
    case UNSTORABLE_UNTIL_CLOSE:      return "until-close";
    case UNSTORABLE_ENDLESS:          return "event-stream";
    case UNSTORABLE_MALFORMED:        return "malformed-cache-control";
    case UNSTORABLE_NO_STORE:         return "no-store";
    case UNSTORABLE_PRIVATE:          return "private";
    case UNSTORABLE_SET_COOKIE:       return "set-cookie";
    case UNSTORABLE_VARY:             return "vary";
    case UNSTORABLE_NO_CACHE:         return "no-cache";
    case UNSTORABLE_NO_LIFETIME:      return "no-lifetime";
    case UNSTORABLE_ALREADY_STALE:    return "already-stale";
    }
    /* clang-format on */
    return "unknown";
}

bool storability_blames_response(enum storability storability)
{
    switch (storability) {
    case STORABLE:
    case UNSTORABLE_METHOD:
    case UNSTORABLE_REQUEST_NO_STORE:
    case UNSTORABLE_RANGE:
    case UNSTORABLE_AUTHORIZATION: return false;
    case UNSTORABLE_STATUS:
    case UNSTORABLE_PARTIAL:
    case UNSTORABLE_UNTIL_CLOSE:
    case UNSTORABLE_ENDLESS:
    case UNSTORABLE_MALFORMED:
    case UNSTORABLE_NO_STORE:
    case UNSTORABLE_PRIVATE:
    case UNSTORABLE_SET_COOKIE:
    case UNSTORABLE_VARY:
    case UNSTORABLE_NO_CACHE:
    case UNSTORABLE_NO_LIFETIME:
    case UNSTORABLE_ALREADY_STALE: return true;
    }
    return false;
}

static bool has(const struct header *headers, size_t count, struct slice name)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq(headers[i].name, name))
            return true;
    return false;
}

/* Media types whose answers are made while they are read: a rider would be told what is long past, or wait for its own. */
static bool is_endless(const struct header *headers, size_t count)
{
    static const struct slice types[] = {{"text/event-stream", 17}, {"multipart/x-mixed-replace", 25}};

    for (size_t i = 0; i < count; i++) {
        struct slice type = headers[i].value;
        const char *parameters = type.len == 0 ? NULL : memchr(type.base, ';', type.len);

        if (!slice_eq(headers[i].name, SLICE("content-type")))
            continue;
        if (parameters != NULL)
            type.len = (size_t)(parameters - type.base);
        for (size_t j = 0; j < sizeof(types) / sizeof(types[0]); j++)
            if (slice_eq_nocase(slice_trim(type), types[j]))
                return true;
    }
    return false;
}

void storing_request_read(struct slice method, const struct header *headers, size_t count,
                          struct storing_request *out)
{
    out->method = method;
    out->has_authorization = has(headers, count, SLICE("authorization"));
    out->has_range = has(headers, count, SLICE("range"));
    cache_control_parse(headers, count, &out->control);
}

void storing_response_read(int status, const struct header *headers, size_t count, bool is_until_close,
                           int64_t delay_ms, struct wall_s received, struct storing_response *out)
{
    *out = (struct storing_response){.status = status, .is_until_close = is_until_close};
    response_control_parse(headers, count, &out->control);
    response_times_read(headers, count, &out->times);
    out->times.delay_ms = delay_ms;
    out->times.received = received;
    out->has_set_cookie = has(headers, count, SLICE("set-cookie"));
    out->varies_on_all = vary_names_all(headers, count);
    out->is_endless = is_endless(headers, count);
}
