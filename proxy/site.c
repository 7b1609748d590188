/* Site: see site.h. */
#include "site.h"
#include "census.h"
#include "check.h"
#include "loop.h"
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    LOWEST_STATUS = 100,
    HIGHEST_STATUS = 999,
    STATUSES = HIGHEST_STATUS - LOWEST_STATUS + 1,
    CACHE_RESULTS = CACHE_BYPASS + 1
};
enum { FAULTS = FAULT_CLIENT_LEFT + 1, STATUS_CLASSES = 10 };

/* Ids are asked for on first use: a series that never counts is not exposed. 0 means "not asked yet", hence
 * id + 1. */
typedef stats_id lazy_id;

struct route_figures {
    const char *name;
    lazy_id by_status[STATUSES];
    lazy_id duration, collapsed, cache[CACHE_RESULTS], loads[LOAD_OUTCOMES];
};

struct upstream_figures {
    lazy_id duration, by_class[STATUS_CLASSES], by_fault[FAULTS];
    lazy_id tunnels, tunnel_bytes_down, tunnel_bytes_up;
};

struct wait_figures {
    lazy_id waiting, waited;
};

struct site {
    int refs;
    struct loop *loop;
    struct task close;
    struct settings *settings;
    struct stats *stats;
    struct origin **origins;
    struct route_figures *routes; /* one more than there are routes: the last is "none" */
    struct upstream_figures *upstreams;
    lazy_id (*limits)[LIMIT_OUTCOMES], *unknown_plans, *lost_holds;
    struct census **censuses;   /* of the limits */
    struct wait_figures *waits; /* of each limit */
    lazy_id degraded[DEGRADED_WHATS];
};

static void count(struct site *site, lazy_id *lazy, enum stats_family family, const char *first,
                  const char *second, int64_t n)
{
    if (*lazy == 0) {
        const char *labels[] = {first, second};

        *lazy = stats_series(family, labels) + 1;
    }
    stats_add(site->stats, *lazy - 1, n);
}

static void observe(struct site *site, lazy_id *lazy, enum stats_family family, const char *label, int64_t us)
{
    if (*lazy == 0)
        *lazy = stats_series(family, &label) + 1;
    stats_observe(site->stats, *lazy - 1, us);
}

static int share_of(int whole, int workers)
{
    return (whole + workers - 1) / workers;
}

static struct origin *pool_new(struct loop *loop, struct resolver *resolver, const struct upstream_rule *rule,
                               int workers)
{
    struct origin_limits limits = {
        .host = slice_text(rule->host),
        .port = rule->port,
        .connect_timeout_ms = rule->connect_timeout_ms,
        .first_byte_timeout_ms = rule->first_byte_timeout_ms,
        .idle_timeout_ms = rule->idle_timeout_ms,
        .max_connections = share_of(rule->max_connections, workers),
        .max_pending = share_of(rule->max_pending, workers),
        .retries = rule->retries,
    };

    return origin_new(loop, resolver, &limits);
}

/* The last to let go is often a stream, inside a callback of one of our pools, which must not be freed there:
 * hence a task of the loop. */
static void site_close(void *arg)
{
    struct site *site = arg;

    for (size_t i = 0; i < site->settings->upstream_count; i++)
        origin_free(site->origins[i]);
    free(site->origins);
    free(site->upstreams);
    free(site->limits);
    free(site->waits);
    free(site->unknown_plans);
    free(site->censuses);
    free(site->lost_holds);
    free(site->routes);
    settings_release(&site->settings);
    free(site);
}

struct site *site_new(struct loop *loop, struct resolver *resolver, struct settings *settings,
                      struct stats *stats)
{
    struct site *site = must_alloc(sizeof(*site));

