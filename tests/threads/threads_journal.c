/* Journal, by several threads at once: who is told is told once and by his own loop, and the next process finds exactly what
 * was not done.
 */
#include "journal.h"
#include "log.h"
#include "loop.h"
#include "../support/thread_claims.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4, EACH = 300, AT_ONCE = 8 };

static struct journal *journal;
static _Atomic int left[THREADS]; /* what each did not do, but kept */

struct keeper {
    struct journal_mark *mark;
    int told;
};

static void on_kept(void *arg, bool is_safe)
{
    struct keeper *keeper = arg;

    MUST(is_safe && keeper->mark != NULL);
    keeper->told++;
    MUST(keeper->told == 1);
}

static void add(struct keeper *keeper, int thread, struct loop *loop)
{
    char name[16];
    struct slice tags[1];

    snprintf(name, sizeof(name), "t%d", thread);
    tags[0] = slice_text(name);
    keeper->told = 0;
    keeper->mark = journal_add(journal, tags, 1, 0, loop, on_kept, keeper);
}

/* Told or not: some are done, some are kept by a process that ends. */
static void end(struct keeper *keeper, int thread, uint32_t *random, struct loop *loop)
{
    if (next_random(random) % 3 != 0) {
        journal_remove(journal, &keeper->mark);
        return;
    }
    while (keeper->told == 0)
        loop_turn(loop, 10);
    journal_forget(journal, &keeper->mark);
    atomic_fetch_add(&left[thread], 1);
}

static void *run(void *arg)
{
    int thread = (int)(uintptr_t)arg;
    uint32_t random = (uint32_t)thread * 2654435761u + 1;
    struct loop *loop = loop_new();
    struct keeper keepers[AT_ONCE] = {{0}};

    for (int step = 0; step < EACH; step++) {
        struct keeper *keeper = &keepers[next_random(&random) % AT_ONCE];

        if (keeper->mark == NULL)
            add(keeper, thread, loop);
        else
            end(keeper, thread, &random, loop);
        if (next_random(&random) % 4 == 0)
            loop_turn(loop, 0);
    }
    for (int i = 0; i < AT_ONCE; i++)
        if (keepers[i].mark != NULL)
            end(&keepers[i], thread, &random, loop);
    loop_turn(loop, 0);
    loop_turn(loop, 0);
    loop_free(loop);
    return NULL;
}

static void expect_what_was_left(void)
{
    const struct slice *tags;
    size_t count, soft_count;
    struct journal_mark *mark;

    while ((mark = journal_next_found(journal, &tags, &count, &soft_count)) != NULL) {
        MUST(count == 1 && tags[0].len == 2);
        atomic_fetch_sub(&left[tags[0].base[1] - '0'], 1);
        journal_remove(journal, &mark);
    }
    for (int i = 0; i < THREADS; i++)
        MUST(atomic_load(&left[i]) == 0);
}

int main(void)
{
    char folder[] = "/tmp/weir-journal-XXXXXX", path[64];
    pthread_t threads[THREADS];

    log_set_level(LOG_ERROR);
    MUST(mkdtemp(folder) != NULL);
    snprintf(path, sizeof(path), "%s/journal", folder);
    journal = journal_open(path, stderr);
    MUST(journal != NULL);
    for (uintptr_t i = 0; i < THREADS; i++)
        MUST(pthread_create(&threads[i], NULL, run, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    journal_close(journal);
    journal = journal_open(path, stderr);
    MUST(journal != NULL);
    expect_what_was_left();
    journal_close(journal);
    MUST(unlink(path) == 0 && rmdir(folder) == 0);
    return 0;
}
