/* Reuse: what a request wants, and whether a stored response is that. */
#include "reuse.h"

#include <criterion/criterion.h>

static struct reuse_wish wish_of(const char *control, const char *pragma)
{
    struct header headers[] = {{SLICE("cache-control"), slice_text(control)},
                               {SLICE("pragma"), slice_text(pragma)}};
    struct reuse_wish wish;

    if (control == NULL)
        reuse_wish_read(headers + 1, pragma == NULL ? 0 : 1, &wish);
    else
        reuse_wish_read(headers, pragma == NULL ? 1 : 2, &wish);
    return wish;
}

Test(reuse, a_request_may_want_it_fresher)
{
    static const struct {
        const char *why, *control, *pragma;
        int64_t age_ms, fresh_ms;
        bool want;
    } rows[] = {
        {"nothing said", NULL, NULL, 50000, 10000, true},
        {"nothing said, served stale by our rules", NULL, NULL, 50000, -10000, true},
        {"no-cache", "no-cache", NULL, 0, 10000, false},
        {"Pragma", NULL, "no-cache", 0, 10000, false},
        {"Pragma in a list", NULL, "x, No-Cache", 0, 10000, false},
        {"Cache-Control goes before Pragma", "max-age=60", "no-cache", 0, 10000, true},
        {"young enough", "max-age=60", NULL, 60999, 10000, true},
        {"too old", "max-age=60", NULL, 61000, 10000, false},
        {"max-age=0 is never young enough", "max-age=0", NULL, 0, 10000, false},
        {"fresh for long enough", "min-fresh=10", NULL, 0, 10000, true},
        {"not for long enough", "min-fresh=11", NULL, 0, 10000, false},
        {"no number makes it strict", "max-age=x", NULL, 0, 10000, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct reuse_wish wish = wish_of(rows[i].control, rows[i].pragma);

        cr_expect_eq(reuse_suits(&wish, rows[i].age_ms, rows[i].fresh_ms), rows[i].want, "%s", rows[i].why);
    }
}

Test(reuse, a_request_may_take_what_is_stale_where_the_response_does_not_forbid_it)
{
    static const struct {
        const char *why, *request, *response;
        int64_t age_ms, fresh_ms;
        bool want;
    } rows[] = {
        {"not asked for", NULL, "max-age=1", 2000, -1000, false},
        {"any staleness", "max-stale", "max-age=1", 900000, -899000, true},
        {"so much", "max-stale=10", "max-age=1", 11000, -10000, true},
        {"too much", "max-stale=10", "max-age=1", 11001, -10001, false},
        {"but no older", "max-stale=10, max-age=5", "max-age=1", 6000, -5000, false},
        {"must-revalidate", "max-stale", "max-age=1, must-revalidate", 2000, -1000, false},
        {"proxy-revalidate", "max-stale", "max-age=1, proxy-revalidate", 2000, -1000, false},
        {"s-maxage", "max-stale", "s-maxage=1", 2000, -1000, false},
        {"no-cache", "max-stale", "no-cache", 2000, -1000, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct reuse_wish wish = wish_of(rows[i].request, NULL);
        struct header header = {SLICE("cache-control"), slice_text(rows[i].response)};
        struct cache_control control;

        cache_control_parse(&header, 1, &control);
        cr_expect_eq(reuse_takes_stale(&wish, &control, rows[i].age_ms, rows[i].fresh_ms), rows[i].want, "%s",
                     rows[i].why);
    }
}
