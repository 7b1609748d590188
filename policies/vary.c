/* Vary: see vary.h. */
#include "vary.h"
#include "http_char.h"

static bool line_names_only(struct slice line, struct slice name)
{
    struct slice field;

    while (list_next(&line, &field))
        if (field.len > 0 && !slice_eq_nocase(field, name))
            return false;
    return true;
}

bool vary_names_only(const struct header *headers, size_t count, struct slice name)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq(headers[i].name, SLICE("vary")) && !line_names_only(headers[i].value, name))
            return false;
    return true;
}
