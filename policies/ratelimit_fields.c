/* Rate limit fields: what a client is told about its limits, in the response header and in the body of a
 * refusal. */
#include "ratelimit_fields.h"

#include "check.h"
#include "json_text.h"
#include "text.h"
#include "verdict.h"

/* RFC 9651 section 3.3.1: an Integer has at most fifteen digits. */
#define LARGEST_INTEGER INT64_C(999999999999999)
enum { US_PER_MS = 1000, DETAIL_ROOM = 768 };

static int64_t published(int64_t number)
{
    return number < LARGEST_INTEGER ? number : LARGEST_INTEGER;
}

/* Seconds until the limit's figures turn for the better, which is no later than a request it refuses may come
 * back, and no later than Retry-After, if there is one. */
static int64_t turns_in_s(const struct ratelimit_item *item, int64_t retry_after_us)
{
    int64_t in_us = item->reset_us;

    if (item->retry_after_us > 0 && item->retry_after_us < in_us)
        in_us = item->retry_after_us;
    if (retry_after_us > 0 && retry_after_us < in_us)
        in_us = retry_after_us;
    return published(verdict_retry_s(in_us));
}

struct field_writer {
    char *buffer;
    size_t room, used;
    struct header *fields;
    size_t count;
};

static struct text begin_value(const struct field_writer *writer)
{
    return text_in(writer->buffer + writer->used, writer->room - writer->used);
}

/* Keeps the value written since begin_value(), unless it was cut. */
static void end_value(struct field_writer *writer, struct slice name, const struct text *value)
{
    if (!text_fits(value))
        return;
    CHECK(writer->count < RATELIMIT_MAX_FIELDS);
    writer->fields[writer->count++] = (struct header){name, text_slice(value)};
    writer->used += value->len;
}

static void add_parameter(struct text *value, const char *name, int64_t number)
{
    text_add(value, slice_text(name));
    text_add_int(value, published(number));
}

static void add_draft_11(struct field_writer *writer, const struct ratelimit_item *items, size_t count,
                         int64_t retry_after_us)
{
    struct text value = begin_value(writer);
    for (size_t i = 0; i < count; i++) {
        text_add(&value, i > 0 ? SLICE(", ") : SLICE(""));
        text_add_quoted(&value, items[i].name);
        add_parameter(&value, ";q=", items[i].limit);
        if (items[i].window_us > 0)
            add_parameter(&value, ";w=", verdict_retry_s(items[i].window_us));
        else
            text_add(&value, SLICE(";qu=\"concurrent-requests\""));
    }
    end_value(writer, SLICE("ratelimit-policy"), &value);

    value = begin_value(writer);
    for (size_t i = 0; i < count; i++) {
        text_add(&value, i > 0 ? SLICE(", ") : SLICE(""));
        text_add_quoted(&value, items[i].name);
        add_parameter(&value, ";r=", items[i].available);
        if (items[i].window_us > 0)
            add_parameter(&value, ";t=", turns_in_s(&items[i], retry_after_us));
    }
    end_value(writer, SLICE("ratelimit"), &value);
}

static void add_number(struct field_writer *writer, struct slice name, int64_t number)
{
    struct text value = begin_value(writer);

    text_add_int(&value, published(number));
    end_value(writer, name, &value);
}

size_t ratelimit_fields_room(const struct ratelimit_item *items, size_t count)
{
    static const size_t digits = 15, numbers = 6 /* of plain and x */;
    size_t room = numbers * digits;

    for (size_t i = 0; i < count;
         i++) /* in both fields of draft-11: a comma, the name in quotes, all of it escaped, two parameters */
        room += 2 * (2 + 2 + 2 * items[i].name.len + 2 * (3 + digits));
    return room;
}

size_t ratelimit_fields(const struct ratelimit_item *items, size_t count, size_t closest,
                        struct ratelimit_dialects dialects, int64_t retry_after_us, char *buffer, size_t room,
                        struct header *fields_out)
{
    struct field_writer writer = {.buffer = buffer, .room = room, .fields = fields_out};

    if (count == 0)
        return 0;
    CHECK(closest < count);
    int64_t reset_s = turns_in_s(&items[closest], retry_after_us);
    if (dialects.draft_11)
        add_draft_11(&writer, items, count, retry_after_us);
    if (dialects.plain) {
        add_number(&writer, SLICE("ratelimit-limit"), items[closest].limit);
        add_number(&writer, SLICE("ratelimit-remaining"), items[closest].available);
        if (items[closest].window_us > 0)
            add_number(&writer, SLICE("ratelimit-reset"), reset_s);
    }
    if (dialects.x) {
        add_number(&writer, SLICE("x-ratelimit-limit"), items[closest].limit);
        add_number(&writer, SLICE("x-ratelimit-remaining"), items[closest].available);
        if (items[closest].window_us > 0)
            add_number(&writer, SLICE("x-ratelimit-reset"), reset_s);
    }
    return writer.count;
}

