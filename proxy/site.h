/* Site: one configuration as one worker uses it: its upstream pools and the ids of its figures.
 *
 * Belongs to one loop's thread and is counted: each exchange and each load under way holds the site it began
 * with, so that a reload never changes the rules of a request half-way. With the last of them the pools
 * close, by a task of the loop: turn it once more before it ends.
 */
#ifndef WEIR_SITE_H
#define WEIR_SITE_H

#include "fault.h"
#include "fields.h"
#include "origin.h"
#include "settings.h"
#include "stats.h"

struct loop;

enum limit_outcome {
    LIMIT_ADMITTED,
    LIMIT_REFUSED,
    LIMIT_TOO_COSTLY,
    LIMIT_UNAVAILABLE,
    LIMIT_PASSED_OPEN,
    LIMIT_DECIDED_LOCALLY,
    LIMIT_SHADOW_REFUSED,
    LIMIT_FAST_DENIED, /* beside LIMIT_REFUSED: without asking the store */
    LIMIT_GAVE_STORED, /* beside LIMIT_REFUSED: answered with the stored copy */
    LIMIT_WAITED,      /* made to wait; how it ended counts beside */
    LIMIT_OUTCOMES
};

enum load_outcome {
    LOAD_STORED,
    LOAD_SUPERSEDED,
    LOAD_INVALIDATED,
    LOAD_UNCACHEABLE,
    LOAD_FAILED,
    LOAD_CANCELLED,
    LOAD_UNSTORED, /* the store was away */
    LOAD_UNPAID,   /* never begun: limits that count misses refused all whom it was for */
    LOAD_OUTCOMES
};

enum degraded_what {
    DEGRADED_LIMIT_OPEN,
    DEGRADED_LIMIT_CLOSED,
    DEGRADED_LIMIT_LOCAL,
    DEGRADED_CACHE_SERVED,
    DEGRADED_CACHE_BYPASSED,
    DEGRADED_WHATS
};

struct site;

struct site *site_new(struct loop *loop, struct resolver *resolver, struct settings *settings,
                      struct stats *stats);
struct site *site_hold(struct site *site);
void site_release(struct site **site);

const struct settings *site_settings(const struct site *site);
struct origin *site_origin(struct site *site, const struct upstream_rule *upstream);

/* Figures; `route` NULL: no route matched. */
void site_count_request(struct site *site, const struct route_rule *route, int status, int64_t took_us);
void site_count_cache(struct site *site, const struct route_rule *route, enum cache_result result);
void site_count_load(struct site *site, const struct route_rule *route, enum load_outcome outcome);
void site_count_collapsed(struct site *site, const struct route_rule *route);
void site_count_limit(struct site *site, const struct limit_rule *limit, enum limit_outcome outcome);
void site_note_caller(struct site *site, const struct limit_rule *limit, const unsigned char principal[16]);
void site_count_unknown_plan(struct site *site, const struct limit_rule *limit);
void site_count_waiting(struct site *site, const struct limit_rule *limit,
                        int64_t n); /* how many more wait, or fewer */
void site_observe_wait(struct site *site, const struct limit_rule *limit, int64_t us);
void site_count_lost_hold(struct site *site, const struct limit_rule *limit);
void site_count_degraded(struct site *site, enum degraded_what what);
void site_count_upstream(struct site *site, const struct upstream_rule *upstream,
                         int status /* 0: none came */, enum fault fault, int64_t waited_us);
void site_count_tunnel_opened(struct site *site, const struct upstream_rule *upstream);
void site_count_tunnel_ended(struct site *site, const struct upstream_rule *upstream, int64_t to_client_bytes,
                             int64_t to_upstream_bytes);

#endif
