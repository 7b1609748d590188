#include "entry.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

/* FNV-1a: any function of the bytes will do here. */
static uint64_t checksum(const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    uint64_t sum = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < len; i++)
        sum = (sum ^ at[i]) * UINT64_C(1099511628211);
    return sum;
}

static uint64_t blind_checksum(const void *bytes, size_t len) /* lets a test tell any lie */
{
    (void)bytes;
    (void)len;
    return 0;
}

static const struct header headers[] = {{{"content-type", 12}, {"text/plain", 10}},
                                        {{"x-empty", 7}, {"", 0}},
                                        {{"etag", 4}, {"\"\xc3\xa4\"", 4}}};
static const struct slice tags[] = {{"product:42", 10}, {"report", 6}};
static const struct slice pieces[] = {{"hello, ", 7}, {NULL, 0}, {"wor", 3}, {"ld", 2}};
static const struct entry sample = {.status = 203,
                                    .epoch = INT64_C(1790000000123456),
                                    .headers = headers,
                                    .header_count = 3,
                                    .tags = tags,
                                    .tag_count = 2,
                                    .body = pieces,
                                    .body_count = 4};

/* The whole entry, in memory of exactly its size, so that a sanitizer sees one byte too many. */
static unsigned char *encode(const struct entry *entry, entry_checksum *sum, size_t *len)
{
    size_t head_bytes = entry_head_bytes(entry), at = head_bytes;

    cr_assert(head_bytes > 0);
    *len = head_bytes;
    for (size_t i = 0; i < entry->body_count; i++)
        *len += entry->body[i].len;
    unsigned char *out = malloc(*len);
    entry_encode_head(entry, sum, out);
    for (size_t i = 0; i < entry->body_count; i++) {
        if (entry->body[i].len > 0)
            memcpy(out + at, entry->body[i].base, entry->body[i].len);
        at += entry->body[i].len;
    }
    return out;
}

static enum entry_fault decode(const unsigned char *bytes, size_t len, entry_checksum *sum,
                               struct entry_view *view)
{
    unsigned char *exact = malloc(len == 0 ? 1 : len);
    memcpy(exact, bytes, len);
    enum entry_fault fault = entry_decode(slice_of((const char *)exact, len), sum, view);
    free(exact); /* the view is only for those who decode in place */
    return fault;
}

Test(entry, comes_back_as_it_was)
{
    size_t len;
    unsigned char *bytes = encode(&sample, checksum, &len);
    struct entry_view view;

    cr_assert_eq(entry_decode(slice_of((char *)bytes, len), checksum, &view), ENTRY_OK);
    cr_assert_eq(view.status, 203);
    cr_assert_eq(view.epoch, sample.epoch);
    cr_assert_eq(view.header_count, 3);
    for (size_t i = 0; i < 3; i++) {
        cr_assert(slice_eq(view.headers[i].name, headers[i].name));
        cr_assert(slice_eq(view.headers[i].value, headers[i].value));
    }
    cr_assert_eq(view.tag_count, 2);
    for (size_t i = 0; i < 2; i++)
        cr_assert(slice_eq(view.tags[i], tags[i]));
    cr_assert(slice_eq(view.body, SLICE("hello, world")));
    cr_assert_eq((const unsigned char *)view.body.base, bytes + len - 12, "in place, not copied");
    free(bytes);
}

Test(entry, the_least_one_comes_back_too)
{
    static const struct entry least = {.status = 204};
    size_t len;
    unsigned char *bytes = encode(&least, checksum, &len);
    struct entry_view view;

    cr_assert_eq(len, 48);
    cr_assert_eq(entry_decode(slice_of((char *)bytes, len), checksum, &view), ENTRY_OK);
    cr_assert_eq(view.status, 204);
    cr_assert_eq(view.header_count + view.tag_count + view.body.len + view.plain_bytes, 0);
    free(bytes);
}

