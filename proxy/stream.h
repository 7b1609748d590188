/* Stream: one upstream answer as it arrives, kept in blocks and read by any number of clients at their own
 * pace.
 *
 * Counted: its owner (an exchange that went alone, or a flight) and each reader hold it. The owner is told of
 * the head and of the end; readers pull. Kept, all bytes stay (so that a latecomer may read from the start
 * and the whole can be stored); not kept, bytes that every reader has passed are freed and the upstream is
 * paused while the slowest is too far behind. While an owned stream has no reader yet nothing is freed, and
 * the upstream waits at the same bound.
 */
#ifndef WEIR_STREAM_H
#define WEIR_STREAM_H

#include "front.h"
#include "list.h"
#include "object.h"
#include "site.h"

struct stream {
    int refs;
    struct site *site;
    const struct upstream_rule *upstream;
    struct origin_fetch *fetch; /* NULL once ended or cancelled */
    const struct stream_owner *owner;
    void *owner_arg;
    /* the head, once has_head */
    bool has_head;
    int status;
    struct header *headers;
    size_t header_count;
    int64_t content_length;
    bool is_until_close;
    int64_t waited_us; /* from the request to the head */
    struct origin_tunnel
        *tunnel; /* owned: what the connection has become, with status 101; the stream has then ended */
    struct mono_ms head_at;
    /* the body so far */
    struct block **blocks;
    size_t block_count, block_room;
    size_t freed;        /* blocks before this index are gone */
    int64_t freed_bytes; /* how many bytes are */
    int64_t got_bytes;
    bool has_ended;
    enum fault fault;
    /* keeping */
    bool is_kept;
    size_t keep_max_bytes;
    bool is_paused;
    struct link readers, waiting, waking; /* each reader is in one of them */
};

struct stream_owner { /* all may be NULL; none runs inside stream_start() */
    void (*on_head)(void *arg);
    void (*on_overflow)(void *arg); /* more than keep_max_bytes: no longer kept */
    void (*on_end)(void *arg);      /* see has_ended, fault */
    void (*on_interim)(void *arg, const struct origin_response *interim); /* before on_head, see origin.h */
};

struct stream_reader { /* embedded in an exchange; zeroed, then stream_join() */
    struct stream *stream;
    struct link link;
    size_t block, offset; /* first byte not read yet */
    int64_t read_bytes;   /* its position in the body */
    int64_t held_bytes;   /* where that begins which the client may still be sending */
    void (*on_more)(void *arg);
    void *arg;
    bool is_joined, is_waiting;
};

/* Starts the upstream request; see origin_start() for what is copied. One reference, the owner's. */
struct stream *stream_start(struct site *site, const struct upstream_rule *upstream,
                            const struct origin_request *request, const struct stream_owner *owner,
                            void *owner_arg);
/* Gives the owner's reference back; its callbacks will not run any more. With `cancel` the upstream request
 * ends too. */
void stream_disown(struct stream **stream, bool cancel);
/* The upstream was asked, may have done what it was asked to, and has not said so. NULL was never asked. */
bool stream_is_unanswered(const struct stream *stream);
/* The tunnel of a 101 passes to the caller: the stream was of no body, and is only to be disowned. Else NULL. */
struct origin_tunnel *stream_take_tunnel(struct stream *stream);
/* True: the request has left whole, and goes on without the memory its body is in. False: it cannot. */
bool stream_outlives_client(struct stream *stream);
/* From now on another is told; its reference, too, is the other's. */
void stream_pass_on(struct stream *stream, const struct stream_owner *owner, void *owner_arg);
void stream_keep(struct stream *stream,
                 size_t max_bytes); /* before the first body byte, i.e. in on_head at the latest */

/* Joins at the first byte: only while nothing was freed (always so when kept). `on_more` runs when bytes or
 * the end arrive after a stream_read() that found none. */
bool stream_join(struct stream *stream, struct stream_reader *reader, void (*on_more)(void *arg), void *arg);
void stream_leave(struct stream_reader *reader); /* fine when not joined */

/* The next pieces, at most `room`; those of the previous read are given back. 0 with CLIENT_MORE: wait for
 * on_more. */
size_t stream_read(struct stream_reader *reader, struct slice *pieces, size_t room, enum client_piece *how);

#endif
