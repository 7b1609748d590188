/* Http1 head: see http1_head.h. The end of the head is sought first, each byte once, and only a whole head is
 * parsed: a head that trickles in costs no more than one that comes at once. */
#include "http1_head.h"

#include "http_char.h"

void http1_head_init(struct http1_head *head, struct header *headers, size_t header_room, size_t max_bytes)
{
    *head = (struct http1_head){.headers = headers, .header_room = header_room, .max_bytes = max_bytes};
}

static enum head_progress bad(struct http1_head *head, const char *why)
{
    head->why = why;
    return HEAD_BAD;
}

/* Finds the empty line. A line that ends in a bare LF, or other bytes than HTTP/1 at the start, are bad at
 * once: an upstream that does not speak HTTP must not be waited for. */
static enum head_progress seek_end(struct http1_head *head, const char *bytes, size_t len)
{
    static const struct slice prefix = {"HTTP/1.", 7};
    size_t bound = len < head->max_bytes ? len : head->max_bytes;

    if (head->scanned < prefix.len && memcmp(bytes, prefix.base, len < prefix.len ? len : prefix.len) != 0)
        return bad(head, "the answer does not begin with HTTP/1.");
    while (head->scanned < bound) {
        const char *lf = memchr(bytes + head->scanned, '\n', bound - head->scanned);
        size_t at;

        if (lf == NULL)
            break;
        at = (size_t)(lf - bytes);
        if (at < 2 || bytes[at - 1] != '\r')
            return bad(head, "a line ends in a bare LF");
        head->scanned = at + 1;
        if (bytes[at - 2] == '\n') {
            head->head_bytes = at + 1;
            return HEAD_WHOLE;
        }
    }
    head->scanned = bound;
    return len >= head->max_bytes ? bad(head, "the head is too long") : HEAD_PARTIAL;
}

/* The next line without its CRLF; the end of the head was found, so there is one. */
static struct slice take_line(char **at, const char *end)
{
    char *start = *at;
    char *lf = memchr(start, '\n', (size_t)(end - start));

    *at = lf + 1;
    return slice_of(start, (size_t)(lf - start) - 1);
}

static const char *parse_status_line(struct http1_head *head, struct slice line)
{
    const char *s = line.base;

    /* HTTP/1.x SP DDD [SP reason] */
    if (line.len < 12 || (s[7] != '0' && s[7] != '1') || s[8] != ' ')
        return "the status line names no known version";
    if (!is_digit(s[9]) || !is_digit(s[10]) || !is_digit(s[11]) || (line.len > 12 && s[12] != ' '))
        return "the status is not three digits";
    head->is_http10 = s[7] == '0';
    head->status = (s[9] - '0') * 100 + (s[10] - '0') * 10 + (s[11] - '0');
    if (head->status < 100 || head->status > 599)
        return "the status is not between 100 and 599";
    head->reason = line.len > 13 ? slice_of(s + 13, line.len - 13) : slice_of(s + 12, 0);
    return is_value(head->reason) ? NULL : "the reason holds a control character";
}

static const char *parse_field(struct http1_head *head, struct slice line, char *name)
{
    const char *colon;
    struct header *field;

    if (line.base[0] == ' ' || line.base[0] == '\t')
        return "a header line is folded";
    colon = memchr(line.base, ':', line.len);
    if (colon == NULL)
        return "a header line has no colon";
    if (head->header_count == head->header_room)
        return "there are too many header lines";
    field = &head->headers[head->header_count];
    field->name = slice_of(name, (size_t)(colon - line.base));
    if (!is_token(field->name))
        return "a header name is not a token";
    for (size_t i = 0; i < field->name.len; i++)
        name[i] = ascii_lower(name[i]);
    field->value = slice_trim(slice_of(colon + 1, line.len - field->name.len - 1));
    if (!is_value(field->value))
        return "a header value holds a control character";
    head->header_count++;
    return NULL;
}

enum head_progress http1_head_read(struct http1_head *head, char *bytes, size_t len)
{
    char *at = bytes, *line_start;
    const char *end, *why;
    struct slice line;
    enum head_progress progress;

