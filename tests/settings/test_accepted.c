/* What a good configuration becomes: every field, every default. */
#include "support_settings.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <sched.h>
#include <stdlib.h>

enum { KIB = 1024, MIB = 1024 * 1024 };

Test(accepted, the_least_configuration_has_every_default)
{
    struct settings *s = accepted(UPSTREAM ROUTE);
    cpu_set_t cpus;

    cr_assert_eq(sched_getaffinity(0, sizeof cpus, &cpus), 0);
    cr_expect_str_eq(s->path, "weir.yaml");
    cr_expect_eq(s->listen_count, 1u);
    cr_expect_str_eq(s->listens[0].host, "127.0.0.1");
    cr_expect_eq(s->listens[0].port, 8080);
    cr_expect_eq(s->workers, CPU_COUNT(&cpus) > 256 ? 256 : CPU_COUNT(&cpus));
    cr_expect_str_eq(s->admin.host, "127.0.0.1");
    cr_expect_eq(s->admin.port, 9901);
    cr_expect_null(s->admin_token);
    cr_expect_eq(s->max_body_bytes, (size_t)64 * MIB);
    cr_expect_eq(s->client.header_timeout_ms, 10000);
    cr_expect_eq(s->client.body_timeout_ms, 60000);
    cr_expect_eq(s->client.idle_timeout_ms, 60000);
    cr_expect_eq(s->client.write_timeout_ms, 60000);
    cr_expect_eq(s->client.max_connections, 10000);
    cr_expect_eq(s->client.max_per_address, 0);
    cr_expect_eq(s->client.max_headers, 100);
    cr_expect_eq(s->client.max_header_bytes, 32768u);
    cr_expect_eq(s->drain_timeout_ms, 30000);
    cr_expect_eq(s->trusted_proxy_count, 0u);
    cr_expect_str_eq(s->log.access, "stdout");
    cr_expect_eq(s->log.format, LOG_JSON);
    cr_expect_eq(s->log.level, LOG_INFO);
    cr_expect_eq(s->store.kind, STORE_MEMORY);
    cr_expect_str_eq(s->store.prefix, "weir");
    cr_expect_eq(s->store.timeout_ms, 50);
    cr_expect_eq(s->store.consistency, CONSISTENCY_STRICT);
    cr_expect_null(s->store.password);
    cr_expect_eq(s->near_cache_bytes, (size_t)256 * MIB);
    cr_expect_eq(s->near_object_bytes, (size_t)1 * MIB);
    cr_expect_eq(s->limit_count, 0u);
    cr_expect(s->headers.ratelimit_draft11 && s->headers.ratelimit_plain && !s->headers.ratelimit_x);
    cr_expect(s->headers.x_cache && s->headers.cache_status && s->headers.proxy_status);
    cr_expect_not(s->headers.cache_key);

    cr_assert_eq(s->upstream_count, 1u);
    cr_expect_str_eq(s->upstreams[0].name, "api");
    cr_expect_str_eq(s->upstreams[0].host, "127.0.0.1");
    cr_expect_eq(s->upstreams[0].port, 9000);
    cr_expect_eq(s->upstreams[0].connect_timeout_ms, 1000);
    cr_expect_eq(s->upstreams[0].first_byte_timeout_ms, 30000);
    cr_expect_eq(s->upstreams[0].idle_timeout_ms, 30000);
    cr_expect_eq(s->upstreams[0].max_connections, 512);
    cr_expect_eq(s->upstreams[0].max_pending, 1024);
    cr_expect_eq(s->upstreams[0].retries, 1);

    cr_assert_eq(s->route_count, 1u);
    cr_expect_str_eq(s->routes[0].match, "/**");
    cr_expect_null(s->routes[0].host);
    cr_expect_eq(s->routes[0].upstream, &s->upstreams[0]);
    cr_expect_null(s->routes[0].rewrite);
    cr_expect_eq(s->routes[0].limit_count, 0u);
    cr_expect_null(s->routes[0].cache);
    cr_expect_eq(s->routes[0].invalidate_count, 0u);
    settings_release(&s);
    cr_expect_null(s);
}

