/* Slice search: is a slice one of these, and what stands before the next mark in it? */
#ifndef WEIR_SLICE_SEARCH_H
#define WEIR_SLICE_SEARCH_H

#include "slice.h"

static inline bool slice_is_among(struct slice s, const struct slice *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq(s, list[i]))
            return true;
    return false;
}

/* `list` is an array. */
#define SLICE_AMONG(s, list) slice_is_among(s, list, sizeof(list) / sizeof((list)[0]))

/* Takes what stands before the next `mark`, or all that is left; false at the end. */
static inline bool slice_take_until(struct slice *rest, char mark, struct slice *part)
{
    const char *end;

    if (rest->len == 0)
        return false;
    end = memchr(rest->base, mark, rest->len);
    *part = slice_of(rest->base, end == NULL ? rest->len : (size_t)(end - rest->base));
    *rest = end == NULL ? slice_of(NULL, 0) : slice_of(end + 1, rest->len - part->len - 1);
    return true;
}

#endif
