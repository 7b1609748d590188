/* Settings limit rate: how much is allowed in which time, and can the limit's algorithm decide it exactly? */
#include "settings_limit_rate.h"
#include "settings_units.h"

#include <inttypes.h>
#include <string.h>

static const int64_t day_us = INT64_C(86400) * 1000000;
static const int64_t longest_window_us = INT64_C(30) * 86400 * 1000000;

#define RATE_SHAPE "a rate such as 20/s, 100/m, 5000/h, 50000/d or 5/250ms"

/* N/week and N/month: only the calendar has them, so only fixed_window does (check_limit()). */
static bool read_calendar_rate(const char *text, struct limit_rule *rule)
{
    const char *unit = strchr(text, '/');
    char units[24];
    size_t len = unit == NULL ? 0 : (size_t)(unit - text);

    if (len == 0 || len >= sizeof units)
        return false;
    memcpy(units, text, len);
    units[len] = '\0';
    if (strcmp(unit, "/week") == 0) {
        rule->terms.calendar = CALENDAR_WEEK;
        rule->terms.window_us = 7 * day_us;
    } else if (strcmp(unit, "/month") == 0) {
        rule->terms.calendar = CALENDAR_MONTH;
        rule->terms.window_us = 31 * day_us;
    } else {
        return false;
    }
    return read_count(units, &rule->terms.limit) && rule->terms.limit > 0;
}

void read_limit_rate(struct draft *draft, const struct node *node, void *into)
{
    struct limit_rule *rule = into;
    const char *text;
    struct rate rate;

    if (!want_text(draft, node, RATE_SHAPE, &text) || read_calendar_rate(text, rule))
        return;
    if (!read_rate(text, &rate)) {
        complain_value(draft->complaints, node, "%s is not %s; both its parts must be at least 1",
                       quote(text).text, RATE_SHAPE);
        return;
    }
    if (rate.window_us > longest_window_us) {
        complain_value(draft->complaints, node, "the window of %s is out of range; allowed is 1ms to 30d",
                       quote(text).text);
        return;
    }
    rule->terms.limit = rate.units;
    rule->terms.window_us = rate.window_us;
    rule->terms.calendar = CALENDAR_MULTIPLES;
}

void read_limit_burst(struct draft *draft, const struct node *node, void *into)
{
    struct limit_rule *rule = into;

    want_count(draft, node, 1, LIMIT_EXACT, &rule->terms.burst);
}

/* Why no tick fits. */
static void complain_inexact(struct draft *draft, const struct node *rate, const struct limit_terms *terms)
{
    switch (terms->algorithm) {
    case LIMIT_SLIDING_WINDOW:
        complain_value(draft->complaints, rate,
                       "%s is too large to be decided exactly; units times milliseconds of the window must "
                       "stay below 2^53",
                       describe(rate).text);
        return;
    case LIMIT_SLIDING_LOG:
        complain_value(draft->complaints, rate,
                       "%s is too large for a log of each admission; allowed are at most %d units",
                       describe(rate).text, SLIDING_LOG_MAX_LIMIT);
        return;
    case LIMIT_TOKEN_BUCKET:
        complain_value(draft->complaints, rate,
                       "%s with a burst of %" PRId64
                       " cannot be decided exactly; the larger of units and burst, times milliseconds of the "
                       "window, must stay below 2^53, and an empty bucket must fill within 35 years",
                       describe(rate).text, terms->burst);
        return;
    case LIMIT_FIXED_WINDOW:
        complain_value(draft->complaints, rate, "%s is too large to be decided exactly; allowed is 1 to 2^53",
                       describe(rate).text);
        return;
    case LIMIT_CONCURRENCY: return; /* it has no rate */
    }
}

void check_terms(struct draft *draft, const struct node *rate, struct limit_terms *terms)
{
    if (terms->algorithm == LIMIT_TOKEN_BUCKET && terms->burst == 0)
        terms->burst = terms->limit;
    if (terms->calendar != CALENDAR_MULTIPLES && terms->algorithm != LIMIT_FIXED_WINDOW) {
        complain_value(draft->complaints, rate,
                       "%s counts by the calendar, which only algorithm: fixed_window does",
                       describe(rate).text);
        return;
    }
    if (terms->limit == 0)
        return; /* complained about already */
    terms->tick_us = budget_tick(terms);
    if (terms->tick_us == 0)
        complain_inexact(draft, rate, terms);
}

void check_limit_burst(struct draft *draft, const struct node *node, const struct limit_terms *terms)
{
    const struct node *burst = node_member(node, "burst");

    if (terms->algorithm != LIMIT_TOKEN_BUCKET && burst != NULL)
        complain_value(draft->complaints, burst, "is for algorithm: token_bucket only");
}

void check_limit_rate(struct draft *draft, const struct node *node, struct limit_rule *rule)
{
    const struct node *rate = node_member(node, "rate"), *max = node_member(node, "max");

    if (max != NULL)
        complain_value(draft->complaints, max, "is for algorithm: concurrency only");
    check_limit_burst(draft, node, &rule->terms);
    if (rate != NULL)
        check_terms(draft, rate, &rule->terms);
    else if (node_member(node, "plans") == NULL)
        complain_value(draft->complaints, node,
                       "rate is missing; it must be a rate such as 20/s, 100/m or 5/250ms");
}
