#include "json_text.h"

#include <criterion/criterion.h>

static const char *json(const char *bytes, size_t len, size_t max_bytes)
{
    static char room[512];
    struct text text = text_in(room, sizeof(room) - 1);

    text_add_json(&text, slice_of(bytes, len), max_bytes);
    cr_assert(text_fits(&text));
    room[text.len] = '\0';
    return room;
}

Test(json_text, any_bytes_make_one_valid_string)
{
    static const struct {
        const char *bytes, *want, *why;
    } rows[] = {
        {"", "\"\"", "nothing"},
        {"plain /?=", "\"plain /?=\"", "what stands for itself"},
        {"a\"b\\c", "\"a\\\"b\\\\c\"", "quote and backslash"},
        {"a\nb\x1b\x7f", "\"a\\u000ab\\u001b\\u007f\"", "control characters"},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"",
         "UTF-8 of every length"},
        {"\xff\xfe", "\"\\u00ff\\u00fe\"", "bytes that are never UTF-8"},
        {"\xc3(", "\"\\u00c3(\"", "a character cut off by another"},
        {"\xe2\x82", "\"\\u00e2\\u0082\"", "a character cut off by the end"},
        {"\xc0\xaf", "\"\\u00c0\\u00af\"", "an overlong slash"},
        {"\xe0\x80\xaf", "\"\\u00e0\\u0080\\u00af\"", "a longer one"},
        {"\xf0\x80\x80\xaf", "\"\\u00f0\\u0080\\u0080\\u00af\"", "the longest"},
        {"\xed\xa0\x80", "\"\\u00ed\\u00a0\\u0080\"", "half of a surrogate pair"},
        {"\xf4\x90\x80\x80", "\"\\u00f4\\u0090\\u0080\\u0080\"", "above the last character"},
        {"\xf5\x80\x80\x80", "\"\\u00f5\\u0080\\u0080\\u0080\"", "far above it"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_expect_str_eq(json(rows[i].bytes, strlen(rows[i].bytes), 500), rows[i].want, "%s", rows[i].why);
    cr_expect_str_eq(json("a\0b", 3, 500), "\"a\\u0000b\"", "NUL");
}

Test(json_text, a_long_value_is_cut_between_characters)
{
    cr_expect_str_eq(json("abcdef", 6, 6), "\"abcdef\"");
    cr_expect_str_eq(json("abcdef", 6, 5), "\"abcde...\"");
    cr_expect_str_eq(json("ab\xc3\xa9", 4, 3), "\"ab...\"", "not within one");
    cr_expect_str_eq(json("a\n", 2, 5), "\"a...\"", "nor within an escape");
}
