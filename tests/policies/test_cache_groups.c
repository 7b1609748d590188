#include "cache_groups.h"

#include <criterion/criterion.h>
#include <stdio.h>

/* The groups as "a|b", cut at eight. */
static const char *groups_of(const char *first, const char *second)
{
    static char text[512];
    struct header headers[] = {{SLICE("cache-groups"), slice_text(first)},
                               {SLICE("x-other"), SLICE("\"other\"")},
                               {SLICE("cache-groups"), slice_text(second)}};
    struct slice groups[8];
    size_t named = cache_groups_read(headers, second == NULL ? 2 : 3, SLICE("cache-groups"), groups, 8),
           at = 0;

    text[0] = '\0';
    for (size_t i = 0; i < named && i < 8; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%.*s", i == 0 ? "" : "|", (int)groups[i].len,
                               groups[i].base);
    return text;
}

Test(cache_groups, a_list_of_strings_names_groups)
{
    static const struct {
        const char *why, *first, *second, *want;
    } rows[] = {
        {"one", "\"a\"", NULL, "a"},
        {"several, on several lines", "\"a\", \"b\"", "\"c\"", "a|b|c"},
        {"case and blanks count", "\"A b\"", NULL, "A b"},
        {"an escape has one spelling", "\"a\\\"b\"", NULL, "a\\\"b"},
        {"parameters say nothing", "\"a\";x=\"y\";z, \"b\"", NULL, "a|b"},
        {"a token is no string, and spoils all", "\"a\", b", NULL, ""},
        {"nor is a number", "\"a\", 1", NULL, ""},
        {"nor an inner list", "\"a\", (\"b\")", NULL, ""},
        {"a mistake spoils all", "\"a\", \"b", NULL, ""},
        {"a mistake on another line, too", "\"a\"", "\"b\",", ""},
        {"nothing", "", NULL, ""},
        {"the empty string is a name", "\"\", \"b\"", NULL, "|b"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_expect_str_eq(groups_of(rows[i].first, rows[i].second), rows[i].want, "%s", rows[i].why);
}

Test(cache_groups, all_are_counted_and_as_many_written_as_fit)
{
    struct header header = {SLICE("f"), SLICE("\"a\", \"b\", \"c\"")};
    struct slice groups[2] = {{NULL, 0}, {NULL, 0}};

    cr_assert_eq(cache_groups_read(&header, 1, SLICE("f"), groups, 1), 3);
    cr_assert(slice_eq(groups[0], SLICE("a")));
    cr_assert_null(groups[1].base);
}
