/* Stats: see stats.h.
 *
 * A series is a run of cells: one for a counter or gauge; for a histogram one per bucket, then the sum. Its
 * id is the number of its first cell, with a mark for histograms, and means the same cell in every thread. A
 * thread's cells live in segments that it allocates when it first touches them and never frees; only it
 * writes them, so an addition is a plain load and store, made atomic for the readers' sake. Figures of a
 * thread that has ended stay part of the sums; the next thread takes its place.
 */
#include "stats.h"

#include "check.h"
#include "memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { SEGMENT_CELLS = 1024, MAX_SEGMENTS = 256, UNLISTED = 0 /* the cell of series that found no room */ };
static const stats_id HISTOGRAM_MARK = 1u << 31;

static const struct bucket {
    int64_t up_to_us;
    const char *seconds;
} buckets[] = {
    {50, "0.00005"}, {100, "0.0001"}, {250, "0.00025"}, {500, "0.0005"}, {1000, "0.001"},  {2500, "0.0025"},
    {5000, "0.005"}, {10000, "0.01"}, {25000, "0.025"}, {50000, "0.05"}, {100000, "0.1"},  {250000, "0.25"},
    {500000, "0.5"}, {1000000, "1"},  {2500000, "2.5"}, {5000000, "5"},  {10000000, "10"},
};

enum {
    BUCKETS = sizeof(buckets) / sizeof(buckets[0]) + 1 /* above the last */,
    HISTOGRAM_CELLS = BUCKETS + 1 /* the sum */
};

enum family_kind { KIND_COUNTER, KIND_GAUGE, KIND_HISTOGRAM };

static const struct family {
    const char *name;
    enum family_kind kind;
    const char *labels, *help, *conclusion;
} families[] = {
#define COUNTER(id, labels, help, conclusion) {#id, KIND_COUNTER, labels, help, conclusion},
#define GAUGE(id, labels, help, conclusion) {#id, KIND_GAUGE, labels, help, conclusion},
#define HISTOGRAM(id, labels, help, conclusion) {#id, KIND_HISTOGRAM, labels, help, conclusion},
#include "stats.def"
#undef COUNTER
#undef GAUGE
#undef HISTOGRAM
};

struct series {
    struct series *next;
    char *labels; /* as exposed, without braces: a="b",c="d" */
    stats_id id;
    int64_t (*read)(void *arg); /* of a probe, which has no cells */
    void *arg;
};

struct segment {
    _Atomic int64_t cells[SEGMENT_CELLS];
};

struct stats {
    struct stats *next;
    bool is_taken; /* by a living thread; under the registry's lock */
    _Atomic(struct segment *) segments[MAX_SEGMENTS];
};

static struct {
    pthread_mutex_t lock;
    struct stats *threads;
    struct series *first[STATS_FAMILIES], **last[STATS_FAMILIES];
    uint32_t cells_used;
    pthread_key_t leave;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER, .cells_used = 1};

static pthread_once_t registry_once = PTHREAD_ONCE_INIT;
static _Thread_local struct stats *own;

/* ---- cells ---- */

static _Atomic int64_t *cell_of(struct stats *mine, uint32_t cell)
{
    _Atomic(struct segment *) *place = &mine->segments[cell / SEGMENT_CELLS];
    struct segment *segment = atomic_load_explicit(place, memory_order_relaxed);

    if (segment == NULL) {
        segment = must_alloc(sizeof(*segment));
        atomic_store_explicit(place, segment, memory_order_release); /* readers must find it zeroed */
    }
    return &segment->cells[cell % SEGMENT_CELLS];
}

static void cell_add(struct stats *mine, uint32_t number, int64_t n)
{
    _Atomic int64_t *cell = cell_of(mine, number);

    atomic_store_explicit(cell, atomic_load_explicit(cell, memory_order_relaxed) + n, memory_order_relaxed);
}

