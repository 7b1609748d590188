/* Origin answer: see origin_answer.h. The decisions are http1_head's, chunked's and hop_headers'; this puts
 * them in line. */
#include "origin_answer.h"
#include "check.h"
#include "hop_headers.h"
#include "memory.h"
#include "upgrade.h"

#include <stdlib.h>

enum { MAX_INTERIM_HEADS = 16 };

static void begin_head(struct answer *answer)
{
    http1_head_init(&answer->head, answer->scratch, HTTP1_MAX_HEADERS, HTTP1_MAX_HEAD_BYTES);
}

void answer_init(struct answer *answer, struct slice method, struct slice upgrade, struct header *scratch)
{
    *answer = (struct answer){.method = method, .upgrade = upgrade, .scratch = scratch};
    begin_head(answer);
}

void answer_dispose(struct answer *answer)
{
    free(answer->held);
    answer->held = NULL;
}

static void make_room(struct answer *answer, size_t bytes)
{
    if (answer->held_room >= bytes)
        return;
    size_t room = answer->held_room == 0 ? 4096 : answer->held_room;
    while (room < bytes)
        room *= 2;
    answer->held = must_realloc(answer->held, room);
    answer->held_room = room;
}

void answer_give(struct answer *answer, char *bytes, size_t len)
{
    CHECK(answer->rest_len == 0 || answer->state == ANSWER_OVER);
    if (len > 0)
        answer->has_begun = true;
    if (answer->held_len == 0) {
        answer->rest = bytes;
        answer->rest_len = len;
        return;
    }
    make_room(answer, answer->held_len + len); /* held is below one head's maximum, else the head were bad */
    memcpy(answer->held + answer->held_len, bytes, len);
    answer->rest = answer->held;
    answer->rest_len = answer->held_len + len;
    answer->held_len = 0;
}

/* What is left begins a head whose end has not come yet: keep it, the caller's bytes will go. */
static void hold_rest(struct answer *answer)
{
    bool is_held = answer->held != NULL && answer->rest >= answer->held &&
                   answer->rest < answer->held + answer->held_room;
    if (!is_held)
        make_room(answer, answer->rest_len);
    if (answer->rest_len > 0)
        memmove(answer->held, answer->rest, answer->rest_len);
    answer->held_len = answer->rest_len;
    answer->rest_len = 0;
}

static void take(struct answer *answer, size_t len)
{
    answer->rest += len;
    answer->rest_len -= len;
}

/* Our caller gets the length as a number; a copy of the field among the others could come to contradict it.
 */
static size_t drop_content_length(struct header *headers, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!slice_eq(headers[i].name, SLICE("content-length")))
            headers[kept++] = headers[i];
    return kept;
}

static enum answer_step begin_body(struct answer *answer)
{
    struct http1_head *head = &answer->head;

    answer->framing = http1_framing(head, answer->method);
    if (answer->framing.kind == BODY_BAD)
        return ANSWER_BAD;
    answer->keeps_alive = http1_keeps_alive(head, &answer->framing);
    answer->left = answer->framing.kind == BODY_LENGTH ? answer->framing.length : 0;
    chunked_init(&answer->chunked);
    answer->state = ANSWER_IN_BODY;

    if (!hop_headers_strip(head->headers, &head->header_count))
        return ANSWER_BAD;
    answer->response = (struct origin_response){
        .status = head->status,
        .headers = head->headers,
        .header_count = drop_content_length(head->headers, head->header_count),
        .content_length = head->status == 204 ? -1 : answer->framing.length,
        .until_close = answer->framing.kind == BODY_UNTIL_CLOSE,
    };
    return ANSWER_HEAD;
}

/* Its fields stay where they are until the next head is read. */
static enum answer_step give_interim(struct answer *answer)
{
    struct http1_head *head = &answer->head;

    if (!hop_headers_strip(head->headers, &head->header_count))
        return ANSWER_BAD;
    answer->response = (struct origin_response){
        .status = head->status,
        .headers = head->headers,
        .header_count = drop_content_length(head->headers, head->header_count),
        .content_length = -1,
    };
    begin_head(answer);
    return ANSWER_INTERIM;
}

/* The fields that describe a body are dropped: there is none, and no more of HTTP. */
static enum answer_step switch_protocol(struct answer *answer)
{
    struct http1_head *head = &answer->head;
    struct slice protocol = upgrade_agreed(answer->upgrade, head->headers, head->header_count);

