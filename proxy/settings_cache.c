/* Settings cache: how long a route's responses are kept, under which key, and by which tags they are
 * invalidated. */
#include "settings_sections.h"

#include "http_char.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TAG_HEADERS = 8, MAX_STATUSES = 64, MAX_MEDIA_TYPES = 32, MAX_MEDIA_TYPE_BYTES = 128 };

bool read_template(struct draft *draft, const struct node *node, bool may_ask, struct template *out)
{
    const char *text, *problem;

    if (!want_text(draft, node, "a tag such as report or product:{id}", &text))
        return false;
    if (strpbrk(text, " ,") != NULL) {
        complain_value(draft->complaints, node, "%s cannot be a tag: it holds a blank or a comma",
                       quote(text).text);
        return false;
    }
    if (draft->pattern == NULL)
        return false; /* its variables are not known */
    text = draft_copy(draft, text);
    problem = template_compile(slice_text(text), draft->pattern, out);
    if (problem == NULL && !may_ask && template_asks_answer(out))
        problem = "{json:...} is of the answer to a change, and stands in invalidates only";
    if (problem != NULL)
        complain_value(draft->complaints, node, "%s cannot be a tag: %s", quote(text).text, problem);
    return problem == NULL;
}

void read_templates(struct draft *draft, const struct node *node, struct template **out, size_t *count)
{
    if (!want_list(draft, node, "a list of tags", MAX_TAGS))
        return;
    *out = draft_alloc(draft, (node->count + 1) * sizeof **out);
    for (size_t i = 0; i < node->count; i++)
        if (read_template(draft, node->items[i], false, &(*out)[*count]))
            (*count)++;
}

static void read_tags(struct draft *draft, const struct node *node, void *into)
{
    struct cache_rule *cache = into;

    read_templates(draft, node, &cache->tags, &cache->tag_count);
}

static void read_tag_headers(struct draft *draft, const struct node *node, void *into)
{
    struct cache_rule *cache = into;
    const char *text;

    if (!want_list(draft, node, "a list of header fields", MAX_TAG_HEADERS))
        return;
    cache->tag_headers = draft_alloc(draft, (node->count + 1) * sizeof *cache->tag_headers);
    for (size_t i = 0; i < node->count; i++) {
        if (!want_text(draft, node->items[i], "a header field's name", &text))
            continue;
        if (is_header_name(text))
            cache->tag_headers[cache->tag_header_count++] = draft_copy_lower(draft, text);
        else
            complain_value(draft->complaints, node->items[i], "%s is no header field's name",
                           quote(text).text);
    }
}

static void read_status(struct draft *draft, const struct node *node, struct cache_rule *cache)
{
    int64_t status;

    if (!want_count(draft, node, 200, 599, &status))
        return;
    if (status == 206 || status == 304) {
        complain_value(draft->complaints, node, "%d is only a part of a response and is never kept",
                       (int)status);
        return;
    }
    for (size_t i = 0; i < cache->status_count; i++)
        if (cache->statuses[i] == status) {
            complain_value(draft->complaints, node, "%d is listed twice", (int)status);
            return;
        }
    cache->statuses[cache->status_count++] = (int)status;
}

static void read_statuses(struct draft *draft, const struct node *node, void *into)
{
    struct cache_rule *cache = into;

    if (!want_list(draft, node, "a list of status codes", MAX_STATUSES))
        return;
    cache->statuses = draft_alloc(draft, (node->count + 1) * sizeof *cache->statuses);
    for (size_t i = 0; i < node->count; i++)
        read_status(draft, node->items[i], cache);
}

/* ---- compress ---- */

/* "text/css", or "text/" and a star for all of a kind, which is kept without the star. False: it is neither. */
static bool is_media_type(struct slice *type)
{
    const char *slash = memchr(type->base, '/', type->len);
    struct slice kind, rest;

    if (slash == NULL || type->len > MAX_MEDIA_TYPE_BYTES)
        return false;
    kind = slice_of(type->base, (size_t)(slash - type->base));
    rest = slice_of(slash + 1, type->len - kind.len - 1);
    if (!is_token(kind) || memchr(kind.base, '*', kind.len) != NULL)
        return false;
    if (slice_eq(rest, SLICE("*"))) {
        type->len--;
        return true;
    }
    return is_token(rest) && memchr(rest.base, '*', rest.len) == NULL;
}

static void read_compress(struct draft *draft, const struct node *node, void *into)
{
    struct cache_rule *cache = into;
    const char *text;

    if (!want_list(draft, node, "a list of media types", MAX_MEDIA_TYPES))
        return;
    cache->compress = draft_alloc(draft, (node->count + 1) * sizeof *cache->compress);
    for (size_t i = 0; i < node->count; i++) {
        struct slice type;

        if (!want_text(draft, node->items[i], "a media type", &text))
            continue;
        type = slice_text(draft_copy_lower(draft, text));
        if (is_media_type(&type))
            cache->compress[cache->compress_count++] = type;
        else
            complain_value(draft->complaints, node->items[i],
                           "%s is no media type; write one such as application/json, or text/*",
                           quote(text).text);
    }
}

