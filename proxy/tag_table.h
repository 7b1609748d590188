/* Tag table: when was each tag last invalidated, hard or softly, and below which epoch is everything taken for
 * invalidated?
 *
 * Bounded: beyond `max_tags` the oldest stamp is forgotten and the floor raised to it, which costs misses and
 * never brings back what was invalidated. Private to near.c. Sharded, a mutex each; the floor is read without
 * one.
 */
#ifndef WEIR_TAG_TABLE_H
#define WEIR_TAG_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tag_table;

/* What one tag costs at most, for the one who turns a byte budget into `max_tags`. */
enum { TAG_TABLE_BYTES_PER_TAG = 72 };

struct tag_table *tag_table_new(size_t max_tags,
                                uint64_t secret); /* secret: makes the hash chains unpredictable */
void tag_table_free(struct tag_table *table);

/* Each records only upwards and tells whether anything changed. */
bool tag_table_stamp(struct tag_table *table, uint64_t print, int64_t epoch, bool is_soft);
bool tag_table_raise_floor(struct tag_table *table, int64_t floor);

/* Is something of `epoch` with these tags invalid? What was stamped before the call is seen by it. Soft stamps are no
 * reason. */
bool tag_table_outdates(struct tag_table *table, int64_t epoch, const uint64_t *prints, size_t count);
/* The highest soft stamp of these tags; 0: none. */
int64_t tag_table_soft(struct tag_table *table, const uint64_t *prints, size_t count);

int64_t tag_table_floor(const struct tag_table *table);
size_t tag_table_bytes(const struct tag_table *table); /* lock-free */
size_t tag_table_count(struct tag_table *table);

#endif
