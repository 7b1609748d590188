/* Quantities, suggestions and URLs. */
#include "settings_complaints.h"
#include "settings_suggest.h"
#include "settings_units.h"
#include "settings_url.h"
#include "slice.h"

#include <criterion/criterion.h>

Test(units, durations_have_a_unit_and_no_fraction)
{
    static const struct {
        const char *text;
        int64_t ms; /* -1: refused */
    } rows[] = {{"50ms", 50},
                {"2s", 2000},
                {"5m", 300000},
                {"1h", 3600000},
                {"1d", 86400000},
                {"0", 0},
                {"0s", 0},
                {"007s", 7000},
                {"106751991167d", INT64_C(106751991167) * 86400000},
                {"106751991168d", -1},
                {"9223372036854775808ms", -1},
                {"", -1},
                {"s", -1},
                {"5", -1},
                {"5 s", -1},
                {"1.5s", -1},
                {"-1s", -1},
                {"+1s", -1},
                {"5S", -1},
                {"5us", -1},
                {"5sm", -1}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t got = -1;

        cr_expect_eq(read_duration_ms(rows[i].text, &got), rows[i].ms >= 0, "%s", rows[i].text);
        cr_expect_eq(got, rows[i].ms, "%s", rows[i].text);
    }
}

Test(units, sizes_count_by_1024_or_by_1000)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } rows[] = {{"512B", 512},         {"1KiB", 1024},   {"1KB", 1000},
                {"8MiB", 8 << 20},     {"2MB", 2000000}, {"1GiB", 1 << 30},
                {"1GB", 1000000000},   {"0", 0},         {"8589934591GiB", INT64_C(8589934591) << 30},
                {"8589934592GiB", -1}, {"1", -1},        {"1M", -1},
                {"1kb", -1},           {"1TiB", -1}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t got = -1;

        cr_expect_eq(read_size(rows[i].text, &got), rows[i].bytes >= 0, "%s", rows[i].text);
        cr_expect_eq(got, rows[i].bytes, "%s", rows[i].text);
    }
}

Test(units, rates_name_their_window)
{
    static const struct {
        const char *text;
        int64_t units, window_us; /* 0: refused */
    } rows[] = {{"20/s", 20, 1000000},
                {"100/m", 100, 60000000},
                {"5000/h", 5000, INT64_C(3600000000)},
                {"1/d", 1, INT64_C(86400000000)},
                {"5/250ms", 5, 250000},
                {"7/10s", 7, 10000000},
                {"9/ms", 9, 1000},
                {"0/s", 0, 0},
                {"1/0s", 0, 0},
                {"1/0", 0, 0},
                {"1/", 0, 0},
                {"/s", 0, 0},
                {"1s", 0, 0},
                {"1/s/s", 0, 0},
                {"1 / s", 0, 0},
                {"1/9223372036854775807ms", 0, 0}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rate got = {0, 0};

        cr_expect_eq(read_rate(rows[i].text, &got), rows[i].units > 0, "%s", rows[i].text);
        cr_expect(got.units == rows[i].units && got.window_us == rows[i].window_us, "%s", rows[i].text);
    }
}

Test(units, amounts_are_shown_in_their_largest_whole_unit)
{
    cr_expect_str_eq(show_duration(2000).text, "2s");
    cr_expect_str_eq(show_duration(1500).text, "1500ms");
    cr_expect_str_eq(show_duration(0).text, "0s");
    cr_expect_str_eq(show_duration(172800000).text, "2d");
    cr_expect_str_eq(show_size(64 << 20).text, "64MiB");
    cr_expect_str_eq(show_size(1025).text, "1025B");
    cr_expect_str_eq(show_size(0).text, "0B");
}

