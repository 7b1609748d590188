/* Vary: does an answer depend on anything but one field? In doubt it does. */
#include "vary.h"

#include <criterion/criterion.h>

static struct header vary(const char *value)
{
    return (struct header){SLICE("vary"), slice_text(value)};
}

Test(vary, only_the_one_field_may_be_named)
{
    static const struct {
        const char *why, *value;
        bool want;
    } rows[] = {
        {"the one", "accept-encoding", true},
        {"in any case", "Accept-ENCODING", true},
        {"twice", "accept-encoding, accept-encoding", true},
        {"with space around", " accept-encoding\t", true},
        {"nothing", "", true},
        {"empty members are nothing", ", ,accept-encoding,", true},
        {"everything", "*", false},
        {"everything, among others", "accept-encoding, *", false},
        {"another", "cookie", false},
        {"another before", "cookie, accept-encoding", false},
        {"another after", "accept-encoding,cookie", false},
        {"one that begins like it", "accept-encodings", false},
        {"one that it begins with", "accept", false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct header header = vary(rows[i].value);

        cr_assert_eq(vary_names_only(&header, 1, SLICE("accept-encoding")), rows[i].want, "%s", rows[i].why);
    }
}

Test(vary, all_lines_are_one_list_and_other_fields_are_none)
{
    struct header both[] = {vary("accept-encoding"), {SLICE("x-vary"), SLICE("*")}, vary("cookie")};

    cr_assert(vary_names_only(both, 2, SLICE("accept-encoding")));
    cr_assert(!vary_names_only(both, 3, SLICE("accept-encoding")));
    cr_assert(vary_names_only(NULL, 0, SLICE("accept-encoding")), "no Vary at all");
}
