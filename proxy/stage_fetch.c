/* Fetch: one upstream request for one client alone. */
#include "exchange.h"
#include "hop_headers.h"
#include "load_answer.h"
#include "loop.h"
#include "text.h"

enum { FORWARDED_ROOM = 512, CODINGS_ROOM = 32 };

/* ---- the request ---- */

static bool is_one_clients_own(struct slice name)
{
    static const struct slice NAMES[] = {
        {"if-none-match", 13},       {"if-modified-since", 17}, {"if-match", 8},
        {"if-unmodified-since", 19}, {"if-range", 8},           {"range", 5},
        {"accept-encoding", 15},
    };

    for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++)
        if (slice_eq(name, NAMES[i]))
            return true;
    return false;
}

static size_t add_field(struct header *out, size_t count, struct slice name, struct slice value)
{
    if (value.base == NULL)
        return count;
    out[count] = (struct header){name, value};
    return count + 1;
}

static size_t add_forwarded(struct exchange *exchange, struct header *out, size_t count)
{
    const struct request_head *head = exchange->head;
    struct forwarded_facts facts = {
        .peer_text = head->peer_text,
        .authority = head->authority,
        .is_tls = head->is_tls,
        .is_http10 = head->is_http10,
        .peer_is_trusted = exchange->peer_is_trusted,
        .via_name = SLICE("weir"),
    };
    struct forwarded forwarded = {0};
    char *room = client_alloc(exchange->client, FORWARDED_ROOM);
    size_t needed =
        forwarded_write(&facts, exchange->fields, exchange->field_count, room, FORWARDED_ROOM, &forwarded);

    if (needed > FORWARDED_ROOM) {
        room = client_alloc(exchange->client, needed);
        forwarded_write(&facts, exchange->fields, exchange->field_count, room, needed, &forwarded);
    }
    count = add_field(out, count, SLICE("x-forwarded-for"), forwarded.x_forwarded_for);
    count = add_field(out, count, SLICE("x-forwarded-proto"), forwarded.x_forwarded_proto);
    count = add_field(out, count, SLICE("x-forwarded-host"), forwarded.x_forwarded_host);
    return add_field(out, count, SLICE("via"), forwarded.via);
}

static struct slice rewritten(struct exchange *exchange)
{
    const struct template *rewrite = exchange->route->rewrite;
    struct slice target = exchange->head->target, query = exchange->query;
    size_t len, room;
    char *out;

    if (rewrite == NULL)
        return target;
    len =
        template_expand(rewrite, &exchange->values, exchange->fields, exchange->field_count, query, NULL, 0);
    if (len == SIZE_MAX)
        return target;
    room = len + 1 + query.len;
    out = client_alloc(exchange->client, room);
    template_expand(rewrite, &exchange->values, exchange->fields, exchange->field_count, query, out, len);
    if (query.base == target.base + target.len) /* no '?' at all */
        return slice_of(out, len);
    out[len] = '?';
    if (query.len > 0)
        memcpy(out + len + 1, query.base, query.len);
    return slice_of(out, room);
}

/* A client of HTTP/1.0 need not name a host; an upstream of HTTP/1.1 must be told one: then its own. */
static struct slice authority_for(struct exchange *exchange)
{
    const struct upstream_rule *upstream = exchange->route->upstream;
    struct slice host = slice_text(upstream->host);
    bool is_ipv6 = memchr(host.base, ':', host.len) != NULL;
    size_t room = host.len + 2 + 1 + TEXT_INT_ROOM;
    struct text text;

    if (exchange->head->authority.len > 0)
        return exchange->head->authority;
    text = text_in(client_alloc(exchange->client, room), room);
    text_add(&text, is_ipv6 ? SLICE("[") : SLICE(""));
    text_add(&text, host);
    text_add(&text, is_ipv6 ? SLICE("]:") : SLICE(":"));
    text_add_int(&text, upstream->port);
    return text_slice(&text);
}

/* Of what the client takes, what we know how to tell apart: clients that differ in nothing else share an answer.
 */
static size_t add_codings(struct exchange *exchange, struct header *out, size_t count)
{
    struct text text = text_in(client_alloc(exchange->client, CODINGS_ROOM), CODINGS_ROOM);

    vary_write_codings(exchange->fields, exchange->field_count, &text);
    return text.len == 0 ? count : add_field(out, count, SLICE("accept-encoding"), text_slice(&text));
}

/* Some of what the route invalidates is named in the answer's JSON. */
static bool reads_answer(const struct exchange *exchange)
{
    for (size_t i = 0; i < exchange->route->invalidate_count; i++)
        if (template_asks_answer(&exchange->route->invalidates[i]))
            return true;
    return false;
}

