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
    struct key_rule rule = {.query = ignores_query ? KEY_QUERY_NONE : KEY_QUERY_ALL};
    struct cache_key_parts parts = {.method = slice_text(method),
                                    .is_tls = is_tls,
                                    .authority = slice_text(authority),
                                    .target = slice_text(target),
                                    .rule = &rule};
    struct key key;

    key.len = cache_key_write(&parts, key.text, sizeof(key.text));
    cr_assert(key.len <= sizeof(key.text));
    return key;
}

static const struct key_rule EVERYTHING = {.query = KEY_QUERY_ALL};

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
                                    .rule = &EVERYTHING,
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
    static const struct slice names[] = {{"c", 1}, {"x", 1}};
    static const struct key_rule rule = {KEY_QUERY_EXCEPT, {names, 2}, {names, 2}, {names, 2}};
    struct header headers[] = {{SLICE("x"), SLICE(" 1 ")}, {SLICE("cookie"), SLICE("c=2; d; c=3")}};
    struct cache_key_parts parts = {.method = SLICE("GET"),
                                    .authority = SLICE("a.test"),
                                    .target = SLICE("/%61bc?d&a=1&&%61=2&c"),
                                    .rule = &rule,
                                    .told_host = SLICE("b.test"),
                                    .headers = headers,
                                    .header_count = 2};
    size_t full = cache_key_write(&parts, NULL, 0);

    for (size_t room = 0; room <= full; room++) {
        char *exact = malloc(room + 1);

        exact[room] = '!';
        cr_expect_eq(cache_key_write(&parts, exact, room), full);
        cr_expect_eq(exact[room], '!');
        free(exact);
    }
}

/* ---- rules ---- */

static struct key key_by(const struct key_rule *rule, const char *target, const struct header *headers,
                         size_t count)
{
    struct cache_key_parts parts = {.method = SLICE("GET"),
                                    .authority = SLICE("a.test"),
                                    .target = slice_text(target),
                                    .rule = rule,
                                    .headers = headers,
                                    .header_count = count};
    struct key key;

    key.len = cache_key_write(&parts, key.text, sizeof(key.text));
    cr_assert(key.len <= sizeof(key.text));
    return key;
}

static const struct slice A_AND_B[] = {{"a b", 3}, {"b", 1}};

