/* Json scan: is there anything in this text that two readers of JSON could take for two things, or that costs
 * more to read than its size tells?
 *
 * It goes before a parser, which decides whether the text is JSON at all, and is stricter than most of them:
 * no single quotes, comments, NaN, raw control characters, NUL bytes, nor names that hold a NUL. It counts
 * the members that are written. A parser keeps one of each name, so where it has fewer, one was written
 * twice, and the upstream might read another of them.
 */
#ifndef WEIR_JSON_SCAN_H
#define WEIR_JSON_SCAN_H

#include "slice.h"

enum { JSON_MAX_DEPTH = 32, JSON_MAX_CONTAINERS = 16384 /* a parser takes near to a kilobyte for each */ };

/* False: do not give it to a parser. */
bool json_scan(struct slice text, size_t *members_out);

#endif
