/* Cache key: when are two requests for the same thing? The text that is hashed to name an entry.
 *
 * Different parts never make the same text: each is preceded by its length. Path and query count byte for
 * byte, except that %XX of an unreserved byte in the path is that byte (RFC 3986 section 6.2.2.2). "/a" and
 * "/a?" are two things.
 */
#ifndef WEIR_CACHE_KEY_H
#define WEIR_CACHE_KEY_H

#include "slice.h"

struct cache_key_parts {
    struct slice method; /* GET and HEAD are one class, every other method its own */
    bool is_tls;
    struct slice authority; /* normalised: lower case, default port removed */
    struct slice target;    /* "/path?query" as received */
    bool ignores_query;
    /* What a trusted proxy before us says of the client's side, and the upstream is told: empty where it says
     * nothing. A page for https is not one for http, and links are made from the host. */
    struct slice told_scheme, told_host;
};

/* Writes the text to out[room] if it fits; returns its full length either way. */
size_t cache_key_write(const struct cache_key_parts *parts, char *out, size_t room);

#endif
