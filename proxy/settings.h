/* Settings: one frozen configuration. Read from YAML and checked as a whole, shared by threads, counted,
 * never changed.
 *
 * Every quantity is already in the unit its name says; every reference is resolved; every default filled in.
 */
#ifndef WEIR_SETTINGS_H
#define WEIR_SETTINGS_H

#include "budget.h"    /* enum limit_algorithm, struct limit_terms */
#include "cache_key.h" /* struct key_rule */
#include "cost.h"
#include "identity.h" /* struct address, struct address_range */
#include "limit_key.h"
#include "route_match.h" /* struct route_pattern, struct template */
#include "slice.h"
#include "verdict.h" /* enum when_refused */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct listen_setting {
    char *host; /* an address literal, IPv6 without brackets */
    int port;
};

struct client_settings {
    int64_t header_timeout_ms, body_timeout_ms, idle_timeout_ms, write_timeout_ms;
    int max_connections, max_per_address, max_headers;
    size_t max_header_bytes;
};

enum log_format { LOG_JSON, LOG_COMBINED };
enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

struct log_settings {
    char *access; /* "stdout", "stderr", "off" or a path */
    enum log_format format;
    enum log_level level;
};

enum store_kind { STORE_MEMORY, STORE_REDIS };
enum consistency { CONSISTENCY_STRICT, CONSISTENCY_PUSH };

struct store_settings {
    enum store_kind kind;
    char *host; /* redis */
    int port;
    char *unix_path; /* redis+unix; else NULL */
    int database;
    char *user, *password; /* NULL: none; never logged */
    char *prefix;
    int64_t timeout_ms;
    enum consistency consistency;
    char *journal_path; /* NULL: none */
};

struct upstream_rule {
    char *name;
    char *host;
    int port;
    int64_t connect_timeout_ms, first_byte_timeout_ms, idle_timeout_ms;
    int max_connections, max_pending, retries;
    size_t index;
};

enum limit_missing { MISSING_IP, MISSING_SHARED, MISSING_REJECT, MISSING_SKIP };
enum limit_counting { COUNT_REQUESTS, COUNT_MISSES /* only what is asked of the upstream */ };
enum limit_unknown { UNKNOWN_OWN, UNKNOWN_BY_IP };
enum limit_mode { LIMIT_ENFORCED, LIMIT_IN_SHADOW /* counts what it would refuse, and refuses nothing */ };
enum store_failure { FAILURE_LOCAL, FAILURE_OPEN, FAILURE_CLOSED };

struct limit_plan {
    char *name;
    struct limit_terms terms;
};

struct limit_rule {
    char *name;
    struct limit_key key;
    enum limit_missing missing;
    struct limit_plan *plans; /* NULL: the same terms for all */
    size_t plan_count;
    struct limit_key plan_key; /* whose plan it is: the first part of the key */
    enum limit_unknown unknown;
    int ipv6_prefix;
    struct limit_terms terms; /* what is allowed in which time; with plans: by the default plan */
    int64_t cost;             /* of one request, or of one that does not say its own */
    struct cost_rule cost_rule;
    int64_t lease_ms; /* as written; terms.lease_us is 0 where nothing is ever held */
    enum store_failure on_store_failure;
    enum limit_mode mode;
    enum limit_counting counts;
    enum when_refused when_refused;
    int64_t max_wait_ms; /* with WAIT_FOR_IT */
    size_t index;
};

/* NULL: the limit has no plan of this name. */
const struct limit_plan *limit_plan_named(const struct limit_rule *rule, struct slice name);

/* A limit as one route uses it. */
struct limit_use {
    const struct limit_rule *rule; /* whose budget it is, whichever route takes from it */
    int64_t cost;                  /* the rule's, unless the route says its own */
    struct cost_rule cost_rule;
};

struct cache_rule {
    int64_t ttl_ms; /* -1: none */
    bool override_origin;
    int64_t stale_while_revalidate_ms, stale_if_error_ms, stale_if_unreachable_ms;
    int64_t lock_timeout_ms, negative_ttl_ms;
    struct template *tags; /* compiled by route_match against the route's pattern */
    size_t tag_count;
    char **tag_headers; /* lower case */
    size_t tag_header_count;
    int *statuses;
    size_t status_count;
    size_t max_object_bytes;
    struct key_rule key;
    struct slice key_varied; /* the key's fields as vary_extend() takes them; empty: it is not told of them */
    bool shared_with_authorization;
    bool keep_until_close;
    bool bypass_on_store_failure;
    struct slice *compress; /* media types, lower case; one that ends in '/' is all of its kind */
    size_t compress_count;
};

struct route_rule {
    char *match; /* as written, for logs and metrics */
    struct route_pattern *pattern;
    char *host; /* NULL: any; may start with "*." ; lower case */
    const struct upstream_rule *upstream;
    struct template *rewrite; /* NULL: none */
    struct limit_use *limits;
    size_t limit_count;
    struct cache_rule *cache; /* NULL: does not cache */
    struct template *invalidates;
    size_t invalidate_count, soft_invalidate_count; /* the first are soft */
    size_t index;
};

struct header_settings {
    bool ratelimit_draft11, ratelimit_plain, ratelimit_x, x_cache, cache_status, cache_key, proxy_status;
};

struct settings {
    _Atomic int refs;
    char *path; /* of the file, for messages */
    struct listen_setting *listens;
    size_t listen_count;
    int workers; /* resolved: at least 1 */
    struct listen_setting admin;
    char *admin_token; /* NULL: none; never logged */
    size_t max_body_bytes;
    struct client_settings client;
    int64_t drain_timeout_ms;
    struct address_range *trusted_proxies;
    size_t trusted_proxy_count;
    struct log_settings log;
    struct store_settings store;
    size_t near_cache_bytes, near_object_bytes;
    struct upstream_rule *upstreams;
    size_t upstream_count;
    struct limit_rule *limits;
    size_t limit_count;
    struct route_rule *routes;
    size_t route_count;
    struct header_settings headers;
    struct settings_block *blocks; /* the memory of all the above, freed at once */
};

/* Reads, checks and freezes FILE. NULL when it has errors; each was written to `errors` as FILE:LINE:COLUMN:
 * message, all of them in one run, in file order. One reference. */
struct settings *settings_load(const char *path, FILE *errors);
struct settings *settings_parse(const char *name, const char *text, size_t len,
                                FILE *errors); /* for tests and fuzzing; ${} too */
struct settings *settings_hold(struct settings *settings);
void settings_release(struct settings **settings);

/* What a reload may not change (listen, workers, store, near_cache, admin, log paths ...): writes one line
 * for each difference, naming the key, to `errors`; false if there is any. */
bool settings_may_replace(const struct settings *old, const struct settings *fresh, FILE *errors);

#endif
