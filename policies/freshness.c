/* Freshness: for how long may a response be used, and how old is it already (RFC 9111 sections 4.2.1
 * and 4.2.3)? */
#include "freshness.h"

#include "http_date.h"
#include "text.h"

enum { GUESS_DIVISOR = 10 };
static const int64_t LONGEST_GUESS_MS = INT64_C(86400000);
static const int64_t LEAST_KEEP_MS = 600000, MOST_KEEP_MS = 86400000;

/* A stated lifetime, and how much of it is gone at the receipt. */
struct promise {
    enum freshness_source source;
    int64_t lifetime_ms, gone_ms;
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t ms_of(int64_t seconds)
{
    /* both ends of a difference of dates lie within the years 0 to 9999, far from where this overflows */
    return seconds * 1000;
}

/* The Age that a response declares: the first of a list, and nothing where that is no number (RFC 9111 section
 * 5.1). What is lost with it is bounded by Date, which counts by itself. */
static int64_t declared_age_ms(const struct response_times *times)
{
    struct slice first = times->age;
    const char *comma = first.len == 0 ? NULL : memchr(first.base, ',', first.len);
    int64_t seconds;

    if (comma != NULL)
        first = slice_trim(slice_of(first.base, (size_t)(comma - first.base)));
    return text_parse_digits(first, CACHE_SECONDS_MAX, &seconds) ? ms_of(seconds) : 0;
}

/* Date, or the time of receipt where it is absent or unusable (RFC 9110 section 6.6.1). */
static struct wall_s date_of(const struct response_times *times)
{
    struct wall_s date;

