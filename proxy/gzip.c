/* Gzip: see gzip.h. */
#include "gzip.h"

#include "check.h"
#include "memory.h"

#include <stdlib.h>
#define ZLIB_CONST /* what is given to it stays ours */
#include <zlib.h>

enum {
    LEVEL = 6,
    GZIP_WINDOW = 15 + 16, /* the largest window, in the gzip format */
    MEMORY = 8,
    BLOCK_BYTES = 32 << 10,
    CALL_MAX_BYTES = 1 << 30, /* zlib counts in unsigned int */
};

static void *take_memory(void *unused, unsigned count, unsigned bytes)
{
    (void)unused;
    return must_alloc((size_t)count * bytes);
}

static void give_memory(void *unused, void *memory)
{
    (void)unused;
    free(memory);
}

/* ---- packing ---- */

struct packer {
    z_stream z;
    struct block **blocks;
    size_t count, room;
    int64_t packed_bytes, plain_bytes;
};

struct packer *packer_new(void)
{
    struct packer *packer = must_alloc(sizeof(*packer));
    int result;

    packer->z.zalloc = take_memory;
    packer->z.zfree = give_memory;
    result = deflateInit2(&packer->z, LEVEL, Z_DEFLATED, GZIP_WINDOW, MEMORY, Z_DEFAULT_STRATEGY);
    CHECK(result == Z_OK);
    return packer;
}

void packer_free(struct packer **taken)
{
    struct packer *packer = *taken;

    *taken = NULL;
    if (packer == NULL)
        return;
    deflateEnd(&packer->z);
    for (size_t i = 0; i < packer->count; i++)
        block_release(&packer->blocks[i]);
    free(packer->blocks);
    free(packer);
}

static struct block *block_with_room(struct packer *packer)
{
    struct block *last = packer->count == 0 ? NULL : packer->blocks[packer->count - 1];

    if (last != NULL && last->len < last->room)
        return last;
    if (packer->count == packer->room) {
        packer->room = packer->room == 0 ? 8 : 2 * packer->room;
        packer->blocks = must_realloc(packer->blocks, packer->room * sizeof(struct block *));
    }
    last = block_new(BLOCK_BYTES);
    packer->blocks[packer->count++] = last;
    return last;
}

/* What zlib makes of what it was given goes into blocks, until it has room to spare. */
static int pack(struct packer *packer, int flush)
{
    int result;

    do {
        struct block *block = block_with_room(packer);
        size_t made;

        packer->z.next_out = (unsigned char *)block->bytes + block->len;
        packer->z.avail_out = (unsigned)(block->room - block->len);
        result = deflate(&packer->z, flush);
        made = block->room - block->len - packer->z.avail_out;
        block->len += made;
        packer->packed_bytes += (int64_t)made;
    } while (result == Z_OK && packer->z.avail_out == 0);
    return result;
}

bool packer_add(struct packer *packer, struct slice bytes)
{
    int result;

    if (bytes.len == 0)
        return true;
    CHECK(bytes.len <= CALL_MAX_BYTES);
    packer->z.next_in = (const unsigned char *)bytes.base;
    packer->z.avail_in = (unsigned)bytes.len;
    packer->plain_bytes += (int64_t)bytes.len;
    result = pack(packer, Z_NO_FLUSH);
    return (result == Z_OK || result == Z_BUF_ERROR) && packer->z.avail_in == 0;
}

/* The last block has the room it needs, no more: what is kept is counted by its room. */
static void trim_last(struct packer *packer)
{
    struct block **last = &packer->blocks[packer->count - 1];
    struct block *exact = block_new((*last)->len);

    memcpy(exact->bytes, (*last)->bytes, (*last)->len);
    exact->len = (*last)->len;
    block_release(last);
    *last = exact;
}

bool packer_finish(struct packer *packer)
{
    packer->z.next_in = NULL;
    packer->z.avail_in = 0;
    if (pack(packer, Z_FINISH) != Z_STREAM_END)
        return false;
    trim_last(packer);
    return true;
}

struct block *const *packer_blocks(const struct packer *packer, size_t *count)
{
    *count = packer->count;
    return packer->blocks;
}

int64_t packer_packed_bytes(const struct packer *packer)
{
    return packer->packed_bytes;
}

int64_t packer_plain_bytes(const struct packer *packer)
{
    return packer->plain_bytes;
}

/* ---- unpacking ---- */

struct unpacker {
    z_stream z;
    struct block *const *blocks;
    size_t count, next;
    int64_t left_bytes; /* of the plain body */
    bool is_over;
};

struct unpacker *unpacker_new(struct block *const *blocks, size_t count, int64_t plain_bytes)
{
    struct unpacker *unpacker = must_alloc(sizeof(*unpacker));
    int result;

    unpacker->z.zalloc = take_memory;
    unpacker->z.zfree = give_memory;
    result = inflateInit2(&unpacker->z, GZIP_WINDOW);
    CHECK(result == Z_OK);
    unpacker->blocks = blocks;
    unpacker->count = count;
    unpacker->left_bytes = plain_bytes;
    return unpacker;
}

void unpacker_free(struct unpacker **taken)
{
    struct unpacker *unpacker = *taken;

    *taken = NULL;
    if (unpacker == NULL)
        return;
    inflateEnd(&unpacker->z);
    free(unpacker);
}

/* False: all blocks are used up. */
static bool has_packed(struct unpacker *unpacker)
{
    while (unpacker->z.avail_in == 0 && unpacker->next < unpacker->count) {
        const struct block *block = unpacker->blocks[unpacker->next++];

        unpacker->z.next_in = (const unsigned char *)block->bytes;
        unpacker->z.avail_in = (unsigned)block->len;
    }
    return unpacker->z.avail_in > 0;
}

/* Fills the room as far as the packed bytes go. */
static enum unpacked unpack(struct unpacker *unpacker, char *out, size_t room, size_t *made_out)
{
    int result = Z_OK;

    unpacker->z.next_out = (unsigned char *)out;
    unpacker->z.avail_out = (unsigned)room;
    while (result == Z_OK && unpacker->z.avail_out > 0) {
        bool has_more = has_packed(unpacker);

        result = inflate(&unpacker->z, Z_NO_FLUSH);
        if (result == Z_BUF_ERROR && has_more)
            result = Z_OK; /* it has eaten a block, and nothing came of it yet */
    }
    *made_out = room - unpacker->z.avail_out;
    if (result == Z_STREAM_END)
        return has_packed(unpacker) ? UNPACKED_BROKEN : UNPACKED_ALL;
    return result == Z_OK ? UNPACKED_SOME : UNPACKED_BROKEN;
}

enum unpacked unpacker_next(struct unpacker *unpacker, char *out, size_t room, size_t *made_out)
{
    bool reaches_end = unpacker->left_bytes <= (int64_t)room;
    enum unpacked got;
    size_t beyond;
    char spare;

    CHECK(room > 0 && room <= CALL_MAX_BYTES && !unpacker->is_over);
    got = unpack(unpacker, out, reaches_end ? (size_t)unpacker->left_bytes : room, made_out);
    unpacker->left_bytes -= (int64_t)*made_out;
    if (got == UNPACKED_SOME && unpacker->left_bytes == 0) { /* then its end must be all that follows */
        got = unpack(unpacker, &spare, 1, &beyond);
        if (got == UNPACKED_SOME || beyond > 0)
            got = UNPACKED_BROKEN;
    }
    if (got == UNPACKED_ALL && unpacker->left_bytes > 0)
        got = UNPACKED_BROKEN;
    unpacker->is_over = got != UNPACKED_SOME;
    return got;
}
