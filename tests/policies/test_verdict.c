/* Which limit refuses, which is nearest to its end, and how long to wait. */
#include "verdict.h"

#include <criterion/criterion.h>

static const struct limit_standing open_wide = {.limit = 10, .available = 9};
static const struct limit_standing soon = {.limit = 10, .available = 0, .retry_after_us = 5};
static const struct limit_standing later = {.limit = 10, .available = 1, .retry_after_us = 7000000};
static const struct limit_standing full = {.limit = 10, .available = 0, .is_unforeseen = true};
static const struct limit_standing never = {.limit = 10, .available = 10, .retry_after_us = 9, .never = true};

Test(verdict, the_limit_to_name_is_the_one_that_refuses_longest)
{
    const struct {
        const char *why;
        struct limit_standing standings[3];
        size_t count;
        struct verdict want;
    } rows[] = {
        {"no limits", {{0}}, 0, {.admitted = true}},
        {"all allow", {open_wide, open_wide}, 2, {.admitted = true}},
        {"one refuses", {open_wide, soon}, 2, {.refused_by = 1, .retry_after_us = 5}},
        {"the longest wait", {soon, later, open_wide}, 3, {.refused_by = 1, .retry_after_us = 7000000}},
        {"in any order", {later, soon}, 2, {.refused_by = 0, .retry_after_us = 7000000}},
        {"equals: the first", {open_wide, later, later}, 3, {.refused_by = 1, .retry_after_us = 7000000}},
        {"never outranks any wait", {later, never, soon}, 3, {.refused_by = 1, .never = true}},
        {"one that names no wait refuses", {open_wide, full}, 2, {.refused_by = 1}},
        {"a wait that is known outranks it", {full, soon}, 2, {.refused_by = 1, .retry_after_us = 5}},
        {"and so does never", {full, never}, 2, {.refused_by = 1, .never = true}},
        {"of two that name none the first", {full, full}, 2, {.refused_by = 0}},
        {"of two nevers the first", {never, never}, 2, {.refused_by = 0, .never = true}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct verdict got = verdict_reach(rows[i].standings, rows[i].count);
        cr_assert_eq(got.admitted, rows[i].want.admitted, "%s", rows[i].why);
        cr_assert_eq(got.refused_by, rows[i].want.refused_by, "%s", rows[i].why);
        cr_assert_eq(got.never, rows[i].want.never, "%s", rows[i].why);
        cr_assert_eq(got.retry_after_us, rows[i].want.retry_after_us, "%s", rows[i].why);
    }
}

Test(verdict, the_closest_limit_has_the_smallest_share_left)
{
    const struct {
        const char *why;
        struct limit_standing standings[3];
        size_t want;
    } rows[] = {
        {"alone",
         {{.limit = 5, .available = 5}, {.limit = 5, .available = 5}, {.limit = 5, .available = 5}},
         0},
        {"5 of 1000 is less than 1 of 2",
         {{.limit = 2, .available = 1}, {.limit = 1000, .available = 5}, {.limit = 4, .available = 4}},
         1},
        {"equal shares: fewer units",
         {{.limit = 100, .available = 50}, {.limit = 10, .available = 5}, {.limit = 1000, .available = 500}},
         1},
        {"all empty: the first", {{.limit = 3}, {.limit = 2}, {.limit = 1}}, 0},
        {"products beyond 64 bits",
         {{.limit = (INT64_C(1) << 52), .available = (INT64_C(1) << 52) - 1},
          {.limit = (INT64_C(1) << 52), .available = (INT64_C(1) << 52) - 2},
          {.limit = 1, .available = 1}},
         1},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        cr_assert_eq(verdict_closest(rows[i].standings, 3), rows[i].want, "%s", rows[i].why);
}

Test(verdict, retry_after_is_whole_seconds_rounded_up_and_at_least_one)
{
    static const struct {
        int64_t us, want_s;
    } rows[] = {
        {-5, 1}, {0, 1}, {1, 1}, {1000000, 1}, {1000001, 2}, {59999999, 60}, {INT64_MAX, 9223372036855}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        cr_assert_eq(verdict_retry_s(rows[i].us), rows[i].want_s);
}

Test(verdict, a_refusal_is_certain_for_a_little_less_than_its_wait_and_not_for_long)
{
    static const struct {
        int64_t retry_us, certain_us;
    } rows[] = {{1, 0},          {999, 998},       {1000, 999},         {1001, 999}, {100000, 99900},
                {100100, 99999}, {100101, 100000}, {INT64_MAX, 100000}, {0, 0}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_expect_eq(verdict_certain_us(rows[i].retry_us), rows[i].certain_us, "%zu", i);
}

Test(verdict, all_who_refuse_must_agree_to_what_is_more_than_a_refusal)
{
    static const struct limit_standing passes = {10, 5, 0, false, false}, refuses = {10, 0, 7, false, false},
                                       never = {10, 0, 0, true, false};
    static const struct {
        const char *why;
        struct limit_standing standings[2];
        enum when_refused whens[2], want;
    } rows[] = {
        {"one that gives the copy", {refuses, passes}, {GIVE_STORED, REFUSE}, GIVE_STORED},
        {"one that waits", {passes, refuses}, {REFUSE, WAIT_FOR_IT}, WAIT_FOR_IT},
        {"one that refuses", {passes, refuses}, {GIVE_STORED, REFUSE}, REFUSE},
        {"a refusal wins", {refuses, refuses}, {GIVE_STORED, REFUSE}, REFUSE},
        {"over waiting too", {refuses, refuses}, {REFUSE, WAIT_FOR_IT}, REFUSE},
        {"both give it", {refuses, refuses}, {GIVE_STORED, GIVE_STORED}, GIVE_STORED},
        {"who is to wait is not given a copy", {refuses, refuses}, {GIVE_STORED, WAIT_FOR_IT}, WAIT_FOR_IT},
        {"in any order", {refuses, refuses}, {WAIT_FOR_IT, GIVE_STORED}, WAIT_FOR_IT},
        {"no waiting helps", {never, refuses}, {WAIT_FOR_IT, GIVE_STORED}, REFUSE},
        {"nobody refuses", {passes, passes}, {WAIT_FOR_IT, GIVE_STORED}, REFUSE},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_expect_eq(verdict_resort(rows[i].standings, rows[i].whens, 2), rows[i].want, "%s", rows[i].why);
}
