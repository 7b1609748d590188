/* Range: which bytes does a request ask for? */
#include "range.h"

#include <criterion/criterion.h>

Test(range, is_one_run_of_bytes_or_the_whole)
{
    static const struct {
        const char *why, *value;
        int64_t length;
        enum range_answer want;
        int64_t first, last;
    } rows[] = {
        {"from and to", "bytes=0-4", 10, RANGE_PART, 0, 4},
        {"one byte", "bytes=9-9", 10, RANGE_PART, 9, 9},
        {"to the end", "bytes=5-", 10, RANGE_PART, 5, 9},
        {"beyond the end is the end", "bytes=5-99", 10, RANGE_PART, 5, 9},
        {"all of it is a part, too", "bytes=0-", 10, RANGE_PART, 0, 9},
        {"the last ones", "bytes=-3", 10, RANGE_PART, 7, 9},
        {"more last ones than there are", "bytes=-30", 10, RANGE_PART, 0, 9},
        {"none of the last", "bytes=-0", 10, RANGE_UNSATISFIABLE, 0, 0},
        {"behind the end", "bytes=10-", 10, RANGE_UNSATISFIABLE, 0, 0},
        {"of nothing", "bytes=0-", 0, RANGE_UNSATISFIABLE, 0, 0},
        {"the last of nothing", "bytes=-1", 0, RANGE_UNSATISFIABLE, 0, 0},
        {"a huge number", "bytes=99999999999999999999-", 10, RANGE_UNSATISFIABLE, 0, 0},
        {"backwards is no range", "bytes=4-3", 10, RANGE_WHOLE, 0, 0},
        {"no number", "bytes=a-b", 10, RANGE_WHOLE, 0, 0},
        {"a sign", "bytes=+1-2", 10, RANGE_WHOLE, 0, 0},
        {"neither end", "bytes=-", 10, RANGE_WHOLE, 0, 0},
        {"no dash", "bytes=1", 10, RANGE_WHOLE, 0, 0},
        {"nothing", "bytes=", 10, RANGE_WHOLE, 0, 0},
        {"another unit", "lines=0-1", 10, RANGE_WHOLE, 0, 0},
        {"units have no case", "BYTES=0-1", 10, RANGE_PART, 0, 1},
        {"blanks", "bytes= 0-1 ", 10, RANGE_PART, 0, 1},
        {"parts that touch", "bytes=0-1,2-3", 10, RANGE_PART, 0, 3},
        {"parts that overlap, in any order", "bytes=4-8,0-5", 10, RANGE_PART, 0, 8},
        {"one within another", "bytes=0-8,2-3", 10, RANGE_PART, 0, 8},
        {"parts that lie apart", "bytes=0-1,5-6", 10, RANGE_WHOLE, 0, 0},
        {"one of them is not there", "bytes=0-1,50-60", 10, RANGE_PART, 0, 1},
        {"none of them is there", "bytes=30-31,50-60", 10, RANGE_UNSATISFIABLE, 0, 0},
        {"one of them is none", "bytes=0-1,x", 10, RANGE_WHOLE, 0, 0},
        {"too many", "bytes=0-,0-,0-,0-,0-,0-,0-,0-,0-,0-,0-,0-,0-,0-,0-,0-,0-", 10, RANGE_WHOLE, 0, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct byte_range got = {0, 0};

        cr_expect_eq(range_read(slice_text(rows[i].value), rows[i].length, &got), rows[i].want, "%s",
                     rows[i].why);
        if (rows[i].want == RANGE_PART)
            cr_expect(got.first == rows[i].first && got.last == rows[i].last, "%s: %lld-%lld", rows[i].why,
                      (long long)got.first, (long long)got.last);
    }
    struct byte_range none;
    cr_assert_eq(range_read(slice_of(NULL, 0), 10, &none), RANGE_WHOLE);
}

Test(range, is_told_with_the_length_of_the_whole)
{
    char room[CONTENT_RANGE_ROOM];
    struct text text = text_in(room, sizeof(room));
    struct byte_range all = {INT64_MAX - 1, INT64_MAX};

    content_range_write(&(struct byte_range){0, 4}, 10, &text);
    cr_assert(slice_eq(text_slice(&text), SLICE("bytes 0-4/10")));
    text = text_in(room, sizeof(room));
    content_range_write(NULL, 10, &text);
    cr_assert(slice_eq(text_slice(&text), SLICE("bytes */10")));
    text = text_in(room, sizeof(room));
    content_range_write(&all, INT64_MAX, &text);
    cr_assert(text_fits(&text));
}

Test(range, one_that_is_less_than_the_whole_has_one_spelling)
{
    static const struct {
        const char *value, *want; /* NULL: it is none of these */
    } rows[] = {
        {"bytes=5-", "bytes=5-"},
        {"BYTES= 05-0009 ,", "bytes=5-9"},
        {"bytes=,-5", "bytes=-5"},
        {"bytes=0-0", "bytes=0-0"},
        {"bytes=99999999999999999999-", "bytes=9223372036854775807-"},
        {"bytes=0-", NULL},
        {"bytes=5-9,11-12", NULL},
        {"bytes=9-5", NULL},
        {"bytes=-", NULL},
        {"bytes=", NULL},
        {"bytes=a-b", NULL},
        {"bytes=+5-", NULL},
        {"lines=5-9", NULL},
        {"", NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char room[RANGE_TEXT_ROOM];
        struct text text = text_in(room, sizeof(room));

        cr_expect_eq(range_is_part(slice_text(rows[i].value), &text), rows[i].want != NULL, "%s",
                     rows[i].value);
        cr_expect(text_fits(&text));
        cr_expect(slice_eq(text_slice(&text), slice_text(rows[i].want == NULL ? "" : rows[i].want)), "%s",
                  rows[i].value);
    }
}

Test(range, what_a_part_says_of_itself_is_read_where_it_can_be_true)
{
    static const struct {
        const char *value;
        bool want;
        int64_t first, last, whole;
    } rows[] = {
        {"bytes 4-9/10", true, 4, 9, 10}, {"Bytes 0-0/1", true, 0, 0, 1},
        {"bytes 4-9/*", true, 4, 9, -1},  {"bytes 4-10/10", false, 0, 0, 0},
        {"bytes 9-4/10", false, 0, 0, 0}, {"bytes */10", false, 0, 0, 0},
        {"bytes -9/10", false, 0, 0, 0},  {"bytes 4-/10", false, 0, 0, 0},
        {"bytes 4-9", false, 0, 0, 0},    {"bytes 4-9/", false, 0, 0, 0},
        {"bytes 4-9/x", false, 0, 0, 0},  {"bytes=4-9/10", false, 0, 0, 0},
        {"lines 4-9/10", false, 0, 0, 0}, {"", false, 0, 0, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct byte_range range;
        int64_t whole;

        cr_expect_eq(content_range_read(slice_text(rows[i].value), &range, &whole), rows[i].want, "%s",
                     rows[i].value);
        if (rows[i].want)
            cr_expect(range.first == rows[i].first && range.last == rows[i].last && whole == rows[i].whole,
                      "%s", rows[i].value);
    }
}

Test(range, several_that_lie_apart_are_told_in_ascending_order)
{
    static const struct {
        const char *value;
        enum range_answer want;
        size_t count;
        struct byte_range parts[3];
    } rows[] = {
        {"bytes=0-1,5-6", RANGE_PARTS, 2, {{0, 1}, {5, 6}}},
        {"bytes=0-1,3-4,-2", RANGE_PARTS, 3, {{0, 1}, {3, 4}, {8, 9}}},
        {"bytes=0-1,1-3,5-6", RANGE_PARTS, 2, {{0, 3}, {5, 6}}},
        {"bytes=0-1,5-6,50-", RANGE_PARTS, 2, {{0, 1}, {5, 6}}},
        {"bytes=5-6,0-1", RANGE_WHOLE, 2, {{0, 0}}},
        {"bytes=0-1,2-3", RANGE_PART, 1, {{0, 3}}},
        {"bytes=50-,60-", RANGE_UNSATISFIABLE, 0, {{0, 0}}},
        {"bytes=0-1,x", RANGE_WHOLE, 0, {{0, 0}}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct byte_range parts[RANGE_MAX_PARTS];
        size_t count;

        cr_expect_eq(range_read_parts(slice_text(rows[i].value), 10, parts, &count), rows[i].want, "%s",
                     rows[i].value);
        if (rows[i].want != RANGE_PARTS && rows[i].want != RANGE_PART)
            continue;
        cr_assert_eq(count, rows[i].count, "%s", rows[i].value);
        for (size_t k = 0; k < count; k++)
            cr_expect(parts[k].first == rows[i].parts[k].first && parts[k].last == rows[i].parts[k].last,
                      "%s", rows[i].value);
    }
}