Test(accepted, a_limit_and_a_cache_have_every_default)
{
    struct settings *s = accepted("limits: {one: {key: ip, rate: 20/s}}\n" UPSTREAM
                                  "routes: [{match: GET /, upstream: api, limits: [one], cache: {}}]\n");
    static const int statuses[] = {200, 203, 204, 301, 308, 404, 410};
    const struct cache_rule *cache = s->routes[0].cache;
    const struct limit_rule *limit = s->routes[0].limits[0].rule;

    cr_expect_eq(limit->missing, MISSING_IP);
    cr_expect_eq(limit->ipv6_prefix, 64);
    cr_expect_eq(limit->terms.algorithm, LIMIT_SLIDING_WINDOW);
    cr_expect_eq(limit->terms.limit, 20);
    cr_expect_eq(limit->terms.window_us, 1000000);
    cr_expect_eq(limit->terms.tick_us, 1);
    cr_expect_eq(limit->cost, 1);
    cr_expect_eq(limit->on_store_failure, FAILURE_LOCAL);
    cr_expect_eq(limit->key.parts[0].name.len, 0u);

    cr_expect_eq(cache->ttl_ms, -1);
    cr_expect(!cache->override_origin && !cache->shared_with_authorization &&
              !cache->bypass_on_store_failure);
    cr_expect_eq(cache->stale_while_revalidate_ms, 0);
    cr_expect_eq(cache->stale_if_error_ms, 0);
    cr_expect_eq(cache->stale_if_unreachable_ms, 60000);
    cr_expect(cache->keep_until_close);
    cr_expect_eq(cache->lock_timeout_ms, 5000);
    cr_expect_eq(cache->negative_ttl_ms, 1000);
    cr_expect_eq(cache->tag_count, 0u);
    cr_assert_eq(cache->tag_header_count, 2u);
    cr_expect_str_eq(cache->tag_headers[0], "surrogate-key");
    cr_expect_str_eq(cache->tag_headers[1], "cache-tag");
    cr_assert_eq(cache->status_count, sizeof statuses / sizeof *statuses);
    cr_expect_arr_eq(cache->statuses, statuses, sizeof statuses);
    cr_expect_eq(cache->max_object_bytes, (size_t)8 * MIB);
    cr_expect_eq(cache->key.query, KEY_QUERY_ALL);
    cr_expect_eq(cache->compress_count, 0u);
    settings_release(&s);
}

Test(accepted, what_is_held_has_a_lease_and_nothing_else_has)
{
    struct settings *s = accepted(
        "limits:\n"
        "  a: {key: ip, algorithm: concurrency, max: 10}\n"
        "  b: {key: ip, algorithm: concurrency, max: 1000000, lease: 1h, cost: {header: x-cost}}\n"
        "  c: {key: ip, rate: 100/m, cost: {response_header: X-Cost, reserve: 10}}\n"
        "  d: {key: ip, rate: 100/m, lease: 5s, cost: {response_header: x-cost, reserve: 10, default: "
        "0, max: 50}}\n"
        "  e: {key: ip, rate: 100/m}\n" UPSTREAM
        "routes: [{match: /**, upstream: api, limits: [{limit: c, cost: 3}]}]\n");
    static const int64_t leases_us[] = {60000000, 3600000000, 60000000, 5000000, 0};

    for (size_t i = 0; i < sizeof leases_us / sizeof *leases_us; i++)
        cr_expect_eq(s->limits[i].terms.lease_us, leases_us[i], "%s", s->limits[i].name);
    cr_expect_eq(limit_capacity(&s->limits[1].terms), 1000000);
    cr_expect_eq(limit_period_us(&s->limits[1].terms), 0, "it counts over no time");
    cr_expect_eq(s->limits[1].terms.tick_us, 1);
    cr_expect(slice_eq(s->limits[2].cost_rule.name, SLICE("x-cost")), "names are without case");
    cr_expect_eq(s->limits[2].cost, 10, "that much must be left");
    cr_expect_eq(s->limits[2].cost_rule.unstated, 10);
    cr_expect_eq(s->limits[3].cost_rule.unstated, 0);
    cr_expect_eq(s->limits[3].cost_rule.max, 50);
    cr_expect_eq(s->routes[0].limits[0].cost, 3);
    cr_expect_eq(s->routes[0].limits[0].cost_rule.source, COST_FIXED);
    settings_release(&s);
}

