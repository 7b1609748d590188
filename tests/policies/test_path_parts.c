/* Path parts: each part is what was escaped into it, and nothing else parts. */
#include "path_parts.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { MOST = 4 };

static void expect(const char *path, size_t count, const char *const *parts)
{
    char *room = malloc(strlen(path) + 1); /* its end is where a sanitizer sees it */
    struct slice found[MOST];
    size_t n = path_parts(slice_text(path), room, found, MOST);

    cr_assert_eq(n, count, "%s: %zu", path, n);
    for (size_t i = 0; n <= MOST && i < n; i++)
        cr_expect(slice_eq(found[i], slice_text(parts[i])), "%s: part %zu is %.*s", path, i,
                  (int)found[i].len, found[i].base);
    free(room);
}

Test(path_parts, parts_are_decoded_after_they_are_parted)
{
    expect("", 0, NULL);
    expect("a", 1, (const char *[]){"a"});
    expect("a/b", 2, (const char *[]){"a", "b"});
    expect("a/", 1, (const char *[]){"a"});
    expect("/a", 2, (const char *[]){"", "a"});
    expect("a//b", 3, (const char *[]){"a", "", "b"});
    expect("a%2Fb/%25%c3%BC", 2, (const char *[]){"a/b", "%\xc3\xbc"});
    expect("a/b/c/d", 4, (const char *[]){"a", "b", "c", "d"});
    expect("a/b/c/d/e", PATH_PARTS_MANY, NULL);
}

Test(path_parts, a_bad_escape_is_no_part)
{
    static const char *const bad[] = {"%", "%4", "%zz", "a/%4g", "%%41", "a%4", "%2"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        expect(bad[i], PATH_PARTS_BAD, NULL);
}
