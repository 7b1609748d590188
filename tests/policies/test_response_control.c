#include "response_control.h"
#include "storability.h"

#include <criterion/criterion.h>

enum { MAX_FIELDS = 4 };

struct said {
    const char *name, *value;
};

static size_t fields_of(const struct said *said, struct header *out)
{
    size_t count = 0;

    for (; count < MAX_FIELDS && said[count].name != NULL; count++)
        out[count] = (struct header){slice_text(said[count].name), slice_text(said[count].value)};
    return count;
}

static struct cache_control control_of(const struct said *said)
{
    struct header headers[MAX_FIELDS];
    struct cache_control control;

    response_control_parse(headers, fields_of(said, headers), &control);
    return control;
}

#define CDN "cdn-cache-control"
#define OURS "weir-cache-control"
#define SURROGATE "surrogate-control"
#define PLAIN "cache-control"

/* Which field counts is told by its max-age. */
Test(response_control, one_field_alone_counts)
{
    static const struct {
        const char *why;
        struct said said[MAX_FIELDS];
        int64_t max_age_s;
        bool is_targeted;
    } rows[] = {
        {"nothing is said", {{NULL, NULL}}, CACHE_SECONDS_ABSENT, false},
        {"Cache-Control alone", {{PLAIN, "max-age=1"}}, 1, false},
        {"a targeted one before it", {{PLAIN, "max-age=1"}, {CDN, "max-age=2"}}, 2, true},
        {"ours before all others",
         {{SURROGATE, "max-age=1"}, {CDN, "max-age=2"}, {OURS, "max-age=3"}},
         3,
         true},
        {"Surrogate-Control before Cache-Control", {{PLAIN, "max-age=1"}, {SURROGATE, "max-age=2"}}, 2, true},
        {"what is malformed is not there", {{PLAIN, "max-age=1"}, {CDN, "max-age=2, &&&"}}, 1, false},
        {"a blank before the equals sign is malformed",
         {{PLAIN, "max-age=1"}, {CDN, "max-age =2"}},
         1,
         false},
        {"and one behind it", {{PLAIN, "max-age=1"}, {CDN, "max-age= 2"}}, 1, false},
        {"keys are lower case", {{PLAIN, "max-age=1"}, {CDN, "Max-Age=2"}}, 1, false},
        {"what is empty is not there", {{PLAIN, "max-age=1"}, {CDN, ""}}, 1, false},
        {"a lifetime is no string", {{PLAIN, "max-age=1"}, {CDN, "max-age=\"2\""}}, 1, false},
        {"no decimal", {{PLAIN, "max-age=1"}, {CDN, "max-age=2.0"}}, 1, false},
        {"not negative", {{PLAIN, "max-age=1"}, {CDN, "max-age=-2"}}, 1, false},
        {"not true", {{PLAIN, "max-age=1"}, {CDN, "max-age"}}, 1, false},
        {"no inner list", {{PLAIN, "max-age=1"}, {CDN, "max-age=(2)"}}, 1, false},
        {"no-store has no number", {{PLAIN, "max-age=1"}, {CDN, "max-age=2, no-store=1"}}, 1, false},
        {"private has no number", {{PLAIN, "max-age=1"}, {CDN, "max-age=2, private=1"}}, 1, false},
        {"the next target steps in",
         {{OURS, "max-age=x"}, {CDN, "max-age=2"}, {PLAIN, "max-age=1"}},
         2,
         true},
        {"parameters say nothing", {{CDN, "max-age=2;max-age=3;x"}}, 2, true},
        {"unknown members say nothing", {{CDN, "foo, max-age=2, bar=(max-age 9);max-age=7"}}, 2, true},
        {"but they are something", {{PLAIN, "max-age=1"}, {CDN, "foo"}}, CACHE_SECONDS_ABSENT, true},
        {"the last of a member counts", {{CDN, "max-age=2, max-age=3"}}, 3, true},
        {"and it alone has to be of the right type", {{CDN, "max-age=x, max-age=3"}}, 3, true},
        {"its lines are one field", {{CDN, "max-age=2"}, {CDN, "no-cache"}}, 2, true},
        {"a huge one is the longest", {{CDN, "max-age=999999999999999"}}, CACHE_SECONDS_MAX, true},
        {"sixteen digits are no integer",
         {{PLAIN, "max-age=1"}, {CDN, "max-age=9999999999999999"}},
         1,
         false},
        {"a surrogate that is told of content alone",
         {{PLAIN, "max-age=1"}, {SURROGATE, "content=\"ESI/1.0\""}},
         1,
         false},
        {"for another surrogate", {{PLAIN, "max-age=1"}, {SURROGATE, "max-age=2;edge"}}, 1, false},
        {"for us by name", {{PLAIN, "max-age=1"}, {SURROGATE, "max-age=2;weir, max-age=1;edge"}}, 2, true},
        {"a semicolon in quotes", {{SURROGATE, "content=\"a;b\", max-age=2"}}, 2, true},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cache_control control = control_of(rows[i].said);

        cr_expect_eq(control.max_age_s, rows[i].max_age_s, "%s: %ld", rows[i].why, (long)control.max_age_s);
        cr_expect_eq(control.is_targeted, rows[i].is_targeted, "%s", rows[i].why);
    }
}

