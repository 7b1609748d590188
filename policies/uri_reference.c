/* URI reference: see uri_reference.h. */
#include "uri_reference.h"

#include "text.h"

static bool starts_with(struct slice s, struct slice what)
{
    return s.len >= what.len && slice_eq_nocase(slice_of(s.base, what.len), what);
}

static struct slice without(struct slice s, size_t count)
{
    return slice_of(s.base + count, s.len - count);
}

static size_t until(struct slice s, const char *any)
{
    size_t at = 0;

    while (at < s.len && memchr(any, s.base[at], strlen(any)) == NULL)
        at++;
    return at;
}

/* Takes the port with its colon off the end of an authority, and the dot that ends an absolute name. */
static struct slice take_port(struct slice *authority)
{
    struct slice port = {NULL, 0};

    for (size_t i = authority->len; i > 0 && authority->base[i - 1] != ']'; i--) {
        if (authority->base[i - 1] != ':')
            continue;
        port = without(*authority, i - 1);
        authority->len = i - 1;
        break;
    }
    if (authority->len > 1 && authority->base[authority->len - 1] == '.')
        authority->len--;
    return port;
}

/* Takes an authority off the front of what follows "//". */
static bool is_authority(struct slice *rest, struct slice authority, struct slice default_port)
{
    size_t end = until(*rest, "/?#");
    struct slice named = slice_of(rest->base, end), named_port = take_port(&named),
                 port = take_port(&authority);

    if (named_port.len == 1 || slice_eq(named_port, default_port))
        named_port.len = 0;
    *rest = without(*rest, end);
    return slice_eq_nocase(named, authority) && slice_eq(named_port, port);
}

/* What is left is a path, a query or nothing; false where it is of another host or scheme. */
static bool take_origin(struct slice *rest, struct slice authority, bool *has_origin)
{
    *has_origin = true;
    if (starts_with(*rest, SLICE("http://"))) {
        *rest = without(*rest, 7);
        return is_authority(rest, authority, SLICE(":80"));
    }
    if (starts_with(*rest, SLICE("https://"))) {
        *rest = without(*rest, 8);
        return is_authority(rest, authority, SLICE(":443"));
    }
    if (starts_with(*rest, SLICE("//"))) {
        *rest = without(*rest, 2);
        return is_authority(rest, authority, SLICE(":80"));
    }
    *has_origin = false;
    /* a colon in the first segment of what is relative makes it a scheme */
    return memchr(rest->base, ':', until(*rest, "/?#")) == NULL;
}

/* RFC 3986 section 5.2.4, in place, up to `len`. Returns the new length. */
static size_t remove_dots(char *path, size_t len)
{
    size_t from = 0, to = 0;

    while (from < len) { /* at a '/' each time */
        size_t end = from + 1;
        struct slice segment;

        while (end < len && path[end] != '/')
            end++;
        segment = slice_of(path + from + 1, end - from - 1);
        if (slice_eq(segment, SLICE(".")) || slice_eq(segment, SLICE(".."))) {
            if (segment.len == 2)
                while (to > 0 && path[--to] != '/')
                    ;
            if (end == len)
                path[to++] = '/';
        } else {
            memmove(path + to, path + from, end - from);
            to += end - from;
        }
        from = end;
    }
    return to;
}

static bool is_sound(struct slice target)
{
    for (size_t i = 0; i < target.len; i++)
        if (target.base[i] <= ' ' || target.base[i] > '~')
            return false;
    return target.len > 0 && target.base[0] == '/';
}

bool uri_reference_resolve(struct slice reference, struct slice authority, struct slice target, char *out,
                           size_t room, size_t *len_out)
{
    struct text text = text_in(out, room);
    struct slice rest = slice_trim(reference), path, base_path = slice_of(target.base, until(target, "?"));
    size_t path_len;
    bool has_origin;

    if (rest.len == 0 || !take_origin(&rest, authority, &has_origin))
        return false;
    rest.len = until(rest, "#");
    path = slice_of(rest.base, until(rest, "?"));
    if (path.len == 0 && has_origin) {
        text_add_char(&text, '/');
    } else if (path.len == 0) {
        text_add(&text, base_path);
    } else if (path.base[0] != '/') {
        if (has_origin)
            return false;
        while (base_path.len > 0 && base_path.base[base_path.len - 1] != '/')
            base_path.len--;
        text_add(&text, base_path);
    }
    text_add(&text, path);
    if (!text_fits(&text) || text.len == 0 || out[0] != '/')
        return false;
    path_len = remove_dots(out, text.len);
    text.len = path_len;
    text_add(&text, without(rest, path.len));
    *len_out = text.len;
    return text_fits(&text) && is_sound(text_slice(&text));
}
