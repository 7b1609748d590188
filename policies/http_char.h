/* Http char: which bytes may stand where in an HTTP/1 message? RFC 9110 section 5.6.2, RFC 3986 section 2. */
#ifndef WEIR_HTTP_CHAR_H
#define WEIR_HTTP_CHAR_H

#include "slice.h"

#include <stdint.h>

static inline bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool is_alpha(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline bool is_token_char(char c)
{
    switch (c) {
    case '!':
    case '#':
    case '$':
    case '%':
    case '&':
    case '\'':
    case '*':
    case '+':
    case '-':
    case '.':
    case '^':
    case '_':
    case '`':
    case '|':
    case '~': return true;
    }
    return is_alpha(c) || is_digit(c);
}

static inline bool is_token(struct slice s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!is_token_char(s.base[i]))
            return false;
    return s.len > 0;
}

/* What a field value may hold: HTAB, SP, visible ASCII, and the bytes above it (obs-text). */
static inline bool is_value_char(char c)
{
    unsigned char u = (unsigned char)c;

    return u == '\t' || (u >= 0x20 && u != 0x7f);
}

static inline bool is_value(struct slice s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!is_value_char(s.base[i]))
            return false;
    return true;
}

/* 0..15, or -1. */
static inline int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    c = ascii_lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Bytes that mean the same with and without %XX (RFC 3986 section 2.3). */
static inline bool is_unreserved(char c)
{
    return is_alpha(c) || is_digit(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

/* The byte at s[*at], with %XX of an unreserved byte decoded; moves *at behind it. Any other %XX stays three
 * bytes, so that
 * "%2F" never becomes a separator. */
static inline char unreserved_next(struct slice s, size_t *at)
{
    char c = s.base[*at];

    if (c == '%' && s.len - *at >= 3) {
        int high = hex_value(s.base[*at + 1]), low = hex_value(s.base[*at + 2]);

        if (high >= 0 && low >= 0 && is_unreserved((char)(high * 16 + low))) {
            *at += 3;
            return (char)(high * 16 + low);
        }
    }
    *at += 1;
    return c;
}

/* The byte at s[*at]; moves *at behind it. A %XX of any byte is that byte; a bad escape stays as it is, and so does
 * '+', which is a blank only by a convention of forms. */
static inline char decoded_next(struct slice s, size_t *at)
{
    char c = s.base[*at];

    if (c == '%' && s.len - *at >= 3) {
        int high = hex_value(s.base[*at + 1]), low = hex_value(s.base[*at + 2]);

        if (high >= 0 && low >= 0) {
            *at += 3;
            return (char)(high * 16 + low);
        }
    }
    *at += 1;
    return c;
}

/* Digits alone, nothing else: no sign, no blank. Returns -1 where it is not that, or is above INT64_MAX. */
static inline int64_t digits_value(struct slice s)
{
    int64_t value = 0;

    if (s.len == 0)
        return -1;
    for (size_t i = 0; i < s.len; i++) {
        int digit = s.base[i] - '0';

        if (!is_digit(s.base[i]) || value > (INT64_MAX - digit) / 10)
            return -1;
        value = value * 10 + digit;
    }
    return value;
}

/* Takes the next element off a comma-separated list (trimmed; may be empty); false at its end. No quoted
 * strings: for lists of tokens. */
static inline bool list_next(struct slice *rest, struct slice *element_out)
{
    const char *comma;

    if (rest->base == NULL)
        return false;
    comma = rest->len == 0 ? NULL : memchr(rest->base, ',', rest->len);
    if (comma == NULL) {
        *element_out = slice_trim(*rest);
        *rest = (struct slice){NULL, 0};
    } else {
        *element_out = slice_trim(slice_of(rest->base, (size_t)(comma - rest->base)));
        *rest = slice_of(comma + 1, rest->len - (size_t)(comma - rest->base) - 1);
    }
    return true;
}

#endif
