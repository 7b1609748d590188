/* Test site: a configuration with what the tests of the services need, and a site of it. */
#ifndef WEIR_TESTS_TEST_SITE_H
#define WEIR_TESTS_TEST_SITE_H

#include "site.h"

#include <criterion/criterion.h>
#include <string.h>

static const char TEST_SETTINGS[] =
    "upstreams:\n"
    "  api: { servers: ['http://127.0.0.1:9'] }\n"
    "limits:\n"
    "  closed: { key: global, rate: 10/s, on_store_failure: closed }\n"
    "  open: { key: global, rate: 10/s, on_store_failure: open }\n"
    "  local: { key: global, rate: 10/s, on_store_failure: local }\n"
    "  second_local: { key: global, rate: 20/s, on_store_failure: local }\n"
    "  shadow: { key: global, rate: 5/s, on_store_failure: local, mode: shadow }\n"
    "  shadow_closed: { key: global, rate: 5/s, on_store_failure: closed, mode: shadow }\n"
    "  shadow_open: { key: global, rate: 5/s, on_store_failure: open, mode: shadow }\n"
    "routes:\n"
    "  - match: GET /patient\n"
    "    upstream: api\n"
    "    cache: { ttl: 60s, stale_while_revalidate: 60s, stale_if_error: 5m, lock_timeout: 60s,\n"
    "             max_object: 1KiB, tags: [declared], tag_headers: [surrogate-key] }\n"
    "  - match: GET /hurried\n"
    "    upstream: api\n"
    "    cache: { ttl: 60s, lock_timeout: 10ms, max_object: 1KiB }\n"
    "  - match: GET /bypassing\n"
    "    upstream: api\n"
    "    cache: { ttl: 60s, stale_if_unreachable: 0s, lock_timeout: 60s, max_object: 1KiB,\n"
    "             on_store_failure: bypass }\n"
    "  - match: GET /packing\n"
    "    upstream: api\n"
    "    cache: { ttl: 60s, lock_timeout: 60s, max_object: 3KiB, tags: [declared], compress: [text/*] }\n";

enum { ROUTE_PATIENT, ROUTE_HURRIED, ROUTE_BYPASSING, ROUTE_PACKING };
enum {
    TEST_LIMIT_CLOSED,
    TEST_LIMIT_OPEN,
    TEST_LIMIT_LOCAL,
    TEST_LIMIT_SECOND_LOCAL,
    TEST_LIMIT_SHADOW,
    TEST_LIMIT_SHADOW_CLOSED,
    TEST_LIMIT_SHADOW_OPEN,
};

static inline struct site *test_site_new(struct loop *loop)
{
    struct settings *settings = settings_parse("test.yaml", TEST_SETTINGS, sizeof(TEST_SETTINGS) - 1, stderr);
    struct site *site;

    cr_assert_not_null(settings);
    site = site_new(loop, NULL, settings, stats_join());
    settings_release(&settings);
    return site;
}

#endif
