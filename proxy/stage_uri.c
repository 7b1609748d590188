/* Uri: the tag that every stored answer carries, so that what changes a resource ends what is stored of it,
 * with all its variants (RFC 9111 section 4.4).
 */
#include "exchange.h"
#include "hop_headers.h"
#include "path_text.h"
#include "request_check.h"
#include "uri_reference.h"
#include "uri_tag.h"

struct slice uri_tag(struct exchange *exchange, const struct cache_rule *rule, struct slice authority,
                     struct slice target)
{
    char *text = client_alloc(exchange->client, URI_TAG_BYTES);

    if (!uri_tag_write(authority, target, rule->key.query != KEY_QUERY_ALL, text))
        return slice_of(NULL, 0);
    return slice_of(text, URI_TAG_BYTES);
}

struct slice told_host_in_one_spelling(struct exchange *exchange)
{
    struct slice told = forwarded_told(exchange->fields, exchange->field_count, SLICE("x-forwarded-host"),
                                       exchange->peer_is_trusted);
    struct slice scheme = forwarded_told(exchange->fields, exchange->field_count, SLICE("x-forwarded-proto"),
                                         exchange->peer_is_trusted);
    char *text;

    if (told.len == 0 || !authority_is_valid(told))
        return slice_of(NULL, 0);
    text = client_alloc(exchange->client, told.len);
    return slice_of(text, authority_write(told, slice_eq(scheme, SLICE("https")), text));
}

static bool is_safe(struct slice method)
{
    static const struct slice safe[] = {{"GET", 3}, {"HEAD", 4}, {"OPTIONS", 7}, {"TRACE", 5}};

    for (size_t i = 0; i < sizeof(safe) / sizeof(safe[0]); i++)
        if (slice_eq(method, safe[i]))
            return true;
    return false;
}

/* Where a GET of this target would be stored: its tag. */
static size_t add_target(struct exchange *exchange, struct slice target, struct slice *out, size_t count)
{
    const char *mark = memchr(target.base, '?', target.len);
    struct slice path = slice_of(target.base, mark == NULL ? target.len : (size_t)(mark - target.base));
    char *folded = client_alloc(exchange->client, path.len);
    struct route_values values;
    const struct route_rule *route;
    struct slice tag;

    path = slice_of(folded, path_fold(path, folded));
    route = route_for(exchange, SLICE("GET"), path, &values);
    if (route == NULL || route->cache == NULL)
        return count;
    tag = uri_tag(exchange, route->cache, exchange->head->authority, target);
    if (tag.base == NULL)
        return count;
    for (size_t i = 0; i < count; i++)
        if (slice_eq(out[i], tag))
            return count;
    out[count] = tag;
    return count + 1;
}

static size_t add_reference(struct exchange *exchange, const struct stream *answer, struct slice name,
                            struct slice *out, size_t count)
{
    for (size_t i = 0; i < answer->header_count; i++) {
        struct slice reference = answer->headers[i].value;
        size_t room = reference.len + exchange->head->target.len + 2, len;
        char *target;

        if (!slice_eq(answer->headers[i].name, name))
            continue;
        target = client_alloc(exchange->client, room);
        if (uri_reference_resolve(reference, exchange->head->authority, exchange->head->target, target, room,
                                  &len))
            count = add_target(exchange, slice_of(target, len), out, count);
        return count;
    }
    return count;
}

void named_groups(struct exchange *exchange, const struct stream *answer, struct group_tags *out)
{
    out->count = 0;
    if (!is_safe(exchange->head->method))
        group_tags_invalidated(out, answer->headers, answer->header_count, exchange->alone_authority);
}

size_t changed_uri(struct exchange *exchange, struct slice *out, size_t count)
{
    if (is_safe(exchange->head->method))
        return 0;
    return add_target(exchange, exchange->head->target, out, count) - count;
}

size_t named_uris(struct exchange *exchange, const struct stream *answer, struct slice *out, size_t count)
{
    size_t before = count;

    if (is_safe(exchange->head->method))
        return 0;
    count = add_reference(exchange, answer, SLICE("location"), out, count);
    return add_reference(exchange, answer, SLICE("content-location"), out, count) - before;
}
