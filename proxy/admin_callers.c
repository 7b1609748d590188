/* Admin, callers: which plan has a caller, and where does it stand with a limit?
 *
 *   GET PUT DELETE  /api/clients/KEY[?limit=NAME]         its plan
 *   GET DELETE      /api/limits/LIMIT/KEY...[?by=ip|shared]  its state, and the end of it
 *
 * A key is percent-encoded; one of several parts is as many parts of the path. It is in no answer and no log.
 */
#include "admin_parts.h"
#include "caller_key.h"
#include "json_text.h"
#include "path_parts.h"

#include <json-c/json.h>

enum { MOST_PARTS = LIMIT_KEY_MAX_PARTS + 1 /* and the limit's name */ };

struct caller_request { /* in the client's memory */
    struct admin_request *request;
    struct settings *settings; /* held, so that the rule stays */
    const struct limit_rule *rule;
    unsigned char principal[PRINCIPAL_BYTES];
    bool may_have_plan;
    struct plan_name plan;
    struct limit_charge charge;
    struct admit_tuple tuple;
    struct store_call *call;
};

void admin_leave_caller(struct admin_request *request)
{
    if (request->caller == NULL)
        return;
    store_cancel(&request->caller->call);
    settings_release(&request->caller->settings);
}

/* ---- words of the target ---- */

/* NULL, or what is wrong. The parts are in the client's memory. */
static const char *read_parts(struct client_request *client, struct slice path, struct slice *out,
                              size_t *count)
{
    *count = path_parts(path, client_alloc(client, path.len + 1), out, MOST_PARTS);
    if (*count == PATH_PARTS_MANY)
        return "The path has more parts than any limit's key.";
    return *count == PATH_PARTS_BAD ? "A % in the path is not followed by two hexadecimal digits." : NULL;
}

/* ?NAME=VALUE, or base NULL. Values that are asked for here need no escapes. */
static struct slice parameter(struct slice target, struct slice name)
{
    const char *at = memchr(target.base, '?', target.len);
    struct slice rest =
        at == NULL ? slice_of(NULL, 0) : slice_of(at + 1, target.len - (size_t)(at + 1 - target.base));

    while (rest.len > 0) {
        const char *end = memchr(rest.base, '&', rest.len);
        size_t len = end == NULL ? rest.len : (size_t)(end - rest.base);

        if (len > name.len && memcmp(rest.base, name.base, name.len) == 0 && rest.base[name.len] == '=')
            return slice_of(rest.base + name.len + 1, len - name.len - 1);
        rest = end == NULL ? slice_of(NULL, 0) : slice_of(end + 1, rest.len - len - 1);
    }
    return slice_of(NULL, 0);
}

/* ---- answers ---- */

static void answer_json(struct client_request *client, struct json_object *object)
{
    size_t len;
    const char *text = json_object_to_json_string_length(
        object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &len);

    admin_answer(client, 200, SLICE("application/json"), slice_of(text, len));
    json_object_put(object);
}

/* Of the store, which was asked: false when it failed, and the client is told that. */
static bool is_answered(struct caller_request *caller, enum fault fault)
{
    caller->call = NULL;
    if (fault != FAULT_NONE)
        admin_refuse(caller->request->client, 503, "store_unavailable",
                     "The store did not answer, or has no room for more.");
    return fault == FAULT_NONE;
}

static void refuse_method(struct client_request *client)
{
    admin_refuse(client, 405, "method_not_allowed", "See docs/operations.md for what may be done here.");
}

/* In the store a plan may have any bytes for a name. One that is no part of UTF-8 is shown as the character of its number, as in
 * logs: the answer stays JSON. */
static struct json_object *plan_json(const struct plan_name *plan)
{
    char shown[2 * sizeof(plan->text)];
    struct slice name = plan_name_text(plan);
    struct text text = text_in(shown, sizeof(shown));

    for (size_t at = 0, step; at < name.len; at += step) {
        unsigned char byte = (unsigned char)name.base[at];

        step = utf8_length(name, at);
        text_add(&text, slice_of(name.base + at, step));
        if (step > 0)
            continue;
        text_add_char(&text, (char)(0xc0 | byte >> 6));
        text_add_char(&text, (char)(0x80 | (byte & 0x3f)));
        step = 1;
    }
    return name.len == 0 ? NULL : json_object_new_string_len(shown, (int)text.len);
}

/* ---- plans ---- */

static void on_plan(void *arg, enum fault fault, const struct plan_answer *answer)
{
    struct caller_request *caller = arg;
    struct json_object *object;

    if (!is_answered(caller, fault))
        return;
    object = json_object_new_object();
    json_object_object_add(object, "plan", plan_json(&answer->plan));
    answer_json(caller->request->client, object);
}

