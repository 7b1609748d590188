/* Entry: the binary form in which a stored response travels to the shared store and back. */
#include "entry.h"

#include "check.h"
#include "http_char.h"

enum {
    FIXED_BYTES = 40,
    HEADER_BYTES = 6, /* before the bytes of a name and a value */
    TAG_BYTES = 2,
    PIECE_BYTES = 12,
    CHECKSUM_BYTES = 8,
    MAX_NAME_BYTES = 65535,
    MAX_TAG_BYTES = 65535,
    STATUS_MIN = 200,
    STATUS_MAX = 599,
};

static const char magic[4] = {'w', 'E', 'n', 't'};

/* What may stand in a field on its way to a client. Both sides hold to it: what we would refuse to read we do
 * not write. */

static bool is_stored_name(struct slice name) /* a token in lower case */
{
    for (size_t i = 0; i < name.len; i++)
        if (name.base[i] != ascii_lower(name.base[i]))
            return false;
    return is_token(name) && name.len <= MAX_NAME_BYTES;
}

static bool is_stored_value(struct slice value)
{
    return is_value(value) && value.len <= ENTRY_MAX_HEAD_BYTES;
}

static bool is_status(int status)
{
    return status >= STATUS_MIN && status <= STATUS_MAX;
}

static bool is_tag(struct slice tag)
{
    return tag.len > 0 && tag.len <= MAX_TAG_BYTES;
}

/* ---- writing ---- */

static unsigned char *put_number(unsigned char *at, uint64_t number, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(number >> (8 * i));
    return at + bytes;
}

static unsigned char *put_bytes(unsigned char *at, struct slice bytes)
{
    if (bytes.len > 0)
        memcpy(at, bytes.base, bytes.len);
    return at + bytes.len;
}

static uint64_t body_bytes(const struct entry *entry)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < entry->body_count; i++)
        bytes += entry->body[i].len;
    return bytes;
}

size_t entry_head_bytes(const struct entry *entry)
{
    size_t bytes = FIXED_BYTES + CHECKSUM_BYTES;

    if (!is_status(entry->status) || entry->epoch < 0 || entry->header_count > ENTRY_MAX_HEADERS ||
        entry->tag_count > ENTRY_MAX_TAGS || entry->body_count > ENTRY_MAX_PIECES ||
        (entry->plain_bytes > 0 && body_bytes(entry) == 0))
        return 0;
    for (size_t i = 0; i < entry->header_count; i++) {
        const struct header *header = &entry->headers[i];
        if (!is_stored_name(header->name) || !is_stored_value(header->value))
            return 0;
        bytes += HEADER_BYTES + header->name.len + header->value.len;
    }
    for (size_t i = 0; i < entry->tag_count; i++) {
        if (!is_tag(entry->tags[i]))
            return 0;
        bytes += TAG_BYTES + entry->tags[i].len;
    }
    for (size_t i = 0; i < entry->body_count; i++)
        if (entry->body[i].len > UINT32_MAX)
            return 0;
    bytes += entry->body_count * PIECE_BYTES;
    return bytes <= ENTRY_MAX_HEAD_BYTES ? bytes : 0;
}

void entry_encode_head(const struct entry *entry, entry_checksum *checksum, void *out)
{
    size_t head_bytes = entry_head_bytes(entry);
    unsigned char *start = out, *at = put_bytes(start, slice_of(magic, sizeof(magic)));

    CHECK(head_bytes > 0);
    at = put_number(at, ENTRY_VERSION, 2);
    at = put_number(at, (uint64_t)entry->status, 2);
    at = put_number(at, head_bytes, 4);
    at = put_number(at, entry->header_count, 2);
    at = put_number(at, entry->tag_count, 2);
    at = put_number(at, (uint64_t)entry->epoch, 8);
    at = put_number(at, body_bytes(entry), 8);
    at = put_number(at, entry->body_count, 4);
    at = put_number(at, entry->plain_bytes, 4);
    for (size_t i = 0; i < entry->header_count; i++) {
        at = put_number(at, entry->headers[i].name.len, 2);
        at = put_number(at, entry->headers[i].value.len, 4);
        at = put_bytes(at, entry->headers[i].name);
        at = put_bytes(at, entry->headers[i].value);
    }
    for (size_t i = 0; i < entry->tag_count; i++) {
        at = put_number(at, entry->tags[i].len, 2);
        at = put_bytes(at, entry->tags[i]);
    }
    for (size_t i = 0; i < entry->body_count; i++) {
        at = put_number(at, entry->body[i].len, 4);
        at = put_number(at, checksum(entry->body[i].base, entry->body[i].len), 8);
    }
    at = put_number(at, checksum(start, (size_t)(at - start)), CHECKSUM_BYTES);
    CHECK((size_t)(at - start) == head_bytes);
}