Test(accepted, each_algorithm_takes_the_rates_that_it_can_decide)
{
    struct settings *s = accepted("limits:\n"
                                  "  a: {key: ip, algorithm: sliding_log, rate: 1000000/30d}\n"
                                  "  b: {key: ip, algorithm: token_bucket, rate: 2/s}\n"
                                  "  c: {key: ip, algorithm: token_bucket, rate: 2/s, burst: 10, cost: 10}\n"
                                  "  d: {key: ip, algorithm: token_bucket, rate: 1000000/d, burst: 3000}\n"
                                  "  e: {key: ip, algorithm: fixed_window, rate: 9007199254740992/month}\n"
                                  "  f: {key: ip, algorithm: fixed_window, rate: 5/week}\n"
                                  "  g: {key: ip, algorithm: fixed_window, rate: 5/15m}\n" UPSTREAM
                                  "routes: [{match: /**, upstream: api}]\n");
    static const struct limit_terms terms[] = {
        {LIMIT_SLIDING_LOG, 1000000, 30 * INT64_C(86400000000), 1, 0, CALENDAR_MULTIPLES, 0},
        {LIMIT_TOKEN_BUCKET, 2, 1000000, 1, 2, CALENDAR_MULTIPLES, 0},
        {LIMIT_TOKEN_BUCKET, 2, 1000000, 1, 10, CALENDAR_MULTIPLES, 0},
        {LIMIT_TOKEN_BUCKET, 1000000, 86400000000, 1000, 3000, CALENDAR_MULTIPLES, 0},
        {LIMIT_FIXED_WINDOW, LIMIT_EXACT, 31 * INT64_C(86400000000), 1, 0, CALENDAR_MONTH, 0},
        {LIMIT_FIXED_WINDOW, 5, 7 * INT64_C(86400000000), 1, 0, CALENDAR_WEEK, 0},
        {LIMIT_FIXED_WINDOW, 5, 900000000, 1, 0, CALENDAR_MULTIPLES, 0},
    };

    cr_assert_eq(s->limit_count, sizeof terms / sizeof *terms);
    for (size_t i = 0; i < s->limit_count; i++) {
        struct limit_terms read = s->limits[i].terms;
        cr_expect_eq(read.algorithm, terms[i].algorithm, "%s", s->limits[i].name);
        cr_expect_eq(read.limit, terms[i].limit, "%s", s->limits[i].name);
        cr_expect_eq(read.window_us, terms[i].window_us, "%s", s->limits[i].name);
        cr_expect_eq(read.tick_us, terms[i].tick_us, "%s", s->limits[i].name);
        cr_expect_eq(read.burst, terms[i].burst, "%s", s->limits[i].name);
        cr_expect_eq(read.calendar, terms[i].calendar, "%s", s->limits[i].name);
    }
    cr_expect_eq(limit_capacity(&s->limits[2].terms), 10, "a bucket holds its burst");
    cr_expect_eq(limit_period_us(&s->limits[2].terms), 5000000, "ten at two a second");
    settings_release(&s);
}

Test(accepted, a_plan_has_the_terms_of_its_limit_and_its_own_instead)
{
    struct settings *s = accepted(
        "limits:\n"
        "  a: {key: header:k, unknown: ip, plans: {default: free, free: 20/s, pro: 200/m}}\n"
        "  b: {key: [header:k, route], algorithm: token_bucket, rate: 2/s, burst: 10, plans: {pro: {}, "
        "default: pro, big: {burst: 30}, fast: 5/s, both: {rate: 7/s, burst: 8}}}\n"
        "  c: {key: ip, algorithm: token_bucket, plans: {default: pro, pro: 9/s}}\n"
        "  d: {key: ip, algorithm: fixed_window, rate: 5/month, plans: {default: pro, pro: 9/s, old: "
        "{}}}\n"
        "  e: {key: ip, algorithm: concurrency, max: 4, lease: 30s, plans: {few: 2, some: {}, many: {max: "
        "9}, default: few}}\n" UPSTREAM "routes: [{match: /**, upstream: api}]\n");
    static const struct {
        size_t limit;
        const char *plan;
        int64_t units, window_us, burst;
        enum calendar calendar;
    } rows[] = {
        {0, "free", 20, 1000000, 0, CALENDAR_MULTIPLES},
        {0, "pro", 200, 60000000, 0, CALENDAR_MULTIPLES},
        {1, "pro", 2, 1000000, 10, CALENDAR_MULTIPLES},
        {1, "big", 2, 1000000, 30, CALENDAR_MULTIPLES},
        {1, "fast", 5, 1000000, 10, CALENDAR_MULTIPLES},
        {1, "both", 7, 1000000, 8, CALENDAR_MULTIPLES},
        {2, "pro", 9, 1000000, 9, CALENDAR_MULTIPLES},
        {3, "pro", 9, 1000000, 0, CALENDAR_MULTIPLES},
        {3, "old", 5, 31 * INT64_C(86400000000), 0, CALENDAR_MONTH},
        {4, "few", 2, 0, 0, CALENDAR_MULTIPLES},
        {4, "some", 4, 0, 0, CALENDAR_MULTIPLES},
        {4, "many", 9, 0, 0, CALENDAR_MULTIPLES},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct limit_plan *plan = limit_plan_named(&s->limits[rows[i].limit], slice_text(rows[i].plan));

        cr_assert_not_null(plan, "%s", rows[i].plan);
        cr_expect_eq(plan->terms.algorithm, s->limits[rows[i].limit].terms.algorithm, "row %zu", i);
        cr_expect_eq(plan->terms.limit, rows[i].units, "row %zu", i);
        cr_expect_eq(plan->terms.window_us, rows[i].window_us, "row %zu", i);
        cr_expect_eq(plan->terms.burst, rows[i].burst, "row %zu", i);
        cr_expect_eq(plan->terms.calendar, rows[i].calendar, "row %zu", i);
        cr_expect_eq(plan->terms.tick_us, 1, "row %zu", i);
    }
    cr_expect_eq(s->limits[0].terms.limit, 20, "the default plan's terms are the limit's");
    cr_expect_eq(s->limits[4].plans[0].terms.lease_us, 30000000, "all hold for as long");
    cr_expect_eq(s->limits[0].unknown, UNKNOWN_BY_IP);
    cr_expect_eq(s->limits[1].unknown, UNKNOWN_OWN);
    cr_expect_null(limit_plan_named(&s->limits[0], SLICE("default")));
    cr_expect(slice_eq(s->limits[1].plan_key.kind, SLICE("header:k")), "whose plan: the key's first part");
    cr_expect_eq(s->limits[1].plan_key.part_count, 1);
    settings_release(&s);
}