static void on_plan_written(void *arg, enum fault fault, bool had_one)
{
    struct caller_request *caller = arg;
    struct json_object *object;

    if (!is_answered(caller, fault))
        return;
    object = json_object_new_object();
    json_object_object_add(object, "plan", plan_json(&caller->plan));
    json_object_object_add(object, "had_one", json_object_new_boolean(had_one));
    answer_json(caller->request->client, object);
}

/* NULL, or what is wrong. */
static const char *read_plan(struct caller_request *caller, struct slice body)
{
    struct json_object *parsed = admin_parse_json(body), *plan;
    const char *flaw = "The body must be an object with one string, named plan.";

    if (json_object_is_type(parsed, json_type_object) && json_object_object_length(parsed) == 1 &&
        json_object_object_get_ex(parsed, "plan", &plan) && json_object_is_type(plan, json_type_string)) {
        struct slice name = slice_of(json_object_get_string(plan), (size_t)json_object_get_string_len(plan));

        caller->plan = plan_name_of(name);
        flaw = plan_is_offered(caller->settings, caller->rule, name) ? NULL
                                                                     : "No limit has a plan of this name.";
    }
    json_object_put(parsed);
    return flaw;
}

static void write_plan(struct caller_request *caller)
{
    caller->call = store_write_plan(caller->request->admin->store, caller->principal, &caller->plan,
                                    on_plan_written, caller);
}

static void set_plan(struct caller_request *caller)
{
    const struct request_head *head = client_head(caller->request->client);
    const char *flaw;

    if (!admin_sent_json(head)) {
        admin_refuse(caller->request->client, 415, "json_required", "Send the body as application/json.");
        return;
    }
    flaw = read_plan(caller, head->body);
    if (flaw != NULL)
        admin_refuse(caller->request->client, 400, "bad_plan", flaw);
    else
        write_plan(caller);
}

static void route_client(struct caller_request *caller, const struct slice *parts, size_t count)
{
    struct client_request *client = caller->request->client;
    const struct request_head *head = client_head(client);
    const char *flaw = NULL;

    caller->rule = limit_with_plans(caller->settings, parameter(head->target, SLICE("limit")), &flaw);
    if (caller->rule == NULL)
        admin_refuse(client, 404, "unknown_limit", flaw);
    else if (count > 1)
        admin_refuse(client, 400, "bad_key", "A caller is named by one part, in which / is written %2F.");
    else if ((flaw = caller_of_plan(caller->rule, count == 0 ? slice_of(NULL, 0) : parts[0],
                                    caller->principal)) != NULL)
        admin_refuse(client, 400, "bad_key", flaw);
    else if (slice_eq(head->method, SLICE("GET")))
        caller->call = store_read_plan(caller->request->admin->store, caller->principal, on_plan, caller);
    else if (slice_eq(head->method, SLICE("PUT")))
        set_plan(caller);
    else if (slice_eq(head->method, SLICE("DELETE")))
        write_plan(caller); /* none */
    else
        refuse_method(client);
}

/* ---- limits ---- */

static const char *algorithm_name(enum limit_algorithm algorithm)
{
    switch (algorithm) { /* no default: a new algorithm must be given its name */
    case LIMIT_SLIDING_WINDOW: return "sliding_window";
    case LIMIT_SLIDING_LOG: return "sliding_log";
    case LIMIT_TOKEN_BUCKET: return "token_bucket";
    case LIMIT_FIXED_WINDOW: return "fixed_window";
    case LIMIT_CONCURRENCY: return "concurrency";
    }
    return "unknown";
}

static int64_t milliseconds_up(int64_t us)
{
    return us / 1000 + (us % 1000 > 0 ? 1 : 0);
}

static void on_standing(void *arg, enum fault fault, const struct admit_answer *answers, size_t count)
{
    struct caller_request *caller = arg;
    const struct limit_terms *terms = caller->charge.terms;
    const struct limit_state *state;
    struct json_object *object;

    (void)count;
    if (!is_answered(caller, fault))
        return;
    state = &answers[0].states[0];
    object = json_object_new_object();
    json_object_object_add(object, "limit", json_object_new_string(caller->rule->name));
    json_object_object_add(object, "algorithm", json_object_new_string(algorithm_name(terms->algorithm)));
    json_object_object_add(object, "plan", plan_json(&caller->plan));
    json_object_object_add(object, "quota", json_object_new_int64(limit_capacity(terms)));
    json_object_object_add(object, "window_ms",
                           json_object_new_int64(milliseconds_up(limit_period_us(terms))));
    json_object_object_add(object, "available", json_object_new_int64(state->available));
    json_object_object_add(object, "reset_ms", json_object_new_int64(milliseconds_up(state->reset_us)));
    json_object_object_add(object, "retry_after_ms",
                           state->never || state->is_unforeseen
                               ? NULL /* whenever somebody gives back, if ever */
                               : json_object_new_int64(milliseconds_up(state->retry_after_us)));
    answer_json(caller->request->client, object);
}

