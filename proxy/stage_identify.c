/* Identify: which route is it, who is asking, and what does it cost? */
#include "exchange.h"
#include "check.h"
#include "hop_headers.h"
#include "path_text.h"
#include "principals.h"

#include <netinet/in.h>
#include <sys/un.h>

static bool copy_fields(struct exchange *exchange)
{
    const struct request_head *head = exchange->head;

    exchange->field_count = head->header_count;
    exchange->fields = client_alloc(exchange->client, (head->header_count + 1) * sizeof(struct header));
    for (size_t i = 0; i < head->header_count; i++)
        exchange->fields[i] = head->headers[i];
    return hop_headers_strip(exchange->fields, &exchange->field_count);
}

static void split_target(struct exchange *exchange)
{
    struct slice target = exchange->head->target;
    const char *mark = memchr(target.base, '?', target.len);

    exchange->path = mark == NULL ? target : slice_of(target.base, (size_t)(mark - target.base));
    exchange->query = mark == NULL ? slice_of(target.base + target.len, 0)
                                   : slice_of(mark + 1, target.len - exchange->path.len - 1);
    if (memchr(exchange->path.base, '%', exchange->path.len) != NULL) {
        char *folded = client_alloc(exchange->client, exchange->path.len);

        exchange->path = slice_of(folded, path_fold(exchange->path, folded));
    }
}

static const struct route_rule *find_route(struct exchange *exchange)
{
    const struct settings *settings = site_settings(exchange->site);

    for (size_t i = 0; i < settings->route_count; i++) {
        const struct route_rule *route = &settings->routes[i];

        if (route->host != NULL && !route_host_matches(slice_text(route->host), exchange->head->authority))
            continue;
        if (route_matches(route->pattern, exchange->head->method, exchange->path, &exchange->values))
            return route;
    }
    return NULL;
}

static struct address peer_address(const struct sockaddr *peer)
{
    struct address address = {{0}};

    if (peer->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)peer;

        address.bytes[10] = address.bytes[11] = 0xff;
        memcpy(address.bytes + 12, &v4->sin_addr, 4);
    } else if (peer->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)peer;

        memcpy(address.bytes, &v6->sin6_addr, 16);
    }
    return address;
}

static void find_address(struct exchange *exchange)
{
    const struct settings *settings = site_settings(exchange->site);
    struct address peer = peer_address(exchange->head->peer);

    exchange->peer_is_trusted =
        address_is_in(&peer, settings->trusted_proxies, settings->trusted_proxy_count);
    exchange->address = exchange->peer_is_trusted
                            ? client_address(&peer, settings->trusted_proxies, settings->trusted_proxy_count,
                                             exchange->fields, exchange->field_count)
                            : peer;
}

/* All values of one field, in order, as one (RFC 9110 section 5.3). Empty: as if it were absent. */
static struct slice field_value(struct exchange *exchange, struct slice name)
{
    struct slice first = {NULL, 0};
    size_t found = 0, bytes = 0, len = 0;
    char *joined;

    for (size_t i = 0; i < exchange->field_count; i++)
        if (slice_eq(exchange->fields[i].name, name)) {
            if (found++ == 0)
                first = exchange->fields[i].value;
            bytes += exchange->fields[i].value.len + 2;
        }
    if (found < 2)
        return first;
    joined = client_alloc(exchange->client, bytes);
    for (size_t i = 0; i < exchange->field_count; i++)
        if (slice_eq(exchange->fields[i].name, name)) {
            if (len > 0) {
                memcpy(joined + len, ", ", 2);
                len += 2;
            }
            if (exchange->fields[i].value.len > 0)
                memcpy(joined + len, exchange->fields[i].value.base, exchange->fields[i].value.len);
            len += exchange->fields[i].value.len;
        }
    return slice_of(joined, len);
}

static void add_charge(struct exchange *exchange, const struct limit_rule *rule, struct slice kind,
                       struct slice value)
{
    struct limit_charge *charge = &exchange->limits.charges[exchange->limits.charge_count++];

    charge->rule = rule;
    charge->cost = rule->cost;
    principal_of(exchange->story->principals, kind, value, charge->principal);
}

static void charge_address(struct exchange *exchange, const struct limit_rule *rule)
{
    struct address group = address_group(&exchange->address, rule->ipv6_prefix);
    char text[46];

    add_charge(exchange, rule, SLICE("ip"), slice_of(text, address_write(&group, text)));
}

/* False: the request lacks a key that the limit insists on. */
static bool charge_header(struct exchange *exchange, const struct limit_rule *rule)
{
    struct slice value = field_value(exchange, slice_text(rule->key_name));
    char kind_text[128] = "header:";
    struct slice kind = slice_of(kind_text, sizeof("header:") - 1 + strlen(rule->key_name));

    CHECK(kind.len <= sizeof(kind_text));
    memcpy(kind_text + sizeof("header:") - 1, rule->key_name, strlen(rule->key_name));
    if (value.len > 0) {
        add_charge(exchange, rule, kind, value);
        return true;
    }
    switch (rule->missing) {
    case MISSING_IP: charge_address(exchange, rule); return true;
    case MISSING_SHARED: add_charge(exchange, rule, kind, SLICE("")); return true;
    case MISSING_SKIP: return true;
    case MISSING_REJECT: return false;
    }
    return false;
}

static const struct limit_rule *charge_limits(struct exchange *exchange)
{
    exchange->limits.site = exchange->site;
    for (size_t i = 0; i < exchange->route->limit_count; i++) {
        const struct limit_rule *rule = exchange->route->limits[i];

        switch (rule->key) {
        case LIMIT_KEY_GLOBAL: add_charge(exchange, rule, SLICE("global"), SLICE("")); break;
        case LIMIT_KEY_IP: charge_address(exchange, rule); break;
        case LIMIT_KEY_HEADER:
            if (!charge_header(exchange, rule))
                return rule;
            break;
        }
    }
    return NULL;
}

void stage_identify(struct exchange *exchange)
{
    const struct limit_rule *lacking;

    if (!copy_fields(exchange)) {
        refuse(exchange, 400, "bad_request", "Connection names too many fields.");
        return;
    }
    find_address(exchange);
    split_target(exchange);
    exchange->route = find_route(exchange);
    if (exchange->route == NULL) {
        refuse(exchange, 404, "no_route", "No route matches this request.");
        return;
    }
    lacking = charge_limits(exchange);
    if (lacking != NULL) {
        refuse_missing_key(exchange, lacking);
        return;
    }
    move_to(exchange, STAGE_LIMITING);
    stage_limit(exchange);
}
