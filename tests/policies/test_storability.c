#include "storability.h"

#include <criterion/criterion.h>

static const struct wall_s received = {784116000};
static const int listed[] = {200, 203, 204, 301, 308, 404, 410, /* mistakes of an operator: */ 206,
                             304, 429, 500, 503, 299};
static const struct caching_rule plain = {.ttl_ms = 60000,
                                          .negative_ttl_ms = 1000,
                                          .statuses = listed,
                                          .status_count = sizeof(listed) / sizeof(listed[0])};

enum { MAX_FIELDS = 6 };

struct row {
    const char *why;
    const char *method; /* NULL: GET */
    struct header asked[MAX_FIELDS];
    int status; /* 0: 200 */
    struct header answered[MAX_FIELDS];
    enum storability want;
};

/* clang-format off: tables read better in one line a row */

#define H(name, value)                                                                                       \
    {                                                                                                        \
        {name, sizeof(name) - 1},                                                                            \
        {                                                                                                    \
            value, sizeof(value) - 1                                                                         \
        }                                                                                                    \
    }

static size_t count_of(const struct header *headers)
{
    size_t count = 0;
    while (count < MAX_FIELDS && headers[count].name.base != NULL)
        count++;
    return count;
}

static enum storability judge(const struct row *row, const struct caching_rule *rule,
                              struct freshness *freshness)
{
    struct storing_request request;
    struct storing_response response;

    storing_request_read(row->method == NULL ? SLICE("GET") : slice_text(row->method), row->asked,
                         count_of(row->asked), &request);
    storing_response_read(row->status == 0 ? 200 : row->status, row->answered, count_of(row->answered), false,
                          0, received, &response);
    return storability_judge(&request, &response, rule, freshness);
}

static void expect_all(const struct row *rows, size_t count, const struct caching_rule *rule)
{
    for (size_t i = 0; i < count; i++) {
        struct freshness freshness;
        enum storability got = judge(&rows[i], rule, &freshness);
        cr_expect_eq(got, rows[i].want, "%s: %s, not %s", rows[i].why, storability_name(got),
                     storability_name(rows[i].want));
        if (got == STORABLE)
            cr_expect(freshness.keep_ms > 0, "%s: has a life", rows[i].why);
    }
}
#define EXPECT_ALL(rows, rule) expect_all(rows, sizeof(rows) / sizeof(rows[0]), rule)

Test(storability, what_is_made_while_it_is_read_is_never_kept)
{
    static const struct row rows[] = {
        {.why = "events",
         .answered = {H("cache-control", "max-age=60"), H("content-type", "text/event-stream")},
         .want = UNSTORABLE_ENDLESS},
        {.why = "with parameters, in capitals",
         .answered = {H("cache-control", "max-age=60"),
                      H("content-type", "Text/Event-Stream ; charset=utf-8")},
         .want = UNSTORABLE_ENDLESS},
        {.why = "pictures that replace each other",
         .answered = {H("cache-control", "public, max-age=60"),
                      H("content-type", "multipart/x-mixed-replace;boundary=x")},
         .want = UNSTORABLE_ENDLESS},
        {.why = "a type that only begins like it",
         .answered = {H("cache-control", "max-age=60"), H("content-type", "text/event-stream-log")},
         .want = STORABLE},
        {.why = "a type that speaks of it",
         .answered = {H("cache-control", "max-age=60"),
                      H("content-type", "text/plain; about=text/event-stream")},
         .want = STORABLE},
    };

    EXPECT_ALL(rows, &plain);
    cr_expect(storability_blames_response(UNSTORABLE_ENDLESS), "the next one goes on and on, too");
}

Test(storability, of_requests_only_a_plain_get_fills_the_cache)
{
    static const struct row rows[] = {
        {.why = "GET", .want = STORABLE},
        {.why = "HEAD has no body to keep", .method = "HEAD", .want = UNSTORABLE_METHOD},
        {.why = "POST", .method = "POST", .want = UNSTORABLE_METHOD},
        {.why = "methods have a case", .method = "get", .want = UNSTORABLE_METHOD},
        {.why = "no-store", .asked = {H("cache-control", "no-store")}, .want = UNSTORABLE_REQUEST_NO_STORE},
        {.why = "no-cache asks for a new one, that may be kept",
         .asked = {H("cache-control", "no-cache")},
         .want = STORABLE},
        {.why = "Range", .asked = {H("range", "bytes=0-1")}, .want = UNSTORABLE_RANGE},
        {.why = "a cookie of the client is not a reason", .asked = {H("cookie", "a=b")}, .want = STORABLE},
    };
    EXPECT_ALL(rows, &plain);
}