Test(suggest, the_nearest_word_is_near)
{
    static const char *const words[] = {"listen", "limits", "log", "stale_while_revalidate", "ip"};
    static const struct {
        const char *word, *want;
    } rows[] = {{"lsiten", "listen"},
                {"limit", "limits"},
                {"LISTEN", "listen"},
                {"lgo", "log"},
                {"stale_while_revalidat", "stale_while_revalidate"},
                {"stale-while-revalidate", "stale_while_revalidate"},
                {"ipp", "ip"},
                {"listening_on", NULL},
                {"xyz", NULL},
                {"", NULL},
                {"q", NULL}};
    char long_word[100] = "";

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *got = nearest_word(rows[i].word, words, sizeof words / sizeof *words);

        cr_expect(got == rows[i].want ||
                      (got != NULL && rows[i].want != NULL && strcmp(got, rows[i].want) == 0),
                  "%s: %s", rows[i].word, got == NULL ? "nothing" : got);
    }
    memset(long_word, 'l', sizeof long_word - 1);
    cr_expect_null(nearest_word(long_word, words, 5));
}

Test(urls, every_part_is_told_apart)
{
    struct url url;

    cr_assert_null(url_parse("REDIS://us%65r:p%40:ss@Host.Example:6380/7?db=1&x", &url));
    cr_expect_str_eq(url.scheme, "redis");
    cr_expect(url.has_user && url.has_password);
    cr_expect_str_eq(url.user, "user");
    cr_expect_str_eq(url.password, "p@:ss");
    cr_expect_str_eq(url.host, "host.example");
    cr_expect_eq(url.port, 6380);
    cr_expect(slice_eq(slice_of(url.path, url.path_len), SLICE("/7")));
    cr_expect_str_eq(url.query, "db=1&x");

    cr_assert_null(url_parse("http://[2001:DB8:0:0::1]", &url));
    cr_expect_str_eq(url.host, "2001:db8::1");
    cr_expect(url.port == 0 && !url.has_user && url.path_len == 0 && url.query == NULL);

    cr_assert_null(url_parse("redis+unix://:p@/run/redis.sock", &url));
    cr_expect(!url.has_user && url.has_password && url.host[0] == '\0');
}

Test(urls, what_is_malformed_is_refused)
{
    static const char *const bad[] = {"",
                                      "://",
                                      "x",
                                      "http:/x",
                                      "http://h:",
                                      "http://h:0",
                                      "http://h:65536",
                                      "http://h:1x",
                                      "http://[::1",
                                      "http://[1.2.3.4]",
                                      "http://[::1]x",
                                      "http://h h",
                                      "http://.h",
                                      "http://h..h",
                                      "http://%68",
                                      "redis://a%@h",
                                      "redis://a%0",
                                      "redis://%00@h",
                                      "http://h#f",
                                      "http://h/#f",
                                      "http://1:2:3",
                                      "http://h/x@y"};
    char long_url[1200];
    struct url url;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect_not_null(url_parse(bad[i], &url), "%s", bad[i]);
    snprintf(long_url, sizeof long_url, "http://%0254d", 0);
    cr_expect_not_null(url_parse(long_url, &url));
    snprintf(long_url, sizeof long_url, "http://%0253d", 0);
    cr_expect_null(url_parse(long_url, &url));
    snprintf(long_url, sizeof long_url, "redis://:%01025d@h", 0);
    cr_expect_not_null(url_parse(long_url, &url));
}

Test(urls, loopback_is_known_in_all_its_spellings)
{
    cr_expect(host_is_loopback("127.0.0.1") && host_is_loopback("127.255.0.3") && host_is_loopback("::1"));
    cr_expect(!host_is_loopback("0.0.0.0") && !host_is_loopback("::") && !host_is_loopback("128.0.0.1"));
}

Test(quotes, are_bounded_and_hold_no_control_character)
{
    char text[400];

    cr_expect_str_eq(quote("a\tb\x7f").text, "\"a\\x09b\\x7f\"");
    cr_expect_str_eq(quote("").text, "\"\"");
    for (size_t len = 1; len < sizeof text; len++) {
        struct quoted got;

        memset(text, len % 3 == 0 ? '\x01' : 'x', len); /* the widest and the narrowest byte */
        text[len] = '\0';
        got = quote(text);
        cr_expect(memchr(got.text, '\0', sizeof got.text) != NULL && got.text[strlen(got.text) - 1] == '"');
    }
}