int refusal_status(enum refusal_kind kind)
{
    switch (kind) { /* no default: a new kind must be given a status before it compiles */
    case REFUSED_RATE:
    case REFUSED_SLOTS: return 429;
    case REFUSED_COST:
    case REFUSED_BAD_COST:
    case REFUSED_KEY_AMBIGUOUS: return 400;
    case REFUSED_BODY_SIZE: return 413;
    case REFUSED_KEY_MISSING: return 401;
    case REFUSED_LIMITER_AWAY: return 503;
    }
    CHECK(!"a refusal is of one of its own kinds");
    return 500;
}

const char *refusal_code(enum refusal_kind kind)
{
    switch (kind) { /* no default: as above */
    case REFUSED_RATE: return "rate_limit_exceeded";
    case REFUSED_SLOTS: return "concurrency_limit_hit";
    case REFUSED_COST: return "cost_exceeds_limit";
    case REFUSED_BAD_COST: return "bad_cost";
    case REFUSED_BODY_SIZE: return "body_too_large";
    case REFUSED_KEY_MISSING: return "key_required";
    case REFUSED_KEY_AMBIGUOUS: return "ambiguous_key";
    case REFUSED_LIMITER_AWAY: return "limiter_unavailable";
    }
    CHECK(!"a refusal is of one of its own kinds");
    return "";
}

struct problem_words {
    const char *type, *title; /* RFC 9457: with about:blank the title is the status's own phrase */
    const char *detail;       /* goes on with the limit's name and a full stop, where there is one */
};

static struct problem_words refusal_words(enum refusal_kind kind)
{
    switch (kind) { /* no default: as above */
    case REFUSED_RATE:
        return (struct problem_words){"https://iana.org/assignments/http-problem-types#quota-exceeded",
                                      "Quota exceeded", "Too many requests for the limit "};
    case REFUSED_SLOTS:
        return (struct problem_words){"https://iana.org/assignments/http-problem-types#quota-exceeded",
                                      "Quota exceeded", "Too many requests at a time for the limit "};
    case REFUSED_COST:
        return (struct problem_words){"about:blank", "Bad Request",
                                      "One such request costs more than all of the limit "};
    case REFUSED_BAD_COST:
        return (struct problem_words){"about:blank", "Bad Request",
                                      "What the request says of its cost is not allowed by the limit "};
    case REFUSED_BODY_SIZE:
        return (struct problem_words){"about:blank", "Content Too Large",
                                      "The body is larger than what is read for the limit "};
    case REFUSED_KEY_MISSING:
        return (struct problem_words){"about:blank", "Unauthorized",
                                      "The request lacks the key that identifies its sender to the limit "};
    case REFUSED_KEY_AMBIGUOUS:
        return (struct problem_words){"about:blank", "Bad Request",
                                      "The request names more than one sender to the limit "};
    case REFUSED_LIMITER_AWAY:
        return (struct problem_words){
            "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
            "Temporarily reduced capacity", "The request cannot be checked at the moment against the limit "};
    }
    CHECK(!"a refusal is of one of its own kinds");
    return (struct problem_words){"", "", ""};
}

static void add_json_string(struct text *body, struct slice words)
{
    text_add_json(body, words, SIZE_MAX);
}

static void add_detail(struct text *body, struct slice words, struct slice limit)
{
    char room[DETAIL_ROOM];
    struct text detail = text_in(room, sizeof(room));

    text_add(&detail, words);
    text_add(&detail, limit);
    text_add_char(&detail, '.');
    text_add(body, SLICE(",\"detail\":"));
    add_json_string(
        body,
        text_slice(&detail)); /* a name of hundreds of bytes is cut here; the member `limit` has it whole */
}

static void add_member(struct text *body, const char *name, const char *words)
{
    text_add_char(body, ',');
    add_json_string(body, slice_text(name));
    text_add_char(body, ':');
    add_json_string(body, slice_text(words));
}

static void add_violated(struct text *body, const struct refusal *refusal)
{
    text_add(body, SLICE(",\"violated-policies\":["));
    for (size_t i = 0; i < refusal->violated_count; i++) {
        text_add(body, i > 0 ? SLICE(",") : SLICE(""));
        add_json_string(body, refusal->violated[i]);
    }
    text_add_char(body, ']');
}

size_t refusal_body(const struct refusal *refusal, char *out, size_t room)
{
    struct problem_words words = refusal_words(refusal->kind);
    struct text body = text_in(out, room);

    text_add(&body, SLICE("{\"type\":"));
    add_json_string(&body, slice_text(words.type));
    add_member(&body, "title", words.title);
    text_add(&body, SLICE(",\"status\":"));
    text_add_int(&body, refusal_status(refusal->kind));
    add_detail(&body, refusal->words.len > 0 ? refusal->words : slice_text(words.detail), refusal->limit);
    add_member(&body, "code", refusal_code(refusal->kind));
    text_add(&body, SLICE(",\"limit\":"));
    add_json_string(&body, refusal->limit);
    add_violated(&body, refusal);
    if (refusal->retry_after_us > 0) {
        text_add(&body, SLICE(",\"retry_after_ms\":"));
        text_add_int(&body, (refusal->retry_after_us - 1) / US_PER_MS + 1);
    }
    text_add(&body, SLICE("}\n"));
    return text_fits(&body) ? body.len : 0;
}
