/* A route that no request can reach is a mistake; one that some request can reach is never called one. */
#include "support_settings.h"

#include <criterion/criterion.h>

struct pair {
    const char *why, *earlier, *later;
    bool is_unreachable;
};

static bool later_is_refused(const struct pair *pair)
{
    char text[1024];
    struct outcome outcome;
    bool is_refused;

    snprintf(text, sizeof text, UPSTREAM "routes:\n  - {%s, upstream: api}\n  - {%s, upstream: api}\n",
             pair->earlier, pair->later);
    outcome = parse(text);
    is_refused = outcome.settings == NULL;
    cr_assert(!is_refused || strstr(outcome.said, "routes[1].match: no request can reach this route") != NULL,
              "%s: %s", pair->why, outcome.said);
    forget(&outcome);
    return is_refused;
}

Test(reach, covered_routes_are_refused_and_no_others)
{
    static const struct pair pairs[] = {
        {"the same", "match: GET /a", "match: GET /a", true},
        {"a name is only a name", "match: '/{x}'", "match: '/{y}'", true},
        {"{x} and * take the same", "match: '/*'", "match: '/{y}'", true},
        {"one segment takes a literal", "match: '/{x}/b'", "match: /a/b", true},
        {"a literal does not take a variable", "match: /a/b", "match: '/{x}/b'", false},
        {"everything", "match: /**", "match: GET /a/b/c", true},
        {"the root too", "match: /**", "match: /", true},
        {"a folder and below", "match: /a/**", "match: /a/b/c", true},
        {"a folder itself", "match: /a/**", "match: /a", true},
        {"a narrower rest", "match: /a/**", "match: /a/b/**", true},
        {"a wider rest", "match: /a/b/**", "match: /a/**", false},
        {"a rest is more than one segment", "match: '/a/{x}'", "match: /a/**", false},
        {"beside it", "match: /a/**", "match: /b", false},
        {"an empty last segment is not taken by one that must hold something", "match: '/a/{x}'",
         "match: /a/", false},
        {"longer", "match: /a", "match: /a/b", false},
        {"shorter", "match: /a/b", "match: /a", false},
        {"no method takes all", "match: /a", "match: 'GET,PUT /a'", true},
        {"a method does not take all", "match: GET /a", "match: /a", false},
        {"a part of the methods", "match: 'GET,PUT /a'", "match: PUT /a", true},
        {"more methods", "match: GET /a", "match: 'GET,PUT /a'", false},
        {"GET takes HEAD", "match: GET /a", "match: HEAD /a", true},
        {"HEAD does not take GET", "match: HEAD /a", "match: GET /a", false},
        {"any host takes one", "match: /a", "match: /a, host: example.com", true},
        {"one host does not take any", "match: /a, host: example.com", "match: /a", false},
        {"the same host, in another case", "match: /a, host: Example.com", "match: /a, host: example.COM",
         true},
        {"another host", "match: /a, host: a.example.com", "match: /a, host: b.example.com", false},
        {"below a name", "match: /a, host: '*.example.com'", "match: /a, host: b.example.com", true},
        {"below a name, wild", "match: /a, host: '*.example.com'", "match: /a, host: '*.b.example.com'",
         true},
        {"the name itself is not below it", "match: /a, host: '*.example.com'",
         "match: /a, host: example.com", false},
        {"a name that only ends alike", "match: /a, host: '*.example.com'", "match: /a, host: badexample.com",
         false},
        {"wild does not fit into one", "match: /a, host: b.example.com", "match: /a, host: '*.example.com'",
         false},
    };

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        cr_expect_eq(later_is_refused(&pairs[i]), pairs[i].is_unreachable, "%s", pairs[i].why);
}
