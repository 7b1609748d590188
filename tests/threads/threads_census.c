/* Census, by several threads at once, while minutes begin: whoever is noted is counted, and nobody else. */
#include "census.h"
#include "../support/thread_claims.h"

#include <pthread.h>
#include <string.h>

enum { THREADS = 4, MINUTES = 50, CALLERS = 3000, MINUTE_MS = 60000 };

static void *run(void *arg)
{
    uint32_t first = (uint32_t)(uintptr_t)arg * CALLERS / 2; /* each shares half of them with the next */

    for (int64_t minute = 1; minute <= MINUTES; minute++) {
        struct mono_ms now = {minute * MINUTE_MS + (int64_t)first % MINUTE_MS};
        struct census *census = census_of("shared");
        int64_t count;

        for (uint32_t i = first; i < first + CALLERS; i++) {
            unsigned char principal[16] = {0};

            memcpy(principal, &i, sizeof(i));
            census_note(census, principal, now);
        }
        count = census_count(census, now);
        MUST(count >= 0 && count <= (THREADS + 1) * CALLERS);
    }
    return NULL;
}

int main(void)
{
    struct mono_ms end = {MINUTES * MINUTE_MS + 1};
    int64_t most = (THREADS + 1) * CALLERS / 2;
    pthread_t threads[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        MUST(pthread_create(&threads[i], NULL, run, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    /* The last minute is begun once, and everybody noted all of his in it. */
    MUST(census_count(census_of("shared"), end) > most * 85 / 100);
    MUST(census_count(census_of("shared"), end) < most * 115 / 100);
    printf("counted %lld of %lld\n", (long long)census_count(census_of("shared"), end), (long long)most);
    return 0;
}