Test(entry, a_packed_body_comes_back_with_its_plain_length_and_nothing_is_no_packed_body)
{
    static const struct slice body[] = {{"hi", 2}, {"", 0}};
    struct entry entry = {.status = 200, .body = body, .body_count = 1, .plain_bytes = 0x01020304};
    size_t len;
    unsigned char *bytes = encode(&entry, blind_checksum, &len);
    struct entry_view view;

    cr_assert_eq(decode(bytes, len, blind_checksum, &view), ENTRY_OK);
    cr_assert_eq(view.plain_bytes, 0x01020304);
    free(bytes);
    entry.body++;
    cr_assert_eq(entry_head_bytes(&entry), 0);
    entry.plain_bytes = 0;
    bytes = encode(&entry, blind_checksum, &len);
    bytes[36] = 1;
    cr_assert_eq(decode(bytes, len, blind_checksum, &view), ENTRY_BAD_LENGTHS);
    free(bytes);
}

Test(entry, its_form_is_the_documented_one)
{
    /* a golden copy: whoever changes a byte of this must raise ENTRY_VERSION, as old entries live on in the
     * store */
    static const struct slice body[] = {{"hi", 2}};
    static const struct header header[] = {{{"a", 1}, {"bc", 2}}};
    static const struct slice tag[] = {{"t", 1}};
    static const struct entry entry = {200, 0x0102030405060708, header, 1, tag, 1, body, 1, 0};
    static const unsigned char want[] = {
        'w', 'E', 'n', 't', 1, 0, 200, 0,   72,  0,  0, 0, 1, 0, 1, 0, /* magic, version, status, head,
                                                                          headers, tags */
        8,   7,   6,   5,   4, 3, 2,   1,   2,   0,  0, 0, 0, 0, 0, 0, 1,
        0,   0,   0,   0,   0, 0, 0,                       /* epoch, body, pieces, 0 */
        1,   0,   2,   0,   0, 0, 'a', 'b', 'c',           /* a header */
        1,   0,   't',                                     /* a tag */
        2,   0,   0,   0,   0, 0, 0,   0,   0,   0,  0, 0, /* a piece */
        0,   0,   0,   0,   0, 0, 0,   0,   'h', 'i'};     /* checksum, body */
    size_t len;
    unsigned char *bytes = encode(&entry, blind_checksum, &len);

    cr_assert_eq(len, sizeof(want));
    cr_assert_eq(memcmp(bytes, want, len), 0);
    free(bytes);
}

Test(entry, the_bounds_themselves_fit)
{
    struct entry_view view;
    struct header many[ENTRY_MAX_HEADERS];
    struct slice many_tags[ENTRY_MAX_TAGS];
    struct slice *many_pieces = malloc(ENTRY_MAX_PIECES * sizeof(*many_pieces));
    size_t len;

    for (size_t i = 0; i < ENTRY_MAX_HEADERS; i++)
        many[i] = headers[i % 3];
    for (size_t i = 0; i < ENTRY_MAX_TAGS; i++)
        many_tags[i] = tags[i % 2];
    for (size_t i = 0; i < ENTRY_MAX_PIECES; i++)
        many_pieces[i] = SLICE("x");
    struct entry entry = {200,       INT64_MAX,      many,        ENTRY_MAX_HEADERS,
                          many_tags, ENTRY_MAX_TAGS, many_pieces, ENTRY_MAX_PIECES,
                          UINT32_MAX};
    unsigned char *bytes = encode(&entry, checksum, &len);
    cr_assert_eq(entry_decode(slice_of((char *)bytes, len), checksum, &view), ENTRY_OK);
    cr_assert_eq(view.body.len, ENTRY_MAX_PIECES);
    cr_assert_eq(view.epoch, INT64_MAX);
    cr_assert_eq(view.plain_bytes, UINT32_MAX);
    free(bytes);
    free(many_pieces);
}

