/* Path parts: what stands between the slashes of a path, decoded. */
#ifndef WEIR_PATH_PARTS_H
#define WEIR_PATH_PARTS_H

#include "slice.h"

#include <stdint.h>

#define PATH_PARTS_MANY SIZE_MAX      /* more than there are places for */
#define PATH_PARTS_BAD (SIZE_MAX - 1) /* a % without two hexadecimal digits */

/* "a/b%2Fc" is "a" and "b/c"; a slash at the end adds nothing. The bytes are written to room[path.len], to which the parts point;
 * one without bytes may be among them. Returns how many there are. */
size_t path_parts(struct slice path, char *room, struct slice *parts, size_t most);

#endif