void stats_add(struct stats *mine, stats_id id, int64_t n)
{
    CHECK((id & HISTOGRAM_MARK) == 0);
    cell_add(mine, id, n);
}

void stats_observe(struct stats *mine, stats_id id, int64_t us)
{
    uint32_t first = id & ~HISTOGRAM_MARK, at = 0;

    if (first == UNLISTED)
        return;
    CHECK((id & HISTOGRAM_MARK) != 0);
    if (us < 0)
        us = 0; /* a clock that stepped back */
    while (at < BUCKETS - 1 && us > buckets[at].up_to_us)
        at++;
    cell_add(mine, first + at, 1);
    cell_add(mine, first + BUCKETS, us);
}

/* Summed over all threads, present and past; under the registry's lock. */
static int64_t cell_sum(uint32_t cell)
{
    int64_t sum = 0;

    for (struct stats *each = registry.threads; each != NULL; each = each->next) {
        struct segment *segment =
            atomic_load_explicit(&each->segments[cell / SEGMENT_CELLS], memory_order_acquire);

        if (segment != NULL)
            sum += atomic_load_explicit(&segment->cells[cell % SEGMENT_CELLS], memory_order_relaxed);
    }
    return sum;
}

static int64_t histogram_count(uint32_t first)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < BUCKETS; i++)
        sum += cell_sum(first + i);
    return sum;
}

int64_t stats_total(stats_id id)
{
    int64_t total;

    pthread_mutex_lock(&registry.lock);
    total = (id & HISTOGRAM_MARK) != 0 ? histogram_count(id & ~HISTOGRAM_MARK) : cell_sum(id);
    pthread_mutex_unlock(&registry.lock);
    return total;
}

/* ---- the registry ---- */

static void put_escaped(FILE *out, const char *text, bool is_label)
{
    for (; *text != '\0'; text++) {
        if (*text == '\n')
            fputs("\\n", out);
        else if (*text == '\\' || (is_label && *text == '"'))
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
    }
}

static char *labels_text(const struct family *family, const char *const *values)
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    const char *name = family->labels;

    CHECK(out != NULL);
    for (size_t i = 0; *name != '\0'; i++) {
        size_t name_len = strcspn(name, ",");

        fprintf(out, "%s%.*s=\"", i == 0 ? "" : ",", (int)name_len, name);
        put_escaped(out, values[i] == NULL ? "" : values[i], true);
        fputc('"', out);
        name += name_len + (name[name_len] == ',');
    }
    CHECK(fclose(out) == 0);
    return text;
}

/* Under the lock. Of the same labels there is one series, or a scraper would refuse the page. */
static struct series *find(enum stats_family family, const char *labels)
{
    struct series *each = registry.first[family];

    while (each != NULL && strcmp(each->labels, labels) != 0)
        each = each->next;
    return each;
}

/* Under the lock; takes the text. */
static struct series *append(enum stats_family family, char *labels, stats_id id)
{
    struct series *fresh = must_alloc(sizeof(*fresh));

    fresh->labels = labels;
    fresh->id = id;
    *registry.last[family] = fresh;
    registry.last[family] = &fresh->next;
    return fresh;
}

/* A run of cells that does not cross a segment's border; UNLISTED where there is none left. */
static uint32_t take_cells(uint32_t count)
{
    uint32_t first = registry.cells_used;

    if (first % SEGMENT_CELLS + count > SEGMENT_CELLS)
        first += SEGMENT_CELLS - first % SEGMENT_CELLS;
    if (first + count > (uint32_t)SEGMENT_CELLS * MAX_SEGMENTS)
        return UNLISTED;
    registry.cells_used = first + count;
    return first;
}

