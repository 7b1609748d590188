/* What a reload may change, and what it must not pretend to have changed. */
#include "support_settings.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static void compare(const char *old_text, const char *fresh_text, const char *want)
{
    struct settings *old = accepted(old_text), *fresh = accepted(fresh_text);
    char *said;
    size_t len;
    FILE *errors = open_memstream(&said, &len);
    bool may = settings_may_replace(old, fresh, errors);

    fclose(errors);
    cr_expect_eq(may, want[0] == '\0');
    cr_expect_str_eq(said, want);
    free(said);
    settings_release(&old);
    settings_release(&fresh);
}

#define CANNOT(key) "weir.yaml: " key ": cannot be changed by a reload; restart to change it\n"

Test(reload, nothing_changed_is_fine)
{
    compare(UPSTREAM ROUTE, UPSTREAM ROUTE, "");
}

Test(reload, defaults_and_their_written_form_are_the_same)
{
    compare(
        UPSTREAM ROUTE,
        "listen: ['127.0.0.1:8080']\nstore: {url: 'memory://', timeout: 50ms}\nadmin: {}\n" UPSTREAM ROUTE,
        "");
}

Test(reload, rules_patience_and_trust_may_change)
{
    compare(UPSTREAM ROUTE,
            "max_body: 1MiB\nclient: {max_connections: 5, idle_timeout: 1s}\ndrain_timeout: "
            "1s\ntrusted_proxies: [10.0.0.0/8]\n"
            "log: {level: debug}\nheaders: {x_cache: false}\nlimits: {a: {key: ip, rate: 1/s}}\n"
            "upstreams: {new: {servers: ['http://127.0.0.1:9']}}\nroutes: [{match: /, upstream: new, limits: "
            "[a]}]\n",
            "");
}

Test(reload, what_was_opened_at_the_start_may_not)
{
    static const struct {
        const char *line, *want;
    } rows[] = {
        {"listen: 127.0.0.1:8081\n", CANNOT("listen")},
        {"listen: ['127.0.0.1:8080', '127.0.0.1:8081']\n", CANNOT("listen")},
        {"workers: 256\n", CANNOT("workers")},
        {"admin: 127.0.0.1:9902\n", CANNOT("admin.address")},
        {"admin: {token_file: tests/settings/files/admin.token}\n", CANNOT("the token of admin")},
        {"log: {access: 'off'}\n", CANNOT("log.access")},
        {"log: {format: combined}\n", CANNOT("log.format")},
        {"store: {url: 'redis://h'}\n", CANNOT("store.url")},
        {"store: {url: 'redis://:p@h'}\n", CANNOT("store.url") CANNOT("the password of the store")},
        {"store: {prefix: w}\n", CANNOT("store.prefix")},
        {"store: {timeout: 51ms}\n", CANNOT("store.timeout")},
        {"store: {consistency: push}\n", CANNOT("store.consistency")},
        {"store: {url: 'redis://h', journal: j}\n", CANNOT("store.url") CANNOT("store.journal")},
        {"near_cache: {size: 2MiB}\n", CANNOT("near_cache.size")},
        {"near_cache: {max_object: 2MiB}\n", CANNOT("near_cache.max_object")},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];

        snprintf(text, sizeof text, "%s" UPSTREAM ROUTE, rows[i].line);
        compare(UPSTREAM ROUTE, text, rows[i].want);
    }
}

Test(reload, every_part_of_the_store_s_address_counts)
{
    static const char *const urls[] = {"redis://h:1/2", "redis://g:1/2",     "redis://h:2/2",
                                       "redis://h:1/3", "redis://u:p@h:1/2", "redis+unix:///s"};

    for (size_t i = 1; i < sizeof urls / sizeof *urls; i++) {
        char old[512], fresh[512];

        snprintf(old, sizeof old, "store: {url: '%s'}\n" UPSTREAM ROUTE, urls[0]);
        snprintf(fresh, sizeof fresh, "store: {url: '%s'}\n" UPSTREAM ROUTE, urls[i]);
        compare(old, fresh,
                i == 4 ? CANNOT("store.url") CANNOT("the password of the store") : CANNOT("store.url"));
    }
}