static const char everything[] =
    "listen: ['0.0.0.0:80', {address: '[0:0::1]:81', proxy_protocol: no}]\n"
    "workers: 3\n"
    "admin: {address: '10.1.2.3:99', token_file: files/admin.token}\n"
    "max_body: 5MB\n"
    "client: {header_timeout: 11ms, body_timeout: 12s, idle_timeout: 13m, write_timeout: 14h, "
    "max_connections: 15,\n"
    "         max_per_address: 16, max_headers: 17, max_header_bytes: 2KB}\n"
    "drain_timeout: 0\n"
    "trusted_proxies: [10.0.0.0/8, '::1']\n"
    "log: {access: logs/access.log, format: combined, level: error}\n"
    "store: {url: 'redis://weir@[::1]:6380/7', prefix: w-1, timeout: 1m, consistency: push, password_file: "
    "files/good.secret, journal: kept/journal}\n"
    "near_cache: {size: 1GiB, max_object: 2MiB}\n"
    "upstreams:\n"
    "  other: {servers: [{url: 'http://Example.COM', weight: 1}], balance: round_robin, connect_timeout: "
    "2ms,\n"
    "          first_byte_timeout: 3ms, idle_timeout: 4ms, max_connections: 5, max_pending: 6, retries: 7}\n"
    "  api: {servers: ['http://[::1]:9000/']}\n"
    "limits:\n"
    "  keyed: {key: 'header:X-Api-Key', missing: reject, unknown: own, ipv6_prefix: 48, algorithm: "
    "sliding_window,\n"
    "          rate: 1000000/d, counts: requests, when_refused: refuse, cost: 5, on_store_failure: closed,\n"
    "          mode: enforce, precision: exact}\n"
    "  everyone: {key: global, rate: 5/250ms, missing: skip, on_store_failure: open, mode: shadow}\n"
    "routes:\n"
    "  - match: GET,PUT /products/{id}/**\n"
    "    host: '*.Example.com'\n"
    "    upstream: api\n"
    "    rewrite: /v1/{id}\n"
    "    limits: [everyone, keyed]\n"
    "    cache: {ttl: 1s, override_origin: true, stale_while_revalidate: 2s, stale_if_error: 30d, "
    "lock_timeout: 4s,\n"
    "            tags: ['p:{id}', 'u:{header:X-User}', 'q:{query:lang}'], tag_headers: [X-Tags], statuses: "
    "[200, 404],\n"
    "            negative_ttl: 5s, max_object: 6B, compress: [Text/*, application/json], key: {query: none, "
    "headers: [], cookies: "
    "[]},\n"
    "            shared_with_authorization: on, on_store_failure: bypass}\n"
    "    invalidates: [all, {tag: 'p:{id}', soft: true}, {tag: x}, {tag: soft, soft: yes}]\n"
    "  - {match: /**, upstream: other}\n"
    "headers: {ratelimit: [x], x_cache: false, cache_status: Off, cache_key: yes, proxy_status: NO}\n";

static struct settings *accept_everything(void)
{
    struct settings *settings;
    char *said;
    size_t len;
    FILE *errors = open_memstream(&said, &len);

    settings = settings_parse("tests/settings/weir.yaml", everything, strlen(everything), errors);
    fclose(errors);
    cr_assert_str_eq(said, "");
    free(said);
    return settings;
}

