/* Limit key: see limit_key.h. */
#include "limit_key.h"

#include "check.h"
#include "http_char.h"
#include "slice_search.h"
#include "text.h"

static void add_decoded(struct text *out, struct slice s)
{
    for (size_t at = 0; at < s.len;)
        text_add_char(out, decoded_next(s, &at));
}

static bool decodes_to(struct slice s, struct slice wanted)
{
    size_t len = 0;

    for (size_t at = 0; at < s.len; len++)
        if (decoded_next(s, &at) != (len < wanted.len ? wanted.base[len] : 0) || len >= wanted.len)
            return false;
    return len == wanted.len;
}

/* "name=value"; without '=' the value is empty. */
static void split_pair(struct slice pair, struct slice *name, struct slice *value)
{
    *value = pair;
    if (!slice_take_until(value, '=', name))
        *name = *value = slice_of(NULL, 0);
}

static bool same_decoded(struct slice a, struct slice b)
{
    size_t at_a = 0, at_b = 0;

    while (at_a < a.len && at_b < b.len)
        if (decoded_next(a, &at_a) != decoded_next(b, &at_b))
            return false;
    return at_a == a.len && at_b == b.len;
}

/* False where a name has a second value: an upstream may believe the first, the last or both, and whoever
 * sends a key with ever new company would else be ever new to us. Empty ones do not count. */
static bool note_value(struct slice *found, struct slice value, bool (*same)(struct slice a, struct slice b))
{
    if (value.len == 0)
        return true;
    if (found->len > 0)
        return same(*found, value);
    *found = value;
    return true;
}

static bool add_header(struct text *out, struct slice name, const struct limit_key_facts *facts)
{
    struct slice found = {NULL, 0};

    for (size_t i = 0; i < facts->header_count; i++)
        if (slice_eq(facts->headers[i].name, name) && !note_value(&found, facts->headers[i].value, slice_eq))
            return false;
    text_add(out, found);
    return true;
}

static bool add_query(struct text *out, struct slice wanted, struct slice query)
{
    struct slice pair, name, value, found = {NULL, 0};

    while (slice_take_until(&query, '&', &pair)) {
        split_pair(pair, &name, &value);
        if (decodes_to(name, wanted) && !note_value(&found, value, same_decoded))
            return false;
    }
    add_decoded(out, found);
    return true;
}

/* Some clients put the value in quotes, and servers take them off. */
static struct slice without_quotes(struct slice value)
{
    if (value.len >= 2 && value.base[0] == '"' && value.base[value.len - 1] == '"')
        return slice_of(value.base + 1, value.len - 2);
    return value;
}

static bool add_cookie(struct text *out, struct slice wanted, const struct limit_key_facts *facts)
{
    struct slice found = {NULL, 0};

    for (size_t i = 0; i < facts->header_count; i++) {
        struct slice rest = facts->headers[i].value, pair, name, value;

        if (!slice_eq(facts->headers[i].name, SLICE("cookie")))
            continue;
        while (slice_take_until(&rest, ';', &pair)) {
            split_pair(pair, &name, &value);
            if (slice_eq(slice_trim(name), wanted) &&
                !note_value(&found, without_quotes(slice_trim(value)), slice_eq))
                return false;
        }
    }
    text_add(out, found);
    return true;
}

static void add_path(struct text *out, struct slice name, const struct route_values *values)
{
    for (size_t i = 0; i < values->count; i++)
        if (slice_eq(values->names[i], name))
            add_decoded(out, values->values[i]);
}

static void add_address(struct text *out, const struct address *address, int ipv6_prefix)
{
    struct address group = address_group(address, ipv6_prefix);
    char room[46];

    text_add(out, slice_of(room, address_write(&group, room)));
}

static void add_host(struct text *out, struct slice authority)
{
    struct slice host = authority_host(authority);
    struct address literal;

    if (host.len > 0 && host.base[0] == '[' && address_parse(host, &literal)) {
        add_address(out, &literal, 128);
        return;
    }
    for (size_t i = 0; i < host.len; i++)
        text_add_char(out, ascii_lower(host.base[i]));
}

