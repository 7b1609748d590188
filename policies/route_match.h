/* Route match: does a request fit METHOD[,METHOD] PATH, and what are the values of {x}; and templates such as "product:{id}".
 *
 * Compiled into memory the caller gives; the compiled forms point into the pattern's own text, which must stay.
 * Matching works on the raw path (before '?'), segment by segment; a segment is compared after decoding unreserved %XX only,
 * so that %2F never becomes a separator.
 */
#ifndef WEIR_ROUTE_MATCH_H
#define WEIR_ROUTE_MATCH_H

#include "slice.h"

enum {
    ROUTE_MAX_SEGMENTS = 32,
    ROUTE_MAX_METHODS = 16,
    ROUTE_MAX_VARIABLES = 16,
    TEMPLATE_MAX_PARTS = 16,
    TEMPLATE_MAX_POINTER = 128
};

enum segment_kind { SEGMENT_LITERAL, SEGMENT_VARIABLE, SEGMENT_ANY /* * */, SEGMENT_REST /* **, last */ };

struct route_segment {
    enum segment_kind kind;
    struct slice text; /* the literal, or the variable's name */
};

struct route_pattern {
    struct slice methods[ROUTE_MAX_METHODS];
    size_t method_count; /* 0: all */
    struct route_segment segments[ROUTE_MAX_SEGMENTS];
    size_t segment_count;
};

struct route_values { /* of the variables, in the order of the pattern; undecoded */
    struct slice names[ROUTE_MAX_VARIABLES], values[ROUTE_MAX_VARIABLES];
    size_t count;
};

enum template_kind {
    PART_TEXT,
    PART_VARIABLE,
    PART_HEADER,
    PART_QUERY,
    PART_JSON,  /* a JSON pointer into the upstream's answer, which no expansion knows */
    PART_GIVEN, /* what was found there, in its place */
};

struct template_part {
    enum template_kind kind;
    struct slice text;
};

struct template
{
    struct template_part parts[TEMPLATE_MAX_PARTS];
    size_t part_count;
};

/* NULL on success, else what is wrong, in words for the one who wrote it ("a variable is named twice", ...). */
const char *route_compile(struct slice text, struct route_pattern *out);
bool route_matches(const struct route_pattern *pattern, struct slice method, struct slice path,
                   struct route_values *values_out);
struct slice
authority_host(struct slice authority); /* without its port and without the dot that ends an absolute name */
/* host: NULL-base slice any; "*.example.com" any one or more labels before it; compared without case, without port. */
bool route_host_matches(struct slice pattern_host, struct slice authority);

/* Variables must be among the pattern's (`pattern` NULL: none known). Same return as route_compile. */
const char *template_compile(struct slice text, const struct route_pattern *pattern, struct template *out);
bool template_asks_answer(const struct template *template); /* has it a part that only the answer tells? */
/* Writes the expansion to out[room]; returns its full length (may be above room: nothing is cut silently by the caller), or
 * SIZE_MAX where a named header or query value is absent from the request. */
size_t template_expand(const struct template *template, const struct route_values *values,
                       const struct header *headers, size_t header_count, struct slice query, char *out,
                       size_t room);
/* The same for a tag. What clients write escaped or not as they please, and upstreams take for the same, has one spelling there:
 * user@a.test and user%40a.test, in a query also a+b and a%20b. A comma is always %2C, for lists of tags have commas. */
size_t tag_expand(const struct template *template, const struct route_values *values,
                  const struct header *headers, size_t header_count, struct slice query, char *out,
                  size_t room);

#endif
