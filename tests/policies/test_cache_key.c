#include "cache_key.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct key {
    char text[512];
    size_t len;
};

static struct key key_of(const char *method, bool is_tls, const char *authority, const char *target,
                         bool ignores_query)
{
    struct cache_key_parts parts = {slice_text(method), is_tls,        slice_text(authority),
                                    slice_text(target), ignores_query, {NULL, 0},
                                    {NULL, 0}};
    struct key key;

    key.len = cache_key_write(&parts, key.text, sizeof(key.text));
    cr_assert(key.len <= sizeof(key.text));
    return key;
}

static bool same(struct key a, struct key b)
{
    return slice_eq(slice_of(a.text, a.len), slice_of(b.text, b.len));
}

static bool targets_share(const char *a, const char *b)
{
    return same(key_of("GET", false, "a.test", a, false), key_of("GET", false, "a.test", b, false));
}

Test(cache_key, only_equivalent_targets_share)
{
    static const struct {
        const char *why, *a, *b;
        bool want;
    } rows[] = {
        {"an unreserved byte may be escaped", "/%61%7e%2D", "/a~-", true},
        {"in both cases of its digits", "/%7E", "/%7e", true},
        {"an escaped slash is no slash", "/a%2Fb", "/a/b", false},
        {"case counts in a path", "/A", "/a", false},
        {"the question mark is not lost", "/get?name=hello", "/?getname=hello", false},
        {"order of a query counts", "/?a=1&b=2", "/?b=2&a=1", false},
        {"an empty query is not none", "/a?", "/a", false},
        {"a query counts byte for byte", "/?%61", "/?a", false},
        {"a percent sign that escapes nothing stays", "/%", "/%25", false},
        {"a double escape stays", "/%2561", "/%61", false},
        {"a trailing slash counts", "/a/", "/a", false},
        {"an escaped question mark is none", "/a%3Fb", "/a?b", false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_expect_eq(targets_share(rows[i].a, rows[i].b), rows[i].want, "%s", rows[i].why);
}

Test(cache_key, method_scheme_and_host_count)
{
    struct key get = key_of("GET", false, "a.test", "/", false);

    cr_expect(same(get, key_of("HEAD", false, "a.test", "/", false)), "HEAD asks for what GET stored");
    cr_expect(!same(get, key_of("POST", false, "a.test", "/", false)));
    cr_expect(!same(get, key_of("GET", true, "a.test", "/", false)));
    cr_expect(!same(get, key_of("GET", false, "b.test", "/", false)));
    cr_expect(!same(get, key_of("GET", false, "a.test:81", "/", false)));
}

static struct key key_told(bool is_tls, const char *scheme, const char *host)
{
    struct cache_key_parts parts = {.method = SLICE("GET"),
                                    .is_tls = is_tls,
                                    .authority = SLICE("a.test"),
                                    .target = SLICE("/"),
                                    .told_scheme = slice_text(scheme),
                                    .told_host = slice_text(host)};
    struct key key;

    key.len = cache_key_write(&parts, key.text, sizeof(key.text));
    return key;
}

Test(cache_key, what_a_proxy_tells_of_scheme_and_host_counts)
{
    struct key plain = key_of("GET", false, "a.test", "/", false);

    cr_expect(same(plain, key_told(false, "", "")));
    cr_expect(same(plain, key_told(true, "http", "")), "the client's own scheme, not that of the last hop");
    cr_expect(same(key_of("GET", true, "a.test", "/", false), key_told(false, "https", "")));
    cr_expect(!same(plain, key_told(false, "http", "b.test")));
    cr_expect(!same(key_told(false, "http", "b.test"), key_told(false, "http", "c.test")));
}

Test(cache_key, an_ignored_query_is_ignored_whole_and_is_its_own_kind_of_key)
{
    struct key ignored = key_of("GET", false, "a.test", "/a?x", true);

    cr_expect(same(ignored, key_of("GET", false, "a.test", "/a", true)));
    cr_expect(same(ignored, key_of("GET", false, "a.test", "/a?", true)));
    cr_expect(!same(ignored, key_of("GET", false, "a.test", "/a", false)));
    cr_expect(!same(ignored, key_of("GET", false, "a.test", "/a?x", false)));
    cr_expect(!same(ignored, key_of("GET", false, "a.test", "/b", true)));
}

Test(cache_key, the_full_length_is_told_and_nothing_is_written_beyond_the_room)
{
    struct cache_key_parts parts = {.method = SLICE("GET"),
                                    .authority = SLICE("a.test"),
                                    .target = SLICE("/%61bc?d"),
                                    .told_host = SLICE("b.test")};
    size_t full = cache_key_write(&parts, NULL, 0);

    for (size_t room = 0; room <= full; room++) {
        char *exact = malloc(room + 1);

        exact[room] = '!';
        cr_expect_eq(cache_key_write(&parts, exact, room), full);
        cr_expect_eq(exact[room], '!');
        free(exact);
    }
}

/* A different request never shares a key: generated parts over an alphabet that tries to look like borders.
 */
static uint64_t seed = 0x9E3779B97F4A7C15u;

static unsigned dice(unsigned sides)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)(seed >> 33) % sides;
}

static void generate(char *out, bool is_target)
{
    static const char *const pieces[] = {
        "/", "?", "a", "1", ":", "2:", "-", "*", "%2F", "%61", "4:http", "\n"};
    unsigned count = dice(5);

    strcpy(out, is_target ? "/" : "a");
    for (unsigned i = 0; i < count; i++)
        strcat(out, pieces[dice(sizeof(pieces) / sizeof(pieces[0]))]);
}

static void fold(char *path)
{
    char *escape, *query = strchr(path, '?');

    while ((escape = strstr(path, "%61")) != NULL && (query == NULL || escape < query)) {
        memmove(escape + 1, escape + 3, strlen(escape + 3) + 1);
        *escape = 'a';
        query = strchr(path, '?');
    }
}

Test(cache_key, different_requests_never_share_a_key)
{
    for (int i = 0; i < 300000; i++) {
        char host_a[64], host_b[64], target_a[64], target_b[64];
        bool are_same;

        generate(host_a, false);
        generate(host_b, false);
        generate(target_a, true);
        generate(target_b, true);
        are_same = same(key_of("GET", false, host_a, target_a, false),
                        key_of("GET", false, host_b, target_b, false));
        fold(target_a);
        fold(target_b);
        cr_assert_eq(are_same, strcmp(host_a, host_b) == 0 && strcmp(target_a, target_b) == 0, "%s%s %s%s",
                     host_a, target_a, host_b, target_b);
    }
}
