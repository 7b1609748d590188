/* Uri tag: one tag for one URI however it is spelt, and none that two share. */
#include "uri_tag.h"

#include <criterion/criterion.h>
#include <string.h>

/* 0: the tag of the whole, 1: of the path alone; NULL where the URL is none. */
static const char *tag_of(const char *url, int which)
{
    static char tags[4][URI_TAGS_OF_URL][URI_TAG_BYTES + 1];
    static int turn;
    char made[URI_TAGS_OF_URL][URI_TAG_BYTES];

    turn = (turn + 1) % 4;
    if (uri_tags_of_url(slice_text(url), made) != NULL)
        return NULL;
    memcpy(tags[turn][which], made[which], URI_TAG_BYTES);
    tags[turn][which][URI_TAG_BYTES] = '\0';
    return tags[turn][which];
}

Test(uri_tag, is_readable_and_the_same_in_every_process)
{
    cr_assert_eq(strlen(tag_of("http://a.test/", 0)), URI_TAG_BYTES);
    cr_assert_eq(strncmp(tag_of("http://a.test/", 0), "uri:", 4), 0);
    cr_assert_eq(strspn(tag_of("http://a.test/", 0) + 4, "0123456789abcdef"), 32);
}

Test(uri_tag, is_that_of_requests)
{
    char whole[URI_TAG_BYTES], path[URI_TAG_BYTES];

    cr_assert(uri_tag_write(SLICE("a.test:8080"), SLICE("/x?y=1"), false, whole));
    cr_assert(uri_tag_write(SLICE("a.test:8080"), SLICE("/x?z"), true, path));
    cr_assert_eq(memcmp(tag_of("http://A.test:8080/x?y=1", 0), whole, URI_TAG_BYTES), 0);
    cr_assert_eq(memcmp(tag_of("http://A.test:8080/x?y=1", 1), path, URI_TAG_BYTES), 0, "with any query");
}

Test(uri_tag, spellings_of_one_url_have_one_tag)
{
    static const char *const pairs[][2] = {
        {"http://a.test", "http://a.test/"},
        {"http://a.test:80/x", "https://a.test:443/x"},
        {"HTTP://A.TEST/x", "http://a.test/x"},
        {"http://a.test/%7Ex", "http://a.test/~x"},
        {"http://a.test/x#here", "http://a.test/x"},
        {"http://a.test/a/./b/../c", "http://a.test/a/c"},
        {"http://[2001:DB8::1]/", "http://[2001:db8::1]:80/"},
    };

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        cr_assert_str_eq(tag_of(pairs[i][0], 0), tag_of(pairs[i][1], 0), "%s", pairs[i][0]);
}

Test(uri_tag, different_urls_have_different_tags)
{
    static const char *const pairs[][2] = {
        {"http://a.test/x", "http://b.test/x"},     {"http://a.test/x", "http://a.test:81/x"},
        {"http://a.test:443/x", "http://a.test/x"}, {"http://a.test/x", "http://a.test/X"},
        {"http://a.test/x", "http://a.test/x/"},    {"http://a.test/x", "http://a.test/x?"},
        {"http://a.test/x?a", "http://a.test/x?b"}, {"http://a.test/x%2Fy", "http://a.test/x/y"},
    };

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        cr_assert_str_neq(tag_of(pairs[i][0], 0), tag_of(pairs[i][1], 0), "%s", pairs[i][0]);
    cr_assert_str_neq(tag_of("http://a.test/x", 0), tag_of("http://a.test/x", 1));
    cr_assert_str_eq(tag_of("http://a.test/x?1", 1), tag_of("http://a.test/x", 1));
}

Test(uri_tag, what_is_no_absolute_url_has_none)
{
    static const char *const rows[] = {"",
                                       "/",
                                       "a.test/x",
                                       "//a.test/x",
                                       "ftp://a.test/",
                                       "http:/a.test/",
                                       "http://",
                                       "http:///x",
                                       "http://:80/",
                                       "http://u@a.test/",
                                       "http://a.test:99999/",
                                       "http://a b/",
                                       "http://a.test/a b",
                                       "http://a.test/\xc3\xa4",
                                       "http://a.test/\x7f",
                                       "http://[::1/"};
    char made[URI_TAGS_OF_URL][URI_TAG_BYTES], long_one[9000];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_assert_not_null(uri_tags_of_url(slice_text(rows[i]), made), "%s", rows[i]);
    memset(long_one, 'a', sizeof(long_one));
    memcpy(long_one, "http://a.test/", 14);
    cr_assert_not_null(uri_tags_of_url(slice_of(long_one, sizeof(long_one)), made));
    cr_assert_null(uri_tags_of_url(slice_of(long_one, 8 << 10), made));
}
