/* Account: one log line and the counters, once, whatever happened. */
#include "exchange.h"
#include "clock.h"
#include "log.h"
#include "principals.h"

enum { CLIENT_LEFT_STATUS = 499 }; /* by custom: the client closed before it was answered */

enum { PRINCIPAL_HEX = 32 };

/* Addresses are not written to logs: a caller is known by the digest under which an `ip` limit counts it. */
static void write_principal(struct exchange *exchange, char out[PRINCIPAL_HEX])
{
    static const char DIGITS[] = "0123456789abcdef";
    char text[46];
    unsigned char principal[16];

    principal_of(exchange->story->principals, SLICE("ip"),
                 slice_of(text, address_write(&exchange->address, text)), principal);
    for (size_t i = 0; i < sizeof(principal); i++) {
        out[2 * i] = DIGITS[principal[i] >> 4];
        out[2 * i + 1] = DIGITS[principal[i] & 15];
    }
}

/* Queries may hold keys and tokens: they stay out of the log. */
static struct slice without_query(struct slice url)
{
    const char *mark = url.len == 0 ? NULL : memchr(url.base, '?', url.len);

    return mark == NULL ? url : slice_of(url.base, (size_t)(mark - url.base));
}

static struct slice field(const struct exchange *exchange, struct slice name)
{
    for (size_t i = 0; i < exchange->field_count; i++)
        if (slice_eq(exchange->fields[i].name, name))
            return exchange->fields[i].value;
    return slice_of(NULL, 0);
}

void stage_account(struct exchange *exchange)
{
    const struct request_head *head = exchange->head;
    int64_t took_us = clock_mono_us() - exchange->began_us;
    bool has_left = exchange->stage != STAGE_ANSWERED;
    int status = exchange->is_started ? exchange->status : CLIENT_LEFT_STATUS;
    char principal[PRINCIPAL_HEX];
    struct access_record record = {
        .took_us = took_us,
        .upstream_us = exchange->upstream_us,
        .limit_wait_us = exchange->limit_wait_us,
        .peer = slice_of(principal, sizeof(principal)),
        .method = head->method,
        .target = without_query(head->target),
        .host = head->authority,
        .route = slice_text(exchange->route == NULL ? NULL : exchange->route->match),
        .user_agent = field(exchange, SLICE("user-agent")),
        .referer = without_query(field(exchange, SLICE("referer"))),
        .status = status,
        .body_bytes = exchange->body_bytes,
        .was_tunnel = exchange->tunnel != NULL,
        .received_bytes = exchange->received_bytes,
        .cache = exchange->has_result && exchange->is_started ? cache_result_name(exchange->result) : NULL,
        .code = exchange->code,
        .limit = exchange->refusing_limit,
        .degraded = exchange->limits.is_degraded || (exchange->bill != NULL && exchange->bill->is_degraded),
        .client_left = has_left,
    };

    /* A tunnel lasts as long as its ends like: what it took to open it is what says something of us. */
    site_count_request(exchange->site, exchange->route, status,
                       exchange->tunnel == NULL ? took_us : exchange->opened_us);
    if (exchange->is_cache_route && exchange->has_result && exchange->is_started)
        site_count_cache(exchange->site, exchange->route, exchange->result);
    if (!access_log_is_on())
        return;
    write_principal(exchange, principal);
    record.at_wall_us = clock_wall_us();
    access_log_write(&record);
}
