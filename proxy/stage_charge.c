/* Charge: of whose budgets does this request take how much? Plumbing between the request and
 * policies/limit_key and policies/cost. */
#include "exchange.h"
#include "json_body.h"
#include "planner.h"
#include "principals.h"

enum { NEAR_ROOM = 512 }; /* for the value of a key that is no longer than most */

/* A request while it is charged, limit by limit. */
struct charging {
    struct exchange *exchange;
    struct limit_key_facts facts;
    struct json_body *body; /* owned; read when a limit first asks */
    bool body_was_read;
};

/* ---- who is asking ---- */

/* LIMIT_KEY_ABSENT, LIMIT_KEY_AMBIGUOUS, or the length of *value, which is in the request's memory where it
 * does not fit into `near`. */
static size_t find_value(struct charging *charging, const struct limit_key *key, int ipv6_prefix,
                         char near[NEAR_ROOM], struct slice *value)
{
    size_t len = limit_key_write(key, &charging->facts, ipv6_prefix, near, NEAR_ROOM);
    char *room = near;

    if (len == LIMIT_KEY_ABSENT || len == LIMIT_KEY_AMBIGUOUS)
        return len;
    if (len > NEAR_ROOM) {
        room = client_alloc(charging->exchange->client, len);
        limit_key_write(key, &charging->facts, ipv6_prefix, room, len);
    }
    *value = slice_of(room, len);
    return len;
}

enum asking {
    ASKING_BY_KEY,
    ASKING_AMONG_OTHERS, /* by address, or with all that have no key */
    ASKING_NOBODY /* do not count */,
    ASKING_NAMELESS, /* the limit insists on a key */
    ASKING_AS_TWO    /* whose budgets they are would be the client's choice */
};

static void find_address_principal(struct charging *charging, const struct limit_rule *rule,
                                   unsigned char principal[16])
{
    struct address group = address_group(&charging->exchange->address, rule->ipv6_prefix);
    char text[46];

    principal_of(charging->exchange->story->principals, SLICE("ip"),
                 slice_of(text, address_write(&group, text)), principal);
}

static enum asking find_principal(struct charging *charging, const struct limit_rule *rule,
                                  unsigned char principal[16])
{
    struct principals *principals = charging->exchange->story->principals;
    char near[NEAR_ROOM];
    struct slice value;
    size_t len = find_value(charging, &rule->key, rule->ipv6_prefix, near, &value);

    if (len == LIMIT_KEY_AMBIGUOUS)
        return ASKING_AS_TWO;
    if (len != LIMIT_KEY_ABSENT) {
        principal_of(principals, rule->key.kind, value, principal);
        return ASKING_BY_KEY;
    }
    switch (rule->missing) {
    case MISSING_IP: find_address_principal(charging, rule, principal); return ASKING_AMONG_OTHERS;
    case MISSING_SHARED:
        principal_of(principals, rule->key.kind, SLICE(""), principal);
        return ASKING_AMONG_OTHERS;
    case MISSING_SKIP: return ASKING_NOBODY;
    case MISSING_REJECT: break;
    }
    return ASKING_NAMELESS;
}

/* Who asks among others has the default plan. The plan is that of the key's first part, which is the whole key of most. */
static void wish_for_plan(struct charging *charging, struct limit_charge *charge)
{
    const struct limit_rule *rule = charge->rule;
    struct exchange *exchange = charging->exchange;
    char near[NEAR_ROOM];
    struct plan_wish *wish;
    struct slice value;

    if (exchange->plans == NULL) {
        exchange->plans = client_alloc(exchange->client, sizeof(*exchange->plans));
        exchange->plans->site = exchange->site;
    }
    wish = &exchange->plans->wishes[exchange->plans->wish_count++];
    wish->charge = charge;
    memcpy(wish->own, charge->principal, sizeof(wish->own));
    if (rule->key.part_count == 1)
        memcpy(wish->caller, charge->principal, sizeof(wish->caller));
    else {
        find_value(charging, &rule->plan_key, rule->ipv6_prefix, near, &value);
        principal_of(exchange->story->principals, rule->plan_key.kind, value, wish->caller);
    }
    if (rule->unknown == UNKNOWN_BY_IP)
        find_address_principal(charging, rule, wish->address);
}

/* ---- what does it cost ---- */

static const struct objection no_objection = {.limit = NULL};

static struct objection object_to_cost(struct charging *charging, const struct limit_use *use,
                                       enum cost_problem problem)
{
    struct text words = text_in(client_alloc(charging->exchange->client, COST_WORDS_ROOM), COST_WORDS_ROOM);

    cost_words(&use->cost_rule, problem, &words);
    return (struct objection){.limit = use->rule,
                              .kind = problem == COST_PROBLEM_SIZE ? REFUSED_BODY_SIZE : REFUSED_BAD_COST,
                              .words = text_slice(&words)};
}

