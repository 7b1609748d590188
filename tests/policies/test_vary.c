/* Vary: which fields count, and when two requests agree in them. */
#include "vary.h"

#include <criterion/criterion.h>

static struct header field(const char *name, const char *value)
{
    return (struct header){slice_text(name), slice_text(value)};
}

Test(vary, everything_is_named_by_a_star_alone)
{
    static const struct {
        const char *why, *value;
        bool want;
    } rows[] = {
        {"everything", "*", true},
        {"everything, among others", "accept-encoding, *", true},
        {"with space around", " *\t", true},
        {"another", "cookie", false},
        {"a star that is part of a name", "x*", false},
        {"nothing", "", false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct header header = field("vary", rows[i].value);

        cr_assert_eq(vary_names_all(&header, 1), rows[i].want, "%s", rows[i].why);
    }
    cr_assert(!vary_names_all(NULL, 0), "no Vary at all");
}

Test(vary, names_are_one_sorted_list_of_all_that_count)
{
    static const struct {
        const char *why, *known, *first, *second, *coding;
        const char *want; /* NULL: it cannot be told apart */
        bool has_more;
    } rows[] = {
        {"one", "", "Foo", NULL, NULL, "foo", true},
        {"two lines, in any order", "", "Foo", "Bar", NULL, "bar, foo", true},
        {"each once, in any case", "", "foo, FOO", "Foo", NULL, "foo", true},
        {"empty members are nothing", "", ", ,foo,", NULL, NULL, "foo", true},
        {"nothing", "", "", NULL, NULL, "", false},
        {"none", "", NULL, NULL, NULL, "", false},
        {"known ones stay", "bar, foo", "foo", NULL, NULL, "bar, foo", false},
        {"known ones and another", "foo", "bar", NULL, NULL, "bar, foo", true},
        {"a prefix goes before", "accept-language", "accept", NULL, NULL, "accept, accept-language", true},
        {"a coding that nobody announced", "", NULL, NULL, "gzip", "accept-encoding", true},
        {"no coding", "", NULL, NULL, "identity", "", false},
        {"no name", "", "a b", NULL, NULL, NULL, false},
        {"too many", "", "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", NULL, NULL, NULL, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct header headers[3];
        size_t count = 0, len = 0;
        char room[VARY_NAMES_ROOM];
        bool has_more, got;

        if (rows[i].first != NULL)
            headers[count++] = field("vary", rows[i].first);
        if (rows[i].second != NULL)
            headers[count++] = field("vary", rows[i].second);
        if (rows[i].coding != NULL)
            headers[count++] = field("content-encoding", rows[i].coding);
        got = vary_extend(slice_text(rows[i].known), headers, count, room, &len, &has_more);
        cr_expect_eq(got, rows[i].want != NULL, "%s", rows[i].why);
        if (!got || rows[i].want == NULL)
            continue;
        cr_expect(slice_eq(slice_of(room, len), slice_text(rows[i].want)), "%s: %.*s", rows[i].why, (int)len,
                  room);
        cr_expect_eq(has_more, rows[i].has_more, "%s", rows[i].why);
    }
}

Test(vary, names_that_do_not_fit_are_refused)
{
    char long_name[VARY_NAMES_ROOM + 1], room[VARY_NAMES_ROOM];
    struct header header = {SLICE("vary"), {long_name, sizeof(long_name)}};
    size_t len;
    bool has_more;

    memset(long_name, 'a', sizeof(long_name));
    cr_assert(!vary_extend(SLICE(""), &header, 1, room, &len, &has_more));
    header.value.len = VARY_NAMES_ROOM;
    cr_assert(vary_extend(SLICE(""), &header, 1, room, &len, &has_more));
}

static size_t values(const char *names, const struct header *request, size_t count, char *room, size_t bytes)
{
    struct text text = text_in(room, bytes);

    vary_write_values(slice_text(names), request, count, &text);
    cr_assert(text_fits(&text));
    return text.len;
}

Test(vary, requests_agree_where_their_values_mean_the_same_and_only_there)
{
    static const struct {
        const char *why, *name, *a, *a2, *b, *b2; /* NULL: no such line */
        bool want;
    } rows[] = {
        {"the same", "foo", "1", NULL, "1", NULL, true},
        {"others", "foo", "1", NULL, "2", NULL, false},
        {"both without", "foo", NULL, NULL, NULL, NULL, true},
        {"one without", "foo", "1", NULL, NULL, NULL, false},
        {"empty is not absent", "foo", "", NULL, NULL, NULL, false},
        {"lines are one list", "foo", "1, 2", NULL, "1", "2", true},
        {"blanks around commas", "foo", " 1 ,2 ", NULL, "1,2", NULL, true},
        {"blanks within", "foo", "1 2", NULL, "12", NULL, false},
        {"blanks in quotes", "foo", "\"a, b\"", NULL, "\"a,b\"", NULL, false},
        {"case may mean something", "foo", "A", NULL, "a", NULL, false},
        {"languages have no case", "accept-language", "en, de", NULL, "eN,De", NULL, true},
        {"nor an order of equal weight", "accept-language", "en, de", NULL, "de", "en", true},
        {"but weights", "accept-language", "en, de;q=0.5", NULL, "de, en;q=0.5", NULL, false},
        {"written in any way", "accept-language", "en;q=1.0, de;q=0.50", NULL, "de;q=0.5, en", NULL, true},
        {"a weight that is none counts as it stands", "accept-language", "en;q=x", NULL, "en", NULL, false},
        {"codings that may be used", "accept-encoding", "gzip, deflate, br", NULL, "br;q=0.8,x-gzip", NULL,
         true},
        {"and others", "accept-encoding", "gzip", NULL, "br", NULL, false},
        {"one that must not be", "accept-encoding", "gzip;q=0", NULL, NULL, NULL, true},
        {"any", "accept-encoding", "*", NULL, "zstd, gzip, br", NULL, true},
        {"any but one", "accept-encoding", "*, br;q=0", NULL, "gzip, zstd", NULL, true},
        {"one we do not know is none", "accept-encoding", "deflate", NULL, "identity", NULL, true},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct header a[] = {field(rows[i].name, rows[i].a), field(rows[i].name, rows[i].a2)};
        struct header b[] = {field(rows[i].name, rows[i].b), field(rows[i].name, rows[i].b2)};
        char one[200], other[200];
        size_t one_len =
            values(rows[i].name, a, (rows[i].a != NULL) + (rows[i].a2 != NULL), one, sizeof(one));
        size_t other_len =
            values(rows[i].name, b, (rows[i].b != NULL) + (rows[i].b2 != NULL), other, sizeof(other));

        cr_expect_eq(slice_eq(slice_of(one, one_len), slice_of(other, other_len)), rows[i].want,
                     "%s: %.*s %.*s", rows[i].why, (int)one_len, one, (int)other_len, other);
    }
}

Test(vary, what_one_field_says_is_never_taken_for_another)
{
    struct header a[] = {{SLICE("bar"), SLICE("1")}}, b[] = {{SLICE("foo"), SLICE("1")}};
    char one[100], other[100];
    size_t one_len = values("bar, foo", a, 1, one, sizeof(one));
    size_t other_len = values("bar, foo", b, 1, other, sizeof(other));

    cr_assert(!slice_eq(slice_of(one, one_len), slice_of(other, other_len)));
}

Test(vary, a_request_may_want_one_language_before_all_others)
{
    static const struct {
        const char *value, *want; /* NULL: it does not */
    } rows[] = {
        {"de", "de"},
        {"fr;q=0.5, de;q=1.0", "de"},
        {"de;q=0.2,fr;q=0.1,*;q=0.1", "de"},
        {"de-AT, de;q=0.9", "de-AT"},
        {"en, de", NULL},
        {"", NULL},
        {"*", NULL},
        {"*, de;q=0.5", NULL},
        {"de;q=0", NULL},
        {"de;q=x", NULL},
        {"de;q=0.5, fr;q=0.5", NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct header header = {SLICE("accept-language"), slice_text(rows[i].value)};
        struct slice got = SLICE("");

        cr_expect_eq(vary_prefers_language(&header, 1, &got), rows[i].want != NULL, "%s", rows[i].value);
        if (rows[i].want != NULL)
            cr_expect(slice_eq(got, slice_text(rows[i].want)), "%s", rows[i].value);
    }
}

Test(vary, what_is_in_one_language_says_so_once)
{
    static const struct header one[] = {{{"content-language", 16}, {" de ", 4}}},
                               list[] = {{{"content-language", 16}, {"de, en", 6}}},
                               twice[] = {{{"content-language", 16}, {"de", 2}},
                                          {{"content-language", 16}, {"de", 2}}};
    struct slice got;

    cr_assert(vary_is_in_language(one, 1, &got) && slice_eq(got, SLICE("de")));
    cr_assert(!vary_is_in_language(list, 1, &got) && !vary_is_in_language(twice, 2, &got) &&
              !vary_is_in_language(NULL, 0, &got));
}

Test(vary, as_if_for_one_language_is_what_a_request_for_it_alone_says)
{
    static const struct header asked[] = {{{"accept-language", 15}, {"en, DE;q=0.5", 12}},
                                          {{"foo", 3}, {"1", 1}}},
                               alone[] = {{{"accept-language", 15}, {"de", 2}}, {{"foo", 3}, {"1", 1}}};
    char a[128], b[128];
    struct text as_if = text_in(a, sizeof(a)), really = text_in(b, sizeof(b));

    vary_write_values_in(SLICE("DE"), SLICE("accept-language, foo"), asked, 2, &as_if);
    vary_write_values(SLICE("accept-language, foo"), alone, 2, &really);
    cr_assert(slice_eq(text_slice(&as_if), text_slice(&really)));
}
