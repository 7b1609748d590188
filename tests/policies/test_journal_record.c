/* Journal record: what is written is read again, and what was cut short or damaged is never taken for something. */
#include "journal_record.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static uint64_t checksum(const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    uint64_t sum = 1469598103934665603u;

    for (size_t i = 0; i < len; i++)
        sum = (sum ^ at[i]) * 1099511628211u;
    return sum;
}

static struct journal_record sample(void)
{
    return (struct journal_record){.id = 0xfedcba9876543210u,
                                   .tags = {{"report", 6}, {"", 0}, {"a\0b", 3}},
                                   .tag_count = 3,
                                   .soft_count = 1};
}

static size_t write(const struct journal_record *record, char *out)
{
    journal_record_write(record, checksum, out);
    return journal_record_bytes(record);
}

Test(journal_record, what_is_written_is_read_again)
{
    struct journal_record kept = sample(), done = {.is_done = true, .id = 7}, all = {.id = 8}, out;
    char bytes[512];
    size_t len = 0;
    struct slice rest;

    len += write(&kept, bytes);
    len += write(&done, bytes + len);
    len += write(&all, bytes + len);
    rest = slice_of(bytes, len);
    cr_assert_eq(journal_record_read(&rest, checksum, &out), JOURNAL_RECORD);
    cr_assert(!out.is_done && out.id == kept.id && out.tag_count == 3 && out.soft_count == 1);
    for (size_t i = 0; i < 3; i++)
        cr_assert(slice_eq(out.tags[i], kept.tags[i]));
    cr_assert_eq(journal_record_read(&rest, checksum, &out), JOURNAL_RECORD);
    cr_assert(out.is_done && out.id == 7);
    cr_assert_eq(journal_record_read(&rest, checksum, &out), JOURNAL_RECORD);
    cr_assert(!out.is_done && out.id == 8 && out.tag_count == 0, "no tags: everything");
    cr_assert_eq(journal_record_read(&rest, checksum, &out), JOURNAL_END);
}

Test(journal_record, wherever_it_is_cut_it_is_damaged)
{
    struct journal_record kept = sample(), out;
    char bytes[512];
    size_t len = write(&kept, bytes);

    for (size_t cut = 1; cut < len; cut++) {
        struct slice rest = slice_of(bytes, cut);

        cr_assert_eq(journal_record_read(&rest, checksum, &out), JOURNAL_DAMAGED, "cut at %zu", cut);
        cr_assert_eq(rest.len, cut, "nothing was taken");
    }
}

Test(journal_record, any_bit_that_differs_is_damage)
{
    struct journal_record kept = sample(), out;
    char bytes[512];
    size_t len = write(&kept, bytes);

    for (size_t bit = 0; bit < 8 * len; bit++) {
        struct slice rest = slice_of(bytes, len);

        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
        cr_assert_eq(journal_record_read(&rest, checksum, &out), JOURNAL_DAMAGED, "bit %zu", bit);
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
    }
}

/* A checksum says that the bytes are as they were written, not that we wrote them. */
static uint64_t agree(const void *bytes, size_t len)
{
    (void)bytes, (void)len;
    return 0;
}

Test(journal_record, what_does_not_add_up_is_damage_with_the_right_checksum_too)
{
    static const struct {
        const char *why;
        const char bytes[24];
        size_t len;
    } rows[] = {
        {"no body", {0}, 12},
        {"another kind", {9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'x', 0, 0, 0, 0, 0, 0, 0, 0}, 21},
        {"an id that ends early", {5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'd', 1, 2, 3, 4}, 17},
        {"done, and more", {10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'd', 0, 0, 0, 0, 0, 0, 0, 0, 9}, 22},
        {"kept, without numbers", {9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'k', 0, 0, 0, 0, 0, 0, 0, 0}, 21},
        {"zeros, as a crash may leave them", {0}, 24},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct slice rest = slice_of(rows[i].bytes, rows[i].len);
        struct journal_record out;

        cr_assert_eq(journal_record_read(&rest, agree, &out), JOURNAL_DAMAGED, "%s", rows[i].why);
    }
}

Test(journal_record, more_soft_tags_than_tags_or_more_tags_than_bytes_are_damage)
{
    struct journal_record kept = sample(), out;
    char bytes[512];
    size_t len;
    struct slice rest;

    journal_record_write(&kept, agree, bytes);
    len = journal_record_bytes(&kept);
    bytes[12 + 9 + 2] = 4; /* soft of 3 */
    rest = slice_of(bytes, len);
    cr_assert_eq(journal_record_read(&rest, agree, &out), JOURNAL_DAMAGED);
    bytes[12 + 9 + 2] = 1;
    bytes[12 + 9] = 9; /* tags */
    rest = slice_of(bytes, len);
    cr_assert_eq(journal_record_read(&rest, agree, &out), JOURNAL_DAMAGED);
    bytes[12 + 9 + 1] = 2; /* above JOURNAL_MAX_TAGS */
    rest = slice_of(bytes, len);
    cr_assert_eq(journal_record_read(&rest, agree, &out), JOURNAL_DAMAGED);
}

Test(journal_record, what_is_too_much_for_a_record_is_not_written)
{
    static char long_tag[1 << 16];
    struct journal_record record = {.tag_count = JOURNAL_MAX_TAGS + 1};

    cr_assert_eq(journal_record_bytes(&record), 0);
    record = (struct journal_record){.tags = {{long_tag, sizeof(long_tag)}}, .tag_count = 1};
    cr_assert_eq(journal_record_bytes(&record), 0);
    record.tags[0].len--;
    cr_assert_neq(journal_record_bytes(&record), 0);
    record.tag_count = 20;
    for (size_t i = 0; i < 20; i++)
        record.tags[i] = slice_of(long_tag, sizeof(long_tag) - 1);
    cr_assert_eq(journal_record_bytes(&record), 0, "a megabyte is enough");
    record = (struct journal_record){.tag_count = 1, .soft_count = 2};
    cr_assert_eq(journal_record_bytes(&record), 0);
}