Test(cache_key, chosen_parameters_count_in_the_order_of_their_names)
{
    static const struct key_rule only = {.query = KEY_QUERY_ONLY, .parameters = {A_AND_B, 2}},
                                 except = {.query = KEY_QUERY_EXCEPT, .parameters = {A_AND_B, 2}};
    static const struct {
        const char *why, *a, *b;
        bool with_only, with_except;
    } rows[] = {
        {"the same", "/?b=1&c=2", "/?b=1&c=2", true, true},
        {"the order of names does not count", "/?b=1&a%20b=2", "/?a%20b=2&b=1", true, true},
        {"nor that of the others", "/?c=1&d=2", "/?d=2&c=1", true, true},
        {"the order of values of one name does", "/?b=1&b=2", "/?b=2&b=1", false, true},
        {"and that of the others' values", "/?c=1&c=2", "/?c=2&c=1", true, false},
        {"a value", "/?b=1", "/?b=2", false, true},
        {"another's value", "/?c=1", "/?c=2", true, false},
        {"a name escaped elsewise is the same name", "/?%62=1", "/?b=2", false, true},
        {"but what counts does so as it was spelt", "/?%62=1", "/?b=1", false, true},
        {"a plus is no blank", "/?a+b=1", "/?a+b=2", true, false},
        {"case counts in a name", "/?B=1", "/?B=2", true, false},
        {"no value and an empty one are two things", "/?b", "/?b=", false, true},
        {"an absent and an empty one, too", "/", "/?b=", false, true},
        {"an escaped ampersand is none", "/?b=1%26c=2", "/?b=1&c=2", false, false},
        {"an escaped equals sign is part of the name", "/?b%3D1", "/?b=1", false, false},
        {"empty ones say nothing", "/?&&b=1&", "/?b=1", true, true},
        {"a question mark in a query is one", "/?b=1?c=2", "/?b=1", false, true},
        {"a longer name is another", "/?bb=1", "/?bb=2", true, false},
        {"a part of a name is another", "/?a=1", "/?a=2", true, false},
        {"the path counts", "/x?c=1", "/y?c=1", false, false},
        {"the border of two cannot be made up", "/?b=1;3:c=2", "/?b=1&c=2", false, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        cr_expect_eq(same(key_by(&only, rows[i].a, NULL, 0), key_by(&only, rows[i].b, NULL, 0)),
                     rows[i].with_only, "only: %s", rows[i].why);
        cr_expect_eq(same(key_by(&except, rows[i].a, NULL, 0), key_by(&except, rows[i].b, NULL, 0)),
                     rows[i].with_except, "except: %s", rows[i].why);
    }
}

Test(cache_key, what_one_rule_stored_another_does_not_find)
{
    static const struct slice names[] = {{"a", 1}, {"b", 1}, {"c", 1}};
    static const struct key_rule rules[] = {
        {.query = KEY_QUERY_ALL},
        {.query = KEY_QUERY_NONE},
        {.query = KEY_QUERY_ONLY, .parameters = {names, 1}},
        {.query = KEY_QUERY_ONLY, .parameters = {names, 2}},
        {.query = KEY_QUERY_EXCEPT, .parameters = {names + 1, 1}},
        {.query = KEY_QUERY_EXCEPT, .parameters = {names + 1, 2}},
        {.query = KEY_QUERY_ALL, .headers = {names, 1}},
        {.query = KEY_QUERY_ALL, .cookies = {names, 1}},
        {.query = KEY_QUERY_ALL, .headers = {names, 1}, .cookies = {names + 1, 1}},
    };
    enum { RULES = sizeof(rules) / sizeof(rules[0]) };

    for (size_t i = 0; i < RULES; i++)
        for (size_t k = 0; k < i; k++)
            cr_expect_not(same(key_by(&rules[i], "/?a=1", NULL, 0), key_by(&rules[k], "/?a=1", NULL, 0)),
                          "rules %zu and %zu", i, k);
}

Test(cache_key, more_parameters_than_can_be_put_in_order_make_no_key)
{
    static const struct slice other = {"other", 5};
    static const struct key_rule except = {.query = KEY_QUERY_EXCEPT, .parameters = {&other, 1}},
                                 only = {.query = KEY_QUERY_ONLY, .parameters = {&other, 1}};
    char target[8192];
    size_t len = 2;
    struct cache_key_parts parts = {.method = SLICE("GET"), .authority = SLICE("a"), .rule = &except};

    memcpy(target, "/?", 2);
    for (int i = 0; i < KEY_PARAMETERS_MAX; i++)
        len += (size_t)sprintf(target + len, "p%d&", i);
    parts.target = slice_of(target, len);
    cr_expect_neq(cache_key_write(&parts, NULL, 0), CACHE_KEY_NONE);
    len += (size_t)sprintf(target + len, "one-more");
    parts.target = slice_of(target, len);
    cr_expect_eq(cache_key_write(&parts, NULL, 0), CACHE_KEY_NONE);
    parts.rule = &only;
    cr_expect_neq(cache_key_write(&parts, NULL, 0), CACHE_KEY_NONE, "those that do not count need no order");
}

enum { MAX_FIELDS = 3 };

struct two_requests {
    const char *why;
    const char *a[MAX_FIELDS], *b[MAX_FIELDS]; /* values of the field */
    bool want;
};

static struct key key_with(const struct key_rule *rule, const char *name, const char *const *values)
{
    struct header headers[MAX_FIELDS];
    size_t count = 0;

    for (; count < MAX_FIELDS && values[count] != NULL; count++)
        headers[count] = (struct header){slice_text(name), slice_text(values[count])};
    return key_by(rule, "/", headers, count);
}

static void expect_same(const struct key_rule *rule, const char *name, const struct two_requests *rows,
                        size_t count)
{
    for (size_t i = 0; i < count; i++)
        cr_expect_eq(same(key_with(rule, name, rows[i].a), key_with(rule, name, rows[i].b)), rows[i].want,
                     "%s", rows[i].why);
}

Test(cache_key, fields_count_by_all_their_lines)
{
    static const struct slice name = {"x-tenant", 8};
    static const struct key_rule rule = {.headers = {&name, 1}};
    static const struct two_requests rows[] = {
        {"the same", {"a"}, {"a"}, true},
        {"another value", {"a"}, {"b"}, false},
        {"case counts in a value", {"a"}, {"A"}, false},
        {"absent and empty are two things", {NULL}, {""}, false},
        {"lines are one list", {"a", "b"}, {"a, b"}, true},
        {"their order counts", {"a", "b"}, {"b", "a"}, false},
        {"an empty line is a line", {"a"}, {"a", ""}, false},
        {"blanks at the ends do not count", {" a\t"}, {"a"}, true},
        {"blanks inside do", {"a b"}, {"a  b"}, false},
    };
    static const char *const tenant[] = {"a", NULL};

    expect_same(&rule, "x-tenant", rows, sizeof(rows) / sizeof(rows[0]));
    cr_expect(same(key_with(&rule, "x-other", tenant), key_by(&rule, "/", NULL, 0)), "no other field counts");
}

Test(cache_key, cookies_count_by_all_their_values)
{
    static const struct slice names[] = {{"a", 1}, {"b", 1}};
    static const struct key_rule rule = {.cookies = {names, 2}};
    static const struct two_requests rows[] = {
        {"the same", {"a=1"}, {"a=1"}, true},
        {"another value", {"a=1"}, {"a=2"}, false},
        {"others do not count", {"x=1; a=1; y=2"}, {"a=1; x=3"}, true},
        {"nor the order of different ones", {"a=1; b=2"}, {"b=2; a=1"}, true},
        {"which is which does", {"a=1; b=2"}, {"a=2; b=1"}, false},
        {"the order of one name does", {"a=1; a=2"}, {"a=2; a=1"}, false},
        {"absent and empty are two things", {"x=1"}, {"a="}, false},
        {"lines are one list", {"a=1", "b=2"}, {"a=1; b=2"}, true},
        {"names have a case", {"A=1"}, {"A=2"}, true},
        {"quotes are part of the value", {"a=\"1\""}, {"a=1"}, false},
        {"without '=' it is something else", {"a"}, {"a="}, false},
        {"a value may have an equals sign", {"a=b=1"}, {"a=b=2"}, false},
        {"a value cannot look like a border", {"a=1:;b"}, {"a=1; b"}, false},
    };

    expect_same(&rule, "cookie", rows, sizeof(rows) / sizeof(rows[0]));
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

/* ... and under a rule: two targets share a key just when a naive reading of the rule says so. */
enum { TEXT_ROOM = 512 };

static void naive_decode(const char *from, size_t len, char *out)
{
    size_t made = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned byte;
        int eaten;

        if (from[i] == '%' && i + 2 < len && sscanf(from + i + 1, "%2x%n", &byte, &eaten) == 1 &&
            eaten == 2) {
            out[made++] = (char)byte;
            i += 2;
        } else {
            out[made++] = from[i];
        }
    }
    out[made] = '\0';
}

struct named {
    char name[64], whole[64];
    int place;
};

static int by_name_then_place(const void *a, const void *b)
{
    const struct named *left = a, *right = b;
    int difference = strcmp(left->name, right->name);

    return difference != 0 ? difference : left->place - right->place;
}

static void naive_key(const char *target, bool is_only, char *out)
{
    struct named kept[32];
    const char *mark = strchr(target, '?');
    int count = 0;
    char copy[TEXT_ROOM];

    if (mark == NULL) {
        strcpy(out, target);
        fold(out);
        return;
    }
    snprintf(out, TEXT_ROOM, "%.*s", (int)(mark - target), target);
    fold(out);
    strcpy(copy, mark + 1);
    for (char *rest, *each = strtok_r(copy, "&", &rest); each != NULL; each = strtok_r(NULL, "&", &rest)) {
        struct named *named = &kept[count];

        naive_decode(each, strcspn(each, "="), named->name);
        snprintf(named->whole, sizeof(named->whole), "%s", each);
        named->place = count;
        if ((strcmp(named->name, "a") == 0 || strcmp(named->name, "&") == 0) == is_only)
            count++;
    }
    qsort(kept, (size_t)count, sizeof(kept[0]), by_name_then_place);
    for (int i = 0; i < count; i++) {
        strcat(out, "\x01"); /* in no target */
        strcat(out, kept[i].whole);
    }
}

static void generate_query(char *out)
{
    static const char *const pieces[] = {"a", "b", "=", "&", "1", "2:", ";", "?", "%61", "%26", "%3D", "o"};
    unsigned count = dice(9);

    strcpy(out, dice(8) == 0 ? "/" : "/?");
    for (unsigned i = 0; i < count; i++)
        strcat(out, pieces[dice(sizeof(pieces) / sizeof(pieces[0]))]);
}

Test(cache_key, different_targets_under_a_rule_never_share_a_key)
{
    static const struct slice names[] = {{"&", 1}, {"a", 1}};
    static const struct key_rule rules[] = {{.query = KEY_QUERY_ONLY, .parameters = {names, 2}},
                                            {.query = KEY_QUERY_EXCEPT, .parameters = {names, 2}}};
    int shared = 0;

    for (int i = 0; i < 300000; i++) {
        char a[128], b[128], naive_a[TEXT_ROOM], naive_b[TEXT_ROOM];
        const struct key_rule *rule = &rules[i % 2];
        bool are_same;

        generate_query(a);
        generate_query(b);
        naive_key(a, rule->query == KEY_QUERY_ONLY, naive_a);
        naive_key(b, rule->query == KEY_QUERY_ONLY, naive_b);
        are_same = same(key_by(rule, a, NULL, 0), key_by(rule, b, NULL, 0));
        cr_assert_eq(are_same, strcmp(naive_a, naive_b) == 0, "%s %s", a, b);
        shared += are_same;
    }
    cr_assert_gt(shared, 1000, "some of them are the same: %d", shared);
}
