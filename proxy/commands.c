/* Commands: see commands.h. A table of the commands; one that this release lacks is known, and says so. */
#include "command.h"
#include "settings.h"
#include "settings_complaints.h" /* quote() */
#include "settings_suggest.h"

#include <stdbool.h>
#include <string.h>

static int run(const struct invocation *call)
{
    return call->serve(call->config_path);
}

static int check(const struct invocation *call)
{
    struct settings *settings = settings_load(call->config_path, call->err);

    if (settings == NULL)
        return EXIT_USAGE;
    fprintf(call->out, "%s: ok (%zu route%s, %zu limit%s, %zu upstream%s, store %s)\n", call->config_path,
            settings->route_count, settings->route_count == 1 ? "" : "s", settings->limit_count,
            settings->limit_count == 1 ? "" : "s", settings->upstream_count,
            settings->upstream_count == 1 ? "" : "s",
            settings->store.kind == STORE_MEMORY ? "memory" : "redis");
    settings_release(&settings);
    return EXIT_DONE;
}

static int version(const struct invocation *call)
{
    fprintf(call->out, "weir %s\n", WEIR_VERSION);
    return EXIT_DONE;
}

static const struct command commands[] = {
    {"run",
     "-c FILE",
     "serve a configuration",
     "Serves until SIGTERM or SIGINT, which let requests under way finish (drain_timeout), then stops.\n"
     "SIGHUP reads FILE again; one with mistakes is refused, said why, and the old one stays.\n",
     true,
     run,
     0,
     0,
     {NULL},
     NULL},
    {"check",
     "-c FILE",
     "tell every mistake in a configuration",
     "Reads FILE as run would, tells every mistake as FILE:LINE:COLUMN: message, and opens no socket.\n",
     true,
     check,
     0,
     0,
     {NULL},
     NULL},
    {"version", "", "print the version", "", false, version, 0, 0, {NULL}, NULL},
    {"client",
     "-c FILE [--limit NAME] get|set|del KEY [PLAN]",
     "read or change which plan a caller has",
     "KEY is the value by which limits with plans know their callers, such as the API key itself, or "
     "sha256:HEX, its digest as\n"
     "docs/limits.md has it. Where limits know their callers by different keys, --limit says which is meant. "
     "With a store\n"
     "that nodes share the change holds on all of them within 100 ms; with memory:// the running process is "
     "asked.\n",
     true,
     command_client,
     2,
     3,
     {"--limit"},
     NULL},
    {"explain",
     "-c FILE METHOD URL",
     "tell what would happen to a request, and why",
     "",
     true,
     NULL,
     0,
     0,
     {NULL},
     NULL},
    {"invalidate",
     "-c FILE [--soft] TAG...",
     "invalidate what carries a tag",
     "Once it says done, no node serves what carries one of the tags (64 at most) and was loaded before; "
     "with --soft it is stale\n"
     "instead, and may be served while one request fetches the new one. Tells Redis itself, or with "
     "memory:// the running\n"
     "process. Where the store cannot be told it exits with 1, and keeps nothing: try again.\n",
     true,
     command_invalidate,
     1,
     64,
     {NULL},
     "--soft"},
    {"purge",
     "-c FILE [--soft] URL",
     "drop the responses of a URL",
     "As invalidate, for all that is stored of one URL such as https://shop.example/products/42?colour=red, "
     "in all its variants.\n",
     true,
     command_purge,
     1,
     1,
     {NULL},
     "--soft"},
    {"cache",
     "-c FILE stat",
     "tell how full the cache is, and its hit ratio",
     "Asks the running process by its admin port; GET /api/stats there has the same figures, by route, and "
     "more.\n",
     true,
     command_cache,
     1,
     1,
     {NULL},
     NULL},
    {"diff", "OLD NEW", "tell what changes between two configurations", "", false, NULL, 0, 0, {NULL}, NULL},
    {"replay",
     "-c FILE ACCESS.log",
     "tell what a configuration would have done to logged requests",
     "",
     true,
     NULL,
     0,
     0,
     {NULL},
     NULL},
    {"top", "-c FILE", "watch a running process", "", true, NULL, 0, 0, {NULL}, NULL},
};

enum { SHORT_ARGUMENTS = 9, COMMAND_COUNT = sizeof commands / sizeof *commands };

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static void write_overview(FILE *out)
{
    fputs("weir: a caching and rate-limiting HTTP reverse proxy\n\nusage:\n", out);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (commands[i].carry_out != NULL)
            fprintf(out,
                    strlen(commands[i].arguments) > SHORT_ARGUMENTS ? "  weir %-8s %s\n%27s%s\n"
                                                                    : "  weir %-8s %-9s%s  %s\n",
                    commands[i].name, commands[i].arguments, "", commands[i].means);
    fputs("  weir COMMAND --help      tell more about a command\n\nnot supported yet:", out);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (commands[i].carry_out == NULL)
            fprintf(out, " %s", commands[i].name);
    fputs("\n\nexit codes: 0 done, 1 failed, 2 the command line or the configuration is wrong\n", out);
}

