#include "chunked.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

struct decoded {
    char body[4096];
    size_t len;
    enum chunked_step last;
    size_t left; /* of the input, after the end */
};

/* Gives the input in pieces of `piece` bytes, each in memory of its own size, so that a sanitizer sees one
 * byte too far. */
static struct decoded decode(const char *bytes, size_t len, size_t piece)
{
    struct chunked chunked;
    struct decoded d = {.last = CHUNKED_HUNGRY};

    chunked_init(&chunked);
    for (size_t at = 0; at < len && d.last == CHUNKED_HUNGRY; at += piece) {
        size_t size = len - at < piece ? len - at : piece;
        char *copy = malloc(size);
        struct slice input = slice_of(copy, size), data;

        memcpy(copy, bytes + at, size);
        while ((d.last = chunked_next(&chunked, &input, &data)) == CHUNKED_DATA) {
            cr_assert_gt(data.len, 0);
            cr_assert(data.base >= copy && data.base + data.len <= copy + size,
                      "data are slices of the input");
            cr_assert(d.len + data.len <= sizeof(d.body));
            memcpy(d.body + d.len, data.base, data.len);
            d.len += data.len;
        }
        if (d.last == CHUNKED_HUNGRY)
            cr_assert_eq(input.len, 0, "hungry only when all is used up");
        d.left = len - at - size + input.len;
        free(copy);
    }
    return d;
}

Test(chunked, a_body_is_whole_however_it_is_cut)
{
    static const struct {
        const char *why, *text, *body;
        size_t left;
    } rows[] = {
        {"an empty body", "0\r\n\r\n", "", 0},
        {"one chunk", "5\r\nhello\r\n0\r\n\r\n", "hello", 0},
        {"several", "1\r\na\r\n2\r\nbc\r\n3\r\ndef\r\n0\r\n\r\n", "abcdef", 0},
        {"sizes in both cases", "a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789", 0},
        {"leading zeros", "005\r\nhello\r\n000\r\n\r\n", "hello", 0},
        {"framing inside the data", "7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n", "\r\n0\r\n\r\n", 0},
        {"extensions", "5;a;b=\"c d\"\r\nhello\r\n0;x\r\n\r\n", "hello", 0},
        {"trailers", "1\r\na\r\n0\r\nDigest: x\r\nExpires: \r\n\r\n", "a", 0},
        {"what follows is not ours", "1\r\na\r\n0\r\n\r\nHTTP/1.1", "a", 8},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t len = strlen(rows[i].text);

        for (size_t piece = 1; piece <= len; piece++) {
            struct decoded d = decode(rows[i].text, len, piece);

            cr_expect_eq(d.last, CHUNKED_END, "%s, by %zu", rows[i].why, piece);
            cr_expect(slice_eq(slice_of(d.body, d.len), slice_text(rows[i].body)), "%s, by %zu", rows[i].why,
                      piece);
            cr_expect_eq(d.left, rows[i].left, "%s, by %zu", rows[i].why, piece);
        }
    }
}

Test(chunked, a_body_that_was_cut_off_is_never_whole)
{
    const char *text = "5;a=b\r\nhello\r\n0\r\nx: y\r\n\r\n";

    for (size_t len = 1; len < strlen(text); len++)
        cr_expect_eq(decode(text, len, 3).last, CHUNKED_HUNGRY, "after %zu bytes", len);
}

Test(chunked, what_is_not_the_coding_is_broken)
{
    static const struct {
        const char *why, *text;
    } rows[] = {
        {"no size", "\r\nhello"},
        {"no hexadecimal digit", "g\r\n"},
        {"0x is not a size of nothing", "0x3\r\nabc\r\n"},
        {"a sign", "+3\r\nabc\r\n"},
        {"a negative size", "-1\r\n"},
        {"a blank before the size", " 3\r\nabc\r\n"},
        {"a blank after the size", "3 \r\nabc\r\n"},
        {"a blank before an extension", "3 ;a\r\nabc\r\n"},
        {"more digits than any size has", "0000000000000003\r\nabc\r\n"},
        {"a size that overflows", "ffffffffffffffffff\r\n"},
        {"a bare LF after the size", "3\nabc\r\n0\r\n\r\n"},
        {"a bare CR after the size", "3\rabc"},
        {"a bare LF after the data", "3\r\nabc\n0\r\n\r\n"},
        {"data longer than the size", "3\r\nabcd\r\n0\r\n\r\n"},
        {"data shorter than the size", "5\r\nabc\r\n0\r\n\r\n"},
        {"a bare LF ends an extension", "3;a\nabc\r\n"},
        {"a control byte in an extension", "3;\x01\r\nabc\r\n"},
        {"a bare LF ends the body", "0\r\n\n"},
        {"a bare LF after a trailer", "0\r\na: b\n\r\n"},
        {"a CR that nothing follows", "0\r\n\rx"},
        {"a trailer without a name", "0\r\n: b\r\n\r\n"},
        {"a trailer without a colon", "0\r\nabc\r\n\r\n"},
        {"a folded trailer", "0\r\na: b\r\n c\r\n\r\n"},
        {"a control byte in a trailer", "0\r\na: \x02\r\n\r\n"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t len = strlen(rows[i].text);

        for (size_t piece = 1; piece <= len; piece++)
            cr_expect_eq(decode(rows[i].text, len, piece).last, CHUNKED_BROKEN, "%s, by %zu", rows[i].why,
                         piece);
    }
}

Test(chunked, what_is_broken_stays_broken_and_what_is_over_stays_over)
{
    struct chunked chunked;
    struct slice input = SLICE("x"), data;

    chunked_init(&chunked);
    cr_expect_eq(chunked_next(&chunked, &input, &data), CHUNKED_BROKEN);
    input = SLICE("0\r\n\r\n");
    cr_expect_eq(chunked_next(&chunked, &input, &data), CHUNKED_BROKEN);

    chunked_init(&chunked);
    cr_expect_eq(chunked_next(&chunked, &input, &data), CHUNKED_END);
    input = SLICE("3\r\nabc\r\n");
    cr_expect_eq(chunked_next(&chunked, &input, &data), CHUNKED_END);
    cr_expect_eq(input.len, 8, "nothing more is taken");
}

static enum chunked_step feed(struct chunked *chunked, const char *text)
{
    struct slice input = slice_text(text), data;
    enum chunked_step step;

    while ((step = chunked_next(chunked, &input, &data)) == CHUNKED_DATA)
        ;
    return step;
}

Test(chunked, extensions_are_bounded_over_the_whole_body)
{
    struct chunked chunked;
    enum chunked_step step = CHUNKED_HUNGRY;
    int chunks = 0;

    chunked_init(&chunked);
    for (; step == CHUNKED_HUNGRY && chunks < CHUNKED_MAX_EXTENSION_BYTES; chunks++)
        step = feed(&chunked, "1;0123456789012345678901234567890\r\na\r\n");
    cr_expect_eq(step, CHUNKED_BROKEN);
    cr_expect_gt(chunks, 100, "a sane number of them passes");
}

Test(chunked, trailers_are_bounded)
{
    struct chunked chunked;
    enum chunked_step step;
    int lines = 0;

    chunked_init(&chunked);
    step = feed(&chunked, "0\r\n");
    for (; step == CHUNKED_HUNGRY && lines < CHUNKED_MAX_TRAILER_BYTES; lines++)
        step = feed(&chunked, "name: 0123456789\r\n");
    cr_expect_eq(step, CHUNKED_BROKEN);
    cr_expect_gt(lines, 100);
}
