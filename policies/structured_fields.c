/* Structured fields: see structured_fields.h. Section numbers are RFC 9651's. */
#include "structured_fields.h"

#include "http_char.h"
#include "text.h"

/* Where the reader stands, which says what may come next. */
enum place {
    AT_MEMBER,     /* before the first member, or behind a comma */
    BEHIND_MEMBER, /* parameters of a member, then a comma or the end */
    INSIDE,        /* of an inner list: an item, or its end */
    BEHIND_INNER,  /* an item of an inner list: its parameters, then a blank or the list's end */
    AT_END,
    LOST,
};

enum { INTEGER_DIGITS_MAX = 15, DECIMAL_WHOLE_DIGITS_MAX = 12, DECIMAL_PART_DIGITS_MAX = 3 };

/* ---- single bytes ---- */

static bool next_is(const struct slice *rest, char c)
{
    return rest->len > 0 && rest->base[0] == c;
}

static void skip(struct slice *rest, size_t bytes)
{
    *rest = slice_of(rest->base + bytes, rest->len - bytes);
}

static bool take(struct slice *rest, char c)
{
    if (!next_is(rest, c))
        return false;
    skip(rest, 1);
    return true;
}

static void skip_spaces(struct slice *rest)
{
    while (next_is(rest, ' '))
        skip(rest, 1);
}

static void skip_blanks(struct slice *rest)
{
    while (next_is(rest, ' ') || next_is(rest, '\t'))
        skip(rest, 1);
}

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_printable(char c)
{
    return c >= ' ' && c <= '~';
}

/* ---- bare items (section 4.2.3.1) ---- */

/* An integer or a decimal (section 4.2.4). */
static bool take_number(struct slice *rest, struct sf_value *out)
{
    bool is_negative = take(rest, '-');
    size_t whole = 0, part = 0;
    int64_t number = 0;

    for (; rest->len > 0 && is_digit(rest->base[0]); whole++, skip(rest, 1)) {
        if (whole == INTEGER_DIGITS_MAX)
            return false;
        number = number * 10 + (rest->base[0] - '0');
    }
    if (whole == 0)
        return false;
    out->type = SF_INTEGER;
    if (take(rest, '.')) {
        if (whole > DECIMAL_WHOLE_DIGITS_MAX)
            return false;
        for (; rest->len > 0 && is_digit(rest->base[0]); part++, skip(rest, 1)) {
            if (part == DECIMAL_PART_DIGITS_MAX)
                return false;
            number = number * 10 + (rest->base[0] - '0');
        }
        if (part == 0)
            return false;
        for (; part < DECIMAL_PART_DIGITS_MAX; part++)
            number *= 10;
        out->type = SF_DECIMAL;
    }
    out->number = is_negative ? -number : number;
    return true;
}

/* Behind the opening quote; a backslash takes the byte after it along (section 4.2.5). */
static bool take_string(struct slice *rest, struct sf_value *out)
{
    for (size_t i = 0; i < rest->len; i++) {
        char c = rest->base[i];

        if (c == '"') {
            out->text = slice_of(rest->base, i);
            skip(rest, i + 1);
            return true;
        }
        if (c == '\\') {
            i++;
            if (i == rest->len || (rest->base[i] != '"' && rest->base[i] != '\\'))
                return false;
        } else if (!is_printable(c)) {
            return false;
        }
    }
    return false;
}

static void take_token(struct slice *rest, struct sf_value *out)
{
    size_t len = 1;

    while (len < rest->len &&
           (is_token_char(rest->base[len]) || rest->base[len] == ':' || rest->base[len] == '/'))
        len++;
    out->text = slice_of(rest->base, len);
    skip(rest, len);
}

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (is_digit(c))
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static struct slice without_padding(struct slice text)
{
    for (int i = 0; i < 2 && text.len > 0 && text.base[text.len - 1] == '='; i++)
        text.len--;
    return text;
}

