#include "log.h"

#include "stats.h"

#include <criterion/criterion.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- the error log ---- */

static char *taken; /* what was written to stderr between the two calls below */
static int kept_stderr, pipe_end;

static void take_stderr(void)
{
    int ends[2];

    cr_assert_eq(pipe(ends), 0);
    kept_stderr = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    pipe_end = ends[0];
}

static void give_stderr_back(void)
{
    size_t len = 0;
    ssize_t got;

    dup2(kept_stderr, STDERR_FILENO);
    close(kept_stderr);
    taken = calloc(1, 1 << 16);
    while ((got = read(pipe_end, taken + len, (1 << 16) - 1 - len)) > 0)
        len += (size_t)got;
    close(pipe_end);
}

static size_t count(const char *text, const char *what)
{
    size_t found = 0;

    while ((text = strstr(text, what)) != NULL) {
        text += strlen(what);
        found++;
    }
    return found;
}

Test(log, a_line_has_a_time_a_level_and_its_message)
{
    int year;
    char rest[64];

    take_stderr();
    log_warn("the store at port %d is away", 6379);
    give_stderr_back();
    cr_assert_eq(sscanf(taken, "%d-%*2d-%*2dT%*2d:%*2d:%*2d.%*3dZ %63[^\n]", &year, rest), 2, "%s", taken);
    cr_expect_str_eq(rest, "warn the store at port 6379 is away");
    cr_expect_gt(year, 2000);
    cr_expect_eq(taken[strlen(taken) - 1], '\n');
    free(taken);
}

Test(log, lines_below_the_level_are_not_written)
{
    take_stderr();
    log_debug("one");
    log_info("two");
    log_set_level(LOG_ERROR);
    log_warn("three");
    log_error("four");
    log_set_level(LOG_DEBUG);
    log_debug("five");
    give_stderr_back();
    cr_expect_null(strstr(taken, "one"));
    cr_expect_not_null(strstr(taken, " info two\n"));
    cr_expect_null(strstr(taken, "three"));
    cr_expect_not_null(strstr(taken, " error four\n"));
    cr_expect_not_null(strstr(taken, " debug five\n"));
    free(taken);
}

Test(log, a_message_cannot_break_its_line)
{
    take_stderr();
    log_error("upstream said %s", "a\nb\x1b[31m\r");
    give_stderr_back();
    cr_expect_not_null(strstr(taken, "upstream said a\\x0ab\\x1b[31m\\x0d\n"), "%s", taken);
    cr_expect_eq(count(taken, "\n"), 1);
    free(taken);
}

Test(log, a_long_message_is_one_line_as_well)
{
    char *message = malloc(100000);

    memset(message, 1, 99999);
    message[99999] = '\0';
    take_stderr();
    log_error("%s", message);
    give_stderr_back();
    cr_expect_eq(count(taken, "\n"), 1);
    cr_expect_eq(taken[strlen(taken) - 1], '\n');
    free(taken);
    free(message);
}

/* The windows are of a second of the real clock. However slow this runs, of the lines at one place at most
 * ten a window pass, and each one that did not is told of sooner or later. */
Test(log, one_place_cannot_flood_the_log)
{
    long written, left_out = 0;

    take_stderr();
    for (int i = 0; i < 200; i++)
        log_warn("flood");
    log_warn("another place");
    give_stderr_back();
    written = (long)count(taken, " flood\n");
    for (const char *at = taken; (at = strstr(at, " more lines like")) != NULL; at++) {
        const char *digits = at;

        while (digits[-1] != ' ')
            digits--;
        left_out += strtol(digits, NULL, 10);
    }
    cr_expect_leq(written, 10 * (1 + (long)count(taken, " more lines like")));
    cr_expect_leq(written + left_out, 200);
    cr_expect_eq(count(taken, "another place"), 1, "other places are not held up");
    free(taken);
}

/* ---- the access log ---- */

static char path[] = "/tmp/weir-access-XXXXXX";

static void make_path(void)
{
    int fd = mkstemp(path);

    cr_assert(fd >= 0);
    close(fd);
}

