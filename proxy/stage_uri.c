/* Uri: the tag that every stored answer carries, so that what changes a resource ends what is stored of it,
 * with all its variants (RFC 9111 section 4.4).
 */
#include "exchange.h"
#include "cache_key.h"
#include "digest.h"
#include "path_text.h"
#include "uri_reference.h"

enum { KEY_ROOM = 16 << 10, URI_TAG_BYTES = 4 + 32 };

struct slice uri_tag(struct exchange *exchange, const struct cache_rule *rule, struct slice target)
{
    static const char digits[] = "0123456789abcdef";
    struct cache_key_parts parts = {
        .method = SLICE("GET"),
        .authority = exchange->head->authority,
        .target = target,
        .ignores_query = rule->key_query != KEY_QUERY_ALL,
    };
    char key[KEY_ROOM];
    size_t len = cache_key_write(&parts, key, sizeof(key));
    struct slice whole = slice_of(key, len);
    unsigned char hash[32];
    char *text;

    if (len > sizeof(key))
        return slice_of(NULL, 0);
    digest_sha256(&whole, 1, hash);
    text = client_alloc(exchange->client, URI_TAG_BYTES);
    memcpy(text, "uri:", 4);
    for (size_t i = 0; i < 16; i++) {
        text[4 + 2 * i] = digits[hash[i] >> 4];
        text[5 + 2 * i] = digits[hash[i] & 15];
    }
    return slice_of(text, URI_TAG_BYTES);
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
    tag = uri_tag(exchange, route->cache, target);
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
