/* Structured fields: what does a field say that is written in the grammar of RFC 9651?
 *
 * A reader takes the lines of one field and tells, one event after another, what stands there. Nothing is
 * allocated and nothing copied: keys and texts point into the lines. A mistake anywhere makes the whole field
 * worthless (section 4.2), and may be the last byte of it: **nothing that was read counts before SF_END**. Whoever
 * acts on the way reads twice: sf_is_sound() first.
 *
 * Lines are joined as if by ", " between them. What stands in quotes or parentheses must end on its line: that is
 * stricter than the grammar asks, and permitted (section 4.2).
 *
 * Of a key that comes twice in a dictionary, or among parameters, the last one counts; keeping only that one is
 * the caller's.
 */
#ifndef WEIR_STRUCTURED_FIELDS_H
#define WEIR_STRUCTURED_FIELDS_H

#include "slice.h"

#include <stdint.h>

enum sf_kind { SF_KIND_LIST, SF_KIND_DICTIONARY, SF_KIND_ITEM };

enum sf_type {
    SF_INTEGER,
    SF_DECIMAL,
    SF_STRING,
    SF_TOKEN,
    SF_BYTES,
    SF_BOOLEAN,
    SF_DATE,
    SF_DISPLAY_STRING,
};

/* A bare item. */
struct sf_value {
    enum sf_type type;
    /* INTEGER: itself. DECIMAL: thousandths. BOOLEAN: 0 or 1. DATE: seconds since 1970. */
    int64_t number;
    /* TOKEN: itself. STRING, BYTES, DISPLAY_STRING: as written, between the delimiters; see sf_text_write(). */
    struct slice text;
};

enum sf_event {
    SF_ITEM,           /* a member, or an item of the inner list that is open: `value` */
    SF_INNER_LIST,     /* a member that is a list of items, up to SF_INNER_LIST_END */
    SF_INNER_LIST_END, /* the parameters that follow are the inner list's */
    SF_PARAMETER,      /* of what came last: `key`, `value` */
    SF_END,            /* all of it was sound */
    SF_MALFORMED,      /* none of it counts; the reader stays here */
};

struct sf_reader {
    /* with SF_ITEM and SF_INNER_LIST of a dictionary the member's key, with SF_PARAMETER the parameter's */
    struct slice key;
    struct sf_value value;

    /* the reader's own */
    enum sf_kind kind;
    const struct header *lines;
    size_t line_count;
    struct slice name; /* base NULL: the one line in `rest` */
    struct slice rest;
    int place; /* enum place of the .c file */
};

/* The field `name` (lower case) among the headers: all its lines. Without one, or with empty ones alone, a list
 * and a dictionary are empty and an item is malformed. */
void sf_read_field(struct sf_reader *reader, enum sf_kind kind, const struct header *headers, size_t count,
                   struct slice name);
/* A single line. */
void sf_read_line(struct sf_reader *reader, enum sf_kind kind, struct slice line);

enum sf_event sf_next(struct sf_reader *reader);

/* Is the field well-formed to its end? The reader is a copy: what it has read or not does not change. */
bool sf_is_sound(struct sf_reader reader);

/* The bytes that a text stands for: a string without its escapes, decoded bytes, UTF-8. Never longer than
 * value->text. Returns their length; writes as many as there is room for. */
size_t sf_text_write(const struct sf_value *value, char *out, size_t room);

#endif
