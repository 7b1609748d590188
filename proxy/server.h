/* Server: the whole process from a configuration file to its last connection. */
#ifndef WEIR_SERVER_H
#define WEIR_SERVER_H

/* Reads the configuration, serves until told to stop (SIGTERM drains, SIGHUP reloads) and returns the
 * process's exit code: 0 stopped as asked, 1 failed, 2 the configuration has errors (each was written to
 * stderr). */
int server_run(const char *config_path);

#endif