    site->refs = 1;
    site->loop = loop;
    task_init(&site->close, LOOP_SEND, site_close, site);
    site->settings = settings_hold(settings);
    site->stats = stats;
    site->origins = must_alloc((settings->upstream_count + 1) * sizeof(*site->origins));
    site->upstreams = must_alloc((settings->upstream_count + 1) * sizeof(*site->upstreams));
    site->limits = must_alloc((settings->limit_count + 1) * sizeof(*site->limits));
    site->waits = must_alloc((settings->limit_count + 1) * sizeof(*site->waits));
    site->unknown_plans = must_alloc((settings->limit_count + 1) * sizeof(*site->unknown_plans));
    site->censuses = must_alloc((settings->limit_count + 1) * sizeof(*site->censuses));
    for (size_t i = 0; i < settings->limit_count; i++)
        site->censuses[i] = census_of(settings->limits[i].name);
    site->lost_holds = must_alloc((settings->limit_count + 1) * sizeof(*site->lost_holds));
    site->routes = must_alloc((settings->route_count + 1) * sizeof(*site->routes));
    for (size_t i = 0; i < settings->upstream_count; i++)
        site->origins[i] = pool_new(loop, resolver, &settings->upstreams[i], settings->workers);
    for (size_t i = 0; i < settings->route_count; i++)
        site->routes[i].name = settings->routes[i].match;
    site->routes[settings->route_count].name = "none";
    return site;
}

struct site *site_hold(struct site *site)
{
    site->refs++;
    return site;
}

void site_release(struct site **taken)
{
    struct site *site = *taken;

    *taken = NULL;
    if (site != NULL && --site->refs == 0)
        loop_defer(site->loop, &site->close);
}

const struct settings *site_settings(const struct site *site)
{
    return site->settings;
}

struct origin *site_origin(struct site *site, const struct upstream_rule *upstream)
{
    return site->origins[upstream->index];
}

static struct route_figures *figures_of(struct site *site, const struct route_rule *route)
{
    return &site->routes[route == NULL ? site->settings->route_count : route->index];
}

void site_count_request(struct site *site, const struct route_rule *route, int status, int64_t took_us)
{
    struct route_figures *figures = figures_of(site, route);
    char text[12] = "0";
    lazy_id *lazy;

    if (status < LOWEST_STATUS || status > HIGHEST_STATUS)
        return;
    lazy = &figures->by_status[status - LOWEST_STATUS];
    if (*lazy == 0)
        snprintf(text, sizeof(text), "%d", status);
    count(site, lazy, STATS_requests, figures->name, text, 1);
    observe(site, &figures->duration, STATS_request_duration, figures->name, took_us);
}

void site_count_cache(struct site *site, const struct route_rule *route, enum cache_result result)
{
    struct route_figures *figures = figures_of(site, route);

    count(site, &figures->cache[result], STATS_cache_results, figures->name, cache_result_name(result), 1);
}

static const char *load_outcome_name(enum load_outcome outcome)
{
    switch (outcome) {
    case LOAD_STORED: return "stored";
    case LOAD_SUPERSEDED: return "superseded";
    case LOAD_INVALIDATED: return "invalidated";
    case LOAD_UNCACHEABLE: return "uncacheable";
    case LOAD_FAILED: return "failed";
    case LOAD_CANCELLED: return "cancelled";
    case LOAD_UNSTORED: return "unstored";
    case LOAD_UNPAID: return "unpaid";
    case LOAD_OUTCOMES: break;
    }
    CHECK(!"a load outcome is one of its own values");
    return NULL;
}

void site_count_load(struct site *site, const struct route_rule *route, enum load_outcome outcome)
{
    struct route_figures *figures = figures_of(site, route);

    count(site, &figures->loads[outcome], STATS_loads, figures->name, load_outcome_name(outcome), 1);
}

void site_count_collapsed(struct site *site, const struct route_rule *route)
{
    struct route_figures *figures = figures_of(site, route);

    count(site, &figures->collapsed, STATS_collapsed, figures->name, NULL, 1);
}

