/* Identity: who is asking. Addresses in one canonical form, ranges, and the client's address behind trusted
 * proxies.
 *
 * What names a client must have one reading only: octal-looking IPv4 parts, zone ids and addresses whose port
 * cannot be told from their last group are refused or read as plain addresses, never guessed at.
 */
#include "identity.h"

enum { V4_AT = 12, V4_BITS = 96, ADDRESS_BITS = 128, GROUPS = 8, MAX_NODE_BYTES = 64 };

static const unsigned char v4_mapped[V4_AT] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int hex_value(char c)
{
    c = ascii_lower(c);
    if (is_digit(c))
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static size_t find(struct slice text, char wanted) /* its place, or text.len */
{
    size_t at = 0;

    while (at < text.len && text.base[at] != wanted)
        at++;
    return at;
}

static struct slice drop(struct slice text, size_t len)
{
    return slice_of(text.base + len, text.len - len);
}

/* A decimal number up to `max` without needless zeros, for some read "010" as eight. */
static bool parse_decimal(struct slice text, int max, int *out)
{
    int number = 0;

    if (text.len == 0 || text.len > 5 || (text.len > 1 && text.base[0] == '0'))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (!is_digit(text.base[i]))
            return false;
        number = number * 10 + (text.base[i] - '0');
    }
    *out = number;
    return number <= max;
}

static bool parse_v4_bytes(struct slice text, unsigned char out[4])
{
    for (int i = 0; i < 4; i++) {
        size_t end = i < 3 ? find(text, '.') : text.len;
        int part;
        if (end > text.len || (i < 3 && end == text.len) ||
            !parse_decimal(slice_of(text.base, end), 255, &part))
            return false;
        out[i] = (unsigned char)part;
        text = drop(text, i < 3 ? end + 1 : end);
    }
    return true;
}

static bool parse_group(struct slice text, unsigned char out[2])
{
    int group = 0;

    if (text.len == 0 || text.len > 4)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        int digit = hex_value(text.base[i]);
        if (digit < 0)
            return false;
        group = group * 16 + digit;
    }
    out[0] = (unsigned char)(group >> 8);
    out[1] = (unsigned char)(group & 0xff);
    return true;
}

/* Groups between colons, the last of which may be an IPv4 address: how many bytes, or -1. An empty text is
 * none. */
static int parse_groups(struct slice text, bool v4_may_end, unsigned char out[16])
{
    int len = 0;

    if (text.len == 0)
        return 0;
    for (;;) {
        size_t end = find(text, ':');
        struct slice group = slice_of(text.base, end);
        bool is_last = end == text.len;
        if (is_last && v4_may_end && find(group, '.') < group.len)
            return len <= 16 - 4 && parse_v4_bytes(group, out + len) ? len + 4 : -1;
        if (len > 16 - 2 || !parse_group(group, out + len))
            return -1;
        len += 2;
        if (is_last)
            return len;
        text = drop(text, end + 1);
    }
}

static bool parse_v6(struct slice text, struct address *out)
{
    unsigned char tail[16];
    size_t gap = 0;

    while (gap + 1 < text.len && !(text.base[gap] == ':' && text.base[gap + 1] == ':'))
        gap++;
    if (gap + 1 >= text.len) /* no "::" */
        return parse_groups(text, true, out->bytes) == 16;
    int head_len = parse_groups(slice_of(text.base, gap), false, out->bytes);
    int tail_len = parse_groups(drop(text, gap + 2), true, tail);
    if (head_len < 0 || tail_len < 0 || head_len + tail_len > 16 - 2) /* "::" stands for a group at least */
        return false;
    memset(out->bytes + head_len, 0, (size_t)(16 - head_len - tail_len));
    memcpy(out->bytes + 16 - tail_len, tail, (size_t)tail_len);
    return true;
}

static bool parse_v4(struct slice text, struct address *out)
{
    memcpy(out->bytes, v4_mapped, V4_AT);
    return parse_v4_bytes(text, out->bytes + V4_AT);
}

/* Without brackets and port. */
static bool parse_bare(struct slice text, struct address *out)
{
    struct address parsed;

    if (!(find(text, ':') < text.len ? parse_v6(text, &parsed) : parse_v4(text, &parsed)))
        return false;
    *out = parsed;
    return true;
}

static bool is_port(struct slice text)
{
    int port;

    return parse_decimal(text, 65535, &port);
}

bool address_parse(struct slice text, struct address *out)
{
    if (text.len > 0 && text.base[0] == '[') {
        size_t end = find(text, ']');
        if (end == text.len)
            return false;
        struct slice inside = slice_of(text.base + 1, end - 1), after = drop(text, end + 1);
        if (after.len > 0 && (after.base[0] != ':' || !is_port(drop(after, 1))))
            return false;
        return find(inside, ':') < inside.len &&
               parse_bare(inside, out); /* RFC 3986: brackets hold IPv6 only */
    }
    size_t colon = find(text, ':');
    bool has_port = colon < text.len && find(drop(text, colon + 1), ':') == text.len - colon - 1;
    if (!has_port) /* with two colons or more it is IPv6, and the last group is no port */
        return parse_bare(text, out);
    struct slice host = slice_of(text.base, colon);
    return is_port(drop(text, colon + 1)) && parse_bare(host, out);
}

