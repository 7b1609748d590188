/* Settings limit: how much one caller may take, of what, and what happens when it cannot be decided. */
#include "settings_limit_cost.h"
#include "settings_limit_hold.h"
#include "settings_limit_key.h"
#include "settings_limit_plans.h"
#include "settings_limit_rate.h"
#include "settings_sections.h"

#include <inttypes.h>
#include <string.h>

/* ---- the table ---- */

static const struct choice missings[] = {{"ip", MISSING_IP, false},
                                         {"shared", MISSING_SHARED, false},
                                         {"reject", MISSING_REJECT, false},
                                         {"skip", MISSING_SKIP, false},
                                         {NULL, 0, false}};
static const struct choice unknowns[] = {
    {"own", UNKNOWN_OWN, false}, {"ip", UNKNOWN_BY_IP, false}, {NULL, 0, false}};
static const struct choice algorithms[] = {
    {"sliding_window", LIMIT_SLIDING_WINDOW, false}, {"sliding_log", LIMIT_SLIDING_LOG, false},
    {"token_bucket", LIMIT_TOKEN_BUCKET, false},     {"fixed_window", LIMIT_FIXED_WINDOW, false},
    {"concurrency", LIMIT_CONCURRENCY, false},       {NULL, 0, false}};
static const struct choice countings[] = {
    {"requests", COUNT_REQUESTS, false}, {"misses", COUNT_MISSES, false}, {NULL, 0, false}};
static const struct choice refusals[] = {
    {"refuse", REFUSE, false}, {"stale", GIVE_STORED, false}, {"wait", WAIT_FOR_IT, false}, {NULL, 0, false}};
static const struct choice failures[] = {{"local", FAILURE_LOCAL, false},
                                         {"open", FAILURE_OPEN, false},
                                         {"closed", FAILURE_CLOSED, false},
                                         {NULL, 0, false}};
static const struct choice modes[] = {
    {"enforce", LIMIT_ENFORCED, false}, {"shadow", LIMIT_IN_SHADOW, false}, {NULL, 0, false}};
static const struct choice precisions[] = {{"exact", 0, false}, {"leased", 0, true}, {NULL, 0, false}};

#define LIMIT(field) offsetof(struct limit_rule, field)
static const struct setting limit_rows[] = {
    {.key = "key",
     .type = SETTING_OWN,
     .read = read_limit_key,
     .is_required = true,
     .shape = LIMIT_KEY_FORMS,
     .means = "Whose requests are counted together: those with the same value of it, or of all in the list."},
    {.key = "missing",
     .type = SETTING_CHOICE,
     .offset = LIMIT(missing),
     .choices = missings,
     .preset = "ip",
     .means =
         "Where the key, or one part of a list, is absent: count by address, count all such together, answer "
         "401, or do not count."},
    {.key = "unknown",
     .type = SETTING_CHOICE,
     .offset = LIMIT(unknown),
     .choices = unknowns,
     .preset = "own",
     .means = "With plans: whether a caller that the store does not know has a budget of its own, or takes "
              "from its address's."},
    {.key = "ipv6_prefix",
     .type = SETTING_INT,
     .offset = LIMIT(ipv6_prefix),
     .least = "1",
     .most = "128",
     .preset = "64",
     .means = "IPv6 addresses that share so many leading bits count as one."},
    {.key = "algorithm",
     .type = SETTING_CHOICE,
     .offset = LIMIT(terms.algorithm),
     .choices = algorithms,
     .preset = "sliding_window",
     .means = "How time is counted."},
    {.key = "rate",
     .type = SETTING_OWN,
     .read = read_limit_rate,
     .shape = LIMIT_RATE_FORMS,
     .means = "Units per window; the window is 1ms to 30d, and units times window must stay exact."},
    {.key = "burst",
     .type = SETTING_OWN,
     .read = read_limit_burst,
     .shape = "a whole number of at least 1",
     .means =
         "With token_bucket: units that can be taken at once after a rest; the units of the rate if left "
         "out."},
    {.key = "max",
     .type = SETTING_OWN,
     .read = read_limit_max,
     .shape = "a whole number of at least 1",
     .means = "With concurrency, instead of a rate: units that requests under way may hold at a time."},
    {.key = "lease",
     .type = SETTING_DURATION,
     .offset = LIMIT(lease_ms),
     .least = "1s",
     .most = "1h",
     .preset = "60s",
     .means =
         "What a request holds ends so long after its node was last heard of; requests may take longer."},
    {.key = "counts",
     .type = SETTING_CHOICE,
     .offset = LIMIT(counts),
     .choices = countings,
     .preset = "requests",
     .means = "What is charged: every request, or those alone for which the upstream is asked."},
    {.key = "when_refused",
     .type = SETTING_CHOICE,
     .offset = LIMIT(when_refused),
     .choices = refusals,
     .preset = "refuse",
     .means =
         "What a request over the limit gets: 429, the stored copy where there is one, or its turn later."},
    {.key = "max_wait",
     .type = SETTING_DURATION,
     .offset = LIMIT(max_wait_ms),
     .least = "1ms",
     .most = "1m",
     .means = "With when_refused: wait, and required there: how long a request waits at most."},
    {.key = "cost",
     .type = SETTING_OWN,
     .read = read_limit_cost,
     .preset = "1",
     .shape = "a whole number of at least 1, at most the units of the rate or the burst, or a map",
     .means = "Units that one request takes; a map says where the request tells them."},
    {.key = "plans",
     .type = SETTING_OWN,
     .read = read_limit_plans,
     .shape = LIMIT_PLANS_FORM,
     .means = "What is allowed by the caller's plan, which the store knows; rate may be left out then."},
    {.key = "on_store_failure",
     .type = SETTING_CHOICE,
     .offset = LIMIT(on_store_failure),
     .choices = failures,
     .preset = "local",
     .means = "Without the store: this node alone enforces the limit, everything passes, or 503."},
    {.key = "mode",
     .type = SETTING_CHOICE,
     .offset = LIMIT(mode),
     .choices = modes,
     .preset = "enforce",
     .means = "Whether refusals happen, or are only counted while clients notice nothing."},
    {.key = "precision",
     .type = SETTING_CHOICE,
     .offset = NOWHERE,
     .choices = precisions,
     .preset = "exact",
     .means = "Whether every decision is the store's."},
};
const struct section section_limit = SECTION_OF("limits.NAME", limit_rows);

