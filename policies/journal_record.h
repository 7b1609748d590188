/* Journal record: the binary form in which an invalidation that the store was not told of yet waits in a file.
 *
 * A journal is JOURNAL_MAGIC and records, each with its length and a checksum, little-endian: length uint32, checksum
 * uint64 of what follows: kind byte ('k' it is kept, 'd' it is done), id uint64; of what is kept also the numbers of
 * tags and of soft ones (uint16 each, the soft ones are the first; no tags: everything), and each tag as length uint16
 * and bytes. Nobody but us should write such a file, and disks err: whatever stands there is read without trust.
 */
#ifndef WEIR_JOURNAL_RECORD_H
#define WEIR_JOURNAL_RECORD_H

#include "slice.h"

#include <stdint.h>

#define JOURNAL_MAGIC SLICE("weir-journal 1\n")

enum { JOURNAL_MAX_TAGS = 256, JOURNAL_MAX_RECORD_BYTES = 1 << 20 };

typedef uint64_t journal_checksum(const void *bytes, size_t len);

struct journal_record {
    bool is_done; /* the one of this id is; then it has no tags */
    uint64_t id;
    struct slice tags[JOURNAL_MAX_TAGS];
    size_t tag_count, soft_count; /* no tags: everything */
};

enum journal_read {
    JOURNAL_RECORD,  /* one was taken off the front */
    JOURNAL_END,     /* nothing is left */
    JOURNAL_DAMAGED, /* what follows cannot be told: an append that was cut short, or worse */
};

/* 0: it has too many tags, or too long ones, to be written. */
size_t journal_record_bytes(const struct journal_record *record);
void journal_record_write(const struct journal_record *record, journal_checksum *checksum, char *out);
/* The tags point into the bytes that were read. */
enum journal_read journal_record_read(struct slice *rest, journal_checksum *checksum,
                                      struct journal_record *out);

#endif
