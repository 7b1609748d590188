/* Settings URL: see settings_url.h. */
#include "settings_url.h"
#include "slice.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = ascii_lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool decode_percent(struct slice text, char *out, size_t room)
{
    size_t used = 0;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.base[i];

        if (c == '%') {
            if (i + 2 >= text.len || hex_value(text.base[i + 1]) < 0 || hex_value(text.base[i + 2]) < 0)
                return false;
            c = (char)(hex_value(text.base[i + 1]) * 16 + hex_value(text.base[i + 2]));
            i += 2;
        }
        if (c == '\0' || used + 1 == room)
            return false;
        out[used++] = c;
    }
    out[used] = '\0';
    return true;
}

static bool port_parse(struct slice text, int *out)
{
    int port = 0;

    if (text.len == 0 || text.len > 5)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.base[i] < '0' || text.base[i] > '9')
            return false;
        port = port * 10 + (text.base[i] - '0');
    }
    *out = port;
    return port >= 1 && port <= 65535;
}

static bool is_host_name(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = ascii_lower(text.base[i]);

        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
              (c == '.' && i > 0)))
            return false;
        if (c == '.' && text.base[i - 1] == '.')
            return false;
    }
    return text.len > 0 && text.len <= MAX_HOST_BYTES;
}

static bool ipv6_parse(struct slice text, char out[INET6_ADDRSTRLEN])
{
    char copy[INET6_ADDRSTRLEN];
    struct in6_addr address;

    if (text.len >= sizeof copy)
        return false;
    memcpy(copy, text.base, text.len);
    copy[text.len] = '\0';
    return inet_pton(AF_INET6, copy, &address) == 1 &&
           inet_ntop(AF_INET6, &address, out, INET6_ADDRSTRLEN) != NULL;
}

/* Splits "host", "host:port", "[v6]" or "[v6]:port"; `port` has base NULL where none is given. */
static bool split_authority(struct slice text, struct slice *host, bool *is_bracketed, struct slice *port)
{
    const char *end;

    *port = (struct slice){NULL, 0};
    *is_bracketed = text.len > 0 && text.base[0] == '[';
    if (*is_bracketed) {
        end = memchr(text.base, ']', text.len);
        if (end == NULL)
            return false;
        *host = slice_of(text.base + 1, (size_t)(end - text.base) - 1);
        end++;
    } else {
        end = memchr(text.base, ':', text.len);
        if (end == NULL)
            end = text.base + text.len;
        *host = slice_of(text.base, (size_t)(end - text.base));
    }
    if (end == text.base + text.len)
        return true;
    *port = slice_of(end + 1, text.len - (size_t)(end - text.base) - 1);
    return *end == ':';
}

static const char *authority_parse(struct slice text, struct url *out)
{
    struct slice host, port;
    bool is_bracketed;

    if (!split_authority(text, &host, &is_bracketed, &port))
        return "its host is malformed; an IPv6 address stands in brackets: [::1]:6379";
    if (port.base != NULL && !port_parse(port, &out->port))
        return "its port must be a number of 1 to 65535";
    if (is_bracketed)
        return ipv6_parse(host, out->host) ? NULL : "there is no IPv6 address in its brackets";
    if (host.len > 0 && !is_host_name(host))
        return "its host must be a name or an address";
    for (size_t i = 0; i < host.len; i++)
        out->host[i] = ascii_lower(host.base[i]);
    out->host[host.len] = '\0';
    return NULL;
}

static const char *user_parse(struct slice text, struct url *out)
{
    const char *colon = memchr(text.base, ':', text.len);
    struct slice user = slice_of(text.base, colon == NULL ? text.len : (size_t)(colon - text.base));

    out->has_user = user.len > 0;
    out->has_password = colon != NULL;
    if (!decode_percent(user, out->user, sizeof out->user))
        return "its user is too long, or has a % that is not followed by two hexadecimal digits";
    if (colon != NULL &&
        !decode_percent(slice_of(colon + 1, text.len - user.len - 1), out->password, sizeof out->password))
        return "its password is too long, or has a % that is not followed by two hexadecimal digits";
    return NULL;
}

const char *url_parse(const char *text, struct url *out)
{
    const char *separator = strstr(text, "://"), *authority, *at, *query, *problem;
    size_t authority_len;

    memset(out, 0, sizeof *out);
    if (separator == NULL || separator == text)
        return "it must begin with a scheme and ://";
    if ((size_t)(separator - text) >= sizeof out->scheme)
        return "its scheme is unknown";
    for (const char *c = text; c < separator; c++)
        out->scheme[c - text] = ascii_lower(*c);
    authority = separator + 3;
    if (strchr(authority + strcspn(authority, "/?#"), '@') != NULL)
        return "in a user or password / ? and # are written as %2F, %3F and %23";
    authority_len = strcspn(authority, "/?#");
    at = memrchr(authority, '@', authority_len);
    if (at != NULL) {
        problem = user_parse(slice_of(authority, (size_t)(at - authority)), out);
        if (problem != NULL)
            return problem;
        authority_len -= (size_t)(at + 1 - authority);
        authority = at + 1;
    }
    problem = authority_parse(slice_of(authority, authority_len), out);
    if (problem != NULL)
        return problem;
    out->path = authority + authority_len;
    if (strchr(out->path, '#') != NULL)
        return "it must not have a # part";
    query = strchr(out->path, '?');
    out->path_len = query == NULL ? strlen(out->path) : (size_t)(query - out->path);
    out->query = query == NULL ? NULL : query + 1;
    return NULL;
}

const char *endpoint_parse(const char *text, char host[MAX_HOST_BYTES + 1], int *port)
{
    static const char shape[] =
        "write an address and a port of 1 to 65535, such as 127.0.0.1:8080 or [::]:8080";
    struct slice host_text, port_text;
    char copy[INET_ADDRSTRLEN];
    struct in_addr address;
    bool is_bracketed;

    if (!split_authority(slice_text(text), &host_text, &is_bracketed, &port_text) ||
        !port_parse(port_text, port))
        return shape;
    if (is_bracketed)
        return ipv6_parse(host_text, host) ? NULL : shape;
    if (host_text.len >= sizeof copy)
        return shape;
    memcpy(copy, host_text.base, host_text.len);
    copy[host_text.len] = '\0';
    if (inet_pton(AF_INET, copy, &address) != 1 ||
        inet_ntop(AF_INET, &address, host, INET_ADDRSTRLEN) == NULL)
        return shape;
    return NULL;
}

bool host_is_valid(const char *host)
{
    return is_host_name(slice_text(host));
}

bool host_is_loopback(const char *host)
{
    struct in6_addr v6;
    struct in_addr v4;

    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}
