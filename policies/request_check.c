/* Request check: see request_check.h. One pass over the head, line by line; what is counted there is judged
 * at its end. */
#include "request_check.h"

#include "http_char.h"
#include "upgrade.h"

int request_flaw_status(enum request_flaw flaw)
{
    /* clang-format off */
    switch (flaw) {
    case REQUEST_SOUND:             return 200;
    case REQUEST_METHOD_UNKNOWN:    return 501;
    case REQUEST_VERSION_BAD:       return 505;
    case REQUEST_TARGET_LONG:       return 414;
    case REQUEST_FIELDS_MANY:
    case REQUEST_HEAD_LONG:         return 431;
    case REQUEST_LINE_BAD:
    case REQUEST_LINE_FEED_BARE:
    case REQUEST_CUT_SHORT:
    case REQUEST_METHOD_BAD:
    case REQUEST_TARGET_BAD:
    case REQUEST_TARGET_ESCAPE_BAD:
    case REQUEST_TARGET_DOTS:
    case REQUEST_FIELD_BAD:
    case REQUEST_FIELD_FOLDED:
    case REQUEST_FIELD_LOOKALIKE:
    case REQUEST_HOST_MISSING:
    case REQUEST_HOST_REPEATED:
    case REQUEST_HOST_BAD:
    case REQUEST_LENGTH_BAD:
    case REQUEST_LENGTH_REPEATED:
    case REQUEST_CODING_BAD:
    case REQUEST_CODING_REPEATED:
    case REQUEST_CODING_AND_LENGTH:
    case REQUEST_CODING_IN_HTTP10:  return 400;
    }
    /* clang-format on */
    return 400;
}

const char *request_flaw_text(enum request_flaw flaw)
{
    /* clang-format off */
    switch (flaw) {
    case REQUEST_SOUND:             return "nothing is wrong";
    case REQUEST_LINE_BAD:          return "the request line is malformed";
    case REQUEST_LINE_FEED_BARE:    return "a line does not end in CRLF";
    case REQUEST_CUT_SHORT:         return "the request head has no end";
    case REQUEST_METHOD_BAD:        return "the method is not a token";
    case REQUEST_METHOD_UNKNOWN:    return "the method is not supported";
    case REQUEST_VERSION_BAD:       return "the HTTP version is not supported";
    case REQUEST_TARGET_BAD:        return "the request target is not a path";
    case REQUEST_TARGET_ESCAPE_BAD: return "the request target holds a bad percent escape";
    case REQUEST_TARGET_DOTS:       return "the request target holds a dot segment";
    case REQUEST_TARGET_LONG:       return "the request target is too long";
    case REQUEST_FIELD_BAD:         return "a header field is malformed";
    case REQUEST_FIELD_FOLDED:      return "a header field is folded over lines";
    case REQUEST_FIELD_LOOKALIKE:   return "a header name imitates a framing or forwarding field";
    case REQUEST_FIELDS_MANY:       return "there are too many header fields";
    case REQUEST_HEAD_LONG:         return "the request head is too long";
    case REQUEST_HOST_MISSING:      return "the Host field is missing";
    case REQUEST_HOST_REPEATED:     return "there is more than one Host field";
    case REQUEST_HOST_BAD:          return "the host is not a valid authority";
    case REQUEST_LENGTH_BAD:        return "the Content-Length is not a number";
    case REQUEST_LENGTH_REPEATED:   return "there is more than one Content-Length field";
    case REQUEST_CODING_BAD:        return "the Transfer-Encoding is not chunked";
    case REQUEST_CODING_REPEATED:   return "there is more than one Transfer-Encoding field";
    case REQUEST_CODING_AND_LENGTH: return "both Transfer-Encoding and Content-Length are present";
    case REQUEST_CODING_IN_HTTP10:  return "Transfer-Encoding is not part of HTTP/1.0";
    }
    /* clang-format on */
    return "the request is malformed";
}

/* A method in lower case may be another method to us and the same to an upstream: no limit of ours would know
 * it. */
enum request_flaw request_check_method(struct slice method)
{
    if (!is_token(method))
        return REQUEST_METHOD_BAD;
    if (method.len > REQUEST_MAX_METHOD_BYTES || slice_eq(method, SLICE("CONNECT")) ||
        slice_eq(method, SLICE("TRACE")))
        return REQUEST_METHOD_UNKNOWN;
    for (size_t i = 0; i < method.len; i++)
        if (method.base[i] >= 'a' && method.base[i] <= 'z')
            return REQUEST_METHOD_UNKNOWN;
    return REQUEST_SOUND;
}

