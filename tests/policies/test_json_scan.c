/* Json scan: what two readers could take for two things does not reach a parser. */
#include "json_scan.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define TEXT(literal)                                                                                        \
    {                                                                                                        \
        (literal), sizeof(literal) - 1                                                                       \
    }

Test(json_scan, members_are_counted_as_they_are_written)
{
    static const struct {
        struct slice text;
        size_t members;
    } rows[] = {
        {TEXT(""), 0},
        {TEXT("5"), 0},
        {TEXT("[1,2]"), 0},
        {TEXT("{}"), 0},
        {TEXT("{\"a\":1}"), 1},
        {TEXT("{\"a\":1,\"a\":2}"), 2},
        {TEXT("{\"a\":{\"b\":[{\"c\":null}]}, \"d\" : true}"), 4},
        {TEXT("{\"a:b\":\"c:\\\"d:\"}"), 1},
        {TEXT("{\"a\\\\\":\"\\\\\"}"), 1},
        {TEXT("\t{\r\n\"a\" : -1.5e+3,\"b\":1E5}"), 2},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        size_t members = 99;

        cr_expect(json_scan(rows[i].text, &members), "%s", rows[i].text.base);
        cr_expect_eq(members, rows[i].members, "%s: %zu", rows[i].text.base, members);
    }
}

Test(json_scan, what_is_read_in_two_ways_is_not_read)
{
    static const struct {
        const char *why;
        struct slice text;
    } rows[] = {
        {"single quotes", TEXT("{'a':1}")},
        {"a comment", TEXT("{\"a\":1}/*:*/")},
        {"NaN", TEXT("{\"a\":NaN}")},
        {"Infinity", TEXT("{\"a\":-Infinity}")},
        {"a NUL byte", TEXT("{\"a\":1}\0{\"a\":2}")},
        {"a NUL byte in a string", TEXT("{\"a\0b\":1}")},
        {"an escaped one in a name", TEXT("{\"a\\u0000b\":1}")},
        {"a line end in a string", TEXT("{\"a\":\"\n\"}")},
        {"a string without end", TEXT("{\"a")},
        {"an escape without end", TEXT("\"\\")},
        {"a byte order mark", TEXT("\xef\xbb\xbf{}")},
    };
    size_t members;

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        cr_expect_not(json_scan(rows[i].text, &members), "%s", rows[i].why);
    cr_expect(json_scan(SLICE("{\"a\":\"\\u0000\"}"), &members), "in a value it does no harm");
    cr_expect(json_scan(SLICE("[\"\\u0000\",{\"a\":1}]"), &members), "also of another object");
}

Test(json_scan, what_takes_much_more_memory_than_its_bytes_is_not_read)
{
    size_t members, len = 2 * JSON_MAX_CONTAINERS + 2;
    char *text = malloc(len);

    memset(text, '{', len);
    cr_expect(json_scan(slice_of(text, JSON_MAX_CONTAINERS), &members));
    cr_expect_not(json_scan(slice_of(text, JSON_MAX_CONTAINERS + 1), &members));
    memset(text, '[', len / 2);
    cr_expect_not(json_scan(slice_of(text, len), &members));
    free(text);
}
