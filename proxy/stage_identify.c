/* Identify: which route is it, who is asking, and what does it cost? */
#include "exchange.h"
#include "hop_headers.h"
#include "path_text.h"
#include "principals.h"

#include <netinet/in.h>
#include <sys/un.h>

enum { NEAR_ROOM = 512 }; /* for the value of a key that is no longer than most */

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

/* A value of this request, in its memory where it does not fit into `near`. */
static bool find_value(struct exchange *exchange, const struct limit_rule *rule,
                       const struct limit_key_facts *facts, char near[NEAR_ROOM], struct slice *value)
{
    size_t len = limit_key_write(&rule->key, facts, rule->ipv6_prefix, near, NEAR_ROOM);
    char *room = near;

    if (len == LIMIT_KEY_ABSENT)
        return false;
    if (len > NEAR_ROOM) {
        room = client_alloc(exchange->client, len);
        limit_key_write(&rule->key, facts, rule->ipv6_prefix, room, len);
    }
    *value = slice_of(room, len);
    return true;
}

/* False: the request lacks a key that the limit insists on. */
static bool charge_limit(struct exchange *exchange, const struct limit_rule *rule,
                         const struct limit_key_facts *facts)
{
    char near[NEAR_ROOM];
    struct slice value;

    if (find_value(exchange, rule, facts, near, &value)) {
        add_charge(exchange, rule, rule->key.kind, value);
        return true;
    }
    switch (rule->missing) {
    case MISSING_IP: charge_address(exchange, rule); return true;
    case MISSING_SHARED: add_charge(exchange, rule, rule->key.kind, SLICE("")); return true;
    case MISSING_SKIP: return true;
    case MISSING_REJECT: return false;
    }
    return false;
}

static const struct limit_rule *charge_limits(struct exchange *exchange)
{
    const struct route_rule *route = exchange->route;
    struct limit_key_facts facts = {
        .headers = exchange->fields,
        .header_count = exchange->field_count,
        .query = exchange->query,
        .authority = exchange->head->authority,
        .values = &exchange->values,
        .route_host = slice_text(route->host),
        .route_match = slice_text(route->match),
        .address = &exchange->address,
    };

    exchange->limits.site = exchange->site;
    for (size_t i = 0; i < route->limit_count; i++)
        if (!charge_limit(exchange, route->limits[i], &facts))
            return route->limits[i];
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
