/* Identify: which route is it, and from which address? What it takes from whom is stage_charge's. */
#include "exchange.h"
#include "hop_headers.h"
#include "path_text.h"
#include "text.h"

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

/* RFC 9110 section 7.6.2: OPTIONS may say how many may pass it on; we are one of them. */
static void count_hop(struct exchange *exchange)
{
    int64_t left;

    if (!slice_eq(exchange->head->method, SLICE("OPTIONS")))
        return;
    for (size_t i = 0; i < exchange->field_count; i++) {
        struct header *field = &exchange->fields[i];

        if (!slice_eq(field->name, SLICE("max-forwards")) ||
            !text_parse_digits(field->value, INT32_MAX, &left))
            continue;
        exchange->is_last_hop = exchange->is_last_hop || left == 0;
        if (left > 0) {
            struct text text = text_in(client_alloc(exchange->client, TEXT_INT_ROOM), TEXT_INT_ROOM);

            text_add_int(&text, left - 1);
            field->value = text_slice(&text);
        }
    }
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

const struct route_rule *route_for(struct exchange *exchange, struct slice method, struct slice path,
                                   struct route_values *values)
{
    const struct settings *settings = site_settings(exchange->site);

    for (size_t i = 0; i < settings->route_count; i++) {
        const struct route_rule *route = &settings->routes[i];

        if (route->host != NULL && !route_host_matches(slice_text(route->host), exchange->head->authority))
            continue;
        if (route_matches(route->pattern, method, path, values))
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

void stage_identify(struct exchange *exchange)
{
    struct objection objection;

    if (!copy_fields(exchange)) {
        refuse(exchange, 400, "bad_request", "Connection names too many fields.");
        return;
    }
    count_hop(exchange);
    find_address(exchange);
    split_target(exchange);
    exchange->route = route_for(exchange, exchange->head->method, exchange->path, &exchange->values);
    if (exchange->route == NULL) {
        refuse(exchange, 404, "no_route", "No route matches this request.");
        return;
    }
    objection = charge_limits(exchange);
    if (objection.limit != NULL) {
        refuse_objection(exchange, &objection);
        return;
    }
    move_to(exchange, STAGE_LIMITING);
    stage_limit(exchange);
}
