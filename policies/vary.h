/* Vary: on which request fields does a response depend (RFC 9111 section 4.1)? All its lines are one list. */
#ifndef WEIR_VARY_H
#define WEIR_VARY_H

#include "slice.h"

/* True where Vary names no field but `name` (also where it names none at all). "*" is every field, so false.
 */
bool vary_names_only(const struct header *headers, size_t count, struct slice name);

#endif
