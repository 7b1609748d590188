/* Http1 head: is this the head of an HTTP/1 response, how long is the body behind it, and may its connection
 * be used again?
 *
 * RFC 9112 sections 2 to 6, read strictly: what two parsers could read in two ways is bad, since an upstream
 * whose answers are read differently by us and by it can give one client's answer to another. Bare LF,
 * obs-fold, blanks before the colon, bytes outside a field's grammar, Transfer-Encoding beside
 * Content-Length, repeated Content-Length: all bad.
 */
#ifndef WEIR_HTTP1_HEAD_H
#define WEIR_HTTP1_HEAD_H

#include "slice.h"

#include <stdint.h>

enum { HTTP1_MAX_HEADERS = 100, HTTP1_MAX_HEAD_BYTES = 64 * 1024 };

enum head_progress { HEAD_PARTIAL, HEAD_WHOLE, HEAD_BAD };

struct http1_head {
    /* valid after HEAD_WHOLE */
    int status; /* 100..599 */
    bool is_http10;
    struct slice reason;    /* may be empty */
    struct header *headers; /* the caller's array; names lower case, values trimmed, both point into the
                               caller's bytes */
    size_t header_count;
    size_t head_bytes; /* up to and with the empty line: the body begins behind them */
    const char *why;   /* after HEAD_BAD: what is wrong, for the log */
    /* its own */
    size_t header_room, max_bytes;
    size_t scanned; /* bytes known to hold no end of the head */
};

/* At most HTTP1_MAX_HEADERS resp. HTTP1_MAX_HEAD_BYTES are useful; any other bound the caller likes is kept
 * as well. */
void http1_head_init(struct http1_head *head, struct header *headers, size_t header_room, size_t max_bytes);

/* `bytes` are all those since the head's first, the ones of earlier calls included, wherever they live now.
 * Looks at each only once until the head is whole, then parses it and lowers the field names in place. Call
 * again with more after HEAD_PARTIAL; after another outcome only after http1_head_init(). An interim answer
 * (1xx) is a head like any other: the next begins at bytes + head_bytes. */
enum head_progress http1_head_read(struct http1_head *head, char *bytes, size_t len);

enum body_framing { BODY_NONE, BODY_LENGTH, BODY_CHUNKED, BODY_UNTIL_CLOSE, BODY_BAD };

struct http1_framing {
    enum body_framing kind;
    int64_t length;  /* what Content-Length says, -1: absent. With BODY_NONE it may be above 0 (HEAD, 304) */
    const char *why; /* with BODY_BAD */
};

/* RFC 9112 section 6.3, for an answer to a request of this method. 101 is bad: where it was
 * asked for it has no framing at all.
 */
struct http1_framing http1_framing(const struct http1_head *head, struct slice method);

/* Whether the connection may carry another request once this answer's body has been read to its end. */
bool http1_keeps_alive(const struct http1_head *head, const struct http1_framing *framing);

#endif
