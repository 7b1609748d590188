/* Fuzz gzip: whatever lies in the store as a packed body, unpacking it ends, and never makes more than was said; and what
 * we pack comes back as it was.
 *
 * The first two bytes say how long the body is said to be, the third how much room there is at a time.
 */
#include "check.h"
#include "gzip.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct block *block_with(const uint8_t *bytes, size_t len)
{
    struct block *block = block_new(len);

    if (len > 0)
        memcpy(block->bytes, bytes, len);
    block->len = len;
    return block;
}

static enum unpacked unpack_all(struct block *const *blocks, size_t count, int64_t plain_bytes, size_t room,
                                struct slice want)
{
    struct unpacker *unpacker = unpacker_new(blocks, count, plain_bytes);
    char *out = malloc(room);
    enum unpacked got;
    size_t made, total = 0;

    CHECK(out != NULL);
    do {
        got = unpacker_next(unpacker, out, room, &made);
        CHECK(made <= room && (made > 0 || got != UNPACKED_SOME));
        CHECK(want.base == NULL || (total + made <= want.len && memcmp(out, want.base + total, made) == 0));
        total += made;
        CHECK((int64_t)total <= plain_bytes);
    } while (got == UNPACKED_SOME);
    CHECK(got == UNPACKED_BROKEN || (int64_t)total == plain_bytes);
    unpacker_free(&unpacker);
    free(out);
    return got;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct block *halves[2];
    struct packer *packer;
    struct block *const *packed;
    size_t room, half, count;
    int64_t said;

    if (size < 4)
        return 0;
    said = 1 + data[0] + 256 * data[1];
    room = 1 + data[2];
    data += 3;
    size -= 3;
    half = size / 2;
    halves[0] = block_with(data, half);
    halves[1] = block_with(data + half, size - half);
    unpack_all(halves, 2, said, room, slice_of(NULL, 0));
    packer = packer_new();
    CHECK(packer_add(packer, slice_of(halves[0]->bytes, half)) &&
          packer_add(packer, slice_of(halves[1]->bytes, size - half)) && packer_finish(packer));
    packed = packer_blocks(packer, &count);
    CHECK(unpack_all(packed, count, (int64_t)size, room, slice_of((const char *)data, size)) == UNPACKED_ALL);
    packer_free(&packer);
    block_release(&halves[0]);
    block_release(&halves[1]);
    return 0;
}
