/* Settings limit hold: how much may be held at a time, and for how long after the last that was heard of its holder? */
#include "settings_limit_hold.h"

void read_limit_max(struct draft *draft, const struct node *node, void *into)
{
    struct limit_rule *rule = into;

    want_count(draft, node, 1, LIMIT_MOST_SLOTS, &rule->terms.limit);
}

void check_limit_lease(struct draft *draft, const struct node *node, struct limit_rule *rule)
{
    const struct node *lease = node_member(node, "lease");
    bool holds = rule->terms.algorithm == LIMIT_CONCURRENCY || rule->cost_rule.source == COST_OF_RESPONSE;

    if (holds)
        rule->terms.lease_us = rule->lease_ms * LIMIT_US_PER_MS;
    else if (lease != NULL)
        complain_value(draft->complaints, lease,
                       "is for what is held: algorithm: concurrency, or a cost with response_header");
}

static void refuse_key(struct draft *draft, const struct node *node, const char *key)
{
    const struct node *member = node_member(node, key);

    if (member != NULL)
        complain_value(draft->complaints, member,
                       "is for algorithms that count over time; with concurrency write max");
}

void check_limit_max(struct draft *draft, const struct node *node, struct limit_rule *rule)
{
    refuse_key(draft, node, "rate");
    refuse_key(draft, node, "burst");
    if (rule->cost_rule.source == COST_OF_RESPONSE)
        complain_value(draft->complaints, node_member(node, "cost"),
                       "a response tells its cost when it begins, and a slot is needed until it ends");
    if (node_member(node, "max") == NULL)
        complain_value(draft->complaints, node,
                       "max is missing; it must be a whole number, of units that may be taken at a time");
    if (rule->terms.limit > 0)
        rule->terms.tick_us = budget_tick(&rule->terms);
}
