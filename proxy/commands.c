/* Commands: see commands.h. A table of the commands; one that this release lacks is known, and says so. */
#include "commands.h"
#include "settings.h"
#include "settings_complaints.h" /* quote() */
#include "settings_suggest.h"

#include <stdbool.h>
#include <string.h>

struct invocation {
    const char *config_path; /* of -c, else NULL */
    serve_function *serve;
    FILE *out, *err;
};

struct command {
    const char *name;
    const char *arguments;
    const char *means;
    const char *details; /* for its --help */
    bool needs_config;
    int (*carry_out)(const struct invocation *); /* NULL: this release does not have it */
};

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
    {"run", "-c FILE", "serve a configuration",
     "Serves until SIGTERM or SIGINT, which let requests under way finish (drain_timeout), then stops.\n"
     "SIGHUP reads FILE again; one with mistakes is refused, said why, and the old one stays.\n",
     true, run},
    {"check", "-c FILE", "tell every mistake in a configuration",
     "Reads FILE as run would, tells every mistake as FILE:LINE:COLUMN: message, and opens no socket.\n",
     true, check},
    {"version", "", "print the version", "", false, version},
    {"explain", "-c FILE METHOD URL", "tell what would happen to a request, and why", "", true, NULL},
    {"invalidate", "-c FILE TAG...", "invalidate what carries a tag", "", true, NULL},
    {"purge", "-c FILE URL", "drop the responses of a URL", "", true, NULL},
    {"client", "-c FILE get|set|del KEY [PLAN]", "read or set a caller's plan", "", true, NULL},
    {"diff", "OLD NEW", "tell what changes between two configurations", "", false, NULL},
    {"replay", "-c FILE ACCESS.log", "tell what a configuration would have done to logged requests", "", true,
     NULL},
    {"top", "-c FILE", "watch a running process", "", true, NULL},
};

enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static void write_overview(FILE *out)
{
    fputs("weir: a caching and rate-limiting HTTP reverse proxy\n\nusage:\n", out);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (commands[i].carry_out != NULL)
            fprintf(out, "  weir %-8s %-9s  %s\n", commands[i].name, commands[i].arguments,
                    commands[i].means);
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

/* Options and words behind the command. Nothing but -c FILE is known in this release. */
static int carry_out(const struct command *command, int argc, char **argv, struct invocation *call)
{
    for (int i = 0; i < argc; i++)
        if (is_help(argv[i])) {
            write_help(command, call->out);
            return EXIT_DONE;
        }
    if (command->carry_out == NULL) {
        fprintf(call->err, "weir %s: not supported yet\n", command->name);
        return EXIT_USAGE;
    }
    for (int i = 0; i < argc; i++) {
        if (!command->needs_config || strcmp(argv[i], "-c") != 0)
            return refuse_usage(command, argv[i][0] == '-' ? "unknown option" : "one word too many:", argv[i],
                                call->err);
        if (call->config_path != NULL)
            return refuse_usage(command, "-c is given twice", NULL, call->err);
        if (i + 1 == argc || argv[i + 1][0] == '\0')
            return refuse_usage(command, "-c needs a file", NULL, call->err);
        call->config_path = argv[++i];
    }
    if (command->needs_config && call->config_path == NULL)
        return refuse_usage(command, "the configuration is missing", NULL, call->err);
    return command->carry_out(call);
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