Test(storability, what_the_request_alone_forbids_is_known_before_the_upstream_is_asked)
{
    struct storing_request request;
    const struct header no_store[] = {H("cache-control", "no-store")};
    const struct header authorization[] = {H("authorization", "x")};

    storing_request_read(SLICE("GET"), no_store, 1, &request);
    cr_assert_eq(storability_of_request(&request), UNSTORABLE_REQUEST_NO_STORE);
    storing_request_read(SLICE("PUT"), NULL, 0, &request);
    cr_assert_eq(storability_of_request(&request), UNSTORABLE_METHOD);
    storing_request_read(SLICE("GET"), authorization, 1, &request);
    cr_assert_eq(storability_of_request(&request), STORABLE, "the response may permit it");
}

Test(storability, of_statuses_listed_ones_and_what_says_how_long_but_never_a_part)
{
    static const struct row rows[] = {
        {.why = "204", .status = 204, .want = STORABLE},
        {.why = "301", .status = 301, .want = STORABLE},
        {.why = "404", .status = 404, .want = STORABLE},
        {.why = "not listed", .status = 302, .want = UNSTORABLE_STATUS},
        {.why = "not listed, though it says how long",
         .status = 302,
         .answered = {H("cache-control", "max-age=60")},
         .want = STORABLE},
        {.why = "not listed, and only worth validating",
         .status = 302,
         .answered = {H("cache-control", "no-cache"), H("etag", "\"a\"")},
         .want = UNSTORABLE_STATUS},
        {.why = "206",
         .status = 206,
         .answered = {H("cache-control", "max-age=60")},
         .want = UNSTORABLE_PARTIAL},
        {.why = "Content-Range means nothing on another status (RFC 9110 section 14.4)",
         .answered = {H("content-range", "bytes 9-9/10")},
         .want = STORABLE},
        {.why = "304, though listed",
         .status = 304,
         .answered = {H("cache-control", "max-age=60")},
         .want = UNSTORABLE_STATUS},
        {.why = "429, though listed",
         .status = 429,
         .answered = {H("cache-control", "max-age=60")},
         .want = UNSTORABLE_STATUS},
        {.why = "500, though listed: no setting makes a failure outlive itself",
         .status = 500,
         .want = UNSTORABLE_STATUS},
        {.why = "503 that says how long itself",
         .status = 503,
         .answered = {H("cache-control", "max-age=60")},
         .want = STORABLE},
        {.why = "must-understand and we do not",
         .status = 299,
         .answered = {H("cache-control", "must-understand")},
         .want = UNSTORABLE_STATUS},
        {.why = "must-understand and we do",
         .status = 203,
         .answered = {H("cache-control", "must-understand")},
         .want = STORABLE},
        {.why = "no-store is for those who do not understand",
         .answered = {H("cache-control", "must-understand, no-store")},
         .want = STORABLE},
        {.why = "as we do not this one",
         .status = 299,
         .answered = {H("cache-control", "must-understand, no-store")},
         .want = UNSTORABLE_STATUS},
        {.why = "a must-understand that nobody has defined lifts nothing",
         .answered = {H("cache-control", "must-understand=1, no-store")},
         .want = UNSTORABLE_NO_STORE},
    };
    EXPECT_ALL(rows, &plain);
}

/* Each of these was served to the wrong client by some cache. */
static const struct row forbidden[] = {
    {.why = "no-store",
     .answered = {H("cache-control", "no-store, max-age=60")},
     .want = UNSTORABLE_NO_STORE},
    {.why = "no-store on a second line",
     .answered = {H("cache-control", "max-age=60"), H("cache-control", "no-store")},
     .want = UNSTORABLE_NO_STORE},
    {.why = "private", .answered = {H("cache-control", "private, max-age=60")}, .want = UNSTORABLE_PRIVATE},
    {.why = "private beside public",
     .answered = {H("cache-control", "public, private, max-age=60")},
     .want = UNSTORABLE_PRIVATE},
    {.why = "private for what are no fields",
     .answered = {H("cache-control", "private=\"x y\", max-age=60")},
     .want = UNSTORABLE_PRIVATE},
    {.why = "private for a field, and for all",
     .answered = {H("cache-control", "private=\"x\", private, max-age=60")},
     .want = UNSTORABLE_PRIVATE},
    {.why = "a semicolon for a comma",
     .answered = {H("cache-control", "private; max-age=60")},
     .want = UNSTORABLE_MALFORMED},
    {.why = "an open quote",
     .answered = {H("cache-control", "max-age=60, x=\"private")},
     .want = UNSTORABLE_MALFORMED},
    {.why = "Set-Cookie",
     .answered = {H("cache-control", "public, max-age=60"), H("set-cookie", "s=1")},
     .want = UNSTORABLE_SET_COOKIE},
    {.why = "Vary: *", .answered = {H("vary", "*")}, .want = UNSTORABLE_VARY},
    {.why = "Vary: * on a second line",
     .answered = {H("vary", "accept"), H("vary", "*")},
     .want = UNSTORABLE_VARY},
    {.why = "Authorization",
     .asked = {H("authorization", "x")},
     .answered = {H("cache-control", "max-age=60")},
     .want = UNSTORABLE_AUTHORIZATION},
    {.why = "Authorization, nothing said",
     .asked = {H("authorization", "x")},
     .want = UNSTORABLE_AUTHORIZATION},
    {.why = "Authorization, an unreadable s-maxage",
     .asked = {H("authorization", "x")},
     .answered = {H("cache-control", "max-age=60, s-maxage=foo")},
     .want = UNSTORABLE_AUTHORIZATION},
    {.why = "Authorization, proxy-revalidate opens nothing",
     .asked = {H("authorization", "x")},
     .answered = {H("cache-control", "max-age=60, proxy-revalidate")},
     .want = UNSTORABLE_AUTHORIZATION},
    {.why = "Authorization, public but private",
     .asked = {H("authorization", "x")},
     .answered = {H("cache-control", "public, private")},
     .want = UNSTORABLE_PRIVATE},
    {.why = "Authorization, an empty one",
     .asked = {H("authorization", "")},
     .want = UNSTORABLE_AUTHORIZATION},
};

