/* Load answer: see load_answer.h. */
#include "load_answer.h"
#include "clock.h"
#include "coding.h"
#include "conditional.h"
#include "http_char.h"
#include "http_date.h"
#include "memory.h"
#include "part.h"
#include "response_control.h"
#include "tag_list.h"
#include "variant.h"
#include "vary.h"

#include <stdlib.h>
#include <string.h>

enum { STORED_HEADERS_MAX = 128 };

static struct caching_rule rule_of(const struct cache_rule *cache)
{
    return (struct caching_rule){
        .ttl_ms = cache->ttl_ms,
        .override_origin = cache->override_origin,
        .negative_ttl_ms = cache->negative_ttl_ms,
        .stale_while_revalidate_ms = cache->stale_while_revalidate_ms,
        .stale_if_error_ms = cache->stale_if_error_ms,
        .stale_if_unreachable_ms = cache->stale_if_unreachable_ms,
        .statuses = cache->statuses,
        .status_count = cache->status_count,
        .shared_with_authorization = cache->shared_with_authorization,
        .passes_until_close = !cache->keep_until_close,
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
static bool collect_tags(struct load_answer *answer, const struct header *headers, size_t header_count,
                         const struct load_plan *plan)
{
    answer->tag_count = 0;
    for (size_t i = 0; i < plan->tag_count; i++)
        if (!add_tag(answer, plan->tags[i]))
            return false;
    for (size_t i = 0; i < header_count; i++) {
        struct slice rest = headers[i].value, tag;

        if (!names_tags(plan->route->cache, headers[i].name))
            continue;
        while (tag_list_next(&rest, &tag))
            if (!add_tag(answer, tag))
                return false;
    }
    if (!group_tags_of(&answer->groups, headers, header_count, plan->request.authority))
        return false;
    for (size_t i = 0; i < answer->groups.count; i++)
        if (!add_tag(answer, answer->groups.tags[i]))
            return false;
    return true;
}

/* Errors that stale-if-error covers (RFC 5861 section 4). */
bool load_answer_is_error(int status)
{
    return status == 500 || status == 502 || status == 503 || status == 504;
}

/* Whether a failure's words are for the one who asked: by the rules for answers that are kept. */
static bool says_private(const struct storing_response *response)
{
    return response->control.is_private || response->control.no_store || response->control.no_cache ||
           response->control.is_malformed || response->has_set_cookie || response->varies_on_all;
}

/* What is judged: the head that came, or that of a copy which a 304 has updated. */
struct received {
    int status;
    const struct header *headers;
    size_t header_count;
    bool is_until_close;
    int64_t waited_us, body_bytes; /* -1: not known */
};

/* A failure is shared with all riders at once, so it must be the same for all: that it could have been coded
 * otherwise makes no difference. */
static bool varies(const struct load_answer *answer, const struct received *received)
{
    bool is_coded = false;

    for (size_t i = 0; i < received->header_count; i++)
        is_coded = is_coded || slice_eq(received->headers[i].name, SLICE("content-encoding"));
    return answer->has_more &&
           (is_coded || !slice_eq(slice_of(answer->vary, answer->vary_len), SLICE("accept-encoding")));
}

/* Where a part was asked for, it is as good as the whole would be; its key keeps them apart. */
static bool is_sound_part(const struct received *received, const struct load_plan *plan)
{
    struct byte_range held;
    int64_t whole;

    return plan->is_part && received->status == 206 &&
           part_of_fields(received->headers, received->header_count, &held, &whole);
}

static enum answer_kind judge(struct load_answer *answer, const struct received *received,
                              const struct load_plan *plan, const char **why)
{
    struct caching_rule rule = rule_of(plan->route->cache);
    struct storing_request request;
    struct storing_response response;
    enum storability storability;
    bool is_failure;

    storing_request_read(plan->request.method, plan->request.headers, plan->request.header_count, &request);
    request.has_authorization = plan->has_authorization;
    request.has_range = request.has_range && !plan->is_part;
    storing_response_read(is_sound_part(received, plan) ? 200 : received->status, received->headers,
                          received->header_count, received->is_until_close, received->waited_us / 1000,
                          clock_wall(), &response);
    if (!vary_extend(slice_of(plan->varied, plan->varied_len), received->headers, received->header_count,
                     answer->vary, &answer->vary_len, &answer->has_more))
        response.varies_on_all = true; /* on more than we care to tell apart */
    storability = storability_judge(&request, &response, &rule, &answer->freshness);
    *why = storability_name(storability);
    answer->permits_authorization = response.control.permits_authorization;
    is_failure = load_answer_is_error(received->status) &&
                 !(storability == STORABLE && answer->freshness.fresh_ms > 0);
    if (plan->has_authorization && (is_failure || storability != STORABLE))
        return ANSWER_PERSONAL;
    if (is_failure)
        return says_private(&response) || varies(answer, received) ? ANSWER_ERROR_UNSHARED : ANSWER_ERROR;
    if (storability != STORABLE)
        return storability_blames_response(storability) ? ANSWER_UNSHARED : ANSWER_UNSHARED_THIS_TIME;
    if (plan->is_part && answer->has_more) {
        *why = "vary"; /* what it is a part of lies elsewhere: the next one knows */
        return ANSWER_UNSHARED_THIS_TIME;
    }
    if (!collect_tags(answer, received->headers, received->header_count, plan)) {
        *why = "too-many-tags";
        return ANSWER_UNSHARED;
    }
    if (received->body_bytes > (int64_t)plan->route->cache->max_object_bytes) {
        *why = "too-large";
        return ANSWER_UNSHARED;
    }
    return ANSWER_SHARED;
}

enum answer_kind load_answer_judge(struct load_answer *answer, const struct stream *stream,
                                   const struct load_plan *plan, const char **why)
{
    struct received received = {
        .status = stream->status,
        .headers = stream->headers,
        .header_count = stream->header_count,
        .is_until_close = stream->is_until_close,
        .waited_us = stream->waited_us,
        .body_bytes = stream->content_length,
    };

    return judge(answer, &received, plan, why);
}

static int64_t left_of(int64_t lifetime_ms, int64_t passed_ms)
{
    return lifetime_ms > passed_ms ? lifetime_ms - passed_ms : 0;
}

/* What is left of the lifetimes, now. */
static struct lifetimes lifetimes_now(const struct load_answer *answer, const struct stream *stream,
                                      struct mono_ms now)
{
    int64_t passed_ms = now.ms - stream->head_at.ms;

    return (struct lifetimes){
        .fresh_ms = left_of(answer->freshness.fresh_ms, passed_ms),
        .stale_ms = left_of(answer->freshness.stale_ms, passed_ms),
        .error_ms = left_of(answer->freshness.error_ms, passed_ms),
        .age_ms = answer->freshness.age_ms + passed_ms,
        .keep_ms = left_of(answer->freshness.keep_ms, passed_ms),
    };
}

/* What may be given to others: without Age, which whoever serves it tells anew, and without what is withheld
 * from them. */
static size_t select_headers(const struct header *from, size_t count, struct header *out, size_t room)
{
    size_t kept = 0;

    for (size_t i = 0; i < count && kept < room; i++)
        if (!slice_eq(from[i].name, SLICE("age")) && !slice_eq(from[i].name, VARIANT_RULE_FIELD) &&
            !response_control_withholds(from, count, from[i].name))
            out[kept++] = from[i];
    return kept;
}

/* A copy bears the date of its making, or of its receipt where that is not known (RFC 9110 section 6.6.1). */
static size_t add_date(const struct stream *stream, struct mono_ms now, char text[HTTP_DATE_BYTES],
                       struct header *headers, size_t count)
{
    struct wall_s wall = clock_wall(), made;

    for (size_t i = 0; i < count; i++)
        if (slice_eq(headers[i].name, SLICE("date"))) {
            if (http_date_parse(headers[i].value, wall, &made))
                return count;
            headers[i--] = headers[--count];
        }
    wall.s -= (now.ms - stream->head_at.ms) / 1000;
    http_date_write(wall, text);
    headers[count] = (struct header){SLICE("date"), slice_of(text, HTTP_DATE_BYTES)};
    return count + 1;
}

static bool names(struct slice list, struct slice name)
{
    struct slice each;

    while (list_next(&list, &each))
        if (slice_eq(each, name))
            return true;
    return false;
}

/* What the upstream itself tells apart by coding is only worth packing for those who take gzip: they alone will ask
 * for it. */
static bool is_for_gzip(const struct load_answer *answer, const struct load_plan *plan)
{
    if (!names(slice_of(answer->vary, answer->vary_len), SLICE("accept-encoding")))
        return true;
    for (size_t i = 0; i < plan->request.header_count; i++)
        if (slice_eq(plan->request.headers[i].name, SLICE("accept-encoding")))
            return names(plan->request.headers[i].value, SLICE("gzip"));
    return false;
}

bool load_answer_compresses(const struct load_answer *answer, const struct stream *stream,
                            const struct load_plan *plan)
{
    const struct cache_rule *rule = plan->route->cache;
    bool is_small = stream->content_length >= 0 && stream->content_length < CODING_LEAST_BYTES;

    return rule->compress_count > 0 && !is_small && stream->status != 206 &&
           coding_may_compress(stream->headers, stream->header_count, rule->compress, rule->compress_count) &&
           is_for_gzip(answer, plan);
}

bool load_answer_finish(struct load_answer *answer, const struct stream *stream, const struct packer *packed,
                        const struct load_plan *plan, int64_t epoch, struct lifetimes *lifetimes)
{
    struct mono_ms now = clock_mono();
    struct header headers[STORED_HEADERS_MAX];
    struct block *const *blocks = stream->blocks;
    char date[HTTP_DATE_BYTES];
    size_t count, block_count = stream->block_count;

    *lifetimes = lifetimes_now(answer, stream, now);
    if (lifetimes->keep_ms <= 0)
        return false;
    count = select_headers(stream->headers, stream->header_count, headers, STORED_HEADERS_MAX - 1);
    count = add_date(stream, now, date, headers, count);
    if (packed != NULL)
        blocks = packer_blocks(packed, &block_count);
    answer->object = object_new(&plan->key, epoch, stream->status, headers, count, answer->tags,
                                answer->tag_count, blocks, block_count, lifetimes, now);
    answer->object->plain_bytes = packed == NULL ? 0 : packer_plain_bytes(packed);
    return true;
}

/* ---- a copy that is validated ---- */

enum answer_kind load_answer_judge_copy(struct load_answer *answer, const struct object *copy,
                                        const struct stream *stream, const struct load_plan *plan,
                                        const char **why)
{
    struct received received = {
        .status = copy->status,
        .waited_us = stream->waited_us,
        .body_bytes = copy->body_bytes,
    };
    enum answer_kind kind;

    answer->merged = must_alloc((copy->header_count + stream->header_count + 1) * sizeof(struct header));
    answer->merged_count = not_modified_merge(copy->headers, copy->header_count, stream->headers,
                                              stream->header_count, answer->merged);
    received.headers = answer->merged;
    received.header_count = answer->merged_count;
    kind = judge(answer, &received, plan, why);
    if (kind != ANSWER_SHARED || !answer->has_more)
        return kind;
    *why = "vary"; /* it depends on more than it did: the next load begins anew */
    return ANSWER_UNSHARED_THIS_TIME;
}

void load_answer_finish_copy(struct load_answer *answer, const struct object *copy,
                             const struct stream *stream, const struct load_plan *plan, int64_t epoch,
                             struct lifetimes *lifetimes)
{
    struct mono_ms now = clock_mono();
    struct header headers[STORED_HEADERS_MAX];
    char date[HTTP_DATE_BYTES];
    size_t count = select_headers(answer->merged, answer->merged_count, headers, STORED_HEADERS_MAX - 1);

    count = add_date(stream, now, date, headers, count);

    *lifetimes = lifetimes_now(answer, stream, now);
    answer->object = object_new(&plan->key, epoch, copy->status, headers, count, answer->tags,
                                answer->tag_count, copy->blocks, copy->block_count, lifetimes, now);
    answer->object->plain_bytes = copy->plain_bytes;
}

bool load_answer_asks_always(const struct load_answer *answer)
{
    return answer->freshness.stale_ms <= 0;
}

/* As it was judged when it came. */
static struct freshness freshness_of_copy(const struct object *copy, const struct cache_rule *cache)
{
    struct caching_rule rule = rule_of(cache);
    struct storing_response response;
    struct wall_s born = clock_wall();

    storing_response_read(copy->status, copy->headers, copy->header_count, false, 0, born, &response);
    if (http_date_parse(response.times.date, born, &born))
        response.times.received = born; /* as it was then, not as old as it is now */
    return freshness_of(copy->status, &response.control, &response.times, &rule);
}

bool copy_asks_always(const struct object *copy, const struct cache_rule *cache)
{
    return freshness_of_copy(copy, cache).stale_ms <= 0;
}

struct mono_ms copy_bridges_until(const struct object *copy, const struct cache_rule *cache)
{
    struct freshness freshness = freshness_of_copy(copy, cache);
    struct mono_ms until = mono_after(copy->fresh_until, freshness.unreachable_ms - freshness.fresh_ms);

    return until.ms > copy->error_until.ms ? until : copy->error_until;
}

bool plan_validation(const struct load_plan *plan, const struct object *copy, struct header *room,
                     struct origin_request *out)
{
    struct header conditions[2];
    size_t count = conditions_to_validate(copy->headers, copy->header_count, conditions);

    *out = plan->request;
    if (count == 0)
        return false;
    if (out->header_count > 0)
        memcpy(room, plan->request.headers, out->header_count * sizeof(*room));
    memcpy(room + out->header_count, conditions, count * sizeof(*room));
    out->headers = room;
    out->header_count += count;
    return true;
}

void load_answer_clear(struct load_answer *answer)
{
    object_release(&answer->object);
    free(answer->merged);
    answer->merged = NULL;
}
