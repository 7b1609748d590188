/* Path text: paths that are the same have one spelling, and different ones stay different. */
#include "path_text.h"

#include <criterion/criterion.h>

static void expect(const char *path, const char *want)
{
    char out[64];
    size_t len = path_fold(slice_text(path), out);

    cr_assert(slice_eq(slice_of(out, len), slice_text(want)), "%s became %.*s", path, (int)len, out);
}

Test(path_text, an_escape_of_an_unreserved_byte_is_that_byte)
{
    expect("/products/%31", "/products/1");
    expect("/%41%7a%2D%2E%5F%7e", "/Az-._~");
    expect("/a%2dB", "/a-B");
    expect("", "");
    expect("/", "/");
}

Test(path_text, other_escapes_stay_because_they_mean_something_else)
{
    expect("/a%2Fb", "/a%2Fb");
    expect("/a%3Fb", "/a%3Fb");
    expect("/%25%32%66", "/%252f");
    expect("/%00", "/%00");
    expect("/%C3%A9", "/%C3%A9");
}

Test(path_text, what_was_folded_is_not_folded_again)
{
    expect("/%2541", "/%2541"); /* the escape of a percent sign, then 41 */
    expect("/%%34%31", "/%41");
}

Test(path_text, bad_escapes_stay_as_they_are)
{
    expect("/%", "/%");
    expect("/%4", "/%4");
    expect("/%4g", "/%4g");
    expect("/%g1", "/%g1");
}

Test(path_text, folding_never_makes_it_longer_and_reads_nothing_beyond_it)
{
    char out[3];

    cr_assert_eq(path_fold(slice_of("/%41", 3), out), 3, "the escape is cut off by the end");
    cr_assert_eq(memcmp(out, "/%4", 3), 0);
}
