/* Route match: see route_match.h. */
#include "route_match.h"

#include "http_char.h"
#include "text.h"

enum { ESCAPED = 256 }; /* added to a byte that came as %XX and must not be taken for itself */

/* One character of a path as it is compared: an unreserved byte, however it was written, or another byte,
 * escaped or not.
 * "%2f" and "%2F" are the same character and neither is '/'. */
static int next_char(struct slice s, size_t *at)
{
    bool is_escaped = s.base[*at] == '%' && s.len - *at >= 3;
    char c = unreserved_next(s, at);

    if (is_escaped && c == '%') {
        int high = hex_value(s.base[*at]), low = hex_value(s.base[*at + 1]);

        if (high >= 0 && low >= 0) {
            *at += 2;
            return ESCAPED + high * 16 + low;
        }
    }
    return (unsigned char)c;
}

static bool same_text(struct slice a, struct slice b)
{
    size_t at_a = 0, at_b = 0;

    while (at_a < a.len && at_b < b.len)
        if (next_char(a, &at_a) != next_char(b, &at_b))
            return false;
    return at_a == a.len && at_b == b.len;
}

/* Takes the next segment, without its '/'. A path always begins with '/', so "/" has one segment, which is
 * empty. */
static bool segment_next(struct slice *rest, struct slice *segment_out)
{
    const char *slash;

    if (rest->len == 0)
        return false;
    slash = memchr(rest->base + 1, '/', rest->len - 1);
    *segment_out = slice_of(rest->base + 1, slash == NULL ? rest->len - 1 : (size_t)(slash - rest->base) - 1);
    *rest = slice_of(segment_out->base + segment_out->len, rest->len - segment_out->len - 1);
    return true;
}

static bool is_name_char(char c)
{
    return is_alpha(c) || is_digit(c) || c == '_' || c == '-';
}

static const char *compile_methods(struct slice text, struct route_pattern *out)
{
    struct slice rest = text, method;

    while (list_next(&rest, &method)) {
        if (!is_token(method))
            return "a method is not a word";
        for (size_t i = 0; i < method.len; i++)
            if (method.base[i] >= 'a' && method.base[i] <= 'z')
                return "methods are written in capitals";
        if (out->method_count == ROUTE_MAX_METHODS)
            return "there are too many methods";
        out->methods[out->method_count++] = method;
    }
    return NULL;
}

static const char *compile_literal(struct slice text)
{
    for (size_t at = 0; at < text.len;) {
        unsigned char raw = (unsigned char)text.base[at];
        int c = next_char(text, &at);

        if (c == '*')
            return "* stands for a whole segment, and is not part of one";
        if (c == '{' || c == '}')
            return "{x} stands for a whole segment, and is not part of one";
        if (c == '%')
            return "a % is not followed by two hexadecimal digits";
        if (raw <= 0x20 || raw >= 0x7f || c == '?' || c == '#' || c == '\\')
            return "the path holds a character that no path has";
    }
    if (same_text(text, SLICE(".")) || same_text(text, SLICE("..")))
        return "segments . and .. never reach a route";
    return NULL;
}

static const char *compile_variable(struct slice text, const struct route_pattern *pattern,
                                    struct route_segment *out)
{
    size_t variables = 1;

    out->kind = SEGMENT_VARIABLE;
    out->text = slice_of(text.base + 1, text.len - 2);
    if (out->text.len == 0)
        return "a variable has no name";
    for (size_t i = 0; i < out->text.len; i++)
        if (!is_name_char(out->text.base[i]))
            return "a variable's name holds other than letters, digits, _ and -";
    for (size_t i = 0; i < pattern->segment_count; i++) {
        if (pattern->segments[i].kind != SEGMENT_VARIABLE)
            continue;
        variables++;
        if (slice_eq(pattern->segments[i].text, out->text))
            return "a variable is named twice";
    }
    return variables > ROUTE_MAX_VARIABLES ? "there are too many variables" : NULL;
}

static const char *compile_segment(struct slice text, const struct route_pattern *pattern,
                                   struct route_segment *out)
{
    if (slice_eq(text, SLICE("*"))) {
        out->kind = SEGMENT_ANY;
        return NULL;
    }
    if (slice_eq(text, SLICE("**"))) {
        out->kind = SEGMENT_REST;
        return NULL;
    }
    if (text.len >= 2 && text.base[0] == '{' && text.base[text.len - 1] == '}')
        return compile_variable(text, pattern, out);
    out->kind = SEGMENT_LITERAL;
    out->text = text;
    return compile_literal(text);
}

