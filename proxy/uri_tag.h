/* Uri tag: the tag that every stored answer carries for the URI it answers, so that what changes or purges a resource
 * ends what is stored of it, with all its variants.
 *
 * "uri:" and 128 bits of SHA-256 over host, path and query; the scheme does not count. Answers whose key leaves the
 * query out, or parts of it, have the tag of the path alone.
 */
#ifndef WEIR_URI_TAG_H
#define WEIR_URI_TAG_H

#include "slice.h"

enum { URI_TAG_BYTES = 4 + 32, URI_TAGS_OF_URL = 2 };

/* `authority` in its one spelling, `target` as it came. False: too long to be stored at all. */
bool uri_tag_write(struct slice authority, struct slice target, bool ignores_query, char out[URI_TAG_BYTES]);

/* The tags of all that may be stored of an absolute http or https URL, whatever routes make of its query. NULL, or
 * what is wrong with the URL, in words. */
const char *uri_tags_of_url(struct slice url, char out[URI_TAGS_OF_URL][URI_TAG_BYTES]);

#endif
