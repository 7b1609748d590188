/* Settings reach: is there a request that only the later of two routes would take?
 *
 * The first match wins, so a route whose every request fits an earlier one is dead text, and nearly always a
 * mistake of order. Answers "covered" only where it is certain: a segment that may be spelled in two ways
 * (%61 and a) is taken as different.
 */
#include "settings_sections.h"

#include <string.h>

static bool method_is_covered(const struct route_pattern *earlier, struct slice method)
{
    bool is_head = slice_eq(method, SLICE("HEAD"));

    for (size_t i = 0; i < earlier->method_count; i++)
        if (slice_eq(earlier->methods[i], method) || (is_head && slice_eq(earlier->methods[i], SLICE("GET"))))
            return true;
    return earlier->method_count == 0;
}

static bool methods_are_covered(const struct route_pattern *earlier, const struct route_pattern *later)
{
    if (later->method_count == 0)
        return earlier->method_count == 0;
    for (size_t i = 0; i < later->method_count; i++)
        if (!method_is_covered(earlier, later->methods[i]))
            return false;
    return true;
}

static bool host_is_covered(const char *earlier, const char *later)
{
    size_t tail, len;

    if (earlier == NULL)
        return true;
    if (later == NULL)
        return false;
    if (strcmp(earlier, later) == 0)
        return true;
    if (strncmp(earlier, "*.", 2) != 0)
        return false;
    tail = strlen(earlier + 1); /* with its dot: *.example.com takes a.example.com and *.a.example.com */
    len = strlen(later);
    return len > tail && strcmp(later + len - tail, earlier + 1) == 0;
}

static bool segment_is_covered(const struct route_segment *earlier, const struct route_segment *later)
{
    switch (earlier->kind) {
    case SEGMENT_LITERAL: return later->kind == SEGMENT_LITERAL && slice_eq(earlier->text, later->text);
    case SEGMENT_VARIABLE: /* as * */
    case SEGMENT_ANY:      /* not the empty segment behind a last slash */
        return later->kind != SEGMENT_REST && !(later->kind == SEGMENT_LITERAL && later->text.len == 0);
    case SEGMENT_REST: return true;
    }
    return false;
}

static bool path_is_covered(const struct route_pattern *earlier, const struct route_pattern *later)
{
    for (size_t i = 0; i < earlier->segment_count; i++) {
        if (earlier->segments[i].kind == SEGMENT_REST)
            return true;
        if (i == later->segment_count || !segment_is_covered(&earlier->segments[i], &later->segments[i]))
            return false;
    }
    return later->segment_count == earlier->segment_count;
}

bool route_covers(const struct route_rule *earlier, const struct route_rule *later)
{
    return methods_are_covered(earlier->pattern, later->pattern) &&
           host_is_covered(earlier->host, later->host) && path_is_covered(earlier->pattern, later->pattern);
}