static const char *compile_path(struct slice path, struct route_pattern *out)
{
    struct slice segment;
    const char *wrong;

    if (path.len == 0 || path.base[0] != '/')
        return "the path does not begin with /";
    while (segment_next(&path, &segment)) {
        if (out->segment_count > 0 && out->segments[out->segment_count - 1].kind == SEGMENT_REST)
            return "** is not the last segment";
        if (out->segment_count == ROUTE_MAX_SEGMENTS)
            return "there are too many segments";
        wrong = compile_segment(segment, out, &out->segments[out->segment_count]);
        if (wrong != NULL)
            return wrong;
        out->segment_count++;
    }
    return NULL;
}

const char *route_compile(struct slice text, struct route_pattern *out)
{
    struct slice trimmed = slice_trim(text), methods;
    const char *wrong;
    size_t blank = 0;

    *out = (struct route_pattern){.method_count = 0};
    if (trimmed.len == 0)
        return "the match is empty";
    if (trimmed.base[0] == '/')
        return compile_path(trimmed, out);
    while (blank < trimmed.len && trimmed.base[blank] != '/')
        blank++;
    if (blank == trimmed.len)
        return "there is no path, which begins with /";
    methods = slice_trim(slice_of(trimmed.base, blank));
    if (methods.len == blank)
        return "there is no blank between method and path";
    wrong = compile_methods(methods, out);
    return wrong != NULL ? wrong : compile_path(slice_of(trimmed.base + blank, trimmed.len - blank), out);
}

static bool method_matches(const struct route_pattern *pattern, struct slice method)
{
    bool is_head = slice_eq(method, SLICE("HEAD"));

    for (size_t i = 0; i < pattern->method_count; i++)
        if (slice_eq(pattern->methods[i], method) || (is_head && slice_eq(pattern->methods[i], SLICE("GET"))))
            return true;
    return pattern->method_count == 0;
}

static bool segment_matches(const struct route_segment *want, struct slice got, struct route_values *values)
{
    switch (want->kind) {
    case SEGMENT_LITERAL: return same_text(want->text, got);
    case SEGMENT_VARIABLE:
        values->names[values->count] = want->text;
        values->values[values->count++] = got;
        return got.len > 0;
    case SEGMENT_ANY: return got.len > 0;
    case SEGMENT_REST: return true;
    }
    return false;
}

bool route_matches(const struct route_pattern *pattern, struct slice method, struct slice path,
                   struct route_values *values_out)
{
    struct route_values values = {.count = 0};
    struct slice rest = path, segment;
    size_t i = 0;

    if (path.len == 0 || path.base[0] != '/' || !method_matches(pattern, method))
        return false;
    for (; i < pattern->segment_count && pattern->segments[i].kind != SEGMENT_REST; i++)
        if (!segment_next(&rest, &segment) || !segment_matches(&pattern->segments[i], segment, &values))
            return false;
    /* "/a/" followed by "**" fits "/a" too: what guards a folder guards its own name. */
    if (i == pattern->segment_count && rest.len > 0)
        return false;
    if (values_out != NULL)
        *values_out = values;
    return true;
}

struct slice authority_host(struct slice authority)
{
    for (size_t i = authority.len; i > 0; i--) {
        if (authority.base[i - 1] == ']')
            break;
        if (authority.base[i - 1] == ':') {
            authority.len = i - 1;
            break;
        }
    }
    /* "example.com." is the same name, spelled absolutely. */
    if (authority.len > 1 && authority.base[authority.len - 1] == '.')
        authority.len--;
    return authority;
}

bool route_host_matches(struct slice pattern_host, struct slice authority)
{
    struct slice host = authority_host(authority), tail;

    if (pattern_host.base == NULL)
        return true;
    if (pattern_host.len < 2 || memcmp(pattern_host.base, "*.", 2) != 0)
        return slice_eq_nocase(pattern_host, host);
    tail = slice_of(pattern_host.base + 1, pattern_host.len - 1); /* with its dot */
    return host.len > tail.len && host.base[0] != '.' &&
           slice_eq_nocase(slice_of(host.base + host.len - tail.len, tail.len), tail);
}

/* ---- templates ---- */

static bool is_known_variable(const struct route_pattern *pattern, struct slice name)
{
    for (size_t i = 0; pattern != NULL && i < pattern->segment_count; i++)
        if (pattern->segments[i].kind == SEGMENT_VARIABLE && slice_eq(pattern->segments[i].text, name))
            return true;
    return false;
}

