/* Admin, stats: GET /api/stats: what this process has done since it started, as one JSON object.
 *
 * The figures are those of /metrics, put together by what they are about. What counts has a field also where it is 0,
 * save routes, limits and upstreams that nothing was asked of yet. A ratio of nothing is null.
 */
#include "admin_parts.h"
#include "near.h"
#include "stats.h"
#include "worker.h"

#include <json-c/json.h>
#include <string.h>

/* ---- building ---- */

static struct json_object *map_at(struct json_object *map, const char *key)
{
    struct json_object *found;

    if (!json_object_object_get_ex(map, key, &found)) {
        found = json_object_new_object();
        json_object_object_add(map, key, found);
    }
    return found;
}

static int64_t number_at(struct json_object *map, const char *key)
{
    struct json_object *found;

    return json_object_object_get_ex(map, key, &found) ? json_object_get_int64(found) : 0;
}

static void add_to(struct json_object *map, const char *key, int64_t n)
{
    json_object_object_add(map, key, json_object_new_int64(number_at(map, key) + n));
}

static void put_ratio(struct json_object *map, const char *key, int64_t part, int64_t whole)
{
    json_object_object_add(map, key,
                           whole == 0 ? NULL : json_object_new_double((double)part / (double)whole));
}

static void put_mean(struct json_object *map, int64_t count, int64_t sum_us)
{
    json_object_object_add(map, "count", json_object_new_int64(count));
    json_object_object_add(map, "mean_us", count == 0 ? NULL : json_object_new_int64(sum_us / count));
}

/* ---- one family each; `arg` is the object that its figures go to ---- */

static void add_requests(void *arg, const char *route, const char *status, int64_t value, int64_t sum_us)
{
    char class[4] = {status[0], 'x', 'x', 0};

    (void)sum_us;
    add_to(map_at(map_at(arg, route), "requests"), class, value);
}

static void add_cache_results(void *arg, const char *route, const char *result, int64_t value, int64_t sum_us)
{
    (void)sum_us;
    add_to(map_at(map_at(arg, route), "cache"), result, value);
}

static void add_loads(void *arg, const char *route, const char *outcome, int64_t value, int64_t sum_us)
{
    (void)sum_us;
    add_to(map_at(map_at(arg, route), "loads"), outcome, value);
}

static void add_collapsed(void *arg, const char *route, const char *none, int64_t value, int64_t sum_us)
{
    (void)none, (void)sum_us;
    add_to(map_at(arg, route), "collapsed", value);
}

/* Families of two labels: {first: {second: n}}. */
static void add_by_both(void *arg, const char *first, const char *second, int64_t value, int64_t sum_us)
{
    (void)sum_us;
    add_to(map_at(arg, first), second, value);
}

static void add_by_first(void *arg, const char *first, const char *none, int64_t value, int64_t sum_us)
{
    (void)none, (void)sum_us;
    add_to(arg, first, value);
}

static void add_upstream_requests(void *arg, const char *upstream, const char *outcome, int64_t value,
                                  int64_t sum_us)
{
    (void)sum_us;
    add_to(map_at(map_at(arg, upstream), "requests"), outcome, value);
}

static void add_durations(void *arg, const char *name, const char *none, int64_t count, int64_t sum_us)
{
    (void)none;
    put_mean(map_at(map_at(arg, name), "duration"), count, sum_us);
}

static void add_operations(void *arg, const char *operation, const char *none, int64_t count, int64_t sum_us)
{
    (void)none;
    put_mean(map_at(arg, operation), count, sum_us);
}

static void add_number(void *arg, const char *none, const char *nothing, int64_t value, int64_t sum_us)
{
    (void)none, (void)nothing, (void)sum_us;
    *(int64_t *)arg += value;
}

static int64_t sum_of(enum stats_family family)
{
    int64_t sum = 0;

    stats_each(family, add_number, &sum);
    return sum;
}

/* ---- the parts ---- */

/* Answered without an upstream request of their own: of all that did not go past the cache. */
static void put_hit_ratio(struct json_object *map, struct json_object *results)
{
    int64_t without = number_at(results, "HIT") + number_at(results, "STALE") + number_at(results, "WAIT");
    int64_t with = number_at(results, "MISS") + number_at(results, "REVALIDATED");

    put_ratio(map, "hit_ratio", without, without + with);
}