/* Behind the opening colon (section 4.2.7). Padding may be missing, but not be wrong. */
static bool take_bytes(struct slice *rest, struct sf_value *out)
{
    const char *colon = rest->len == 0 ? NULL : memchr(rest->base, ':', rest->len);
    struct slice text, digits;

    if (colon == NULL)
        return false;
    text = slice_of(rest->base, (size_t)(colon - rest->base));
    digits = without_padding(text);
    for (size_t i = 0; i < digits.len; i++)
        if (base64_value(digits.base[i]) < 0)
            return false;
    if (digits.len % 4 == 1 || (digits.len < text.len && text.len % 4 != 0))
        return false;
    out->text = text;
    skip(rest, text.len + 1);
    return true;
}

/* How many bytes of UTF-8 follow this first one, and what the second may be; -1: it begins nothing. Overlong
 * forms, surrogates and what is beyond U+10FFFF begin nothing either (RFC 3629 section 4). */
static int utf8_rest(unsigned char first, unsigned char *least_out, unsigned char *most_out)
{
    *least_out = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    *most_out = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (first < 0x80)
        return 0;
    if (first >= 0xc2 && first <= 0xdf)
        return 1;
    if (first >= 0xe0 && first <= 0xef)
        return 2;
    return first >= 0xf0 && first <= 0xf4 ? 3 : -1;
}

static int lower_hex_value(char c)
{
    return c >= 'A' && c <= 'F' ? -1 : hex_value(c);
}

