/* Settings limit cost: what does one request take, and who says so? A number, or a map that names a place in
 * the request. */
#include "settings_limit_cost.h"
#include "settings_sections.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_NAME = 128 };
static const int64_t most_cost = INT64_C(1) << 53; /* as far as limits count exactly */

/* ---- where it stands ---- */

static void take_source(struct draft *draft, const struct node *node, struct limit_rule *rule,
                        enum cost_source source, const char *name)
{
    if (rule->cost_rule.source != COST_FIXED) {
        complain_key(draft->complaints, node, "a cost is taken from one place only");
        return;
    }
    rule->cost_rule.source = source;
    rule->cost_rule.name = slice_text(name);
}

static void read_header(struct draft *draft, const struct node *node, void *into)
{
    const char *text;

    if (!want_text(draft, node, "the name of a header", &text))
        return;
    if (is_header_name(text))
        take_source(draft, node, into, COST_OF_HEADER, draft_copy_lower(draft, text));
    else
        complain_value(draft->complaints, node, "%s is no header field's name; write one such as x-cost",
                       quote(text).text);
}

static void read_query(struct draft *draft, const struct node *node, void *into)
{
    const char *text;

    if (!want_text(draft, node, "the name of a parameter", &text))
        return;
    if (is_parameter_name(text))
        take_source(draft, node, into, COST_OF_QUERY, draft_copy(draft, text));
    else
        complain_value(draft->complaints, node, "%s is no parameter's name; write one such as units",
                       quote(text).text);
}

/* RFC 6901: nothing, or names with '/' before each, in which ~ is written ~0 and / is written ~1. */
static bool is_pointer(const char *text)
{
    if ((text[0] != '\0' && text[0] != '/') || strlen(text) > MAX_NAME)
        return false;
    for (const char *at = text; *at != '\0'; at++)
        if (*at == '~' && at[1] != '0' && at[1] != '1')
            return false;
    return true;
}

static void read_json(struct draft *draft, const struct node *node, void *into)
{
    const char *text;

    if (!want_text(draft, node, "a JSON pointer such as /documentIds", &text))
        return;
    if (is_pointer(text))
        take_source(draft, node, into, COST_OF_JSON, draft_copy(draft, text));
    else
        complain_value(
            draft->complaints, node,
            "%s is no JSON pointer of at most %d bytes; write one such as /documentIds or /order/items",
            quote(text).text, MAX_NAME);
}

static void read_response_header(struct draft *draft, const struct node *node, void *into)
{
    const char *text;

    if (!want_text(draft, node, "the name of a header", &text))
        return;
    if (is_header_name(text))
        take_source(draft, node, into, COST_OF_RESPONSE, draft_copy_lower(draft, text));
    else
        complain_value(draft->complaints, node, "%s is no header field's name; write one such as x-cost",
                       quote(text).text);
}

/* ---- numbers ---- */

static void read_reserve(struct draft *draft, const struct node *node, void *into)
{
    struct limit_rule *rule = into;

    want_count(draft, node, 1, most_cost, &rule->cost_rule.reserve);
}

static void read_default(struct draft *draft, const struct node *node, void *into)
{
    struct limit_rule *rule = into;

    if (rule->cost_rule.source == COST_OF_RESPONSE) /* which may have cost nothing */
        want_count(draft, node, 0, most_cost, &rule->cost_rule.unstated);
    else
        want_count(draft, node, 1, most_cost, &rule->cost);
}

static void read_max(struct draft *draft, const struct node *node, void *into)
{
    struct limit_rule *rule = into;

    want_count(draft, node, 1, most_cost, &rule->cost_rule.max);
}

static const struct setting cost_rows[] = {
    {.key = "header",
     .type = SETTING_OWN,
     .read = read_header,
     .shape = "the name of a header",
     .means = "The cost is what this header of the request says."},
    {.key = "query",
     .type = SETTING_OWN,
     .read = read_query,
     .shape = "the name of a parameter",
     .means = "The cost is what this parameter of the query says."},
    {.key = "json",
     .type = SETTING_OWN,
     .read = read_json,
     .shape = "a JSON pointer such as /documentIds",
     .means = "The cost is the number at this place of the body, or how many items the array there has."},
    {.key = "response_header",
     .type = SETTING_OWN,
     .read = read_response_header,
     .shape = "the name of a header",
     .means = "The cost is what this header of the upstream's answer says; `reserve` is held until then."},
    {.key = "reserve",
     .type = SETTING_OWN,
     .read = read_reserve,
     .shape = "a whole number of at least 1",
     .means =
         "With response_header: units that must be left, and are held until the answer's head has come."},
    {.key = "default",
     .type = SETTING_OWN,
     .read = read_default,
     .preset = "1",
     .shape = "a whole number of at least 1, with response_header of at least 0",
     .means =
         "The cost of a request that does not say; of an answer that does not, the reserve if left out."},
    {.key = "max",
     .type = SETTING_OWN,
     .read = read_max,
     .shape = "a whole number of at least 1",
     .means = "The most that a request may say; more is answered 400, code bad_cost. Of an answer more "
              "counts as this."},
    {.key = "max_body",
     .type = SETTING_SIZE,
     .offset = offsetof(struct limit_rule, cost_rule.max_body_bytes),
     .least = "1B",
     .most = "1MiB",
     .note = "it is read at once, while other requests wait",
     .preset = "64KiB",
     .means = "With json: larger bodies are answered 413, code body_too_large."},
};
const struct section section_cost = SECTION_OF("limits.NAME.cost", cost_rows);

