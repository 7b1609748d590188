/* Hop headers: which fields end at this hop, and what do we add about the hop ourselves? RFC 9110
 * sections 7.6.1 and 7.6.3.
 *
 * Strip a request's fields once, before anything looks at them: what limits and cache keys are made from is
 * then exactly what the upstream gets. (A client that names Accept-Language in Connection could else have the
 * upstream's default answer stored as another language's.)
 */
#ifndef WEIR_HOP_HEADERS_H
#define WEIR_HOP_HEADERS_H

#include "slice.h"

enum { HOP_MAX_OPTIONS = 64 };

/* Fields that never pass, whatever Connection says: connection, keep-alive, proxy-connection, te, trailer,
 * transfer-encoding, upgrade, http2-settings; and credentials and challenges between a client and its proxy,
 * which we are not. */
bool hop_header_is_fixed(struct slice name);

/* Removes these and the ones that any Connection field names, keeping the order of the rest; *count becomes
 * smaller. Fields whose loss would loosen what a cache may do (Cache-Control, Vary, Set-Cookie, ...) stay,
 * named or not. False, with nothing changed, where Connection names more than HOP_MAX_OPTIONS: refuse the
 * message. Names are lower case. */
bool hop_headers_strip(struct header *headers, size_t *count);

/* What the upstream is told about the client's side of us. */
struct forwarded_facts {
    struct slice peer_text; /* address of the connection's other end */
    struct slice authority; /* as the client named us */
    bool is_tls;
    bool is_http10;        /* the client's request, for Via */
    bool peer_is_trusted;  /* then what it said before us is kept; else X-Forwarded-* start anew here */
    struct slice via_name; /* our name in Via */
};

struct forwarded {
    struct slice x_forwarded_for, x_forwarded_proto, x_forwarded_host, via;
};

/* From the request's own fields of these names (which the caller leaves out when it forwards the others; see
 * below): addresses and Via are appended to, a trusted peer's Proto and Host are kept. Returns the bytes
 * needed; *out is set, pointing into `room`, only where they fit. Both Via and X-Forwarded-For join several
 * fields of one name to one. */
size_t forwarded_write(const struct forwarded_facts *facts, const struct header *headers, size_t count,
                       char *room, size_t room_bytes, struct forwarded *out);
/* X-Forwarded-Proto and -Host as a trusted peer said them, else empty: what `out` holds beside our own word. */
struct slice forwarded_told(const struct header *headers, size_t count, struct slice name,
                            bool peer_is_trusted);
/* Whether this is a field by which proxies tell an upstream who the client is or what it asked for
 * (X-Forwarded-*, Forwarded, X-Real-IP, X-Original-URL, ...). An upstream that believes one answers another
 * question than the one that routes, limits and cache keys are made from. */
bool is_proxys_word(struct slice name);
/* Whether the request's own field of this name must be left out beside these: the four, and of an untrusted
 * peer every other proxy's word too. */
bool forwarded_replaces(struct slice name, bool peer_is_trusted);

/* The answer's Via: what the upstream's said, and us. Same return. */
size_t via_write(const struct header *headers, size_t count, bool is_http10, struct slice via_name,
                 char *room, size_t room_bytes);

#endif
