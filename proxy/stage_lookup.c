/* Lookup: near cache, then store. Fresh: deliver. Stale but servable: deliver, and refresh behind. Absent:
 * lead, or ride. */
#include "exchange.h"
#include "cache_key.h"
#include "digest.h"
#include "hop_headers.h"
#include "loop.h"

enum { KEY_ROOM = 16 << 10 };

static bool has_field(const struct exchange *exchange, struct slice name)
{
    for (size_t i = 0; i < exchange->field_count; i++)
        if (slice_eq(exchange->fields[i].name, name))
            return true;
    return false;
}

/* An upstream that honours one of these answers another method's question (it may even do what DELETE does):
 * that is no copy for who asks with GET. */
static bool asks_for_other_method(const struct exchange *exchange)
{
    return has_field(exchange, SLICE("x-http-method-override")) ||
           has_field(exchange, SLICE("x-http-method")) || has_field(exchange, SLICE("x-method-override"));
}

/* Why this request goes past the cache, or NULL. */
static const char *reason_to_bypass(struct exchange *exchange)
{
    const struct cache_rule *rule = exchange->route->cache;
    bool is_head = slice_eq(exchange->head->method, SLICE("HEAD"));
    struct storing_request facts;

    if (!is_head && !slice_eq(exchange->head->method, SLICE("GET")))
        return "method";
    if (asks_for_other_method(exchange))
        return "method-override";
    if (exchange->head->body.len > 0)
        return "body";
    storing_request_read(SLICE("GET"), exchange->fields, exchange->field_count, &facts);
    if (facts.has_authorization && !rule->shared_with_authorization)
        return "authorization";
    if (facts.control.no_store || facts.control.no_cache)
        return "request";
    if (facts.has_range || has_field(exchange, SLICE("if-range")))
        return "range";
    exchange->plan.has_authorization = facts.has_authorization;
    return NULL;
}

static bool make_key(struct exchange *exchange)
{
    struct cache_key_parts parts = {
        .method = SLICE("GET"),
        .is_tls = exchange->head->is_tls,
        .authority = exchange->head->authority,
        .target = exchange->head->target,
        .ignores_query = exchange->route->cache->key_query == KEY_QUERY_NONE,
        .told_scheme = forwarded_told(exchange->fields, exchange->field_count, SLICE("x-forwarded-proto"),
                                      exchange->peer_is_trusted),
        .told_host = forwarded_told(exchange->fields, exchange->field_count, SLICE("x-forwarded-host"),
                                    exchange->peer_is_trusted),
    };
    char text[KEY_ROOM];
    size_t len = cache_key_write(&parts, text, sizeof(text));
    struct slice whole = slice_of(text, len);

    if (len > sizeof(text))
        return false;
    digest_sha256(&whole, 1, exchange->plan.key.bytes);
    return true;
}

static void make_plan(struct exchange *exchange)
{
    struct load_plan *plan = &exchange->plan;
    const struct cache_rule *rule = exchange->route->cache;
    struct slice *tags = client_alloc(exchange->client, (rule->tag_count + 1) * sizeof(*tags));

    plan->site = exchange->site;
    plan->route = exchange->route;
    plan->tag_count = expand_tags(exchange, rule->tags, rule->tag_count, tags);
    plan->tags = tags;
    build_origin_request(exchange, true, &plan->request);
}

static void go_alone(struct exchange *exchange, enum cache_forward forward, const char *detail)
{
    exchange->has_result = true;
    exchange->result = CACHE_BYPASS;
    exchange->forward = forward;
    exchange->cache_detail = detail;
    move_to(exchange, STAGE_FETCHING);
    stage_fetch(exchange);
}

static void on_landed(void *arg)
{
    struct exchange *exchange = arg;
    struct rider *rider = &exchange->rider;

    exchange->has_result = true;
    exchange->result = rider->result;
    exchange->cache_detail = rider->why;
    switch (rider->outcome) {
    case BOARDING_OBJECT: stage_deliver_object(exchange, rider->object); return;
    case BOARDING_STREAM:
        exchange->forward = FORWARD_MISS;
        exchange->is_stored = rider->is_stored;
        if (rider->result == CACHE_MISS)
            exchange->upstream_us = rider->stream->waited_us;
        stage_deliver_stream(exchange, rider->stream);
        return;
    case BOARDING_ALONE: go_alone(exchange, FORWARD_MISS, rider->why); return;
    case BOARDING_FAILED:
        exchange->has_result = false;
        if (rider->fault != FAULT_NONE)
            refuse_fault(exchange, rider->fault);
        else
            refuse_upstream_status(exchange, rider->status);
        return;
    }
}

static void board(struct exchange *exchange)
{
    make_plan(exchange);
    exchange->rider.plan = &exchange->plan;
    exchange->rider.landed = on_landed;
    exchange->rider.arg = exchange;
    flight_board(exchange->story->flights, &exchange->rider);
}

static void serve_near(struct exchange *exchange, struct object *object, bool is_fresh)
{
    if (exchange->limits.is_degraded)
        site_count_degraded(exchange->site, DEGRADED_CACHE_SERVED);
    exchange->has_result = true;
    exchange->result = is_fresh ? CACHE_HIT : CACHE_STALE;
    if (!is_fresh) {
        make_plan(exchange);
        flight_refresh(exchange->story->flights, &exchange->plan);
    }
    stage_deliver_object(exchange, object);
}

static bool may_use_near(const struct exchange *exchange)
{
    return exchange->limits.epoch_is_known || !exchange->route->cache->bypass_on_store_failure;
}

void stage_lookup(struct exchange *exchange)
{
    struct mono_ms now = loop_now(exchange->story->loop);
    struct object *object;
    const char *bypass;

    if (exchange->route->cache == NULL) {
        go_alone(exchange, FORWARD_BYPASS, NULL);
        return;
    }
    exchange->is_cache_route = true;
    bypass = reason_to_bypass(exchange);
    if (bypass != NULL || !make_key(exchange)) {
        go_alone(exchange, bypass != NULL && strcmp(bypass, "method") == 0 ? FORWARD_METHOD : FORWARD_BYPASS,
                 bypass);
        return;
    }
    if (!may_use_near(exchange)) {
        site_count_degraded(exchange->site, DEGRADED_CACHE_BYPASSED);
        go_alone(exchange, FORWARD_BYPASS, "store-away");
        return;
    }
    object = near_find(exchange->story->store->near, &exchange->plan.key, now);
    if (object != NULL && now.ms < object->stale_until.ms) {
        serve_near(exchange, object, now.ms < object->fresh_until.ms);
        return;
    }
    object_release(&object);
    if (slice_eq(exchange->head->method, SLICE("HEAD"))) /* its answer has no body to store */
        go_alone(exchange, FORWARD_MISS, NULL);
    else
        board(exchange);
}