static void remove_path(void)
{
    unlink(path);
}

static char *file_text(void)
{
    char *text = calloc(1, 1 << 20);
    FILE *in = fopen(path, "r");

    cr_assert_not_null(in);
    cr_expect_lt(fread(text, 1, (1 << 20) - 1, in), (size_t)(1 << 20) - 1);
    fclose(in);
    return text;
}

static struct access_record usual(void)
{
    return (struct access_record){.at_wall_us = INT64_C(1700000000123456),
                                  .took_us = 1500,
                                  .upstream_us = -1,
                                  .peer = SLICE("192.0.2.1"),
                                  .method = SLICE("GET"),
                                  .target = SLICE("/a?b"),
                                  .host = SLICE("a.test"),
                                  .route = SLICE("GET /a"),
                                  .user_agent = SLICE("curl/8"),
                                  .status = 200,
                                  .body_bytes = 12,
                                  .cache = "HIT"};
}

static bool open_log(const char *access, enum log_format format)
{
    char name[64];
    struct log_settings settings = {.access = name, .format = format, .level = LOG_INFO};

    snprintf(name, sizeof(name), "%s", access);
    return access_log_open(&settings);
}

static char *written(const struct access_record *record, enum log_format format)
{
    cr_assert(open_log(path, format));
    access_log_write(record);
    access_log_close();
    return file_text();
}

TestSuite(access_log, .init = make_path, .fini = remove_path);

Test(access_log, a_line_is_json_with_what_is_known)
{
    struct access_record record = usual();
    char *text = written(&record, LOG_JSON);

    cr_expect_str_eq(text, "{\"time\":\"2023-11-14T22:13:20.123456Z\",\"client\":\"192.0.2.1\",\"method\":"
                           "\"GET\",\"host\":\"a.test\","
                           "\"target\":\"/a?b\",\"route\":\"GET "
                           "/a\",\"status\":200,\"body_bytes\":12,\"took_us\":1500,\"cache\":\"HIT\","
                           "\"user_agent\":\"curl/8\"}\n");
    free(text);
}

Test(access_log, a_line_tells_what_went_wrong)
{
    struct access_record record = usual();
    char *text;

    record.upstream_us = 900;
    record.code = "rate_limit_exceeded";
    record.limit = "per_client";
    record.degraded = record.client_left = true;
    record.cache = NULL;
    record.referer = SLICE("http://r.test/");
    text = written(&record, LOG_JSON);
    cr_expect_not_null(
        strstr(
            text,
            "\"took_us\":1500,\"upstream_us\":900,\"code\":\"rate_limit_exceeded\",\"limit\":\"per_client\","
            "\"degraded\":true,\"client_left\":true,\"user_agent\":\"curl/8\",\"referer\":\"http://r.test/"
            "\"}\n"),
        "%s", text);
    cr_expect_null(strstr(text, "cache"));
    free(text);
}

Test(access_log, no_client_can_forge_or_break_a_line)
{
    struct access_record record = usual();
    struct json_object *line, *value;
    char *text;

    record.user_agent = SLICE("x\",\"status\":500}\n{\"\xff\\\x01");
    text = written(&record, LOG_JSON);
    cr_expect_eq(count(text, "\n"), 1);
    line = json_tokener_parse(text);
    cr_assert_not_null(line, "%s", text);
    json_object_object_get_ex(line, "status", &value);
    cr_expect_eq(json_object_get_int(value), 200);
    json_object_object_get_ex(line, "user_agent", &value);
    cr_expect_str_eq(json_object_get_string(value), "x\",\"status\":500}\n{\"\xc3\xbf\\\x01");
    json_object_put(line);
    free(text);
}

/* With every string as long and as bad as it can be. */
Test(access_log, the_largest_line_is_whole)
{
    struct access_record record = usual();
    char *worst = malloc(100000), *text;
    struct json_object *line;

    memset(worst, 1, 100000);
    worst[99999] = '\0';
    record.peer = record.method = record.target = record.host = record.route = record.user_agent =
        record.referer = slice_of(worst, 99999);
    record.cache = record.code = record.limit = worst;
    record.degraded = record.client_left = true;
    record.at_wall_us = record.took_us = record.upstream_us = record.body_bytes = INT64_C(99999999999999999);
    text = written(&record, LOG_JSON);
    line = json_tokener_parse(text);
    cr_expect_not_null(line, "%s", text);
    json_object_put(line);
    free(text);

    text = written(&record, LOG_COMBINED);
    cr_expect_eq(count(text, "\n"), 2, "this one, too");
    free(text);
    free(worst);
}

