/* Command: what the files of the commands share: a command's row, and what its command line said. */
#ifndef WEIR_COMMAND_H
#define WEIR_COMMAND_H

#include "commands.h"

#include <stdbool.h>
#include <stddef.h>

enum { COMMAND_MAX_WORDS = 256, COMMAND_MAX_OPTIONS = 4 };

struct invocation {
    const char *command;                      /* its name */
    const char *config_path;                  /* of -c, else NULL */
    const char *options[COMMAND_MAX_OPTIONS]; /* values, in the order of the command's row; NULL: not given */
    bool has_flag;                            /* the row's flag is given */
    const char *words[COMMAND_MAX_WORDS];     /* what is no option */
    size_t word_count;                        /* as many as the row allows */
    serve_function *serve;
    FILE *out, *err;
};

struct command {
    const char *name;
    const char *arguments; /* for its usage line */
    const char *means;
    const char *details; /* for its --help */
    bool needs_config;
    int (*carry_out)(const struct invocation *); /* NULL: this release does not have it */
    size_t least_words, most_words;
    const char *options[COMMAND_MAX_OPTIONS]; /* each takes a value */
    const char *flag;                         /* an option that takes none; NULL: the command has none */
};

/* A command line that is wrong in a way that its row cannot say; returns EXIT_USAGE. */
int refuse_words(const struct invocation *call, const char *problem);

int command_client(const struct invocation *call);     /* command_client.c */
int command_invalidate(const struct invocation *call); /* command_invalidate.c */
int command_purge(const struct invocation *call);
int command_cache(const struct invocation *call); /* command_cache.c */

#endif
