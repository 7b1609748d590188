/* Fuzz cache control: whatever an upstream puts into Cache-Control, Expires, Date and Age, the answer keeps
 * its promises.
 *
 * The input is lines, each one field: the first byte of a line tells which ('c', 'e', 'd', 'a', 't' and 's' for
 * fields that are targeted at us, 'q' for a Cache-Control of the request, else another field), the rest is its value.
 */
#include "check.h"
#include "http_date.h"
#include "storability.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_FIELDS = 64 };

static const struct wall_s received = {INT64_C(1790000000)};

struct fields {
    struct header headers[MAX_FIELDS];
    size_t count;
};

static struct slice name_of(char kind)
{
    switch (kind) {
    case 'c': return SLICE("cache-control");
    case 'e': return SLICE("expires");
    case 'd': return SLICE("date");
    case 'a': return SLICE("age");
    case 'v': return SLICE("vary");
    case 't': return SLICE("cdn-cache-control");
    case 's': return SLICE("surrogate-control");
    }
    return SLICE("x-other");
}

static void add(struct fields *fields, struct slice name, struct slice value)
{
    if (fields->count < MAX_FIELDS)
        fields->headers[fields->count++] = (struct header){name, value};
}

static void split(struct slice text, struct fields *request, struct fields *response)
{
    while (text.len > 0) {
        const char *end = memchr(text.base, '\n', text.len);
        size_t len = end == NULL ? text.len : (size_t)(end - text.base);
        if (len > 0 && text.base[0] == 'q')
            add(request, SLICE("cache-control"), slice_of(text.base + 1, len - 1));
        else if (len > 0)
            add(response, name_of(text.base[0]), slice_of(text.base + 1, len - 1));
        text.base += len + (end != NULL);
        text.len -= len + (end != NULL);
    }
}

static bool is_lifetime(int64_t seconds)
{
    return seconds == CACHE_SECONDS_ABSENT || (seconds >= 0 && seconds <= CACHE_SECONDS_MAX);
}

static void check_control(const struct cache_control *c)
{
    CHECK(is_lifetime(c->max_age_s) && is_lifetime(c->s_maxage_s));
    CHECK(is_lifetime(c->stale_while_revalidate_s) && is_lifetime(c->stale_if_error_s));
    CHECK(is_lifetime(c->max_stale_s) && is_lifetime(c->min_fresh_s));
    CHECK(!(c->is_malformed && c->permits_authorization));
    CHECK(!c->permits_authorization || c->is_public || c->must_revalidate || c->s_maxage_is_valid);
    CHECK(!c->s_maxage_is_valid || c->s_maxage_s != CACHE_SECONDS_ABSENT);
    CHECK(!c->no_cache_fields_only || c->no_cache);
    CHECK(!c->private_fields_only || c->is_private);
}

/* A restriction that stands on a line of its own is never lost, whatever stands on the others. */
static void check_restrictions_hold(struct fields fields)
{
    struct cache_control control;

    add(&fields, SLICE("cache-control"), SLICE("no-store, private, must-revalidate, max-age=0"));
    if (fields.count == MAX_FIELDS)
        return;
    cache_control_parse(fields.headers, fields.count, &control);
    CHECK(control.no_store && control.is_private && control.must_revalidate && control.max_age_s == 0);
}

static void check_verdict(const struct fields *request_fields, const struct fields *response_fields)
{
    static const int statuses[] = {200, 404};
    struct storing_request request;
    struct storing_response response;

    storing_request_read(SLICE("GET"), request_fields->headers, request_fields->count, &request);
    check_control(&request.control);
    for (int settings = 0; settings < 16; settings++) {
        struct caching_rule rule = {.ttl_ms = settings & 1 ? 60000 : -1,
                                    .override_origin = (settings & 2) != 0,
                                    .negative_ttl_ms = 1000,
                                    .stale_while_revalidate_ms = settings & 4 ? 5000 : 0,
                                    .stale_if_error_ms = settings & 4 ? 9000 : 0,
                                    .statuses = statuses,
                                    .status_count = 2};
        int status = settings & 8 ? 404 : 200;
        struct freshness freshness;
        storing_response_read(status, response_fields->headers, response_fields->count, false, 20, received,
                              &response);
        check_control(&response.control);
        if (response.control.is_targeted)
            CHECK(freshness_of(status, &response.control, &response.times, &rule).source !=
                  FRESHNESS_EXPIRES);
        enum storability verdict = storability_judge(&request, &response, &rule, &freshness);
        CHECK(freshness.age_ms >= 0 && freshness.fresh_ms >= 0);
        CHECK(freshness.stale_ms >= freshness.fresh_ms && freshness.stale_ms <= FRESHNESS_MAX_MS);
        CHECK(freshness.error_ms >= freshness.fresh_ms && freshness.error_ms <= FRESHNESS_MAX_MS);
        if (verdict != STORABLE)
            continue;
        CHECK(!response.control.no_store && !response.control.is_malformed);
        CHECK(!response.control.is_private || response.control.private_fields_only);
        CHECK(!response.varies_on_all && !request.control.no_store);
        CHECK(freshness.keep_ms > 0);
        CHECK(freshness.keep_ms >= freshness.stale_ms && freshness.keep_ms >= freshness.error_ms);
        CHECK(status != 404 ||
              (freshness.stale_ms == freshness.fresh_ms && freshness.error_ms == freshness.fresh_ms &&
               (freshness_is_explicit(&freshness) || freshness.fresh_ms <= rule.negative_ttl_ms)));
        CHECK(!(response.control.must_revalidate || response.control.proxy_revalidate) ||
              (freshness.stale_ms == freshness.fresh_ms && freshness.error_ms == freshness.fresh_ms));
    }
}

/* What is read as a date is the moment that its IMF-fixdate names. */
static void check_date(struct slice text)
{
    struct wall_s moment, again;
    char written[HTTP_DATE_BYTES];

    if (!http_date_parse(text, received, &moment))
        return;
    http_date_write(moment, written);
    CHECK(http_date_parse(slice_of(written, sizeof(written)), received, &again));
    CHECK(again.s == moment.s ||
          moment.s > INT64_C(253402300799) /* the leap second of the last year there is */);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fields request = {.count = 0}, response = {.count = 0};

    split(slice_of((const char *)data, size), &request, &response);
    for (size_t i = 0; i < response.count; i++)
        check_date(response.headers[i].value);
    check_restrictions_hold(response);
    check_verdict(&request, &response);
    return 0;
}