/* ---- reading ---- */

/* What is left of the head. Taking more than there is gives zero and empty ones, and `is_short` stays set. */
struct reader {
    const unsigned char *at;
    size_t left;
    bool is_short;
};

static struct slice take_bytes(struct reader *reader, uint64_t len)
{
    struct slice out = {(const char *)reader->at, 0};

    if (len > reader->left) {
        reader->is_short = true;
        return out;
    }
    out.len = (size_t)len;
    reader->at += out.len;
    reader->left -= out.len;
    return out;
}

static uint64_t take_number(struct reader *reader, int bytes)
{
    struct slice digits = take_bytes(reader, (uint64_t)bytes);
    uint64_t number = 0;

    for (size_t i = 0; i < digits.len; i++)
        number |= (uint64_t)(unsigned char)digits.base[i] << (8 * i);
    return number;
}

/* The fixed part, as it was written. */
struct fixed {
    uint64_t status, head_bytes, header_count, tag_count, epoch, body_bytes, piece_count, plain_bytes;
};

/* Magic, version, head checksum: only after these is anything believed. Leaves `reader` just behind the fixed
 * part, ending before the checksum. */
static enum entry_fault open_head(struct slice bytes, entry_checksum *checksum, struct reader *reader,
                                  struct fixed *fixed)
{
    *reader = (struct reader){.at = (const unsigned char *)bytes.base, .left = bytes.len};
    if (bytes.len < FIXED_BYTES + CHECKSUM_BYTES)
        return ENTRY_TRUNCATED;
    if (!slice_eq(take_bytes(reader, sizeof(magic)), slice_of(magic, sizeof(magic))))
        return ENTRY_NOT_ONE;
    if (take_number(reader, 2) != ENTRY_VERSION)
        return ENTRY_UNKNOWN_VERSION;
    fixed->status = take_number(reader, 2);
    fixed->head_bytes = take_number(reader, 4);
    fixed->header_count = take_number(reader, 2);
    fixed->tag_count = take_number(reader, 2);
    fixed->epoch = take_number(reader, 8);
    fixed->body_bytes = take_number(reader, 8);
    fixed->piece_count = take_number(reader, 4);
    fixed->plain_bytes = take_number(reader, 4);
    if (fixed->head_bytes < FIXED_BYTES + CHECKSUM_BYTES || fixed->head_bytes > ENTRY_MAX_HEAD_BYTES)
        return ENTRY_BAD_LENGTHS;
    if (fixed->head_bytes > bytes.len)
        return ENTRY_TRUNCATED;

    size_t checked = (size_t)fixed->head_bytes - CHECKSUM_BYTES;
    struct reader tail = {.at = (const unsigned char *)bytes.base + checked, .left = CHECKSUM_BYTES};
    if (take_number(&tail, CHECKSUM_BYTES) != checksum(bytes.base, checked))
        return ENTRY_BAD_CHECKSUM;
    reader->left = checked - FIXED_BYTES;
    return ENTRY_OK;
}