Test(storability, what_may_be_somebody_s_own_is_never_shared)
{
    struct caching_rule overriding = plain;

    overriding.override_origin = true;
    EXPECT_ALL(forbidden, &plain);
    EXPECT_ALL(forbidden, &overriding); /* no setting but shared_with_authorization reaches any of these */
}

Test(storability, what_permits_sharing_permits_it)
{
    static const struct row rows[] = {
        {.why = "Vary: for who asks likewise", .answered = {H("vary", "accept")}, .want = STORABLE},
        {.why = "an empty Vary names nothing", .answered = {H("vary", " \t")}, .want = STORABLE},
        {.why = "public",
         .asked = {H("authorization", "x")},
         .answered = {H("cache-control", "public")},
         .want = STORABLE},
        {.why = "s-maxage",
         .asked = {H("authorization", "x")},
         .answered = {H("cache-control", "s-maxage=60")},
         .want = STORABLE},
        {.why = "must-revalidate",
         .asked = {H("authorization", "x")},
         .answered = {H("cache-control", "max-age=60, must-revalidate")},
         .want = STORABLE},
    };
    EXPECT_ALL(rows, &plain);
}

Test(storability, the_operator_may_share_what_authorization_would_close_but_nothing_else)
{
    static const struct row rows[] = {
        {.why = "Authorization",
         .asked = {H("authorization", "x")},
         .answered = {H("cache-control", "max-age=60")},
         .want = STORABLE},
        {.why = "Authorization and private",
         .asked = {H("authorization", "x")},
         .answered = {H("cache-control", "private")},
         .want = UNSTORABLE_PRIVATE},
        {.why = "Authorization and Set-Cookie",
         .asked = {H("authorization", "x")},
         .answered = {H("set-cookie", "a=b")},
         .want = UNSTORABLE_SET_COOKIE},
    };
    struct caching_rule sharing = plain;

    sharing.shared_with_authorization = true;
    EXPECT_ALL(rows, &sharing);
}

Test(storability, a_body_whose_end_only_the_close_marks_is_kept_where_the_upstream_says_for_how_long)
{
    static const struct header says_so = H("cache-control", "max-age=60");
    struct caching_rule careful = plain;
    struct storing_request request;
    struct storing_response response;
    struct freshness freshness;

    storing_request_read(SLICE("GET"), NULL, 0, &request);
    storing_response_read(200, NULL, 0, true, 0, received, &response);
    cr_assert_eq(storability_judge(&request, &response, &plain, &freshness), UNSTORABLE_UNTIL_CLOSE);
    storing_response_read(200, &says_so, 1, true, 0, received, &response);
    cr_assert_eq(storability_judge(&request, &response, &plain, &freshness), STORABLE);
    careful.passes_until_close = true;
    cr_assert_eq(storability_judge(&request, &response, &careful, &freshness), UNSTORABLE_UNTIL_CLOSE);
}

