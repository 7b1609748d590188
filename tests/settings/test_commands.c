/* The command line: what is asked for is done, what is not known is refused with the nearest that is. */
#include "commands.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const char *served;

static int stand_in(const char *config_path)
{
    served = config_path;
    return 42;
}

struct told {
    int code;
    char *out, *err;
};

static struct told command(const char *line)
{
    char *copy = strdup(line), *argv[16], *rest = NULL;
    struct told told = {0};
    size_t out_len, err_len;
    FILE *out = open_memstream(&told.out, &out_len), *err = open_memstream(&told.err, &err_len);
    int argc = 0;

    served = NULL;
    for (char *word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    argv[argc] = NULL;
    told.code = commands_main(argc, argv, stand_in, out, err);
    fclose(out);
    fclose(err);
    if (served != NULL)
        cr_assert_str_eq(served, "some.yaml");
    free(copy);
    return told;
}

static void expect(const char *line, int code, const char *out, const char *err)
{
    struct told told = command(line);

    cr_expect_eq(told.code, code, "%s: %d", line, told.code);
    cr_expect_str_eq(told.out, out);
    cr_expect_str_eq(told.err, err);
    free(told.out);
    free(told.err);
}

Test(commands, run_serves_the_file_and_returns_its_code)
{
    expect("weir run -c some.yaml", 42, "", "");
    cr_expect_not_null(served);
}

Test(commands, check_tells_what_a_good_file_holds)
{
    expect("weir check -c conf/minimal.yaml", 0,
           "conf/minimal.yaml: ok (1 route, 0 limits, 1 upstream, store memory)\n", "");
    expect("weir check -c conf/fleet.yaml", 0,
           "conf/fleet.yaml: ok (4 routes, 3 limits, 1 upstream, store redis)\n", "");
}

Test(commands, check_of_a_bad_file_is_2_and_tells_where)
{
    expect("weir check -c tests/settings/bad/workers.yaml", 2, "",
           "tests/settings/bad/workers.yaml:1:10: workers: \"257\" is out of range; allowed is auto, or 1 to "
           "256\n");
    expect("weir check -c nowhere.yaml", 2, "", "nowhere.yaml: cannot be read: No such file or directory\n");
}

Test(commands, version_is_one_line)
{
    expect("weir version", 0, "weir " WEIR_VERSION "\n", "");
    expect("weir --version", 0, "weir " WEIR_VERSION "\n", "");
}

Test(commands, what_is_unknown_is_refused_with_the_nearest)
{
    expect("weir chekc -c some.yaml", 2, "", "weir: unknown command \"chekc\"; did you mean check?\n");
    expect("weir frobnicate", 2, "",
           "weir: unknown command \"frobnicate\"; weir --help lists the commands\n");
    expect("weir --verbose", 2, "", "weir: unknown option \"--verbose\"; weir --help lists the commands\n");
    expect("weir run --config some.yaml", 2, "",
           "weir run: unknown option \"--config\"; usage: weir run -c FILE\n");
    expect("weir run some.yaml", 2, "",
           "weir run: one word too many: \"some.yaml\"; usage: weir run -c FILE\n");
    expect("weir run -c some.yaml more", 2, "",
           "weir run: one word too many: \"more\"; usage: weir run -c FILE\n");
    expect("weir run", 2, "", "weir run: the configuration is missing; usage: weir run -c FILE\n");
    expect("weir check -c", 2, "", "weir check: -c needs a file; usage: weir check -c FILE\n");
    expect("weir run -c a -c b", 2, "", "weir run: -c is given twice; usage: weir run -c FILE\n");
    expect("weir version -c some.yaml", 2, "", "weir version: unknown option \"-c\"; usage: weir version\n");
    cr_expect_null(served);
}

Test(commands, what_comes_later_says_so)
{
    static const char *const later[] = {"explain", "diff", "replay", "top"};

    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        char line[64], err[64];

        snprintf(line, sizeof line, "weir %s -c some.yaml x", later[i]);
        snprintf(err, sizeof err, "weir %s: not supported yet\n", later[i]);
        expect(line, 2, "", err);
    }
}

Test(commands, client_wants_to_know_what_to_do_with_whom)
{
    static const char usage[] = "usage: weir client -c FILE [--limit NAME] get|set|del KEY [PLAN]\n";
    static const struct {
        const char *words, *problem;
    } rows[] = {
        {"-c conf/fleet.yaml", "something is missing"},
        {"-c conf/fleet.yaml get", "something is missing"},
        {"-c conf/fleet.yaml ask k", "what to do is get, set or del"},
        {"-c conf/fleet.yaml set k", "the plan is missing"},
        {"-c conf/fleet.yaml get k pro", "only set takes a plan"},
        {"-c conf/fleet.yaml set k pro now", "one word too many: \"now\""},
        {"-c conf/fleet.yaml get k --limit", "--limit needs a value"},
        {"-c conf/fleet.yaml --limit a --limit b get k", "--limit is given twice"},
        {"-c conf/fleet.yaml get k --plan", "unknown option \"--plan\""},
        {"get k", "the configuration is missing"},
        {"-c conf/fleet.yaml -- get", "something is missing"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char line[128], err[256];

        snprintf(line, sizeof line, "weir client %s", rows[i].words);
        snprintf(err, sizeof err, "weir client: %s; %s", rows[i].problem, usage);
        expect(line, 2, "", err);
    }
}

/* Nothing of this reaches a store or a process. */
Test(commands, client_tells_what_the_configuration_does_not_have)
{
    expect("weir client -c nowhere.yaml get k", 2, "",
           "nowhere.yaml: cannot be read: No such file or directory\n");
    expect("weir client -c conf/minimal.yaml get k", 2, "",
           "weir client: No limit of the configuration has plans.\n");
}

Test(commands, help_is_there_for_all_and_for_each)
{
    static const char *const each[] = {"run",   "check",  "version", "explain", "invalidate",
                                       "purge", "client", "diff",    "replay",  "top"};
    struct told told = command("weir --help");

    cr_expect_eq(told.code, 0);
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        cr_expect_not_null(strstr(told.out, each[i]), "%s", each[i]);
    free(told.out);
    free(told.err);
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        char line[64], usage[64];

        snprintf(line, sizeof line, "weir %s -c some.yaml --help", each[i]);
        snprintf(usage, sizeof usage, "usage: weir %s", each[i]);
        told = command(line);
        cr_expect_eq(told.code, 0);
        cr_expect_eq(strncmp(told.out, usage, strlen(usage)), 0);
        cr_expect_null(served, "help does nothing else");
        free(told.out);
        free(told.err);
    }
}

Test(commands, nothing_at_all_is_a_question_for_help)
{
    struct told told = command("weir");

    cr_expect_eq(told.code, 2);
    cr_expect_str_eq(told.out, "");
    cr_expect_eq(strncmp(told.err, "weir: a caching", 15), 0);
    free(told.out);
    free(told.err);
}
