/* Settings environment: what does ${NAME} or ${NAME:-default} in a value stand for? */
#ifndef WEIR_SETTINGS_ENV_H
#define WEIR_SETTINGS_ENV_H

#include <stddef.h>

enum { MAX_VALUE_BYTES = 8192 };

struct env_problem {
    char text[256]; /* in words for the one who wrote the value */
};

/* A copy with every ${} replaced (free() it), or NULL with the problem. A variable that is set but empty
 * takes the default, as in a shell. What was put in is not expanded again. Reads the environment, so: not
 * while another thread changes it. */
char *env_expand(const char *text, struct env_problem *problem);

#endif
