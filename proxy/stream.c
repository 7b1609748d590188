/* Stream: see stream.h. */
#include "stream.h"
#include "check.h"
#include "clock.h"
#include "loop.h"
#include "memory.h"
#include "origin_tunnel.h"

#include <stdlib.h>

enum { FIRST_BLOCK_BYTES = 8 << 10, BLOCK_BYTES = 64 << 10 };
enum { PAUSE_ABOVE_BYTES = 512 << 10, RESUME_BELOW_BYTES = 256 << 10, READ_MAX_BYTES = 256 << 10 };
enum { GAP_MAX_BLOCKS = 64 };

static void stream_unref(struct stream *stream)
{
    if (--stream->refs > 0)
        return;
    CHECK(stream->fetch == NULL);
    for (size_t i = stream->freed; i < stream->block_count; i++)
        block_release(&stream->blocks[i]);
    free(stream->blocks);
    free(stream->headers);
    origin_tunnel_close(&stream->tunnel);
    site_release(&stream->site);
    free(stream);
}

/* ---- the body ---- */

static bool has_readers(const struct stream *stream)
{
    return !list_is_empty(&stream->readers) || !list_is_empty(&stream->waiting) ||
           !list_is_empty(&stream->waking);
}

static int64_t slowest_of(const struct link *readers, int64_t slowest)
{
    for (const struct link *at = readers->next; at != readers; at = at->next) {
        const struct stream_reader *reader = LIST_OWNER(at, struct stream_reader, link);

        if (reader->held_bytes < slowest)
            slowest = reader->held_bytes;
    }
    return slowest;
}

/* Whoever has not joined yet, but may because there is an owner, reads from the start. */
static int64_t slowest_bytes(const struct stream *stream)
{
    if (stream->owner != NULL && !has_readers(stream))
        return stream->freed_bytes;
    return slowest_of(&stream->readers,
                      slowest_of(&stream->waiting, slowest_of(&stream->waking, stream->got_bytes)));
}

static void count_from(const struct link *readers, size_t first_block)
{
    for (const struct link *at = readers->next; at != readers; at = at->next)
        LIST_OWNER(at, struct stream_reader, link)->block -= first_block;
}

/* An endless answer must not leave an endless row of empty places behind. */
static void close_gap(struct stream *stream)
{
    if (stream->freed < GAP_MAX_BLOCKS)
        return;
    count_from(&stream->readers, stream->freed);
    count_from(&stream->waiting, stream->freed);
    count_from(&stream->waking, stream->freed);
    stream->block_count -= stream->freed;
    memmove(stream->blocks, stream->blocks + stream->freed, stream->block_count * sizeof(*stream->blocks));
    stream->freed = 0;
}

static void free_passed(struct stream *stream, int64_t slowest)
{
    while (stream->freed + 1 < stream->block_count &&
           stream->freed_bytes + (int64_t)stream->blocks[stream->freed]->len <= slowest) {
        stream->freed_bytes += (int64_t)stream->blocks[stream->freed]->len;
        block_release(&stream->blocks[stream->freed]);
        stream->freed++;
    }
    close_gap(stream);
}

/* After bytes came or a reader went on: free what nobody needs, and let the upstream go no further ahead than
 * is bearable. */
static void balance_pace(struct stream *stream)
{
    int64_t slowest, lag;

    if (stream->is_kept)
        lag = 0;
    else {
        slowest = slowest_bytes(stream);
        lag = stream->got_bytes - slowest;
        free_passed(stream, slowest);
    }
    if (stream->fetch == NULL)
        return;
    if (!stream->is_paused && lag > PAUSE_ABOVE_BYTES) {
        stream->is_paused = true;
        origin_pause(stream->fetch);
    } else if (stream->is_paused && lag < RESUME_BELOW_BYTES) {
        stream->is_paused = false;
        origin_resume(stream->fetch);
    }
}

static struct block *block_with_room(struct stream *stream)
{
    size_t room = BLOCK_BYTES;
    struct block *last = stream->block_count > stream->freed ? stream->blocks[stream->block_count - 1] : NULL;

    if (last != NULL && last->len < last->room)
        return last;
    if (stream->content_length > stream->got_bytes &&
        stream->content_length - stream->got_bytes < BLOCK_BYTES)
        room = (size_t)(stream->content_length - stream->got_bytes);
    else if (stream->got_bytes == 0 && stream->content_length < 0)
        room = FIRST_BLOCK_BYTES;
    if (stream->block_count == stream->block_room) {
        stream->block_room = stream->block_room == 0 ? 8 : stream->block_room * 2;
        stream->blocks = must_realloc(stream->blocks, stream->block_room * sizeof(*stream->blocks));
    }
    return stream->blocks[stream->block_count++] = block_new(room);
}

