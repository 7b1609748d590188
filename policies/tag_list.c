/* Tag list: see tag_list.h. */
#include "tag_list.h"

static bool separates(char c)
{
    return c == ' ' || c == '\t' || c == ',';
}

bool tag_list_next(struct slice *rest, struct slice *tag_out)
{
    size_t from = 0, to;

    while (from < rest->len && separates(rest->base[from]))
        from++;
    to = from;
    while (to < rest->len && !separates(rest->base[to]))
        to++;
    *tag_out = slice_of(rest->base + from, to - from);
    *rest = slice_of(rest->base + to, rest->len - to);
    return tag_out->len > 0;
}
