/* Fuzz journal: no bytes of a journal's file may crash its reader, and a record that it takes is the same when it is
 * written and read once more. The first byte chooses the checksum, as in fuzz_entry.c. */
#include "check.h"
#include "digest.h"
#include "journal_record.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t agree(const void *bytes, size_t len)
{
    static volatile unsigned char touched;
    const unsigned char *at = bytes;

    for (size_t i = 0; i < len; i++)
        touched = at[i];
    return 0;
}

static void check_same_again(const struct journal_record *record, journal_checksum *checksum)
{
    static struct journal_record again;
    size_t len = journal_record_bytes(record);
    char *bytes;
    struct slice rest;

    CHECK(len > 0);
    bytes = malloc(len);
    CHECK(bytes != NULL);
    journal_record_write(record, checksum, bytes);
    rest = slice_of(bytes, len);
    CHECK(journal_record_read(&rest, checksum, &again) == JOURNAL_RECORD && rest.len == 0);
    CHECK(again.is_done == record->is_done && again.id == record->id &&
          again.tag_count == record->tag_count && again.soft_count == record->soft_count);
    for (size_t i = 0; i < record->tag_count; i++)
        CHECK(slice_eq(again.tags[i], record->tags[i]));
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct journal_record record;
    struct slice rest;

    if (size == 0)
        return 0;
    journal_checksum *checksum = data[0] % 2 == 0 ? digest_checksum : agree;
    rest = slice_of((const char *)data + 1, size - 1);
    while (journal_record_read(&rest, checksum, &record) == JOURNAL_RECORD)
        check_same_again(&record, checksum);
    return 0;
}
