/* Chunked: which bytes of the input are the body, and where does the body end? RFC 9112 section 7.1.
 *
 * Nothing is copied: pieces of the body are slices of the input. Strict: hexadecimal digits alone (no sign,
 * no 0x, no blank around them), CRLF alone, bounded extensions and trailers; these two are checked and
 * dropped.
 */
#ifndef WEIR_CHUNKED_H
#define WEIR_CHUNKED_H

#include "slice.h"

#include <stdint.h>

enum {
    CHUNKED_MAX_DIGITS = 15, /* of a size: below 2^60 */
    /* Both count over the whole body, so that a flood of tiny chunks with long extensions ends too. */
    CHUNKED_MAX_EXTENSION_BYTES = 16 * 1024,
    CHUNKED_MAX_TRAILER_BYTES = 16 * 1024,
};

enum chunked_step {
    CHUNKED_HUNGRY, /* the input is used up: come back with more; if there is no more, the body was cut off */
    CHUNKED_DATA,   /* *data_out is the next piece of the body, never empty; call again */
    CHUNKED_END,    /* the body is whole; what is left of the input does not belong to it */
    CHUNKED_BROKEN, /* not chunked coding: neither what follows nor the connection can be trusted */
};

enum chunked_state {
    CHUNK_SIZE_FIRST,
    CHUNK_SIZE,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    CHUNK_TRAILER_START,
    CHUNK_TRAILER_NAME,
    CHUNK_TRAILER_VALUE,
    CHUNK_TRAILER_LF,
    CHUNK_END_LF,
    CHUNK_OVER,
    CHUNK_FAILED,
};

struct chunked {
    enum chunked_state state;
    uint64_t left; /* of this chunk */
    size_t digits; /* of its size */
    size_t extension_bytes, trailer_bytes;
};

void chunked_init(struct chunked *body);
/* Takes what it used off the front of *input. */
enum chunked_step chunked_next(struct chunked *body, struct slice *input, struct slice *data_out);

#endif
