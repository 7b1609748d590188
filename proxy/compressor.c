/* Compressor: see compressor.h. */
#include "compressor.h"

#include "check.h"
#include "coding.h"
#include "memory.h"

#include <stdlib.h>

enum {
    SLICE_BYTES = 64 << 10, /* in a turn: two milliseconds */
    PIECES = 8,
    WORTH_PERCENT = 90, /* of the plain body, at most */
};

struct compressor {
    struct loop *loop;
    struct stream_reader reader;
    struct packer *packer;
    struct timer next; /* of a slice: a task would run again in the same turn */
    /* what was read and is not packed yet */
    struct slice pieces[PIECES];
    size_t piece_count, piece;
    enum client_piece how;
    bool has_ended, has_failed;
    void (*ended)(void *arg);
    void *arg;
};

static void go_on(void *arg)
{
    struct compressor *compressor = arg;

    timer_start(compressor->loop, &compressor->next, loop_now(compressor->loop));
}

static void end(struct compressor *compressor, bool is_sound)
{
    compressor->has_ended = true;
    compressor->has_failed = !is_sound;
    stream_leave(&compressor->reader);
    compressor->ended(compressor->arg); /* may free us */
}

/* False: there is nothing to pack now, or any more. */
static bool has_piece(struct compressor *compressor)
{
    if (compressor->piece < compressor->piece_count)
        return true;
    if (compressor->how != CLIENT_MORE)
        return false;
    compressor->piece = 0;
    compressor->piece_count = stream_read(&compressor->reader, compressor->pieces, PIECES, &compressor->how);
    return compressor->piece_count > 0;
}

static void pack_slice(void *arg)
{
    struct compressor *compressor = arg;
    size_t left = SLICE_BYTES;

    while (left > 0 && has_piece(compressor)) {
        struct slice *piece = &compressor->pieces[compressor->piece];
        struct slice now = slice_of(piece->base, piece->len < left ? piece->len : left);

        if (!packer_add(compressor->packer, now)) {
            end(compressor, false);
            return;
        }
        left -= now.len;
        *piece = slice_of(piece->base + now.len, piece->len - now.len);
        compressor->piece += piece->len == 0;
    }
    if (left == 0)
        go_on(compressor);
    else if (compressor->how != CLIENT_MORE)
        end(compressor, compressor->how == CLIENT_LAST && packer_finish(compressor->packer));
}

struct compressor *compressor_new(struct loop *loop, struct stream *stream, void (*ended)(void *arg),
                                  void *arg)
{
    struct compressor *compressor = must_alloc(sizeof(*compressor));
    bool is_joined;

    compressor->loop = loop;
    compressor->packer = packer_new();
    compressor->how = CLIENT_MORE;
    compressor->ended = ended;
    compressor->arg = arg;
    timer_init(&compressor->next, pack_slice, compressor);
    is_joined = stream_join(stream, &compressor->reader, go_on, compressor);
    CHECK(is_joined); /* it is kept: nothing of it was freed */
    go_on(compressor);
    return compressor;
}

void compressor_free(struct compressor **taken)
{
    struct compressor *compressor = *taken;

    *taken = NULL;
    if (compressor == NULL)
        return;
    timer_cancel(compressor->loop, &compressor->next);
    stream_leave(&compressor->reader);
    packer_free(&compressor->packer);
    free(compressor);
}

bool compressor_has_ended(const struct compressor *compressor)
{
    return compressor->has_ended;
}

const struct packer *compressor_result(const struct compressor *compressor)
{
    int64_t plain = packer_plain_bytes(compressor->packer), packed = packer_packed_bytes(compressor->packer);

    if (!compressor->has_ended || compressor->has_failed || plain < CODING_LEAST_BYTES ||
        packed * 100 > plain * WORTH_PERCENT)
        return NULL;
    return compressor->packer;
}