Test(access_log, the_combined_format_is_the_one_that_tools_know)
{
    struct access_record record = usual();
    char *text;

    record.user_agent = SLICE("a \"b\" \x01");
    text = written(&record, LOG_COMBINED);
    cr_expect_str_eq(text, "192.0.2.1 - - [14/Nov/2023:22:13:20 +0000] \"GET /a?b HTTP/1.1\" 200 12 \"-\" "
                           "\"a \\\"b\\\" \\x01\"\n");
    free(text);
}

Test(access_log, lines_are_appended_and_all_of_them_before_it_closes)
{
    struct access_record record = usual();
    char *text;

    free(written(&record, LOG_JSON));
    cr_assert(open_log(path, LOG_JSON));
    for (int i = 0; i < 2000; i++)
        access_log_write(&record);
    access_log_close();
    text = file_text();
    cr_expect_eq(count(text, "\n"), 2001);
    free(text);
}

Test(access_log, off_writes_nothing_and_a_closed_log_takes_nothing)
{
    struct access_record record = usual();
    char *text;

    access_log_write(&record);
    access_log_close();
    cr_expect(open_log("off", LOG_JSON));
    access_log_write(&record);
    access_log_close();
    free(written(&record, LOG_JSON));
    access_log_write(&record);
    text = file_text();
    cr_expect_eq(count(text, "\n"), 1);
    free(text);
}

Test(access_log, a_path_that_cannot_be_opened_is_told)
{
    take_stderr();
    cr_expect(!open_log("/nonexistent/weir/access.log", LOG_JSON));
    give_stderr_back();
    cr_expect_not_null(strstr(taken, "cannot open /nonexistent/weir/access.log: No such file"), "%s", taken);
    free(taken);
}

/* A reader of stdout that never reads: nobody waits for it, lines beyond the buffer are counted, and closing
 * ends. */
Test(access_log, an_output_that_takes_nothing_loses_lines_but_holds_nobody_up, .timeout = 60)
{
    struct access_record record = usual();
    stats_id lost = stats_series(STATS_access_lines_lost, NULL);
    int ends[2], kept = dup(STDOUT_FILENO);
    const int lines = 60000; /* more than pipe and both buffers hold */
    size_t arrived = 0;
    char bytes[65536];
    ssize_t got;

    cr_assert_eq(pipe(ends), 0);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[1]);
    cr_assert(open_log("stdout", LOG_JSON));
    for (int i = 0; i < lines; i++)
        access_log_write(&record);
    cr_expect_gt(stats_total(lost), 0, "the buffer was full");
    take_stderr();
    access_log_close();
    give_stderr_back();
    cr_expect_not_null(strstr(taken, "stopped reading"), "%s", taken);
    free(taken);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    while ((got = read(ends[0], bytes, sizeof(bytes))) > 0)
        for (ssize_t i = 0; i < got; i++)
            arrived += bytes[i] == '\n';
    close(ends[0]);
    cr_expect_eq((size_t)stats_total(lost) + arrived, lines,
                 "each line arrived or was counted as lost: %zu + %lld", arrived,
                 (long long)stats_total(lost));
}

Test(access_log, an_output_that_fails_loses_lines_and_counts_them)
{
    struct access_record record = usual();
    stats_id lost = stats_series(STATS_access_lines_lost, NULL);

    take_stderr();
    cr_assert(open_log("/dev/full", LOG_JSON));
    access_log_write(&record);
    access_log_close();
    give_stderr_back();
    cr_expect_not_null(strstr(taken, "cannot write: No space left"), "%s", taken);
    cr_expect_eq(stats_total(lost), 1);
    free(taken);
}
