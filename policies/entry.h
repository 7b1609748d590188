/* Entry: the binary form in which a stored response travels to the shared store and back.
 *
 * A head (encoded here) and then the body's bytes as they are, so that a body in pieces is written without
 * being copied together: send the head, then the pieces. All numbers are little-endian:
 *
 *      0  4  magic "wEnt"       then for each header: name u16, value u32, their bytes
 *      4  2  version            then for each tag: u16, its bytes
 *      6  2  status             then for each piece of body: bytes u32, checksum u64
 *      8  4  bytes of head      then the checksum of all of the head before it, u64
 *     12  2  headers
 *     14  2  tags
 *     16  8  epoch
 *     24  8  bytes of body
 *     32  4  pieces of body
 *     36  4  0, or of how many bytes the body is our gzip
 *
 * The checksum is against damage; what it cannot exclude (bytes that somebody else wrote) must still be
 * harmless, so the decoder checks every length, and that names and values could be sent to a client as they
 * are.
 */
#ifndef WEIR_ENTRY_H
#define WEIR_ENTRY_H

#include "slice.h"

#include <stdint.h>

enum {
    ENTRY_VERSION = 1,
    ENTRY_MAX_HEADERS = 128,
    ENTRY_MAX_TAGS = 64,
    ENTRY_MAX_PIECES = 65535,
    ENTRY_MAX_HEAD_BYTES = 4 << 20,
};

typedef uint64_t entry_checksum(const void *bytes, size_t len);

struct entry {
    int status;
    int64_t epoch; /* >= 0 */
    const struct header *headers;
    size_t header_count;
    const struct slice *tags;
    size_t tag_count;
    const struct slice *body; /* its pieces; empty ones are fine */
    size_t body_count;
    uint32_t plain_bytes; /* 0: the body is as the upstream sent it; else of how many bytes it is the gzip */
};

struct entry_view { /* everything points into the decoded bytes */
    int status;
    int64_t epoch;
    struct header headers[ENTRY_MAX_HEADERS];
    size_t header_count;
    struct slice tags[ENTRY_MAX_TAGS];
    size_t tag_count;
    struct slice body;
    uint32_t plain_bytes; /* not to be believed before the body is unpacked */
};

enum entry_fault {
    ENTRY_OK,
    ENTRY_TRUNCATED, /* fewer bytes than it says */
    ENTRY_TRAILING,  /* more */
    ENTRY_NOT_ONE,   /* the magic is another */
    ENTRY_UNKNOWN_VERSION,
    ENTRY_BAD_CHECKSUM,
    ENTRY_BAD_LENGTHS, /* counts or lengths above the bounds, or that do not add up */
    ENTRY_BAD_FIELD,   /* a status, name or value that must not be sent to anybody */
};

/* Bytes of the head, or 0 where the entry cannot be encoded: above a bound of this file, or with what the
 * decoder would refuse. */
size_t entry_head_bytes(const struct entry *entry);

/* Writes the head to `out`, which has the room of entry_head_bytes(), that must not have been 0. */
void entry_encode_head(const struct entry *entry, entry_checksum *checksum, void *out);

/* `view` is meaningful with ENTRY_OK only. */
enum entry_fault entry_decode(struct slice bytes, entry_checksum *checksum, struct entry_view *view);

const char *entry_fault_name(enum entry_fault fault); /* for logs: "bad_checksum" */

#endif
