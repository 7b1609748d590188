/* Tag list: the tags of a field, one after the other, whatever separates them. */
#include "tag_list.h"

#include <criterion/criterion.h>

Test(tag_list, tags_are_separated_by_blanks_and_commas)
{
    static const struct {
        const char *why, *line, *want; /* each tag in brackets */
    } rows[] = {
        {"as Surrogate-Key does", "one two three", "[one][two][three]"},
        {"as Cache-Tag does", "one,two, three", "[one][two][three]"},
        {"nothing", "", ""},
        {"only separators", " ,\t, ", ""},
        {"at both ends", " ,one,\t", "[one]"},
        {"many between", "one ,,\t two", "[one][two]"},
        {"one alone", "product:1", "[product:1]"},
        {"quotes and other bytes are the tag's own", "\"a\" b;c \xc3\xa9", "[\"a\"][b;c][\xc3\xa9]"},
        {"the same twice is told twice", "a a", "[a][a]"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct slice rest = slice_text(rows[i].line), tag;
        char got[64] = "";

        while (tag_list_next(&rest, &tag)) {
            strcat(got, "[");
            strncat(got, tag.base, tag.len);
            strcat(got, "]");
        }
        cr_assert_str_eq(got, rows[i].want, "%s", rows[i].why);
        cr_assert_eq(rest.len, 0);
        cr_assert(!tag_list_next(&rest, &tag), "the end stays the end");
    }
}

Test(tag_list, it_reads_nothing_beyond_the_line)
{
    char line[] = "onetwo";
    struct slice rest = slice_of(line, 3), tag;

    cr_assert(tag_list_next(&rest, &tag));
    cr_assert(slice_eq(tag, SLICE("one")));
    cr_assert(!tag_list_next(&rest, &tag));
}
