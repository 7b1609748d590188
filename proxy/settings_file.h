/* Settings file: the bytes of a configuration or of a secret, bounded, from a regular file only (a pipe could
 * let us wait for ever). */
#ifndef WEIR_SETTINGS_FILE_H
#define WEIR_SETTINGS_FILE_H

#include <stddef.h>

enum { MAX_CONFIG_BYTES = 1 << 20, MAX_SECRET_FILE_BYTES = 1024 };

/* NUL added; free() it. NULL with *problem, in words, where it cannot be read or holds more than `most`. */
char *file_read(const char *path, size_t most, size_t *len, const char **problem);

/* One secret: white space at both ends removed, visible ASCII inside, not empty. Same return. */
char *secret_read(const char *path, const char **problem);

/* A path as it is meant where it stands in the file `config_path`: relative to that file's folder. free() it.
 */
char *path_beside(const char *config_path, const char *path);

#endif
