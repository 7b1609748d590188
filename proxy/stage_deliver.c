/* Deliver: the head a client gets, then the body, at the client's pace. */
#include "exchange.h"
#include "clock.h"
#include "hop_headers.h"
#include "http_date.h"
#include "loop.h"
#include "response_control.h"

enum { PIECES_PER_SEND = 16, VIA_ROOM = 512 };

/* ---- the head ---- */

static struct header *fields_new(struct exchange *exchange, size_t theirs)
{
    return client_alloc(exchange->client, (theirs + OWN_FIELDS_MAX) * sizeof(struct header));
}

/* What we say of the answer ourselves replaces what the upstream said under the same name. */
static bool is_replaced(const struct exchange *exchange, struct slice name, bool is_object)
{
    if (slice_eq(name, SLICE("x-cache")))
        return site_settings(exchange->site)->headers.x_cache;
    if (slice_eq(name, SLICE("age")))
        return is_object;
    if (slice_eq(name, SLICE("surrogate-control"))) /* it was for us: who comes behind is no surrogate */
        return exchange->is_cache_route;
    return slice_eq(name, SLICE("via")) || slice_eq(name, SLICE("date")); /* the front writes it */
}

/* Is the answer another client's load, so that what is withheld from others is withheld from this one? */
static bool is_anothers(const struct exchange *exchange)
{
    return exchange->result == CACHE_WAIT && exchange->reader.is_joined;
}

static size_t add_theirs(struct exchange *exchange, const struct shape *shape, const struct header *theirs,
                         size_t their_count, bool is_object, struct header *out)
{
    size_t count = 0, room = VIA_ROOM, len;
    char *via;

    for (size_t i = 0; i < their_count; i++)
        if (!is_replaced(exchange, theirs[i].name, is_object) && shape_passes_field(shape, theirs[i].name) &&
            !(is_anothers(exchange) && response_control_withholds(theirs, their_count, theirs[i].name)))
            out[count++] = theirs[i];
    via = client_alloc(exchange->client, room);
    len = via_write(theirs, their_count, false, SLICE("weir"), via, room);
    if (len > room) {
        via = client_alloc(exchange->client, len);
        len = via_write(theirs, their_count, false, SLICE("weir"), via, len);
    }
    out[count++] = (struct header){SLICE("via"), slice_of(via, len)};
    return count;
}

static size_t add_cache_status(struct exchange *exchange, struct header *out, size_t count)
{
    struct cache_status status = {
        .forward = exchange->forward,
        .forward_status = exchange->forward == FORWARD_NONE ? 0 : exchange->origin_status,
        .is_stored = exchange->is_stored,
        .is_collapsed = exchange->result == CACHE_WAIT && exchange->forward != FORWARD_NONE,
        .detail = exchange->cache_detail,
    };
    struct text text = text_in(client_alloc(exchange->client, CACHE_STATUS_ROOM), CACHE_STATUS_ROOM);

    if (exchange->has_key && site_settings(exchange->site)->headers.cache_key)
        status.key = slice_of((const char *)exchange->own_key.bytes, sizeof(exchange->own_key.bytes));
    if (exchange->object != NULL) {
        int64_t left_ms = exchange->object->fresh_until.ms - loop_now(exchange->story->loop).ms;

        status.has_ttl = true;
        status.ttl_s = left_ms >= 0 ? left_ms / 1000 : -((999 - left_ms) / 1000);
    }
    cache_status_write(&status, &text);
    out[count] = (struct header){SLICE("cache-status"), text_slice(&text)};
    return count + 1;
}

static size_t add_cache_fields(struct exchange *exchange, struct header *out, size_t count)
{
    const struct header_settings *headers = &site_settings(exchange->site)->headers;

    if (headers->x_cache)
        out[count++] = (struct header){SLICE("x-cache"), slice_text(cache_result_name(exchange->result))};
    if (headers->cache_status && exchange->is_cache_route)
        count = add_cache_status(exchange, out, count);
    if (exchange->was_deferred)
        out[count++] = (struct header){SLICE("warning"),
                                       SLICE("199 weir \"invalidation kept until the store is back\"")};
    if (exchange->lacks_tags)
        out[count++] =
            (struct header){SLICE("warning"),
                            SLICE("199 weir \"invalidation incomplete: the answer does not name its tags\"")};
    return count;
}

