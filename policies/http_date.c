/* HTTP date: see http_date.h. */
#include "http_date.h"

#include "http_char.h"
#include "text.h"

enum { DAY_S = 86400, YEARS_PER_ERA = 400, DAYS_PER_ERA = 146097 };

static const char day_names[7][10] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                      "Thursday", "Friday", "Saturday"};
static const char month_names[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

struct moment { /* in GMT, as written */
    int year, month /* 0..11 */, day /* 1..31 */, hour, minute, second;
    int weekday; /* 0: Sunday; not kept of what is read */
};

static bool is_leap(int year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int days_in_month(int year, int month)
{
    static const int days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month] + (month == 1 && is_leap(year) ? 1 : 0);
}

/* Days from 1970-01-01. The year is counted from March, so that the leap day is its last and the lengths of
 * the months before any month follow one line: (153 m + 2) / 5. */
static int64_t days_of(int year, int month, int day)
{
    int64_t march_year = month >= 2 ? year : year - 1;
    int64_t march_month = month >= 2 ? month - 2 : month + 10;
    int64_t era = (march_year >= 0 ? march_year : march_year - (YEARS_PER_ERA - 1)) / YEARS_PER_ERA;
    int64_t year_of_era = march_year - era * YEARS_PER_ERA;
    int64_t day_of_year = (153 * march_month + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;

    return era * DAYS_PER_ERA + day_of_era - 719468;
}

static int weekday_of(int64_t days)
{
    return (int)(((days + 4) % 7 + 7) % 7); /* 1970-01-01 was a Thursday */
}

static struct moment moment_of(int64_t seconds)
{
    int64_t days = (seconds >= 0 ? seconds : seconds - (DAY_S - 1)) / DAY_S;
    int second = (int)(seconds - days * DAY_S);
    struct moment out = {.hour = second / 3600,
                         .minute = second / 60 % 60,
                         .second = second % 60,
                         .weekday = weekday_of(days)};

    /* a first guess that is never too late (the division rounds towards zero), then the few steps that are
     * left */
    int year = (int)(1970 + days * YEARS_PER_ERA / DAYS_PER_ERA) - 2;
    while (days >= days_of(year + 1, 0, 1))
        year++;
    int month = 0;
    while (month < 11 && days >= days_of(year, month + 1, 1))
        month++;
    out.year = year;
    out.month = month;
    out.day = (int)(days - days_of(year, month, 1)) + 1;
    return out;
}

/* The reading side: each of these takes what it expects from the front, or says no. */

static bool take(struct slice *left, struct slice expected)
{
    if (left->len < expected.len || !slice_eq_nocase(slice_of(left->base, expected.len), expected))
        return false;
    left->base += expected.len;
    left->len -= expected.len;
    return true;
}

static bool take_digits(struct slice *left, size_t digits, int *out)
{
    int64_t number;

    if (left->len < digits || !text_parse_digits(slice_of(left->base, digits), 9999, &number))
        return false;
    left->base += digits;
    left->len -= digits;
    *out = (int)number;
    return true;
}

static bool take_weekday(struct slice *left, bool is_short)
{
    for (int i = 0; i < 7; i++) {
        struct slice name = slice_text(day_names[i]);
        if (is_short)
            name.len = 3;
        if (take(left, name))
            return true;
    }
    return false;
}

static bool take_month(struct slice *left, int *out)
{
    for (int i = 0; i < 12; i++) {
        if (take(left, slice_text(month_names[i]))) {
            *out = i;
            return true;
        }
    }
    return false;
}

static bool take_time(struct slice *left, struct moment *out)
{
    return take_digits(left, 2, &out->hour) && take(left, SLICE(":")) && take_digits(left, 2, &out->minute) &&
           take(left, SLICE(":")) && take_digits(left, 2, &out->second);
}

/* "Sun, 06 Nov 1994 08:49:37 GMT" */
static bool read_imf_fixdate(struct slice left, struct moment *out)
{
    return take_weekday(&left, true) && take(&left, SLICE(", ")) && take_digits(&left, 2, &out->day) &&
           take(&left, SLICE(" ")) && take_month(&left, &out->month) && take(&left, SLICE(" ")) &&
           take_digits(&left, 4, &out->year) && take(&left, SLICE(" ")) && take_time(&left, out) &&
           take(&left, SLICE(" GMT")) && left.len == 0;
}

/* "Sunday, 06-Nov-94 08:49:37 GMT": its year has yet to find its century */
static bool read_rfc850_date(struct slice left, struct moment *out)
{
    return take_weekday(&left, false) && take(&left, SLICE(", ")) && take_digits(&left, 2, &out->day) &&
           take(&left, SLICE("-")) && take_month(&left, &out->month) && take(&left, SLICE("-")) &&
           take_digits(&left, 2, &out->year) && take(&left, SLICE(" ")) && take_time(&left, out) &&
           take(&left, SLICE(" GMT")) && left.len == 0;
}

/* "Sun Nov  6 08:49:37 1994": a day of one digit has a space before it */
static bool read_asctime_date(struct slice left, struct moment *out)
{
    if (!take_weekday(&left, true) || !take(&left, SLICE(" ")) || !take_month(&left, &out->month) ||
        !take(&left, SLICE(" ")))
        return false;
    bool has_day =
        take(&left, SLICE(" ")) ? take_digits(&left, 1, &out->day) : take_digits(&left, 2, &out->day);
    return has_day && take(&left, SLICE(" ")) && take_time(&left, out) && take(&left, SLICE(" ")) &&
           take_digits(&left, 4, &out->year) && left.len == 0;
}

static bool exists(const struct moment *moment)
{
    return moment->day >= 1 && moment->day <= days_in_month(moment->year, moment->month) &&
           moment->hour <= 23 && moment->minute <= 59 && moment->second <= 60 /* a leap second */;
}

static int64_t seconds_of(const struct moment *moment)
{
    return days_of(moment->year, moment->month, moment->day) * DAY_S + moment->hour * 3600 +
           moment->minute * 60 + moment->second;
}

/* The latest year with these last two digits that is not more than 50 years ahead, to the second. */
static void find_century(struct moment *moment, struct wall_s now)
{
    static const struct wall_s first = {INT64_C(-59011459200)},
                               last = {INT64_C(251382614399)}; /* years 100 to 9935 */
    struct moment limit = moment_of(now.s < first.s ? first.s : now.s > last.s ? last.s : now.s);

    limit.year += 50;
    if (limit.month == 1 && limit.day == 29 && !is_leap(limit.year))
        limit.day = 28;
    moment->year += (limit.year / 100) * 100;
    /* seconds_of() of a 29 February that this year does not have is that of 1 March: good enough to compare
     */
    if (seconds_of(moment) > seconds_of(&limit))
        moment->year -= 100;
}

bool http_date_parse(struct slice text, struct wall_s now, struct wall_s *out)
{
    struct moment moment = {0};

    if (read_rfc850_date(text, &moment))
        find_century(&moment, now);
    else if (!read_imf_fixdate(text, &moment) && !read_asctime_date(text, &moment))
        return false;
    if (!exists(&moment))
        return false;
    *out = (struct wall_s){seconds_of(&moment)};
    return true;
}

void http_date_write(struct wall_s moment, char out[HTTP_DATE_BYTES])
{
    static const int64_t first_s = INT64_C(-62167219200), last_s = INT64_C(253402300799);
    int64_t inside_s = moment.s < first_s ? first_s : moment.s > last_s ? last_s : moment.s;
    struct moment m = moment_of(inside_s);
    struct text text = text_in(out, HTTP_DATE_BYTES);

    text_add(&text, slice_of(day_names[m.weekday], 3));
    text_add(&text, SLICE(", "));
    text_add_digits(&text, m.day, 2);
    text_add_char(&text, ' ');
    text_add(&text, slice_of(month_names[m.month], 3));
    text_add_char(&text, ' ');
    text_add_digits(&text, m.year, 4);
    text_add_char(&text, ' ');
    text_add_digits(&text, m.hour, 2);
    text_add_char(&text, ':');
    text_add_digits(&text, m.minute, 2);
    text_add_char(&text, ':');
    text_add_digits(&text, m.second, 2);
    text_add(&text, SLICE(" GMT"));
}
