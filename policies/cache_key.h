/* Cache key: when are two requests for the same thing? The text that is hashed to name an entry.
 *
 * Different parts never make the same text: each is preceded by its length, and what is of its own kind by a letter.
 * Path and query count byte for byte, except that %XX of an unreserved byte in the path is that byte (RFC 3986 section
 * 6.2.2.2). "/a" and "/a?" are two things.
 *
 * A rule may let fewer of the query's parameters count: `only` those it names, or all `except` those. A name is compared
 * as it is once decoded; what counts then does so byte for byte, in the order of the names, and where a name stands
 * several times in the order of the request. Empty parameters ("&&") say nothing. The rule itself is part of the key, so
 * that one which has changed finds nothing that was stored by another.
 *
 * A rule may let fields and cookies of the request count, too: absent and empty are two things, and the lines of a field
 * are one list.
 */
#ifndef WEIR_CACHE_KEY_H
#define WEIR_CACHE_KEY_H

#include "slice.h"

#include <stdint.h>

enum key_query { KEY_QUERY_ALL, KEY_QUERY_NONE, KEY_QUERY_ONLY, KEY_QUERY_EXCEPT };

enum { KEY_PARAMETERS_MAX = 256 }; /* of a request that can be told apart by their names */

struct key_names { /* sorted, each once */
    const struct slice *each;
    size_t count;
};

struct key_rule {
    enum key_query query;
    struct key_names parameters; /* with ONLY and EXCEPT */
    struct key_names headers;    /* lower case */
    struct key_names cookies;
};

struct cache_key_parts {
    struct slice method; /* GET and HEAD are one class, every other method its own */
    bool is_tls;
    struct slice authority; /* normalised: lower case, without default port and trailing dot */
    struct slice target;    /* "/path?query" as received */
    const struct key_rule *rule;
    /* What a trusted proxy before us says of the client's side, and the upstream is told: empty where it says
     * nothing. A page for https is not one for http, and links are made from the host. */
    struct slice told_scheme, told_host;
    const struct header *headers; /* of the request, for a rule that names some or cookies */
    size_t header_count;
};

#define CACHE_KEY_NONE SIZE_MAX

/* Writes the text to out[room] if it fits; returns its full length either way, or CACHE_KEY_NONE where more than
 * KEY_PARAMETERS_MAX parameters would have to be put in order. */
size_t cache_key_write(const struct cache_key_parts *parts, char *out, size_t room);

#endif
