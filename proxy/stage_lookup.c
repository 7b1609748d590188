/* Lookup: near cache, then store. Fresh: deliver. Stale but servable: deliver, and refresh behind. Absent:
 * lead, or ride. */
#include "exchange.h"
#include "cache_key.h"
#include "digest.h"
#include "hop_headers.h"
#include "loop.h"
#include "part.h"
#include "response_control.h"
#include "variant.h"

enum { KEY_ROOM = 16 << 10 };

static struct slice field_of(const struct exchange *exchange, struct slice name)
{
    for (size_t i = 0; i < exchange->field_count; i++)
        if (slice_eq(exchange->fields[i].name, name))
            return exchange->fields[i].value.base == NULL ? SLICE("") : exchange->fields[i].value;
    return slice_of(NULL, 0);
}

static bool has_field(const struct exchange *exchange, struct slice name)
{
    return field_of(exchange, name).base != NULL;
}

static bool is_head(const struct exchange *exchange)
{
    return slice_eq(exchange->head->method, SLICE("HEAD"));
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
    struct storing_request facts;

    if (!is_head(exchange) && !slice_eq(exchange->head->method, SLICE("GET")))
        return "method";
    if (exchange->head->upgrade.base != NULL)
        return "upgrade";
    if (asks_for_other_method(exchange))
        return "method-override";
    if (exchange->head->body.len > 0)
        return "body";
    storing_request_read(SLICE("GET"), exchange->fields, exchange->field_count, &facts);
    if (facts.control.no_store)
        return "request";
    conditions_read(exchange->fields, exchange->field_count, &exchange->conditions);
    if (exchange->conditions.is_for_origin)
        return "condition";
    reuse_wish_read(exchange->fields, exchange->field_count, &exchange->wish);
    exchange->range = field_of(exchange, SLICE("range"));
    exchange->plan.has_authorization =
        facts.has_authorization && !exchange->route->cache->shared_with_authorization;
    exchange->is_shaped = true;
    return NULL;
}

bool passes_cache_by(struct exchange *exchange)
{
    if (!exchange->is_judged) {
        exchange->is_judged = true;
        exchange->passing_why = exchange->route->cache == NULL ? NULL : reason_to_bypass(exchange);
        exchange->passes_cache = exchange->route->cache == NULL || exchange->passing_why != NULL;
    }
    return exchange->passes_cache;
}

static bool make_key(struct exchange *exchange)
{
    struct cache_key_parts parts = {
        .method = SLICE("GET"),
        .is_tls = exchange->head->is_tls,
        .authority = exchange->head->authority,
        .target = exchange->head->target,
        .rule = &exchange->route->cache->key,
        .headers = exchange->fields,
        .header_count = exchange->field_count,
        .told_scheme = forwarded_told(exchange->fields, exchange->field_count, SLICE("x-forwarded-proto"),
                                      exchange->peer_is_trusted),
        .told_host = forwarded_told(exchange->fields, exchange->field_count, SLICE("x-forwarded-host"),
                                    exchange->peer_is_trusted),
    };
    char text[KEY_ROOM];
    size_t len = cache_key_write(&parts, text, sizeof(text));
    struct slice whole = slice_of(text, len), varied;

    if (len > sizeof(text)) /* or none can be made */
        return false;
    digest_sha256(&whole, 1, exchange->plan.key.bytes);
    exchange->own_key = exchange->plan.key;
    varied = exchange->route->cache->key_varied;
    if (varied.len > 0)
        memcpy(exchange->plan.varied, varied.base, varied.len);
    exchange->plan.varied_len = varied.len;
    return true;
}

static bool has_key(struct exchange *exchange)
{
    exchange->has_key = exchange->has_key || make_key(exchange);
    return exchange->has_key;
}