    if (len == 0)
        return HEAD_PARTIAL;
    progress = seek_end(head, bytes, len);
    if (progress != HEAD_WHOLE)
        return progress;
    end = bytes + head->head_bytes;
    why = parse_status_line(head, take_line(&at, end));
    while (why == NULL) {
        line_start = at;
        line = take_line(&at, end);
        if (line.len == 0)
            return HEAD_WHOLE;
        why = parse_field(head, line, line_start);
    }
    return bad(head, why);
}

struct field_count {
    size_t count;
    struct slice last;
};

static struct field_count count_fields(const struct http1_head *head, struct slice name)
{
    struct field_count found = {0, {NULL, 0}};

    for (size_t i = 0; i < head->header_count; i++)
        if (slice_eq(head->headers[i].name, name)) {
            found.count++;
            found.last = head->headers[i].value;
        }
    return found;
}

static struct http1_framing framing_bad(const char *why)
{
    return (struct http1_framing){.kind = BODY_BAD, .length = -1, .why = why};
}

/* Codings that change the bytes, so that nothing could be made of a body in one of them. We never ask for any (RFC 9112
 * section 7.4); what is none of these, and no list, is a word without meaning. */
static bool changes_bytes(struct slice coding)
{
    static const struct slice names[] = {
        {"gzip", 4}, {"x-gzip", 6}, {"deflate", 7}, {"compress", 8}, {"x-compress", 10}};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (slice_eq_nocase(coding, names[i]))
            return true;
    return !is_token(coding);
}

struct http1_framing http1_framing(const struct http1_head *head, struct slice method)
{
    struct field_count coding = count_fields(head, SLICE("transfer-encoding"));
    struct field_count length = count_fields(head, SLICE("content-length"));
    struct http1_framing framing = {.kind = BODY_UNTIL_CLOSE, .length = -1};

    if (coding.count > 0 && length.count > 0)
        return framing_bad("both Transfer-Encoding and Content-Length");
    if (coding.count > 1 || (coding.count == 1 && changes_bytes(coding.last)))
        return framing_bad("a Transfer-Encoding other than chunked");
    if (coding.count == 1 && head->is_http10)
        return framing_bad("Transfer-Encoding in HTTP/1.0");
    if (length.count > 1)
        return framing_bad("more than one Content-Length");
    if (length.count == 1 && (framing.length = digits_value(length.last)) < 0)
        return framing_bad("a Content-Length that is no number");
    if (head->status == 101)
        return framing_bad("an upgrade that nobody asked for");

    if (slice_eq(method, SLICE("HEAD")) || head->status < 200 || head->status == 204 || head->status == 304)
        framing.kind = BODY_NONE;
    else if (coding.count ==
             1) /* RFC 9112 section 6.3: without chunked at its end it is the close that ends the body */
        framing.kind = slice_eq_nocase(coding.last, SLICE("chunked")) ? BODY_CHUNKED : BODY_UNTIL_CLOSE;
    else if (length.count == 1)
        framing.kind = BODY_LENGTH;
    return framing;
}

bool http1_keeps_alive(const struct http1_head *head, const struct http1_framing *framing)
{
    bool keeps = !head->is_http10;

    if (framing->kind == BODY_UNTIL_CLOSE || framing->kind == BODY_BAD)
        return false;
    /* A 204 has no body. An upstream that announces one all the same may send it, and it would be read as the
     * next answer. */
    if (head->status == 204 &&
        (framing->length > 0 || count_fields(head, SLICE("transfer-encoding")).count > 0))
        return false;
    for (size_t i = 0; i < head->header_count; i++) {
        struct slice rest = head->headers[i].value, option;

        if (!slice_eq(head->headers[i].name, SLICE("connection")))
            continue;
        while (list_next(&rest, &option)) {
            if (slice_eq_nocase(option, SLICE("close")))
                return false;
            if (slice_eq_nocase(option, SLICE("keep-alive")))
                keeps = true;
        }
    }
    return keeps;
}
