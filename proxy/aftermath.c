/* Aftermath: see aftermath.h. */
#include "aftermath.h"
#include "group_tags.h"
#include "loop.h"
#include "memory.h"

#include <stdlib.h>

struct aftermath {
    struct aftermaths *all;
    struct link link;
    struct stream *stream;
    struct slice *tags; /* in the same allocation */
    size_t tag_count, soft_count;
    struct slice authority;   /* in it, too */
    struct asked_tags *asked; /* owned; NULL: the answer's body says nothing of it */
    struct timer patience;    /* for that body, which is awaited: */
    bool awaits_body;
};

struct aftermaths {
    struct loop *loop;
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

static void finish(struct aftermath *aftermath)
{
    timer_cancel(aftermath->all->loop, &aftermath->patience);
    stream_disown(&aftermath->stream, true);
    asked_tags_free(&aftermath->asked);
    list_leave(&aftermath->link);
    aftermath->all->count--;
    free(aftermath);
}

/* What is known of it; `named` NULL: what the answer was to name is not known. */
static void end(struct aftermath *aftermath, const struct named_tags *named)
{
    invalidate(aftermath, aftermath->tags, aftermath->tag_count, aftermath->soft_count);
    if (named != NULL)
        invalidate(aftermath, named->tags, named->count, named->soft_count);
    if (aftermath->asked != NULL && (named == NULL || named->is_incomplete))
        invalidator_note_unnamed(aftermath->all->invalidator);
    finish(aftermath);
}

static void on_impatient(void *arg)
{
    end(arg, NULL);
}

static void await_body(struct aftermath *aftermath)
{
    struct loop *loop = aftermath->all->loop;

    aftermath->awaits_body = true;
    timer_start(loop, &aftermath->patience,
                mono_after(loop_now(loop), aftermath->stream->upstream->first_byte_timeout_ms));
}

static void on_head(void *arg)
{
    struct aftermath *aftermath = arg;
    struct group_tags groups;

    group_tags_invalidated(&groups, aftermath->stream->headers, aftermath->stream->header_count,
                           aftermath->authority);
    invalidate(aftermath, groups.tags, groups.count, 0);
    if (!status_tells_of_change(aftermath->stream->status)) {
        finish(aftermath);
    } else if (aftermath->asked != NULL && answer_may_name_tags(aftermath->stream)) {
        stream_keep(aftermath->stream, ASKED_BODY_MAX_BYTES);
        await_body(aftermath);
    } else {
        end(aftermath, NULL);
    }
}

static void on_overflow(void *arg)
{
    end(arg, NULL);
}

/* Without a head nobody knows what was done. */
static void on_end(void *arg)
{
    struct aftermath *aftermath = arg;
    struct named_tags named;

    if (!aftermath->awaits_body || aftermath->stream->fault != FAULT_NONE) {
        end(aftermath, NULL);
        return;
    }
    named = read_named_tags(aftermath->asked, aftermath->stream);
    end(aftermath, &named);
}

static const struct stream_owner OWNER = {.on_head = on_head, .on_overflow = on_overflow, .on_end = on_end};

static struct slice put(char **to, struct slice from)
{
    struct slice copy = slice_of(*to, from.len);

    if (from.len > 0)
        memcpy(*to, from.base, from.len);
    *to += from.len;
    return copy;
}

static struct aftermath *aftermath_new(const struct change *change)
{
    size_t bytes =
        sizeof(struct aftermath) + change->tag_count * sizeof(struct slice) + change->authority.len;
    struct aftermath *aftermath;
    char *to;

    for (size_t i = 0; i < change->tag_count; i++)
        bytes += change->tags[i].len;
    aftermath = must_alloc(bytes);
    aftermath->tags = (struct slice *)(aftermath + 1);
    aftermath->tag_count = change->tag_count;
    aftermath->soft_count = change->soft_count;
    to = (char *)(aftermath->tags + change->tag_count);
    for (size_t i = 0; i < change->tag_count; i++)
        aftermath->tags[i] = put(&to, change->tags[i]);
    aftermath->authority = put(&to, change->authority);
    timer_init(&aftermath->patience, on_impatient, aftermath);
    return aftermath;
}

bool aftermath_begin(struct aftermaths *aftermaths, struct stream **stream, const struct change *change,
                     struct asked_tags **asked, bool has_head)
{
    struct aftermath *aftermath;

    if (!stream_outlives_client(*stream))
        return false;
    aftermath = aftermath_new(change);
    aftermath->all = aftermaths;
    aftermath->stream = *stream;
    *stream = NULL;
    aftermath->asked = *asked;
    *asked = NULL;
    stream_pass_on(aftermath->stream, &OWNER, aftermath);
    list_init(&aftermath->link);
    list_append(&aftermaths->under_way, &aftermath->link);
    aftermaths->count++;
    if (has_head)
        await_body(aftermath);
    return true;
}

/* ---- what an answer names ---- */

bool answer_may_name_tags(const struct stream *answer)
{
    if (answer->status == 204 || answer->status == 205 || answer->status == 304 ||
        answer->content_length > ASKED_BODY_MAX_BYTES)
        return false;
    for (size_t i = 0; i < answer->header_count; i++)
        if (slice_eq(answer->headers[i].name, SLICE("content-encoding")) &&
            !slice_eq_nocase(slice_trim(answer->headers[i].value), SLICE("identity")))
            return false;
    return true;
}

struct named_tags read_named_tags(struct asked_tags *asked, const struct stream *answer)
{
    char *text = must_alloc((size_t)answer->got_bytes + 1);
    struct named_tags named;
    size_t len = 0;

    for (size_t i = 0; i < answer->block_count; i++) {
        memcpy(text + len, answer->blocks[i]->bytes, answer->blocks[i]->len);
        len += answer->blocks[i]->len;
    }
    named = asked_tags_read(asked, slice_of(text, len));
    free(text);
    return named;
}

size_t aftermaths_under_way(const struct aftermaths *aftermaths)
{
    return aftermaths->count;
}

void aftermaths_hurry(struct aftermaths *aftermaths)
{
    while (!list_is_empty(&aftermaths->under_way))
        end(LIST_OWNER(aftermaths->under_way.next, struct aftermath, link), NULL);
}

struct aftermaths *aftermaths_new(struct loop *loop, struct invalidator *invalidator)
{
    struct aftermaths *aftermaths = must_alloc(sizeof(*aftermaths));

    aftermaths->loop = loop;
    aftermaths->invalidator = invalidator;
    list_init(&aftermaths->under_way);
    return aftermaths;
}

void aftermaths_free(struct aftermaths *aftermaths)
{
    while (!list_is_empty(&aftermaths->under_way))
        finish(LIST_OWNER(aftermaths->under_way.next, struct aftermath, link));
    free(aftermaths);
}