static void make_plan(struct exchange *exchange)
{
    struct load_plan *plan = &exchange->plan;
    const struct cache_rule *rule = exchange->route->cache;
    struct slice *tags = client_alloc(exchange->client, (rule->tag_count + 2) * sizeof(*tags));
    struct slice target = exchange->head->target, told_host = told_host_in_one_spelling(exchange);
    struct slice uri = uri_tag(exchange, rule, exchange->head->authority, target);

    plan->site = exchange->site;
    plan->route = exchange->route;
    plan->tag_count = expand_tags(exchange, rule->tags, rule->tag_count, tags);
    if (uri.base != NULL) /* make_key() would have failed */
        tags[plan->tag_count++] = uri;
    if (uri.base != NULL && told_host.len > 0 && !slice_eq(told_host, exchange->head->authority)) {
        uri = uri_tag(exchange, rule, told_host, target); /* who purges knows it by that name */
        if (uri.base != NULL)
            tags[plan->tag_count++] = uri;
    }
    plan->tags = tags;
    if (exchange->bill != NULL) {
        plan->charges = exchange->bill->charges;
        plan->charge_count = exchange->bill->charge_count;
    }
    build_origin_request(exchange, true, &plan->request);
}

/* Made when it is first needed: a fresh copy that is near needs none. */
static struct load_plan *plan_of(struct exchange *exchange)
{
    if (exchange->plan.site == NULL)
        make_plan(exchange);
    return &exchange->plan;
}

static void go_alone(struct exchange *exchange, enum cache_forward forward, const char *detail)
{
    exchange->has_result = true;
    exchange->result = CACHE_BYPASS;
    exchange->forward = forward;
    exchange->cache_detail = detail;
    exchange->goes_alone = true;
    stage_pay(exchange);
}

/* The request wants it fresher than it is: the upstream is asked, for this client alone. */
static void validate(struct exchange *exchange, struct object *object /* taken, or NULL */,
                     enum cache_forward forward, const char *detail)
{
    exchange->basis = object;
    if (object != NULL)
        plan_of(exchange); /* by which the copy is confirmed */
    go_alone(exchange, forward, detail);
}

static int64_t now_ms(const struct exchange *exchange)
{
    return loop_now(exchange->story->loop).ms;
}

static bool suits(const struct exchange *exchange, const struct object *object)
{
    int64_t now = now_ms(exchange);

    return reuse_suits(&exchange->wish, now - object->born.ms, object->fresh_until.ms - now);
}

/* What is stored may be another client's, or nobody's in particular: whom the upstream knows by Authorization gets it where
 * it says that this makes no difference (RFC 9111 section 3.5). */
static bool may_have(const struct exchange *exchange, const struct object *object)
{
    struct cache_control control;

    if (!exchange->plan.has_authorization)
        return true;
    response_control_parse(object->headers, object->header_count, &control);
    return control.permits_authorization;
}

/* From a load or from the store: is it as fresh as the request wants it? What was asked for just now is. */
static void deliver_landed(struct exchange *exchange, struct rider *rider)
{
    if (rider->result == CACHE_REVALIDATED) {
        exchange->forward = rider->wants_new ? FORWARD_REQUEST : FORWARD_STALE;
        exchange->is_stored = rider->is_stored;
        exchange->upstream_us = rider->waited_us;
    } else if (!may_have(exchange, rider->object)) {
        object_release(&rider->object);
        go_alone(exchange, FORWARD_BYPASS, "authorization");
        return;
    } else if (!suits(exchange, rider->object)) {
        validate(exchange, rider->object, FORWARD_REQUEST, NULL);
        return;
    }
    stage_deliver_object(exchange, rider->object);
}

static void on_paid(void *arg)
{
    wait_no_longer(arg);
}

static void on_landed(void *arg)
{
    struct exchange *exchange = arg;
    struct rider *rider = &exchange->rider;

    exchange->has_result = true;
    exchange->result = rider->result;
    exchange->cache_detail = rider->why;
    stage_settle_landed(exchange);
    if (rider->is_refused &&
        rider->outcome != BOARDING_REFUSED) /* another one paid: nothing was refused to this one */
        memset(exchange->bill->has_state, 0, sizeof(exchange->bill->has_state));
    if (rider->outcome != BOARDING_REFUSED && rider->outcome != BOARDING_ALONE)
        wait_no_longer(exchange); /* there was nothing to pay */
    switch (rider->outcome) {
    case BOARDING_OBJECT: deliver_landed(exchange, rider); return;
    case BOARDING_STREAM:
        exchange->forward = rider->wants_new    ? FORWARD_REQUEST
                            : rider->is_renewal ? FORWARD_STALE
                                                : FORWARD_MISS;
        exchange->is_stored = rider->is_stored;
        if (rider->result == CACHE_MISS)
            exchange->upstream_us = rider->stream->waited_us;
        stage_deliver_stream(exchange, rider->stream);
        return;
    case BOARDING_ALONE:
        validate(exchange, rider->object, rider->wants_new ? FORWARD_REQUEST : FORWARD_MISS, rider->why);
        return;
    case BOARDING_FAILED:
        exchange->has_result = false;
        if (rider->fault != FAULT_NONE)
            refuse_fault(exchange, rider->fault);
        else
            refuse_upstream_status(exchange, rider->status);
        return;
    case BOARDING_REFUSED: stage_refused(exchange, exchange->bill); return;
    }
}

