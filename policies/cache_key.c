/* Cache key: see cache_key.h. Each part is LENGTH ':' BYTES, so no part can be made to look like the border
 * of two. */
#include "cache_key.h"

#include "http_char.h"
#include "text.h"

static void add_length(struct text *key, size_t length)
{
    text_add_int(key, (int64_t)length);
    text_add_char(key, ':');
}

static void add_part(struct text *key, struct slice part)
{
    add_length(key, part.len);
    text_add(key, part);
}

static void add_path(struct text *key, struct slice path)
{
    size_t folded_len = 0;

    if (path.len == 0 || memchr(path.base, '%', path.len) == NULL) {
        add_part(key, path);
        return;
    }
    for (size_t at = 0; at < path.len; folded_len++)
        unreserved_next(path, &at);
    add_length(key, folded_len);
    for (size_t at = 0; at < path.len;)
        text_add_char(key, unreserved_next(path, &at));
}

size_t cache_key_write(const struct cache_key_parts *parts, char *out, size_t room)
{
    struct text key = text_in(out, room);
    struct slice path = parts->target, query = {NULL, 0};
    const char *mark = path.len == 0 ? NULL : memchr(path.base, '?', path.len);

    if (mark != NULL) {
        path.len = (size_t)(mark - parts->target.base);
        query = slice_of(mark + 1, parts->target.len - path.len - 1);
    }
    add_part(&key, slice_eq(parts->method, SLICE("HEAD")) ? SLICE("GET") : parts->method);
    if (parts->told_scheme.len > 0)
        add_part(&key, parts->told_scheme);
    else
        add_part(&key, parts->is_tls ? SLICE("https") : SLICE("http"));
    add_part(&key, parts->authority);
    add_path(&key, path);
    /* How the query counts is said, too: an ignored, an absent and an empty one are three things. */
    if (parts->ignores_query)
        text_add_char(&key, '*');
    else if (mark == NULL)
        text_add_char(&key, '-');
    else
        add_part(&key, query);
    if (parts->told_host.len > 0)
        add_part(&key, parts->told_host);
    return key.len;
}
