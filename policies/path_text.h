/* Path text: one spelling for paths that are the same: %XX of an unreserved byte is that byte (RFC 3986
 * section 6.2.2.2). */
#ifndef WEIR_PATH_TEXT_H
#define WEIR_PATH_TEXT_H

#include "slice.h"

/* Writes the folded path to `out`, which has the room of path.len, and returns its length. Bad escapes stay
 * as they are. */
size_t path_fold(struct slice path, char *out);

#endif