static void board(struct exchange *exchange)
{
    exchange->rider.plan = plan_of(exchange);
    exchange->rider.bill = exchange->bill;
    exchange->rider.wants_part = exchange->range.base != NULL && !exchange->plan.is_part;
    exchange->rider.landed = on_landed;
    exchange->rider.paid = on_paid;
    exchange->rider.informed = stage_inform;
    exchange->rider.arg = exchange;
    flight_board(exchange->story->flights, &exchange->rider);
}

void look_up_again(struct exchange *exchange)
{
    board(exchange);
}

/* The request wants it newer than it is: what the upstream says now takes the place of what is stored. A part alone is
 * asked for by itself. */
static void renew(struct exchange *exchange, struct object *object /* taken, or NULL */)
{
    if (exchange->range.base != NULL) {
        validate(exchange, object, FORWARD_REQUEST, object == NULL ? "request" : NULL);
        return;
    }
    object_release(&object);
    exchange->rider.wants_new = true;
    board(exchange);
}

void deliver_copy(struct exchange *exchange, struct object *object)
{
    exchange->has_result = true;
    exchange->result = now_ms(exchange) < object->fresh_until.ms ? CACHE_HIT : CACHE_STALE;
    stage_deliver_object(exchange, object);
}

/* Stale by every rule of ours, but the request says that it will do. */
static bool will_do(const struct exchange *exchange, const struct object *object)
{
    struct cache_control control;
    int64_t now = now_ms(exchange);

    response_control_parse(object->headers, object->header_count, &control);
    return reuse_takes_stale(&exchange->wish, &control, now - object->born.ms, object->fresh_until.ms - now);
}

/* Down the rules that are near, to the request's own variant, as far as they go. */
static struct object *find_near(struct exchange *exchange)
{
    struct near *near = exchange->story->store->near;
    struct mono_ms now = loop_now(exchange->story->loop);
    struct object *object;

    while ((object = near_find(near, &exchange->plan.key, now)) != NULL && object_is_rule(object)) {
        bool leads_on = now.ms < object->fresh_until.ms && variant_follow_rule(plan_of(exchange), object);

        object_release(&object);
        if (!leads_on)
            return NULL;
    }
    return object != NULL || exchange->plan.varied_len == 0
               ? object
               : variant_find_preferred(near, &exchange->plan, now);
}

/* True: answered from what is near, or with what the upstream says of it. */
static bool use_near(struct exchange *exchange)
{
    struct object *object = find_near(exchange);
    bool is_servable = object != NULL && now_ms(exchange) < object->stale_until.ms;

    if (object == NULL)
        return false;
    if (!may_have(exchange, object)) {
        object_release(&object);
        if (exchange->wish.control.only_if_cached)
            return false;
        go_alone(exchange, FORWARD_BYPASS, "authorization");
        return true;
    }
    if (is_servable ? suits(exchange, object) : will_do(exchange, object)) {
        if (exchange->limits.is_degraded)
            site_count_degraded(exchange->site, DEGRADED_CACHE_SERVED);
        if (is_servable && now_ms(exchange) >= object->fresh_until.ms)
            flight_refresh(exchange->story->flights, plan_of(exchange));
        deliver_copy(exchange, object);
        return true;
    }
    if (is_servable && !exchange->wish.control.only_if_cached && !is_head(exchange)) {
        renew(exchange, object);
        return true;
    }
    object_release(&object);
    return false;
}

/* ---- a look that loads nothing ---- */