/* When the upstream made the answer, in the one spelling that may be sent; what is no date is left out, and the
 * front writes when we answered. */
static struct slice date_of(struct exchange *exchange, const struct header *headers, size_t count)
{
    struct wall_s made;
    char *text;

    for (size_t i = 0; i < count; i++) {
        if (!slice_eq(headers[i].name, SLICE("date")))
            continue;
        if (!http_date_parse(headers[i].value, clock_wall(), &made))
            break;
        text = client_alloc(exchange->client, HTTP_DATE_BYTES);
        http_date_write(made, text);
        return slice_of(text, HTTP_DATE_BYTES);
    }
    return slice_of(NULL, 0);
}

struct header *switch_fields(struct exchange *exchange, const struct stream *answer, size_t *count_out)
{
    static const struct shape whole = {.kind = SHAPE_WHOLE};
    struct header *fields = fields_new(exchange, answer->header_count);
    size_t count = add_theirs(exchange, &whole, answer->headers, answer->header_count, false, fields);

    count = add_cache_fields(exchange, fields, count);
    *count_out = add_ratelimit_fields(exchange, fields, count);
    return fields;
}

static void start(struct exchange *exchange, struct header *fields, size_t count, int64_t content_length,
                  struct slice date, void (*on_ready)(void *))
{
    struct response_head head = {exchange->status, fields, count, content_length, date};

    exchange->is_started = true;
    client_start(exchange->client, &head, on_ready, exchange);
}

void send_pieces(struct exchange *exchange, const struct slice *pieces, size_t count, enum client_piece how)
{
    for (size_t i = 0; i < count; i++)
        exchange->body_bytes += (int64_t)pieces[i].len;
    if (how == CLIENT_MORE)
        exchange->is_sending = true;
    else
        move_to(exchange, STAGE_ANSWERED);
    client_send(exchange->client, pieces, count, how); /* may end the exchange */
}

/* ---- an object ---- */

static void send_object(void *arg)
{
    struct exchange *exchange = arg;
    struct object *object = exchange->object;
    struct slice pieces[PIECES_PER_SEND];
    size_t count = 0;
    bool is_whole;

    exchange->is_sending = false;
    if (exchange->parts != NULL) {
        count = parts_take(exchange, pieces, PIECES_PER_SEND);
        send_pieces(exchange, pieces, count, parts_are_done(exchange) ? CLIENT_LAST : CLIENT_MORE);
        return;
    }
    if (slice_eq(exchange->head->method, SLICE("HEAD"))) /* no body: nothing to send, nothing to count */
        exchange->object_block = object->block_count;
    while (!window_is_done(exchange) && count < PIECES_PER_SEND &&
           exchange->object_block < object->block_count) {
        struct block *block = object->blocks[exchange->object_block++];

        if (block->len > 0) {
            pieces[count] = slice_of(block->bytes, block->len);
            count += window_cut(exchange, &pieces[count], 1);
        }
    }
    is_whole = window_is_done(exchange) || exchange->object_block == object->block_count;
    send_pieces(exchange, pieces, count, is_whole ? CLIENT_LAST : CLIENT_MORE);
}