static void append(struct stream *stream, struct slice bytes)
{
    while (bytes.len > 0) {
        struct block *block = block_with_room(stream);
        size_t some = block->room - block->len < bytes.len ? block->room - block->len : bytes.len;

        memcpy(block->bytes + block->len, bytes.base, some);
        block->len += some;
        stream->got_bytes += (int64_t)some;
        bytes.base += some;
        bytes.len -= some;
    }
}

/* Readers may leave, join and end others from inside on_more: each is taken off the list before it is told,
 * and those still to be told count as readers meanwhile. One that finds nothing and waits again is not told
 * twice. */
static void wake_readers(struct stream *stream)
{
    list_move_all(&stream->waking, &stream->waiting);
    while (!list_is_empty(&stream->waking)) {
        struct stream_reader *reader = LIST_OWNER(stream->waking.next, struct stream_reader, link);

        list_leave(&reader->link);
        list_append(&stream->readers, &reader->link);
        reader->is_waiting = false;
        reader->on_more(reader->arg);
    }
}

/* ---- what the origin tells ---- */

static void copy_headers(struct stream *stream, const struct origin_response *head)
{
    size_t bytes = head->header_count * sizeof(struct header);
    char *to;

    for (size_t i = 0; i < head->header_count; i++)
        bytes += head->headers[i].name.len + head->headers[i].value.len;
    stream->headers = must_alloc(bytes + 1);
    stream->header_count = head->header_count;
    to = (char *)(stream->headers + head->header_count);
    for (size_t i = 0; i < head->header_count; i++) {
        const struct header *from = &head->headers[i];

        memcpy(to, from->name.base, from->name.len);
        stream->headers[i].name = slice_of(to, from->name.len);
        to += from->name.len;
        if (from->value.len > 0)
            memcpy(to, from->value.base, from->value.len);
        stream->headers[i].value = slice_of(to, from->value.len);
        to += from->value.len;
    }
}

static void take_head(struct stream *stream, const struct origin_response *head, int64_t waited_us)
{
    copy_headers(stream, head);
    stream->has_head = true;
    stream->status = head->status;
    stream->content_length = head->content_length;
    stream->is_until_close = head->until_close;
    stream->waited_us = waited_us;
    stream->head_at = clock_mono();
    site_count_upstream(stream->site, stream->upstream, stream->status, FAULT_NONE, stream->waited_us);
    if (stream->owner != NULL && stream->owner->on_head != NULL)
        stream->owner->on_head(stream->owner_arg); /* may end us */
}

static void on_origin_head(void *arg, const struct origin_response *head)
{
    struct stream *stream = arg;

    take_head(stream, head, origin_waited_us(stream->fetch));
}

static void on_origin_switched(void *arg, const struct origin_response *head, struct origin_tunnel *tunnel,
                               int64_t waited_us)
{
    struct stream *stream = arg;

    stream->fetch = NULL;
    stream->has_ended = true;
    stream->tunnel = tunnel;
    take_head(stream, head, waited_us);
}

static void on_origin_body(void *arg, struct slice bytes)
{
    struct stream *stream = arg;

    stream->refs++;
    append(stream, bytes);
    if (stream->is_kept && stream->got_bytes > (int64_t)stream->keep_max_bytes) {
        stream->is_kept = false;
        if (stream->owner != NULL && stream->owner->on_overflow != NULL)
            stream->owner->on_overflow(stream->owner_arg);
    }
    wake_readers(stream);
    balance_pace(stream);
    stream_unref(stream);
}

static void on_origin_end(void *arg, enum fault fault)
{
    struct stream *stream = arg;

    stream->refs++;
    stream->fetch = NULL;
    stream->has_ended = true;
    stream->fault = fault;
    if (fault != FAULT_NONE)
        site_count_upstream(stream->site, stream->upstream, 0, fault, 0);
    if (stream->owner != NULL && stream->owner->on_end != NULL)
        stream->owner->on_end(stream->owner_arg);
    wake_readers(stream);
    stream_unref(stream);
}

static void on_origin_interim(void *arg, const struct origin_response *interim)
{
    struct stream *stream = arg;

    if (stream->owner != NULL && stream->owner->on_interim != NULL)
        stream->owner->on_interim(stream->owner_arg, interim);
}