static bool is_known_algorithm(const struct node *node)
{
    if (node == NULL)
        return true;
    for (const struct choice *choice = algorithms; choice->word != NULL; choice++)
        if (node->kind == NODE_TEXT && strcmp(node->text, choice->word) == 0)
            return !choice->is_later;
    return false;
}

static void check_wait(struct draft *draft, const struct node *node, const struct limit_rule *rule)
{
    const struct node *when = node_member(node, "when_refused"), *max_wait = node_member(node, "max_wait");

    if (rule->when_refused == WAIT_FOR_IT && max_wait == NULL)
        complain_value(draft->complaints, when, "wait needs max_wait, which says how long at most");
    else if (rule->when_refused != WAIT_FOR_IT && max_wait != NULL)
        complain_key(draft->complaints, max_wait, "is for when_refused: wait only");
}

/* What the keys mean together depends on the algorithm: one that this release does not have was refused
 * already. */
static void check_limit(struct draft *draft, const struct node *node, struct limit_rule *rule)
{
    struct limit_terms as_written;

    if (!is_known_algorithm(node_member(node, "algorithm")))
        return;
    check_limit_lease(draft, node, rule);
    as_written = rule->terms;
    if (rule->terms.algorithm == LIMIT_CONCURRENCY)
        check_limit_max(draft, node, rule);
    else
        check_limit_rate(draft, node, rule);
    check_limit_plans(draft, node, &as_written, rule);
    check_limit_cost(draft, node_member(node, "cost"), rule);
    check_wait(draft, node, rule);
}

void read_limits(struct draft *draft, const struct node *node, void *into)
{
    struct settings *settings = into;

    if (!want_map(draft, node, "a map of names"))
        return;
    if (node->count > MAX_LIMITS) {
        complain_value(draft->complaints, node, "has %zu limits; allowed are at most %d", node->count,
                       MAX_LIMITS);
        return;
    }
    settings->limits = draft_alloc(draft, (node->count + 1) * sizeof *settings->limits);
    for (size_t i = 0; i < node->count; i++) {
        struct limit_rule *rule = &settings->limits[i];

        rule->name = draft_copy(draft, node->items[i]->key);
        rule->index = settings->limit_count++;
        if (!is_plain_name(rule->name))
            complain_key(draft->complaints, node->items[i], "%s", PLAIN_NAME_RULE);
        section_read(draft, node->items[i], &section_limit, rule);
        if (node->items[i]->kind == NODE_MAP)
            check_limit(draft, node->items[i], rule);
    }
}
