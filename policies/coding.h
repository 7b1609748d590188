/* Coding: in which form does a client get an answer that is kept compressed, and with which head?
 *
 * What we compress ourselves we keep once, as gzip, and make the plain body from it again for whoever wants that: the
 * very bytes that the upstream sent, so that its ETag and digests stay true of them. The gzip form has that ETag as a weak
 * one, and no digests: what of it another node makes need not be the same bytes, so no part of it may be joined to a part
 * of another answer (RFC 9110 sections 8.8.1 and 8.8.3.3), while If-None-Match, which compares weakly, works for both.
 */
#ifndef WEIR_CODING_H
#define WEIR_CODING_H

#include "slice.h"

enum { CODING_LEAST_BYTES = 512 }; /* a smaller body is not worth it: it is one packet either way */

/* May a body of such an answer be compressed: its media type is one of `types` (lower case, "text/css" or "text/" for
 * all of a kind), it is not coded already, and nothing forbids it (no-transform)? */
bool coding_may_compress(const struct header *response, size_t count, const struct slice *types,
                         size_t type_count);

/* Does the answer say that it is to be left as it is? Said to whomever, it is said to us. */
bool coding_is_forbidden(const struct header *response, size_t count);

/* What a request's Accept-Encoding makes of the two forms (RFC 9110 section 12.5.3). Gzip is never given to who does not
 * name it, by name or with "*"; of two that are wanted alike it is preferred. A request with no-transform wants what
 * the upstream sent. */
enum coding_wish { CODING_PLAIN, CODING_GZIP, CODING_GZIP_ONLY /* plain is refused */ };
enum coding_wish coding_wish_of(const struct header *request, size_t count);

/* The head of the one form or the other: `out` has room for count + 2 fields, `room` for coding_text_bytes(). Both vary
 * on Accept-Encoding. */
size_t coding_text_bytes(const struct header *stored, size_t count);
size_t coding_write_head(const struct header *stored, size_t count, bool is_gzip, struct header *out,
                         char *room);

#endif