static const char *pointer_problem(struct slice pointer)
{
    if (pointer.len > TEMPLATE_MAX_POINTER)
        return "a JSON pointer has more than 128 bytes";
    if (pointer.len > 0 && pointer.base[0] != '/')
        return "a JSON pointer begins with /";
    for (size_t i = 0; i < pointer.len; i++)
        if (pointer.base[i] == '~' &&
            (i + 1 == pointer.len || (pointer.base[i + 1] != '0' && pointer.base[i + 1] != '1')))
            return "in a JSON pointer ~ is followed by 0 or 1";
    return NULL;
}

static const char *compile_placeholder(struct slice inside, const struct route_pattern *pattern,
                                       struct template_part *out)
{
    const char *colon = inside.len == 0 ? NULL : memchr(inside.base, ':', inside.len);
    struct slice kind;

    if (inside.len == 0)
        return "{} names nothing";
    if (colon == NULL) {
        *out = (struct template_part){PART_VARIABLE, inside};
        return is_known_variable(pattern, inside) ? NULL : "a variable is not one of the route's path";
    }
    kind = slice_of(inside.base, (size_t)(colon - inside.base));
    out->text = slice_of(colon + 1, inside.len - kind.len - 1);
    if (slice_eq(kind, SLICE("header"))) {
        out->kind = PART_HEADER;
        return is_token(out->text) ? NULL : "a header's name is not a token";
    }
    if (slice_eq(kind, SLICE("query"))) {
        out->kind = PART_QUERY;
        return out->text.len > 0 ? NULL : "a query parameter has no name";
    }
    if (slice_eq(kind, SLICE("json"))) {
        out->kind = PART_JSON;
        return pointer_problem(out->text);
    }
    return "before the colon of {...} stands neither header, query nor json";
}

bool template_asks_answer(const struct template *template)
{
    for (size_t i = 0; i < template->part_count; i++)
        if (template->parts[i].kind == PART_JSON)
            return true;
    return false;
}

const char *template_compile(struct slice text, const struct route_pattern *pattern, struct template *out)
{
    size_t at = 0;

    out->part_count = 0;
    if (text.len == 0)
        return "the template is empty";
    while (at < text.len) {
        struct template_part part = {PART_TEXT, slice_of(text.base + at, 0)};
        const char *wrong = NULL;

        if (out->part_count == TEMPLATE_MAX_PARTS)
            return "there are too many parts";
        if (text.base[at] == '{') {
            const char *close = memchr(text.base + at, '}', text.len - at);

            if (close == NULL)
                return "a { is not closed";
            part.text.len = (size_t)(close - part.text.base) - 1;
            at += part.text.len + 2;
            wrong = compile_placeholder(slice_of(part.text.base + 1, part.text.len), pattern, &part);
        } else {
            while (at < text.len && text.base[at] != '{' && text.base[at] != '}')
                at++;
            if (at < text.len && text.base[at] == '}')
                return "a } closes nothing";
            part.text.len = (size_t)(text.base + at - part.text.base);
        }
        if (wrong != NULL)
            return wrong;
        out->parts[out->part_count++] = part;
    }
    return NULL;
}

enum spelling { SPELLED_AS_IT_CAME, SPELLED_IN_A_TAG, SPELLED_IN_A_TAG_OF_A_QUERY };

/* The one form of a character that may stand for itself in a segment (RFC 3986 section 3.3) or a query, or be
 * escaped. Over-merging would cost a reload, a second spelling a stale answer. */
static int in_a_tag(int c, enum spelling spelling)
{
    static const struct slice free_in_segment = {"!$&'()*+;=:@", 12}, free_in_query = {"/?", 2};
    bool is_query = spelling == SPELLED_IN_A_TAG_OF_A_QUERY;
    char plain = (char)(c >= ESCAPED ? c - ESCAPED : c);

    if (c == ',')
        return ESCAPED + ',';
    if (c == '+' && is_query)
        return ESCAPED + ' ';
    if (c >= ESCAPED && (memchr(free_in_segment.base, plain, free_in_segment.len) != NULL ||
                         (is_query && memchr(free_in_query.base, plain, free_in_query.len) != NULL)))
        return plain;
    return c;
}

