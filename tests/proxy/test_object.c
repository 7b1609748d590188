/* Object: what a stored response keeps, counts and promises about its moments. */
#include "objects.h"

#include <criterion/criterion.h>

static const struct mono_ms NOW = {1000000};

Test(object, keeps_its_own_copies_of_headers_and_tags)
{
    char name[] = "content-type", value[] = "text/plain", tag[] = "product:1";
    struct header headers[] = {{slice_text(name), slice_text(value)}, {SLICE("x-empty"), SLICE("")}};
    struct slice tags[] = {slice_text(tag), SLICE("")};
    struct lifetimes lifetimes = {.fresh_ms = 10};
    struct key32 key = test_key(7);
    struct object *object = object_new(&key, 42, 404, headers, 2, tags, 2, NULL, 0, &lifetimes, NOW);

    memset(name, '-', sizeof(name));
    memset(value, '-', sizeof(value));
    memset(tag, '-', sizeof(tag));
    cr_assert(slice_eq(object->headers[0].name, SLICE("content-type")));
    cr_assert(slice_eq(object->headers[0].value, SLICE("text/plain")));
    cr_assert(slice_eq(object->headers[1].value, SLICE("")));
    cr_assert(slice_eq(object->tags[0], SLICE("product:1")));
    cr_assert_eq(object->tag_prints[0], tag_print(SLICE("product:1")));
    cr_assert_eq(object->tag_count, 2);
    cr_assert_eq(object->epoch, 42);
    cr_assert_eq(object->status, 404);
    cr_assert_eq(memcmp(&object->key, &key, sizeof(key)), 0);
    cr_assert_eq(object->body_bytes, 0);
    object_release(&object);
    cr_assert_null(object);
}

Test(object, its_body_is_shared_and_outlives_the_loader)
{
    struct block *blocks[2] = {block_new(8), block_new(100)};
    struct lifetimes lifetimes = {0};
    struct key32 key = test_key(1);

    memcpy(blocks[0]->bytes, "12345678", 8);
    blocks[0]->len = 8;
    memcpy(blocks[1]->bytes, "9", 1);
    blocks[1]->len = 1;
    struct object *object = object_new(&key, 0, 200, NULL, 0, NULL, 0, blocks, 2, &lifetimes, NOW);

    cr_assert_eq(object->blocks[0], blocks[0], "held, not copied");
    block_release(&blocks[0]);
    block_release(&blocks[1]);
    cr_assert_eq(object->body_bytes, 9);
    cr_assert_eq(memcmp(object->blocks[0]->bytes, "12345678", 8), 0);
    cr_assert_geq(object->footprint_bytes, sizeof(struct object) + 108,
                  "room counts, not only what is used of it");
    object_release(&object);
}

Test(object, each_holder_releases_once)
{
    struct object *object = test_object(1, 0, "t", 10, 1, 1, 1, NOW), *other = object_hold(object);

    object_release(&object);
    cr_assert_eq(other->body_bytes, 10);
    object_release(&other);
    object_release(&other); /* NULL is fine */
}

Test(object, its_moments_are_never_before_the_fresh_one_and_never_overflow)
{
    static const struct {
        const char *why;
        struct lifetimes in;
        int64_t fresh, stale, error, born, gone;
    } rows[] = {
        {"as told", {10, 20, 30, 5, 0}, 10, 20, 30, -5, 30},
        {"stale may outlast error", {10, 40, 30, 0, 0}, 10, 40, 30, 0, 40},
        {"stale and error at least as long as fresh", {10, 0, 0, 0, 0}, 10, 10, 10, 0, 10},
        {"kept beyond all of them", {10, 20, 30, 0, 90}, 10, 20, 30, 0, 90},
        {"negative is none", {-10, -5, -1, -7, -9}, 0, 0, 0, 0, 0},
    };
    struct lifetimes endless = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    struct key32 key = test_key(1);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct object *object = object_new(&key, 0, 200, NULL, 0, NULL, 0, NULL, 0, &rows[i].in, NOW);

        cr_assert_eq(object->fresh_until.ms, NOW.ms + rows[i].fresh, "%s", rows[i].why);
        cr_assert_eq(object->stale_until.ms, NOW.ms + rows[i].stale, "%s", rows[i].why);
        cr_assert_eq(object->error_until.ms, NOW.ms + rows[i].error, "%s", rows[i].why);
        cr_assert_eq(object->born.ms, NOW.ms + rows[i].born, "%s", rows[i].why);
        cr_assert_eq(object_gone_at(object).ms, NOW.ms + rows[i].gone, "%s", rows[i].why);
        object_release(&object);
    }
    struct object *object = object_new(&key, 0, 200, NULL, 0, NULL, 0, NULL, 0, &endless, NOW);

    cr_assert_gt(object_gone_at(object).ms, NOW.ms);
    cr_assert_lt(object->born.ms, NOW.ms);
    object_release(&object);
}

Test(object, what_is_aged_or_lies_elsewhere_is_otherwise_the_same)
{
    struct key32 elsewhere = test_key(2);
    struct object *object = test_object(1, 7, "tag", 100, 1000, 2000, 3000, NOW);
    struct object *aged, *other;

    object->plain_bytes = 5000; /* packed by us: told wrong, a client would get noise */
    object->aged_epoch = 8;
    aged = object_aged(object, mono_after(NOW, 400), 9);
    other = object_rekeyed(object, &elsewhere);
    cr_assert(aged->aged_epoch == 9 && other->aged_epoch == 8);
    cr_assert(aged->fresh_until.ms == NOW.ms + 400 && other->fresh_until.ms == NOW.ms + 1000);
    cr_assert(aged->stale_until.ms == NOW.ms + 1400 && aged->error_until.ms == NOW.ms + 2400);
    cr_assert_eq(object_gone_at(aged).ms, object_gone_at(object).ms);
    for (struct object **each = (struct object *[]){aged, other, NULL}; *each != NULL; each++) {
        cr_assert((*each)->plain_bytes == 5000 && (*each)->epoch == 7 && (*each)->status == object->status);
        cr_assert((*each)->blocks[0] == object->blocks[0] && (*each)->born.ms == object->born.ms);
        cr_assert((*each)->tag_count == 1 && (*each)->tag_prints[0] == object->tag_prints[0]);
        cr_assert_eq((*each)->footprint_bytes, object->footprint_bytes);
    }
    cr_assert_eq(memcmp(&other->key, &elsewhere, sizeof(elsewhere)), 0);
    object_release(&object);
    object_release(&aged);
    object_release(&other);
}
