/* Freshness: for how long may a response be used, and how old is it already (RFC 9111 sections 4.2.1
 * and 4.2.3)? */
#include "freshness.h"

#include "http_date.h"
#include "text.h"

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

/* The Age a response declares. Of a list the first counts, and what is no number is ignored (RFC 9111
 * section 5.1). */
static int64_t declared_age_ms(struct slice age)
{
    int64_t seconds;
    const char *comma = age.len == 0 ? NULL : memchr(age.base, ',', age.len);

    if (comma != NULL)
        age.len = (size_t)(comma - age.base);
    return text_parse_digits(slice_trim(age), CACHE_SECONDS_MAX, &seconds) ? ms_of(seconds) : 0;
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

    return larger(apparent_ms, declared_age_ms(times->age) + larger(0, times->delay_ms));
}

static int64_t expires_lifetime_ms(const struct response_times *times)
{
    struct wall_s expires;

    /* what is no date, such as "0", means: already expired (RFC 9111 section 5.3) */
    if (times->expires_is_repeated || !http_date_parse(times->expires, times->received, &expires))
        return 0;
    return ms_of(larger(0, expires.s - date_of(times).s));
}

static struct promise promise_of(const struct cache_control *control, const struct response_times *times,
                                 const struct caching_rule *rule)
{
    int64_t age_ms = initial_age_ms(times);

    if (caching_overrides(rule))
        return (struct promise){FRESHNESS_TTL, rule->ttl_ms, 0};
    if (control->s_maxage_s != CACHE_SECONDS_ABSENT)
        return (struct promise){FRESHNESS_S_MAXAGE, ms_of(control->s_maxage_s), age_ms};
    if (control->max_age_s != CACHE_SECONDS_ABSENT)
        return (struct promise){FRESHNESS_MAX_AGE, ms_of(control->max_age_s), age_ms};
    if (times->expires.base != NULL)
        return (struct promise){FRESHNESS_EXPIRES, expires_lifetime_ms(times), age_ms};
    if (rule->ttl_ms >= 0)
        return (struct promise){FRESHNESS_TTL, rule->ttl_ms, declared_age_ms(times->age)};
    return (struct promise){FRESHNESS_NONE, 0, 0};
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

/* Where a span that began with the response's life ends, from the receipt. */
static int64_t end_ms(const struct promise *promise, int64_t window_ms)
{
    return smaller(FRESHNESS_MAX_MS, larger(0, promise->lifetime_ms + window_ms - promise->gone_ms));
}

struct freshness freshness_of(int status, const struct cache_control *control,
                              const struct response_times *times, const struct caching_rule *rule)
{
    struct promise promise = promise_of(control, times, rule);
    struct freshness out = {.source = promise.source, .age_ms = initial_age_ms(times)};

    promise.lifetime_ms = smaller(promise.lifetime_ms, FRESHNESS_MAX_MS);
    out.fresh_ms = end_ms(&promise, 0);
    if (status == 404 || status == 410) {
        /* what was not there may come any moment: no word of the upstream makes us repeat that for longer */
        out.fresh_ms = smaller(out.fresh_ms, larger(0, rule->negative_ttl_ms));
        out.stale_ms = out.error_ms = out.fresh_ms;
        return out;
    }
    out.stale_ms = end_ms(&promise, window_ms(&promise, control, control->stale_while_revalidate_s, rule,
                                              rule->stale_while_revalidate_ms));
    out.error_ms = end_ms(
        &promise, window_ms(&promise, control, control->stale_if_error_s, rule, rule->stale_if_error_ms));
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
        } else if (slice_eq(headers[i].name, SLICE("age")) && out->age.base == NULL) {
            out->age = value;
        }
    }
}