static const char *limit_outcome_name(enum limit_outcome outcome)
{
    switch (outcome) {
    case LIMIT_ADMITTED: return "admitted";
    case LIMIT_REFUSED: return "refused";
    case LIMIT_TOO_COSTLY: return "too_costly";
    case LIMIT_UNAVAILABLE: return "unavailable";
    case LIMIT_PASSED_OPEN: return "passed_open";
    case LIMIT_DECIDED_LOCALLY: return "decided_locally";
    case LIMIT_SHADOW_REFUSED: return "shadow_refused";
    case LIMIT_FAST_DENIED: return "fast_denied";
    case LIMIT_GAVE_STORED: return "gave_stored";
    case LIMIT_WAITED: return "waited";
    case LIMIT_OUTCOMES: break;
    }
    CHECK(!"a limit outcome is one of its own values");
    return NULL;
}

void site_count_limit(struct site *site, const struct limit_rule *limit, enum limit_outcome outcome)
{
    count(site, &site->limits[limit->index][outcome], STATS_limit_decisions, limit->name,
          limit_outcome_name(outcome), 1);
}

void site_note_caller(struct site *site, const struct limit_rule *limit, const unsigned char principal[16])
{
    census_note(site->censuses[limit->index], principal, loop_now(site->loop));
}

void site_count_unknown_plan(struct site *site, const struct limit_rule *limit)
{
    count(site, &site->unknown_plans[limit->index], STATS_unknown_plans, limit->name, NULL, 1);
}

void site_count_waiting(struct site *site, const struct limit_rule *limit, int64_t n)
{
    count(site, &site->waits[limit->index].waiting, STATS_limit_waiting, limit->name, NULL, n);
}

void site_observe_wait(struct site *site, const struct limit_rule *limit, int64_t us)
{
    observe(site, &site->waits[limit->index].waited, STATS_limit_wait, limit->name, us);
}

void site_count_lost_hold(struct site *site, const struct limit_rule *limit)
{
    count(site, &site->lost_holds[limit->index], STATS_lost_holds, limit->name, NULL, 1);
}

static const char *degraded_name(enum degraded_what what)
{
    switch (what) {
    case DEGRADED_LIMIT_OPEN: return "limit_open";
    case DEGRADED_LIMIT_CLOSED: return "limit_closed";
    case DEGRADED_LIMIT_LOCAL: return "limit_local";
    case DEGRADED_CACHE_SERVED: return "cache_served";
    case DEGRADED_CACHE_BYPASSED: return "cache_bypassed";
    case DEGRADED_WHATS: break;
    }
    CHECK(!"what is degraded is one of its own values");
    return NULL;
}

void site_count_degraded(struct site *site, enum degraded_what what)
{
    count(site, &site->degraded[what], STATS_degraded, degraded_name(what), NULL, 1);
}

void site_count_upstream(struct site *site, const struct upstream_rule *upstream, int status,
                         enum fault fault, int64_t waited_us)
{
    struct upstream_figures *figures = &site->upstreams[upstream->index];
    char class[] = "0xx";

    if (status >= LOWEST_STATUS && status <= HIGHEST_STATUS) {
        class[0] = (char)('0' + status / 100);
        count(site, &figures->by_class[status / 100], STATS_upstream_requests, upstream->name, class, 1);
        observe(site, &figures->duration, STATS_upstream_duration, upstream->name, waited_us);
    }
    if (fault != FAULT_NONE)
        count(site, &figures->by_fault[fault], STATS_upstream_requests, upstream->name, fault_name(fault), 1);
}

void site_count_tunnel_opened(struct site *site, const struct upstream_rule *upstream)
{
    count(site, &site->upstreams[upstream->index].tunnels, STATS_tunnels, upstream->name, NULL, 1);
}

void site_count_tunnel_ended(struct site *site, const struct upstream_rule *upstream, int64_t to_client_bytes,
                             int64_t to_upstream_bytes)
{
    struct upstream_figures *figures = &site->upstreams[upstream->index];

    count(site, &figures->tunnels, STATS_tunnels, upstream->name, NULL, -1);
    count(site, &figures->tunnel_bytes_down, STATS_tunnel_bytes, upstream->name, "to_client",
          to_client_bytes);
    count(site, &figures->tunnel_bytes_up, STATS_tunnel_bytes, upstream->name, "to_upstream",
          to_upstream_bytes);
}