static void write_help(const struct command *command, FILE *out)
{
    fprintf(out, "usage: weir %s%s%s\n\n%s.%s\n%s", command->name, command->arguments[0] == '\0' ? "" : " ",
            command->arguments, command->means, command->carry_out == NULL ? " Not supported yet." : "",
            command->details);
}

static const struct command *find_command(const char *name)
{
    /* what other programs have taught fingers */
    if (strcmp(name, "--version") == 0)
        name = "version";
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static int refuse_command(const char *name, FILE *err)
{
    const char *names[COMMAND_COUNT], *near;

    for (size_t i = 0; i < COMMAND_COUNT; i++)
        names[i] = commands[i].name;
    near = nearest_word(name, names, COMMAND_COUNT);
    fprintf(err, "weir: unknown %s %s", name[0] == '-' ? "option" : "command", quote(name).text);
    if (near != NULL)
        fprintf(err, "; did you mean %s?\n", near);
    else
        fputs("; weir --help lists the commands\n", err);
    return EXIT_USAGE;
}

static int refuse_usage(const struct command *command, const char *problem, const char *word, FILE *err)
{
    fprintf(err, "weir %s: %s%s%s; usage: weir %s%s%s\n", command->name, problem, word == NULL ? "" : " ",
            word == NULL ? "" : quote(word).text, command->name, command->arguments[0] == '\0' ? "" : " ",
            command->arguments);
    return EXIT_USAGE;
}

int refuse_words(const struct invocation *call, const char *problem)
{
    return refuse_usage(find_command(call->command), problem, NULL, call->err);
}

/* ---- the words behind a command ---- */

/* Takes argv[i], which is an option, and its value; EXIT_DONE, or it was refused. */
static int take_option(const struct command *command, int argc, char **argv, int i, struct invocation *call)
{
    const char **value = command->needs_config && strcmp(argv[i], "-c") == 0 ? &call->config_path : NULL;
    char needs[64];

    for (size_t k = 0; k < COMMAND_MAX_OPTIONS && command->options[k] != NULL; k++)
        if (strcmp(argv[i], command->options[k]) == 0)
            value = &call->options[k];
    if (value == NULL)
        return refuse_usage(command, "unknown option", argv[i], call->err);
    if (*value != NULL) {
        snprintf(needs, sizeof needs, "%.32s is given twice", argv[i]);
        return refuse_usage(command, needs, NULL, call->err);
    }
    if (i + 1 == argc || argv[i + 1][0] == '\0') {
        snprintf(needs, sizeof needs, "%.32s needs a %s", argv[i],
                 value == &call->config_path ? "file" : "value");
        return refuse_usage(command, needs, NULL, call->err);
    }
    *value = argv[i + 1];
    return EXIT_DONE;
}

/* Options and words, in any order; behind `--` all are words. */
static int take_words(const struct command *command, int argc, char **argv, struct invocation *call)
{
    bool options_end = false;

    for (int i = 0; i < argc; i++) {
        if (!options_end && strcmp(argv[i], "--") == 0)
            options_end = true;
        else if (!options_end && command->flag != NULL && strcmp(argv[i], command->flag) == 0)
            call->has_flag = true;
        else if (!options_end && argv[i][0] == '-') {
            int code = take_option(command, argc, argv, i++, call);

            if (code != EXIT_DONE)
                return code;
        } else if (call->word_count == command->most_words)
            return refuse_usage(command, "one word too many:", argv[i], call->err);
        else
            call->words[call->word_count++] = argv[i];
    }
    if (command->needs_config && call->config_path == NULL)
        return refuse_usage(command, "the configuration is missing", NULL, call->err);
    if (call->word_count < command->least_words)
        return refuse_usage(command, "something is missing", NULL, call->err);
    return EXIT_DONE;
}

static int carry_out(const struct command *command, int argc, char **argv, struct invocation *call)
{
    int code;

    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (is_help(argv[i])) {
            write_help(command, call->out);
            return EXIT_DONE;
        }
    if (command->carry_out == NULL) {
        fprintf(call->err, "weir %s: not supported yet\n", command->name);
        return EXIT_USAGE;
    }
    call->command = command->name;
    code = take_words(command, argc, argv, call);
    return code == EXIT_DONE ? command->carry_out(call) : code;
}

int commands_main(int argc, char **argv, serve_function *serve, FILE *out, FILE *err)
{
    struct invocation call = {.serve = serve, .out = out, .err = err};
    const struct command *command;

    if (argc < 2) {
        write_overview(err);
        return EXIT_USAGE;
    }
    if (is_help(argv[1])) {
        write_overview(out);
        return EXIT_DONE;
    }
    command = find_command(argv[1]);
    if (command == NULL)
        return refuse_command(argv[1], err);
    return carry_out(command, argc - 2, argv + 2, &call);
}