/* A segment is dots if it is . or .. up to whatever any upstream takes for its end: also an escaped slash, a
 * backslash, or the semicolon of a path parameter. */
struct segment {
    int dots;
    bool has_other;
};

static bool segment_is_dots(const struct segment *segment)
{
    return !segment->has_other && (segment->dots == 1 || segment->dots == 2);
}

static bool segment_take(struct segment *segment, char c)
{
    bool ends = c == '/' || c == '\\' || c == ';';

    if (ends && segment_is_dots(segment))
        return false;
    if (ends)
        *segment = (struct segment){0, c == ';'};
    else if (c == '.')
        segment->dots++;
    else
        segment->has_other = true;
    return true;
}

enum request_flaw request_check_target(struct slice target, size_t max_bytes)
{
    struct segment segment = {0, false};
    bool in_path = true;

    if (target.len > max_bytes)
        return REQUEST_TARGET_LONG;
    if (target.len == 0 || target.base[0] != '/')
        return REQUEST_TARGET_BAD;
    for (size_t i = 1; i < target.len; i++) {
        unsigned char c = (unsigned char)target.base[i];

        if (c <= 0x20 || c >= 0x7f || c == '#' || c == '\\')
            return REQUEST_TARGET_BAD;
        if (c == '%') {
            int high = target.len - i > 2 ? hex_value(target.base[i + 1]) : -1;
            int low = high < 0 ? -1 : hex_value(target.base[i + 2]);

            c = (unsigned char)(high * 16 + low);
            if (low < 0 || c == 0)
                return REQUEST_TARGET_ESCAPE_BAD;
            i += 2;
        } else if (c == '?' && in_path) {
            if (segment_is_dots(&segment))
                return REQUEST_TARGET_DOTS;
            in_path = false;
        }
        if (in_path && !segment_take(&segment, (char)c))
            return REQUEST_TARGET_DOTS;
    }
    return in_path && segment_is_dots(&segment) ? REQUEST_TARGET_DOTS : REQUEST_SOUND;
}

/* Where the port's colon is, or the length. */
static size_t authority_colon(struct slice authority)
{
    for (size_t i = authority.len; i > 0; i--) {
        if (authority.base[i - 1] == ':')
            return i - 1;
        if (authority.base[i - 1] == ']')
            break;
    }
    return authority.len;
}

static bool port_is_valid(struct slice port)
{
    int64_t value;

    if (port.len == 0)
        return true; /* "host:" is in the grammar */
    value = digits_value(port);
    return port.base[0] != '0' && value > 0 && value <= 65535;
}

static bool name_is_valid(struct slice name)
{
    if (name.len == 0 || name.len > 255)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.base[i];

        if (!is_alpha(c) && !is_digit(c) && c != '-' && c != '.' && c != '_')
            return false;
        if (c == '.' && (i == 0 || name.base[i - 1] == '.'))
            return false;
    }
    return true;
}

/* Its shape only: what is no address matches no route and resolves to nothing. */
static bool literal_is_valid(struct slice literal)
{
    int colons = 0;

    if (literal.len < 4 || literal.len > 47 || literal.base[literal.len - 1] != ']')
        return false;
    for (size_t i = 1; i + 1 < literal.len; i++) {
        char c = literal.base[i];

        if (hex_value(c) < 0 && c != ':' && c != '.')
            return false;
        colons += c == ':';
    }
    return colons >= 2;
}

bool authority_is_valid(struct slice authority)
{
    size_t colon = authority_colon(authority);
    struct slice host = slice_of(authority.base, colon);

    if (colon < authority.len &&
        !port_is_valid(slice_of(authority.base + colon + 1, authority.len - colon - 1)))
        return false;
    return host.len > 0 && (host.base[0] == '[' ? literal_is_valid(host) : name_is_valid(host));
}

size_t authority_write(struct slice authority, bool is_tls, char *out)
{
    size_t colon = authority_colon(authority), len = 0;
    struct slice host = slice_of(authority.base, colon), port = {NULL, 0};

    if (colon < authority.len)
        port = slice_of(authority.base + colon, authority.len - colon);
    if (port.len == 1 || slice_eq(port, is_tls ? SLICE(":443") : SLICE(":80")))
        port.len = 0;
    if (host.len > 1 && host.base[host.len - 1] == '.')
        host.len--;
    for (; len < host.len; len++)
        out[len] = ascii_lower(host.base[len]);
    for (size_t i = 0; i < port.len; i++)
        out[len++] = port.base[i];
    return len;
}

/* ---- the head ---- */

