#include "stats.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>

/* Not inline: gcc then takes the stream's bytes for a part of the variable that points to them. */
__attribute__((noinline)) static char *scrape(void)
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    stats_write_prometheus(out);
    fclose(out);
    return text;
}

static bool is_exposed(const char *line)
{
    char *text = scrape();
    bool is_there = strstr(text, line) != NULL;

    if (!is_there)
        fprintf(stderr, "%s", text);
    free(text);
    return is_there;
}

static const char *const ok[] = {"GET /x", "200"};

Test(stats, a_series_is_the_same_whoever_asks)
{
    static const char *const other[] = {"GET /x", "404"};
    stats_id id = stats_series(STATS_requests, ok);

    cr_expect_eq(stats_series(STATS_requests, ok), id);
    cr_expect_neq(stats_series(STATS_requests, other), id);
    cr_expect_eq(stats_join(), stats_join(), "a thread has one set of figures");
}

Test(stats, counters_are_exposed_with_help_type_and_labels)
{
    stats_add(stats_join(), stats_series(STATS_requests, ok), 2);
    stats_add(stats_join(), stats_series(STATS_requests, ok), 3);
    cr_expect_eq(stats_total(stats_series(STATS_requests, ok)), 5);
    cr_expect(
        is_exposed("# HELP weir_requests_total Requests answered, by route and status. What clients see.\n"
                   "# TYPE weir_requests_total counter\n"
                   "weir_requests_total{route=\"GET /x\",status=\"200\"} 5\n"));
}

Test(stats, a_counter_without_labels_is_there_before_it_counts)
{
    cr_expect(is_exposed("\nweir_store_reconnects_total 0\n"));
}

Test(stats, a_family_without_series_is_not_exposed)
{
    char *text = scrape();

    cr_expect_null(strstr(text, "weir_loads"));
    free(text);
}

Test(stats, labels_are_escaped)
{
    static const char *const labels[] = {"a\"b\\c\nd", NULL};

    stats_add(stats_join(), stats_series(STATS_collapsed, labels), 1);
    cr_expect(is_exposed("weir_collapsed_total{route=\"a\\\"b\\\\c\\nd\"} 1\n"));
}

Test(stats, gauges_go_up_and_down)
{
    stats_id id = stats_series(STATS_client_connections, NULL);

    stats_add(stats_join(), id, 3);
    stats_add(stats_join(), id, -2);
    cr_expect(is_exposed("# TYPE weir_client_connections gauge\nweir_client_connections 1\n"));
}

Test(stats, histograms_are_cumulative_and_in_seconds)
{
    static const char *const labels[] = {"lookup"};
    stats_id id = stats_series(STATS_store_duration, labels);

    stats_observe(stats_join(), id, 50);
    stats_observe(stats_join(), id, 51);
    stats_observe(stats_join(), id, 10000000);
    stats_observe(stats_join(), id, 10000001);
    stats_observe(stats_join(), id, -7);
    cr_expect_eq(stats_total(id), 5);
    cr_expect(is_exposed("# TYPE weir_store_duration_seconds histogram\n"
                         "weir_store_duration_seconds_bucket{operation=\"lookup\",le=\"0.00005\"} 2\n"
                         "weir_store_duration_seconds_bucket{operation=\"lookup\",le=\"0.0001\"} 3\n"));
    cr_expect(is_exposed("weir_store_duration_seconds_bucket{operation=\"lookup\",le=\"10\"} 4\n"
                         "weir_store_duration_seconds_bucket{operation=\"lookup\",le=\"+Inf\"} 5\n"
                         "weir_store_duration_seconds_sum{operation=\"lookup\"} 20.000102\n"
                         "weir_store_duration_seconds_count{operation=\"lookup\"} 5\n"));
}

static int64_t read_number(void *arg)
{
    return *(int64_t *)arg;
}

Test(stats, a_probe_is_read_when_scraped_and_until_it_is_taken_away)
{
    int64_t first = 7, second = 8;
    char *text;

    stats_probe(STATS_near_bytes, NULL, read_number, &first);
    cr_expect(is_exposed("weir_near_bytes 7\n"));
    first = 9;
    cr_expect(is_exposed("weir_near_bytes 9\n"));
    stats_probe(STATS_near_bytes, NULL, read_number, &second);
    cr_expect(is_exposed("weir_near_bytes 8\n"));
    stats_probe(STATS_near_bytes, NULL, NULL, NULL);
    text = scrape();
    cr_expect_null(strstr(text, "weir_near_bytes"));
    free(text);
}

Test(stats, a_counter_that_is_read_is_exposed_once)
{
    int64_t evicted = 3;
    char *text, *at;

    stats_probe(STATS_near_evicted, NULL, read_number, &evicted);
    text = scrape();
    at = strstr(text, "\nweir_near_evicted_total ");
    cr_assert_not_null(at);
    cr_expect_eq(strncmp(at, "\nweir_near_evicted_total 3\n", 27), 0);
    cr_expect_null(strstr(at + 1, "\nweir_near_evicted_total "), "a scraper refuses a page with two");
    free(text);
    stats_probe(STATS_near_evicted, NULL, NULL, NULL);
}

static void *count_and_leave(void *id)
{
    stats_add(stats_join(), *(stats_id *)id, 1);
    return stats_join();
}

Test(stats, what_a_thread_counted_stays_when_it_has_ended)
{
    stats_id id = stats_series(STATS_collapsed, (const char *const[]){"r"});
    void *first, *second;
    pthread_t thread;

    stats_add(stats_join(), id, 1);
    pthread_create(&thread, NULL, count_and_leave, &id);
    pthread_join(thread, &first);
    pthread_create(&thread, NULL, count_and_leave, &id);
    pthread_join(thread, &second);
    cr_expect_eq(stats_total(id), 3);
    cr_expect_eq(first, second, "and the next thread takes its place");
    cr_expect_neq(first, stats_join());
}

Test(stats, no_number_of_series_grows_without_bound)
{
    static const char *const last[] = {"last"};
    stats_id id = 1;

    for (int i = 0; i < 20000 && id != 0; i++) {
        char name[32];

        snprintf(name, sizeof(name), "series %d", i);
        id = stats_series(STATS_request_duration, (const char *const[]){name});
    }
    cr_assert_eq(id, 0, "there is an end");
    stats_observe(stats_join(), id, 5);
    id = stats_series(STATS_request_duration, last);
    stats_observe(stats_join(), id, 5);
    cr_expect_eq(id, 0, "for good");
    cr_expect(is_exposed("weir_request_duration_seconds_count{route=\"series 0\"} 0\n"),
              "what was there stays");
}