static void add_route(struct text *out, const struct limit_key_facts *facts)
{
    text_add(out, facts->route_host);
    if (facts->route_host.len > 0)
        text_add_char(out, ' ');
    text_add(out, facts->route_match);
}

/* False: the request says two things. */
static bool add_part(struct text *out, const struct limit_key_part *part, const struct limit_key_facts *facts,
                     int ipv6_prefix)
{
    switch (part->kind) { /* no default: a new form must be given a value before it compiles */
    case LIMIT_KEY_HEADER: return add_header(out, part->name, facts);
    case LIMIT_KEY_QUERY: return add_query(out, part->name, facts->query);
    case LIMIT_KEY_COOKIE: return add_cookie(out, part->name, facts);
    case LIMIT_KEY_PATH: add_path(out, part->name, facts->values); return true;
    case LIMIT_KEY_IP: add_address(out, facts->address, ipv6_prefix); return true;
    case LIMIT_KEY_HOST: add_host(out, facts->authority); return true;
    case LIMIT_KEY_ROUTE: add_route(out, facts); return true;
    case LIMIT_KEY_GLOBAL: return true;
    }
    return true;
}

size_t limit_key_write(const struct limit_key *key, const struct limit_key_facts *facts, int ipv6_prefix,
                       char *out, size_t room)
{
    struct text text = text_in(out, room);

    CHECK(key->part_count > 0 && key->part_count <= LIMIT_KEY_MAX_PARTS);
    for (size_t i = 0; i < key->part_count; i++) {
        const struct limit_key_part *part = &key->parts[i];
        struct text measure = text_in(NULL, 0);

        if (!add_part(&measure, part, facts, ipv6_prefix))
            return LIMIT_KEY_AMBIGUOUS;
        if (measure.len == 0 && part->kind != LIMIT_KEY_GLOBAL)
            return LIMIT_KEY_ABSENT;
        if (key->part_count > 1) {
            text_add_int(&text, (int64_t)measure.len);
            text_add_char(&text, ':');
        }
        add_part(&text, part, facts, ipv6_prefix);
    }
    return text.len;
}

/* ---- told without a request ---- */

/* False: it cannot be the value of such a part. */
static bool add_value(struct text *out, const struct limit_key_part *part, struct slice value,
                      int ipv6_prefix)
{
    struct address address;

    switch (part->kind) {
    case LIMIT_KEY_HEADER:
    case LIMIT_KEY_QUERY:
    case LIMIT_KEY_PATH:
    case LIMIT_KEY_ROUTE: text_add(out, value); break;
    case LIMIT_KEY_COOKIE: text_add(out, without_quotes(value)); break;
    case LIMIT_KEY_IP:
        if (!address_parse(value, &address))
            return false;
        add_address(out, &address, ipv6_prefix);
        break;
    case LIMIT_KEY_HOST: add_host(out, value); break;
    case LIMIT_KEY_GLOBAL: return true;
    }
    return out->len > 0;
}

size_t limit_key_write_values(const struct limit_key *key, const struct slice *values, size_t count,
                              int ipv6_prefix, char *out, size_t room)
{
    struct text text = text_in(out, room);
    size_t at = 0;

    CHECK(key->part_count > 0 && key->part_count <= LIMIT_KEY_MAX_PARTS);
    for (size_t i = 0; i < key->part_count; i++) {
        const struct limit_key_part *part = &key->parts[i];
        bool has_value = part->kind != LIMIT_KEY_GLOBAL;
        struct text measure = text_in(NULL, 0);

        if (has_value && (at == count || !add_value(&measure, part, values[at], ipv6_prefix)))
            return LIMIT_KEY_ABSENT;
        if (key->part_count > 1) {
            text_add_int(&text, (int64_t)measure.len);
            text_add_char(&text, ':');
        }
        if (has_value)
            add_value(&text, part, values[at++], ipv6_prefix);
    }
    return at == count ? text.len : LIMIT_KEY_ABSENT;
}