struct scan {
    struct slice rest;
    struct slice host;
    size_t hosts, lengths, codings, upgrades;
    struct slice upgrade;
    bool is_absolute, names_upgrade;
};

/* The next line without its CRLF, of at most `bound` bytes. */
static enum request_flaw take_line(struct slice *rest, size_t bound, struct slice *line_out)
{
    size_t window = rest->len < bound ? rest->len : bound, len;
    const char *lf = window == 0 ? NULL : memchr(rest->base, '\n', window);

    if (lf == NULL)
        return rest->len > bound ? REQUEST_HEAD_LONG : REQUEST_CUT_SHORT;
    len = (size_t)(lf - rest->base);
    if (len == 0 || lf[-1] != '\r' || memchr(rest->base, '\r', len - 1) != NULL)
        return REQUEST_LINE_FEED_BARE;
    *line_out = slice_of(rest->base, len - 1);
    *rest = slice_of(lf + 1, rest->len - len - 1);
    return REQUEST_SOUND;
}

/* http://authority/path: a proxy must understand it, and it overrules Host (RFC 9112 section 3.2.2). */
static enum request_flaw split_absolute(struct slice whole, bool is_tls, struct request_facts *facts)
{
    struct slice scheme = is_tls ? SLICE("https://") : SLICE("http://"), rest;
    size_t end = 0;

    if (whole.len < scheme.len || !slice_eq_nocase(slice_of(whole.base, scheme.len), scheme))
        return REQUEST_TARGET_BAD;
    rest = slice_of(whole.base + scheme.len, whole.len - scheme.len);
    while (end < rest.len && rest.base[end] != '/' && rest.base[end] != '?')
        end++;
    facts->authority = slice_of(rest.base, end);
    if (!authority_is_valid(facts->authority))
        return REQUEST_HOST_BAD;
    if (end == rest.len && slice_eq(facts->method, SLICE("OPTIONS")))
        return REQUEST_TARGET_BAD; /* is OPTIONS * in this form (RFC 9112 section 3.2.4) */
    facts->target = end == rest.len ? SLICE("/") : slice_of(rest.base + end, rest.len - end);
    return REQUEST_SOUND;
}

static enum request_flaw judge_line(struct slice line, bool is_tls, size_t max_target_bytes,
                                    struct scan *scan, struct request_facts *facts)
{
    const char *first = line.len == 0 ? NULL : memchr(line.base, ' ', line.len), *second;
    struct slice version;
    enum request_flaw flaw;

    if (first == NULL)
        return REQUEST_LINE_BAD;
    facts->method = slice_of(line.base, (size_t)(first - line.base));
    second = memchr(first + 1, ' ', line.len - facts->method.len - 1);
    if (second == NULL)
        return REQUEST_LINE_BAD;
    facts->target = slice_of(first + 1, (size_t)(second - first) - 1);
    version = slice_of(second + 1, line.len - facts->method.len - facts->target.len - 2);
    facts->is_http10 = slice_eq(version, SLICE("HTTP/1.0"));
    if (!facts->is_http10 && !slice_eq(version, SLICE("HTTP/1.1")))
        return version.len > 5 && memcmp(version.base, "HTTP/", 5) == 0 &&
                       memchr(version.base, ' ', version.len) == NULL
                   ? REQUEST_VERSION_BAD
                   : REQUEST_LINE_BAD;
    flaw = request_check_method(facts->method);
    if (flaw != REQUEST_SOUND)
        return flaw;
    if (facts->target.len > max_target_bytes)
        return REQUEST_TARGET_LONG;
    scan->is_absolute = facts->target.len > 0 && is_alpha(facts->target.base[0]);
    if (scan->is_absolute && (flaw = split_absolute(facts->target, is_tls, facts)) != REQUEST_SOUND)
        return flaw;
    return request_check_target(facts->target, max_target_bytes);
}

/* Fields whose meaning we own. Upstreams behind CGI-like interfaces cannot tell content_length from
 * content-length. */
static bool is_lookalike(struct slice name)
{
    static const char *const owned[] = {"content-length",   "transfer-encoding", "keep-alive",
                                        "proxy-connection", "x-forwarded-for",   "x-forwarded-host",
                                        "x-forwarded-proto"};

    if (memchr(name.base, '_', name.len) == NULL)
        return false;
    for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++) {
        size_t at = 0;

        while (at < name.len && owned[i][at] != '\0' &&
               (ascii_lower(name.base[at]) == owned[i][at] || (name.base[at] == '_' && owned[i][at] == '-')))
            at++;
        if (at == name.len && owned[i][at] == '\0')
            return true;
    }
    return false;
}

