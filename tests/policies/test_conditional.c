/* Conditional: when is "you have it already" the answer, and what does a 304 change? */
#include "conditional.h"

#include <criterion/criterion.h>

#define MODIFIED "Sun, 06 Nov 1994 08:00:00 GMT"
#define LATER "Sun, 06 Nov 1994 08:49:37 GMT"
#define DATE "Sun, 06 Nov 1994 10:00:00 GMT"

static const struct wall_s now = {784116000};

static struct header field(const char *name, const char *value)
{
    return (struct header){slice_text(name), slice_text(value)};
}

Test(conditional, a_304_answers_who_names_what_is_stored)
{
    static const struct {
        const char *why, *none_match, *since, *etag, *modified;
        bool want;
    } rows[] = {
        {"the tag", "\"a\"", NULL, "\"a\"", NULL, true},
        {"another", "\"b\"", NULL, "\"a\"", NULL, false},
        {"in a list", "\"x\", \"a\" ,\"y\"", NULL, "\"a\"", NULL, true},
        {"a comma within a tag", "\"x,a\"", NULL, "\"a\"", NULL, false},
        {"a tag with a comma", "\"b\", \"x,a\"", NULL, "\"x,a\"", NULL, true},
        {"weak against strong", "W/\"a\"", NULL, "\"a\"", NULL, true},
        {"strong against weak", "\"a\"", NULL, "W/\"a\"", NULL, true},
        {"weakness has a case", "w/\"a\"", NULL, "\"a\"", NULL, false},
        {"anything", "*", NULL, NULL, NULL, true},
        {"a star in quotes is a tag", "\"*\"", NULL, "\"a\"", NULL, false},
        {"nothing to compare with", "\"a\"", NULL, NULL, NULL, false},
        {"an empty field", "", NULL, "\"a\"", NULL, false},
        {"an open quote", "\"a", NULL, "\"a\"", NULL, false},
        {"the date", NULL, MODIFIED, NULL, MODIFIED, true},
        {"a later date", NULL, LATER, NULL, MODIFIED, true},
        {"an earlier date", NULL, MODIFIED, NULL, LATER, false},
        {"no date", NULL, "yesterday", NULL, MODIFIED, false},
        {"the tag decides", "\"b\"", LATER, "\"a\"", MODIFIED, false},
        {"the tag decides, also so", "\"a\"", MODIFIED, "\"a\"", LATER, true},
        {"no condition", NULL, NULL, "\"a\"", MODIFIED, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct header request[2], response[2];
        size_t asked = 0, stored = 0;
        struct conditions conditions;

        if (rows[i].none_match != NULL)
            request[asked++] = field("if-none-match", rows[i].none_match);
        if (rows[i].since != NULL)
            request[asked++] = field("if-modified-since", rows[i].since);
        if (rows[i].etag != NULL)
            response[stored++] = field("etag", rows[i].etag);
        if (rows[i].modified != NULL)
            response[stored++] = field("last-modified", rows[i].modified);
        conditions_read(request, asked, &conditions);
        cr_expect_eq(condition_says_unmodified(&conditions, request, asked, response, stored, now),
                     rows[i].want, "%s", rows[i].why);
    }
}

Test(conditional, all_lines_of_if_none_match_count)
{
    struct header request[] = {field("if-none-match", "\"b\""), field("if-none-match", "\"a\"")};
    struct header response = field("etag", "\"a\"");
    struct conditions conditions;

    conditions_read(request, 2, &conditions);
    cr_assert(condition_says_unmodified(&conditions, request, 2, &response, 1, now));
}

Test(conditional, without_last_modified_its_date_is_what_the_client_may_go_by)
{
    struct header request = field("if-modified-since", DATE), response = field("date", DATE);
    struct conditions conditions;

    conditions_read(&request, 1, &conditions);
    cr_assert(condition_says_unmodified(&conditions, &request, 1, &response, 1, now));
}

Test(conditional, a_range_is_of_what_if_range_names_strongly)
{
    static const struct {
        const char *why, *if_range, *etag, *modified;
        bool want;
    } rows[] = {
        {"no If-Range", NULL, "\"a\"", NULL, true},
        {"the tag", "\"a\"", "\"a\"", NULL, true},
        {"another", "\"b\"", "\"a\"", NULL, false},
        {"a weak one", "W/\"a\"", "W/\"a\"", NULL, false},
        {"strong against weak", "\"a\"", "W/\"a\"", NULL, false},
        {"the date", MODIFIED, NULL, MODIFIED, true},
        {"a later date", LATER, NULL, MODIFIED, false},
        {"a date too near to the answer's", DATE, NULL, DATE, false},
        {"garbage", "a", "a", NULL, false},
        {"no validator", "\"a\"", NULL, NULL, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct header request = field("if-range", rows[i].if_range), response[3] = {field("date", DATE)};
        size_t count = 1;
        struct conditions conditions;

        if (rows[i].etag != NULL)
            response[count++] = field("etag", rows[i].etag);
        if (rows[i].modified != NULL)
            response[count++] = field("last-modified", rows[i].modified);
        conditions_read(&request, rows[i].if_range == NULL ? 0 : 1, &conditions);
        cr_expect_eq(condition_permits_range(&conditions, response, count, now), rows[i].want, "%s",
                     rows[i].why);
    }
}

Test(conditional, what_only_the_origin_can_judge_is_seen)
{
    struct header match = field("if-match", "\"a\""), since = field("if-unmodified-since", DATE),
                  other = field("if-none-match", "\"a\"");
    struct conditions conditions;

    conditions_read(&match, 1, &conditions);
    cr_assert(conditions.is_for_origin);
    conditions_read(&since, 1, &conditions);
    cr_assert(conditions.is_for_origin);
    conditions_read(&other, 1, &conditions);
    cr_assert(!conditions.is_for_origin);
}

Test(conditional, a_copy_is_asked_about_by_all_its_validators)
{
    struct header stored[] = {field("etag", "W/\"a\""), field("x", "y"), field("last-modified", MODIFIED)};
    struct header out[2];

    cr_assert_eq(conditions_to_validate(stored, 3, out), 2);
    cr_assert(slice_eq(out[0].name, SLICE("if-none-match")) && slice_eq(out[0].value, SLICE("W/\"a\"")));
    cr_assert(slice_eq(out[1].name, SLICE("if-modified-since")) && slice_eq(out[1].value, SLICE(MODIFIED)));
    cr_assert_eq(conditions_to_validate(stored + 1, 1, out), 0);
}

static size_t find(const struct header *headers, size_t count, const char *name, const char *value)
{
    size_t found = 0;

    for (size_t i = 0; i < count; i++)
        if (slice_eq(headers[i].name, slice_text(name)))
            found += slice_eq(headers[i].value, slice_text(value)) ? 1 : 100;
    return found;
}

Test(conditional, a_304_updates_what_does_not_describe_the_stored_bytes)
{
    struct header stored[] = {field("date", MODIFIED),          field("x", "1"),        field("x", "2"),
                              field("content-type", "a/b"),     field("etag", "\"a\""), field("kept", "yes"),
                              field("content-encoding", "gzip")};
    struct header fresh[] = {field("date", DATE),
                             field("x", "3"),
                             field("content-type", "c/d"),
                             field("etag", "\"b\""),
                             field("content-encoding", "br"),
                             field("new", "yes")};
    struct header out[13];
    size_t count = not_modified_merge(stored, 7, fresh, 6, out);

    cr_expect_eq(find(out, count, "date", DATE), 1);
    cr_expect_eq(find(out, count, "x", "3"), 1, "all lines of a name are replaced");
    cr_expect_eq(find(out, count, "content-type", "c/d"), 1);
    cr_expect_eq(find(out, count, "etag", "\"a\""), 1, "it is still the tag of these bytes");
    cr_expect_eq(find(out, count, "content-encoding", "gzip"), 1);
    cr_expect_eq(find(out, count, "kept", "yes"), 1);
    cr_expect_eq(find(out, count, "new", "yes"), 1);
    cr_expect_eq(count, 7);
    count = not_modified_merge(stored, 7, NULL, 0, out);
    cr_expect_eq(find(out, count, "date", MODIFIED), 0, "an old date would make the copy old");
}

Test(conditional, a_304_tells_what_is_not_about_a_body)
{
    cr_assert(field_belongs_in_304(SLICE("etag")));
    cr_assert(field_belongs_in_304(SLICE("cache-control")));
    cr_assert(field_belongs_in_304(SLICE("vary")));
    cr_assert(!field_belongs_in_304(SLICE("content-type")));
    cr_assert(!field_belongs_in_304(SLICE("content-encoding")));
}
