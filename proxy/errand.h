/* Errand: how does a command reach what it is to look up or change?
 *
 * Where nodes share a store, that is the store itself, whether a node runs or not. With memory:// it is the process that serves the
 * configuration, by its admin port. One errand a command: it is opened, asks once or several times, waits for each answer, and
 * is closed. Whatever goes wrong is told to `err` in one line that begins with `weir COMMAND:`.
 */
#ifndef WEIR_ERRAND_H
#define WEIR_ERRAND_H

#include "slice.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct settings;
struct store;

struct errand {
    struct settings *settings;
    struct store *store; /* NULL: ask the admin port */
    const char *command; /* its name, for complaints; borrowed */
    FILE *err;
    struct errand_ways *ways; /* the errand's own */
};

struct errand_answer { /* of the admin port */
    int status;
    char *body; /* NUL-terminated; free() it */
    size_t len;
};

/* Reads the configuration and finds the way. EXIT_DONE, or the exit code to end with: 2, all mistakes of the configuration are told;
 * 1, the store cannot be reached. */
int errand_open(struct errand *errand, const char *command, const char *config_path, FILE *err);
/* The same in two steps, for who wants to look at the configuration before anybody is called. */
int errand_load(struct errand *errand, const char *command, const char *config_path, FILE *err);
int errand_reach(struct errand *errand);
/* Instead of that: the running process, wherever the store is. */
void errand_reach_process(struct errand *errand);
void errand_close(struct errand *errand); /* also of one that could not be opened */

/* After an operation of the store was started: turns the loop until its callback has set *is_done. Operations end by store.timeout, so
 * this ends. */
void errand_wait(struct errand *errand, const bool *is_done);

/* False, and told: the process cannot be reached. `json` empty: a request without a body. Whatever status came is an answer. */
bool errand_ask_admin(struct errand *errand, struct slice method, struct slice target, struct slice json,
                      struct errand_answer *out);
/* For an answer that is a refusal: tells the `detail` of its problem document, and returns EXIT_FAILED or, where what was asked for is
 * at fault (400, 404, 422), EXIT_USAGE. */
int errand_refused(struct errand *errand, const struct errand_answer *answer);
/* The text at `name` in the answer's JSON object; NULL where there is none. free() it. */
char *errand_text(const struct errand_answer *answer, const char *name);
int64_t errand_number(const struct errand_answer *answer, const char *name); /* -1: there is none */
bool errand_flag(const struct errand_answer *answer, const char *name);      /* true, and there */
void errand_complain(struct errand *errand, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
