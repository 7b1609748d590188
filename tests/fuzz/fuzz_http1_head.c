/* Any bytes as a response head: nothing is read or written outside them, and coming in pieces changes
 * nothing. */
#include "check.h"
#include "http1_head.h"
#include "upgrade.h"

#include <stdlib.h>

static void check_inside(struct slice s, const char *bytes, size_t len)
{
    CHECK(s.base >= bytes && s.base + s.len <= bytes + len);
    CHECK(s.len == 0 || (memchr(s.base, '\r', s.len) == NULL && memchr(s.base, '\n', s.len) == NULL));
    CHECK(s.len == 0 || memchr(s.base, '\0', s.len) == NULL);
}

/* What it says that the connection speaks from now on is one thing that was asked for, in the answer's own bytes. */
static void check_agreement(const struct http1_head *head, const char *bytes)
{
    struct slice agreed = upgrade_agreed(SLICE("websocket, a/1,,b"), head->headers, head->header_count);

    if (agreed.base == NULL)
        return;
    check_inside(agreed, bytes, head->head_bytes);
    CHECK(slice_eq_nocase(agreed, SLICE("websocket")) || slice_eq_nocase(agreed, SLICE("a/1")) ||
          slice_eq_nocase(agreed, SLICE("b")));
}

static void check_whole(const struct http1_head *head, const char *bytes, size_t len)
{
    static const struct slice methods[] = {{"GET", 3}, {"HEAD", 4}};

    CHECK(head->head_bytes <= len && head->status >= 100 && head->status <= 599);
    check_inside(head->reason, bytes, head->head_bytes);
    for (size_t i = 0; i < head->header_count; i++) {
        CHECK(head->headers[i].name.len > 0);
        check_inside(head->headers[i].name, bytes, head->head_bytes);
        check_inside(head->headers[i].value, bytes, head->head_bytes);
    }
    check_agreement(head, bytes);
    for (size_t i = 0; i < 2; i++) {
        struct http1_framing framing = http1_framing(head, methods[i]);

        CHECK(framing.kind != BODY_LENGTH || framing.length >= 0);
        CHECK(!http1_keeps_alive(head, &framing) || framing.kind == BODY_NONE ||
              framing.kind == BODY_LENGTH || framing.kind == BODY_CHUNKED);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct header headers[8], piece_headers[8];
    struct http1_head at_once, in_pieces;
    enum head_progress whole, piece = HEAD_PARTIAL;
    char *bytes = malloc(size + 1), *grown = malloc(size + 1);
    size_t step = size > 0 ? 1 + data[size - 1] % 7 : 1;

    memcpy(bytes, data, size);
    memcpy(grown, data, size);
    http1_head_init(&at_once, headers, 8, 1024);
    whole = http1_head_read(&at_once, bytes, size);
    if (whole == HEAD_WHOLE)
        check_whole(&at_once, bytes, size);

    http1_head_init(&in_pieces, piece_headers, 8, 1024);
    for (size_t len = 0; len < size && piece == HEAD_PARTIAL;) {
        char *exact;

        len = size - len < step ? size : len + step;
        exact = malloc(len);
        memcpy(exact, grown, len);
        piece = http1_head_read(&in_pieces, exact, len);
        free(exact);
    }
    CHECK(piece == whole);
    CHECK(whole != HEAD_WHOLE ||
          (in_pieces.head_bytes == at_once.head_bytes && in_pieces.status == at_once.status &&
           in_pieces.header_count == at_once.header_count));
    free(grown);
    free(bytes);
    return 0;
}
