/* Response control: what does a response say to this cache, and in which of its fields (RFC 9213)?
 *
 * The first of these that says something: Weir-Cache-Control and CDN-Cache-Control, which are structured fields;
 * Surrogate-Control, which is older than those; Cache-Control. One field alone counts: beside a targeted one neither
 * Cache-Control nor Expires does.
 *
 * A structured one that is malformed, empty, or gives one of the directives a value of the wrong type is as if it were
 * not there (RFC 9213 section 2.2). Parameters, and directives that we do not know, say nothing. Surrogate-Control is
 * read as leniently as Cache-Control, and a mistake in it never loosens anything.
 */
#ifndef WEIR_RESPONSE_CONTROL_H
#define WEIR_RESPONSE_CONTROL_H

#include "cache_control.h"

void response_control_parse(const struct header *headers, size_t count, struct cache_control *out);

/* Is the response field `name` one that private="..." or no-cache="..." names, in the field that counts: for the
 * one who asked alone, and in no stored copy (RFC 9111 sections 5.2.2.4 and 5.2.2.7)? */
bool response_control_withholds(const struct header *headers, size_t count, struct slice name);

#endif
