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

static void refuse_key(struct draft *draft, const struct node *node, const char *key, const char *why)
{
    const struct node *member = node_member(node, key);

    if (member != NULL)
        complain_value(draft->complaints, member, "%s", why);
}

void refuse_rates(struct draft *draft, const struct node *node)
{
    refuse_key(draft, node, "rate", "is for algorithms that count over time; with concurrency write max");
    refuse_key(draft, node, "burst", "is for algorithm: token_bucket only");
}

void check_limit_max(struct draft *draft, const struct node *node, struct limit_rule *rule)
{
    refuse_rates(draft, node);
    if (rule->counts == COUNT_MISSES)
        refuse_key(draft, node, "counts",
                   "misses is for rates; a slot is held by a request until its answer has ended, wherever "
                   "that comes from");
    if (node_member(node, "max") == NULL && node_member(node, "plans") == NULL)
        complain_value(draft->complaints, node,
                       "max is missing; it must be a whole number, of units that may be taken at a time");
    if (rule->terms.limit > 0)
        rule->terms.tick_us = budget_tick(&rule->terms);
}
