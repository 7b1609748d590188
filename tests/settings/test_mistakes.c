/* Every mistake is told in its own words at its own place: bad/NAME.yaml says bad/NAME.expect, byte for byte.
 */
#include "support_settings.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <stdlib.h>

static char *read_whole(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t room = 0;
    ssize_t len;

    cr_assert_not_null(file, "%s cannot be opened", path);
    len = getdelim(&text, &room, '\0', file);
    if (len < 0)
        text[0] = '\0';
    fclose(file);
    return text;
}

static void expect_words(const char *path)
{
    char expect_path[512];
    struct outcome outcome = load(path);
    char *expected;

    snprintf(expect_path, sizeof expect_path, "%.*s.expect", (int)(strlen(path) - strlen(".yaml")), path);
    expected = read_whole(expect_path);
    cr_expect_null(outcome.settings, "%s was accepted", path);
    cr_expect_str_eq(outcome.said, expected);
    free(expected);
    forget(&outcome);
}

Test(mistakes, each_is_told_byte_for_byte)
{
    glob_t found;

    unsetenv("WEIR_TEST_UNSET");
    cr_assert_eq(glob("tests/settings/bad/*.yaml", 0, NULL, &found), 0);
    cr_assert_gt(found.gl_pathc, 60u);
    for (size_t i = 0; i < found.gl_pathc; i++)
        expect_words(found.gl_pathv[i]);
    globfree(&found);
}

Test(mistakes, no_password_is_ever_repeated)
{
    static const char *const urls[] = {"redis://:verysecret@ho st",  "redsi://:verysecret@host",
                                       "redis://:verysecret#x@host", "redis://:verysecret@host:1/x",
                                       "rediss://:verysecret@host",  "verysecret",
                                       "redis://:verysecret%zz@host"};

    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        char text[512];
        struct outcome outcome;

        snprintf(text, sizeof text,
                 "store: { url: \"%s\" }\nupstreams: { a: { servers: [\"http://u:verysecret@h\"] } }\n",
                 urls[i]);
        outcome = parse(text);
        cr_assert_null(outcome.settings);
        cr_assert_not_null(strstr(outcome.said, "store.url"));
        cr_assert_null(strstr(outcome.said, "verysecret"), "%s", outcome.said);
        forget(&outcome);
    }
}

Test(mistakes, a_file_that_cannot_be_read_is_named)
{
    struct outcome outcome = load("tests/settings/nowhere.yaml");

    cr_assert_null(outcome.settings);
    cr_assert_str_eq(outcome.said,
                     "tests/settings/nowhere.yaml: cannot be read: No such file or directory\n");
    forget(&outcome);
    outcome = load("tests/settings");
    cr_assert_null(outcome.settings);
    cr_assert_str_eq(outcome.said, "tests/settings: cannot be read: it is not a regular file\n");
    forget(&outcome);
}
