/* Aftermath: see aftermath.h. */
#include "aftermath.h"
#include "memory.h"

#include <stdlib.h>

struct aftermath {
    struct aftermaths *all;
    struct link link;
    struct stream *stream;
    struct slice *tags; /* in the same allocation */
    size_t tag_count, soft_count;
};

struct aftermaths {
    struct invalidator *invalidator;
    struct link under_way;
    size_t count;
};

bool status_tells_of_change(int status)
{
    return status >= 200 && status <= 399;
}

static void end(struct aftermath *aftermath, bool invalidates)
{
    if (invalidates) {
        struct invalidation *invalidation =
            invalidator_ask(aftermath->all->invalidator, aftermath->tags, aftermath->tag_count,
                            aftermath->soft_count, NULL, NULL);

        invalidation_forget(&invalidation);
    }
    stream_disown(&aftermath->stream, true);
    list_leave(&aftermath->link);
    aftermath->all->count--;
    free(aftermath);
}

static void on_head(void *arg)
{
    struct aftermath *aftermath = arg;

    end(aftermath, status_tells_of_change(aftermath->stream->status));
}

/* Without a head nobody knows what was done. */
static void on_end(void *arg)
{
    end(arg, true);
}

static const struct stream_owner OWNER = {on_head, NULL, on_end};

static struct aftermath *aftermath_new(const struct slice *tags, size_t tag_count)
{
    size_t bytes = sizeof(struct aftermath) + tag_count * sizeof(struct slice);
    struct aftermath *aftermath;
    char *to;

    for (size_t i = 0; i < tag_count; i++)
        bytes += tags[i].len;
    aftermath = must_alloc(bytes);
    aftermath->tags = (struct slice *)(aftermath + 1);
    aftermath->tag_count = tag_count;
    to = (char *)(aftermath->tags + tag_count);
    for (size_t i = 0; i < tag_count; i++) {
        memcpy(to, tags[i].base, tags[i].len);
        aftermath->tags[i] = slice_of(to, tags[i].len);
        to += tags[i].len;
    }
    return aftermath;
}

bool aftermath_begin(struct aftermaths *aftermaths, struct stream **stream, const struct slice *tags,
                     size_t tag_count, size_t soft_count)
{
    struct aftermath *aftermath;

    if (!stream_outlives_client(*stream))
        return false;
    aftermath = aftermath_new(tags, tag_count);
    aftermath->soft_count = soft_count;
    aftermath->all = aftermaths;
    aftermath->stream = *stream;
    *stream = NULL;
    stream_pass_on(aftermath->stream, &OWNER, aftermath);
    list_init(&aftermath->link);
    list_append(&aftermaths->under_way, &aftermath->link);
    aftermaths->count++;
    return true;
}

size_t aftermaths_under_way(const struct aftermaths *aftermaths)
{
    return aftermaths->count;
}

void aftermaths_hurry(struct aftermaths *aftermaths)
{
    while (!list_is_empty(&aftermaths->under_way))
        end(LIST_OWNER(aftermaths->under_way.next, struct aftermath, link), true);
}

struct aftermaths *aftermaths_new(struct invalidator *invalidator)
{
    struct aftermaths *aftermaths = must_alloc(sizeof(*aftermaths));

    aftermaths->invalidator = invalidator;
    list_init(&aftermaths->under_way);
    return aftermaths;
}

void aftermaths_free(struct aftermaths *aftermaths)
{
    while (!list_is_empty(&aftermaths->under_way))
        end(LIST_OWNER(aftermaths->under_way.next, struct aftermath, link), false);
    free(aftermaths);
}