/* The byte at text[*at], which is moved behind it; -1: no byte that may stand in a display string. */
static int display_byte(struct slice text, size_t *at)
{
    char c = text.base[*at];
    int high, low;

    if (!is_printable(c))
        return -1;
    if (c != '%') {
        *at += 1;
        return c;
    }
    if (text.len - *at < 3)
        return -1;
    high = lower_hex_value(text.base[*at + 1]);
    low = lower_hex_value(text.base[*at + 2]);
    *at += 3;
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static bool is_utf8(struct slice text)
{
    unsigned char least = 0, most = 0xff;
    int missing = 0;

    for (size_t at = 0; at < text.len;) {
        int byte = display_byte(text, &at);

        if (byte < 0)
            return false;
        if (missing == 0) {
            missing = utf8_rest((unsigned char)byte, &least, &most);
            if (missing < 0)
                return false;
        } else if (byte < least || byte > most) {
            return false;
        } else {
            missing--;
            least = 0x80;
            most = 0xbf;
        }
    }
    return missing == 0;
}

/* Behind the opening '%' (section 4.2.10). */
static bool take_display_string(struct slice *rest, struct sf_value *out)
{
    const char *quote;

    if (!take(rest, '"'))
        return false;
    quote = rest->len == 0 ? NULL : memchr(rest->base, '"', rest->len);
    if (quote == NULL)
        return false;
    out->text = slice_of(rest->base, (size_t)(quote - rest->base));
    skip(rest, out->text.len + 1);
    return is_utf8(out->text);
}

static bool take_boolean(struct slice *rest, struct sf_value *out)
{
    out->number = next_is(rest, '1');
    return take(rest, '1') || take(rest, '0');
}

static bool take_date(struct slice *rest, struct sf_value *out)
{
    bool is_integer = take_number(rest, out) && out->type == SF_INTEGER;

    out->type = SF_DATE;
    return is_integer;
}

static bool take_value(struct slice *rest, struct sf_value *out)
{
    *out = (struct sf_value){.text = {NULL, 0}};
    if (rest->len == 0)
        return false;
    if (is_digit(rest->base[0]) || rest->base[0] == '-')
        return take_number(rest, out);
    if (is_alpha(rest->base[0]) || rest->base[0] == '*') {
        out->type = SF_TOKEN;
        take_token(rest, out);
        return true;
    }
    out->type = SF_STRING;
    if (take(rest, '"'))
        return take_string(rest, out);
    out->type = SF_BYTES;
    if (take(rest, ':'))
        return take_bytes(rest, out);
    out->type = SF_BOOLEAN;
    if (take(rest, '?'))
        return take_boolean(rest, out);
    if (take(rest, '@'))
        return take_date(rest, out);
    out->type = SF_DISPLAY_STRING;
    return take(rest, '%') && take_display_string(rest, out);
}

static bool take_key(struct slice *rest, struct slice *out)
{
    size_t len = 0;

    if (rest->len == 0 || !(is_lower(rest->base[0]) || rest->base[0] == '*'))
        return false;
    while (len < rest->len && (is_lower(rest->base[len]) || is_digit(rest->base[len]) ||
                               memchr("_-.*", rest->base[len], 4) != NULL))
        len++;
    *out = slice_of(rest->base, len);
    skip(rest, len);
    return true;
}

/* What stands alone means: true (sections 4.2.2 and 4.2.3.2). */
static const struct sf_value TRUTH = {SF_BOOLEAN, 1, {NULL, 0}};

/* ---- members ---- */

static enum sf_event lose(struct sf_reader *reader)
{
    reader->place = LOST;
    return SF_MALFORMED;
}

/* The field's next line, if there is one. */
static bool take_line(struct sf_reader *reader)
{
    if (reader->name.base == NULL)
        return false;
    while (reader->line_count > 0) {
        const struct header *line = reader->lines++;

        reader->line_count--;
        if (slice_eq(line->name, reader->name)) {
            reader->rest = line->value;
            return true;
        }
    }
    return false;
}

static enum sf_event take_inner_list(struct sf_reader *reader)
{
    reader->place = INSIDE;
    reader->value = (struct sf_value){.text = {NULL, 0}};
    return SF_INNER_LIST;
}

static enum sf_event take_member(struct sf_reader *reader)
{
    struct slice *rest = &reader->rest;

    reader->key = slice_of(NULL, 0);
    reader->place = BEHIND_MEMBER;
    if (reader->kind == SF_KIND_DICTIONARY) {
        if (!take_key(rest, &reader->key))
            return lose(reader);
        if (!take(rest, '=')) {
            reader->value = TRUTH;
            return SF_ITEM;
        }
    }
    if (reader->kind != SF_KIND_ITEM && take(rest, '('))
        return take_inner_list(reader);
    return take_value(rest, &reader->value) ? SF_ITEM : lose(reader);
}

static enum sf_event take_parameter(struct sf_reader *reader)
{
    struct slice *rest = &reader->rest;

    skip_spaces(rest);
    if (!take_key(rest, &reader->key))
        return lose(reader);
    reader->value = TRUTH;
    if (take(rest, '=') && !take_value(rest, &reader->value))
        return lose(reader);
    return SF_PARAMETER;
}

/* Another line goes on where the last one ended, as behind a comma. */
static enum sf_event end_line(struct sf_reader *reader)
{
    if (!take_line(reader)) {
        reader->place = AT_END;
        return SF_END;
    }
    skip_blanks(&reader->rest);
    if (reader->kind == SF_KIND_ITEM || reader->rest.len == 0)
        return lose(reader); /* nothing may stand behind an item, and a comma needs something behind it */
    return take_member(reader);
}

/* After a member and its parameters. */
static enum sf_event leave_member(struct sf_reader *reader)
{
    struct slice *rest = &reader->rest;

    if (reader->kind == SF_KIND_ITEM) {
        skip_spaces(rest);
        return rest->len == 0 ? end_line(reader) : lose(reader);
    }
    skip_blanks(rest);
    if (rest->len == 0)
        return end_line(reader);
    if (!take(rest, ','))
        return lose(reader);
    skip_blanks(rest);
    return rest->len == 0 ? lose(reader) : take_member(reader);
}

/* Within an inner list (section 4.2.1.2). */
static enum sf_event take_inner(struct sf_reader *reader)
{
    struct slice *rest = &reader->rest;

    skip_spaces(rest);
    reader->key = slice_of(NULL, 0);
    if (take(rest, ')')) {
        reader->place = BEHIND_MEMBER;
        return SF_INNER_LIST_END;
    }
    reader->place = BEHIND_INNER;
    return take_value(rest, &reader->value) ? SF_ITEM : lose(reader);
}

enum sf_event sf_next(struct sf_reader *reader)
{
    switch ((enum place)reader->place) {
    case AT_MEMBER: return take_member(reader);
    case BEHIND_MEMBER: return take(&reader->rest, ';') ? take_parameter(reader) : leave_member(reader);
    case INSIDE: return take_inner(reader);
    case BEHIND_INNER:
        if (take(&reader->rest, ';'))
            return take_parameter(reader);
        return next_is(&reader->rest, ' ') || next_is(&reader->rest, ')') ? take_inner(reader) : lose(reader);
    case AT_END: return SF_END;
    case LOST: return SF_MALFORMED;
    }
    return SF_MALFORMED;
}

/* ---- the door ---- */

static void begin(struct sf_reader *reader)
{
    skip_spaces(&reader->rest);
    if (reader->rest.len > 0)
        reader->place = AT_MEMBER;
    else
        reader->place = reader->kind == SF_KIND_ITEM ? LOST : AT_END;
}

void sf_read_line(struct sf_reader *reader, enum sf_kind kind, struct slice line)
{
    *reader = (struct sf_reader){.kind = kind, .rest = line};
    begin(reader);
}

/* Are all of these lines empty? Then the field is. */
static bool is_blank(const struct header *headers, size_t count, struct slice name)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq(headers[i].name, name) && slice_trim(headers[i].value).len > 0)
            return false;
    return true;
}

