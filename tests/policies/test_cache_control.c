#include "cache_control.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static struct cache_control parse(const char *value)
{
    struct header header = {SLICE("cache-control"), slice_text(value)};
    struct cache_control out;

    cache_control_parse(&header, 1, &out);
    return out;
}

Test(cache_control, nothing_said_is_nothing_known)
{
    static const char *const rows[] = {"", ",", " , ,\t,", "x-unknown", "x-unknown=1, y=\"a, no-store, b\""};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cache_control c = parse(rows[i]);
        cr_assert(!c.no_store && !c.no_cache && !c.is_private && !c.is_public && !c.must_revalidate, "%s",
                  rows[i]);
        cr_assert(!c.proxy_revalidate && !c.must_understand && !c.only_if_cached && !c.is_malformed, "%s",
                  rows[i]);
        cr_assert(!c.permits_authorization && !c.s_maxage_is_valid, "%s", rows[i]);
        cr_assert_eq(c.max_age_s, CACHE_SECONDS_ABSENT);
        cr_assert_eq(c.s_maxage_s, CACHE_SECONDS_ABSENT);
        cr_assert_eq(c.stale_while_revalidate_s, CACHE_SECONDS_ABSENT);
        cr_assert_eq(c.stale_if_error_s, CACHE_SECONDS_ABSENT);
        cr_assert_eq(c.max_stale_s, CACHE_SECONDS_ABSENT);
        cr_assert_eq(c.min_fresh_s, CACHE_SECONDS_ABSENT);
    }
}

Test(cache_control, every_directive_is_known_in_any_case)
{
    struct cache_control c = parse(
        "No-Store,NO-CACHE , private,\tPublic,MUST-revalidate,proxy-Revalidate,must-understand,Max-Age=1,"
        "S-MaxAge=2,stale-While-revalidate=3,Stale-If-Error=4,max-STALE=5,min-fresh=6,only-if-cached");

    cr_assert(c.no_store && c.no_cache && c.is_private && c.is_public && c.must_revalidate);
    cr_assert(c.proxy_revalidate && c.must_understand && c.only_if_cached && !c.is_malformed);
    cr_assert(!c.no_cache_fields_only && !c.private_fields_only && c.s_maxage_is_valid);
    cr_assert_eq(c.max_age_s, 1);
    cr_assert_eq(c.s_maxage_s, 2);
    cr_assert_eq(c.stale_while_revalidate_s, 3);
    cr_assert_eq(c.stale_if_error_s, 4);
    cr_assert_eq(c.max_stale_s, 5);
    cr_assert_eq(c.min_fresh_s, 6);
}

