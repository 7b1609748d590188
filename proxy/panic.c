/* Panic: where a broken promise of our own code ends. Says which, then aborts so that a core can be read. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void check_failed(const char *claim, const char *file, int line)
{
    fprintf(stderr, "weir: broken promise: %s (%s:%d)\n", claim, file, line);
    abort();
}
