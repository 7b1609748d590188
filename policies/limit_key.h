/* Limit key: what of a request says whose budget it takes from? The value that is hashed, after its kind,
 * into a principal.
 *
 * One value has one text, however a client spells it: names of fields without case, %XX decoded, a host
 * without its port, an address by its prefix. A name that stands several times must say the same each time,
 * empty ones left out; a part that is empty is absent, and a key lacks if one of its parts does. In a list
 * each part is LENGTH ':' BYTES, so that no value can be made to look like the border of two.
 */
#ifndef WEIR_LIMIT_KEY_H
#define WEIR_LIMIT_KEY_H

#include "identity.h"
#include "route_match.h"

enum limit_key_kind {
    LIMIT_KEY_HEADER,
    LIMIT_KEY_QUERY,
    LIMIT_KEY_COOKIE,
    LIMIT_KEY_PATH,
    LIMIT_KEY_IP,
    LIMIT_KEY_HOST,
    LIMIT_KEY_ROUTE,
    LIMIT_KEY_GLOBAL,
};

enum { LIMIT_KEY_MAX_PARTS = 8 };

struct limit_key_part {
    enum limit_key_kind kind;
    struct slice name; /* of a header (in lower case), a parameter, a cookie, a variable; else empty */
};

struct limit_key {
    struct limit_key_part parts[LIMIT_KEY_MAX_PARTS];
    size_t part_count; /* at least 1 */
    struct slice kind; /* as configured: "header:x-api-key", "ip"; a list's parts are joined by commas */
};

struct limit_key_facts { /* of one request */
    const struct header *headers;
    size_t header_count;
    struct slice query, authority;
    const struct route_values *values;
    struct slice route_host, route_match; /* the host is empty where the route takes any */
    const struct address *address;
};

#define LIMIT_KEY_ABSENT SIZE_MAX
#define LIMIT_KEY_AMBIGUOUS (SIZE_MAX - 1)

/* Writes the value to out[room] if it fits; returns its full length either way, or LIMIT_KEY_ABSENT where a
 * part is missing, or LIMIT_KEY_AMBIGUOUS where one has two values. `global` has an empty value. IPv6 counts by its first `ipv6_prefix` bits. */
size_t limit_key_write(const struct limit_key *key, const struct limit_key_facts *facts, int ipv6_prefix,
                       char *out, size_t room);

/* The same from the values themselves, as somebody tells them who has no request at hand: one for each part that has any (`global` has
 * none), in the order of the parts, decoded. LIMIT_KEY_ABSENT where they are more or fewer, or one cannot be of its part. */
size_t limit_key_write_values(const struct limit_key *key, const struct slice *values, size_t count,
                              int ipv6_prefix, char *out, size_t room);

#endif