static void look_at_store(struct exchange *exchange);

static void on_looked(void *arg, enum fault fault, const struct lookup_answer *answer)
{
    struct exchange *exchange = arg;
    struct store *store = exchange->story->store;
    struct object *object = fault == FAULT_NONE ? answer->object : NULL;

    exchange->look = NULL;
    if (object != NULL && object_is_rule(object)) {
        if (answer->kind == LOOKUP_FRESH && variant_follow_rule(plan_of(exchange), object)) {
            look_at_store(exchange);
            return;
        }
        object = NULL;
    }
    if (object != NULL && near_outdates(store->near, object))
        object = NULL;
    if (object != NULL && answer->kind != LOOKUP_ABSENT && store->is_shared)
        near_put(store->near, object);
    exchange->looked(exchange, object == NULL ? NULL : object_hold(object));
}

static void look_at_store(struct exchange *exchange)
{
    const struct load_plan *plan = plan_of(exchange);
    struct lookup_ask ask = {.key = plan->key, .tags = plan->tags, .tag_count = plan->tag_count};

    exchange->look = store_lookup(exchange->story->store, &ask, on_looked, exchange);
}

/* Is what is near up to date as of this request? The decision on its limits told, or the push did, or nobody can. */
static bool trusts_near(const struct exchange *exchange)
{
    const struct store *store = exchange->story->store;

    return exchange->limits.epoch_is_known || !store->is_shared ||
           (store->is_pushed && site_settings(exchange->site)->store.consistency == CONSISTENCY_PUSH) ||
           (exchange->limits.is_degraded && !exchange->route->cache->bypass_on_store_failure);
}

/* Fresh, or stale with leave to be served so. */
static bool is_within_windows(const struct exchange *exchange, const struct object *copy)
{
    int64_t now = now_ms(exchange);

    return now < copy->fresh_until.ms || now < copy->stale_until.ms || now < copy->error_until.ms;
}

bool may_stand_in(const struct exchange *exchange, const struct object *copy)
{
    if (!may_have(exchange, copy))
        return false;
    return is_within_windows(exchange, copy) ? suits(exchange, copy) : will_do(exchange, copy);
}

void look_for_copy(struct exchange *exchange, look_done *done)
{
    struct object *near;

    exchange->looked = done;
    exchange->is_cache_route = exchange->route->cache != NULL;
    if (passes_cache_by(exchange) || !has_key(exchange)) {
        done(exchange, NULL);
        return;
    }
    near = trusts_near(exchange) ? find_near(exchange) : NULL;
    if (near != NULL && is_within_windows(exchange, near)) {
        done(exchange, near);
        return;
    }
    object_release(&near); /* there may be a newer one */
    look_at_store(exchange);
}

/* For a request that is never loaded for: HEAD, whose answer has no body to store, or one that wants what is stored or nothing. */
static void on_copy(struct exchange *exchange, struct object *copy)
{
    int64_t now = now_ms(exchange);
    bool is_servable = copy != NULL && now < copy->stale_until.ms && may_have(exchange, copy);

    if (is_servable && suits(exchange, copy)) {
        if (now >= copy->fresh_until.ms)
            flight_refresh(exchange->story->flights, plan_of(exchange));
        deliver_copy(exchange, copy);
        return;
    }
    object_release(&copy);
    if (exchange->wish.control.only_if_cached)
        refuse(exchange, 504, "only_if_cached", "Nothing is stored that this request would take.");
    else
        go_alone(exchange, is_servable ? FORWARD_REQUEST : FORWARD_MISS, NULL);
}

/* ---- a part of what is not near ---- */

/* If-Range wants the whole where it has changed: that is the whole's to decide. */
static bool wants_part_alone(struct exchange *exchange)
{
    struct text part;

    if (exchange->range.base == NULL || exchange->conditions.if_range.base != NULL)
        return false;
    part = text_in(client_alloc(exchange->client, RANGE_TEXT_ROOM), RANGE_TEXT_ROOM);
    if (!range_is_part(exchange->range, &part))
        return false;
    exchange->part = text_slice(&part);
    return true;
}

static bool is_takeable(const struct exchange *exchange, const struct object *part)
{
    return now_ms(exchange) < part->fresh_until.ms && may_have(exchange, part) && suits(exchange, part);
}

