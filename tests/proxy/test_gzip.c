#include "gzip.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEXT_BYTES = 300000 };

static uint64_t seed = 0x9E3779B97F4A7C15u;

static size_t dice(size_t sides)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (size_t)(seed >> 33) % sides;
}

/* Text that becomes smaller, but not to nothing. */
static char *text_new(size_t len)
{
    char *text = malloc(len + 1);

    for (size_t i = 0; i < len; i++)
        text[i] = (char)('a' + dice(4) + (i % 512 == 0 ? dice(20) : 0));
    return text;
}

static struct packer *packed(const char *text, size_t len, size_t most_at_once)
{
    struct packer *packer = packer_new();

    for (size_t at = 0; at < len;) {
        size_t some = 1 + dice(most_at_once);

        some = some < len - at ? some : len - at;
        cr_assert(packer_add(packer, slice_of(text + at, some)));
        at += some;
    }
    cr_assert(packer_finish(packer));
    cr_assert_eq(packer_plain_bytes(packer), (int64_t)len);
    return packer;
}

/* What comes of the blocks, with rooms of any size; how it ends. */
static enum unpacked unpacked(struct block *const *blocks, size_t count, int64_t plain_bytes,
                              size_t most_room, char *out, size_t *len_out)
{
    struct unpacker *unpacker = unpacker_new(blocks, count, plain_bytes);
    enum unpacked got;

    *len_out = 0;
    do {
        size_t room = 1 + dice(most_room), made;

        got = unpacker_next(unpacker, out + *len_out, room, &made);
        cr_assert(made <= room);
        cr_assert(made > 0 || got != UNPACKED_SOME, "it goes on");
        *len_out += made;
        cr_assert((int64_t)*len_out <= plain_bytes, "never more than was said");
    } while (got == UNPACKED_SOME);
    unpacker_free(&unpacker);
    return got;
}

Test(gzip, what_is_packed_comes_back_whatever_the_pieces)
{
    static const size_t lengths[] = {0, 1, 511, 32768, 32769, TEXT_BYTES};
    static const size_t rooms[] = {1, 7, 4096, 32768, 400000};

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
        for (size_t k = 0; k < sizeof(rooms) / sizeof(rooms[0]); k++) {
            size_t len = lengths[i], count, got_len;
            char *text = text_new(len), *out = malloc(len + 400001);
            struct packer *packer = packed(text, len, 1 + rooms[k]);
            struct block *const *blocks = packer_blocks(packer, &count);
            int64_t bytes = 0;

            for (size_t b = 0; b < count; b++)
                bytes += (int64_t)blocks[b]->len;
            cr_expect_eq(bytes, packer_packed_bytes(packer));
            cr_expect_eq(blocks[count - 1]->len, blocks[count - 1]->room,
                         "no room is kept that nobody needs");
            if (len > 0) { /* of nothing no object is made */
                cr_expect_eq(unpacked(blocks, count, (int64_t)len, rooms[k], out, &got_len), UNPACKED_ALL);
                cr_expect(slice_eq(slice_of(out, got_len), slice_of(text, len)));
            }
            packer_free(&packer);
            free(text);
            free(out);
        }
}

Test(gzip, the_same_bytes_make_the_same_gzip_however_they_come)
{
    char *text = text_new(TEXT_BYTES);
    struct packer *a = packed(text, TEXT_BYTES, 100), *b = packed(text, TEXT_BYTES, 100000);
    size_t count_a, count_b;
    struct block *const *blocks_a = packer_blocks(a, &count_a), *const *blocks_b = packer_blocks(b, &count_b);

    cr_assert_eq(count_a, count_b);
    for (size_t i = 0; i < count_a; i++)
        cr_expect(slice_eq(slice_of(blocks_a[i]->bytes, blocks_a[i]->len),
                           slice_of(blocks_b[i]->bytes, blocks_b[i]->len)));
    packer_free(&a);
    packer_free(&b);
    free(text);
}

/* One block of all the packed bytes. */
static struct block *joined(const struct packer *packer)
{
    size_t count;
    struct block *const *blocks = packer_blocks(packer, &count);
    struct block *all = block_new((size_t)packer_packed_bytes(packer) + 8);

