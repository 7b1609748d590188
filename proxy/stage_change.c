/* Change: what a request makes untrue, and that it is invalidated before its client is answered.
 *
 * Most tags are known when the request is. Those that the answer's JSON names are known when it has come whole: it is kept for
 * that, 64 KiB at most, and the client waits for it. Where it does not name them, what is known is invalidated all the
 * same, and client, log and figures are told that something is missing.
 */
#include "exchange.h"
#include "loop.h"

/* ---- before the request is sent ---- */

/* All but what the answer is asked for becomes text; false where the request lacks something. */
static bool half_expand(struct exchange *exchange, const struct template *from, struct template *out)
{
    out->part_count = from->part_count;
    for (size_t i = 0; i < from->part_count; i++) {
        struct template part = {.parts = {from->parts[i]}, .part_count = 1};
        struct slice text;

        out->parts[i] = from->parts[i];
        if (from->parts[i].kind == PART_JSON || from->parts[i].kind == PART_TEXT)
            continue;
        if (expand_tags(exchange, &part, 1, &text) == 0)
            return false;
        out->parts[i] = (struct template_part){PART_TEXT, text};
    }
    return true;
}

/* Now, for when the client has left its memory takes no more. */
void change_expand(struct exchange *exchange)
{
    const struct route_rule *route = exchange->route;
    size_t count = route->invalidate_count, asked_count = 0, soft_asked = 0;
    struct template *asked = NULL;
    struct slice *tags = client_alloc(exchange->client, (count + URIS_MAX) * sizeof(*tags));

    for (size_t i = 0; i < count; i++) {
        const struct template *template = &route->invalidates[i];
        bool is_soft = i < route->soft_invalidate_count;

        if (!template_asks_answer(template)) {
            exchange->change_tag_count +=
                expand_tags(exchange, template, 1, tags + exchange->change_tag_count);
        } else {
            if (asked == NULL)
                asked = client_alloc(exchange->client, count * sizeof(*asked));
            asked_count += half_expand(exchange, template, &asked[asked_count]);
        }
        if (is_soft) {
            exchange->soft_change_count = exchange->change_tag_count;
            soft_asked = asked_count;
        }
    }
    exchange->change_tags = tags;
    exchange->change_tag_count += changed_uri(exchange, tags, exchange->change_tag_count);
    if (asked_count > 0)
        exchange->asked_tags = asked_tags_new(asked, asked_count, soft_asked);
}

/* ---- the answer ---- */

static void on_invalidated(void *arg, int64_t epoch)
{
    struct exchange *exchange = arg;

    exchange->invalidation = NULL;
    exchange->was_deferred = epoch < 0;
    stage_deliver_stream(exchange, exchange->alone);
}

static size_t put(struct slice *out, size_t count, const struct slice *tags, size_t more)
{
    if (more > 0)
        memcpy(out + count, tags, more * sizeof(*tags));
    return count + more;
}

/* Everything that is known to have changed, in one step; or, where that is nothing, the client's answer at once. */
static void invalidate_and_deliver(struct exchange *exchange, const struct named_tags *named)
{
    struct slice *known = exchange->change_tags, *tags;
    size_t known_count = 0, soft_count = 0, count = 0;
    struct group_tags groups;

    if (status_tells_of_change(exchange->alone->status)) {
        soft_count = exchange->soft_change_count;
        known_count = exchange->change_tag_count;
        known_count += named_uris(exchange, exchange->alone, known, known_count);
    }
    named_groups(exchange, exchange->alone, &groups);
    tags = client_alloc(exchange->client, (known_count + groups.count + named->count) * sizeof(*tags));
    count = put(tags, count, known, soft_count);
    count = put(tags, count, named->tags, named->soft_count);
    known_count -= soft_count;
    soft_count = count;
    count = put(tags, count, known + exchange->soft_change_count, known_count);
    count = put(tags, count, named->tags + named->soft_count, named->count - named->soft_count);
    count = put(tags, count, groups.tags, groups.count);
    if (count == 0)
        stage_deliver_stream(exchange, exchange->alone);
    else
        exchange->invalidation =
            invalidator_ask(exchange->story->invalidator, tags, count, soft_count, on_invalidated, exchange);
}

static void on_impatient(void *arg)
{
    change_body_came(arg, false);
}

void change_answered(struct exchange *exchange)
{
    static const struct named_tags none = {.count = 0};
    struct loop *loop = exchange->story->loop;

    if (exchange->asked_tags == NULL || !status_tells_of_change(exchange->alone->status)) {
        invalidate_and_deliver(exchange, &none);
        return;
    }
    exchange->awaits_body = true;
    if (!answer_may_name_tags(exchange->alone)) {
        change_body_came(exchange, false);
        return;
    }
    stream_keep(exchange->alone, ASKED_BODY_MAX_BYTES);
    timer_init(&exchange->body_patience, on_impatient, exchange);
    timer_start(loop, &exchange->body_patience,
                mono_after(loop_now(loop), exchange->route->upstream->first_byte_timeout_ms));
}

void change_body_came(struct exchange *exchange, bool is_whole)
{
    struct named_tags named = {.is_incomplete = true};

    if (!exchange->awaits_body)
        return;
    exchange->awaits_body = false;
    timer_cancel(exchange->story->loop, &exchange->body_patience);
    if (is_whole)
        named = read_named_tags(exchange->asked_tags, exchange->alone);
    exchange->lacks_tags = named.is_incomplete;
    if (named.is_incomplete)
        invalidator_note_unnamed(exchange->story->invalidator);
    invalidate_and_deliver(exchange, &named);
}

/* Nobody knows whether the upstream did what it was asked, or what it names. */
void change_in_doubt(struct exchange *exchange)
{
    struct invalidation *invalidation;

    if (!exchange->awaits_body && !fault_leaves_doubt(exchange->alone->fault))
        return;
    if (exchange->asked_tags != NULL)
        invalidator_note_unnamed(exchange->story->invalidator);
    if (exchange->change_tag_count == 0)
        return;
    invalidation = invalidator_ask(exchange->story->invalidator, exchange->change_tags,
                                   exchange->change_tag_count, exchange->soft_change_count, NULL, NULL);
    invalidation_forget(&invalidation);
}

/* ---- a client that left ---- */

void stage_fetch_left(struct exchange *exchange)
{
    bool has_change = exchange->change_tag_count > 0 || exchange->asked_tags != NULL;
    bool awaits_outcome =
        exchange->alone != NULL && has_change && (!exchange->alone->has_head || exchange->awaits_body);
    struct change change = {exchange->change_tags, exchange->change_tag_count, exchange->soft_change_count,
                            exchange->alone_authority};

    if (exchange->awaits_body)
        timer_cancel(exchange->story->loop, &exchange->body_patience);
    if (!awaits_outcome || !aftermath_begin(exchange->story->aftermaths, &exchange->alone, &change,
                                            &exchange->asked_tags, exchange->awaits_body)) {
        if (exchange->awaits_body) /* it was done, as the head said */
            change_in_doubt(exchange);
        stream_disown(&exchange->alone, true);
    }
    asked_tags_free(&exchange->asked_tags);
}