/* What was loaded for the same range is the answer as it is; of the latest part perhaps some bytes are. */
static bool use_near_part(struct exchange *exchange)
{
    struct near *near = exchange->story->store->near;
    struct mono_ms now = loop_now(exchange->story->loop);
    struct byte_range given;
    int64_t skip_bytes, whole;
    struct object *part = part_find_near(near, &exchange->plan.key, exchange->part, now);

    if (part != NULL && is_takeable(exchange, part)) {
        deliver_copy(exchange, part);
        return true;
    }
    object_release(&part);
    part = part_find_near(near, &exchange->plan.key, SLICE(""), now);
    if (part != NULL && is_takeable(exchange, part) &&
        part_gives(part, exchange->range, &given, &skip_bytes, &whole)) {
        exchange->cuts_part = true;
        deliver_copy(exchange, part);
        return true;
    }
    object_release(&part);
    return false;
}

static void board_for_part(struct exchange *exchange)
{
    struct load_plan *plan = plan_of(exchange);
    struct header *room = client_alloc(exchange->client, (plan->request.header_count + 1) * sizeof(*room));

    part_plan(plan, exchange->part, room);
    board(exchange);
}

static void on_whole(struct exchange *exchange, struct object *whole)
{
    int64_t now = now_ms(exchange);

    if (whole != NULL && now < whole->stale_until.ms && may_have(exchange, whole) && suits(exchange, whole)) {
        if (now >= whole->fresh_until.ms)
            flight_refresh(exchange->story->flights, plan_of(exchange));
        deliver_copy(exchange, whole);
        return;
    }
    object_release(&whole);
    board_for_part(exchange);
}

/* The whole where it is stored or on its way here, else the part alone. */
static void look_for_part(struct exchange *exchange)
{
    if (use_near_part(exchange))
        return;
    if (flights_have(exchange->story->flights, &exchange->plan.key)) {
        board(exchange);
        return;
    }
    exchange->looked = on_whole;
    look_at_store(exchange);
}

/* ---- whoever takes what is stale ---- */

static void on_stale(struct exchange *exchange, struct object *copy)
{
    int64_t now = now_ms(exchange);
    bool is_servable = copy != NULL && now < copy->stale_until.ms;

    if (copy != NULL && may_have(exchange, copy) &&
        (is_servable ? suits(exchange, copy) : will_do(exchange, copy))) {
        if (is_servable && now >= copy->fresh_until.ms)
            flight_refresh(exchange->story->flights, plan_of(exchange));
        deliver_copy(exchange, copy);
        return;
    }
    object_release(&copy);
    board(exchange);
}

static bool may_use_near(const struct exchange *exchange)
{
    return exchange->limits.epoch_is_known || !exchange->route->cache->bypass_on_store_failure;
}

void stage_lookup(struct exchange *exchange)
{
    bool passes = passes_cache_by(exchange);
    const char *why = exchange->passing_why;

    if (exchange->is_last_hop) {
        answer_as_last_hop(exchange);
        return;
    }
    exchange->is_cache_route = exchange->route->cache != NULL;
    if (passes || !has_key(exchange)) {
        go_alone(exchange, why != NULL && strcmp(why, "method") == 0 ? FORWARD_METHOD : FORWARD_BYPASS, why);
        return;
    }
    if (!may_use_near(exchange)) {
        site_count_degraded(exchange->site, DEGRADED_CACHE_BYPASSED);
        go_alone(exchange, FORWARD_BYPASS, "store-away");
        return;
    }
    if (use_near(exchange))
        return;
    if (exchange->wish.control.only_if_cached || is_head(exchange)) {
        exchange->looked = on_copy;
        look_at_store(exchange); /* what is near was not to its liking */
    } else if (exchange->wish.control.no_cache)
        renew(exchange, NULL);
    else if (exchange->wish.control.max_stale_s != CACHE_SECONDS_ABSENT) {
        exchange->looked =
            on_stale; /* on another node it may be stored: the load would bring a newer one, unasked */
        look_at_store(exchange);
    } else if (wants_part_alone(exchange))
        look_for_part(exchange);
    else
        board(exchange);
}