void stage_deliver_object(struct exchange *exchange, struct object *object)
{
    struct form form = form_of_object(exchange, object);
    struct header *fields = fields_new(exchange, form.header_count);
    struct text age = text_in(client_alloc(exchange->client, AGE_ROOM), AGE_ROOM);
    struct shape shape;
    size_t count;

    move_to(exchange, STAGE_DELIVERING);
    exchange->object = object;
    shape = shape_of(exchange, object->status, form.headers, form.header_count, form.body_bytes);
    count = parts_open(exchange, &shape, fields, 0);
    window_open(exchange, &shape);
    exchange->status = shape.status;
    if (exchange->result == CACHE_REVALIDATED)
        exchange->origin_status = 304;
    count += add_theirs(exchange, &shape, form.headers, form.header_count, true, fields + count);
    count = add_content_range(exchange, &shape, fields, count);
    age_write(loop_now(exchange->story->loop).ms - object->born.ms, &age);
    fields[count++] = (struct header){SLICE("age"), text_slice(&age)};
    count = add_cache_fields(exchange, fields, count);
    count = add_ratelimit_fields(exchange, fields, count);
    start(exchange, fields, count, shape.content_length,
          date_of(exchange, object->headers, object->header_count),
          form.is_unpacked ? send_unpacked : send_object);
    if (form.is_unpacked)
        send_unpacked(exchange);
    else
        send_object(exchange);
}

/* ---- a stream ---- */

static void on_ready(void *arg);

static void start_stream(struct exchange *exchange)
{
    struct stream *stream = exchange->reader.stream;
    int64_t content_length = stream->content_length;
    struct header *fields;
    struct shape shape;
    struct form form;
    size_t count;

    /* All of it is here already: then its length is known, whatever the upstream said. */
    if (content_length < 0 && stream->has_ended && stream->fault == FAULT_NONE &&
        !slice_eq(exchange->head->method, SLICE("HEAD")))
        content_length = stream->got_bytes;
    form = form_of_stream(exchange, stream, content_length);
    fields = fields_new(exchange, form.header_count);
    shape = shape_of(exchange, stream->status, form.headers, form.header_count, content_length);
    window_open(exchange, &shape);
    exchange->status = shape.status;
    count = add_theirs(exchange, &shape, form.headers, form.header_count, false, fields);
    count = add_content_range(exchange, &shape, fields, count);
    count = add_cache_fields(exchange, fields, count);
    count = add_ratelimit_fields(exchange, fields, count);
    start(exchange, fields, count, shape.content_length,
          date_of(exchange, stream->headers, stream->header_count), on_ready);
}

static void pump(struct exchange *exchange)
{
    struct slice pieces[PIECES_PER_SEND];
    enum client_piece how;
    bool is_first = !exchange->is_started;
    size_t count, got = 0;

    if (is_first)
        start_stream(exchange);
    do { /* past what the client does not want, as far as it is here already */
        if (window_is_done(exchange)) {
            count = 0;
            how = CLIENT_LAST;
            break;
        }
        got = stream_read(&exchange->reader, pieces, PIECES_PER_SEND, &how);
        count = window_cut(exchange, pieces, got);
    } while (count == 0 && got > 0 && how == CLIENT_MORE);
    if (how != CLIENT_BROKEN && window_is_done(exchange))
        how = CLIENT_LAST;
    if (count > 0 || how != CLIENT_MORE || is_first)
        send_pieces(exchange, pieces, count, how);
}

static void on_ready(void *arg)
{
    struct exchange *exchange = arg;

    exchange->is_sending = false;
    pump(exchange);
}

static void on_more(void *arg)
{
    struct exchange *exchange = arg;

    if (exchange->is_started && !exchange->is_sending)
        pump(exchange);
}

static void first_pump(void *arg)
{
    pump(arg);
}

/* The first send waits for the end of the turn, so that a head and what came with it leave in one write. */
void stage_deliver_stream(struct exchange *exchange, struct stream *stream)
{
    move_to(exchange, STAGE_DELIVERING);
    exchange->status = exchange->origin_status = stream->status;
    if (!stream_join(stream, &exchange->reader, on_more, exchange)) {
        refuse_fault(exchange, FAULT_ORIGIN_BROKE);
        return;
    }
    task_init(&exchange->first_pump, LOOP_SEND, first_pump, exchange);
    loop_defer(exchange->story->loop, &exchange->first_pump);
}
