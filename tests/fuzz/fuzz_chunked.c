/* Any bytes as a chunked body: data are slices of the input, and coming in pieces changes neither the data
 * nor the end. */
#include "check.h"
#include "chunked.h"

#include <stdlib.h>

struct outcome {
    enum chunked_step last;
    size_t body_bytes, used;
    uint64_t sum; /* of the body, order included */
};

static struct outcome decode(const uint8_t *data, size_t size, size_t step)
{
    struct outcome out = {.last = CHUNKED_HUNGRY};
    struct chunked chunked;

    chunked_init(&chunked);
    for (size_t at = 0; at < size && out.last == CHUNKED_HUNGRY; at += step) {
        size_t len = size - at < step ? size - at : step;
        char *exact = malloc(len);
        struct slice input = slice_of(exact, len), piece;

        memcpy(exact, data + at, len);
        while ((out.last = chunked_next(&chunked, &input, &piece)) == CHUNKED_DATA) {
            CHECK(piece.len > 0 && piece.base >= exact && piece.base + piece.len <= exact + len);
            out.body_bytes += piece.len;
            for (size_t i = 0; i < piece.len; i++)
                out.sum = out.sum * 31 + (unsigned char)piece.base[i];
        }
        CHECK(out.last != CHUNKED_HUNGRY || input.len == 0);
        out.used = at + len - input.len;
        free(exact);
    }
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct outcome whole = decode(data, size, size + 1), pieces;

    pieces = decode(data, size, size > 0 ? 1 + data[size - 1] % 9 : 1);
    CHECK(whole.last == pieces.last && whole.used == pieces.used);
    CHECK(whole.body_bytes == pieces.body_bytes && whole.sum == pieces.sum);
    return 0;
}
