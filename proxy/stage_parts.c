/* Parts: several ranges of a whole answer that is stored, as one body of type multipart/byteranges (RFC 9110 section 14.6).
 *
 * Each part has a head of its own; their bytes are those of the object, not copied. The boundary is drawn by lot: nobody who
 * writes the answer can know it, so nothing in it can pass for one.
 */
#include "exchange.h"
#include "store.h"

enum { BOUNDARY_ROOM = 48, TYPE_ROOM = 96, HEAD_ROOM = 160 /* beside the content's type */ };

struct parts {
    struct byte_range ranges[RANGE_MAX_PARTS];
    struct slice heads[RANGE_MAX_PARTS];
    size_t count, at;
    bool has_head; /* that of the part at `at` is out */
    int64_t next;  /* byte of the object */
    size_t block;  /* which begins at: */
    int64_t block_start;
    struct slice tail;
    bool is_done;
};

static struct slice boundary_new(struct exchange *exchange)
{
    static const char digits[] = "0123456789abcdef";
    struct load_token lot = load_token_new();
    uint64_t words[] = {lot.hi, lot.lo};
    struct text text = text_in(client_alloc(exchange->client, BOUNDARY_ROOM), BOUNDARY_ROOM);

    text_add(&text, SLICE("part-"));
    for (size_t i = 0; i < 2; i++)
        for (int shift = 60; shift >= 0; shift -= 4)
            text_add_char(&text, digits[words[i] >> shift & 15]);
    return text_slice(&text);
}

static struct slice content_type_of(const struct object *object)
{
    for (size_t i = 0; i < object->header_count; i++)
        if (slice_eq(object->headers[i].name, SLICE("content-type")))
            return object->headers[i].value;
    return slice_of(NULL, 0);
}

static struct slice head_new(struct exchange *exchange, struct slice boundary, const struct byte_range *range,
                             bool is_first)
{
    struct slice type = content_type_of(exchange->object);
    size_t room = HEAD_ROOM + type.len;
    struct text text = text_in(client_alloc(exchange->client, room), room);

    text_add(&text, is_first ? SLICE("--") : SLICE("\r\n--"));
    text_add(&text, boundary);
    if (type.base != NULL) {
        text_add(&text, SLICE("\r\ncontent-type: "));
        text_add(&text, type);
    }
    text_add(&text, SLICE("\r\ncontent-range: "));
    content_range_write(range, exchange->object->body_bytes, &text);
    text_add(&text, SLICE("\r\n\r\n"));
    return text_slice(&text);
}

static struct slice joined(struct exchange *exchange, struct slice before, struct slice boundary,
                           struct slice after)
{
    struct text text = text_in(client_alloc(exchange->client, TYPE_ROOM), TYPE_ROOM);

    text_add(&text, before);
    text_add(&text, boundary);
    text_add(&text, after);
    return text_slice(&text);
}

size_t parts_open(struct exchange *exchange, struct shape *shape, struct header *out, size_t count)
{
    struct parts *parts;
    struct slice boundary;
    int64_t bytes;

    if (shape->kind != SHAPE_PARTS)
        return count;
    parts = client_alloc(exchange->client, sizeof(*parts));
    boundary = boundary_new(exchange);
    parts->count = shape->part_count;
    parts->tail = joined(exchange, SLICE("\r\n--"), boundary, SLICE("--\r\n"));
    bytes = (int64_t)parts->tail.len;
    for (size_t i = 0; i < parts->count; i++) {
        parts->ranges[i] = shape->parts[i];
        parts->heads[i] = head_new(exchange, boundary, &shape->parts[i], i == 0);
        bytes += (int64_t)parts->heads[i].len + shape->parts[i].last - shape->parts[i].first + 1;
    }
    if (bytes >= exchange->object->body_bytes) {
        shape->kind = SHAPE_WHOLE;
        shape->status = exchange->object->status;
        return count;
    }
    exchange->parts = parts;
    shape->content_length = bytes;
    out[count] =
        (struct header){SLICE("content-type"),
                        joined(exchange, SLICE("multipart/byteranges; boundary="), boundary, SLICE(""))};
    return count + 1;
}

/* The bytes of the part from where it stands to the end of their block at most. */
static struct slice next_bytes(struct parts *parts, const struct object *object)
{
    const struct byte_range *range = &parts->ranges[parts->at];
    const struct block *block = object->blocks[parts->block];
    struct slice bytes;

    while (parts->next >= parts->block_start + (int64_t)block->len) {
        parts->block_start += (int64_t)block->len;
        block = object->blocks[++parts->block];
    }
    bytes = slice_of(block->bytes + (parts->next - parts->block_start),
                     block->len - (size_t)(parts->next - parts->block_start));
    if ((int64_t)bytes.len > range->last + 1 - parts->next)
        bytes.len = (size_t)(range->last + 1 - parts->next);
    parts->next += (int64_t)bytes.len;
    return bytes;
}

size_t parts_take(struct exchange *exchange, struct slice *pieces, size_t room)
{
    struct parts *parts = exchange->parts;
    size_t count = 0;

    while (count < room && !parts->is_done) {
        if (parts->at == parts->count) {
            pieces[count++] = parts->tail;
            parts->is_done = true;
        } else if (!parts->has_head) {
            pieces[count++] = parts->heads[parts->at];
            parts->next = parts->ranges[parts->at].first;
            parts->has_head = true;
        } else if (parts->next <= parts->ranges[parts->at].last) {
            pieces[count++] = next_bytes(parts, exchange->object);
        } else {
            parts->at++;
            parts->has_head = false;
        }
    }
    return count;
}

bool parts_are_done(const struct exchange *exchange)
{
    return exchange->parts->is_done;
}
