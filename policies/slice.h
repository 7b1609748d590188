/* Slice: bytes that somebody else owns. Never frees, never NUL-terminated by promise. */
#ifndef WEIR_SLICE_H
#define WEIR_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct slice {
    const char *base;
    size_t len;
};

#define SLICE(literal) ((struct slice){(literal), sizeof(literal) - 1})

static inline struct slice slice_of(const char *base, size_t len)
{
    return (struct slice){base, len};
}

static inline struct slice slice_text(const char *text)
{
    return (struct slice){text, text == NULL ? 0 : strlen(text)};
}

static inline bool slice_eq(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.base, b.base, a.len) == 0);
}

static inline char ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static inline bool slice_eq_nocase(struct slice a, struct slice b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        if (ascii_lower(a.base[i]) != ascii_lower(b.base[i]))
            return false;
    return true;
}

/* Without the optional white space of RFC 9110 section 5.6.3 (SP and HTAB) at both ends. */
static inline struct slice slice_trim(struct slice s)
{
    while (s.len > 0 && (s.base[0] == ' ' || s.base[0] == '\t')) {
        s.base++;
        s.len--;
    }
    while (s.len > 0 && (s.base[s.len - 1] == ' ' || s.base[s.len - 1] == '\t'))
        s.len--;
    return s;
}

/* One header field. Names are lower case wherever this struct is used. */
struct header {
    struct slice name;
    struct slice value;
};

#endif
