/* Gzip: bodies packed and unpacked, a piece at a time (RFC 1952); the only file that knows zlib.
 *
 * Each call does no more work than its bytes ask for, so that its caller decides how long a turn of its loop lasts: at
 * this level about 30 ms for a megabyte of JSON that is packed, 3 ms for one that is unpacked.
 */
#ifndef WEIR_GZIP_H
#define WEIR_GZIP_H

#include "object.h"

/* ---- packing ---- */

struct packer;

struct packer *packer_new(void); /* some 260 KiB, whatever the body */
void packer_free(struct packer **packer);
/* False: it failed, and is only to be freed. */
bool packer_add(struct packer *packer, struct slice bytes);
bool packer_finish(struct packer *packer);

/* Once finished: the body, in blocks that the packer holds, and of how many bytes it is the gzip. */
struct block *const *packer_blocks(const struct packer *packer, size_t *count);
int64_t packer_packed_bytes(const struct packer *packer);
int64_t packer_plain_bytes(const struct packer *packer);

/* ---- unpacking ---- */

struct unpacker;

/* Of a body in blocks, which outlive it and may be anything: only what is a gzip of `plain_bytes` bytes, with its checksum
 * right and nothing behind it, comes to a good end. Some 40 KiB. */
struct unpacker *unpacker_new(struct block *const *blocks, size_t count, int64_t plain_bytes);
void unpacker_free(struct unpacker **unpacker); /* NULL is fine */

enum unpacked {
    UNPACKED_SOME,   /* there is more */
    UNPACKED_ALL,    /* that was the end */
    UNPACKED_BROKEN, /* it is not what it is said to be: told before its last bytes, so that a client can be */
};

/* The next bytes: as many as there is room for, at least one, or those up to the end. */
enum unpacked unpacker_next(struct unpacker *unpacker, char *out, size_t room, size_t *made_out);

#endif
