/* Reuse: see reuse.h. */
#include "reuse.h"

#include "http_char.h"

static bool says_no_cache(struct slice line)
{
    struct slice each;

    while (list_next(&line, &each))
        if (slice_eq_nocase(each, SLICE("no-cache")))
            return true;
    return false;
}

void reuse_wish_read(const struct header *request, size_t count, struct reuse_wish *out)
{
    bool has_control = false, has_pragma = false;

    cache_control_parse(request, count, &out->control);
    for (size_t i = 0; i < count; i++) {
        if (slice_eq(request[i].name, SLICE("cache-control")))
            has_control = true;
        else if (slice_eq(request[i].name, SLICE("pragma")) && says_no_cache(request[i].value))
            has_pragma = true;
    }
    if (has_pragma && !has_control)
        out->control.no_cache = true;
}

static bool is_young_enough(const struct cache_control *wish, int64_t age_ms)
{
    return wish->max_age_s == CACHE_SECONDS_ABSENT || age_ms / 1000 <= wish->max_age_s;
}

bool reuse_suits(const struct reuse_wish *wish, int64_t age_ms, int64_t fresh_ms)
{
    const struct cache_control *control = &wish->control;

    if (control->no_cache || !is_young_enough(control, age_ms) || control->max_age_s == 0)
        return false;
    return control->min_fresh_s == CACHE_SECONDS_ABSENT || fresh_ms >= control->min_fresh_s * 1000;
}

bool reuse_takes_stale(const struct reuse_wish *wish, const struct cache_control *response, int64_t age_ms,
                       int64_t fresh_ms)
{
    const struct cache_control *control = &wish->control;

    if (control->max_stale_s == CACHE_SECONDS_ABSENT || !reuse_suits(wish, age_ms, fresh_ms))
        return false;
    if (response->must_revalidate || response->proxy_revalidate || response->no_cache ||
        response->s_maxage_s != CACHE_SECONDS_ABSENT)
        return false;
    return -fresh_ms <= control->max_stale_s * 1000;
}