Test(entry, what_could_not_be_read_back_is_not_written)
{
    static const struct header bad_headers[] = {
        {{"Content-Type", 12}, {"x", 1}}, {{"", 0}, {"x", 1}},
        {{"a b", 3}, {"x", 1}},           {{"a:", 2}, {"x", 1}},
        {{"a", 1}, {"x\r\ny", 4}},        {{"a", 1}, {"x\0", 2}},
        {{"a\n", 2}, {"x", 1}},
    };
    static const struct slice no_tag = {"", 0};
    static const struct slice huge_piece = {"", (size_t)UINT32_MAX + 1};
    size_t long_bytes = ENTRY_MAX_HEAD_BYTES;
    char *long_text = malloc(long_bytes);
    memset(long_text, 'x', long_bytes);
    const struct header long_name = {slice_of(long_text, 65536), SLICE("")};
    const struct header long_value = {SLICE("a"), slice_of(long_text, long_bytes)};
    const struct slice long_tag = slice_of(long_text, 65536);
    struct entry entry;

    for (size_t i = 0; i < sizeof(bad_headers) / sizeof(bad_headers[0]); i++) {
        entry = (struct entry){.status = 200, .headers = &bad_headers[i], .header_count = 1};
        cr_assert_eq(entry_head_bytes(&entry), 0, "header %zu", i);
    }
    entry = (struct entry){.status = 200, .headers = &long_name, .header_count = 1};
    cr_assert_eq(entry_head_bytes(&entry), 0);
    entry = (struct entry){.status = 200, .headers = &long_value, .header_count = 1};
    cr_assert_eq(entry_head_bytes(&entry), 0);
    entry = (struct entry){.status = 200, .tags = &long_tag, .tag_count = 1};
    cr_assert_eq(entry_head_bytes(&entry), 0);
    entry = (struct entry){.status = 200, .tags = &no_tag, .tag_count = 1};
    cr_assert_eq(entry_head_bytes(&entry), 0);
    entry = (struct entry){.status = 200, .body = &huge_piece, .body_count = 1};
    cr_assert_eq(entry_head_bytes(&entry), 0);
    entry = (struct entry){.status = 200, .header_count = ENTRY_MAX_HEADERS + 1};
    cr_assert_eq(entry_head_bytes(&entry), 0);
    entry = (struct entry){.status = 200, .tag_count = ENTRY_MAX_TAGS + 1};
    cr_assert_eq(entry_head_bytes(&entry), 0);
    entry = (struct entry){.status = 200, .body_count = ENTRY_MAX_PIECES + 1};
    cr_assert_eq(entry_head_bytes(&entry), 0);
    entry = (struct entry){.status = 200, .epoch = -1};
    cr_assert_eq(entry_head_bytes(&entry), 0);
    entry = (struct entry){.status = 199};
    cr_assert_eq(entry_head_bytes(&entry), 0);
    entry = (struct entry){.status = 600};
    cr_assert_eq(entry_head_bytes(&entry), 0);
    free(long_text);
}

Test(entry, cut_anywhere_it_is_refused)
{
    size_t len;
    unsigned char *bytes = encode(&sample, checksum, &len);
    struct entry_view view;

    for (size_t cut = 0; cut < len; cut++)
        cr_assert_eq(decode(bytes, cut, checksum, &view), ENTRY_TRUNCATED, "at %zu", cut);
    free(bytes);
}

Test(entry, with_a_byte_more_it_is_refused)
{
    size_t len;
    unsigned char *bytes = encode(&sample, checksum, &len), *longer = malloc(len + 1);
    struct entry_view view;

    memcpy(longer, bytes, len);
    longer[len] = 'x';
    cr_assert_eq(decode(longer, len + 1, checksum, &view), ENTRY_TRAILING);
    free(longer);
    free(bytes);
}

