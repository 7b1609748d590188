/* What a failed CHECK does in the tests that link the policies alone. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void check_failed(const char *claim, const char *file, int line)
{
    fprintf(stderr, "broken promise: %s (%s:%d)\n", claim, file, line);
    abort();
}
