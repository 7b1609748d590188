/* Claims of threaded tests, which have a main of their own and may not use a test framework: say what was not
 * so, and fail. */
#ifndef WEIR_TESTS_THREAD_CLAIMS_H
#define WEIR_TESTS_THREAD_CLAIMS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MUST(claim)                                                                                          \
    do {                                                                                                     \
        if (!(claim)) {                                                                                      \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #claim);                              \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

/* A thread's own random numbers. */
static inline uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

#endif