Test(response_control, every_directive_is_read_from_a_structured_field)
{
    static const struct said said[MAX_FIELDS] = {
        {CDN, "max-age=1, s-maxage=2, stale-while-revalidate=3, stale-if-error=4, no-store, no-cache, "
              "private, public"},
        {CDN, "must-revalidate, proxy-revalidate, must-understand"},
        {PLAIN, "max-age=9"}};
    struct cache_control c = control_of(said);

    cr_expect(c.max_age_s == 1 && c.s_maxage_s == 2 && c.s_maxage_is_valid);
    cr_expect(c.stale_while_revalidate_s == 3 && c.stale_if_error_s == 4);
    cr_expect(c.no_store && c.no_cache && !c.no_cache_fields_only && c.is_private && !c.private_fields_only);
    cr_expect(c.is_public && c.must_revalidate && c.proxy_revalidate && c.must_understand);
    cr_expect(c.permits_authorization && !c.is_malformed && c.is_targeted);
}

Test(response_control, what_is_false_is_not_said)
{
    static const struct said said[MAX_FIELDS] = {
        {CDN, "no-store=?0, private=?0, no-cache=?0, public=?0, max-age=1"}};
    struct cache_control c = control_of(said);

    cr_expect(!c.no_store && !c.is_private && !c.no_cache && !c.is_public && !c.permits_authorization);
}

