#include "fields.h"

#include <criterion/criterion.h>

static void expect(const struct text *text, const char *want)
{
    struct slice got = text_slice(text);
    cr_expect(slice_eq(got, slice_text(want)), "got '%.*s', want '%s'", (int)got.len, got.base, want);
}

/* clang-format off: tables read better in one line a row */

Test(fields, cache_status_tells_what_happened)
{
    static const struct {
        struct cache_status status;
        const char *want;
    } rows[] = {
        {{.has_ttl = true, .ttl_s = 41}, "weir; hit; ttl=41"},
        {{.has_ttl = true, .ttl_s = -3, .detail = "swr"}, "weir; hit; ttl=-3; detail=swr"},
        {{.has_ttl = true}, "weir; hit; ttl=0"},
        {{.forward = FORWARD_NONE}, "weir; hit"},
        {{.forward = FORWARD_MISS, .forward_status = 200, .is_stored = true, .is_collapsed = true},
         "weir; fwd=miss; fwd-status=200; stored; collapsed"},
        {{.forward = FORWARD_URI_MISS,
          .forward_status = 200,
          .has_ttl = true,
          .ttl_s = 60,
          .is_stored = true},
         "weir; fwd=uri-miss; fwd-status=200; ttl=60; stored"},
        {{.forward = FORWARD_STALE, .forward_status = 503}, "weir; fwd=stale; fwd-status=503"},
        {{.forward = FORWARD_BYPASS, .detail = "no-store"}, "weir; fwd=bypass; detail=no-store"},
        {{.forward = FORWARD_METHOD}, "weir; fwd=method"},
        {{.forward = FORWARD_VARY_MISS}, "weir; fwd=vary-miss"},
        {{.forward = FORWARD_REQUEST}, "weir; fwd=request"},
        {{.forward = FORWARD_PARTIAL}, "weir; fwd=partial"},
        /* RFC 9211 section 2: what only a forwarded request has is not said of a hit */
        {{.forward = FORWARD_NONE, .forward_status = 200, .is_stored = true, .is_collapsed = true},
         "weir; hit"},
        {{.has_ttl = true, .ttl_s = 41, .key = {"\x00\x0f\xa0\xff", 4}},
         "weir; hit; ttl=41; key=\"000fa0ff\""},
        {{.forward = FORWARD_MISS, .key = {"k", 1}, .detail = "vary"},
         "weir; fwd=miss; key=\"6b\"; detail=vary"},
        /* a detail that is no token becomes a string, and cannot leave it */
        {{.forward = FORWARD_BYPASS, .detail = "two words"}, "weir; fwd=bypass; detail=\"two words\""},
        {{.forward = FORWARD_BYPASS, .detail = "a\"; hit"}, "weir; fwd=bypass; detail=\"a\\\"; hit\""},
        {{.forward = FORWARD_BYPASS, .detail = "1st"}, "weir; fwd=bypass; detail=\"1st\""},
        {{.forward = FORWARD_BYPASS, .detail = ""}, "weir; fwd=bypass; detail=\"\""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char room[CACHE_STATUS_ROOM];
        struct text text = text_in(room, sizeof(room));
        cache_status_write(&rows[i].status, &text);
        cr_expect(text_fits(&text));
        expect(&text, rows[i].want);
    }
}

Test(fields, the_longest_cache_status_of_ours_fits)
{
    static const struct cache_status status = {.forward = FORWARD_VARY_MISS,
                                               .forward_status = 599,
                                               .has_ttl = true,
                                               .ttl_s = INT64_MIN,
                                               .is_stored = true,
                                               .is_collapsed = true,
                                               .key = {"0123456789abcdef0123456789abcdef", 32},
                                               .detail = "malformed-cache-control"};
    char room[CACHE_STATUS_ROOM];
    struct text text = text_in(room, sizeof(room));

    cache_status_write(&status, &text);
    cr_assert(text_fits(&text));
}

Test(fields, age_is_whole_seconds_never_rounded_up)
{
    static const struct {
        int64_t age_ms;
        const char *want;
    } rows[] = {
        {0, "0"},
        {999, "0"},
        {1000, "1"},
        {1999, "1"},
        {-1, "0"},
        {INT64_MIN, "0"},
        {INT64_C(2147483648000), "2147483648"},
        {INT64_MAX, "2147483648"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char room[AGE_ROOM];
        struct text text = text_in(room, sizeof(room));
        age_write(rows[i].age_ms, &text);
        cr_expect(text_fits(&text));
        expect(&text, rows[i].want);
    }
}

Test(fields, names_of_results_are_the_contract_s)
{
    static const char *const want[] = {"HIT", "MISS", "WAIT", "STALE", "REVALIDATED", "BYPASS"};

    for (int i = CACHE_HIT; i <= CACHE_BYPASS; i++)
        cr_assert_str_eq(cache_result_name((enum cache_result)i), want[i]);
}

Test(fields, proxy_status_names_the_error)
{
    char room[PROXY_STATUS_ROOM];
    struct text text = text_in(room, sizeof(room));

    proxy_status_write("connection_timeout", &text);
    expect(&text, "weir; error=connection_timeout");
}
/* clang-format on */
