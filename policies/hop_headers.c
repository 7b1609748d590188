/* Hop headers: see hop_headers.h. */
#include "hop_headers.h"

#include "http_char.h"
#include "slice_search.h"
#include "text.h"

bool hop_header_is_fixed(struct slice name)
{
    static const struct slice fixed[] = {
        {"connection", 10},
        {"keep-alive", 10},
        {"proxy-connection", 16},
        {"te", 2},
        {"trailer", 7},
        {"transfer-encoding", 17},
        {"upgrade", 7},
        {"http2-settings", 14},
        {"proxy-authenticate", 18},
        {"proxy-authorization", 19},
        {"proxy-authentication-info", 25},
    };

    return SLICE_AMONG(name, fixed);
}

/* Never to be named in Connection (RFC 9110 section 7.6.1 says so of Cache-Control): taking them out would
 * make what is private or short-lived look shareable. Nor what a proxy before us says of its client, who could
 * else take on the proxy's address. */
static bool is_kept_always(struct slice name)
{
    static const struct slice kept[] = {
        {"cache-control", 13},
        {"cdn-cache-control", 17},
        {"weir-cache-control", 18},
        {"surrogate-control", 17},
        {"cache-groups", 12},
        {"cache-group-invalidation", 24},
        {"pragma", 6},
        {"expires", 7},
        {"age", 3},
        {"date", 4},
        {"vary", 4},
        {"set-cookie", 10},
        {"authorization", 13},
        {"x-forwarded-for", 15},
        {"x-forwarded-proto", 17},
        {"x-forwarded-host", 16},
        {"forwarded", 9},
    };

    return SLICE_AMONG(name, kept);
}

/* The options of all Connection fields; false where there are too many. */
static bool collect_options(const struct header *headers, size_t count, struct slice options[HOP_MAX_OPTIONS],
                            size_t *option_count)
{
    *option_count = 0;
    for (size_t i = 0; i < count; i++) {
        struct slice rest = headers[i].value, option;

        if (!slice_eq(headers[i].name, SLICE("connection")))
            continue;
        while (list_next(&rest, &option)) {
            if (option.len == 0)
                continue;
            if (*option_count == HOP_MAX_OPTIONS)
                return false;
            options[(*option_count)++] = option;
        }
    }
    return true;
}

static bool is_named(struct slice name, const struct slice *options, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq_nocase(name, options[i]))
            return true;
    return false;
}

bool hop_headers_strip(struct header *headers, size_t *count)
{
    struct slice options[HOP_MAX_OPTIONS];
    size_t option_count, kept = 0;

    if (!collect_options(headers, *count, options, &option_count))
        return false;
    for (size_t i = 0; i < *count; i++) {
        struct slice name = headers[i].name;

        if (hop_header_is_fixed(name) || (is_named(name, options, option_count) && !is_kept_always(name)))
            continue;
        headers[kept++] = headers[i];
    }
    *count = kept;
    return true;
}

/* ---- what we say about the hop ---- */

/* All values of the fields of this name, in order, as one list that ends in ", ". */
static void add_earlier(struct text *text, const struct header *headers, size_t count, struct slice name)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq(headers[i].name, name) && headers[i].value.len > 0) {
            text_add(text, headers[i].value);
            text_add(text, SLICE(", "));
        }
}

static void add_via(struct text *text, const struct header *headers, size_t count, bool is_http10,
                    struct slice via_name)
{
    add_earlier(text, headers, count, SLICE("via"));
    text_add(text, is_http10 ? SLICE("1.0 ") : SLICE("1.1 "));
    text_add(text, via_name);
}

struct slice forwarded_told(const struct header *headers, size_t count, struct slice name,
                            bool peer_is_trusted)
{
    for (size_t i = 0; peer_is_trusted && i < count; i++)
        if (slice_eq(headers[i].name, name) && headers[i].value.len > 0)
            return headers[i].value;
    return slice_of(NULL, 0);
}

/* What a trusted peer says, or what we know. */
static struct slice kept_or(const struct forwarded_facts *facts, const struct header *headers, size_t count,
                            struct slice name, struct slice ours)
{
    struct slice told = forwarded_told(headers, count, name, facts->peer_is_trusted);

    return told.len > 0 ? told : ours;
}

static struct slice written_since(const struct text *text, size_t start)
{
    return text_fits(text) ? slice_of(text->base + start, text->len - start) : slice_of(NULL, 0);
}

size_t forwarded_write(const struct forwarded_facts *facts, const struct header *headers, size_t count,
                       char *room, size_t room_bytes, struct forwarded *out)
{
    struct text text = text_in(room, room_bytes);
    struct forwarded values;
    size_t via_start;

    if (facts->peer_is_trusted)
        add_earlier(&text, headers, count, SLICE("x-forwarded-for"));
    text_add(&text, facts->peer_text);
    values.x_forwarded_for = written_since(&text, 0);
    via_start = text.len;
    add_via(&text, headers, count, facts->is_http10, facts->via_name);
    values.via = written_since(&text, via_start);
    values.x_forwarded_proto = kept_or(facts, headers, count, SLICE("x-forwarded-proto"),
                                       facts->is_tls ? SLICE("https") : SLICE("http"));
    values.x_forwarded_host = kept_or(facts, headers, count, SLICE("x-forwarded-host"), facts->authority);
    if (text_fits(&text))
        *out = values;
    return text.len;
}

/* Upstreams behind CGI-like interfaces cannot tell x_real_ip from x-real-ip. `known` is in lower case. */
static bool spells(struct slice name, struct slice known)
{
    for (size_t i = 0; i < known.len; i++)
        if (i == name.len || (name.base[i] == '_' ? '-' : name.base[i]) != known.base[i])
            return false;
    return true;
}

bool is_proxys_word(struct slice name)
{
    static const struct slice whole[] = {
        {"forwarded", 9},       {"x-real-ip", 9},        {"x-client-ip", 11},   {"x-cluster-client-ip", 19},
        {"client-ip", 9},       {"true-client-ip", 14},  {"x-host", 6},         {"x-original-host", 15},
        {"x-original-url", 14}, {"x-original-uri", 14},  {"x-rewrite-url", 13}, {"x-scheme", 8},
        {"x-url-scheme", 12},   {"front-end-https", 15},
    };

    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
        if (name.len == whole[i].len && spells(name, whole[i]))
            return true;
    return spells(name, SLICE("x-forwarded-"));
}

bool forwarded_replaces(struct slice name, bool peer_is_trusted)
{
    static const struct slice ours[] = {
        {"x-forwarded-for", 15}, {"x-forwarded-proto", 17}, {"x-forwarded-host", 16}, {"via", 3}};

    return SLICE_AMONG(name, ours) || (!peer_is_trusted && is_proxys_word(name));
}

size_t via_write(const struct header *headers, size_t count, bool is_http10, struct slice via_name,
                 char *room, size_t room_bytes)
{
    struct text text = text_in(room, room_bytes);

    add_via(&text, headers, count, is_http10, via_name);
    return text.len;
}
