/* No configuration, however made, costs more than a bounded time and memory, nor gets past the reader by its
 * size. */
#include "support_settings.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static char *repeat(const char *head, const char *piece, size_t times, const char *tail)
{
    size_t each = strlen(piece), at = strlen(head);
    char *text = malloc(at + each * times + strlen(tail) + 1);

    strcpy(text, head);
    for (size_t i = 0; i < times; i++, at += each)
        memcpy(text + at, piece, each);
    strcpy(text + at, tail);
    return text;
}

static void expect_refusal(char *text, const char *words)
{
    struct outcome outcome = parse(text);

    cr_expect_null(outcome.settings);
    cr_expect_not_null(strstr(outcome.said, words), "%.300s", outcome.said);
    forget(&outcome);
    free(text);
}

Test(bounds, depth_is_bounded)
{
    expect_refusal(repeat("listen: ", "[", 17, ""), "nested more than 16 deep");
    expect_refusal(repeat("listen: ", "[", 100000, ""), "nested more than 16 deep");
    expect_refusal(repeat("listen: ", "{a: ", 100000, ""), "nested more than 16 deep");
}

Test(bounds, the_number_of_values_is_bounded)
{
    expect_refusal(repeat("listen: [", "a,", 200000, "]"), "more than 100000 values");
}

Test(bounds, the_size_is_bounded)
{
    expect_refusal(repeat("#", "x", 1 << 20, "\n" UPSTREAM ROUTE), "at most 1 MiB");
}

Test(bounds, just_below_the_size_is_fine)
{
    char *text = repeat(UPSTREAM ROUTE "#", "x", 1000000, "\n");
    struct settings *settings = accepted(text);

    settings_release(&settings);
    free(text);
}

Test(bounds, a_long_value_and_a_long_key_are_refused)
{
    expect_refusal(repeat("log: { access: \"", "x", 8193, "\" }"), "at most 8192 bytes");
    expect_refusal(repeat("", "k", 129, ": 1"), "at most 128 bytes");
}

Test(bounds, a_long_variable_is_refused)
{
    char *value = repeat("", "x", 9000, "");

    setenv("WEIR_TEST_LONG", value, 1);
    expect_refusal(repeat("log: { access: \"${WEIR_TEST_LONG}\" }", "", 0, ""), "is longer than 8192 bytes");
    expect_refusal(repeat("log: { access: \"", "${WEIR_TEST_LONG:-x}", 400, "\" }"),
                   "is longer than 8192 bytes");
    unsetenv("WEIR_TEST_LONG");
    free(value);
}

Test(bounds, aliases_cannot_multiply)
{
    expect_refusal(repeat("a: &a [x]\nb: &b [*a,*a]\nlisten: [", "*b,", 50000, "]"), "aliases (*name)");
}

Test(bounds, errors_are_capped_and_counted)
{
    char *text = repeat("limits: {a: {", "x: 1, ", 30000, "}}");
    struct outcome outcome = parse(text);
    size_t lines = 0;

    cr_assert_null(outcome.settings);
    for (const char *c = outcome.said; *c != '\0'; c++)
        lines += *c == '\n';
    cr_assert_eq(lines, 501, "%zu", lines); /* 500, and one that counts the rest */
    cr_assert_not_null(strstr(outcome.said, " further errors are not shown\n"));
    forget(&outcome);
    free(text);
}

Test(bounds, no_byte_of_a_good_file_can_be_cut_or_changed_into_a_crash)
{
    static const char text[] = "listen: [\"[::1]:80\"]\nstore: {url: \"redis://u:p@h:1/2\"}\n"
                               "limits: {a: {key: \"header:x\", rate: 5/250ms}}\n" UPSTREAM
                               "routes: [{match: \"GET /a/{id}\", upstream: api, limits: [a], "
                               "cache: {ttl: 1s, tags: [\"t:{id}\"]}}]\n";
    char copy[sizeof text];

    for (size_t i = 0; i < sizeof text - 1; i++) {
        static const char others[] = {'\0', '{', '}', '"', ':', '\n', ' ', '&', '*', '[', '$', '\xff'};
        struct outcome outcome = parse_bytes(text, i);

        cr_assert((outcome.settings == NULL) == (outcome.said[0] != '\0'));
        forget(&outcome);
        for (size_t k = 0; k < sizeof others; k++) {
            memcpy(copy, text, sizeof text);
            copy[i] = others[k];
            outcome = parse_bytes(copy, sizeof text - 1);
            cr_assert((outcome.settings == NULL) == (outcome.said[0] != '\0'));
            forget(&outcome);
        }
    }
}
