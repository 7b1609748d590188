/* Settings route limits: whose budgets do a route's requests take from, and how much where the route says otherwise than
 * the limit? */
#include "settings_limit_cost.h"
#include "settings_limit_key.h"
#include "settings_sections.h"

#include <string.h>

/* While a list's item is read. `limit` comes first: it is what the readers of a limit's own keys fill. */
struct use_draft {
    struct limit_rule limit;       /* the limit, with the cost that the route gives it */
    const struct limit_rule *rule; /* NULL: it is not known which */
};

static void take_limit(struct use_draft *use, const struct limit_rule *rule)
{
    use->rule = rule;
    use->limit = *rule;
}

static void read_limit_name(struct draft *draft, const struct node *node, void *into)
{
    const struct settings *settings = draft->settings;
    const char *names[MAX_LIMITS], *text;

    if (!want_text(draft, node, "the name of a limit", &text))
        return;
    for (size_t i = 0; i < settings->limit_count; i++) {
        names[i] = settings->limits[i].name;
        if (strcmp(names[i], text) == 0) {
            check_limit_key(draft, node, &settings->limits[i]);
            take_limit(into, &settings->limits[i]);
            return;
        }
    }
    complain_reference(draft, node, "limit", names, settings->limit_count);
}

static void read_own_cost(struct draft *draft, const struct node *node, void *into)
{
    struct use_draft *use = into;

    use->limit.cost = 0;
    use->limit.cost_rule = (struct cost_rule){.source = COST_FIXED};
    read_limit_cost(draft, node, &use->limit);
    if (use->rule != NULL)
        check_limit_cost(draft, node, &use->limit);
}

static const struct setting use_rows[] = {
    /* limit first: a cost is held against its rate */
    {.key = "limit",
     .type = SETTING_OWN,
     .read = read_limit_name,
     .is_required = true,
     .shape = "the name of a limit",
     .means = "Whose budget the requests take from, the same as through any other route."},
    {.key = "cost",
     .type = SETTING_OWN,
     .read = read_own_cost,
     .shape = "as limits.NAME.cost",
     .means = "Units that one request to this route takes; the limit's own cost if left out."},
};
const struct section section_limit_use = SECTION_OF("routes[].limits[]", use_rows);

static void read_limit_use(struct draft *draft, const struct node *node, struct route_rule *route)
{
    struct use_draft use = {.rule = NULL};
    const struct node *name = node->kind == NODE_MAP ? node_member(node, "limit") : node;

    if (node->kind == NODE_MAP)
        section_read(draft, node, &section_limit_use, &use);
    else
        read_limit_name(draft, node, &use);
    if (use.rule == NULL)
        return;
    for (size_t i = 0; i < route->limit_count; i++)
        if (route->limits[i].rule == use.rule) {
            complain_value(draft->complaints, name, "%s is listed twice; it would be charged twice",
                           use.rule->name);
            return;
        }
    route->limits[route->limit_count++] =
        (struct limit_use){.rule = use.rule, .cost = use.limit.cost, .cost_rule = use.limit.cost_rule};
}

void read_route_limits(struct draft *draft, const struct node *node, void *into)
{
    struct route_rule *route = into;

    if (!want_list(draft, node, "a list of names of limits", MAX_ROUTE_LIMITS))
        return;
    route->limits = draft_alloc(draft, (node->count + 1) * sizeof *route->limits);
    for (size_t i = 0; i < node->count; i++)
        read_limit_use(draft, node->items[i], route);
}
