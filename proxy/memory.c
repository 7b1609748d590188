/* Memory: see memory.h. */
#include "memory.h"
#include "check.h"

#include <stdlib.h>
#include <string.h>

void *must_alloc(size_t bytes)
{
    void *fresh = calloc(1, bytes);

    CHECK(fresh != NULL);
    return fresh;
}

void *must_realloc(void *old, size_t bytes)
{
    void *grown = realloc(old, bytes);

    CHECK(grown != NULL);
    return grown;
}

char *must_copy(const char *bytes, size_t len)
{
    char *copy = must_alloc(len + 1);

    if (len > 0)
        memcpy(copy, bytes, len);
    return copy;
}