Test(response_control, authorization_is_permitted_by_the_field_that_counts)
{
    static const struct {
        const char *why;
        struct said said[MAX_FIELDS];
        bool want;
    } rows[] = {
        {"public", {{CDN, "public, max-age=1"}}, true},
        {"must-revalidate", {{CDN, "must-revalidate, max-age=1"}}, true},
        {"s-maxage", {{CDN, "s-maxage=1"}}, true},
        {"max-age does not", {{CDN, "max-age=1"}}, false},
        {"nor what Cache-Control says beside it", {{CDN, "max-age=1"}, {PLAIN, "public"}}, false},
        {"a surrogate's", {{SURROGATE, "public, max-age=1"}}, true},
        {"a surrogate's with a mistake does not", {{SURROGATE, "public, max-age=1, x y"}}, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_expect_eq(control_of(rows[i].said).permits_authorization, rows[i].want, "%s", rows[i].why);
}

Test(response_control, a_surrogate_is_told_of_an_extension)
{
    static const struct said said[MAX_FIELDS] = {{SURROGATE, "max-age=60+30"}},
                             bad[MAX_FIELDS] = {{SURROGATE, "max-age=60+x"}},
                             remote[MAX_FIELDS] = {{SURROGATE, "max-age=60, no-store-remote"}},
                             broken[MAX_FIELDS] = {{SURROGATE, "max age=60"}, {PLAIN, "max-age=60"}};
    struct cache_control c = control_of(said);

    cr_expect(c.max_age_s == 60 && c.stale_while_revalidate_s == 30 && c.stale_if_error_s == 30);
    c = control_of(bad);
    cr_expect(c.max_age_s == 60 && c.stale_while_revalidate_s == 0 && c.stale_if_error_s == 0);
    cr_expect(control_of(remote).no_store);
    cr_expect(control_of(broken).is_malformed, "it may hide a restriction");
}

Test(response_control, fields_are_withheld_by_the_field_that_counts)
{
    static const struct {
        const char *why;
        struct said said[MAX_FIELDS];
        bool want;
    } rows[] = {
        {"Cache-Control", {{PLAIN, "private=\"x-a, x-b\""}}, true},
        {"a string", {{CDN, "private=\"x-a, X-B\", max-age=1"}}, true},
        {"one name as a token", {{CDN, "no-cache=x-b"}}, true},
        {"not named", {{CDN, "no-cache=\"x-a\""}}, false},
        {"Cache-Control does not count beside it", {{CDN, "max-age=1"}, {PLAIN, "private=\"x-b\""}}, false},
        {"a surrogate's", {{SURROGATE, "private=\"x-b\""}, {PLAIN, "max-age=1"}}, true},
        {"another surrogate's", {{SURROGATE, "max-age=1, private=\"x-b\";edge"}}, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct header headers[MAX_FIELDS];
        size_t count = fields_of(rows[i].said, headers);

        cr_expect_eq(response_control_withholds(headers, count, SLICE("x-b")), rows[i].want, "%s",
                     rows[i].why);
    }
}

Test(response_control, what_names_no_fields_restricts_all)
{
    static const struct said unsure[MAX_FIELDS] = {{CDN, "private=\"a b\", no-cache=\"\""}},
                             sure[MAX_FIELDS] = {{CDN, "private=\"a, b\", no-cache=x"}};
    struct cache_control c = control_of(unsure);

    cr_expect(c.is_private && !c.private_fields_only && c.no_cache && !c.no_cache_fields_only);
    c = control_of(sure);
    cr_expect(c.is_private && c.private_fields_only && c.no_cache && c.no_cache_fields_only);
}

Test(response_control, expires_does_not_count_beside_a_targeted_field)
{
    static const struct wall_s received = {784116000};
    static const struct caching_rule rule = {.ttl_ms = -1};
    static const struct {
        const char *why;
        struct said said[MAX_FIELDS];
        int64_t fresh_ms;
    } rows[] = {
        {"alone it does", {{"expires", "Sun, 06 Nov 1994 11:20:00 GMT"}}, 4800000},
        {"a shorter one does not", {{"expires", "0"}, {CDN, "max-age=60"}}, 60000},
        {"a longer one does not", {{"expires", "Sun, 06 Nov 1994 11:20:00 GMT"}, {CDN, "max-age=0"}}, 0},
        {"nor where the targeted one names no lifetime",
         {{"expires", "Sun, 06 Nov 1994 11:20:00 GMT"}, {CDN, "public"}},
         0},
        {"with a malformed one it does", {{"expires", "Sun, 06 Nov 1994 11:20:00 GMT"}, {CDN, "!"}}, 4800000},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct header headers[MAX_FIELDS];
        struct storing_response response;

        storing_response_read(200, headers, fields_of(rows[i].said, headers), false, 0, received, &response);
        cr_expect_eq(freshness_of(200, &response.control, &response.times, &rule).fresh_ms, rows[i].fresh_ms,
                     "%s", rows[i].why);
    }
}
