/* Cache key: see cache_key.h. Each part is LENGTH ':' BYTES, so no part can be made to look like the border
 * of two. */
#include "cache_key.h"

#include "http_char.h"

struct writer {
    char *out;
    size_t room, len;
};

static void put(struct writer *w, char c)
{
    if (w->len < w->room)
        w->out[w->len] = c;
    w->len++;
}

static void put_length(struct writer *w, size_t n)
{
    char digits[20];
    size_t count = 0;

    do {
        digits[count++] = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    while (count > 0)
        put(w, digits[--count]);
    put(w, ':');
}

static void put_part(struct writer *w, struct slice part)
{
    put_length(w, part.len);
    for (size_t i = 0; i < part.len; i++)
        put(w, part.base[i]);
}

static void put_path(struct writer *w, struct slice path)
{
    size_t folded_len = 0;

    for (size_t at = 0; at < path.len; folded_len++)
        unreserved_next(path, &at);
    put_length(w, folded_len);
    for (size_t at = 0; at < path.len;)
        put(w, unreserved_next(path, &at));
}

size_t cache_key_write(const struct cache_key_parts *parts, char *out, size_t room)
{
    struct writer w = {out, room, 0};
    struct slice path = parts->target, query = {NULL, 0};
    const char *mark = path.len == 0 ? NULL : memchr(path.base, '?', path.len);

    if (mark != NULL) {
        path.len = (size_t)(mark - parts->target.base);
        query = slice_of(mark + 1, parts->target.len - path.len - 1);
    }
    put_part(&w, slice_eq(parts->method, SLICE("HEAD")) ? SLICE("GET") : parts->method);
    put_part(&w, parts->is_tls ? SLICE("https") : SLICE("http"));
    put_part(&w, parts->authority);
    put_path(&w, path);
    /* How the query counts is said, too: an ignored, an absent and an empty one are three things. */
    if (parts->ignores_query)
        put(&w, '*');
    else if (mark == NULL)
        put(&w, '-');
    else
        put_part(&w, query);
    return w.len;
}