    return http_date_parse(times->date, times->received, &date) ? date : times->received;
}

/* corrected_initial_age of RFC 9111 section 4.2.3. */
static int64_t initial_age_ms(const struct response_times *times)
{
    int64_t apparent_ms = ms_of(larger(0, times->received.s - date_of(times).s));

    return larger(apparent_ms, declared_age_ms(times) + larger(0, times->delay_ms));
}

static int64_t expires_lifetime_ms(const struct response_times *times)
{
    struct wall_s expires;

    /* what is no date, such as "0", means: already expired (RFC 9111 section 5.3) */
    if (times->expires_is_repeated || !http_date_parse(times->expires, times->received, &expires))
        return 0;
    return ms_of(larger(0, expires.s - date_of(times).s));
}

/* May its freshness be guessed (RFC 9110 section 15.1, RFC 9111 section 4.2.2)? 206 may, but is never kept. */
static bool permits_guess(int status, const struct cache_control *control)
{
    static const int permitted[] = {200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501};

    for (size_t i = 0; i < sizeof(permitted) / sizeof(permitted[0]); i++)
        if (permitted[i] == status)
            return true;
    return control->is_public && !control->is_malformed;
}

static struct promise guess_of(int status, const struct cache_control *control,
                               const struct response_times *times)
{
    struct wall_s changed;
    int64_t unchanged_s;

    if (!permits_guess(status, control) || !http_date_parse(times->last_modified, times->received, &changed))
        return (struct promise){FRESHNESS_NONE, 0, 0};
    unchanged_s = date_of(times).s - changed.s;
    if (unchanged_s <= 0)
        return (struct promise){FRESHNESS_NONE, 0, 0};
    return (struct promise){FRESHNESS_HEURISTIC,
                            smaller(LONGEST_GUESS_MS, ms_of(unchanged_s) / GUESS_DIVISOR),
                            initial_age_ms(times)};
}

static struct promise promise_of(int status, const struct cache_control *control,
                                 const struct response_times *times, const struct caching_rule *rule)
{
    int64_t age_ms = initial_age_ms(times);

    if (caching_overrides(rule))
        return (struct promise){FRESHNESS_TTL, rule->ttl_ms, 0};
    if (control->s_maxage_s != CACHE_SECONDS_ABSENT)
        return (struct promise){FRESHNESS_S_MAXAGE, ms_of(control->s_maxage_s), age_ms};
    if (control->max_age_s != CACHE_SECONDS_ABSENT)
        return (struct promise){FRESHNESS_MAX_AGE, ms_of(control->max_age_s), age_ms};
    if (times->expires.base != NULL && !control->is_targeted)
        return (struct promise){FRESHNESS_EXPIRES, expires_lifetime_ms(times), age_ms};
    if (rule->ttl_ms >= 0)
        return (struct promise){FRESHNESS_TTL, rule->ttl_ms, declared_age_ms(times)};
    return guess_of(status, control, times);
}

/* How long after its lifetime a response may still be used: its own word `stated_s`, else the route's. */
static int64_t window_ms(const struct promise *promise, const struct cache_control *control, int64_t stated_s,
                         const struct caching_rule *rule, int64_t ruled_ms)
{
    if (control->must_revalidate || control->proxy_revalidate)
        return 0;
    if (stated_s != CACHE_SECONDS_ABSENT && !caching_overrides(rule))
        return ms_of(stated_s);
    return promise->lifetime_ms > 0 ? larger(0, ruled_ms) : 0;
}

/* How long after its lifetime a response may be used where no answer at all can be had, though nobody has asked for that. */
static int64_t unreachable_window_ms(const struct cache_control *control, const struct caching_rule *rule)
{
    bool has_said =
        control->s_maxage_s != CACHE_SECONDS_ABSENT || control->stale_if_error_s != CACHE_SECONDS_ABSENT;

    if (control->must_revalidate || control->proxy_revalidate || (has_said && !caching_overrides(rule)))
        return 0;
    return larger(0, rule->stale_if_unreachable_ms);
}

/* Where a span that began with the response's life ends, from the receipt. */
static int64_t end_ms(const struct promise *promise, int64_t window_ms)
{
    return smaller(FRESHNESS_MAX_MS, larger(0, promise->lifetime_ms + window_ms - promise->gone_ms));
}

/* Must it be validated before each use? A response whose Cache-Control cannot be read is not kept at all. */
static bool asks_always(const struct cache_control *control, const struct caching_rule *rule)
{
    return control->no_cache && !control->no_cache_fields_only && !caching_overrides(rule);
}

static void add_keep(const struct response_times *times, struct freshness *out)
{
    int64_t used_ms = larger(out->stale_ms, out->unreachable_ms),
            again_ms = larger(LEAST_KEEP_MS, out->fresh_ms);

    out->keep_ms = times->has_validator ? used_ms + smaller(MOST_KEEP_MS, again_ms) : used_ms;
}

bool freshness_is_explicit(const struct freshness *freshness)
{
    switch (freshness->source) {
    case FRESHNESS_S_MAXAGE:
    case FRESHNESS_MAX_AGE:
    case FRESHNESS_EXPIRES: return true;
    case FRESHNESS_NONE:
    case FRESHNESS_TTL:
    case FRESHNESS_HEURISTIC: return false;
    }
    return false;
}

struct freshness freshness_of(int status, const struct cache_control *control,
                              const struct response_times *times, const struct caching_rule *rule)
{
    struct promise promise = promise_of(status, control, times, rule);
    struct freshness out = {.source = promise.source, .age_ms = initial_age_ms(times)};

    promise.lifetime_ms = smaller(promise.lifetime_ms, FRESHNESS_MAX_MS);
    if (asks_always(control, rule)) {
        add_keep(times, &out);
        return out;
    }
    out.fresh_ms = end_ms(&promise, 0);
    if (status == 404 || status == 410) {
        /* what was not there may come any moment: only the upstream's own word makes us repeat that for longer */
        if (!freshness_is_explicit(&out))
            out.fresh_ms = smaller(out.fresh_ms, larger(0, rule->negative_ttl_ms));
        out.stale_ms = out.error_ms = out.unreachable_ms = out.keep_ms = out.fresh_ms;
        return out;
    }
    out.stale_ms = end_ms(&promise, window_ms(&promise, control, control->stale_while_revalidate_s, rule,
                                              rule->stale_while_revalidate_ms));
    out.error_ms = end_ms(
        &promise, window_ms(&promise, control, control->stale_if_error_s, rule, rule->stale_if_error_ms));
    out.unreachable_ms = out.error_ms;
    if (out.fresh_ms > 0)
        out.unreachable_ms = larger(out.error_ms, end_ms(&promise, unreachable_window_ms(control, rule)));
    add_keep(times, &out);
    return out;
}

void response_times_read(const struct header *headers, size_t count, struct response_times *out)
{
    *out = (struct response_times){0};
    for (size_t i = 0; i < count; i++) {
        struct slice value = headers[i].value;
        if (value.base == NULL)
            value = SLICE(""); /* an empty line is there all the same */
        if (slice_eq(headers[i].name, SLICE("date"))) {
            out->date = value;
        } else if (slice_eq(headers[i].name, SLICE("expires"))) {
            out->expires_is_repeated = out->expires.base != NULL;
            out->expires = value;
        } else if (slice_eq(headers[i].name, SLICE("age"))) {
            if (out->age.base == NULL) /* the first line counts */
                out->age = value;
        } else if (slice_eq(headers[i].name, SLICE("last-modified"))) {
            out->last_modified = value;
            out->has_validator = out->has_validator || value.len > 0;
        } else if (slice_eq(headers[i].name, SLICE("etag"))) {
            out->has_validator = out->has_validator || value.len > 0;
        }
    }
}