void build_origin_request(struct exchange *exchange, bool shared, struct origin_request *out)
{
    struct header *headers = client_alloc(exchange->client, (exchange->field_count + 5) * sizeof(*headers));
    size_t count = 0;

    for (size_t i = 0; i < exchange->field_count; i++) {
        const struct header *field = &exchange->fields[i];

        if (forwarded_replaces(field->name, exchange->peer_is_trusted) ||
            (shared && (is_one_clients_own(field->name) || is_proxys_word(field->name))))
            continue;
        if (!shared && reads_answer(exchange) && slice_eq(field->name, SLICE("accept-encoding")))
            continue;
        headers[count++] = *field;
    }
    count = add_forwarded(exchange, headers, count);
    if (shared)
        count = add_codings(exchange, headers, count);
    else if (reads_answer(exchange))
        count = add_field(headers, count, SLICE("accept-encoding"), SLICE("identity"));
    *out = (struct origin_request){
        .method = shared ? SLICE("GET") : exchange->head->method,
        .target = rewritten(exchange),
        .authority = authority_for(exchange),
        .headers = headers,
        .header_count = count,
        .body = shared ? slice_of(NULL, 0) : exchange->head->body,
        .upgrade = shared ? slice_of(NULL, 0) : exchange->head->upgrade,
    };
}

size_t expand_tags(struct exchange *exchange, const struct template *templates, size_t count,
                   struct slice *out)
{
    size_t made = 0;

    for (size_t i = 0; i < count; i++) {
        size_t len = tag_expand(&templates[i], &exchange->values, exchange->fields, exchange->field_count,
                                exchange->query, NULL, 0);
        char *text;

        if (len == SIZE_MAX || len == 0)
            continue;
        text = client_alloc(exchange->client, len);
        tag_expand(&templates[i], &exchange->values, exchange->fields, exchange->field_count, exchange->query,
                   text, len);
        out[made++] = slice_of(text, len);
    }
    return made;
}

/* ---- the answer ---- */

/* The copy that was asked about is still what it was: this client gets it, with the fields as they are now.
 */
static void deliver_basis(struct exchange *exchange)
{
    struct load_answer answer = {.tag_count = 0};
    struct lifetimes lifetimes;
    struct object *object;
    const char *why;

    load_answer_judge_copy(&answer, exchange->basis, exchange->alone, &exchange->plan, &why);
    load_answer_finish_copy(&answer, exchange->basis, exchange->alone, &exchange->plan,
                            exchange->basis->epoch, &lifetimes);
    object = object_hold(answer.object);
    load_answer_clear(&answer);
    exchange->result = CACHE_REVALIDATED;
    stage_deliver_object(exchange, object);
}

static bool is_confirmation(const struct exchange *exchange)
{
    return exchange->basis != NULL && exchange->alone->status == 304;
}

static void on_head(void *arg)
{
    struct exchange *exchange = arg;

    exchange->upstream_us = exchange->alone->waited_us;
    stage_settle_head(exchange, exchange->alone->headers, exchange->alone->header_count);
    if (is_confirmation(exchange)) /* at its end, so that its connection can serve again */
        return;
    if (exchange->alone->tunnel != NULL) {
        stage_tunnel(exchange);
        return;
    }
    change_answered(exchange);
}

/* Before a head came there is nothing to deliver; after it, the reader sees the end for itself. */
static void on_end(void *arg)
{
    struct exchange *exchange = arg;

    if (!exchange->alone->has_head || (is_confirmation(exchange) && exchange->alone->fault != FAULT_NONE)) {
        change_in_doubt(exchange);
        refuse_fault(exchange, exchange->alone->fault);
    } else if (is_confirmation(exchange))
        deliver_basis(exchange);
    else
        change_body_came(exchange, exchange->alone->fault == FAULT_NONE);
}

static void on_overflow(void *arg)
{
    change_body_came(arg, false);
}

void stage_inform(void *arg, const struct origin_response *interim)
{
    struct exchange *exchange = arg;

    client_inform(exchange->client, interim->status, interim->headers, interim->header_count);
}

static const struct stream_owner ALONE = {
    .on_head = on_head, .on_overflow = on_overflow, .on_end = on_end, .on_interim = stage_inform};

void stage_fetch(struct exchange *exchange)
{
    struct origin_request request;

    if (exchange->basis != NULL) {
        struct header *room =
            client_alloc(exchange->client, (exchange->plan.request.header_count + 2) * sizeof(struct header));

        if (!plan_validation(&exchange->plan, exchange->basis, room, &request))
            object_release(&exchange->basis);
    } else {
        exchange->is_shaped = false; /* the upstream has the client's conditions */
        build_origin_request(exchange, false, &request);
    }
    change_expand(exchange);
    exchange->alone_authority = request.authority;
    exchange->alone = stream_start(exchange->site, exchange->route->upstream, &request, &ALONE, exchange);
}
