/* Settings environment: see settings_env.h. */
#include "settings_env.h"
#include "memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAME_BYTES = 64 };

static bool is_name_byte(char c, bool is_first)
{
    return c == '_' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (!is_first && c >= '0' && c <= '9');
}

/* Reads "NAME}" or "NAME:-default}" at `*at`, which moves behind it; `*value` of `*len` bytes is what it
 * stands for. */
static bool read_reference(const char **at, const char **value, size_t *len, struct env_problem *problem)
{
    char name[MAX_NAME_BYTES + 1];
    size_t n = 0;
    const char *fallback = NULL, *end;

    while (n < MAX_NAME_BYTES && is_name_byte((*at)[n], n == 0)) {
        name[n] = (*at)[n];
        n++;
    }
    name[n] = '\0';
    if (n == 0 || ((*at)[n] != '}' && strncmp(*at + n, ":-", 2) != 0)) {
        snprintf(problem->text, sizeof problem->text,
                 "${ must be followed by a variable's name, and that by } or :-default}; a name has letters, "
                 "digits and _, "
                 "at most %d",
                 MAX_NAME_BYTES);
        return false;
    }
    end = strchr(*at + n, '}');
    if (end == NULL) {
        snprintf(problem->text, sizeof problem->text, "${%s is not closed by }", name);
        return false;
    }
    if ((*at)[n] == ':')
        fallback = *at + n + 2;
    *at = end + 1;
    *value = getenv(name);
    if (*value != NULL && (**value != '\0' || fallback == NULL)) {
        *len = strlen(*value);
        return true;
    }
    if (fallback == NULL) {
        snprintf(problem->text, sizeof problem->text,
                 "the environment variable %s is not set; set it, or write ${%s:-default}", name, name);
        return false;
    }
    *value = fallback;
    *len = (size_t)(end - fallback);
    return true;
}

char *env_expand(const char *text, struct env_problem *problem)
{
    char *out = must_alloc(MAX_VALUE_BYTES + 1);
    size_t used = 0;

    while (*text != '\0') {
        const char *piece = text;
        size_t len = 1;

        if (text[0] == '$' && text[1] == '{') {
            text += 2;
            if (!read_reference(&text, &piece, &len, problem))
                goto fail;
        } else {
            text++;
        }
        if (len > MAX_VALUE_BYTES - used) {
            snprintf(problem->text, sizeof problem->text, "is longer than %d bytes", MAX_VALUE_BYTES);
            goto fail;
        }
        memcpy(out + used, piece, len);
        used += len;
    }
    out[used] = '\0';
    return must_realloc(out, used + 1);

fail:
    free(out);
    return NULL;
}