Test(accepted, every_key_of_the_process_reaches_its_field)
{
    struct settings *s = accept_everything();
    struct address loopback, ten;

    cr_assert_eq(s->listen_count, 2u);
    cr_expect_str_eq(s->listens[0].host, "0.0.0.0");
    cr_expect_eq(s->listens[0].port, 80);
    cr_expect_str_eq(s->listens[1].host, "::1");
    cr_expect_eq(s->listens[1].port, 81);
    cr_expect_eq(s->workers, 3);
    cr_expect_str_eq(s->admin.host, "10.1.2.3");
    cr_expect_eq(s->admin.port, 99);
    cr_expect_str_eq(s->admin_token, "letmein");
    cr_expect_eq(s->max_body_bytes, 5000000u);
    cr_expect_eq(s->client.header_timeout_ms, 11);
    cr_expect_eq(s->client.body_timeout_ms, 12000);
    cr_expect_eq(s->client.idle_timeout_ms, 13 * 60000);
    cr_expect_eq(s->client.write_timeout_ms, 14 * 3600000);
    cr_expect_eq(s->client.max_connections, 15);
    cr_expect_eq(s->client.max_per_address, 16);
    cr_expect_eq(s->client.max_headers, 17);
    cr_expect_eq(s->client.max_header_bytes, 2000u);
    cr_expect_eq(s->drain_timeout_ms, 0);
    cr_assert_eq(s->trusted_proxy_count, 2u);
    cr_assert(address_parse(SLICE("::1"), &loopback) && address_parse(SLICE("10.255.0.1"), &ten));
    cr_expect(address_is_in(&loopback, s->trusted_proxies, 2) && address_is_in(&ten, s->trusted_proxies, 2));
    cr_expect_str_eq(s->log.access, "tests/settings/logs/access.log");
    cr_expect_eq(s->log.format, LOG_COMBINED);
    cr_expect_eq(s->log.level, LOG_ERROR);
    cr_expect_eq(s->store.kind, STORE_REDIS);
    cr_expect_str_eq(s->store.host, "::1");
    cr_expect_eq(s->store.port, 6380);
    cr_expect_eq(s->store.database, 7);
    cr_expect_null(s->store.unix_path);
    cr_expect_str_eq(s->store.user, "weir");
    cr_expect_str_eq(s->store.password, "s3cret");
    cr_expect_str_eq(s->store.prefix, "w-1");
    cr_expect_eq(s->store.timeout_ms, 60000);
    cr_expect_eq(s->store.consistency, CONSISTENCY_PUSH);
    cr_expect(strstr(s->store.journal_path, "/kept/journal") != NULL, "beside the file: %s",
              s->store.journal_path);
    cr_expect_eq(s->near_cache_bytes, (size_t)1024 * MIB);
    cr_expect_eq(s->near_object_bytes, (size_t)2 * MIB);
    cr_expect(!s->headers.ratelimit_draft11 && !s->headers.ratelimit_plain && s->headers.ratelimit_x);
    cr_expect(!s->headers.x_cache && !s->headers.cache_status && !s->headers.proxy_status);
    cr_expect(s->headers.cache_key);
    settings_release(&s);
}

Test(accepted, every_key_of_upstreams_and_limits_reaches_its_field)
{
    struct settings *s = accept_everything();

    cr_assert_eq(s->upstream_count, 2u);
    cr_expect_str_eq(s->upstreams[0].name, "other");
    cr_expect_str_eq(s->upstreams[0].host, "example.com");
    cr_expect_eq(s->upstreams[0].port, 80);
    cr_expect_eq(s->upstreams[0].connect_timeout_ms, 2);
    cr_expect_eq(s->upstreams[0].first_byte_timeout_ms, 3);
    cr_expect_eq(s->upstreams[0].idle_timeout_ms, 4);
    cr_expect_eq(s->upstreams[0].max_connections, 5);
    cr_expect_eq(s->upstreams[0].max_pending, 6);
    cr_expect_eq(s->upstreams[0].retries, 7);
    cr_expect_eq(s->upstreams[0].index, 0u);
    cr_expect_eq(s->upstreams[1].index, 1u);
    cr_expect_str_eq(s->upstreams[1].host, "::1");
    cr_assert_eq(s->limit_count, 2u);
    cr_expect_str_eq(s->limits[0].name, "keyed");
    cr_expect_eq(s->limits[0].key.part_count, 1u);
    cr_expect_eq(s->limits[0].key.parts[0].kind, LIMIT_KEY_HEADER);
    cr_expect(slice_eq(s->limits[0].key.parts[0].name, SLICE("x-api-key")));
    cr_expect(slice_eq(s->limits[0].key.kind, SLICE("header:x-api-key")));
    cr_expect_eq(s->limits[0].missing, MISSING_REJECT);
    cr_expect_eq(s->limits[0].ipv6_prefix, 48);
    cr_expect_eq(s->limits[0].terms.limit, 1000000);
    cr_expect_eq(s->limits[0].terms.window_us, INT64_C(86400000000));
    cr_expect_eq(s->limits[0].terms.tick_us, 1000, "a million a day is exact only in milliseconds");
    cr_expect_eq(s->limits[0].cost, 5);
    cr_expect_eq(s->limits[0].on_store_failure, FAILURE_CLOSED);
    cr_expect_eq(s->limits[1].index, 1u);
    cr_expect_eq(s->limits[1].key.parts[0].kind, LIMIT_KEY_GLOBAL);
    cr_expect(slice_eq(s->limits[1].key.kind, SLICE("global")));
    cr_expect_eq(s->limits[1].missing, MISSING_SKIP);
    cr_expect_eq(s->limits[0].mode, LIMIT_ENFORCED);
    cr_expect_eq(s->limits[1].mode, LIMIT_IN_SHADOW);
    cr_expect_eq(s->limits[1].terms.limit, 5);
    cr_expect_eq(s->limits[1].terms.window_us, 250000);
    cr_expect_eq(s->limits[1].on_store_failure, FAILURE_OPEN);
    settings_release(&s);
}

