#include "text.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>

static void expect(const struct text *text, const char *want)
{
    struct slice got = text_slice(text);
    cr_assert(slice_eq(got, slice_text(want)), "got '%.*s', want '%s'", (int)got.len, got.base, want);
}

Test(text, integers_are_written_as_printf_writes_them)
{
    static const int64_t rows[] = {0,          9,  10,        -1,        -10,          1000000,
                                   2147483648, 99, INT64_MAX, INT64_MIN, INT64_MIN + 1};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char room[TEXT_INT_ROOM], want[32];
        struct text text = text_in(room, sizeof(room));
        text_add_int(&text, rows[i]);
        snprintf(want, sizeof(want), "%" PRId64, rows[i]);
        cr_assert(text_fits(&text));
        expect(&text, want);
    }
}

Test(text, digits_are_padded_with_zeros_and_never_cut)
{
    static const struct {
        int64_t number;
        int digits;
        const char *want;
    } rows[] = {{7, 2, "07"},
                {10, 2, "10"},
                {0, 4, "0000"},
                {123, 2, "123"},
                {1994, 4, "1994"},
                {INT64_MAX, 20, "09223372036854775807"},
                {INT64_C(1000000000000000000), 20, "01000000000000000000"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char room[32];
        struct text text = text_in(room, sizeof(room));
        text_add_digits(&text, rows[i].number, rows[i].digits);
        expect(&text, rows[i].want);
    }
}

Test(text, what_does_not_fit_is_counted_but_never_written)
{
    char room[8] = "........";
    struct text text = text_in(room, 4);

    text_add(&text, SLICE("abc"));
    cr_assert(text_fits(&text));
    text_add(&text, SLICE("defg"));
    text_add_char(&text, 'h');
    cr_assert_not(text_fits(&text));
    cr_assert_eq(text.len, 8);
    cr_assert_eq(text_slice(&text).len, 4);
    cr_assert_eq(memcmp(room, "abcd....", 8), 0);
}

Test(text, a_writer_without_room_only_measures)
{
    struct text text = text_in(NULL, 0);

    text_add(&text, SLICE("weir"));
    text_add(&text, (struct slice){NULL, 0});
    text_add_int(&text, -12);
    cr_assert_eq(text.len, 7);
    cr_assert_eq(text_slice(&text).len, 0);
}

Test(text, a_quoted_string_cannot_be_left)
{
    char room[64];
    struct text text = text_in(room, sizeof(room));

    text_add_quoted(&text, SLICE("a\"b\\c\r\n\x80~"));
    expect(&text, "\"a\\\"b\\\\c???~\"");
}

Test(text, only_digits_are_a_number)
{
    static const char *const bad[] = {"", "-1", "+1", " 1", "1 ", "1.5", "0x10", "1e3", "a", "1a", "\xb2"};
    int64_t number = 77;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert_not(text_parse_digits(slice_text(bad[i]), 100, &number), "'%s'", bad[i]);
    cr_assert_eq(number, 77, "a failure writes nothing");
}

Test(text, numbers_above_the_bound_become_the_bound)
{
    static const struct {
        const char *digits;
        int64_t max, want;
    } rows[] = {{"0", 100, 0},
                {"00060", 100, 60},
                {"99", 100, 99},
                {"100", 100, 100},
                {"101", 100, 100},
                {"1010", 100, 100},
                {"99999999999999999999999999999999999999999999", 100, 100},
                {"1000000000000000000000000000000000000000000", INT64_MAX, INT64_MAX},
                {"9223372036854775807", INT64_MAX, INT64_MAX},
                {"9223372036854775808", INT64_MAX, INT64_MAX},
                {"9223372036854775806", INT64_MAX, INT64_MAX - 1},
                {"9", 5, 5}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t got;
        cr_assert(text_parse_digits(slice_text(rows[i].digits), rows[i].max, &got));
        cr_assert_eq(got, rows[i].want, "%s", rows[i].digits);
    }
}
