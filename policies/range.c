/* Range: see range.h. */
#include "range.h"

#include "http_char.h"

/* What one element asks for, cut to the length. */
enum element { ELEMENT_NONE /* no range by the grammar */, ELEMENT_OUTSIDE, ELEMENT_INSIDE };

static enum element read_element(struct slice element, int64_t length, struct byte_range *out)
{
    const char *dash = element.len == 0 ? NULL : memchr(element.base, '-', element.len);
    struct slice first, last;
    int64_t from = 0, to = INT64_MAX;

    if (dash == NULL)
        return ELEMENT_NONE;
    first = slice_of(element.base, (size_t)(dash - element.base));
    last = slice_of(dash + 1, element.len - first.len - 1);
    if (last.len > 0 && !text_parse_digits(last, INT64_MAX, &to))
        return ELEMENT_NONE;
    if (first.len == 0) { /* the last so many */
        if (last.len == 0)
            return ELEMENT_NONE;
        if (to == 0 || length == 0)
            return ELEMENT_OUTSIDE;
        *out = (struct byte_range){to >= length ? 0 : length - to, length - 1};
        return ELEMENT_INSIDE;
    }
    if (!text_parse_digits(first, INT64_MAX, &from) || to < from)
        return ELEMENT_NONE;
    if (from >= length)
        return ELEMENT_OUTSIDE;
    *out = (struct byte_range){from, to >= length ? length - 1 : to};
    return ELEMENT_INSIDE;
}

/* In the order of their first bytes. */
static void insert(struct byte_range *parts, size_t count, struct byte_range part)
{
    size_t at = count;

    for (; at > 0 && parts[at - 1].first > part.first; at--)
        parts[at] = parts[at - 1];
    parts[at] = part;
}

/* What overlaps or touches becomes one; returns how many are left. */
static size_t join(struct byte_range *parts, size_t count)
{
    size_t made = 0;

    for (size_t i = 1; i < count; i++) {
        if (parts[i].first > parts[made].last + 1)
            parts[++made] = parts[i];
        else if (parts[i].last > parts[made].last)
            parts[made].last = parts[i].last;
    }
    return made + 1;
}

enum range_answer range_read_parts(struct slice value, int64_t length,
                                   struct byte_range parts[RANGE_MAX_PARTS], size_t *count_out)
{
    struct byte_range part;
    struct slice rest, element;
    size_t count = 0;
    bool has_any = false, is_ascending = true;

    *count_out = 0;
    if (value.len < 6 || !slice_eq_nocase(slice_of(value.base, 6), SLICE("bytes=")))
        return RANGE_WHOLE;
    rest = slice_of(value.base + 6, value.len - 6);
    while (list_next(&rest, &element)) {
        if (element.len == 0)
            continue;
        has_any = true;
        switch (read_element(element, length, &part)) {
        case ELEMENT_NONE: return RANGE_WHOLE;
        case ELEMENT_OUTSIDE: continue;
        case ELEMENT_INSIDE: break;
        }
        if (count == RANGE_MAX_PARTS)
            return RANGE_WHOLE;
        is_ascending = is_ascending && (count == 0 || part.first > parts[count - 1].first);
        insert(parts, count++, part);
    }
    if (!has_any)
        return RANGE_WHOLE;
    if (count == 0)
        return RANGE_UNSATISFIABLE;
    *count_out = join(parts, count);
    if (*count_out == 1)
        return RANGE_PART;
    return is_ascending ? RANGE_PARTS : RANGE_WHOLE;
}

enum range_answer range_read(struct slice value, int64_t length, struct byte_range *out)
{
    struct byte_range parts[RANGE_MAX_PARTS];
    size_t count;
    enum range_answer answer = range_read_parts(value, length, parts, &count);

    if (answer == RANGE_PART)
        *out = parts[0];
    return answer == RANGE_PARTS ? RANGE_WHOLE : answer;
}

/* "A-B", either end left out: -1. False: none by the grammar. */
static bool read_ends(struct slice element, int64_t *first_out, int64_t *last_out)
{
    const char *dash = element.len == 0 ? NULL : memchr(element.base, '-', element.len);
    struct slice first, last;

    *first_out = *last_out = -1;
    if (dash == NULL)
        return false;
    first = slice_of(element.base, (size_t)(dash - element.base));
    last = slice_of(dash + 1, element.len - first.len - 1);
    if ((first.len > 0 && !text_parse_digits(first, INT64_MAX, first_out)) ||
        (last.len > 0 && !text_parse_digits(last, INT64_MAX, last_out)))
        return false;
    return first.len + last.len > 0;
}

bool range_is_part(struct slice value, struct text *out)
{
    struct slice rest, element, only = SLICE("");
    int64_t first, last;

    if (value.len < 6 || !slice_eq_nocase(slice_of(value.base, 6), SLICE("bytes=")))
        return false;
    rest = slice_of(value.base + 6, value.len - 6);
    while (list_next(&rest, &element)) {
        if (element.len > 0 && only.len > 0)
            return false;
        if (element.len > 0)
            only = element;
    }
    if (!read_ends(only, &first, &last) || (first >= 0 && last >= 0 && last < first) ||
        (first == 0 && last < 0))
        return false;
    text_add(out, SLICE("bytes="));
    if (first >= 0)
        text_add_int(out, first);
    text_add_char(out, '-');
    if (last >= 0)
        text_add_int(out, last);
    return true;
}

bool content_range_read(struct slice value, struct byte_range *range, int64_t *whole)
{
    const char *slash;
    struct slice total;

    if (value.len < 6 || !slice_eq_nocase(slice_of(value.base, 6), SLICE("bytes ")))
        return false;
    value = slice_of(value.base + 6, value.len - 6);
    slash = value.len == 0 ? NULL : memchr(value.base, '/', value.len);
    if (slash == NULL ||
        !read_ends(slice_of(value.base, (size_t)(slash - value.base)), &range->first, &range->last) ||
        range->first < 0 || range->last < range->first)
        return false;
    total = slice_of(slash + 1, value.len - (size_t)(slash - value.base) - 1);
    *whole = -1;
    if (slice_eq(total, SLICE("*")))
        return true;
    return text_parse_digits(total, INT64_MAX, whole) && range->last < *whole;
}

void content_range_write(const struct byte_range *range, int64_t length, struct text *out)
{
    text_add(out, SLICE("bytes "));
    if (range == NULL) {
        text_add_char(out, '*');
    } else {
        text_add_int(out, range->first);
        text_add_char(out, '-');
        text_add_int(out, range->last);
    }
    text_add_char(out, '/');
    text_add_int(out, length);
}