    for (size_t i = 0; i < count; i++) {
        memcpy(all->bytes + all->len, blocks[i]->bytes, blocks[i]->len);
        all->len += blocks[i]->len;
    }
    return all;
}

Test(gzip, what_is_not_what_it_is_said_to_be_breaks_before_its_last_bytes)
{
    enum { LEN = 5000, ROOM = 512 };
    char *text = text_new(LEN), *out = malloc(LEN + ROOM);
    struct packer *packer = packed(text, LEN, LEN);
    struct block *all = joined(packer), *empty = block_new(0), *some[] = {empty, all, empty};
    size_t whole = all->len, len;

    cr_expect_eq(unpacked(some, 3, LEN, ROOM, out, &len), UNPACKED_ALL, "empty blocks are fine");
    cr_expect_eq(unpacked(some, 3, LEN + 1, ROOM, out, &len), UNPACKED_BROKEN, "a body that is shorter");
    cr_expect_eq(unpacked(some, 3, LEN - 1, ROOM, out, &len), UNPACKED_BROKEN, "a body that is longer");
    cr_expect_eq(unpacked(some, 3, 1, ROOM, out, &len), UNPACKED_BROKEN, "far longer");
    cr_expect_eq(unpacked(NULL, 0, LEN, ROOM, out, &len), UNPACKED_BROKEN, "nothing at all");
    for (all->len = 0; all->len < whole; all->len++)
        cr_assert_eq(unpacked(some, 3, LEN, ROOM, out, &len), UNPACKED_BROKEN, "cut off at %zu", all->len);
    all->bytes[whole] = 'x';
    all->len = whole + 1;
    cr_expect_eq(unpacked(some, 3, LEN, ROOM, out, &len), UNPACKED_BROKEN, "something behind it");
    all->len = whole;
    for (size_t bit = 0; bit < whole * 8; bit++) { /* a few bits say nothing: then it is what it was */
        all->bytes[bit / 8] = (char)(all->bytes[bit / 8] ^ 1 << bit % 8);
        cr_assert(unpacked(some, 3, LEN, ROOM, out, &len) == UNPACKED_BROKEN ||
                      slice_eq(slice_of(out, len), slice_of(text, LEN)),
                  "bit %zu", bit);
        all->bytes[bit / 8] = (char)(all->bytes[bit / 8] ^ 1 << bit % 8);
    }
    block_release(&all);
    block_release(&empty);
    packer_free(&packer);
    free(text);
    free(out);
}

Test(gzip, a_bomb_is_never_more_than_its_room)
{
    enum { LEN = 50 << 20, ROOM = 1000 };
    struct packer *packer = packer_new();
    char *zeros = calloc(1, 1 << 20), out[ROOM];
    struct unpacker *unpacker;
    size_t count, made, total = 0;
    struct block *const *blocks;

    for (int i = 0; i < 50; i++)
        cr_assert(packer_add(packer, slice_of(zeros, 1 << 20)));
    cr_assert(packer_finish(packer));
    blocks = packer_blocks(packer, &count);
    cr_assert_lt(packer_packed_bytes(packer), 100000);
    unpacker = unpacker_new(blocks, count, 3 * ROOM);
    while (unpacker_next(unpacker, out, ROOM, &made) == UNPACKED_SOME)
        total += made;
    cr_assert_leq(total, 3 * ROOM);
    unpacker_free(&unpacker);
    packer_free(&packer);
    free(zeros);
}

Test(gzip, may_be_given_up_at_any_point)
{
    struct packer *packer = packer_new(), *none = NULL;
    struct unpacker *unpacker = unpacker_new(NULL, 0, 1), *nobody = NULL;

    cr_assert(packer_add(packer, SLICE("some")));
    cr_assert(packer_add(packer, slice_of(NULL, 0)));
    packer_free(&packer);
    packer_free(&none);
    unpacker_free(&unpacker);
    unpacker_free(&nobody);
    cr_assert_null(packer);
}
