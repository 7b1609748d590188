/* Journal record: see journal_record.h. */
#include "journal_record.h"

enum { FRAME_BYTES = 4 + 8, ID_BYTES = 1 + 8, COUNT_BYTES = 2 + 2, TAG_BYTES = 2, MAX_TAG_BYTES = 65535 };

/* ---- writing ---- */

static char *put_number(char *at, uint64_t number, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (char)(unsigned char)(number >> (8 * i));
    return at + bytes;
}

size_t journal_record_bytes(const struct journal_record *record)
{
    size_t bytes = FRAME_BYTES + ID_BYTES;

    if (record->is_done)
        return bytes;
    if (record->tag_count > JOURNAL_MAX_TAGS || record->soft_count > record->tag_count)
        return 0;
    bytes += COUNT_BYTES;
    for (size_t i = 0; i < record->tag_count; i++) {
        if (record->tags[i].len > MAX_TAG_BYTES)
            return 0;
        bytes += TAG_BYTES + record->tags[i].len;
    }
    return bytes > JOURNAL_MAX_RECORD_BYTES ? 0 : bytes;
}

void journal_record_write(const struct journal_record *record, journal_checksum *checksum, char *out)
{
    size_t bytes = journal_record_bytes(record) - FRAME_BYTES;
    char *body = out + FRAME_BYTES, *at = body;

    *at++ = record->is_done ? 'd' : 'k';
    at = put_number(at, record->id, 8);
    if (!record->is_done) {
        at = put_number(at, record->tag_count, 2);
        at = put_number(at, record->soft_count, 2);
        for (size_t i = 0; i < record->tag_count; i++) {
            at = put_number(at, record->tags[i].len, TAG_BYTES);
            if (record->tags[i].len > 0)
                memcpy(at, record->tags[i].base, record->tags[i].len);
            at += record->tags[i].len;
        }
    }
    put_number(put_number(out, bytes, 4), checksum(body, bytes), 8);
}

/* ---- reading ---- */

static bool take_number(struct slice *from, int bytes, uint64_t *out)
{
    if (from->len < (size_t)bytes)
        return false;
    *out = 0;
    for (int i = 0; i < bytes; i++)
        *out |= (uint64_t)(unsigned char)from->base[i] << (8 * i);
    *from = slice_of(from->base + bytes, from->len - (size_t)bytes);
    return true;
}

static bool take_tags(struct slice *body, struct journal_record *out)
{
    uint64_t count, soft, len;

    if (!take_number(body, 2, &count) || !take_number(body, 2, &soft) || count > JOURNAL_MAX_TAGS ||
        soft > count)
        return false;
    out->tag_count = (size_t)count;
    out->soft_count = (size_t)soft;
    for (size_t i = 0; i < out->tag_count; i++) {
        if (!take_number(body, TAG_BYTES, &len) || len > body->len)
            return false;
        out->tags[i] = slice_of(body->base, (size_t)len);
        *body = slice_of(body->base + len, body->len - (size_t)len);
    }
    return true;
}

static bool take_body(struct slice body, struct journal_record *out)
{
    char kind;

    if (body.len == 0)
        return false;
    kind = body.base[0];
    body = slice_of(body.base + 1, body.len - 1);
    out->is_done = kind == 'd';
    out->tag_count = out->soft_count = 0;
    if ((kind != 'd' && kind != 'k') || !take_number(&body, 8, &out->id))
        return false;
    return (out->is_done || take_tags(&body, out)) && body.len == 0;
}

enum journal_read journal_record_read(struct slice *rest, journal_checksum *checksum,
                                      struct journal_record *out)
{
    struct slice from = *rest;
    uint64_t len, sum;

    if (from.len == 0)
        return JOURNAL_END;
    if (!take_number(&from, 4, &len) || !take_number(&from, 8, &sum) || len > from.len ||
        len > JOURNAL_MAX_RECORD_BYTES)
        return JOURNAL_DAMAGED;
    if (checksum(from.base, (size_t)len) != sum || !take_body(slice_of(from.base, (size_t)len), out))
        return JOURNAL_DAMAGED;
    *rest = slice_of(from.base + len, from.len - (size_t)len);
    return JOURNAL_RECORD;
}
