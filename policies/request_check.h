/* Request check: does this request head mean one thing only, to us and to whoever reads it behind us?
 *
 * It is run on the raw head that a lenient parser has already accepted, and refuses what that parser may have
 * read in another way than the upstream will: conflicting or repeated framing fields, bare LF, folded lines,
 * several or no Host, targets that are not plain paths. RFC 9112 sections 3, 5, 6 and 11.2. Field names may
 * have been lowered in place; nothing else may have changed. After any refusal the connection must be closed:
 * where the next request begins is not known.
 */
#ifndef WEIR_REQUEST_CHECK_H
#define WEIR_REQUEST_CHECK_H

#include "slice.h"

#include <stdint.h>

enum {
    REQUEST_MAX_TARGET_BYTES = 8 * 1024,
    REQUEST_MAX_METHOD_BYTES = 32,
    REQUEST_MAX_AUTHORITY_BYTES = 255 + 8
};

enum request_flaw {
    REQUEST_SOUND,
    REQUEST_LINE_BAD,       /* not METHOD SP TARGET SP HTTP/1.x CRLF */
    REQUEST_LINE_FEED_BARE, /* LF without CR, or CR without LF */
    REQUEST_CUT_SHORT,      /* no empty line ends it */
    REQUEST_METHOD_BAD,     /* not a token */
    REQUEST_METHOD_UNKNOWN, /* CONNECT, TRACE, lower-case letters, too long: 501 */
    REQUEST_VERSION_BAD,    /* neither HTTP/1.1 nor HTTP/1.0: 505 */
    REQUEST_TARGET_BAD,     /* neither /path nor http://authority/path of our scheme; *, #, \, 8-bit, control
                               bytes */
    REQUEST_TARGET_ESCAPE_BAD, /* % without two hexadecimal digits, or %00 */
    REQUEST_TARGET_DOTS, /* a segment . or .., escaped or not: it would match one route and reach another */
    REQUEST_TARGET_LONG, /* 414 */
    REQUEST_FIELD_BAD,   /* no colon, a name that is no token, a blank before the colon, a control byte in the
                            value */
    REQUEST_FIELD_FOLDED,
    REQUEST_FIELD_LOOKALIKE, /* content_length and the like: some upstreams read _ as - */
    REQUEST_FIELDS_MANY,     /* 431 */
    REQUEST_HEAD_LONG,       /* 431 */
    REQUEST_HOST_MISSING,
    REQUEST_HOST_REPEATED,
    REQUEST_HOST_BAD,
    REQUEST_LENGTH_BAD,      /* not digits alone, or above INT64_MAX */
    REQUEST_LENGTH_REPEATED, /* even where equal */
    REQUEST_CODING_BAD,      /* Transfer-Encoding other than exactly chunked */
    REQUEST_CODING_REPEATED,
    REQUEST_CODING_AND_LENGTH,
    REQUEST_CODING_IN_HTTP10,
};

int request_flaw_status(enum request_flaw flaw); /* 400, 414, 431, 501, 505; 200 for REQUEST_SOUND */
const char *
request_flaw_text(enum request_flaw flaw); /* one clause for the client and the log, without client bytes */

struct request_bounds {
    size_t max_head_bytes, max_headers, max_target_bytes;
};

struct request_facts { /* of a sound request; slices point into the raw bytes, save a target "/" that the
                          absolute form left out */
    struct slice method;
    struct slice target; /* starts with '/', may hold '?' */
    struct slice
        authority; /* of the absolute form or Host, as received; empty only for HTTP/1.0 without Host */
    bool is_http10;
    bool is_chunked;
    int64_t content_length; /* -1: none */
    struct slice
        upgrade; /* the one Upgrade field that Connection names too; base NULL: none, or one that does not count
                               (RFC 9110 section 7.8): of HTTP/1.0, or with a body, behind which alone the change could begin */
    size_t header_count;
    size_t head_bytes; /* up to and with the empty line */
};

/* `raw` begins at the request's first byte (one CRLF before it is skipped) and may hold more than the head.
 */
enum request_flaw request_check(struct slice raw, bool is_tls, const struct request_bounds *bounds,
                                struct request_facts *facts_out);

/* The same rules for a front that has its request in pieces, such as HTTP/2. */
enum request_flaw request_check_method(struct slice method);
enum request_flaw request_check_target(struct slice target, size_t max_bytes); /* origin form only */
bool authority_is_valid(struct slice authority); /* host[:port]; name, IPv4 or [IPv6]; no user */

/* A valid authority in one spelling: lower case, without an empty or the scheme's default port, and without the
 * dot that ends an absolute name. Needs room for authority.len bytes; returns the length. `out` may be the authority's own bytes. */
size_t authority_write(struct slice authority, bool is_tls, char *out);

#endif
