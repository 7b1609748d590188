/* Text: a bounded writer, for policies that must put words and numbers together without a libc. */
#include "text.h"

struct text text_in(char *base, size_t room)
{
    return (struct text){.base = base, .room = room};
}

void text_add(struct text *text, struct slice more)
{
    if (text->len < text->room && more.len > 0) {
        size_t left = text->room - text->len;
        memcpy(text->base + text->len, more.base, more.len < left ? more.len : left);
    }
    text->len += more.len;
}

void text_add_char(struct text *text, char c)
{
    text_add(text, slice_of(&c, 1));
}

void text_add_int(struct text *text, int64_t number)
{
    char digits[TEXT_INT_ROOM];
    size_t at = sizeof(digits);
    /* the magnitude of INT64_MIN fits no int64_t */
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;

    do {
        digits[--at] = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (number < 0)
        digits[--at] = '-';
    text_add(text, slice_of(digits + at, sizeof(digits) - at));
}

void text_add_digits(struct text *text, int64_t number, int digits)
{
    int64_t bound = 10;
    int needed = 1;

    while (needed < 19 && number >= bound) {
        needed++;
        bound = needed < 19 ? bound * 10 : bound;
    }
    for (; needed < digits; needed++)
        text_add_char(text, '0');
    text_add_int(text, number);
}

void text_add_quoted(struct text *text, struct slice more)
{
    text_add_char(text, '"');
    for (size_t i = 0; i < more.len; i++) {
        char c = more.base[i];
        if (c == '"' || c == '\\')
            text_add_char(text, '\\');
        text_add_char(text, c >= ' ' && c <= '~' ? c : '?');
    }
    text_add_char(text, '"');
}

bool text_fits(const struct text *text)
{
    return text->len <= text->room;
}

struct slice text_slice(const struct text *text)
{
    return slice_of(text->base, text_fits(text) ? text->len : text->room);
}

bool text_parse_digits(struct slice digits, int64_t max, int64_t *out)
{
    int64_t number = 0;

    if (digits.len == 0)
        return false;
    for (size_t i = 0; i < digits.len; i++) {
        int digit = digits.base[i] - '0';
        if (digit < 0 || digit > 9)
            return false;
        /* stays at max once there, however many digits follow */
        number = digit > max || number > (max - digit) / 10 ? max : number * 10 + digit;
    }
    *out = number;
    return true;
}