static enum request_flaw note_field(struct slice name, struct slice value, struct scan *scan,
                                    struct request_facts *facts)
{
    if (slice_eq_nocase(name, SLICE("host"))) {
        scan->hosts++;
        scan->host = value;
    } else if (slice_eq_nocase(name, SLICE("content-length"))) {
        scan->lengths++;
        facts->content_length = digits_value(value);
        if (facts->content_length < 0)
            return REQUEST_LENGTH_BAD;
    } else if (slice_eq_nocase(name, SLICE("transfer-encoding"))) {
        scan->codings++;
        facts->is_chunked = slice_eq_nocase(value, SLICE("chunked"));
    } else if (slice_eq_nocase(name, SLICE("upgrade"))) {
        scan->upgrades++;
        scan->upgrade = value;
    } else if (slice_eq_nocase(name, SLICE("connection"))) {
        scan->names_upgrade = scan->names_upgrade || connection_names_upgrade(value);
    } else if (is_lookalike(name)) {
        return REQUEST_FIELD_LOOKALIKE;
    }
    return REQUEST_SOUND;
}

static enum request_flaw judge_field(struct slice line, struct scan *scan, struct request_facts *facts)
{
    const char *colon;
    struct slice name, value;

    if (line.base[0] == ' ' || line.base[0] == '\t')
        return REQUEST_FIELD_FOLDED;
    colon = memchr(line.base, ':', line.len);
    if (colon == NULL)
        return REQUEST_FIELD_BAD;
    name = slice_of(line.base, (size_t)(colon - line.base));
    value = slice_trim(slice_of(colon + 1, line.len - name.len - 1));
    if (!is_token(name) || !is_value(value))
        return REQUEST_FIELD_BAD;
    return note_field(name, value, scan, facts);
}

static bool upgrade_counts(const struct scan *scan, const struct request_facts *facts)
{
    return scan->upgrades == 1 && scan->upgrade.len > 0 && scan->names_upgrade && !facts->is_http10 &&
           !facts->is_chunked && facts->content_length <= 0;
}

static enum request_flaw judge_counts(const struct scan *scan, struct request_facts *facts)
{
    if (scan->codings > 0 && scan->lengths > 0)
        return REQUEST_CODING_AND_LENGTH;
    if (scan->codings > 1)
        return REQUEST_CODING_REPEATED;
    if (scan->lengths > 1)
        return REQUEST_LENGTH_REPEATED;
    if (scan->codings == 1 && facts->is_http10)
        return REQUEST_CODING_IN_HTTP10;
    if (scan->codings == 1 && !facts->is_chunked)
        return REQUEST_CODING_BAD;
    if (scan->hosts > 1)
        return REQUEST_HOST_REPEATED;
    if (scan->hosts == 0 && !facts->is_http10)
        return REQUEST_HOST_MISSING;
    if (scan->hosts == 1 && !authority_is_valid(scan->host))
        return REQUEST_HOST_BAD;
    if (!scan->is_absolute)
        facts->authority = scan->host;
    if (upgrade_counts(scan, facts))
        facts->upgrade = scan->upgrade;
    return REQUEST_SOUND;
}

enum request_flaw request_check(struct slice raw, bool is_tls, const struct request_bounds *bounds,
                                struct request_facts *facts_out)
{
    struct scan scan = {.rest = raw};
    struct slice line;
    enum request_flaw flaw;

    *facts_out = (struct request_facts){.content_length = -1};
    if (raw.len >= 2 && memcmp(raw.base, "\r\n", 2) == 0)
        scan.rest = slice_of(raw.base + 2, raw.len - 2);
    /* The request line alone may pass the bound of the head, to be told 414 rather than 431. */
    flaw = take_line(&scan.rest, scan.rest.len, &line);
    if (flaw == REQUEST_SOUND)
        flaw = judge_line(line, is_tls, bounds->max_target_bytes, &scan, facts_out);
    while (flaw == REQUEST_SOUND) {
        facts_out->head_bytes = raw.len - scan.rest.len;
        if (facts_out->head_bytes > bounds->max_head_bytes)
            return REQUEST_HEAD_LONG;
        flaw = take_line(&scan.rest, bounds->max_head_bytes - facts_out->head_bytes, &line);
        if (flaw != REQUEST_SOUND)
            break;
        if (line.len == 0) {
            facts_out->head_bytes = raw.len - scan.rest.len;
            return judge_counts(&scan, facts_out);
        }
        if (facts_out->header_count == bounds->max_headers)
            return REQUEST_FIELDS_MANY;
        facts_out->header_count++;
        flaw = judge_field(line, &scan, facts_out);
    }
    return flaw;
}