Test(accepted, every_key_of_a_route_reaches_its_field)
{
    struct settings *s = accept_everything();
    const struct route_rule *route = &s->routes[0];
    const struct cache_rule *cache = route->cache;

    cr_assert_eq(s->route_count, 2u);
    cr_expect_eq(s->routes[1].index, 1u);
    cr_expect_eq(s->routes[1].upstream, &s->upstreams[0]);
    cr_expect_str_eq(route->match, "GET,PUT /products/{id}/**");
    cr_expect_eq(route->pattern->method_count, 2u);
    cr_expect_str_eq(route->host, "*.example.com");
    cr_expect_eq(route->upstream, &s->upstreams[1]);
    cr_assert_eq(route->rewrite->part_count, 2u);
    cr_expect(slice_eq(route->rewrite->parts[0].text, SLICE("/v1/")));
    cr_assert_eq(route->limit_count, 2u);
    cr_expect_eq(route->limits[0].rule, &s->limits[1]);
    cr_expect_eq(route->limits[1].rule, &s->limits[0]);
    cr_assert(route->invalidate_count == 4 && route->soft_invalidate_count == 2);
    cr_expect(slice_eq(route->invalidates[0].parts[0].text, SLICE("p:")), "the soft ones go first");
    cr_expect(slice_eq(route->invalidates[1].parts[0].text, SLICE("soft")));
    cr_expect(slice_eq(route->invalidates[2].parts[0].text, SLICE("x")));
    cr_expect_eq(cache->ttl_ms, 1000);
    cr_expect(cache->override_origin && cache->shared_with_authorization && cache->bypass_on_store_failure);
    cr_expect_eq(cache->stale_while_revalidate_ms, 2000);
    cr_expect_eq(cache->stale_if_error_ms, INT64_C(30) * 86400000);
    cr_expect_eq(cache->lock_timeout_ms, 4000);
    cr_expect_eq(cache->negative_ttl_ms, 5000);
    cr_assert_eq(cache->tag_count, 3u);
    cr_expect_eq(cache->tags[1].parts[1].kind, PART_HEADER);
    cr_assert_eq(cache->tag_header_count, 1u);
    cr_expect_str_eq(cache->tag_headers[0], "x-tags");
    cr_assert_eq(cache->status_count, 2u);
    cr_expect_eq(cache->statuses[1], 404);
    cr_expect_eq(cache->max_object_bytes, 6u);
    cr_expect_eq(cache->key.query, KEY_QUERY_NONE);
    cr_assert_eq(cache->compress_count, 2u);
    cr_expect(slice_eq(cache->compress[0], SLICE("text/")) &&
              slice_eq(cache->compress[1], SLICE("application/json")));
    settings_release(&s);
}

static void expect_names(const struct key_names *names, const char *first, const char *second)
{
    cr_assert_eq(names->count, second == NULL ? 1u : 2u);
    cr_expect(slice_eq(names->each[0], slice_text(first)));
    cr_expect(second == NULL || slice_eq(names->each[1], slice_text(second)));
}

Test(accepted, the_names_of_a_key_are_sorted)
{
    struct settings *s = accepted(
        UPSTREAM
        "routes:\n"
        "  - {match: GET /a, upstream: api, cache: {key: {query: {except: [b, 'a[b]']}, headers: [X-B, x-a], "
        "cookies: [b, B]}}}\n"
        "  - {match: GET /b, upstream: api, cache: {key: {query: {only: [c]}}}}\n");
    const struct cache_rule *first = s->routes[0].cache, *second = s->routes[1].cache;

    cr_expect_eq(first->key.query, KEY_QUERY_EXCEPT);
    expect_names(&first->key.parameters, "a[b]", "b");
    expect_names(&first->key.headers, "x-a", "x-b");
    expect_names(&first->key.cookies, "B", "b");
    cr_expect(slice_eq(first->key_varied, SLICE("x-a, x-b")));
    cr_expect_eq(second->key.query, KEY_QUERY_ONLY);
    expect_names(&second->key.parameters, "c", NULL);
    cr_expect_eq(second->key.headers.count, 0u);
    cr_expect_eq(second->key_varied.len, 0u);
    settings_release(&s);
}

