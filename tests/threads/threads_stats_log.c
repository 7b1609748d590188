/* Threads that count, log and ask for series while others scrape, under TSan: no race, no lost count, no torn
 * line. */
#include "clock.h"
#include "log.h"
#include "stats.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WRITERS = 4, ROUNDS = 3000 };

static _Atomic int running;
static int failures;

static void expect(bool holds, const char *claim)
{
    if (holds)
        return;
    fprintf(stderr, "not true: %s\n", claim);
    failures++;
}

static void *work(void *number)
{
    struct stats *mine = stats_join();
    char route[32], target[64];
    struct access_record record = {
        .at_wall_us = clock_wall_us(), .upstream_us = -1, .method = SLICE("GET"), .status = 200};

    snprintf(route, sizeof(route), "route %d", *(int *)number % 2);
    for (int i = 0; i < ROUNDS; i++) {
        char status[16];

        snprintf(status, sizeof(status), "%d", i % 50);
        stats_add(mine, stats_series(STATS_requests, (const char *const[]){route, status}), 1);
        stats_observe(mine, stats_series(STATS_request_duration, (const char *const[]){route}), i);
        snprintf(target, sizeof(target), "/%d/%d", *(int *)number, i);
        record.target = slice_text(target);
        access_log_write(&record);
        if (i % 100 == 0)
            log_info("round %d", i);
    }
    atomic_fetch_sub(&running, 1);
    return NULL;
}

static void *scrape(void *unused)
{
    FILE *nowhere = fopen("/dev/null", "w");

    (void)unused;
    while (atomic_load(&running) > 0)
        stats_write_prometheus(nowhere);
    fclose(nowhere);
    return NULL;
}

static size_t count_lines(const char *path)
{
    FILE *in = fopen(path, "r");
    char line[512];
    size_t lines = 0;

    if (in == NULL)
        return 0;
    while (fgets(line, sizeof(line), in) != NULL) {
        size_t len = strlen(line);

        expect(len > 2 && line[0] == '{' && strcmp(line + len - 2, "}\n") == 0, "a line is whole");
        lines++;
    }
    fclose(in);
    return lines;
}

static int64_t requests_counted(void)
{
    int64_t total = 0;

    for (int i = 0; i < 100; i++) {
        char route[32], status[16];

        snprintf(route, sizeof(route), "route %d", i % 2);
        snprintf(status, sizeof(status), "%d", i / 2);
        total += stats_total(stats_series(STATS_requests, (const char *const[]){route, status}));
    }
    return total;
}

int main(void)
{
    char path[] = "/tmp/weir-threads-XXXXXX";
    struct log_settings settings = {.access = path, .format = LOG_JSON};
    pthread_t writers[WRITERS], scraper;
    int numbers[WRITERS], fd = mkstemp(path);
    int64_t lost;

    close(fd);
    expect(access_log_open(&settings), "the log opens");
    atomic_store(&running, WRITERS);
    for (int i = 0; i < WRITERS; i++) {
        numbers[i] = i;
        pthread_create(&writers[i], NULL, work, &numbers[i]);
    }
    pthread_create(&scraper, NULL, scrape, NULL);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
    pthread_join(scraper, NULL);
    access_log_close();

    lost = stats_total(stats_series(STATS_access_lines_lost, NULL));
    expect(requests_counted() == WRITERS * ROUNDS, "no count is lost");
    expect((int64_t)count_lines(path) + lost == WRITERS * ROUNDS, "each line is there or counted as lost");
    unlink(path);
    return failures == 0 ? 0 : 1;
}
