/* Problem: our refusals say what they are, in one form, or nothing at all where it does not fit. */
#include "problem.h"

#include <criterion/criterion.h>

static void expect(int status, const char *code, const char *detail, const char *want)
{
    char room[PROBLEM_ROOM];
    size_t len = problem_body(status, code, detail, room, sizeof(room));

    cr_assert(slice_eq(slice_of(room, len), slice_text(want)), "got %.*s", (int)len, room);
}

Test(problem, bodies_are_these_bytes)
{
    expect(404, "no_route", "No route matches this request.",
           "{\"type\":\"about:blank\",\"title\":\"Not Found\",\"status\":404,"
           "\"detail\":\"No route matches this request.\",\"code\":\"no_route\"}");
    expect(503, "upstream_saturated", "Full.",
           "{\"type\":\"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity\","
           "\"title\":\"Service "
           "Unavailable\",\"status\":503,\"detail\":\"Full.\",\"code\":\"upstream_saturated\"}");
}

Test(problem, every_status_we_refuse_with_has_a_title)
{
    static const int statuses[] = {400, 401, 404, 413, 415, 500, 502, 503, 504};

    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        char room[PROBLEM_ROOM + 1] = "";

        cr_assert_gt(problem_body(statuses[i], "c", "d", room, PROBLEM_ROOM), 0);
        cr_assert_null(strstr(room, "\"title\":\"Error\""), "%d", statuses[i]);
    }
}

Test(problem, what_does_not_fit_is_not_written_in_part)
{
    char room[PROBLEM_ROOM];
    size_t len = problem_body(404, "no_route", "No route.", room, sizeof(room));

    cr_assert_eq(problem_body(404, "no_route", "No route.", room, len), len, "exactly enough");
    for (size_t less = 0; less < len; less++)
        cr_assert_eq(problem_body(404, "no_route", "No route.", room, less), 0);
}
