/* Limit gauges: see limit_gauges.h. */
#include "limit_gauges.h"
#include "census.h"
#include "clock.h"
#include "memory.h"
#include "settings.h"
#include "stats.h"
#include "store.h"

#include <stdlib.h>
#include <string.h>

struct limit_gauge {
    struct store_memory *memory;
    struct census *census; /* NULL: beyond the names that are counted */
    char *limit;
};

struct limit_gauges {
    struct store_memory *memory;
    struct limit_gauge *list;
    size_t count;
};

static int64_t read_keys(void *arg)
{
    const struct limit_gauge *gauge = arg;

    return store_memory_keys(gauge->memory, gauge->limit);
}

static int64_t read_callers(void *arg)
{
    const struct limit_gauge *gauge = arg;

    return census_count(gauge->census, clock_mono());
}

static void expose(struct limit_gauge *gauge, bool is_exposed)
{
    const char *const labels[] = {gauge->limit};

    stats_probe(STATS_limit_keys, labels, is_exposed ? read_keys : NULL, gauge);
    if (gauge->census != NULL)
        stats_probe(STATS_limit_callers, labels, is_exposed ? read_callers : NULL, gauge);
}

static void forget(struct limit_gauges *gauges)
{
    for (size_t i = 0; i < gauges->count; i++) {
        expose(&gauges->list[i], false);
        free(gauges->list[i].limit);
    }
    free(gauges->list);
    gauges->list = NULL;
    gauges->count = 0;
}

void limit_gauges_follow(struct limit_gauges *gauges, const struct settings *settings)
{
    forget(gauges);
    gauges->list = must_alloc((settings->limit_count + 1) * sizeof(*gauges->list));
    gauges->count = settings->limit_count;
    for (size_t i = 0; i < gauges->count; i++) {
        const char *name = settings->limits[i].name;

        gauges->list[i] =
            (struct limit_gauge){gauges->memory, census_of(name), must_copy(name, strlen(name))};
        expose(&gauges->list[i], true);
    }
}

struct limit_gauges *limit_gauges_new(struct store_memory *memory)
{
    struct limit_gauges *gauges = must_alloc(sizeof(*gauges));

    gauges->memory = memory;
    return gauges;
}

void limit_gauges_free(struct limit_gauges *gauges)
{
    forget(gauges);
    free(gauges);
}
