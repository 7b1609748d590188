/* URI reference: what a Location names, seen from the request that it answers. */
#include "uri_reference.h"

#include <criterion/criterion.h>

Test(uri_reference, names_a_target_of_the_same_host_or_nothing)
{
    static const struct {
        const char *why, *reference, *want; /* want NULL: nothing */
    } rows[] = {
        {"a path", "/x/y?z", "/x/y?z"},
        {"the whole URI", "http://api.test/x", "/x"},
        {"any case", "HTTP://API.Test/X", "/X"},
        {"its default port", "http://api.test:80/x", "/x"},
        {"the dot of an absolute name", "http://api.test./x", "/x"},
        {"and before a port", "http://api.test.:80/x", "/x"},
        {"an empty port", "http://api.test:/x", "/x"},
        {"two dots", "http://api.test../x", NULL},
        {"TLS before us", "https://api.test:443/x", "/x"},
        {"another port", "http://api.test:81/x", NULL},
        {"another host", "http://other.test/x", NULL},
        {"one that begins like ours", "http://api.test.evil/x", NULL},
        {"a user before it", "http://a@api.test/x", NULL},
        {"without a scheme", "//api.test/x", "/x"},
        {"another host without a scheme", "//other.test/x", NULL},
        {"no path", "http://api.test", "/"},
        {"no path but a query", "http://api.test?q", "/?q"},
        {"relative", "y", "/a/y"},
        {"relative with a query", "y?z", "/a/y?z"},
        {"upwards", "../y", "/y"},
        {"upwards too far", "../../../y", "/y"},
        {"in place", "./y/.", "/a/y/"},
        {"dots within a path", "/x/./y/../z", "/x/z"},
        {"dots that are part of a name", "/x/..y/.z", "/x/..y/.z"},
        {"a query alone", "?z", "/a/b?z"},
        {"a fragment is not sent", "/x#y", "/x"},
        {"a fragment alone", "#y", "/a/b"},
        {"dots in the query stay", "/x?../y", "/x?../y"},
        {"another scheme", "mailto:x", NULL},
        {"nothing", "", NULL},
        {"blanks", "  ", NULL},
        {"a blank within", "/x y", NULL},
        {"a byte of no URI", "/x\xff", NULL},
    };
    char out[256];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t len = 0;
        bool got = uri_reference_resolve(slice_text(rows[i].reference), SLICE("api.test"), SLICE("/a/b?q"),
                                         out, sizeof(out), &len);

        cr_expect_eq(got, rows[i].want != NULL, "%s", rows[i].why);
        if (got && rows[i].want != NULL)
            cr_expect(slice_eq(slice_of(out, len), slice_text(rows[i].want)), "%s: %.*s", rows[i].why,
                      (int)len, out);
    }
}

Test(uri_reference, never_writes_beyond_its_room)
{
    char out[8] = "abcdefgh";
    size_t len;

    cr_assert(!uri_reference_resolve(SLICE("/123456"), SLICE("a"), SLICE("/"), out, 4, &len));
    cr_assert_eq(memcmp(out + 4, "efgh", 4), 0);
}
