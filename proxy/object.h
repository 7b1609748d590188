/* Object: one stored response, immutable and counted, shared by threads, near cache and answers under way.
 *
 * Its bytes are written once, before the first object_hold() by another thread; from then on only the count
 * changes. A body is a list of counted blocks, so that what a load received is stored and served without
 * being copied.
 */
#ifndef WEIR_OBJECT_H
#define WEIR_OBJECT_H

#include "slice.h"
#include "units.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct key32 { /* SHA-256 of the cache key */
    unsigned char bytes[32];
};

/* A counted run of bytes. `len` grows only while one thread fills it, and is fixed once the object is shared.
 */
struct block {
    _Atomic int refs;
    size_t len, room;
    char bytes[];
};

struct block *block_new(size_t room); /* one reference */
struct block *block_hold(struct block *block);
void block_release(struct block **block);

struct lifetimes { /* in ms from the moment the store took the entry; each counts from there, not from the one
                      before */
    int64_t fresh_ms; /* fresh until here */
    int64_t stale_ms; /* then served while one refresh runs, until here (>= fresh_ms) */
    int64_t error_ms; /* then only instead of an upstream error, until here (>= fresh_ms) */
    int64_t age_ms;   /* RFC 9111 section 4.2.3 age at that moment */
    int64_t
        keep_ms; /* until here it is worth asking the upstream whether it changed; below the others: as they */
};

struct object {
    _Atomic int refs;
    struct key32 key;
    int64_t epoch; /* the store's epoch when its load began */
    int64_t
        aged_epoch; /* soft invalidations up to here are in its moments already; >= epoch. Of what a shared
                           store handed out: and hard ones up to here have not made it void */
    int status;
    const struct header *headers; /* as sent to clients, end-to-end only, without age */
    size_t header_count;
    const struct slice *tags;
    const uint64_t
        *tag_prints; /* tag_print() of each, so that a check against the tag table hashes nothing */
    size_t tag_count;
    struct block **blocks;
    size_t block_count;
    int64_t body_bytes;
    int64_t
        plain_bytes; /* above 0: the body is our gzip of so many bytes, see coding.h. Set before it is shared */
    size_t footprint_bytes; /* all memory it costs, overhead included */
    /* On this process's monotonic clock, never later than the store's own idea of the same moments. */
    struct mono_ms fresh_until, stale_until, error_until, keep_until, born; /* born: when its age was 0 */
    /* near cache only, under its shard's lock */
    _Atomic int64_t checked_version; /* the tag table's version at which it was last found valid; 0: never */
};

/* Copies headers and tags, holds the blocks. Moments are now + lifetimes. One reference. The sizes are the
 * caller's to bound. */
struct object *object_new(const struct key32 *key, int64_t epoch, int status, const struct header *headers,
                          size_t header_count, const struct slice *tags, size_t tag_count,
                          struct block *const *blocks, size_t block_count, const struct lifetimes *lifetimes,
                          struct mono_ms now);
/* The same response, its body shared, whose freshness ended at `stale_at` at the latest: what is left after that of its
 * windows begins there. To be validated it stays as good as it was. One reference. */
struct object *object_aged(const struct object *object, struct mono_ms stale_at, int64_t aged_epoch);
/* The same response, its body and moments shared, as it would lie at another key. One reference. */
struct object *object_rekeyed(const struct object *object, const struct key32 *key);
struct object *object_hold(struct object *object);
void object_release(struct object **object); /* NULL is fine; takes and nulls it */
struct mono_ms
object_gone_at(const struct object *object); /* past every lifetime: of no more use to anybody */

/* A tag's 64 bits in the tag table. Two tags that share them share their invalidations: a miss too many,
 * never one too few. */
uint64_t tag_print(struct slice tag);

#endif
