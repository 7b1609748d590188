#include "http_date.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <time.h>

static const struct wall_s now_2026 = {INT64_C(1790000000)}; /* in September 2026 */

Test(http_date, the_three_spellings_of_one_moment_are_one_moment)
{
    static const char *const rows[] = {"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
                                       "Sun Nov  6 08:49:37 1994"};

    for (size_t i = 0; i < 3; i++) {
        struct wall_s got;
        cr_assert(http_date_parse(slice_text(rows[i]), now_2026, &got), "%s", rows[i]);
        cr_assert_eq(got.s, 784111777, "%s", rows[i]);
    }
}

Test(http_date, neither_case_nor_the_right_name_of_the_day_matters)
{
    static const char *const rows[] = {"SUN, 06 nov 1994 08:49:37 gmt",  "sUNDAY, 06-NOV-94 08:49:37 GMT",
                                       "sun nov  6 08:49:37 1994",       "Mon, 06 Nov 1994 08:49:37 GMT",
                                       "Monday, 06-Nov-94 08:49:37 GMT", "Mon Nov  6 08:49:37 1994"};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wall_s got;
        cr_assert(http_date_parse(slice_text(rows[i]), now_2026, &got), "%s", rows[i]);
        cr_assert_eq(got.s, 784111777, "%s", rows[i]);
    }
}

