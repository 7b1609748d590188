/* Object: see object.h. One allocation holds the struct, its arrays and their bytes; only the blocks are
 * apart. */
#include "object.h"

#include "check.h"
#include "digest.h"
#include "memory.h"

#include <stdlib.h>

/* What malloc keeps beside each allocation, about; the budget of the near cache counts it. */
enum { ALLOCATION_OVERHEAD_BYTES = 16 };

/* Lifetimes come from headers. Beyond this (some thousand years) they are all the same, and sums stay far
 * from overflow. */
static const int64_t LONGEST_LIFE_MS = (int64_t)1 << 47;

struct block *block_new(size_t room)
{
    CHECK(room <= SIZE_MAX / 2);
    struct block *block = malloc(sizeof(*block) + room); /* not zeroed: it is about to be filled */

    CHECK(block != NULL);
    atomic_init(&block->refs, 1);
    block->len = 0;
    block->room = room;
    return block;
}

struct block *block_hold(struct block *block)
{
    int before = atomic_fetch_add_explicit(&block->refs, 1, memory_order_relaxed);

    CHECK(before > 0);
    return block;
}

void block_release(struct block **block)
{
    struct block *gone = *block;

    *block = NULL;
    if (gone == NULL)
        return;
    int before = atomic_fetch_sub_explicit(&gone->refs, 1, memory_order_acq_rel);

    CHECK(before > 0);
    if (before == 1)
        free(gone);
}

static int64_t within(int64_t value, int64_t least)
{
    if (value < least)
        return least;
    return value > LONGEST_LIFE_MS ? LONGEST_LIFE_MS : value;
}

static void set_moments(struct object *object, const struct lifetimes *lifetimes, struct mono_ms now)
{
    int64_t fresh_ms = within(lifetimes->fresh_ms, 0);

    object->fresh_until = mono_after(now, fresh_ms);
    object->stale_until = mono_after(now, within(lifetimes->stale_ms, fresh_ms));
    object->error_until = mono_after(now, within(lifetimes->error_ms, fresh_ms));
    object->keep_until = mono_after(now, within(lifetimes->keep_ms, fresh_ms));
    object->born = mono_after(now, -within(lifetimes->age_ms, 0));
}

/* Moves `*cursor` past a copy of the bytes. */
static struct slice copy_slice(struct slice from, char **cursor)
{
    struct slice copy = {*cursor, from.len};

    if (from.len > 0)
        memcpy(*cursor, from.base, from.len);
    *cursor += from.len;
    return copy;
}

static size_t text_bytes(const struct header *headers, size_t header_count, const struct slice *tags,
                         size_t tag_count)
{
    size_t sum = 0;

    for (size_t i = 0; i < header_count; i++)
        sum += headers[i].name.len + headers[i].value.len;
    for (size_t i = 0; i < tag_count; i++)
        sum += tags[i].len;
    return sum;
}

static void hold_body(struct object *object, struct block **held, struct block *const *blocks,
                      size_t block_count)
{
    object->blocks = held;
    object->block_count = block_count;
    for (size_t i = 0; i < block_count; i++) {
        held[i] = block_hold(blocks[i]);
        object->body_bytes += (int64_t)blocks[i]->len;
        object->footprint_bytes += sizeof(struct block) + blocks[i]->room + ALLOCATION_OVERHEAD_BYTES;
    }
}

struct object *object_new(const struct key32 *key, int64_t epoch, int status, const struct header *headers,
                          size_t header_count, const struct slice *tags, size_t tag_count,
                          struct block *const *blocks, size_t block_count, const struct lifetimes *lifetimes,
                          struct mono_ms now)
{
    size_t headers_at =
        sizeof(struct object); /* each array's alignment divides the size of what stands before it */
    size_t tags_at = headers_at + header_count * sizeof(struct header);
    size_t prints_at = tags_at + tag_count * sizeof(struct slice);
    size_t blocks_at = prints_at + tag_count * sizeof(uint64_t);
    size_t text_at = blocks_at + block_count * sizeof(struct block *);
    size_t total = text_at + text_bytes(headers, header_count, tags, tag_count);
    char *memory = must_alloc(total);
    struct object *object = (struct object *)(void *)memory;
    struct header *own_headers = (struct header *)(void *)(memory + headers_at);
    struct slice *own_tags = (struct slice *)(void *)(memory + tags_at);
    uint64_t *prints = (uint64_t *)(void *)(memory + prints_at);
    char *cursor = memory + text_at;