Test(storability, a_response_needs_a_lifetime_from_somewhere)
{
    static const struct row rows[] = {
        {.why = "nobody says", .want = UNSTORABLE_NO_LIFETIME},
        {.why = "public says nothing of time",
         .answered = {H("cache-control", "public")},
         .want = UNSTORABLE_NO_LIFETIME},
        {.why = "Last-Modified lets us guess",
         .answered = {H("last-modified", "Sat, 05 Nov 1994 08:49:37 GMT")},
         .want = STORABLE},
        {.why = "not for every status",
         .status = 302,
         .answered = {H("last-modified", "Sat, 05 Nov 1994 08:49:37 GMT")},
         .want = UNSTORABLE_STATUS},
        {.why = "unless it is public",
         .status = 302,
         .answered = {H("last-modified", "Sat, 05 Nov 1994 08:49:37 GMT"), H("cache-control", "public")},
         .want = STORABLE},
        {.why = "nothing said and a validator: it may be anybody's",
         .answered = {H("etag", "\"a\"")},
         .want = UNSTORABLE_NO_LIFETIME},
        {.why = "stale, but worth asking about",
         .answered = {H("expires", "0"), H("etag", "\"a\"")},
         .want = STORABLE},
        {.why = "no-cache, and worth asking about",
         .answered = {H("cache-control", "no-cache"), H("etag", "\"a\"")},
         .want = STORABLE},
        {.why = "404 without a word", .status = 404, .want = UNSTORABLE_NO_LIFETIME},
        {.why = "max-age", .answered = {H("cache-control", "max-age=1")}, .want = STORABLE},
        {.why = "Expires: 0", .answered = {H("expires", "0")}, .want = UNSTORABLE_ALREADY_STALE},
        {.why = "max-age=0", .answered = {H("cache-control", "max-age=0")}, .want = UNSTORABLE_ALREADY_STALE},
        {.why = "old when it came",
         .answered = {H("cache-control", "max-age=9"), H("age", "9")},
         .want = UNSTORABLE_ALREADY_STALE},
        {.why = "stale, but servable",
         .answered = {H("cache-control", "max-age=9, stale-while-revalidate=9"), H("age", "9")},
         .want = STORABLE},
        {.why = "stale, but better than an error",
         .answered = {H("cache-control", "max-age=0, stale-if-error=9")},
         .want = STORABLE},
        {.why = "no-cache",
         .answered = {H("cache-control", "no-cache, max-age=60")},
         .want = UNSTORABLE_NO_CACHE},
        {.why = "no-cache for one field",
         .answered = {H("cache-control", "no-cache=\"x\", max-age=60")},
         .want = STORABLE},
    };
    struct caching_rule without_ttl = plain;

    without_ttl.ttl_ms = -1;
    EXPECT_ALL(rows, &without_ttl);
    without_ttl.override_origin = true; /* nothing to override with: nothing changes */
    EXPECT_ALL(rows, &without_ttl);
}

Test(storability, override_wins_over_lifetimes_and_no_cache)
{
    static const struct row rows[] = {
        {.why = "no-cache", .answered = {H("cache-control", "no-cache")}, .want = STORABLE},
        {.why = "max-age=0", .answered = {H("cache-control", "max-age=0")}, .want = STORABLE},
        {.why = "Expires: 0", .answered = {H("expires", "0")}, .want = STORABLE},
        {.why = "old when it came",
         .answered = {H("cache-control", "max-age=9"), H("age", "9")},
         .want = STORABLE},
        {.why = "but not over the list of statuses", .status = 302, .want = UNSTORABLE_STATUS},
    };
    struct caching_rule overriding = plain;

    overriding.override_origin = true;
    EXPECT_ALL(rows, &overriding);
    overriding.ttl_ms = 0;
    static const struct row zero[] = {{.why = "a ttl of zero keeps nothing",
                                       .answered = {H("cache-control", "max-age=60")},
                                       .want = UNSTORABLE_ALREADY_STALE}};
    EXPECT_ALL(zero, &overriding);
}

Test(storability, negative_answers_are_kept_for_negative_ttl_or_what_they_say)
{
    struct caching_rule rule = plain;
    struct freshness freshness;
    static const struct row missing = {.status = 404};
    static const struct row says_so = {.status = 404, .answered = {H("cache-control", "max-age=3600")}};

    cr_assert_eq(judge(&missing, &rule, &freshness), STORABLE);
    cr_assert_eq(freshness.fresh_ms, 1000);
    cr_assert_eq(freshness.error_ms, 1000);
    rule.negative_ttl_ms = 0;
    cr_assert_eq(judge(&missing, &rule, &freshness), UNSTORABLE_ALREADY_STALE);
    cr_assert_eq(judge(&says_so, &rule, &freshness), STORABLE);
    cr_assert_eq(freshness.fresh_ms, 3600000);
}

Test(storability, every_reason_has_a_name_of_its_own_and_somebody_to_blame)
{
    for (int a = STORABLE; a <= UNSTORABLE_ALREADY_STALE; a++) {
        const char *name = storability_name((enum storability)a);
        cr_assert_neq(strcmp(name, "unknown"), 0);
        for (int b = STORABLE; b < a; b++)
            cr_assert_neq(strcmp(name, storability_name((enum storability)b)), 0);
        cr_assert_eq(storability_blames_response((enum storability)a), a > UNSTORABLE_AUTHORIZATION);
    }
}
/* clang-format on */