static bool bit_is_set(const struct address *address, int bit)
{
    return (address->bytes[bit / 8] >> (7 - bit % 8)) & 1;
}

bool address_range_parse(struct slice text, struct address_range *out)
{
    size_t slash = find(text, '/');
    struct slice host = slice_of(text.base, slash);
    struct address_range range;
    bool is_v6 = find(host, ':') < host.len;
    int prefix = is_v6 ? ADDRESS_BITS : ADDRESS_BITS - V4_BITS;

    if (!parse_bare(host, &range.base))
        return false;
    if (slash < text.len && !parse_decimal(drop(text, slash + 1), prefix, &prefix))
        return false;
    range.prefix = is_v6 ? prefix : prefix + V4_BITS;
    for (int bit = range.prefix; bit < ADDRESS_BITS; bit++)
        if (bit_is_set(&range.base, bit))
            return false;
    *out = range;
    return true;
}

static struct address cut(const struct address *address, int prefix)
{
    struct address out = *address;

    for (int i = 0; i < 16; i++) {
        int kept = prefix - 8 * i;
        if (kept <= 0)
            out.bytes[i] = 0;
        else if (kept < 8)
            out.bytes[i] = (unsigned char)(out.bytes[i] & (0xff << (8 - kept)));
    }
    return out;
}

bool address_is_in(const struct address *address, const struct address_range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct address network = cut(address, ranges[i].prefix);
        if (memcmp(network.bytes, ranges[i].base.bytes, sizeof(network.bytes)) == 0)
            return true;
    }
    return false;
}

bool address_is_v4(const struct address *address)
{
    return memcmp(address->bytes, v4_mapped, V4_AT) == 0;
}

struct address address_group(const struct address *address, int ipv6_prefix)
{
    return address_is_v4(address) ? *address : cut(address, ipv6_prefix);
}

static size_t write_decimal(unsigned number, char *out)
{
    size_t len = 0;

    if (number >= 100)
        out[len++] = (char)('0' + number / 100);
    if (number >= 10)
        out[len++] = (char)('0' + number / 10 % 10);
    out[len++] = (char)('0' + number % 10);
    return len;
}

static size_t write_group(unsigned group, char *out)
{
    static const char hex[] = "0123456789abcdef";
    size_t len = 0;

    for (int shift = 12; shift >= 0; shift -= 4)
        if (len > 0 || shift == 0 || group >> shift != 0)
            out[len++] = hex[group >> shift & 15];
    return len;
}

/* The longest run of zero groups, the first of equals; a single one is not shortened (RFC 5952 section 4.2).
 */
static void longest_zero_run(const unsigned groups[GROUPS], int *start_out, int *len_out)
{
    *start_out = -1;
    *len_out = 1;
    for (int i = 0; i < GROUPS; i++) {
        int run = 0;
        while (i + run < GROUPS && groups[i + run] == 0)
            run++;
        if (run > *len_out) {
            *start_out = i;
            *len_out = run;
        }
    }
}

static size_t write_v6(const struct address *address, char *out)
{
    unsigned groups[GROUPS];
    int gap_start, gap_len;
    size_t len = 0;

    for (int i = 0; i < GROUPS; i++)
        groups[i] = (unsigned)address->bytes[2 * i] << 8 | address->bytes[2 * i + 1];
    longest_zero_run(groups, &gap_start, &gap_len);
    for (int i = 0; i < GROUPS; i++) {
        if (i == gap_start) {
            out[len++] = ':';
            out[len++] = ':';
            i += gap_len - 1;
            continue;
        }
        if (i > 0 && out[len - 1] != ':')
            out[len++] = ':';
        len += write_group(groups[i], out + len);
    }
    return len;
}

size_t address_write(const struct address *address, char out[46])
{
    size_t len = 0;

    if (!address_is_v4(address)) {
        len = write_v6(address, out);
    } else {
        for (int i = V4_AT; i < 16; i++) {
            if (i > V4_AT)
                out[len++] = '.';
            len += write_decimal(address->bytes[i], out + len);
        }
    }
    out[len] = 0;
    return len;
}

/* Is the byte at `at` a quote that a backslash takes the meaning from? An even number of backslashes escape
 * each other. */
static bool is_escaped(struct slice text, size_t at)
{
    size_t slashes = 0;

    while (slashes < at && text.base[at - slashes - 1] == '\\')
        slashes++;
    return slashes % 2 == 1;
}

