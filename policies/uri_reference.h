/* URI reference: which target on the same host does a Location or Content-Location name (RFC 3986 section 5)?
 */
#ifndef WEIR_URI_REFERENCE_H
#define WEIR_URI_REFERENCE_H

#include "slice.h"

/* Resolves `reference` against http://authority + target (origin form). Writes the target it names, without a
 * fragment and without dot segments, to out[room], which must have reference.len + target.len + 1 at least.
 * False: it names another host, is no http reference, or has bytes that no target has. `authority` is lower
 * case, without a default port. */
bool uri_reference_resolve(struct slice reference, struct slice authority, struct slice target, char *out,
                           size_t room, size_t *len_out);

#endif
