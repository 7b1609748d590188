/* Cache groups: see cache_groups.h. */
#include "cache_groups.h"

#include "structured_fields.h"

size_t cache_groups_read(const struct header *headers, size_t count, struct slice field, struct slice *out,
                         size_t room)
{
    struct sf_reader reader;
    enum sf_event event;
    size_t named = 0;

    sf_read_field(&reader, SF_KIND_LIST, headers, count, field);
    while ((event = sf_next(&reader)) != SF_END) {
        if (event == SF_PARAMETER)
            continue;
        if (event != SF_ITEM || reader.value.type != SF_STRING)
            return 0;
        if (named < room)
            out[named] = reader.value.text;
        named++;
    }
    return named;
}