    if (protocol.base == NULL || !hop_headers_strip(head->headers, &head->header_count))
        return ANSWER_BAD;
    head->header_count = drop_content_length(head->headers, head->header_count);
    head->headers[head->header_count++] =
        (struct header){SLICE("upgrade"), protocol}; /* in the room of the one stripped */
    answer->state = ANSWER_OVER;
    answer->response = (struct origin_response){
        .status = head->status,
        .headers = head->headers,
        .header_count = head->header_count,
        .content_length = -1,
    };
    return ANSWER_SWITCHED;
}

static enum answer_step read_head(struct answer *answer)
{
    while (true) {
        switch (http1_head_read(&answer->head, answer->rest, answer->rest_len)) {
        case HEAD_PARTIAL: hold_rest(answer); return ANSWER_HUNGRY;
        case HEAD_BAD: return ANSWER_BAD;
        case HEAD_WHOLE: break;
        }
        take(answer, answer->head.head_bytes);
        if (answer->head.status == 101 && answer->upgrade.base != NULL)
            return switch_protocol(answer);
        bool is_interim = answer->head.status < 200 && answer->head.status != 101;
        if (!is_interim)
            return begin_body(answer);
        if (++answer->interim_heads > MAX_INTERIM_HEADS)
            return ANSWER_BAD;
        if (answer->head.status > 101)
            return give_interim(answer);
        begin_head(answer);
    }
}

static enum answer_step end(struct answer *answer)
{
    answer->state = ANSWER_OVER;
    return ANSWER_END;
}

static enum answer_step give_out(struct answer *answer, size_t len)
{
    answer->data = slice_of(answer->rest, len);
    take(answer, len);
    return ANSWER_DATA;
}

static enum answer_step read_with_length(struct answer *answer)
{
    if (answer->left == 0)
        return end(answer);
    if (answer->rest_len == 0)
        return ANSWER_HUNGRY;
    size_t len = (int64_t)answer->rest_len < answer->left ? answer->rest_len : (size_t)answer->left;
    answer->left -= (int64_t)len;
    return give_out(answer, len);
}

static enum answer_step read_chunked(struct answer *answer)
{
    struct slice input = slice_of(answer->rest, answer->rest_len);
    enum chunked_step step = chunked_next(&answer->chunked, &input, &answer->data);

    take(answer, answer->rest_len - input.len);
    switch (step) {
    case CHUNKED_HUNGRY: return ANSWER_HUNGRY;
    case CHUNKED_DATA: return ANSWER_DATA;
    case CHUNKED_END: return end(answer);
    case CHUNKED_BROKEN: return ANSWER_BAD;
    }
    CHECK(!"a chunked step is one of its own values");
    return ANSWER_BAD;
}

static enum answer_step read_body(struct answer *answer)
{
    switch (answer->framing.kind) {
    case BODY_NONE: return end(answer);
    case BODY_LENGTH: return read_with_length(answer);
    case BODY_CHUNKED: return read_chunked(answer);
    case BODY_UNTIL_CLOSE: return answer->rest_len == 0 ? ANSWER_HUNGRY : give_out(answer, answer->rest_len);
    case BODY_BAD: break;
    }
    CHECK(!"a body that is read has a framing");
    return ANSWER_BAD;
}

enum answer_step answer_next(struct answer *answer)
{
    switch (answer->state) {
    case ANSWER_IN_HEAD: return read_head(answer);
    case ANSWER_IN_BODY: return read_body(answer);
    case ANSWER_OVER: return ANSWER_END;
    }
    CHECK(!"an answer's state is one of its own values");
    return ANSWER_BAD;
}

enum answer_step answer_close(struct answer *answer)
{
    bool may_end_so = answer->state == ANSWER_IN_BODY && answer->framing.kind == BODY_UNTIL_CLOSE;
    return answer->state == ANSWER_OVER || may_end_so ? end(answer) : ANSWER_BAD;
}

struct slice answer_rest(const struct answer *answer)
{
    return slice_of(answer->rest, answer->rest_len);
}

bool answer_keeps_connection(const struct answer *answer)
{
    return answer->state == ANSWER_OVER && answer->keeps_alive && answer->rest_len == 0;
}