Test(accepted, the_examples_of_conf)
{
    glob_t found;

    cr_assert_eq(glob("conf/*.yaml", 0, NULL, &found), 0);
    cr_assert_geq(found.gl_pathc, 4u);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct outcome outcome = load(found.gl_pathv[i]);

        cr_expect_str_eq(outcome.said, "");
        cr_expect_not_null(outcome.settings, "%s was refused", found.gl_pathv[i]);
        forget(&outcome);
    }
    globfree(&found);
}

Test(accepted, the_full_example_spells_out_the_defaults)
{
    struct outcome full = load("conf/full.yaml");
    struct settings *least = accepted("limits: {one: {key: ip, rate: 20/s}}\n" UPSTREAM
                                      "routes: [{match: GET /, upstream: api, limits: [one], cache: {}}]\n");
    const struct cache_rule *a = full.settings->routes[0].cache, *b = least->routes[0].cache;

    cr_expect_eq(memcmp(&full.settings->client, &least->client, sizeof least->client), 0);
    cr_expect_eq(memcmp(&full.settings->headers, &least->headers, sizeof least->headers), 0);
    cr_expect_eq(full.settings->max_body_bytes, least->max_body_bytes);
    cr_expect_eq(full.settings->drain_timeout_ms, least->drain_timeout_ms);
    cr_expect_eq(full.settings->upstreams[0].first_byte_timeout_ms,
                 least->upstreams[0].first_byte_timeout_ms);
    cr_expect_eq(full.settings->upstreams[0].max_pending, least->upstreams[0].max_pending);
    cr_expect_eq(full.settings->limits[0].ipv6_prefix, least->limits[0].ipv6_prefix);
    cr_expect_eq(full.settings->limits[0].on_store_failure, least->limits[0].on_store_failure);
    cr_expect_eq(a->lock_timeout_ms, b->lock_timeout_ms);
    cr_expect_eq(a->negative_ttl_ms, b->negative_ttl_ms);
    cr_expect_eq(a->max_object_bytes, b->max_object_bytes);
    cr_expect_eq(a->status_count, b->status_count);
    cr_expect_eq(a->tag_header_count, b->tag_header_count);
    settings_release(&least);
    forget(&full);
}

Test(accepted, a_byte_order_mark_is_not_part_of_the_first_key)
{
    struct settings *s = accepted("\xef\xbb\xbf" UPSTREAM ROUTE);

    settings_release(&s);
}

Test(accepted, held_settings_outlive_the_first_owner)
{
    struct settings *first = accepted(UPSTREAM ROUTE), *second = settings_hold(first);

    settings_release(&first);
    cr_expect_null(first);
    cr_expect_str_eq(second->upstreams[0].name, "api");
    settings_release(&second);
    settings_release(&second); /* NULL is fine */
}

Test(accepted, every_form_of_key_and_lists_of_them)
{
    static const struct {
        const char *key, *kind;
        size_t parts;
    } rows[] = {
        {"header:X-Api-Key", "header:x-api-key", 1},
        {"query:filter[user]", "query:filter[user]", 1},
        {"cookie:SID", "cookie:SID", 1},
        {"path:id", "path:id", 1},
        {"ip", "ip", 1},
        {"host", "host", 1},
        {"route", "route", 1},
        {"global", "global", 1},
        {"[ip]", "ip", 1},
        {"[global]", "global", 1},
        {"['header:X-A', 'path:id', route]", "header:x-a,path:id,route", 3},
        {"['header:a', 'header:b', 'query:c', 'cookie:d', 'path:id', ip, host, route]",
         "header:a,header:b,query:c,cookie:d,path:id,ip,host,route", 8},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        struct settings *s;

        snprintf(text, sizeof text,
                 "limits: {one: {key: %s%s%s, rate: 1/s}}\n" UPSTREAM
                 "routes: [{match: '/{id}', upstream: api, limits: [one]}]\n",
                 rows[i].key[0] == '[' ? "" : "'", rows[i].key, rows[i].key[0] == '[' ? "" : "'");
        s = accepted(text);
        cr_expect_eq(s->limits[0].key.part_count, rows[i].parts, "%s", rows[i].key);
        cr_expect(slice_eq(s->limits[0].key.kind, slice_text(rows[i].kind)), "%s: %.*s", rows[i].key,
                  (int)s->limits[0].key.kind.len, s->limits[0].key.kind.base);
        settings_release(&s);
    }
}