/* Under the lock; takes the text. */
static stats_id series_id(enum stats_family family, char *labels)
{
    bool is_histogram = families[family].kind == KIND_HISTOGRAM;
    struct series *known = find(family, labels);
    stats_id id = known != NULL ? known->id : take_cells(is_histogram ? HISTOGRAM_CELLS : 1);

    CHECK(known == NULL || known->id != UNLISTED); /* what a probe reads is not counted as well */
    if (known != NULL || id == UNLISTED) {
        free(labels);
        return id;
    }
    return append(family, labels, is_histogram ? id | HISTOGRAM_MARK : id)->id;
}

static void leave(void *stats)
{
    pthread_mutex_lock(&registry.lock);
    ((struct stats *)stats)->is_taken = false;
    pthread_mutex_unlock(&registry.lock);
    own = NULL;
}

static void open_registry(void)
{
    CHECK(pthread_key_create(&registry.leave, leave) == 0);
    for (int i = 0; i < STATS_FAMILIES; i++) {
        registry.last[i] = &registry.first[i];
        /* From the start, so that a rise from nothing is seen as one. */
        if (families[i].kind == KIND_COUNTER && families[i].labels[0] == '\0')
            series_id((enum stats_family)i, must_copy("", 0));
    }
}

stats_id stats_series(enum stats_family family, const char *const *label_values)
{
    char *labels = labels_text(&families[family], label_values);
    stats_id id;

    pthread_once(&registry_once, open_registry);
    pthread_mutex_lock(&registry.lock);
    id = series_id(family, labels);
    pthread_mutex_unlock(&registry.lock);
    return id;
}

void stats_probe(enum stats_family family, const char *const *label_values, int64_t (*read)(void *arg),
                 void *arg)
{
    char *labels = labels_text(&families[family], label_values);
    struct series *probe;

    CHECK(families[family].kind != KIND_HISTOGRAM);
    pthread_once(&registry_once, open_registry);
    pthread_mutex_lock(&registry.lock);
    probe = find(family, labels);
    if (probe == NULL)
        probe = append(family, labels, UNLISTED);
    else
        free(labels);
    probe->read = read;
    probe->arg = arg;
    pthread_mutex_unlock(&registry.lock);
}

static struct stats *take_left(void)
{
    struct stats *each = registry.threads;

    while (each != NULL && each->is_taken)
        each = each->next;
    return each;
}

struct stats *stats_join(void)
{
    if (own != NULL)
        return own;
    pthread_once(&registry_once, open_registry);
    pthread_mutex_lock(&registry.lock);
    own = take_left();
    if (own == NULL) {
        own = must_alloc(sizeof(*own));
        own->next = registry.threads;
        registry.threads = own;
    }
    own->is_taken = true;
    pthread_mutex_unlock(&registry.lock);
    CHECK(pthread_setspecific(registry.leave, own) == 0);
    return own;
}

/* ---- exposition ---- */

static const char *suffix(enum family_kind kind)
{
    switch (kind) {
    case KIND_COUNTER: return "_total";
    case KIND_GAUGE: return "";
    case KIND_HISTOGRAM: return "_seconds";
    }
    return "";
}

static const char *type_name(enum family_kind kind)
{
    switch (kind) {
    case KIND_COUNTER: return "counter";
    case KIND_GAUGE: return "gauge";
    case KIND_HISTOGRAM: return "histogram";
    }
    return "untyped";
}

static void write_plain(FILE *out, const struct family *family, const struct series *series)
{
    bool has_labels = series->labels[0] != '\0';
    int64_t value = series->read != NULL ? series->read(series->arg) : cell_sum(series->id);

    fprintf(out, "weir_%s%s%s%s%s %lld\n", family->name, suffix(family->kind), has_labels ? "{" : "",
            series->labels, has_labels ? "}" : "", (long long)value);
}

