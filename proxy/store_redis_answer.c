/* Store redis answer: see store_redis_answer.h. */
#include "store_redis_answer.h"
#include "limit_numbers.h"

/* ---- small things ---- */

static const char hex_digits[] = "0123456789abcdef";

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

static void hex_write(const unsigned char *bytes, size_t count, char *out)
{
    for (size_t i = 0; i < count; i++) {
        out[2 * i] = hex_digits[bytes[i] >> 4];
        out[2 * i + 1] = hex_digits[bytes[i] & 15];
    }
}

static bool hex_read(struct slice text, unsigned char *out, size_t count)
{
    if (text.len != 2 * count)
        return false;
    for (size_t i = 0; i < count; i++) {
        int high = hex_value(text.base[2 * i]), low = hex_value(text.base[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        out[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

void key_write(const struct key32 *key, char out[KEY_HEX_BYTES])
{
    hex_write(key->bytes, sizeof(key->bytes), out);
}

void principal_write(const unsigned char principal[PRINCIPAL_BYTES], char out[PRINCIPAL_HEX_BYTES])
{
    hex_write(principal, PRINCIPAL_BYTES, out);
}

bool message_read_plan_key(struct slice key, struct slice prefix, unsigned char out[PRINCIPAL_BYTES])
{
    size_t len = prefix.len + PRINCIPAL_HEX_BYTES + 1;

    if (key.len != len || memcmp(key.base, prefix.base, prefix.len) != 0 || key.base[len - 1] != '}')
        return false;
    return hex_read(slice_of(key.base + prefix.len, PRINCIPAL_HEX_BYTES), out, PRINCIPAL_BYTES);
}

bool message_read_key(struct slice message, struct key32 *out)
{
    return hex_read(message, out->bytes, sizeof(out->bytes));
}

void token_write(struct load_token token, char out[TOKEN_HEX_BYTES])
{
    for (int i = 0; i < TOKEN_HEX_BYTES / 2; i++) {
        out[i] = hex_digits[token.hi >> (60 - 4 * i) & 15];
        out[TOKEN_HEX_BYTES / 2 + i] = hex_digits[token.lo >> (60 - 4 * i) & 15];
    }
}

static bool token_read(struct slice text, struct load_token *out)
{
    uint64_t halves[2] = {0, 0};

    *out = (struct load_token){0, 0};
    if (text.len == 0)
        return true;
    if (text.len != TOKEN_HEX_BYTES)
        return false;
    for (size_t i = 0; i < TOKEN_HEX_BYTES; i++) {
        int digit = hex_value(text.base[i]);

        if (digit < 0)
            return false;
        halves[i / (TOKEN_HEX_BYTES / 2)] = halves[i / (TOKEN_HEX_BYTES / 2)] << 4 | (uint64_t)digit;
    }
    *out = (struct load_token){halves[0], halves[1]};
    return true;
}

static bool is_token(struct load_token token)
{
    return token.hi != 0 || token.lo != 0;
}

static bool read_number(const struct redis_reply *reply, int64_t least, int64_t most, int64_t *out)
{
    if (reply->kind != REDIS_INTEGER || reply->integer < least || reply->integer > most)
        return false;
    *out = reply->integer;
    return true;
}

/* ---- news ---- */

/* A member of the tag table: 't' or, stamped softly, 's', and the tag. */
static bool read_member(struct slice member, struct tag_stamp *out)
{
    if (member.len == 0 || (member.base[0] != 't' && member.base[0] != 's'))
        return false;
    out->is_soft = member.base[0] == 's';
    out->tag = slice_of(member.base + 1, member.len - 1);
    return true;
}

static bool read_stamps(const struct redis_reply *list, struct store_news *out)
{
    if (list->kind != REDIS_LIST || list->count % 2 != 0 || list->count > 2 * ANSWER_MAX_STAMPS)
        return false;
    out->stamp_count = list->count / 2;
    for (size_t i = 0; i < out->stamp_count; i++) {
        const struct redis_reply *member = list->items[2 * i];

        if (member->kind != REDIS_TEXT || !read_member(member->text, &out->stamps[i]) ||
            !read_number(list->items[2 * i + 1], 0, STORE_LAST_US, &out->stamps[i].epoch))
            return false;
    }
    return true;
}

int64_t answer_epoch(const struct redis_reply *reply)
{
    return reply->items[0]->integer;
}

bool answer_read_news(const struct redis_reply *reply, struct store_news *out)
{
    int64_t is_cut;

    if (reply->kind != REDIS_LIST || reply->count != 5)
        return false;
    if (!read_number(reply->items[0], 0, STORE_LAST_US, &out->epoch) ||
        !read_number(reply->items[1], 0, out->epoch, &out->floor) ||
        !read_number(reply->items[2], 0, 1, &is_cut) || !read_stamps(reply->items[3], out))
        return false;
    if (is_cut == 1) /* what was left out is older than the epoch, as is everything else */
        out->floor = out->epoch;
    out->result = reply->items[4];
    return true;
}

/* ---- admit ---- */

static bool read_state(struct redis_reply *const *numbers, struct limit_state *out)
{
    int64_t retry_us;

    if (!read_number(numbers[0], 0, STORE_LAST_US * 2, &out->available) ||
        !read_number(numbers[1], 0, STORE_LAST_US * 2, &out->reset_us) ||
        !read_number(numbers[2], LIMIT_UNFORESEEN, STORE_LAST_US * 2, &retry_us))
        return false;
    out->never = retry_us == LIMIT_NEVER;
    out->is_unforeseen = retry_us == LIMIT_UNFORESEEN;
    out->retry_after_us = retry_us > 0 ? retry_us : 0;
    return true;
}

bool answer_read_admit(const struct redis_reply *result, const struct admit_tuple *tuples, size_t count,
                       struct admit_answer *answers)
{
    int64_t passed = 0;
    size_t at = 0;

    if (result->kind != REDIS_LIST)
        return false;
    for (size_t i = 0; i < count; i++) {
        bool is_shadow = tuples[i].count == ADMIT_WHAT_PASSED;

        if (result->count - at < 1 + 3 * tuples[i].charge_count)
            return false;
        if (!read_number(result->items[at++], 0, is_shadow ? passed : tuples[i].count, &answers[i].admitted))
            return false;
        passed = is_shadow ? passed : answers[i].admitted;
        for (size_t j = 0; j < tuples[i].charge_count; j++, at += 3)
            if (!read_state(&result->items[at], &answers[i].states[j]))
                return false;
    }
    return at == result->count;
}

/* ---- settle ---- */

bool answer_read_settle(const struct redis_reply *result, bool *was_held, size_t count)
{
    if (result->kind != REDIS_LIST || result->count != count)
        return false;
    for (size_t i = 0; i < count; i++) {
        int64_t number;

        if (!read_number(result->items[i], 0, 1, &number))
            return false;
        was_held[i] = number == 1;
    }
    return true;
}

/* ---- lookup ---- */

static bool read_kind(const struct redis_reply *reply, enum lookup_kind *out)
{
    static const struct {
        struct slice word;
        enum lookup_kind kind;
    } rows[] = {
        {{"fresh", 5}, LOOKUP_FRESH}, {{"stale", 5}, LOOKUP_STALE},   {{"load", 4}, LOOKUP_LOAD},
        {{"wait", 4}, LOOKUP_WAIT},   {{"pass", 4}, LOOKUP_PASS},     {{"failed", 6}, LOOKUP_FAILED},
        {{"probe", 5}, LOOKUP_PROBE}, {{"absent", 6}, LOOKUP_ABSENT},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (reply->kind == REDIS_TEXT && slice_eq(reply->text, rows[i].word)) {
            *out = rows[i].kind;
            return true;
        }
    return false;
}

/* What a kind promises must be there. */
static bool is_whole(const struct lookup_reply *reply)
{
    switch (reply->kind) {
    case LOOKUP_FRESH:
    case LOOKUP_STALE: return reply->entry.len > 0;
    case LOOKUP_LOAD:
    case LOOKUP_PROBE:
    case LOOKUP_WAIT: return is_token(reply->token);
    case LOOKUP_ABSENT:
    case LOOKUP_PASS: return true;
    case LOOKUP_FAILED: return reply->status != 0;
    }
    return false;
}

bool answer_read_lookup(const struct redis_reply *result, struct lookup_reply *out)
{
    struct redis_reply *const *items = result->items;
    int64_t status;

    if (result->kind != REDIS_LIST || result->count != 11)
        return false;
    if (!read_kind(items[0], &out->kind) || items[1]->kind != REDIS_TEXT ||
        !token_read(items[1]->text, &out->token) || !read_number(items[2], 0, STORE_LAST_US, &out->epoch) ||
        !read_number(items[3], 0, STORE_LAST_US, &out->wait_ms) || !read_number(items[4], 0, 599, &status) ||
        !read_number(items[5], 0, STORE_LAST_US, &out->stored_us) ||
        !read_number(items[6], 0, STORE_LAST_US, &out->fresh_us) ||
        !read_number(items[7], 0, STORE_LAST_US, &out->stale_us) ||
        !read_number(items[8], 0, STORE_LAST_US, &out->error_us) ||
        !read_number(items[9], 0, STORE_LAST_US, &out->age_us) || items[10]->kind != REDIS_TEXT)
        return false;
    out->status = (int)status;
    out->entry = items[10]->text;
    return is_whole(out);
}

/* ---- the others ---- */

bool answer_read_fill(const struct redis_reply *result, enum fill_result *out)
{
    if (result->kind != REDIS_TEXT)
        return false;
    if (slice_eq(result->text, SLICE("stored")))
        *out = FILL_STORED;
    else if (slice_eq(result->text, SLICE("superseded")))
        *out = FILL_SUPERSEDED;
    else if (slice_eq(result->text, SLICE("invalidated")))
        *out = FILL_INVALIDATED;
    else
        return false;
    return true;
}

bool answer_read_held(const struct redis_reply *result, bool *out)
{
    int64_t held;

    if (!read_number(result, 0, 1, &held))
        return false;
    *out = held == 1;
    return true;
}

bool answer_read_plan(const struct redis_reply *reply, struct plan_answer *out)
{
    int64_t lasts_ms;

    if (reply->kind != REDIS_LIST || reply->count != 2 ||
        (reply->items[0]->kind != REDIS_TEXT && reply->items[0]->kind != REDIS_NIL) ||
        !read_number(reply->items[1], -2, INT64_MAX, &lasts_ms))
        return false;
    out->plan = plan_name_of(reply->items[0]->kind == REDIS_TEXT ? reply->items[0]->text : slice_of(NULL, 0));
    out->lasts_ms = lasts_ms < 0 ? -1 : lasts_ms;
    return true;
}

bool answer_read_epoch(const struct redis_reply *result, int64_t *out)
{
    return read_number(result, 1, STORE_LAST_US, out);
}

/* ---- published messages ---- */

/* Digits up to `end`, which is cut off with them. */
static bool cut_number(struct slice *from, char end, int64_t *out)
{
    int64_t number = 0;
    size_t i = 0;

    for (; i < from->len && from->base[i] >= '0' && from->base[i] <= '9'; i++) {
        number = number * 10 + (from->base[i] - '0');
        if (number > STORE_LAST_US)
            return false;
    }
    if (i == 0 || i == from->len || from->base[i] != end)
        return false;
    *out = number;
    *from = slice_of(from->base + i + 1, from->len - i - 1);
    return true;
}

bool message_read_invalidation(struct slice message, struct invalidation_message *out)
{
    if (!cut_number(&message, ' ', &out->previous) || !cut_number(&message, ' ', &out->epoch))
        return false;
    out->stamps = message;
    return out->previous < out->epoch;
}

bool message_next_stamp(struct slice *stamps, struct tag_stamp *out)
{
    struct slice rest = *stamps;
    int64_t len;

    if (!cut_number(&rest, ':', &len) || (uint64_t)len > rest.len ||
        !read_member(slice_of(rest.base, (size_t)len), out))
        return false;
    *stamps = slice_of(rest.base + len, rest.len - (size_t)len);
    return true;
}