/* In one spelling: %61 and a, %2f and %2F would else be different paths for one resource. */
static void add_part_of_uri(struct text *out, struct slice from, enum spelling spelling)
{
    static const char digits[] = "0123456789ABCDEF";

    for (size_t at = 0; at < from.len;) {
        int c = next_char(from, &at);

        if (spelling != SPELLED_AS_IT_CAME)
            c = in_a_tag(c, spelling);
        if (c >= ESCAPED) {
            text_add_char(out, '%');
            text_add_char(out, digits[(c - ESCAPED) / 16]);
            text_add_char(out, digits[c % 16]);
        } else {
            text_add_char(out, (char)c);
        }
    }
}

static bool add_variable(struct text *out, struct slice name, const struct route_values *values,
                         enum spelling spelling)
{
    for (size_t i = 0; values != NULL && i < values->count; i++)
        if (slice_eq(values->names[i], name)) {
            add_part_of_uri(out, values->values[i], spelling);
            return true;
        }
    return false;
}

/* Bytes that stand for themselves, which no URI has been. */
static void add_given(struct text *out, struct slice bytes)
{
    static const char digits[] = "0123456789ABCDEF";

    for (size_t i = 0; i < bytes.len; i++) {
        unsigned char byte = (unsigned char)bytes.base[i];
        int c = is_unreserved((char)byte) ? byte : in_a_tag(ESCAPED + byte, SPELLED_IN_A_TAG);

        if (c >= ESCAPED) {
            text_add_char(out, '%');
            text_add_char(out, digits[byte / 16]);
            text_add_char(out, digits[byte % 16]);
        } else {
            text_add_char(out, (char)c);
        }
    }
}

/* Several fields of one name are one list (RFC 9110 section 5.3). */
static bool add_header(struct text *out, struct slice name, const struct header *headers, size_t count)
{
    bool is_there = false;

    for (size_t i = 0; i < count; i++) {
        if (!slice_eq_nocase(headers[i].name, name))
            continue;
        if (is_there)
            text_add(out, SLICE(", "));
        text_add(out, headers[i].value);
        is_there = true;
    }
    return is_there;
}

/* The first parameter of this name. */
static bool add_query(struct text *out, struct slice name, struct slice query, enum spelling spelling)
{
    struct slice rest = query;

    while (rest.len > 0) {
        const char *end = memchr(rest.base, '&', rest.len), *equals;
        struct slice pair = slice_of(rest.base, end == NULL ? rest.len : (size_t)(end - rest.base)),
                     key = pair;

        rest = slice_of(rest.base + pair.len, rest.len - pair.len);
        if (rest.len > 0)
            rest = slice_of(rest.base + 1, rest.len - 1);
        if (pair.len == 0)
            continue;
        equals = memchr(pair.base, '=', pair.len);
        if (equals != NULL)
            key.len = (size_t)(equals - pair.base);
        if (!same_text(key, name))
            continue;
        if (equals != NULL)
            add_part_of_uri(out, slice_of(equals + 1, pair.len - key.len - 1), spelling);
        return true;
    }
    return false;
}

static size_t expand(const struct template *template, const struct route_values *values,
                     const struct header *headers, size_t header_count, struct slice query, bool is_tag,
                     char *out, size_t room)
{
    enum spelling in_path = is_tag ? SPELLED_IN_A_TAG : SPELLED_AS_IT_CAME;
    enum spelling in_query = is_tag ? SPELLED_IN_A_TAG_OF_A_QUERY : SPELLED_AS_IT_CAME;
    struct text text = text_in(out, room);

    for (size_t i = 0; i < template->part_count; i++) {
        const struct template_part *part = &template->parts[i];
        bool is_there = true;

        switch (part->kind) {
        case PART_TEXT: text_add(&text, part->text); break;
        case PART_VARIABLE: is_there = add_variable(&text, part->text, values, in_path); break;
        case PART_HEADER: is_there = add_header(&text, part->text, headers, header_count); break;
        case PART_QUERY: is_there = add_query(&text, part->text, query, in_query); break;
        case PART_JSON: is_there = false; break;
        case PART_GIVEN: add_given(&text, part->text); break;
        }
        if (!is_there)
            return SIZE_MAX;
    }
    return text.len;
}

size_t template_expand(const struct template *template, const struct route_values *values,
                       const struct header *headers, size_t header_count, struct slice query, char *out,
                       size_t room)
{
    return expand(template, values, headers, header_count, query, false, out, room);
}

size_t tag_expand(const struct template *template, const struct route_values *values,
                  const struct header *headers, size_t header_count, struct slice query, char *out,
                  size_t room)
{
    return expand(template, values, headers, header_count, query, true, out, room);
}
