/* Cache groups: which groups does a field of RFC 9875 name?
 *
 * Cache-Groups says to which groups a response belongs, Cache-Group-Invalidation which ones an unsafe request has
 * changed. Both are lists of strings; a field that is malformed, or has a member that is no string, names none.
 * Parameters say nothing. A group means something within its origin alone, and names are compared byte for byte.
 */
#ifndef WEIR_CACHE_GROUPS_H
#define WEIR_CACHE_GROUPS_H

#include "slice.h"

/* Returns how many groups the field names, and writes as many as there is room for, each as written between its
 * quotes: escapes have one spelling, so that equal strings are equal bytes. */
size_t cache_groups_read(const struct header *headers, size_t count, struct slice field, struct slice *out,
                         size_t room);

#endif
