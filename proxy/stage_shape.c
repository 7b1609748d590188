/* Shape: what of a whole answer does this client get: all of it, a part, or only the word that it has it
 * already? The client's conditions and its Range are ours to obey wherever the upstream was not told of them.
 */
#include "exchange.h"
#include "clock.h"
#include "part.h"

static bool is_success(int status)
{
    return status >= 200 && status <= 299;
}

static bool is_get(const struct exchange *exchange)
{
    return slice_eq(exchange->head->method, SLICE("GET"));
}

static void shape_range(struct exchange *exchange, const struct header *headers, size_t count,
                        int64_t body_bytes, struct wall_s now, struct shape *shape)
{
    struct byte_range part;

    if (!condition_permits_range(&exchange->conditions, headers, count, now))
        return;
    switch (range_read_parts(exchange->range, body_bytes, shape->parts, &shape->part_count)) {
    case RANGE_WHOLE: return;
    case RANGE_PARTS:
        if (exchange->object == NULL) /* of what is still coming the whole is as soon there */
            return;
        if (exchange->object->plain_bytes > 0) /* and of what is to be unpacked */
            return;
        shape->kind = SHAPE_PARTS;
        shape->status = 206;
        return;
    case RANGE_PART:
        part = shape->parts[0];
        shape->kind = SHAPE_PART;
        shape->status = 206;
        shape->part = part;
        shape->content_length = part.last - part.first + 1;
        shape->skip_bytes = part.first;
        return;
    case RANGE_UNSATISFIABLE:
        shape->kind = SHAPE_UNSATISFIABLE;
        shape->status = 416;
        shape->content_length = 0;
        return;
    }
}

/* A range within a part that is stored. */
static void shape_part(struct exchange *exchange, struct shape *shape)
{
    if (!part_gives(exchange->object, exchange->range, &shape->part, &shape->skip_bytes, &shape->whole_bytes))
        return;
    shape->kind = SHAPE_PART;
    shape->content_length = shape->part.last - shape->part.first + 1;
}

struct shape shape_of(struct exchange *exchange, int status, const struct header *headers, size_t count,
                      int64_t body_bytes)
{
    struct shape shape = {
        .kind = SHAPE_WHOLE, .status = status, .content_length = body_bytes, .whole_bytes = body_bytes};
    struct wall_s now;

    if (!exchange->is_shaped || !is_success(status))
        return shape;
    now = clock_wall();
    if (condition_says_unmodified(&exchange->conditions, exchange->fields, exchange->field_count, headers,
                                  count, now)) {
        shape.kind = SHAPE_UNMODIFIED;
        shape.status = 304;
        shape.content_length = -1;
    } else if (exchange->cuts_part) {
        shape_part(exchange, &shape);
    } else if (exchange->range.base != NULL && is_get(exchange) && status == 200 && body_bytes >= 0) {
        shape_range(exchange, headers, count, body_bytes, now, &shape);
    }
    return shape;
}

bool shape_passes_field(const struct shape *shape, struct slice name)
{
    switch (shape->kind) {
    case SHAPE_WHOLE: return true;
    case SHAPE_PART: return !slice_eq(name, SLICE("content-range"));
    case SHAPE_PARTS:
        return !slice_eq(name, SLICE("content-range")) && !slice_eq(name, SLICE("content-type"));
    case SHAPE_UNMODIFIED: return field_belongs_in_304(name);
    case SHAPE_UNSATISFIABLE:
        return slice_eq(name, SLICE("date")); /* the rest is about the body that is not sent */
    }
    return true;
}

size_t add_content_range(struct exchange *exchange, const struct shape *shape, struct header *out,
                         size_t count)
{
    struct text text;

    if (shape->kind != SHAPE_PART && shape->kind != SHAPE_UNSATISFIABLE)
        return count;
    text = text_in(client_alloc(exchange->client, CONTENT_RANGE_ROOM), CONTENT_RANGE_ROOM);
    content_range_write(shape->kind == SHAPE_PART ? &shape->part : NULL, shape->whole_bytes, &text);
    out[count] = (struct header){SLICE("content-range"), text_slice(&text)};
    return count + 1;
}

void window_open(struct exchange *exchange, const struct shape *shape)
{
    exchange->has_window = shape->kind != SHAPE_WHOLE && shape->kind != SHAPE_PARTS;
    exchange->skip_bytes = shape->kind == SHAPE_PART ? shape->skip_bytes : 0;
    exchange->left_bytes = shape->kind == SHAPE_PART ? shape->content_length : 0;
}

size_t window_cut(struct exchange *exchange, struct slice *pieces, size_t count)
{
    size_t kept = 0;

    if (!exchange->has_window)
        return count;
    for (size_t i = 0; i < count; i++) {
        struct slice piece = pieces[i];
        size_t skipped = exchange->skip_bytes < (int64_t)piece.len ? (size_t)exchange->skip_bytes : piece.len;

        exchange->skip_bytes -= (int64_t)skipped;
        piece = slice_of(piece.base + skipped, piece.len - skipped);
        if (exchange->left_bytes < (int64_t)piece.len)
            piece.len = (size_t)exchange->left_bytes;
        exchange->left_bytes -= (int64_t)piece.len;
        if (piece.len > 0)
            pieces[kept++] = piece;
    }
    return kept;
}

bool window_is_done(const struct exchange *exchange)
{
    return exchange->has_window && exchange->left_bytes == 0;
}
