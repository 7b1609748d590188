/* Json text: see json_text.h. */
#include "json_text.h"

size_t utf8_length(struct slice s, size_t at)
{
    const unsigned char *u = (const unsigned char *)s.base + at;
    size_t left = s.len - at, len = u[0] < 0x80   ? 1
                                    : u[0] < 0xc2 ? 0
                                    : u[0] < 0xe0 ? 2
                                    : u[0] < 0xf0 ? 3
                                    : u[0] < 0xf5 ? 4
                                                  : 0;

    if (len == 0 || len > left)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((u[i] & 0xc0) != 0x80)
            return 0;
    /* overlong, surrogates, above U+10FFFF */
    if ((u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xed && u[1] > 0x9f) || (u[0] == 0xf0 && u[1] < 0x90) ||
        (u[0] == 0xf4 && u[1] > 0x8f))
        return 0;
    return len;
}

/* The escape of one byte, or nothing where it stands for itself. */
static size_t escape(unsigned char c, bool is_whole, char out[6])
{
    static const char digits[] = "0123456789abcdef";

    if (c == '"' || c == '\\') {
        out[0] = '\\';
        out[1] = (char)c;
        return 2;
    }
    if (is_whole && c >= 0x20 && c != 0x7f)
        return 0;
    memcpy(out, "\\u00", 4);
    out[4] = digits[c >> 4];
    out[5] = digits[c & 15];
    return 6;
}

void text_add_json(struct text *text, struct slice bytes, size_t max_bytes)
{
    size_t written = 0, step;

    text_add_char(text, '"');
    for (size_t at = 0; at < bytes.len; at += step) {
        char escaped[6];
        size_t whole = utf8_length(bytes, at);
        size_t escaped_len = escape((unsigned char)bytes.base[at], whole > 0, escaped);

        step = whole > 0 ? whole : 1;
        written += escaped_len > 0 ? escaped_len : step;
        if (written > max_bytes) {
            text_add(text, SLICE("..."));
            break;
        }
        text_add(text, escaped_len > 0 ? slice_of(escaped, escaped_len) : slice_of(bytes.base + at, step));
    }
    text_add_char(text, '"');
}
