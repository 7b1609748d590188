/* Objects for tests: small stored responses made in a line. */
#ifndef WEIR_TESTS_OBJECTS_H
#define WEIR_TESTS_OBJECTS_H

#include "object.h"

#include <string.h>

static inline struct key32 test_key(uint64_t number)
{
    struct key32 key = {{0}};

    number = number * 0x9e3779b97f4a7c15u + 1; /* spread like a hash */
    memcpy(key.bytes, &number, sizeof(number));
    return key;
}

/* Fresh, then stale, then for errors until the given moments after `now`. One reference; tag may be NULL. */
static inline struct object *test_object(uint64_t key_number, int64_t epoch, const char *tag,
                                         size_t body_bytes, int64_t fresh_ms, int64_t stale_ms,
                                         int64_t error_ms, struct mono_ms now)
{
    struct key32 key = test_key(key_number);
    struct slice tags[1] = {slice_text(tag)};
    struct lifetimes lifetimes = {.fresh_ms = fresh_ms, .stale_ms = stale_ms, .error_ms = error_ms};
    struct block *block = block_new(body_bytes);
    struct object *object;

    memset(block->bytes, 'x', body_bytes);
    block->len = body_bytes;
    object = object_new(&key, epoch, 200, NULL, 0, tags, tag == NULL ? 0 : 1, &block, 1, &lifetimes, now);
    block_release(&block);
    return object;
}

#endif