static enum entry_fault read_headers(struct reader *reader, struct entry_view *view)
{
    for (size_t i = 0; i < view->header_count; i++) {
        struct header *header = &view->headers[i];
        uint64_t name_len = take_number(reader, 2), value_len = take_number(reader, 4);
        header->name = take_bytes(reader, name_len);
        header->value = take_bytes(reader, value_len);
        if (reader->is_short)
            return ENTRY_BAD_LENGTHS;
        if (!is_stored_name(header->name) || !is_stored_value(header->value))
            return ENTRY_BAD_FIELD;
    }
    return ENTRY_OK;
}

static enum entry_fault read_tags(struct reader *reader, struct entry_view *view)
{
    for (size_t i = 0; i < view->tag_count; i++) {
        view->tags[i] = take_bytes(reader, take_number(reader, 2));
        if (reader->is_short)
            return ENTRY_BAD_LENGTHS;
        if (!is_tag(view->tags[i]))
            return ENTRY_BAD_FIELD;
    }
    return ENTRY_OK;
}

/* The table of pieces must fill what is left of the head, and the pieces the body. */
static enum entry_fault check_body(struct reader *reader, uint64_t piece_count, struct slice body,
                                   entry_checksum *checksum)
{
    struct reader rest = {.at = (const unsigned char *)body.base, .left = body.len};

    if (piece_count > ENTRY_MAX_PIECES || reader->left != piece_count * PIECE_BYTES)
        return ENTRY_BAD_LENGTHS;
    for (uint64_t i = 0; i < piece_count; i++) {
        struct slice piece = take_bytes(&rest, take_number(reader, 4));
        uint64_t expected = take_number(reader, 8);
        if (rest.is_short)
            return ENTRY_BAD_LENGTHS;
        if (checksum(piece.base, piece.len) != expected)
            return ENTRY_BAD_CHECKSUM;
    }
    return rest.left == 0 ? ENTRY_OK : ENTRY_BAD_LENGTHS;
}

enum entry_fault entry_decode(struct slice bytes, entry_checksum *checksum, struct entry_view *view)
{
    struct reader reader;
    struct fixed fixed;
    enum entry_fault fault = open_head(bytes, checksum, &reader, &fixed);

    if (fault != ENTRY_OK)
        return fault;
    if (fixed.header_count > ENTRY_MAX_HEADERS || fixed.tag_count > ENTRY_MAX_TAGS ||
        (fixed.plain_bytes > 0 && fixed.body_bytes == 0))
        return ENTRY_BAD_LENGTHS;
    if (!is_status((int)fixed.status) || fixed.epoch > INT64_MAX)
        return ENTRY_BAD_FIELD;
    view->status = (int)fixed.status;
    view->epoch = (int64_t)fixed.epoch;
    view->header_count = (size_t)fixed.header_count;
    view->tag_count = (size_t)fixed.tag_count;
    view->plain_bytes = (uint32_t)fixed.plain_bytes;

    size_t head_bytes = (size_t)fixed.head_bytes;
    if (bytes.len - head_bytes < fixed.body_bytes)
        return ENTRY_TRUNCATED;
    if (bytes.len - head_bytes > fixed.body_bytes)
        return ENTRY_TRAILING;
    view->body = slice_of(bytes.base + head_bytes, bytes.len - head_bytes);

    fault = read_headers(&reader, view);
    if (fault == ENTRY_OK)
        fault = read_tags(&reader, view);
    if (fault == ENTRY_OK)
        fault = check_body(&reader, fixed.piece_count, view->body, checksum);
    return fault;
}

const char *entry_fault_name(enum entry_fault fault)
{
    /* clang-format off */
    switch (fault) {
    case ENTRY_OK:              return "ok";
    case ENTRY_TRUNCATED:       return "truncated";
    case ENTRY_TRAILING:        return "trailing";
    case ENTRY_NOT_ONE:         return "not_one";
    case ENTRY_UNKNOWN_VERSION: return "unknown_version";
    case ENTRY_BAD_CHECKSUM:    return "bad_checksum";
    case ENTRY_BAD_LENGTHS:     return "bad_lengths";
    case ENTRY_BAD_FIELD:       return "bad_field";
    }
    /* clang-format on */
    return "unknown";
}
