/* ${NAME} and ${NAME:-default}. */
#include "settings_env.h"
#include "support_settings.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static void set_up(void)
{
    setenv("WEIR_TEST_SET", "value", 1);
    setenv("WEIR_TEST_EMPTY", "", 1);
    setenv("WEIR_TEST_NESTED", "${WEIR_TEST_SET}", 1);
    unsetenv("WEIR_TEST_UNSET");
}

TestSuite(environment, .init = set_up);

Test(environment, references_are_replaced)
{
    static const struct {
        const char *why, *text, *want; /* want NULL: refused */
    } rows[] = {
        {"no reference", "plain $ text } {", "plain $ text } {"},
        {"a variable", "${WEIR_TEST_SET}", "value"},
        {"within a text, twice", "a${WEIR_TEST_SET}b${WEIR_TEST_SET}c", "avaluebvaluec"},
        {"the default is for the unset", "${WEIR_TEST_UNSET:-d:-e}", "d:-e"},
        {"and for the empty, as in a shell", "${WEIR_TEST_EMPTY:-d}", "d"},
        {"not for the set", "${WEIR_TEST_SET:-d}", "value"},
        {"an empty default", "<${WEIR_TEST_UNSET:-}>", "<>"},
        {"an empty variable without default", "<${WEIR_TEST_EMPTY}>", "<>"},
        {"what comes in is not expanded again", "${WEIR_TEST_NESTED}", "${WEIR_TEST_SET}"},
        {"a dollar at the end", "cost $", "cost $"},
        {"unset without default", "${WEIR_TEST_UNSET}", NULL},
        {"not closed", "${WEIR_TEST_SET", NULL},
        {"a default that is not closed", "${WEIR_TEST_SET:-d", NULL},
        {"no name", "${}", NULL},
        {"no name but a default", "${:-x}", NULL},
        {"a digit first", "${1A}", NULL},
        {"an operator of the shell that is not known", "${WEIR_TEST_SET:+x}", NULL},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct env_problem problem = {""};
        char *got = env_expand(rows[i].text, &problem);

        if (rows[i].want == NULL)
            cr_expect(got == NULL && problem.text[0] != '\0', "%s", rows[i].why);
        else
            cr_expect(got != NULL && strcmp(got, rows[i].want) == 0, "%s: %s", rows[i].why,
                      got == NULL ? problem.text : got);
        free(got);
    }
}

Test(environment, every_kind_of_value_may_come_from_it)
{
    struct settings *s;

    setenv("WEIR_TEST_PORT", "8099", 1);
    setenv("WEIR_TEST_URL", "redis://:p%40ss@127.0.0.1:1234/3", 1);
    s = accepted(
        "listen: 127.0.0.1:${WEIR_TEST_PORT}\nworkers: ${WEIR_TEST_UNSET:-5}\n"
        "store: {url: \"${WEIR_TEST_URL}\"}\nmax_body: \"${WEIR_TEST_UNSET:-1}MiB\"\n" UPSTREAM ROUTE);
    cr_expect_eq(s->listens[0].port, 8099);
    cr_expect_eq(s->workers, 5);
    cr_expect_str_eq(s->store.password, "p@ss");
    cr_expect_eq(s->store.database, 3);
    cr_expect_eq(s->max_body_bytes, 1024u * 1024);
    settings_release(&s);
}

Test(environment, a_value_with_a_line_end_is_refused)
{
    struct outcome outcome;

    setenv("WEIR_TEST_LINES", "a\nb", 1);
    outcome = parse("log: {access: \"${WEIR_TEST_LINES}\"}\n" UPSTREAM ROUTE);
    cr_assert_null(outcome.settings);
    cr_expect_str_eq(
        outcome.said,
        "weir.yaml:1:15: log.access: an environment variable used here holds a line end or another "
        "control character\n");
    forget(&outcome);
}