static void write_histogram(FILE *out, const struct family *family, const struct series *series)
{
    uint32_t first = series->id & ~HISTOGRAM_MARK;
    const char *comma = series->labels[0] != '\0' ? "," : "", *open = comma[0] != '\0' ? "{" : "",
               *close = comma[0] != '\0' ? "}" : "";
    int64_t count = 0, sum_us = cell_sum(first + BUCKETS);

    for (uint32_t i = 0; i < BUCKETS; i++) {
        count += cell_sum(first + i);
        fprintf(out, "weir_%s_seconds_bucket{%s%sle=\"%s\"} %lld\n", family->name, series->labels, comma,
                i < BUCKETS - 1 ? buckets[i].seconds : "+Inf", (long long)count);
    }
    fprintf(out, "weir_%s_seconds_sum%s%s%s %lld.%06lld\n", family->name, open, series->labels, close,
            (long long)(sum_us / 1000000), (long long)(sum_us % 1000000));
    fprintf(out, "weir_%s_seconds_count%s%s%s %lld\n", family->name, open, series->labels, close,
            (long long)count);
}

static bool has_samples(const struct series *series)
{
    return series->id != UNLISTED || series->read != NULL;
}

static void write_family(FILE *out, const struct family *family, const struct series *series)
{
    while (series != NULL && !has_samples(series))
        series = series->next;
    if (series == NULL)
        return;
    fprintf(out, "# HELP weir_%s%s ", family->name, suffix(family->kind));
    put_escaped(out, family->help, false);
    if (family->conclusion[0] != '\0')
        fputs(". ", out);
    put_escaped(out, family->conclusion, false);
    fprintf(out, "\n# TYPE weir_%s%s %s\n", family->name, suffix(family->kind), type_name(family->kind));
    for (; series != NULL; series = series->next) {
        if (!has_samples(series))
            continue;
        if (family->kind == KIND_HISTOGRAM)
            write_histogram(out, family, series);
        else
            write_plain(out, family, series);
    }
}

/* The next value of labels as they are exposed, as it was given; "" where there is none. `out` has room for all. */
static const char *take_value(const char **labels, char **out)
{
    const char *value = *out, *at = strchr(*labels, '"');

    if (at == NULL)
        return "";
    for (at++; *at != '"'; at++) {
        if (*at == '\\')
            at++;
        *(*out)++ = *at == 'n' && at[-1] == '\\' ? '\n' : *at;
    }
    *(*out)++ = '\0';
    *labels = at + 1;
    return value;
}

static void visit_series(const struct series *series, stats_visit *visit, void *arg)
{
    uint32_t first_cell = series->id & ~HISTOGRAM_MARK;
    char *room = must_alloc(strlen(series->labels) + 2), *out = room;
    const char *labels = series->labels, *first = take_value(&labels, &out),
               *second = take_value(&labels, &out);

    if (series->read != NULL)
        visit(arg, first, second, series->read(series->arg), 0);
    else if ((series->id & HISTOGRAM_MARK) != 0)
        visit(arg, first, second, histogram_count(first_cell), cell_sum(first_cell + BUCKETS));
    else if (series->id != UNLISTED)
        visit(arg, first, second, cell_sum(first_cell), 0);
    free(room);
}

void stats_each(enum stats_family family, stats_visit *visit, void *arg)
{
    pthread_once(&registry_once, open_registry);
    pthread_mutex_lock(&registry.lock);
    for (const struct series *each = registry.first[family]; each != NULL; each = each->next)
        visit_series(each, visit, arg);
    pthread_mutex_unlock(&registry.lock);
}

void stats_write_prometheus(FILE *out)
{
    char *text = NULL;
    size_t len;
    FILE *memory = open_memstream(&text, &len);

    CHECK(memory != NULL);
    pthread_once(&registry_once, open_registry);
    pthread_mutex_lock(&registry.lock);
    for (int i = 0; i < STATS_FAMILIES; i++)
        write_family(memory, &families[i], registry.first[i]);
    pthread_mutex_unlock(&registry.lock);
    /* `out` may be slow: not under the lock */
    CHECK(fclose(memory) == 0);
    fwrite(text, 1, len, out);
    free(text);
}