static const struct origin_events ORIGIN_EVENTS = {on_origin_head, on_origin_body, on_origin_end,
                                                   on_origin_interim, on_origin_switched};

/* ---- public ---- */

struct stream *stream_start(struct site *site, const struct upstream_rule *upstream,
                            const struct origin_request *request, const struct stream_owner *owner,
                            void *owner_arg)
{
    struct stream *stream = must_alloc(sizeof(*stream));

    stream->refs = 1;
    stream->site = site_hold(site);
    stream->upstream = upstream;
    stream->owner = owner;
    stream->owner_arg = owner_arg;
    stream->content_length = -1;
    list_init(&stream->readers);
    list_init(&stream->waiting);
    list_init(&stream->waking);
    stream->fetch = origin_start(site_origin(site, upstream), request, &ORIGIN_EVENTS, stream);
    return stream;
}

static void cancel_fetch(struct stream *stream)
{
    if (stream->fetch == NULL)
        return;
    origin_cancel(&stream->fetch);
    stream->has_ended = true;
    stream->fault = FAULT_CLIENT_LEFT;
}

bool stream_is_unanswered(const struct stream *stream)
{
    return stream != NULL && !stream->has_head && (!stream->has_ended || fault_leaves_doubt(stream->fault));
}

void stream_disown(struct stream **taken, bool cancel)
{
    struct stream *stream = *taken;

    *taken = NULL;
    if (stream == NULL)
        return;
    stream->owner = NULL;
    if (cancel || !has_readers(stream))
        cancel_fetch(stream);
    stream_unref(stream);
}

struct origin_tunnel *stream_take_tunnel(struct stream *stream)
{
    struct origin_tunnel *tunnel = stream->tunnel;

    stream->tunnel = NULL;
    return tunnel;
}

bool stream_outlives_client(struct stream *stream)
{
    return stream->fetch != NULL && origin_let_go_of_body(stream->fetch);
}

void stream_pass_on(struct stream *stream, const struct stream_owner *owner, void *owner_arg)
{
    stream->owner = owner;
    stream->owner_arg = owner_arg;
}

void stream_keep(struct stream *stream, size_t max_bytes)
{
    CHECK(stream->got_bytes == 0);
    stream->is_kept = stream->content_length <= (int64_t)max_bytes;
    stream->keep_max_bytes = max_bytes;
}

bool stream_join(struct stream *stream, struct stream_reader *reader, void (*on_more)(void *arg), void *arg)
{
    if (stream->freed_bytes > 0)
        return false;
    *reader = (struct stream_reader){.stream = stream, .on_more = on_more, .arg = arg, .is_joined = true};
    list_init(&reader->link);
    list_append(&stream->readers, &reader->link);
    stream->refs++;
    return true;
}

/* The last reader to leave a stream that nobody owns ends it: there is no one left to read it for. */
void stream_leave(struct stream_reader *reader)
{
    struct stream *stream = reader->stream;

    if (!reader->is_joined)
        return;
    list_leave(&reader->link);
    reader->is_joined = false;
    reader->stream = NULL;
    if (stream->owner == NULL && !has_readers(stream))
        cancel_fetch(stream);
    else
        balance_pace(stream);
    stream_unref(stream);
}

static enum client_piece ending(const struct stream *stream, const struct stream_reader *reader)
{
    if (!stream->has_ended || reader->read_bytes < stream->got_bytes)
        return CLIENT_MORE;
    return stream->fault == FAULT_NONE ? CLIENT_LAST : CLIENT_BROKEN;
}

size_t stream_read(struct stream_reader *reader, struct slice *pieces, size_t room, enum client_piece *how)
{
    struct stream *stream = reader->stream;
    size_t count = 0, taken = 0;

    reader->held_bytes = reader->read_bytes;
    while (count < room && taken < READ_MAX_BYTES && reader->block < stream->block_count) {
        const struct block *block = stream->blocks[reader->block];
        size_t some = block->len - reader->offset;

        if (some > 0) {
            pieces[count++] = slice_of(block->bytes + reader->offset, some);
            taken += some;
            reader->offset += some;
            reader->read_bytes += (int64_t)some;
        }
        if (block->len < block->room)
            break; /* it may still grow: stay in it */
        reader->block++;
        reader->offset = 0;
    }
    *how = ending(stream, reader);
    if (count == 0 && *how == CLIENT_MORE) {
        reader->is_waiting = true;
        list_leave(&reader->link);
        list_append(&stream->waiting, &reader->link);
    }
    balance_pace(stream);
    return count;
}
