/* Asked tags: what an answer's JSON names is invalidated, and what it should have named and did not is noticed. */
#include "asked_tags.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct template compiled(const char *text)
{
    struct template template;

    cr_assert_null(template_compile(slice_text(text), NULL, &template), "%s", text);
    return template;
}

/* The tags that `body` names, joined by blanks; "?" behind them where they are not all. */
static const char *named(const char *text, const char *body)
{
    static char out[4096];
    struct template template = compiled(text);
    struct asked_tags *asked = asked_tags_new(&template, 1, 0);
    struct named_tags tags = asked_tags_read(asked, slice_text(body));
    size_t len = 0;

    out[0] = '\0';
    for (size_t i = 0; i < tags.count; i++)
        len += (size_t)snprintf(out + len, sizeof(out) - len, "%s%.*s", i == 0 ? "" : " ",
                                (int)tags.tags[i].len, tags.tags[i].base);
    if (tags.is_incomplete)
        snprintf(out + len, sizeof(out) - len, "?");
    asked_tags_free(&asked);
    cr_assert_null(asked);
    return out;
}

Test(asked_tags, a_value_gives_a_tag_and_an_array_one_for_each)
{
    static const struct {
        const char *template, *body, *tags;
    } rows[] = {
        {"p:{json:/id}", "{\"id\": 42}", "p:42"},
        {"p:{json:/id}", "{\"id\": \"abc\"}", "p:abc"},
        {"o:{json:/owner/id}", "{\"owner\": {\"id\": -7}}", "o:-7"},
        {"p:{json:/ids}", "{\"ids\": [1, \"b\", 3]}", "p:1 p:b p:3"},
        {"p:{json:/items/1/id}", "{\"items\": [{\"id\": 1}, {\"id\": 2}]}", "p:2"},
        {"p:{json:/a~1b}", "{\"a/b\": 1}", "p:1"},
        {"p:{json:}", "\"whole\"", "p:whole"},
        {"p:{json:}", "[1,2]", "p:1 p:2"},
        {"{json:/a}:{json:/b}", "{\"a\": \"x\", \"b\": \"y\"}", "x:y"},
        {"{json:/a}:{json:/b}", "{\"a\": \"x\", \"b\": [1,2]}", "x:1 x:2"},
        {"{json:/a}:{json:/b}:{json:/a}", "{\"a\": [1,2], \"b\": \"x\"}", "?"},
        {"{json:/a}:{json:/b}:{json:/c}", "{\"a\": 0, \"b\": [1,2], \"c\": \"z\"}", "0:1:z 0:2:z"},
        {"p:{json:/id}", "{\"id\": 9007199254740993}", "p:9007199254740993"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_assert_str_eq(named(rows[i].template, rows[i].body), rows[i].tags, "%s of %s", rows[i].template,
                         rows[i].body);
}

Test(asked_tags, a_tag_has_the_spelling_that_the_same_value_has_in_a_path)
{
    static const struct {
        const char *body, *tag;
    } rows[] = {
        {"\"user@a.test\"", "p:user@a.test"},
        {"\"a b\"", "p:a%20b"},
        {"\"a,b\"", "p:a%2Cb"},
        {"\"a/b\"", "p:a%2Fb"},
        {"\"100%\"", "p:100%25"},
        {"\"%41\"", "p:%2541"},
        {"\"gr\\u00fcn\"", "p:gr%C3%BCn"},
        {"\"a+b=c\"", "p:a+b=c"},
        {"\"-._~\"", "p:-._~"},
        {"\"a?b#c\"", "p:a%3Fb%23c"},
        {"\"\\u0000\"", "p:%00"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_assert_str_eq(named("p:{json:}", rows[i].body), rows[i].tag, "%s", rows[i].body);
}

Test(asked_tags, what_is_absent_gives_none_and_what_is_something_else_is_noticed)
{
    static const struct {
        const char *why, *body, *tags;
    } rows[] = {
        {"absent", "{}", ""},
        {"null", "{\"id\": null}", ""},
        {"an empty array", "{\"id\": []}", ""},
        {"an object", "{\"id\": {}}", "?"},
        {"a fraction", "{\"id\": 1.5}", "?"},
        {"true", "{\"id\": true}", "?"},
        {"null among others", "{\"id\": [1, null]}", "?"},
        {"an array of arrays", "{\"id\": [[1]]}", "?"},
        {"no JSON", "id=1", "?"},
        {"nothing", "", "?"},
        {"JSON, and more", "{\"id\": 1} x", "?"},
        {"a name that stands twice", "{\"id\": 1, \"id\": 2}", "?"},
        {"cut short", "{\"id\": 1", "?"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_assert_str_eq(named("p:{json:/id}", rows[i].body), rows[i].tags, "%s", rows[i].why);
}

Test(asked_tags, more_than_can_be_told_are_noticed_and_the_first_are_kept)
{
    static char body[32000];
    struct template template = compiled("p:{json:}");
    struct asked_tags *asked = asked_tags_new(&template, 1, 0);
    struct named_tags tags;
    size_t len = 1;

    body[0] = '[';
    for (int i = 0; i < ASKED_TAGS_MAX; i++)
        len += (size_t)snprintf(body + len, sizeof(body) - len, "%s%d", i == 0 ? "" : ",", i);
    snprintf(body + len, sizeof(body) - len, "]");
    tags = asked_tags_read(asked, slice_text(body));
    cr_assert(tags.count == ASKED_TAGS_MAX && !tags.is_incomplete);
    cr_assert(slice_eq(tags.tags[ASKED_TAGS_MAX - 1], SLICE("p:1023")));
    asked_tags_free(&asked);

    snprintf(body + len, sizeof(body) - len, ",1]");
    asked = asked_tags_new(&template, 1, 0);
    cr_assert(asked_tags_read(asked, slice_text(body)).is_incomplete);
    asked_tags_free(&asked);
}

Test(asked_tags, the_soft_ones_come_first_and_templates_outlive_what_they_were_made_of)
{
    char text[] = "s:{json:/a}";
    struct template templates[2];
    struct asked_tags *asked;
    struct named_tags tags;

    cr_assert_null(template_compile(slice_text(text), NULL, &templates[0]));
    templates[1] = compiled("h:{json:/b}");
    asked = asked_tags_new(templates, 2, 1);
    memset(text, '-', sizeof(text) - 1);
    tags = asked_tags_read(asked, SLICE("{\"a\": [1,2], \"b\": 3}"));
    cr_assert(tags.count == 3 && tags.soft_count == 2 && !tags.is_incomplete);
    cr_assert(slice_eq(tags.tags[0], SLICE("s:1")) && slice_eq(tags.tags[2], SLICE("h:3")));
    asked_tags_free(&asked);
}

Test(asked_tags, pointers_that_are_none_are_refused)
{
    static const char *const rows[] = {"{json:id}", "{json:/a~}", "{json:/a~2}", "{json:~0}"};
    struct template template;
    char long_one[200] = "{json:/";

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_assert_not_null(template_compile(slice_text(rows[i]), NULL, &template), "%s", rows[i]);
    memset(long_one + 7, 'a', TEMPLATE_MAX_POINTER);
    long_one[7 + TEMPLATE_MAX_POINTER] = '}';
    cr_assert_not_null(template_compile(slice_text(long_one), NULL, &template));
    long_one[7 + TEMPLATE_MAX_POINTER - 1] = '}';
    long_one[7 + TEMPLATE_MAX_POINTER] = '\0';
    cr_assert_null(template_compile(slice_text(long_one), NULL, &template));
    cr_assert(template_asks_answer(&template));
}
