#include "coding.h"

#include <criterion/criterion.h>
#include <stdlib.h>

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

#define AE "accept-encoding"

Test(coding, gzip_is_for_those_who_name_it_and_do_not_want_the_plain_form_more)
{
    static const struct {
        const char *why;
        struct said said[MAX_FIELDS];
        enum coding_wish want;
    } rows[] = {
        {"nothing said", {{NULL, NULL}}, CODING_PLAIN},
        {"an empty list", {{AE, ""}}, CODING_PLAIN},
        {"named", {{AE, "gzip"}}, CODING_GZIP},
        {"in any case, by its old name", {{AE, "X-GZIP"}}, CODING_GZIP},
        {"among others", {{AE, "br;q=1, gzip;q=0.001"}}, CODING_GZIP},
        {"by a star", {{AE, "*"}}, CODING_GZIP},
        {"on another line", {{AE, "br"}, {AE, "gzip"}}, CODING_GZIP},
        {"others alone", {{AE, "br, zstd"}}, CODING_PLAIN},
        {"refused", {{AE, "gzip;q=0"}}, CODING_PLAIN},
        {"refused, whatever the star says", {{AE, "*, gzip;q=0.000"}}, CODING_PLAIN},
        {"refused by the star", {{AE, "*;q=0"}}, CODING_PLAIN},
        {"the plain form is wanted more", {{AE, "gzip;q=0.3, identity;q=0.4"}}, CODING_PLAIN},
        {"as much", {{AE, "gzip;q=0.4, identity;q=0.4"}}, CODING_GZIP},
        {"less", {{AE, "gzip;q=0.4, identity;q=0.3"}}, CODING_GZIP},
        {"the plain form is refused", {{AE, "gzip, identity;q=0"}}, CODING_GZIP_ONLY},
        {"by the star", {{AE, "gzip, *;q=0"}}, CODING_GZIP_ONLY},
        {"not where it is named", {{AE, "gzip, identity;q=0.1, *;q=0"}}, CODING_GZIP},
        {"neither will do: nothing better is there", {{AE, "br, *;q=0"}}, CODING_PLAIN},
        {"a weight that is none", {{AE, "gzip;q=1.5"}}, CODING_PLAIN},
        {"no transformation", {{AE, "gzip"}, {"cache-control", "no-transform"}}, CODING_PLAIN},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct header headers[MAX_FIELDS];
        size_t count = fields_of(rows[i].said, headers);

        cr_expect_eq(coding_wish_of(headers, count), rows[i].want, "%s", rows[i].why);
    }
}

Test(coding, what_may_be_compressed)
{
    static const struct slice types[] = {{"text/", 5}, {"application/json", 16}};
    static const struct {
        const char *why;
        struct said said[MAX_FIELDS];
        bool want;
    } rows[] = {
        {"a type of a kind", {{"content-type", "text/css"}}, true},
        {"with parameters", {{"content-type", "Text/HTML ; charset=utf-8"}}, true},
        {"a type by its name", {{"content-type", "application/json;v=1"}}, true},
        {"a longer name", {{"content-type", "application/json-seq"}}, false},
        {"a kind without a type", {{"content-type", "text/"}}, false},
        {"another kind", {{"content-type", "image/png"}}, false},
        {"no type", {{NULL, NULL}}, false},
        {"coded already", {{"content-type", "text/css"}, {"content-encoding", "br"}}, false},
        {"coded by nothing", {{"content-type", "text/css"}, {"content-encoding", "Identity"}}, true},
        {"coded by two, on two lines",
         {{"content-type", "text/css"}, {"content-encoding", "identity"}, {"content-encoding", "gzip"}},
         false},
        {"forbidden", {{"content-type", "text/css"}, {"cache-control", "public, No-Transform"}}, false},
        {"forbidden beside a targeted field",
         {{"content-type", "text/css"},
          {"cache-control", "no-transform"},
          {"cdn-cache-control", "max-age=1"}},
         false},
        {"forbidden by it", {{"content-type", "text/css"}, {"cdn-cache-control", "no-transform"}}, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct header headers[MAX_FIELDS];
        size_t count = fields_of(rows[i].said, headers);

        cr_expect_eq(coding_may_compress(headers, count, types, 2), rows[i].want, "%s", rows[i].why);
        cr_expect_not(coding_may_compress(headers, count, NULL, 0), "without types nothing is");
    }
}

static bool has(const struct header *headers, size_t count, const char *name, const char *value)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq(headers[i].name, slice_text(name)) &&
            (value == NULL || slice_eq(headers[i].value, slice_text(value))))
            return true;
    return false;
}

static size_t head_of(const struct header *stored, size_t count, bool is_gzip, struct header *out)
{
    static char room[64];

    cr_assert(coding_text_bytes(stored, count) <= sizeof(room));
    return coding_write_head(stored, count, is_gzip, out, room);
}

Test(coding, each_form_has_the_fields_that_are_true_of_its_bytes)
{
    static const struct header stored[] = {
        {{"etag", 4}, {"\"a\"", 3}},
        {{"content-md5", 11}, {"x", 1}},
        {{"repr-digest", 11}, {"y", 1}},
        {{"content-digest", 14}, {"z", 1}},
        {{"digest", 6}, {"u", 1}},
        {{"content-type", 12}, {"text/css", 8}},
        {{"content-encoding", 16}, {"identity", 8}},
    };
    struct header out[9];
    size_t count = head_of(stored, 7, true, out);

    cr_assert_eq(count, 4);
    cr_expect(has(out, count, "etag", "W/\"a\""));
    cr_expect(has(out, count, "content-type", "text/css"));
    cr_expect(has(out, count, "content-encoding", "gzip"));
    cr_expect(has(out, count, "vary", "accept-encoding"));
    count = head_of(stored, 7, false, out);
    cr_assert_eq(count, 8);
    cr_expect(has(out, count, "etag", "\"a\""));
    cr_expect(has(out, count, "content-md5", "x"));
    cr_expect(has(out, count, "vary", "accept-encoding"));
}

Test(coding, vary_names_the_field_once_and_a_weak_etag_stays_as_it_is)
{
    static const struct {
        const char *vary;
        bool is_added;
    } rows[] = {{"x-a", true},
                {"x-a, Accept-Encoding", false},
                {"*", false},
                {"accept-encoding-x", true},
                {"", true}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct header stored[] = {{SLICE("vary"), slice_text(rows[i].vary)},
                                  {SLICE("etag"), SLICE("W/\"a\"")}},
                      out[4];
        size_t count = head_of(stored, 2, true, out);

        cr_expect_eq(count, rows[i].is_added ? 4u : 3u, "%s", rows[i].vary);
        cr_expect(has(out, count, "etag", "W/\"a\""));
        cr_expect(has(out, count, "vary", rows[i].vary), "what was said stays");
    }
}