/* Cuts the last element of a comma-separated list off `rest`; false when nothing is left. Read from the
 * right, because each proxy appends: an unfinished quote in the part that a client wrote cannot swallow what
 * a trusted proxy added. */
static bool take_last(struct slice *rest, bool has_quotes, struct slice *element)
{
    size_t at = rest->len;
    bool is_quoted = false;

    if (rest->base == NULL)
        return false;
    while (at > 0) {
        char c = rest->base[at - 1];
        if (has_quotes && c == '"')
            is_quoted = is_quoted ? is_escaped(*rest, at - 1) : true;
        else if (c == ',' && !is_quoted)
            break;
        at--;
    }
    *element = slice_trim(drop(*rest, at));
    *rest = at > 0 ? slice_of(rest->base, at - 1) : slice_of(NULL, 0);
    return true;
}

/* The value of a forwarded-pair, out of its quotes if it has any, into `room`. */
static bool unquote(struct slice value, char room[MAX_NODE_BYTES], struct slice *out)
{
    size_t len = 0;

    if (value.len < 2 || value.base[0] != '"' || value.base[value.len - 1] != '"') {
        *out = value;
        return find(value, '"') == value.len;
    }
    value = slice_of(value.base + 1, value.len - 2);
    for (size_t i = 0; i < value.len; i++) {
        if (value.base[i] == '"' || (value.base[i] == '\\' && ++i == value.len) || len == MAX_NODE_BYTES)
            return false;
        room[len++] = value.base[i];
    }
    *out = slice_of(room, len);
    return true;
}

/* Cuts the next parameter off a Forwarded element. */
static bool take_parameter(struct slice *rest, struct slice *name, struct slice *value)
{
    size_t end = 0;
    bool is_quoted = false;

    if (rest->len == 0)
        return false;
    for (; end < rest->len; end++) {
        char c = rest->base[end];
        if (is_quoted && c == '\\')
            end++;
        else if (c == '"')
            is_quoted = !is_quoted;
        else if (c == ';' && !is_quoted)
            break;
    }
    end = end < rest->len ? end : rest->len;
    struct slice parameter = slice_trim(slice_of(rest->base, end));
    *rest = end < rest->len ? drop(*rest, end + 1) : slice_of(NULL, 0);
    size_t equals = find(parameter, '=');
    *name = slice_of(parameter.base, equals);
    *value = equals < parameter.len ? drop(parameter, equals + 1) : slice_of(NULL, 0);
    return true;
}

/* RFC 7239 section 6: a port may be obfuscated, "_" and a token. The address beside it is as good as any. */
static struct slice without_hidden_port(struct slice node)
{
    size_t colon = node.len;

    while (colon > 0 && node.base[colon - 1] != ':' && node.base[colon - 1] != ']')
        colon--;
    if (colon == 0 || colon == node.len || node.base[colon - 1] != ':' || node.base[colon] != '_')
        return node;
    return slice_of(node.base, colon - 1);
}

/* The address of a Forwarded element's one for=. "unknown" and "_hidden" are none. */
static bool parse_forwarded(struct slice element, struct address *out)
{
    struct slice name, value, node = {NULL, 0};
    char room[MAX_NODE_BYTES];

    while (take_parameter(&element, &name, &value)) {
        if (!slice_eq_nocase(name, SLICE("for")))
            continue;
        if (node.base != NULL || !unquote(value, room, &node) || node.base == NULL)
            return false;
    }
    return node.base != NULL && address_parse(without_hidden_port(node), out);
}

/* One line of the header, from the right. True: the walk goes on in the line before. */
static bool walk_line(struct slice line, bool is_forwarded, const struct address_range *trusted,
                      size_t trusted_count, struct address *client)
{
    struct slice element;

    while (take_last(&line, is_forwarded, &element)) {
        struct address hop;
        if (element.len == 0) /* RFC 9110 section 5.6.1: empty elements are ignored */
            continue;
        if (!(is_forwarded ? parse_forwarded(element, &hop) : address_parse(element, &hop)))
            return false;
        *client = hop;
        if (!address_is_in(&hop, trusted, trusted_count))
            return false;
    }
    return true;
}

static bool is_present(struct slice name, const struct header *headers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq(headers[i].name, name))
            return true;
    return false;
}

struct address client_address(const struct address *peer, const struct address_range *trusted,
                              size_t trusted_count, const struct header *headers, size_t header_count)
{
    struct address client = *peer;

    if (!address_is_in(peer, trusted, trusted_count))
        return client;
    bool is_forwarded = !is_present(SLICE("x-forwarded-for"), headers, header_count);
    struct slice name = is_forwarded ? SLICE("forwarded") : SLICE("x-forwarded-for");
    for (size_t i = header_count; i-- > 0;)
        if (slice_eq(headers[i].name, name) &&
            !walk_line(headers[i].value, is_forwarded, trusted, trusted_count, &client))
            break;
    return client;
}