static struct objection read_body_cost(struct charging *charging, const struct limit_use *use, int64_t *cost)
{
    struct slice text = charging->exchange->head->body;
    int64_t number;

    if (text.len == 0)
        return no_objection;
    if (text.len > use->cost_rule.max_body_bytes)
        return object_to_cost(charging, use, COST_PROBLEM_SIZE);
    if (!charging->body_was_read) {
        charging->body_was_read = true;
        charging->body = json_body_read(text);
    }
    if (charging->body == NULL)
        return object_to_cost(charging, use, COST_PROBLEM_BODY);
    switch (json_body_look(charging->body, use->cost_rule.name.base, &number)) {
    case JSON_NOTHING: return no_objection;
    case JSON_WHOLE:
        if (cost_of_number(&use->cost_rule, number, cost) == COST_STATED)
            return no_objection;
        break;
    case JSON_OTHER: break;
    }
    return object_to_cost(charging, use, COST_PROBLEM_VALUE);
}

/* *cost stays where the request does not say. */
static struct objection read_cost(struct charging *charging, const struct limit_use *use, int64_t *cost)
{
    switch (use->cost_rule.source) {
    case COST_FIXED:
    case COST_OF_RESPONSE: return no_objection; /* the reserve */
    case COST_OF_HEADER:
    case COST_OF_QUERY:
        if (cost_of_text(&use->cost_rule, &charging->facts, cost) == COST_NOT_ALLOWED)
            return object_to_cost(charging, use, COST_PROBLEM_VALUE);
        return no_objection;
    case COST_OF_JSON: return read_body_cost(charging, use, cost);
    }
    return no_objection;
}

/* ---- all limits of the route ---- */

/* Who pays is known before the answer is looked for, and asked for it only where the upstream is to be asked: where that is plain from the
 * request, together with all other limits. */
static struct limit_request *request_for(struct exchange *exchange, const struct limit_rule *rule)
{
    if (rule->counts == COUNT_REQUESTS || passes_cache_by(exchange))
        return &exchange->limits;
    if (exchange->bill == NULL) {
        exchange->bill = client_alloc(exchange->client, sizeof(*exchange->bill));
        exchange->bill->site = exchange->site;
        exchange->bill->is_tentative = true; /* others may load what this one cannot pay for */
    }
    return exchange->bill;
}

static struct objection charge_limit(struct charging *charging, const struct limit_use *use)
{
    const struct limit_rule *rule = use->rule;
    struct limit_request *request = request_for(charging->exchange, rule);
    struct limit_charge *charge = &request->charges[request->charge_count];
    struct objection objection;
    enum asking asking = find_principal(charging, rule, charge->principal);

    switch (asking) {
    case ASKING_BY_KEY:
    case ASKING_AMONG_OTHERS: break;
    case ASKING_NOBODY: return no_objection;
    case ASKING_NAMELESS: return (struct objection){.limit = rule, .kind = REFUSED_KEY_MISSING};
    case ASKING_AS_TWO: return (struct objection){.limit = rule, .kind = REFUSED_KEY_AMBIGUOUS};
    }
    charge->rule = rule;
    charge->terms = &rule->terms;
    charge->cost = use->cost;
    charge->takes_hold =
        charge->terms->algorithm == LIMIT_CONCURRENCY || use->cost_rule.source == COST_OF_RESPONSE;
    charge->told_by = use->cost_rule.source == COST_OF_RESPONSE ? &use->cost_rule : NULL;
    objection = read_cost(charging, use, &charge->cost);
    if (objection.limit != NULL)
        return objection;
    request->charge_count++;
    if (asking == ASKING_BY_KEY && rule->plan_count > 0)
        wish_for_plan(charging, charge);
    return no_objection;
}

/* A limit in shadow objects to nothing. */
static struct objection charge_or_count(struct charging *charging, const struct limit_use *use)
{
    struct objection objection = charge_limit(charging, use);

    if (objection.limit == NULL || use->rule->mode == LIMIT_ENFORCED)
        return objection;
    site_count_limit(charging->exchange->site, use->rule, LIMIT_SHADOW_REFUSED);
    return no_objection;
}

struct objection charge_limits(struct exchange *exchange)
{
    const struct route_rule *route = exchange->route;
    struct objection objection = no_objection;
    struct charging charging = {
        .exchange = exchange,
        .facts = {.headers = exchange->fields,
                  .header_count = exchange->field_count,
                  .query = exchange->query,
                  .authority = exchange->head->authority,
                  .values = &exchange->values,
                  .route_host = slice_text(route->host),
                  .route_match = slice_text(route->match),
                  .address = &exchange->address},
    };

    exchange->limits.site = exchange->site;
    exchange->limits.is_tentative = true; /* a copy may be given, or its turn come */
    for (size_t i = 0; i < route->limit_count && objection.limit == NULL; i++)
        objection = charge_or_count(&charging, &route->limits[i]);
    json_body_free(&charging.body);
    return objection;
}