Test(http_date, anything_else_is_no_date)
{
    static const struct {
        const char *why, *text;
    } rows[] = {
        {"empty", ""},
        {"what upstreams write to say: expired", "0"},
        {"the same", "-1"},
        {"no such day", "Thu, 32 Foo"},
        {"no name of a day", "Sux, 06 Nov 1994 08:49:37 GMT"},
        {"no such month", "Sun, 06 Nox 1994 08:49:37 GMT"},
        {"another zone", "Sun, 06 Nov 1994 08:49:37 UTC"},
        {"a numeric zone", "Sun, 06 Nov 1994 08:49:37 +0000"},
        {"no zone", "Sun, 06 Nov 1994 08:49:37"},
        {"one digit less", "Sun, 6 Nov 1994 08:49:37 GMT"},
        {"a space for a digit", "Sun,  6 Nov 1994 08:49:37 GMT"},
        {"two digits of a year", "Sun, 06 Nov 94 08:49:37 GMT"},
        {"three digits of a year", "Sun, 06 Nov 994 08:49:37 GMT"},
        {"five digits of a year", "Sun, 06 Nov 01994 08:49:37 GMT"},
        {"four digits in RFC 850", "Sunday, 06-Nov-1994 08:49:37 GMT"},
        {"a short day in RFC 850", "Sun, 06-Nov-94 08:49:37 GMT"},
        {"a long day elsewhere", "Sunday, 06 Nov 1994 08:49:37 GMT"},
        {"hour 24", "Sun, 06 Nov 1994 24:00:00 GMT"},
        {"minute 60", "Sun, 06 Nov 1994 08:60:37 GMT"},
        {"second 61", "Sun, 06 Nov 1994 08:49:61 GMT"},
        {"day 0", "Sun, 00 Nov 1994 08:49:37 GMT"},
        {"30 February", "Wed, 30 Feb 1994 08:49:37 GMT"},
        {"29 February of a common year", "Tue, 29 Feb 1994 08:49:37 GMT"},
        {"29 February of a century", "Thu, 29 Feb 1900 08:49:37 GMT"},
        {"31 April", "Sun, 31 Apr 1994 08:49:37 GMT"},
        {"a byte before", " Sun, 06 Nov 1994 08:49:37 GMT"},
        {"a byte behind", "Sun, 06 Nov 1994 08:49:37 GMT "},
        {"a byte behind, asctime", "Sun Nov  6 08:49:37 1994 "},
        {"a zone in asctime", "Sun Nov  6 08:49:37 1994 GMT"},
        {"a zero in asctime's one digit", "Sun Nov  0 08:49:37 1994"},
        {"a sign", "Sun, +6 Nov 1994 08:49:37 GMT"},
        {"cut", "Sun, 06 Nov 1994 08:49:3"},
        {"the name alone", "Sun"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wall_s got = {-77};
        cr_assert_not(http_date_parse(slice_text(rows[i].text), now_2026, &got), "%s", rows[i].why);
        cr_assert_eq(got.s, -77, "a failure writes nothing");
    }
}

Test(http_date, edges_of_the_calendar_are_read)
{
    static const struct {
        const char *why, *text;
        int64_t want;
    } rows[] = {
        {"the epoch", "Thu, 01 Jan 1970 00:00:00 GMT", 0},
        {"the second before", "Wed, 31 Dec 1969 23:59:59 GMT", -1},
        {"past 2^31", "Tue, 19 Jan 2038 03:14:08 GMT", INT64_C(2147483648)},
        {"29 February of a leap year", "Thu, 29 Feb 2024 00:00:00 GMT", 1709164800},
        {"29 February of a fourth century", "Tue, 29 Feb 2000 12:00:00 GMT", 951825600},
        {"a leap second is the next minute's first", "Sat, 31 Dec 2016 23:59:60 GMT", 1483228800},
        {"the last second there is", "Fri, 31 Dec 9999 23:59:59 GMT", INT64_C(253402300799)},
        {"the first", "Sat, 01 Jan 0000 00:00:00 GMT", INT64_C(-62167219200)},
        {"asctime with two digits", "Wed Nov 16 08:49:37 1994", 784975777},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wall_s got;
        cr_assert(http_date_parse(slice_text(rows[i].text), now_2026, &got), "%s", rows[i].why);
        cr_assert_eq(got.s, rows[i].want, "%s: %lld", rows[i].why, (long long)got.s);
    }
}

Test(http_date, a_year_of_two_digits_is_never_more_than_fifty_years_ahead)
{
    /* now: 2026-09-21 14:13:20 */
    static const struct {
        const char *why, *text, *same;
    } rows[] = {
        {"fifty years ahead to the second", "Monday, 21-Sep-76 14:13:20 GMT",
         "Mon, 21 Sep 2076 14:13:20 GMT"},
        {"and one more", "Tuesday, 21-Sep-76 14:13:21 GMT", "Tue, 21 Sep 1976 14:13:21 GMT"},
        {"this century", "Friday, 06-Nov-26 08:49:37 GMT", "Fri, 06 Nov 2026 08:49:37 GMT"},
        {"the turn of the century", "Saturday, 01-Jan-00 00:00:00 GMT", "Sat, 01 Jan 2000 00:00:00 GMT"},
        {"the past one", "Friday, 31-Dec-99 23:59:59 GMT", "Fri, 31 Dec 1999 23:59:59 GMT"},
        {"a leap day of this century", "Thursday, 29-Feb-24 00:00:00 GMT", "Thu, 29 Feb 2024 00:00:00 GMT"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wall_s got, want;
        cr_assert(http_date_parse(slice_text(rows[i].text), now_2026, &got), "%s", rows[i].why);
        cr_assert(http_date_parse(slice_text(rows[i].same), now_2026, &want), "%s", rows[i].why);
        cr_assert_eq(got.s, want.s, "%s: %lld", rows[i].why, (long long)got.s);
    }
}

Test(http_date, any_clock_of_ours_finds_some_century)
{
    static const int64_t clocks[] = {INT64_MIN, -62167219200, -1, 0, 951782400 /* a 29 February */,
                                     INT64_MAX};

    for (size_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++) {
        struct wall_s got;
        /* one of four centuries in a row has this day on a Sunday: only that it ends and stays in bounds is
         * claimed */
        if (http_date_parse(SLICE("Sunday, 06-Nov-94 08:49:37 GMT"), (struct wall_s){clocks[i]}, &got))
            cr_assert(got.s > INT64_C(-62167219201) && got.s < INT64_C(253402300800));
    }
}

Test(http_date, every_day_of_eight_centuries_is_written_as_the_libc_writes_it_and_read_back)
{
    for (int64_t day = -135140; day < 157000; day++) { /* 1600 to 2399 */
        int64_t moment = day * 86400 + (day * 7919 % 86400 + 86400) % 86400;
        char got[HTTP_DATE_BYTES], want[64];
        time_t libc_moment = (time_t)moment;
        struct tm tm;
        struct wall_s back;

        http_date_write((struct wall_s){moment}, got);
        gmtime_r(&libc_moment, &tm);
        strftime(want, sizeof(want), "%a, %d %b %Y %H:%M:%S GMT", &tm);
        cr_assert_eq(memcmp(got, want, HTTP_DATE_BYTES), 0, "%.29s is not %s", got, want);
        cr_assert(http_date_parse(slice_of(got, sizeof(got)), now_2026, &back));
        cr_assert_eq(back.s, moment, "%s", want);
    }
}

Test(http_date, moments_outside_four_digits_are_written_as_the_nearest_inside)
{
    char got[HTTP_DATE_BYTES];

    http_date_write((struct wall_s){INT64_MAX}, got);
    cr_assert_eq(memcmp(got, "Fri, 31 Dec 9999 23:59:59 GMT", 29), 0);
    http_date_write((struct wall_s){INT64_MIN}, got);
    cr_assert_eq(memcmp(got, "Sat, 01 Jan 0000 00:00:00 GMT", 29), 0);
}
