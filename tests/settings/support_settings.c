/* Support: see support_settings.h. */
#include "support_settings.h"

#include <criterion/criterion.h>
#include <stdlib.h>

struct outcome parse_bytes(const char *text, size_t len)
{
    struct outcome outcome = {NULL, NULL};
    size_t said;
    FILE *errors = open_memstream(&outcome.said, &said);

    outcome.settings = settings_parse("weir.yaml", text, len, errors);
    fclose(errors);
    return outcome;
}

struct outcome parse(const char *text)
{
    return parse_bytes(text, strlen(text));
}

struct outcome load(const char *path)
{
    struct outcome outcome = {NULL, NULL};
    size_t said;
    FILE *errors = open_memstream(&outcome.said, &said);

    outcome.settings = settings_load(path, errors);
    fclose(errors);
    return outcome;
}

void forget(struct outcome *outcome)
{
    settings_release(&outcome->settings);
    free(outcome->said);
}

struct settings *accepted(const char *text)
{
    struct outcome outcome = parse(text);

    cr_assert_str_eq(outcome.said, "");
    cr_assert_not_null(outcome.settings);
    free(outcome.said);
    return outcome.settings;
}