Test(cache_control, lifetimes_are_read_so_that_a_mistake_means_stale)
{
    static const struct {
        const char *why, *value;
        int64_t want;
        bool is_malformed;
    } rows[] = {
        {"plain", "max-age=60", 60, false},
        {"quoted", "max-age=\"60\"", 60, false},
        {"zero", "max-age=0", 0, false},
        {"leading zeros", "max-age=0060", 60, false},
        {"2^31 - 1", "max-age=2147483647", 2147483647, false},
        {"2^31", "max-age=2147483648", 2147483648, false},
        {"above 2^31", "max-age=2147483649", 2147483648, false},
        {"above 2^64", "max-age=99999999999999999999999", 2147483648, false},
        {"negative", "max-age=-1", 0, false},
        {"garbage", "max-age=foo", 0, false},
        {"a fraction", "max-age=1.5", 0, false},
        {"a unit", "max-age=60s", 0, false},
        {"a plus", "max-age=+60", 0, false},
        {"no argument", "max-age", 0, false},
        {"nothing after =", "max-age=", 0, true},
        {"nothing between quotes", "max-age=\"\"", 0, false},
        {"single quotes", "max-age='60'", 0, false},
        {"space before =", "max-age =60", 0, true},
        {"space after =", "max-age= 60", 0, true},
        {"two words", "max-age=60 70", 0, true},
        {"a semicolon", "max-age=60; public", 0, true},
        {"a quote never closed", "max-age=\"60", 0, true},
        {"bytes behind the quote", "max-age=\"60\"0", 0, true},
        {"an escape in the quote", "max-age=\"6\\0\"", 0, false},
        {"twice the same", "max-age=60, max-age=60", 60, false},
        {"twice: the smaller, first", "max-age=30, max-age=60", 30, false},
        {"twice: the smaller, second", "max-age=60, max-age=30", 30, false},
        {"twice, one invalid", "max-age=60, max-age=foo", 0, false},
        {"twice, one invalid, first", "max-age=foo, max-age=60", 0, false},
        {"inside of quotes it is none", "x=\"max-age=1\", max-age=60", 60, false},
        {"an escaped quote does not end the string", "x=\"\\\", max-age=1, \", max-age=60", 60, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cache_control c = parse(rows[i].value);
        cr_assert_eq(c.max_age_s, rows[i].want, "%s: %lld", rows[i].why, (long long)c.max_age_s);
        cr_assert_eq(c.is_malformed, rows[i].is_malformed, "%s", rows[i].why);
    }
}

Test(cache_control, what_may_hide_a_restriction_is_malformed)
{
    static const char *const rows[] = {
        "private; max-age=60",  "no-store private", "max-age=60; private", "=1",    "\"no-store\"", "x=a b",
        "x=\"open, max-age=60", "x=\"a\"b",         "no-store\"",          "a=b=c", "(comment)",    "x=\xff",
        "public\x01",
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_assert(parse(rows[i]).is_malformed, "%s", rows[i]);
}

Test(cache_control, an_open_quote_hides_nothing_behind_the_next_comma)
{
    struct cache_control c = parse("x=\"open, no-store, private");

    cr_assert(c.is_malformed && c.no_store && c.is_private);
    c = parse("no-store, x=\"\\\", max-age=60, y=\"z\"");
    cr_assert(c.is_malformed && c.no_store, "a string that ends elsewhere than meant is a mistake, too");
}

Test(cache_control, lists_of_fields_restrict_less_than_the_bare_word)
{
    static const struct {
        const char *why, *value;
        bool flag, fields_only;
    } rows[] = {
        {"bare", "no-cache", true, false},
        {"with fields", "no-cache=\"set-cookie, x\"", true, true},
        {"as a token", "no-cache=set-cookie", true, true},
        {"no field named", "no-cache=\"\"", true, false},
        {"fields, then bare", "no-cache=\"x\", no-cache", true, false},
        {"bare, then fields", "no-cache, no-cache=\"x\"", true, false},
        {"fields twice", "no-cache=\"x\", no-cache=y", true, true},
        {"malformed fields", "no-cache=\"x", true, false},
        {"named elsewhere", "x=\"no-cache\"", false, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cache_control c = parse(rows[i].value);
        cr_assert_eq(c.no_cache, rows[i].flag, "%s", rows[i].why);
        cr_assert_eq(c.no_cache_fields_only, rows[i].fields_only, "%s", rows[i].why);
    }
    cr_assert(parse("private=\"x\"").private_fields_only);
    cr_assert_not(parse("private, private=\"x\"").private_fields_only);
}

Test(cache_control, only_well_formed_words_open_what_authorization_closes)
{
    static const struct {
        const char *value;
        bool permits;
    } rows[] = {
        {"max-age=60", false},
        {"public", true},
        {"public, max-age=60", true},
        {"must-revalidate", true},
        {"proxy-revalidate", false},
        {"s-maxage=60", true},
        {"s-maxage=\"60\"", true},
        {"s-maxage=0", true},
        {"s-maxage=foo", false},
        {"s-maxage", false},
        {"s-maxage=-1", false},
        {"s-maxage=60, s-maxage=foo", false},
        {"s-maxage=foo, s-maxage=60", false},
        {"max-age=60, s-maxage=foo", false},
        {"public=yes", false},
        {"must-revalidate=1", false},
        {"x-public", false},
        {"x=\"public\"", false},
        {"public, private; x", false},
        {"x=\", public", false},
        {"s-maxage=60, =", false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_assert_eq(parse(rows[i].value).permits_authorization, rows[i].permits, "%s", rows[i].value);
}

Test(cache_control, restrictions_count_even_with_an_argument_they_do_not_have)
{
    cr_assert(parse("no-store=0").no_store);
    cr_assert(parse("must-revalidate=1").must_revalidate);
    cr_assert(parse("no-store =x").no_store);
    cr_assert_not(parse("public=1").is_public);
}

Test(cache_control, all_field_lines_count_together_and_no_other_field_does)
{
    const struct header headers[] = {
        {SLICE("cache-control"), SLICE("max-age=60")},         {SLICE("x-cache-control"), SLICE("no-store")},
        {SLICE("cache-control"), SLICE("public, max-age=10")}, {SLICE("cache-control"), {NULL, 0}},
        {SLICE("cache-control"), SLICE("stale-if-error=5")},
    };
    struct cache_control c;

    cache_control_parse(headers, 5, &c);
    cr_assert_eq(c.max_age_s, 10);
    cr_assert_eq(c.stale_if_error_s, 5);
    cr_assert(c.is_public && !c.no_store && !c.is_malformed);
}

Test(cache_control, requests_may_ask_for_less_but_not_by_mistake)
{
    static const struct {
        const char *value;
        int64_t max_stale_s, min_fresh_s;
    } rows[] = {
        {"max-stale", CACHE_SECONDS_MAX, -1},
        {"max-stale=10", 10, -1},
        {"max-stale=10, max-stale", 10, -1},
        {"max-stale=foo", 0, -1},
        {"max-stale=\"7\"", 7, -1},
        {"max-stale =10", 0, -1},
        {"min-fresh=10", -1, 10},
        {"min-fresh=10, min-fresh=20", -1, 20},
        {"min-fresh=foo", -1, -1},
        {"min-fresh", -1, -1},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cache_control c = parse(rows[i].value);
        cr_assert_eq(c.max_stale_s, rows[i].max_stale_s, "%s", rows[i].value);
        cr_assert_eq(c.min_fresh_s, rows[i].min_fresh_s, "%s", rows[i].value);
    }
}

Test(cache_control, a_line_of_nothing_but_quotes_is_read_in_one_pass)
{
    /* each open quote used to be worth a search to the end of the line: with 4 MiB of them that would take
     * minutes */
    size_t len = (size_t)4 << 20;
    char *line = malloc(len);
    for (size_t i = 0; i < len; i += 2)
        memcpy(line + i, i == 0 ? "x\"" : "\\\"", 2);
    struct header header = {SLICE("cache-control"), slice_of(line, len)};
    struct cache_control c;

    cache_control_parse(&header, 1, &c);
    cr_assert(c.is_malformed);
    free(line);
}
