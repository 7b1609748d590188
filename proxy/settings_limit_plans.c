/* Settings limit plans: what is allowed by which plan of the caller's?
 *
 * A plan is read as a limit that has nothing but terms: it begins with those of its limit, as far as they are written, and what it
 * says itself takes their place.
 */
#include "settings_limit_plans.h"
#include "settings_limit_hold.h"
#include "settings_limit_rate.h"
#include "settings_sections.h"

#include <string.h>

enum { MAX_PLANS = 64 };

static const char default_key[] = "default";

static const struct setting plan_rows[] = {
    {.key = "rate",
     .type = SETTING_OWN,
     .read = read_limit_rate,
     .shape = LIMIT_RATE_FORMS,
     .means = "Units per window for callers of this plan; the limit's own rate if left out."},
    {.key = "burst",
     .type = SETTING_OWN,
     .read = read_limit_burst,
     .shape = "a whole number of at least 1",
     .means = "With token_bucket: units that can be taken at once after a rest; the limit's own burst if "
              "left out, and without one "
              "the units of the plan's rate."},
    {.key = "max",
     .type = SETTING_OWN,
     .read = read_limit_max,
     .shape = "a whole number of at least 1",
     .means = "With concurrency, instead of a rate: units that requests of this plan's caller may hold at a "
              "time; the limit's own "
              "max if left out."},
};
const struct section section_plan = SECTION_OF("limits.NAME.plans.NAME", plan_rows);

void read_limit_plans(struct draft *draft, const struct node *node, void *limit)
{
    (void)limit; /* check_limit_plans() reads them, when the limit's algorithm and rate are known */
    if (!want_map(draft, node, LIMIT_PLANS_FORM))
        return;
    if (node->count > MAX_PLANS + 1)
        complain_value(draft->complaints, node, "has %zu plans; allowed are at most %d", node->count - 1,
                       MAX_PLANS);
}

const struct limit_plan *limit_plan_named(const struct limit_rule *rule, struct slice name)
{
    for (size_t i = 0; i < rule->plan_count; i++)
        if (slice_eq(slice_text(rule->plans[i].name), name))
            return &rule->plans[i];
    return NULL;
}

/* ---- one plan ---- */

/* The node that says the plan's `key`: its own, or what the limit says to all; NULL: neither does. */
static const struct node *said_by(const struct node *plan, const struct node *limit, const char *key)
{
    const struct node *own = plan->kind == NODE_MAP ? node_member(plan, key) : plan;

    return own != NULL ? own : node_member(limit, key);
}

static void check_rate(struct draft *draft, const struct node *node, const struct node *limit,
                       struct limit_terms *terms)
{
    const struct node *max = node->kind == NODE_MAP ? node_member(node, "max") : NULL;

    if (node->kind == NODE_MAP)
        check_limit_burst(draft, node, terms);
    if (max != NULL)
        complain_value(draft->complaints, max, "is for algorithm: concurrency only");
    if (said_by(node, limit, "rate") != NULL)
        check_terms(draft, said_by(node, limit, "rate"), terms);
    else
        complain_value(
            draft->complaints, node,
            "rate is missing, and the limit has none; it must be a rate such as 20/s, 100/m or 5/250ms");
}

static void check_max(struct draft *draft, const struct node *node, const struct node *limit,
                      struct limit_terms *terms)
{
    if (node->kind == NODE_MAP)
        refuse_rates(draft, node);
    if (said_by(node, limit, "max") == NULL)
        complain_value(
            draft->complaints, node,
            "max is missing, and the limit has none; it must be a whole number, of units that may be "
            "taken at a time");
    if (terms->limit > 0)
        terms->tick_us = budget_tick(terms);
}

static void read_plan(struct draft *draft, const struct node *node, const struct node *limit,
                      const struct limit_terms *as_written, const struct limit_rule *rule,
                      struct limit_plan *plan)
{
    struct limit_rule as_limit = {.terms = *as_written};
    bool has_max = as_written->algorithm == LIMIT_CONCURRENCY;

    plan->name = draft_copy(draft, node->key);
    if (!is_plain_name(plan->name))
        complain_key(draft->complaints, node, "%s", PLAIN_NAME_RULE);
    if (node->kind == NODE_MAP)
        section_read(draft, node, &section_plan, &as_limit);
    else if (has_max)
        read_limit_max(draft, node, &as_limit);
    else
        read_limit_rate(draft, node, &as_limit);
    plan->terms = as_limit.terms;
    if (has_max)
        check_max(draft, node, limit, &plan->terms);
    else if (node->kind == NODE_MAP && node->count == 0 && node_member(limit, "rate") != NULL)
        plan->terms = rule->terms; /* the limit's own, which were checked */
    else
        check_rate(draft, node, limit, &plan->terms);
}

/* ---- all of a limit ---- */

static void choose_default(struct draft *draft, const struct node *plans, struct limit_rule *rule)
{
    const struct node *chosen = node_member(plans, default_key);
    const char *names[MAX_PLANS], *name;

    if (chosen == NULL) {
        complain_value(draft->complaints, plans,
                       "default is missing; it must be the name of one of the plans");
        return;
    }
    if (!want_text(draft, chosen, "the name of one of the plans", &name))
        return;
    for (size_t i = 0; i < rule->plan_count; i++) {
        names[i] = rule->plans[i].name;
        if (strcmp(names[i], name) == 0) {
            rule->terms = rule->plans[i].terms;
            return;
        }
    }
    complain_value(draft->complaints, chosen, "%s is unknown; %s", quote(name).text,
                   unknown_word(name, names, rule->plan_count).text);
}

static void check_unknown(struct draft *draft, const struct node *node, const struct limit_rule *rule)
{
    const struct node *unknown = node_member(node, "unknown");

    if (unknown != NULL && rule->unknown == UNKNOWN_BY_IP)
        complain_value(draft->complaints, unknown,
                       "ip is for limits with plans: without them all are unknown");
}

void check_limit_plans(struct draft *draft, const struct node *node, const struct limit_terms *as_written,
                       struct limit_rule *rule)
{
    const struct node *plans = node_member(node, "plans");

    if (plans == NULL)
        check_unknown(draft, node, rule);
    if (plans == NULL || plans->kind != NODE_MAP || plans->count > MAX_PLANS + 1)
        return;
    rule->plans = draft_alloc(draft, (plans->count + 1) * sizeof(*rule->plans));
    for (size_t i = 0; i < plans->count; i++)
        if (strcmp(plans->items[i]->key, default_key) != 0)
            read_plan(draft, plans->items[i], node, as_written, rule, &rule->plans[rule->plan_count++]);
    choose_default(draft, plans, rule);
}
