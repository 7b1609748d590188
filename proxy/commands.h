/* Commands: what is weir asked to do on its command line? */
#ifndef WEIR_COMMANDS_H
#define WEIR_COMMANDS_H

#include <stdio.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 /* the command line or the configuration is wrong */ };

/* Serves a configuration until told to stop and returns the exit code: server_run(), or a test's stand-in. */
typedef int serve_function(const char *config_path);

/* Carries out the command line; results go to `out`, complaints to `err`. Returns the exit code. */
int commands_main(int argc, char **argv, serve_function *serve, FILE *out, FILE *err);

#endif