/* No request at all is decided: it is only said where the next one would stand. */
static void ask_standing(struct caller_request *caller)
{
    const struct limit_plan *plan = limit_plan_named(caller->rule, plan_name_text(&caller->plan));

    caller->charge.rule = caller->rule;
    caller->charge.terms = plan != NULL ? &plan->terms : &caller->rule->terms;
    memcpy(caller->charge.principal, caller->principal, sizeof(caller->charge.principal));
    caller->charge.cost = caller->rule->cost;
    caller->tuple = (struct admit_tuple){.charges = &caller->charge, .charge_count = 1, .count = 0};
    caller->call = store_admit(caller->request->admin->store, &caller->tuple, 1, on_standing, caller);
}

static void on_plan_of_standing(void *arg, enum fault fault, const struct plan_answer *answer)
{
    struct caller_request *caller = arg;

    if (!is_answered(caller, fault))
        return;
    caller->plan = answer->plan;
    ask_standing(caller);
}

static void on_reset(void *arg, enum fault fault, bool was_there)
{
    struct caller_request *caller = arg;
    struct json_object *object;

    if (!is_answered(caller, fault))
        return;
    object = json_object_new_object();
    json_object_object_add(object, "limit", json_object_new_string(caller->rule->name));
    json_object_object_add(object, "was_used", json_object_new_boolean(was_there));
    answer_json(caller->request->client, object);
}

/* NULL, or what is wrong. Who is counted among others has the default plan. */
static const char *find_caller(struct caller_request *caller, struct slice by, const struct slice *values,
                               size_t count, unsigned char of_plan[PRINCIPAL_BYTES])
{
    enum caller_naming naming = CALLER_BY_KEY;
    const char *flaw;

    if (slice_eq(by, SLICE("ip")))
        naming = CALLER_BY_ADDRESS;
    else if (slice_eq(by, SLICE("shared")))
        naming = CALLER_SHARED;
    else if (by.len > 0)
        return "by is ip or shared, or left out.";
    flaw = caller_of_limit(caller->rule, naming, values, count, caller->principal);
    caller->may_have_plan = flaw == NULL && naming == CALLER_BY_KEY && caller->rule->plan_count > 0;
    if (!caller->may_have_plan)
        return flaw;
    if (caller->rule->key.part_count == 1)
        memcpy(of_plan, caller->principal, PRINCIPAL_BYTES);
    else if (count == 1) /* the digest of a list of values does not tell of which */
        return "The plan of a caller that is named by the digest of several values cannot be found: name the "
               "values.";
    else
        flaw = caller_of_plan(caller->rule, values[0], of_plan);
    return flaw;
}

static void route_limit(struct caller_request *caller, const struct slice *parts, size_t count)
{
    struct client_request *client = caller->request->client;
    const struct request_head *head = client_head(client);
    struct store *store = caller->request->admin->store;
    unsigned char of_plan[PRINCIPAL_BYTES];
    bool is_reset = slice_eq(head->method, SLICE("DELETE"));
    const char *flaw;

    caller->rule = count == 0 ? NULL : limit_named(caller->settings, parts[0]);
    if (caller->rule == NULL) {
        admin_refuse(client, 404, "unknown_limit", "The configuration has no limit of this name.");
        return;
    }
    flaw = find_caller(caller, parameter(head->target, SLICE("by")), parts + 1, count - 1, of_plan);
    if (flaw != NULL)
        admin_refuse(client, 400, "bad_key", flaw);
    else if (is_reset)
        caller->call = store_reset_limit(store, caller->principal, caller->rule->name, on_reset, caller);
    else if (!slice_eq(head->method, SLICE("GET")))
        refuse_method(client);
    else if (caller->may_have_plan)
        caller->call = store_read_plan(store, of_plan, on_plan_of_standing, caller);
    else
        ask_standing(caller);
}

/* ---- the way here ---- */

static bool has_prefix(struct slice path, struct slice prefix)
{
    return path.len >= prefix.len && memcmp(path.base, prefix.base, prefix.len) == 0;
}

bool admin_takes_caller(struct admin_request *request, struct slice path)
{
    static const struct {
        struct slice prefix;
        void (*route)(struct caller_request *, const struct slice *parts, size_t count);
    } rows[] = {{{"/api/clients/", 13}, route_client}, {{"/api/limits/", 12}, route_limit}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct slice parts[MOST_PARTS], prefix = rows[i].prefix;
        const char *flaw;
        size_t count;

        if (!has_prefix(path, prefix))
            continue;
        flaw = read_parts(request->client, slice_of(path.base + prefix.len, path.len - prefix.len), parts,
                          &count);
        if (flaw != NULL) {
            admin_refuse(request->client, 400, "bad_key", flaw);
            return true;
        }
        request->caller = client_alloc(request->client, sizeof(*request->caller));
        request->caller->request = request;
        request->caller->settings = settings_hold(request->admin->settings);
        rows[i].route(request->caller, parts, count);
        return true;
    }
    return false;
}
