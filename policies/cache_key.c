/* Cache key: see cache_key.h. Each part is LENGTH ':' BYTES, so no part can be made to look like the border
 * of two. */
#include "cache_key.h"

#include "http_char.h"
#include "slice_search.h"
#include "text.h"

static void add_length(struct text *key, size_t length)
{
    text_add_int(key, (int64_t)length);
    text_add_char(key, ':');
}

static void add_part(struct text *key, struct slice part)
{
    add_length(key, part.len);
    text_add(key, part);
}

static void add_path(struct text *key, struct slice path)
{
    size_t folded_len = 0;

    if (path.len == 0 || memchr(path.base, '%', path.len) == NULL) {
        add_part(key, path);
        return;
    }
    for (size_t at = 0; at < path.len; folded_len++)
        unreserved_next(path, &at);
    add_length(key, folded_len);
    for (size_t at = 0; at < path.len;)
        text_add_char(key, unreserved_next(path, &at));
}

/* What stands before the first '='. */
static struct slice name_of(struct slice pair)
{
    const char *equals = pair.len == 0 ? NULL : memchr(pair.base, '=', pair.len);

    return equals == NULL ? pair : slice_of(pair.base, (size_t)(equals - pair.base));
}

/* ---- the query's parameters ---- */

/* Of names as they are once decoded. */
static int compare_decoded(struct slice a, struct slice b)
{
    size_t at_a = 0, at_b = 0;

    while (at_a < a.len && at_b < b.len) {
        int difference = (unsigned char)decoded_next(a, &at_a) - (unsigned char)decoded_next(b, &at_b);

        if (difference != 0)
            return difference;
    }
    return (at_a < a.len) - (at_b < b.len);
}

/* The name is written in the rule as it is once decoded: a '%' in it is one. */
static bool decodes_to(struct slice name, struct slice wanted)
{
    size_t at = 0, matched = 0;

    while (at < name.len && matched < wanted.len)
        if (decoded_next(name, &at) != wanted.base[matched++])
            return false;
    return at == name.len && matched == wanted.len;
}

static bool counts(const struct key_rule *rule, struct slice parameter)
{
    struct slice name = name_of(parameter);
    bool is_named = false;

    for (size_t i = 0; i < rule->parameters.count && !is_named; i++)
        is_named = decodes_to(name, rule->parameters.each[i]);
    return is_named == (rule->query == KEY_QUERY_ONLY);
}

struct parameters {
    struct slice each[KEY_PARAMETERS_MAX];
    size_t count;
};

/* Behind all whose names come before it or are the same. False: no room. */
static bool insert(struct parameters *parameters, struct slice parameter)
{
    struct slice name = name_of(parameter);
    size_t at = parameters->count;

    if (at == KEY_PARAMETERS_MAX)
        return false;
    for (; at > 0 && compare_decoded(name, name_of(parameters->each[at - 1])) < 0; at--)
        parameters->each[at] = parameters->each[at - 1];
    parameters->each[at] = parameter;
    parameters->count++;
    return true;
}

static bool add_parameters(struct text *key, const struct key_rule *rule, struct slice query)
{
    struct parameters parameters = {.count = 0};
    struct slice parameter;

    while (slice_take_until(&query, '&', &parameter))
        if (parameter.len > 0 && counts(rule, parameter) && !insert(&parameters, parameter))
            return false;
    text_add_char(key, rule->query == KEY_QUERY_ONLY ? 'o' : 'e');
    for (size_t i = 0; i < rule->parameters.count; i++)
        add_part(key, rule->parameters.each[i]);
    text_add_char(key, '?');
    for (size_t i = 0; i < parameters.count; i++)
        add_part(key, parameters.each[i]);
    text_add_char(key, ';');
    return true;
}

/* How the query counts is said, too: an ignored, an absent and an empty one are three things. */
static bool add_query(struct text *key, const struct key_rule *rule, struct slice query, bool has_query)
{
    switch (rule->query) {
    case KEY_QUERY_ALL:
        if (has_query)
            add_part(key, query);
        else
            text_add_char(key, '-');
        return true;
    case KEY_QUERY_NONE: text_add_char(key, '*'); return true;
    case KEY_QUERY_ONLY:
    case KEY_QUERY_EXCEPT: return add_parameters(key, rule, query);
    }
    return false;
}

/* ---- fields and cookies ---- */

/* All lines of the field, ", " between them; how long they are together, or CACHE_KEY_NONE where there is none. */
static size_t join_lines(const struct cache_key_parts *parts, struct slice name, struct text *key)
{
    size_t len = CACHE_KEY_NONE;

    for (size_t i = 0; i < parts->header_count; i++) {
        struct slice line = slice_trim(parts->headers[i].value);

        if (!slice_eq(parts->headers[i].name, name))
            continue;
        if (key != NULL && len != CACHE_KEY_NONE)
            text_add(key, SLICE(", "));
        if (key != NULL)
            text_add(key, line);
        len = len == CACHE_KEY_NONE ? line.len : len + 2 + line.len;
    }
    return len;
}

static void add_header(struct text *key, const struct cache_key_parts *parts, struct slice name)
{
    size_t len = join_lines(parts, name, NULL);

    text_add_char(key, 'h');
    add_part(key, name);
    if (len == CACHE_KEY_NONE) {
        text_add_char(key, '-');
        return;
    }
    add_length(key, len);
    join_lines(parts, name, key);
}

/* Each of that name as it was sent, value and all, in their order. */
static void add_cookie(struct text *key, const struct cache_key_parts *parts, struct slice name)
{
    text_add_char(key, 'c');
    add_part(key, name);
    for (size_t i = 0; i < parts->header_count; i++) {
        struct slice rest = parts->headers[i].value, pair;

        if (!slice_eq(parts->headers[i].name, SLICE("cookie")))
            continue;
        while (slice_take_until(&rest, ';', &pair)) {
            pair = slice_trim(pair);
            if (slice_eq(slice_trim(name_of(pair)), name))
                add_part(key, pair);
        }
    }
    text_add_char(key, ';');
}

/* ---- the key ---- */

size_t cache_key_write(const struct cache_key_parts *parts, char *out, size_t room)
{
    struct text key = text_in(out, room);
    struct slice path = parts->target, query = {NULL, 0};
    const char *mark = path.len == 0 ? NULL : memchr(path.base, '?', path.len);

    if (mark != NULL) {
        path.len = (size_t)(mark - parts->target.base);
        query = slice_of(mark + 1, parts->target.len - path.len - 1);
    }
    add_part(&key, slice_eq(parts->method, SLICE("HEAD")) ? SLICE("GET") : parts->method);
    if (parts->told_scheme.len > 0)
        add_part(&key, parts->told_scheme);
    else
        add_part(&key, parts->is_tls ? SLICE("https") : SLICE("http"));
    add_part(&key, parts->authority);
    add_path(&key, path);
    if (!add_query(&key, parts->rule, query, mark != NULL))
        return CACHE_KEY_NONE;
    if (parts->told_host.len > 0)
        add_part(&key, parts->told_host);
    for (size_t i = 0; i < parts->rule->headers.count; i++)
        add_header(&key, parts, parts->rule->headers.each[i]);
    for (size_t i = 0; i < parts->rule->cookies.count; i++)
        add_cookie(&key, parts, parts->rule->cookies.each[i]);
    return key.len;
}
