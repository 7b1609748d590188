/* Load answer: see load_answer.h. */
#include "load_answer.h"
#include "clock.h"
#include "tag_list.h"
#include "vary.h"

#include <string.h>

static struct caching_rule rule_of(const struct cache_rule *cache)
{
    return (struct caching_rule){
        .ttl_ms = cache->ttl_ms,
        .override_origin = cache->override_origin,
        .negative_ttl_ms = cache->negative_ttl_ms,
        .stale_while_revalidate_ms = cache->stale_while_revalidate_ms,
        .stale_if_error_ms = cache->stale_if_error_ms,
        .statuses = cache->statuses,
        .status_count = cache->status_count,
        .shared_with_authorization = cache->shared_with_authorization,
    };
}

static bool add_tag(struct load_answer *answer, struct slice tag)
{
    if (tag.len > ANSWER_MAX_TAG_BYTES)
        return false;
    for (size_t i = 0; i < answer->tag_count; i++)
        if (slice_eq(answer->tags[i], tag))
            return true;
    if (answer->tag_count == ANSWER_MAX_TAGS)
        return false;
    answer->tags[answer->tag_count++] = tag;
    return true;
}

static bool names_tags(const struct cache_rule *rule, struct slice name)
{
    for (size_t i = 0; i < rule->tag_header_count; i++)
        if (slice_eq(name, slice_text(rule->tag_headers[i])))
            return true;
    return false;
}

/* False when there are too many, or one is too long: what could not be invalidated must not be stored. */
static bool collect_tags(struct load_answer *answer, const struct stream *stream,
                         const struct load_plan *plan)
{
    answer->tag_count = 0;
    for (size_t i = 0; i < plan->tag_count; i++)
        if (!add_tag(answer, plan->tags[i]))
            return false;
    for (size_t i = 0; i < stream->header_count; i++) {
        struct slice rest = stream->headers[i].value, tag;

        if (!names_tags(plan->route->cache, stream->headers[i].name))
            continue;
        while (tag_list_next(&rest, &tag))
            if (!add_tag(answer, tag))
                return false;
    }
    return true;
}

/* Errors that stale-if-error covers (RFC 5861 section 4). */
static bool is_upstream_error(int status)
{
    return status == 500 || status == 502 || status == 503 || status == 504;
}

/* Whether a failure's words are for the one who asked: by the rules for answers that are kept. */
static bool says_private(const struct storing_response *response)
{
    return response->control.is_private || response->control.no_store || response->control.no_cache ||
           response->control.is_malformed || response->has_set_cookie || response->has_vary;
}

enum answer_kind load_answer_judge(struct load_answer *answer, const struct stream *stream,
                                   const struct load_plan *plan, const char **why)
{
    struct caching_rule rule = rule_of(plan->route->cache);
    struct storing_request request;
    struct storing_response response;
    enum storability storability;

    storing_request_read(plan->request.method, plan->request.headers, plan->request.header_count, &request);
    request.has_authorization = plan->has_authorization;
    storing_response_read(stream->status, stream->headers, stream->header_count, stream->is_until_close,
                          stream->waited_us / 1000, clock_wall(), &response);
    /* Loads ask without Accept-Encoding, so every client's answer is the one for "no coding asked for". */
    if (vary_names_only(stream->headers, stream->header_count, SLICE("accept-encoding")))
        response.has_vary = false;
    storability = storability_judge(&request, &response, &rule, &answer->freshness);
    *why = storability_name(storability);
    if (is_upstream_error(stream->status))
        return says_private(&response) || plan->has_authorization ? ANSWER_ERROR_UNSHARED : ANSWER_ERROR;
    if (storability != STORABLE)
        return storability_blames_response(storability) ? ANSWER_UNSHARED : ANSWER_UNSHARED_THIS_TIME;
    if (!collect_tags(answer, stream, plan)) {
        *why = "too-many-tags";
        return ANSWER_UNSHARED;
    }
    if (stream->content_length > (int64_t)plan->route->cache->max_object_bytes) {
        *why = "too-large";
        return ANSWER_UNSHARED;
    }
    return ANSWER_SHARED;
}

static int64_t left_of(int64_t lifetime_ms, int64_t passed_ms)
{
    return lifetime_ms > passed_ms ? lifetime_ms - passed_ms : 0;
}

bool load_answer_finish(struct load_answer *answer, const struct stream *stream, const struct load_plan *plan,
                        int64_t epoch, struct lifetimes *lifetimes)
{
    struct mono_ms now = clock_mono();
    int64_t passed_ms = now.ms - stream->head_at.ms;
    struct header headers[128];
    size_t count = 0;

    *lifetimes = (struct lifetimes){
        .fresh_ms = left_of(answer->freshness.fresh_ms, passed_ms),
        .stale_ms = left_of(answer->freshness.stale_ms, passed_ms),
        .error_ms = left_of(answer->freshness.error_ms, passed_ms),
        .age_ms = answer->freshness.age_ms + passed_ms,
    };
    if (lifetimes->stale_ms <= 0 && lifetimes->error_ms <= 0)
        return false;
    for (size_t i = 0; i < stream->header_count && count < sizeof(headers) / sizeof(headers[0]); i++)
        if (!slice_eq(stream->headers[i].name, SLICE("age"))) /* told anew by whoever serves it */
            headers[count++] = stream->headers[i];
    answer->object = object_new(&plan->key, epoch, stream->status, headers, count, answer->tags,
                                answer->tag_count, stream->blocks, stream->block_count, lifetimes, now);
    return true;
}

void load_answer_clear(struct load_answer *answer)
{
    object_release(&answer->object);
}
