/* Fuzz cache key: whatever a request's target, fields and cookies are, its key is written within its room, is the same
 * each time, and is another's only where the two are the same under the rule.
 *
 * The first byte chooses the rule. The rest are lines: two targets, then fields: 'h', 'c' or 'e' and a value.
 */
#include "cache_key.h"
#include "check.h"
#include "coding.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FIELDS_MAX = 8 };

static const struct slice PARAMETERS[] = {{"a", 1}, {"b", 1}}, FIELDS[] = {{"x", 1}}, COOKIES[] = {{"c", 1}};

static struct slice take_line(struct slice *rest)
{
    const char *end = rest->len == 0 ? NULL : memchr(rest->base, '\n', rest->len);
    size_t len = end == NULL ? rest->len : (size_t)(end - rest->base);
    struct slice line = slice_of(rest->base, len);

    *rest = slice_of(rest->base + len + (end != NULL), rest->len - len - (end != NULL));
    return line;
}

static size_t fields_of(struct slice rest, struct header *out)
{
    size_t count = 0;

    while (rest.len > 0 && count < FIELDS_MAX) {
        struct slice line = take_line(&rest);

        if (line.len == 0)
            continue;
        out[count].name = line.base[0] == 'c'   ? SLICE("cookie")
                          : line.base[0] == 'e' ? SLICE("accept-encoding")
                                                : SLICE("x");
        out[count++].value = slice_of(line.base + 1, line.len - 1);
    }
    return count;
}

/* Written to a room of exactly its length, so that a sanitizer sees one byte too many. NULL: there is no key. */
static char *key_of(const struct cache_key_parts *parts, size_t *len)
{
    char *key;

    *len = cache_key_write(parts, NULL, 0);
    if (*len == CACHE_KEY_NONE)
        return NULL;
    key = malloc(*len + 1);
    CHECK(key != NULL && cache_key_write(parts, key, *len) == *len);
    return key;
}

/* Byte for byte, what is not escaped: such targets are the same under no rule but where the rule says so. */
static bool is_plain(struct slice target)
{
    return target.len > 0 && memchr(target.base, '%', target.len) == NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice rest, a, b;
    struct header headers[FIELDS_MAX];
    struct key_rule rule = {.parameters = {PARAMETERS, 2}};
    struct cache_key_parts parts = {.method = SLICE("GET"), .authority = SLICE("h"), .rule = &rule};
    size_t len_a, len_b;
    char *key_a, *key_b;

    if (size == 0)
        return 0;
    rule.query = (enum key_query)(data[0] % 4);
    if (data[0] & 4)
        rule.headers = (struct key_names){FIELDS, 1};
    if (data[0] & 8)
        rule.cookies = (struct key_names){COOKIES, 1};
    rest = slice_of((const char *)data + 1, size - 1);
    a = take_line(&rest);
    b = take_line(&rest);
    parts.headers = headers;
    parts.header_count = fields_of(rest, headers);
    coding_wish_of(headers, parts.header_count);
    parts.target = a;
    key_a = key_of(&parts, &len_a);
    parts.target = b;
    key_b = key_of(&parts, &len_b);
    if (key_a != NULL && key_b != NULL) {
        bool are_same = slice_eq(slice_of(key_a, len_a), slice_of(key_b, len_b));

        CHECK(!slice_eq(a, b) || are_same);
        if (rule.query == KEY_QUERY_ALL && is_plain(a) && is_plain(b))
            CHECK(slice_eq(a, b) || !are_same);
    }
    free(key_a);
    free(key_b);
    return 0;
}