static struct json_object *routes_object(void)
{
    struct json_object *routes = json_object_new_object();

    stats_each(STATS_requests, add_requests, routes);
    stats_each(STATS_cache_results, add_cache_results, routes);
    stats_each(STATS_loads, add_loads, routes);
    stats_each(STATS_collapsed, add_collapsed, routes);
    stats_each(STATS_request_duration, add_durations, routes);
    json_object_object_foreach(routes, name, route)
    {
        struct json_object *results;

        (void)name;
        if (json_object_object_get_ex(route, "cache", &results))
            put_hit_ratio(route, results);
    }
    return routes;
}

static struct json_object *cache_object(const struct admin *admin, struct json_object *routes)
{
    struct json_object *cache = json_object_new_object(), *results = map_at(cache, "results");
    struct near_figures figures = near_count(admin->store->near);

    add_to(cache, "objects", (int64_t)figures.objects);
    add_to(cache, "bytes", (int64_t)figures.bytes);
    add_to(cache, "budget_bytes", (int64_t)figures.budget_bytes);
    add_to(cache, "stamped_tags", (int64_t)figures.tags);
    add_to(cache, "evicted", (int64_t)figures.evicted);
    add_to(cache, "invalidated", (int64_t)figures.invalidated);
    json_object_object_foreach(routes, name, route)
    {
        struct json_object *own;

        (void)name;
        if (!json_object_object_get_ex(route, "cache", &own))
            continue;
        json_object_object_foreach(own, result, count) add_to(results, result, json_object_get_int64(count));
    }
    put_hit_ratio(cache, results);
    return cache;
}

static struct json_object *store_object(const struct admin *admin)
{
    struct json_object *store = json_object_new_object(), *operations = map_at(store, "operations");
    bool is_up = admin->store->is_up;

    json_object_object_add(store, "kind",
                           json_object_new_string(admin->store->is_shared ? "redis" : "memory"));
    json_object_object_add(store, "up", json_object_new_boolean(is_up));
    add_to(store, "epoch", near_epoch(admin->store->near));
    stats_each(STATS_store_duration, add_operations, operations);
    stats_each(STATS_store_errors, add_by_both, map_at(store, "errors"));
    add_to(store, "reconnects", sum_of(STATS_store_reconnects));
    stats_each(STATS_degraded, add_by_first, map_at(store, "degraded"));
    return store;
}

static struct json_object *upstreams_object(void)
{
    struct json_object *upstreams = json_object_new_object();

    stats_each(STATS_upstream_requests, add_upstream_requests, upstreams);
    stats_each(STATS_upstream_duration, add_durations, upstreams);
    return upstreams;
}

static struct json_object *invalidations_object(void)
{
    struct json_object *invalidations = json_object_new_object();

    for (const char *const *each = (const char *const[]){"recorded", "deferred", "widened", "unnamed", NULL};
         *each != NULL; each++)
        add_to(invalidations, *each, 0);
    stats_each(STATS_invalidations, add_by_first, invalidations);
    add_to(invalidations, "kept", sum_of(STATS_invalidations_kept));
    add_to(invalidations, "journal_failures", sum_of(STATS_journal_failures));
    return invalidations;
}

void admin_stats(struct admin_request *request)
{
    struct json_object *all = json_object_new_object(), *routes = routes_object(),
                       *limits = map_at(all, "limits");
    size_t len;
    const char *text;

    stats_each(STATS_limit_decisions, add_by_both, limits);
    json_object_object_add(all, "version", json_object_new_string(WEIR_VERSION));
    json_object_object_add(all, "cache", cache_object(request->admin, routes));
    json_object_object_add(all, "routes", routes);
    json_object_object_add(all, "store", store_object(request->admin));
    json_object_object_add(all, "upstreams", upstreams_object());
    json_object_object_add(all, "invalidations", invalidations_object());
    text = json_object_to_json_string_length(all, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE,
                                             &len);
    admin_answer(request->client, 200, SLICE("application/json"), slice_of(text, len));
    json_object_put(all);
}
