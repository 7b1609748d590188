/* Text: a bounded writer, for policies that must put words and numbers together without a libc.
 *
 * `len` is the full length of what was written so far, also where that is more than `room`: what does not fit
 * is left out whole from the first byte that has no place, never beyond the room, and text_fits() then says
 * no. Nothing is NUL-terminated.
 */
#ifndef WEIR_TEXT_H
#define WEIR_TEXT_H

#include "slice.h"

#include <stdint.h>

enum { TEXT_INT_ROOM = 20 }; /* the longest int64_t, with its sign */

struct text {
    char *base;
    size_t room, len;
};

struct text text_in(char *base, size_t room);
void text_add(struct text *text, struct slice more);
void text_add_char(struct text *text, char c);
void text_add_int(struct text *text, int64_t number); /* decimal */
void text_add_digits(struct text *text, int64_t number,
                     int digits); /* not negative; with leading zeros, at least `digits` of them */
/* An sf-string of RFC 9651 section 3.3.3: in quotes, with \ before " and \. Bytes outside printable ASCII
 * become '?'. */
void text_add_quoted(struct text *text, struct slice more);
bool text_fits(const struct text *text);
struct slice text_slice(const struct text *text); /* what is in the room */

/* 1*DIGIT and nothing else. Values above `max` become `max`. */
bool text_parse_digits(struct slice digits, int64_t max, int64_t *out);

#endif