    for (size_t i = 0; i < header_count; i++) {
        own_headers[i].name = copy_slice(headers[i].name, &cursor);
        own_headers[i].value = copy_slice(headers[i].value, &cursor);
    }
    for (size_t i = 0; i < tag_count; i++) {
        own_tags[i] = copy_slice(tags[i], &cursor);
        prints[i] = tag_print(own_tags[i]);
    }
    atomic_init(&object->refs, 1);
    object->key = *key;
    object->epoch = object->aged_epoch = epoch;
    object->status = status;
    object->headers = own_headers;
    object->header_count = header_count;
    object->tags = own_tags;
    object->tag_prints = prints;
    object->tag_count = tag_count;
    object->footprint_bytes = total + ALLOCATION_OVERHEAD_BYTES;
    hold_body(object, (struct block **)(void *)(memory + blocks_at), blocks, block_count);
    set_moments(object, lifetimes, now);
    return object;
}

struct object *object_aged(const struct object *object, struct mono_ms stale_at, int64_t aged_epoch)
{
    static const struct lifetimes none = {0};
    struct object *aged =
        object_new(&object->key, object->epoch, object->status, object->headers, object->header_count,
                   object->tags, object->tag_count, object->blocks, object->block_count, &none, stale_at);
    int64_t early_ms = object->fresh_until.ms > stale_at.ms ? object->fresh_until.ms - stale_at.ms : 0;

    aged->plain_bytes = object->plain_bytes;
    aged->aged_epoch = aged_epoch;
    aged->fresh_until.ms = object->fresh_until.ms - early_ms;
    aged->stale_until.ms = object->stale_until.ms - early_ms;
    aged->error_until.ms = object->error_until.ms - early_ms;
    aged->keep_until = object_gone_at(object);
    aged->born = object->born;
    return aged;
}

struct object *object_rekeyed(const struct object *object, const struct key32 *key)
{
    static const struct lifetimes none = {0};
    struct object *other =
        object_new(key, object->epoch, object->status, object->headers, object->header_count, object->tags,
                   object->tag_count, object->blocks, object->block_count, &none, object->fresh_until);

    other->plain_bytes = object->plain_bytes;
    other->aged_epoch = object->aged_epoch;
    other->fresh_until = object->fresh_until;
    other->stale_until = object->stale_until;
    other->error_until = object->error_until;
    other->keep_until = object->keep_until;
    other->born = object->born;
    return other;
}

struct object *object_hold(struct object *object)
{
    int before = atomic_fetch_add_explicit(&object->refs, 1, memory_order_relaxed);

    CHECK(before > 0);
    return object;
}

void object_release(struct object **object)
{
    struct object *gone = *object;

    *object = NULL;
    if (gone == NULL)
        return;
    int before = atomic_fetch_sub_explicit(&gone->refs, 1, memory_order_acq_rel);

    CHECK(before > 0);
    if (before > 1)
        return;
    for (size_t i = 0; i < gone->block_count; i++)
        block_release(&gone->blocks[i]);
    free(gone);
}

struct mono_ms object_gone_at(const struct object *object)
{
    struct mono_ms gone_at = object->keep_until;

    if (gone_at.ms < object->stale_until.ms)
        gone_at = object->stale_until;
    return gone_at.ms < object->error_until.ms ? object->error_until : gone_at;
}

uint64_t tag_print(struct slice tag)
{
    return digest_checksum(tag.base, tag.len);
}
