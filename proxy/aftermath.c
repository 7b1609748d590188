/* Aftermath: see aftermath.h. */
#include "aftermath.h"
#include "group_tags.h"
#include "memory.h"

#include <stdlib.h>

struct aftermath {
    struct aftermaths *all;
    struct link link;
    struct stream *stream;
    struct slice *tags; /* in the same allocation */
    size_t tag_count, soft_count;
    struct slice authority; /* in it, too */
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

static void invalidate(struct aftermath *aftermath, const struct slice *tags, size_t count, size_t soft_count)
{
    struct invalidation *invalidation;

    if (count == 0)
        return;
    invalidation = invalidator_ask(aftermath->all->invalidator, tags, count, soft_count, NULL, NULL);
    invalidation_forget(&invalidation);
}

static void end(struct aftermath *aftermath, bool invalidates)
{
    if (invalidates)
        invalidate(aftermath, aftermath->tags, aftermath->tag_count, aftermath->soft_count);
    stream_disown(&aftermath->stream, true);
    list_leave(&aftermath->link);
    aftermath->all->count--;
    free(aftermath);
}

static void on_head(void *arg)
{
    struct aftermath *aftermath = arg;
    struct group_tags groups;

    group_tags_invalidated(&groups, aftermath->stream->headers, aftermath->stream->header_count,
                           aftermath->authority);
    invalidate(aftermath, groups.tags, groups.count, 0);
    end(aftermath, status_tells_of_change(aftermath->stream->status));
}

/* Without a head nobody knows what was done. */
static void on_end(void *arg)
{
    end(arg, true);
}

static const struct stream_owner OWNER = {.on_head = on_head, .on_end = on_end};

static struct slice put(char **to, struct slice from)
{
    struct slice copy = slice_of(*to, from.len);

    if (from.len > 0)
        memcpy(*to, from.base, from.len);
    *to += from.len;
    return copy;
}

static struct aftermath *aftermath_new(const struct slice *tags, size_t tag_count, struct slice authority)
{
    size_t bytes = sizeof(struct aftermath) + tag_count * sizeof(struct slice) + authority.len;
    struct aftermath *aftermath;
    char *to;

    for (size_t i = 0; i < tag_count; i++)
        bytes += tags[i].len;
    aftermath = must_alloc(bytes);
    aftermath->tags = (struct slice *)(aftermath + 1);
    aftermath->tag_count = tag_count;
    to = (char *)(aftermath->tags + tag_count);
    for (size_t i = 0; i < tag_count; i++)
        aftermath->tags[i] = put(&to, tags[i]);
    aftermath->authority = put(&to, authority);
    return aftermath;
}

bool aftermath_begin(struct aftermaths *aftermaths, struct stream **stream, const struct slice *tags,
                     size_t tag_count, size_t soft_count, struct slice authority)
{
    struct aftermath *aftermath;

    if (!stream_outlives_client(*stream))
        return false;
    aftermath = aftermath_new(tags, tag_count, authority);
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
