/* Unpack: in which form does a client get an answer that is kept compressed; and the plain one, a piece at a time.
 *
 * A Range is always of the plain form: a part of one coding must not be joined to a part of another, and a client that
 * asks for parts need not have begun with the one that it would get now.
 */
#include "exchange.h"
#include "coding.h"
#include "gzip.h"
#include "loop.h"

enum {
    PLAIN_ROOM = 32 << 10,
    ROUNDS_PER_TURN = 16, /* of what is skipped for a Range: half a megabyte, some two milliseconds */
};

static bool is_get(const struct exchange *exchange)
{
    return slice_eq(exchange->head->method, SLICE("GET"));
}

static struct form form_from(struct exchange *exchange, const struct header *headers, size_t count,
                             bool is_gzip, int64_t body_bytes)
{
    struct header *out = client_alloc(exchange->client, (count + 2) * sizeof(*out));
    char *room = client_alloc(exchange->client, coding_text_bytes(headers, count) + 1);

    return (struct form){out, coding_write_head(headers, count, is_gzip, out, room), body_bytes, false};
}

static bool gets_gzip(struct exchange *exchange, const struct object *object)
{
    enum coding_wish wish = coding_wish_of(exchange->fields, exchange->field_count);
    bool wants_part = exchange->range.base != NULL && is_get(exchange);

    if (wish == CODING_PLAIN || coding_is_forbidden(object->headers, object->header_count))
        return false;
    if (wish == CODING_GZIP_ONLY)
        exchange->range = slice_of(NULL, 0); /* which may always be ignored */
    return wish == CODING_GZIP_ONLY || !wants_part;
}

struct form form_of_object(struct exchange *exchange, const struct object *object)
{
    bool is_gzip;
    struct form form;

    if (object->plain_bytes == 0)
        return (struct form){object->headers, object->header_count, object->body_bytes, false};
    is_gzip = gets_gzip(exchange, object);
    form = form_from(exchange, object->headers, object->header_count, is_gzip,
                     is_gzip ? object->body_bytes : object->plain_bytes);
    form.is_unpacked = !is_gzip;
    return form;
}

/* Its bytes go out as they came; but who asks later may get the other form. */
struct form form_of_stream(struct exchange *exchange, const struct stream *stream, int64_t content_length)
{
    const struct cache_rule *rule = exchange->is_shaped ? exchange->route->cache : NULL;

    if (rule == NULL || rule->compress_count == 0 || stream->status == 206 ||
        (content_length >= 0 && content_length < CODING_LEAST_BYTES) ||
        !coding_may_compress(stream->headers, stream->header_count, rule->compress, rule->compress_count))
        return (struct form){stream->headers, stream->header_count, content_length, false};
    return form_from(exchange, stream->headers, stream->header_count, false, content_length);
}

/* ---- the plain body ---- */

static void begin(struct exchange *exchange)
{
    const struct object *object = exchange->object;

    exchange->unpacker = unpacker_new(object->blocks, object->block_count, object->plain_bytes);
    exchange->plain_room = client_alloc(exchange->client, PLAIN_ROOM);
    timer_init(&exchange->unpack_next, send_unpacked, exchange);
}

void send_unpacked(void *arg)
{
    struct exchange *exchange = arg;

    exchange->is_sending = false;
    if (!is_get(exchange) || window_is_done(exchange)) {
        send_pieces(exchange, NULL, 0, CLIENT_LAST);
        return;
    }
    if (exchange->unpacker == NULL)
        begin(exchange);
    for (int round = 0; round < ROUNDS_PER_TURN; round++) {
        size_t made, count;
        enum unpacked got = unpacker_next(exchange->unpacker, exchange->plain_room, PLAIN_ROOM, &made);
        struct slice piece = slice_of(exchange->plain_room, made);
        enum client_piece how = CLIENT_MORE;

        count = got == UNPACKED_BROKEN || made == 0 ? 0 : window_cut(exchange, &piece, 1);
        if (got == UNPACKED_BROKEN)
            how = CLIENT_BROKEN;
        else if (got == UNPACKED_ALL || window_is_done(exchange))
            how = CLIENT_LAST;
        if (count > 0 || how != CLIENT_MORE) {
            send_pieces(exchange, &piece, count, how);
            return;
        }
    }
    timer_start(exchange->story->loop, &exchange->unpack_next, loop_now(exchange->story->loop));
}

void stage_unpack_left(struct exchange *exchange)
{
    if (exchange->unpacker != NULL)
        timer_cancel(exchange->story->loop, &exchange->unpack_next);
    unpacker_free(&exchange->unpacker);
}
