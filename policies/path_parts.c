/* Path parts: see path_parts.h. */
#include "path_parts.h"

#include "http_char.h"

/* False: a bad escape. */
static bool decode(struct slice text, char *out, size_t *len)
{
    *len = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.base[i];

        if (c == '%') {
            int high = text.len - i > 2 ? hex_value(text.base[i + 1]) : -1;
            int low = text.len - i > 2 ? hex_value(text.base[i + 2]) : -1;

            if (high < 0 || low < 0)
                return false;
            c = (char)(high << 4 | low);
            i += 2;
        }
        out[(*len)++] = c;
    }
    return true;
}

size_t path_parts(struct slice path, char *room, struct slice *parts, size_t most)
{
    size_t count = 0;

    while (path.len > 0) {
        const char *slash = memchr(path.base, '/', path.len);
        size_t len = slash == NULL ? path.len : (size_t)(slash - path.base), decoded;

        if (count == most)
            return PATH_PARTS_MANY;
        if (!decode(slice_of(path.base, len), room, &decoded))
            return PATH_PARTS_BAD;
        parts[count++] = slice_of(room, decoded);
        room += decoded;
        path = slash == NULL ? slice_of(NULL, 0) : slice_of(slash + 1, path.len - len - 1);
    }
    return count;
}