static void check_reserve(struct draft *draft, const struct node *node, struct limit_rule *rule)
{
    const struct node *reserve = node_member(node, "reserve");

    if (rule->cost_rule.source != COST_OF_RESPONSE) {
        if (reserve != NULL && node_member(node, "response_header") == NULL)
            complain_key(draft->complaints, reserve, "is for response_header only");
        return;
    }
    if (reserve == NULL)
        complain_value(
            draft->complaints, node,
            "reserve is missing; it must be a whole number, of units to be held until the answer tells");
    rule->cost = rule->cost_rule.reserve;
    if (node_member(node, "default") == NULL)
        rule->cost_rule.unstated = rule->cost_rule.reserve;
}

static void check_cost_map(struct draft *draft, const struct node *node, struct limit_rule *rule)
{
    static const char *const sources[] = {"header", "query", "json", "response_header"};
    const struct node *max = node_member(node, "max"), *max_body = node_member(node, "max_body");
    bool is_of_response = rule->cost_rule.source == COST_OF_RESPONSE, has_source = false;

    check_reserve(draft, node, rule);
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        has_source |= node_member(node, sources[i]) != NULL;
    if (!has_source)
        complain_value(
            draft->complaints, node,
            "says not where the cost stands; it needs one of header, query, json or response_header");
    if (max != NULL && rule->cost_rule.max < rule->cost)
        complain_value(draft->complaints, max, "%" PRId64 " is below the %s of %" PRId64, rule->cost_rule.max,
                       is_of_response ? "reserve" : "default", rule->cost);
    if (max_body != NULL && has_source && node_member(node, "json") == NULL)
        complain_key(draft->complaints, max_body, "is for json only");
}

void read_limit_cost(struct draft *draft, const struct node *node, void *into)
{
    struct limit_rule *rule = into;

    rule->cost_rule.max = most_cost;
    if (node->kind == NODE_LIST) {
        const char *text;

        want_text(draft, node, "a whole number or a map", &text);
    } else if (node->kind != NODE_MAP) {
        want_count(draft, node, 1, most_cost, &rule->cost);
    } else {
        section_read(draft, node, &section_cost, rule);
        check_cost_map(draft, node, rule);
    }
}

void check_limit_cost(struct draft *draft, const struct node *cost, const struct limit_rule *rule)
{
    int64_t capacity = limit_capacity(&rule->terms);
    bool is_slots = rule->terms.algorithm == LIMIT_CONCURRENCY;

    if (rule->cost_rule.source == COST_OF_RESPONSE && is_slots)
        complain_value(draft->complaints, cost,
                       "an answer tells its cost when it begins, and a slot is held until it ends");
    else if (rule->cost_rule.source == COST_OF_RESPONSE && rule->terms.lease_us == 0)
        complain_value(
            draft->complaints, cost,
            "response_header needs a limit whose own cost has one: all that it counts must leave room "
            "for what is held");
    for (size_t i = 0; cost != NULL && i < rule->plan_count; i++) {
        int64_t of_plan = limit_capacity(&rule->plans[i].terms);

        if (of_plan > 0 && rule->cost > of_plan)
            complain_value(draft->complaints, cost,
                           "%" PRId64 " is above the %" PRId64
                           " units of the plan %s, so no request of it could ever pass",
                           rule->cost, of_plan, rule->plans[i].name);
    }
    if (cost != NULL && rule->plan_count == 0 && capacity > 0 && rule->cost > capacity)
        complain_value(draft->complaints, cost,
                       "%" PRId64 " is above the %" PRId64 " units of the %s, so no request could ever pass",
                       rule->cost, capacity,
                       is_slots                        ? "max"
                       : capacity != rule->terms.limit ? "burst"
                                                       : "rate");
}