static void read_on_store_failure(struct draft *draft, const struct node *node, void *into)
{
    static const struct choice ways[] = {{"serve", false, false}, {"bypass", true, false}, {NULL, 0, false}};
    struct cache_rule *cache = into;
    int bypasses;

    if (want_choice(draft, node, ways, &bypasses))
        cache->bypass_on_store_failure = bypasses != 0;
}

#define CACHE(field) offsetof(struct cache_rule, field)
static const struct setting cache_rows[] = {
    {.key = "ttl",
     .type = SETTING_DURATION,
     .offset = CACHE(ttl_ms),
     .least = "0s",
     .most = "30d",
     .means = "How long a response is fresh that does not say so; without it such a response is not kept."},
    {.key = "override_origin",
     .type = SETTING_BOOL,
     .offset = CACHE(override_origin),
     .preset = "false",
     .means = "ttl wins over the response's Cache-Control."},
    {.key = "stale_while_revalidate",
     .type = SETTING_DURATION,
     .offset = CACHE(stale_while_revalidate_ms),
     .least = "0s",
     .most = "30d",
     .preset = "0s",
     .means = "How long behind its freshness a copy is served while one request refreshes it."},
    {.key = "stale_if_error",
     .type = SETTING_DURATION,
     .offset = CACHE(stale_if_error_ms),
     .least = "0s",
     .most = "30d",
     .preset = "0s",
     .means = "How long behind its freshness a copy is served where the upstream fails."},
    {.key = "stale_if_unreachable",
     .type = SETTING_DURATION,
     .offset = CACHE(stale_if_unreachable_ms),
     .least = "0s",
     .most = "30d",
     .preset = "1m",
     .means = "How long behind its freshness a copy is served where the upstream gives no answer at all."},
    {.key = "lock_timeout",
     .type = SETTING_DURATION,
     .offset = CACHE(lock_timeout_ms),
     .least = "10ms",
     .most = "10m",
     .preset = "5s",
     .means = "How long a request waits for another's load before it asks the upstream itself."},
    {.key = "tags",
     .type = SETTING_OWN,
     .read = read_tags,
     .preset = "[]",
     .shape = "a list of at most 16 templates",
     .means = "Names to invalidate responses by: {x} of the path, {header:N} and {query:N} of the request."},
    {.key = "tag_headers",
     .type = SETTING_OWN,
     .read = read_tag_headers,
     .preset = "[surrogate-key, cache-tag]",
     .shape = "a list of at most 8 fields",
     .means = "Response fields that hold further tags."},
    {.key = "statuses",
     .type = SETTING_OWN,
     .read = read_statuses,
     .preset = "[200, 203, 204, 301, 308, 404, 410]",
     .shape = "a list of status codes, 200 to 599",
     .means = "Responses that ttl may keep; 404 and 410 are kept for negative_ttl."},
    {.key = "negative_ttl",
     .type = SETTING_DURATION,
     .offset = CACHE(negative_ttl_ms),
     .least = "0s",
     .most = "30d",
     .preset = "1s",
     .means = "How long a 404 or 410 that states no freshness is kept."},
    {.key = "max_object",
     .type = SETTING_SIZE,
     .offset = CACHE(max_object_bytes),
     .least = "1B",
     .most = "256MiB",
     .preset = "8MiB",
     .means = "Larger responses are passed on, not kept."},
    {.key = "compress",
     .type = SETTING_OWN,
     .read = read_compress,
     .preset = "[]",
     .shape = "a list of at most 32 media types",
     .means = "Media types to keep compressed, such as application/json or text/*."},
    {.key = "key",
     .type = SETTING_SECTION,
     .offset = 0,
     .section = &section_cache_key,
     .means = "What distinguishes two responses, beyond method, host and path."},
    {.key = "shared_with_authorization",
     .type = SETTING_BOOL,
     .offset = CACHE(shared_with_authorization),
     .preset = "false",
     .means = "Requests with Authorization may share responses: the operator's word."},
    {.key = "keep_until_close",
     .type = SETTING_BOOL,
     .offset = CACHE(keep_until_close),
     .preset = "true",
     .means = "Keep what states its lifetime and ends with the upstream's connection, whose end nobody can "
              "check."},
    {.key = "on_store_failure",
     .type = SETTING_OWN,
     .read = read_on_store_failure,
     .preset = "serve",
     .shape = "serve or bypass",
     .means = "Without the store: serve what this node still has, or ask the upstream each time."},
};
const struct section section_cache = SECTION_OF("routes[].cache", cache_rows);

void read_cache(struct draft *draft, const struct node *node, void *into)
{
    struct route_rule *route = into;

    route->cache = draft_alloc(draft, sizeof *route->cache);
    route->cache->ttl_ms = -1;
    section_read(draft, node, &section_cache, route->cache);
}