Test(accepted, every_form_of_cost)
{
    static const struct {
        const char *cost;
        enum cost_source source;
        const char *name;
        int64_t fallback, max;
        size_t max_body;
    } rows[] = {
        {"7", COST_FIXED, "", 7, INT64_C(1) << 53, 0},
        {"{header: X-Cost, default: 2, max: 50}", COST_OF_HEADER, "x-cost", 2, 50, 64 * KIB},
        {"{query: units}", COST_OF_QUERY, "units", 1, INT64_C(1) << 53, 64 * KIB},
        {"{json: /documentIds, default: 1, max: 100, max_body: 1MiB}", COST_OF_JSON, "/documentIds", 1, 100,
         MIB},
        {"{json: '', max: 5}", COST_OF_JSON, "", 1, 5, 64 * KIB},
        {"{json: /a~0b~1c/0}", COST_OF_JSON, "/a~0b~1c/0", 1, INT64_C(1) << 53, 64 * KIB},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        struct settings *s;

        snprintf(text, sizeof text, "limits: {one: {key: ip, rate: 20/s, cost: %s}}\n" UPSTREAM ROUTE,
                 rows[i].cost);
        s = accepted(text);
        cr_expect_eq(s->limits[0].cost, rows[i].fallback, "%s", rows[i].cost);
        cr_expect_eq(s->limits[0].cost_rule.source, rows[i].source, "%s", rows[i].cost);
        cr_expect_eq(s->limits[0].cost_rule.max, rows[i].max, "%s", rows[i].cost);
        cr_expect_eq(s->limits[0].cost_rule.max_body_bytes, rows[i].max_body, "%s", rows[i].cost);
        cr_expect(slice_eq(s->limits[0].cost_rule.name, slice_text(rows[i].name)), "%s", rows[i].cost);
        settings_release(&s);
    }
}

Test(accepted, a_route_may_say_its_own_cost_of_a_limit)
{
    struct settings *s = accepted("limits:\n"
                                  "  one: {key: ip, rate: 20/s, cost: {header: x-cost, default: 2, max: 9}}\n"
                                  "  two: {key: ip, rate: 20/s}\n" UPSTREAM "routes:\n"
                                  "  - {match: /a, upstream: api, limits: [one, {limit: two, cost: 5}]}\n"
                                  "  - {match: /b, upstream: api, limits: [{limit: one, cost: 20}, {limit: "
                                  "two, cost: {query: units, max: 3}}]}\n"
                                  "  - {match: /c, upstream: api, limits: [{limit: one}]}\n");
    const struct limit_use *a = s->routes[0].limits, *b = s->routes[1].limits, *c = s->routes[2].limits;

    cr_expect_eq(a[0].rule, &s->limits[0]);
    cr_expect_eq(a[0].cost, 2);
    cr_expect_eq(a[0].cost_rule.source, COST_OF_HEADER);
    cr_expect_eq(a[0].cost_rule.max, 9);
    cr_expect_eq(a[1].rule, &s->limits[1]);
    cr_expect_eq(a[1].cost, 5);
    cr_expect_eq(a[1].cost_rule.source, COST_FIXED);
    cr_expect_eq(b[0].rule, &s->limits[0], "the same limit: one budget");
    cr_expect_eq(b[0].cost, 20);
    cr_expect_eq(b[0].cost_rule.source, COST_FIXED, "nothing of the limit's own cost is left");
    cr_expect_eq(b[1].cost, 1);
    cr_expect_eq(b[1].cost_rule.source, COST_OF_QUERY);
    cr_expect_eq(b[1].cost_rule.max, 3);
    cr_expect_eq(c[0].cost_rule.source, COST_OF_HEADER);
    cr_expect_eq(s->limits[1].cost, 1, "what a route says is of that route");
    settings_release(&s);
}

Test(accepted, what_is_counted_and_what_the_refused_get)
{
    struct settings *s = accepted(
        "limits:\n"
        "  plain: {key: ip, rate: 1/s}\n"
        "  loads: {key: ip, rate: 1/s, counts: misses, when_refused: stale}\n"
        "  held: {key: ip, rate: 1/s, counts: requests, when_refused: wait, max_wait: 1500ms}\n" UPSTREAM
            ROUTE);

    cr_expect_eq(s->limits[0].counts, COUNT_REQUESTS);
    cr_expect_eq(s->limits[0].when_refused, REFUSE);
    cr_expect_eq(s->limits[1].counts, COUNT_MISSES);
    cr_expect_eq(s->limits[1].when_refused, GIVE_STORED);
    cr_expect_eq(s->limits[2].counts, COUNT_REQUESTS);
    cr_expect_eq(s->limits[2].when_refused, WAIT_FOR_IT);
    cr_expect_eq(s->limits[2].max_wait_ms, 1500);
    settings_release(&s);
}