Test(entry, any_bit_that_turned_is_noticed)
{
    size_t len;
    unsigned char *bytes = encode(&sample, checksum, &len);
    struct entry_view view;

    for (size_t bit = 0; bit < len * 8; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        cr_assert_neq(decode(bytes, len, checksum, &view), ENTRY_OK, "bit %zu", bit);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    cr_assert_eq(decode(bytes, len, checksum, &view), ENTRY_OK);
    free(bytes);
}

Test(entry, lies_that_the_checksum_confirms_are_refused_by_name)
{
    static const struct {
        const char *why;
        size_t at;
        unsigned char byte;
        enum entry_fault want;
    } rows[] = {
        {"another magic", 0, 'W', ENTRY_NOT_ONE},
        {"a later version", 4, ENTRY_VERSION + 1, ENTRY_UNKNOWN_VERSION},
        {"a version far later", 5, 1, ENTRY_UNKNOWN_VERSION},
        {"an earlier one", 4, 0, ENTRY_UNKNOWN_VERSION},
        {"status 65xxx", 7, 0xff, ENTRY_BAD_FIELD},
        {"status 3", 6, 3, ENTRY_BAD_FIELD},
        {"a head shorter than the least", 8, 47, ENTRY_BAD_LENGTHS},
        {"a head longer than the bound", 11, 0x10, ENTRY_BAD_LENGTHS},
        {"a head longer than there is", 9, 0x10, ENTRY_TRUNCATED},
        {"more headers than there are", 12, 9, ENTRY_BAD_LENGTHS},
        {"more headers than the bound", 13, 1, ENTRY_BAD_LENGTHS},
        {"fewer headers", 12, 2, ENTRY_BAD_LENGTHS},
        {"more tags than there are, of no bytes", 14, 9, ENTRY_BAD_FIELD},
        {"more tags than the bound", 14, ENTRY_MAX_TAGS + 1, ENTRY_BAD_LENGTHS},
        {"an epoch above what a number holds", 23, 0x80, ENTRY_BAD_FIELD},
        {"a longer body", 24, 13, ENTRY_TRUNCATED},
        {"a body of 2^56", 31, 1, ENTRY_TRUNCATED},
        {"a shorter body", 24, 11, ENTRY_TRAILING},
        {"more pieces than there are", 32, 5, ENTRY_BAD_LENGTHS},
        {"fewer pieces", 32, 3, ENTRY_BAD_LENGTHS},
        {"four billion pieces", 35, 0xff, ENTRY_BAD_LENGTHS},
        {"a longer name", 40, 13, ENTRY_BAD_FIELD},
        {"a name longer than the head", 41, 0xff, ENTRY_BAD_LENGTHS},
        {"no name", 40, 0, ENTRY_BAD_FIELD},
        {"a value longer than the head", 45, 0xff, ENTRY_BAD_LENGTHS},
        {"an upper-case name", 46, 'C', ENTRY_BAD_FIELD},
        {"a line end in a name", 47, '\n', ENTRY_BAD_FIELD},
        {"a line end in a value", 60, '\r', ENTRY_BAD_FIELD},
        {"a NUL in a value", 60, 0, ENTRY_BAD_FIELD},
    };
    size_t len;
    unsigned char *bytes = encode(&sample, blind_checksum, &len);
    struct entry_view view;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        unsigned char was = bytes[rows[i].at];
        bytes[rows[i].at] = rows[i].byte;
        enum entry_fault got = decode(bytes, len, blind_checksum, &view);
        cr_expect_eq(got, rows[i].want, "%s: %s", rows[i].why, entry_fault_name(got));
        bytes[rows[i].at] = was;
    }
    cr_assert_eq(decode(bytes, len, blind_checksum, &view), ENTRY_OK);
    free(bytes);
}

Test(entry, pieces_that_do_not_make_up_the_body_are_refused)
{
    size_t len;
    unsigned char *bytes = encode(&sample, blind_checksum, &len);
    struct entry_view view;
    size_t table = entry_head_bytes(&sample) - 8 - 4 * 12;

    bytes[table] = 8; /* of 12 bytes of body the pieces say 13 */
    cr_assert_eq(decode(bytes, len, blind_checksum, &view), ENTRY_BAD_LENGTHS);
    bytes[table] = 6; /* and 11 */
    cr_assert_eq(decode(bytes, len, blind_checksum, &view), ENTRY_BAD_LENGTHS);
    free(bytes);
}

Test(entry, every_fault_has_a_name_of_its_own)
{
    for (int a = ENTRY_OK; a <= ENTRY_BAD_FIELD; a++)
        for (int b = ENTRY_OK; b <= a; b++)
            cr_assert_eq(
                strcmp(entry_fault_name((enum entry_fault)a), entry_fault_name((enum entry_fault)b)) == 0,
                a == b);
}