void sf_read_field(struct sf_reader *reader, enum sf_kind kind, const struct header *headers, size_t count,
                   struct slice name)
{
    *reader = (struct sf_reader){.kind = kind, .lines = headers, .line_count = count, .name = name};
    if (take_line(reader) && slice_trim(reader->rest).len == 0 && !is_blank(headers, count, name))
        reader->place = LOST; /* nothing before the comma */
    else
        begin(reader);
}

bool sf_is_sound(struct sf_reader reader)
{
    enum sf_event event;

    do
        event = sf_next(&reader);
    while (event != SF_END && event != SF_MALFORMED);
    return event == SF_END;
}

/* ---- texts ---- */

static void write_string(struct slice text, struct text *out)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.base[i] == '\\' && i + 1 < text.len)
            i++;
        text_add_char(out, text.base[i]);
    }
}

static void write_bytes(struct slice text, struct text *out)
{
    unsigned pending = 0, bits = 0;

    text = without_padding(text);
    for (size_t i = 0; i < text.len; i++) {
        pending = (pending << 6 | (unsigned)base64_value(text.base[i])) & 0xffff;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            text_add_char(out, (char)(unsigned char)(pending >> bits & 0xff));
        }
    }
}

static void write_display_string(struct slice text, struct text *out)
{
    for (size_t at = 0; at < text.len;)
        text_add_char(out, (char)(unsigned char)display_byte(text, &at));
}

size_t sf_text_write(const struct sf_value *value, char *out, size_t room)
{
    struct text text = text_in(out, room);

    switch (value->type) {
    case SF_STRING: write_string(value->text, &text); break;
    case SF_BYTES: write_bytes(value->text, &text); break;
    case SF_DISPLAY_STRING: write_display_string(value->text, &text); break;
    case SF_TOKEN: text_add(&text, value->text); break;
    case SF_INTEGER:
    case SF_DECIMAL:
    case SF_BOOLEAN:
    case SF_DATE: break;
    }
    return text.len;
}
