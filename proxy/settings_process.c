/* Settings process: where the process listens, how many workers it has, whom it trusts, and what it writes
 * about its work. */
#include "memory.h"
#include "settings_file.h"
#include "settings_sections.h"
#include "settings_units.h"
#include "settings_url.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_WORKERS = 256, MAX_RANGES = 1024, MAX_PATH_BYTES = 4000 };

/* ---- listen ---- */

static void read_endpoint(struct draft *draft, const struct node *node, void *into)
{
    struct listen_setting *listen = into;
    char host[MAX_HOST_BYTES + 1];
    const char *text, *problem;
    int port;

    if (!want_text(draft, node, "an address and a port, such as 127.0.0.1:8080", &text))
        return;
    problem = endpoint_parse(text, host, &port);
    if (problem != NULL) {
        complain_value(draft->complaints, node, "%s is no address to listen on; %s", quote(text).text,
                       problem);
        return;
    }
    listen->host = draft_copy(draft, host);
    listen->port = port;
}

static const struct setting listen_rows[] = {
    {.key = "address",
     .type = SETTING_OWN,
     .read = read_endpoint,
     .is_required = true,
     .shape = "an address and a port, such as 127.0.0.1:8080",
     .means = "Where to listen; an IPv6 address stands in brackets."},
    {.key = "tls", .type = SETTING_LATER, .shape = "a map", .means = "TLS and HTTP/2 to clients."},
    {.key = "proxy_protocol",
     .type = SETTING_LATER,
     .preset = "false",
     .shape = "true or false",
     .means = "Reading the client's address from the PROXY protocol."},
};
const struct section section_listen = SECTION_OF("listen[]", listen_rows);

static void read_one_listen(struct draft *draft, const struct node *node, struct settings *settings)
{
    struct listen_setting *fresh = &settings->listens[settings->listen_count];

    if (node->kind == NODE_MAP)
        section_read(draft, node, &section_listen, fresh);
    else
        read_endpoint(draft, node, fresh);
    if (fresh->host == NULL)
        return;
    for (size_t i = 0; i < settings->listen_count; i++)
        if (settings->listens[i].port == fresh->port && strcmp(settings->listens[i].host, fresh->host) == 0) {
            complain_value(draft->complaints, node, "%s port %d is listened on twice", fresh->host,
                           fresh->port);
            return;
        }
    settings->listen_count++;
}

void read_listen(struct draft *draft, const struct node *node, void *into)
{
    struct settings *settings = into;
    size_t count = node->kind == NODE_LIST ? node->count : 1;

    if (node->kind == NODE_LIST && !want_list(draft, node, "a list", MAX_LISTENS))
        return;
    if (count == 0)
        complain_value(draft->complaints, node, "is an empty list; at least one address is needed");
    settings->listens = draft_alloc(draft, (count + 1) * sizeof *settings->listens);
    if (node->kind != NODE_LIST)
        read_one_listen(draft, node, settings);
    else
        for (size_t i = 0; i < count; i++)
            read_one_listen(draft, node->items[i], settings);
}

/* ---- workers ---- */

/* The CPUs this process may run on, which in a container or under taskset are fewer than the machine has. */
static int usable_cpus(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t allowed;

    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        online = CPU_COUNT(&allowed);
    return online < 1 ? 1 : online > MAX_WORKERS ? MAX_WORKERS : (int)online;
}

void read_workers(struct draft *draft, const struct node *node, void *into)
{
    struct settings *settings = into;
    const char *text;
    int64_t count;

    if (!want_text(draft, node, "auto or a whole number", &text))
        return;
    if (strcmp(text, "auto") == 0)
        settings->workers = usable_cpus();
    else if (!read_count(text, &count) || count < 1 || count > MAX_WORKERS)
        complain_value(draft->complaints, node, "%s is out of range; allowed is auto, or 1 to %d",
                       quote(text).text, MAX_WORKERS);
    else
        settings->workers = (int)count;
}

/* ---- admin ---- */

static void read_admin_endpoint(struct draft *draft, const struct node *node, void *into)
{
    struct settings *settings = into;

    read_endpoint(draft, node, &settings->admin);
}

static void read_token_file(struct draft *draft, const struct node *node, void *into)
{
    struct settings *settings = into;
    const char *text, *problem;
    char *path, *token;

    if (!want_text(draft, node, "the path of a file", &text))
        return;
    path = path_beside(settings->path, text);
    token = secret_read(path, &problem);
    free(path);
    if (token == NULL) {
        complain_value(draft->complaints, node, "%s cannot be used: %s", quote(text).text, problem);
        settings->admin_token =
            draft_copy(draft, ""); /* one was meant to be there: no complaint about its absence as well */
        return;
    }
    settings->admin_token = draft_copy(draft, token);
    explicit_bzero(token, strlen(token));
    free(token);
}

static const struct setting admin_rows[] = {
    {.key = "address",
     .type = SETTING_OWN,
     .read = read_admin_endpoint,
     .preset = "127.0.0.1:9901",
     .shape = "an address and a port",
     .means = "Where health, metrics and the admin interface are served."},
    {.key = "token_file",
     .type = SETTING_OWN,
     .read = read_token_file,
     .shape = "the path of a file",
     .means = "Holds the bearer token for the admin interface; needed where the address is not loopback."},
};
const struct section section_admin = SECTION_OF("admin", admin_rows);

void read_admin(struct draft *draft, const struct node *node, void *into)
{
    struct settings *settings = into;

    if (node->kind == NODE_MAP)
        section_read(draft, node, &section_admin, settings);
    else
        read_admin_endpoint(draft, node, settings);
    if (settings->admin.host != NULL && !host_is_loopback(settings->admin.host) &&
        settings->admin_token == NULL)
        complain_value(draft->complaints, node,
                       "%s can be reached from other machines, so admin.token_file must be given; or listen "
                       "on 127.0.0.1",
                       settings->admin.host);
}

/* ---- client, trusted_proxies ---- */

#define CLIENT(field) offsetof(struct client_settings, field)
static const struct setting client_rows[] = {
    {.key = "header_timeout",
     .type = SETTING_DURATION,
     .offset = CLIENT(header_timeout_ms),
     .least = "10ms",
     .most = "1h",
     .preset = "10s",
     .means = "A request's head must be complete within this time of its first byte, the first one of a "
              "connection within this time of its opening."},
    {.key = "body_timeout",
     .type = SETTING_DURATION,
     .offset = CLIENT(body_timeout_ms),
     .least = "10ms",
     .most = "1d",
     .preset = "60s",
     .means = "A request's body must be complete within this time."},
    {.key = "idle_timeout",
     .type = SETTING_DURATION,
     .offset = CLIENT(idle_timeout_ms),
     .least = "10ms",
     .most = "1d",
     .preset = "60s",
     .means = "A connection that waits for its next request is closed after this time."},
    {.key = "write_timeout",
     .type = SETTING_DURATION,
     .offset = CLIENT(write_timeout_ms),
     .least = "10ms",
     .most = "1d",
     .preset = "60s",
     .means = "A client that takes no byte of its answer for this long is left."},
    {.key = "max_connections",
     .type = SETTING_INT,
     .offset = CLIENT(max_connections),
     .least = "1",
     .most = "1000000",
     .preset = "10000",
     .means = "Connections of clients at a time, over all workers."},
    {.key = "max_per_address",
     .type = SETTING_INT,
     .offset = CLIENT(max_per_address),
     .least = "0",
     .most = "1000000",
     .preset = "0",
     .means = "Connections of one address at a time, over all workers; 0: no cap."},
    {.key = "max_headers",
     .type = SETTING_INT,
     .offset = CLIENT(max_headers),
     .least = "1",
     .most = "100",
     .note = "the HTTP library reads no more than 100 fields of a request",
     .preset = "100",
     .means = "Header fields of a request; more are answered 431."},
    {.key = "max_header_bytes",
     .type = SETTING_SIZE,
     .offset = CLIENT(max_header_bytes),
     .least = "1KiB",
     .most = "256KiB",
     .preset = "32KiB",
     .means = "Bytes of a request's head; more are answered 431."},
};
const struct section section_client = SECTION_OF("client", client_rows);

void read_trusted_proxies(struct draft *draft, const struct node *node, void *into)
{
    static const char shape[] = "an address or a range such as 10.0.0.0/8 or ::1";
    struct settings *settings = into;
    const char *text;

    if (!want_list(draft, node, "a list of addresses and ranges", MAX_RANGES))
        return;
    settings->trusted_proxies = draft_alloc(draft, (node->count + 1) * sizeof *settings->trusted_proxies);
    for (size_t i = 0; i < node->count; i++) {
        if (!want_text(draft, node->items[i], shape, &text))
            continue;
        if (address_range_parse(slice_text(text), &settings->trusted_proxies[settings->trusted_proxy_count]))
            settings->trusted_proxy_count++;
        else
            complain_value(draft->complaints, node->items[i],
                           "%s is not %s, with no bit set behind the prefix", quote(text).text, shape);
    }
}

/* ---- log, headers ---- */

static void read_access(struct draft *draft, const struct node *node, void *into)
{
    struct log_settings *log = into;
    const char *text;
    char *path;

    if (!want_text(draft, node, "stdout, stderr, off or the path of a file", &text))
        return;
    if (strlen(text) > MAX_PATH_BYTES) {
        complain_value(draft->complaints, node, "is longer than %d bytes", MAX_PATH_BYTES);
        return;
    }
    if (strcmp(text, "stdout") == 0 || strcmp(text, "stderr") == 0 || strcmp(text, "off") == 0) {
        log->access = draft_copy(draft, text);
        return;
    }
    path = path_beside(draft->settings->path, text);
    log->access = draft_copy(draft, path);
    free(path);
}

static const struct choice log_formats[] = {
    {"json", LOG_JSON, false}, {"combined", LOG_COMBINED, false}, {NULL, 0, false}};
static const struct choice log_levels[] = {{"debug", LOG_DEBUG, false},
                                           {"info", LOG_INFO, false},
                                           {"warn", LOG_WARN, false},
                                           {"error", LOG_ERROR, false},
                                           {NULL, 0, false}};

#define LOG(field) offsetof(struct log_settings, field)
static const struct setting log_rows[] = {
    {.key = "access",
     .type = SETTING_OWN,
     .read = read_access,
     .preset = "stdout",
     .shape = "stdout, stderr, off or a path",
     .means = "Where the access log goes, one line a request."},
    {.key = "format",
     .type = SETTING_CHOICE,
     .offset = LOG(format),
     .choices = log_formats,
     .preset = "json",
     .means = "How a line of the access log is written."},
    {.key = "level",
     .type = SETTING_CHOICE,
     .offset = LOG(level),
     .choices = log_levels,
     .preset = "info",
     .means = "The least important messages that still go to stderr."},
};
const struct section section_log = SECTION_OF("log", log_rows);

static void read_ratelimit(struct draft *draft, const struct node *node, void *into)
{
    static const struct choice dialects[] = {
        {"draft-11", 0, false}, {"plain", 1, false}, {"x", 2, false}, {NULL, 0, false}};
    struct header_settings *headers = into;
    int dialect;

    if (!want_list(draft, node, "a list of draft-11, plain and x", 3))
        return;
    for (size_t i = 0; i < node->count; i++) {
        if (!want_choice(draft, node->items[i], dialects, &dialect))
            continue;
        headers->ratelimit_draft11 |= dialect == 0;
        headers->ratelimit_plain |= dialect == 1;
        headers->ratelimit_x |= dialect == 2;
    }
}

#define HEADERS(field) offsetof(struct header_settings, field)
static const struct setting headers_rows[] = {
    {.key = "ratelimit",
     .type = SETTING_OWN,
     .read = read_ratelimit,
     .preset = "[draft-11, plain]",
     .shape = "a list of draft-11, plain and x",
     .means = "Dialects in which clients are told their limits; [] for none."},
    {.key = "x_cache",
     .type = SETTING_BOOL,
     .offset = HEADERS(x_cache),
     .preset = "true",
     .means = "Answers carry X-Cache: HIT, MISS, WAIT, STALE, REVALIDATED or BYPASS."},
    {.key = "cache_status",
     .type = SETTING_BOOL,
     .offset = HEADERS(cache_status),
     .preset = "true",
     .means = "Answers carry Cache-Status (RFC 9211)."},
    {.key = "cache_key",
     .type = SETTING_BOOL,
     .offset = HEADERS(cache_key),
     .preset = "false",
     .means = "Cache-Status also tells the key, to see which requests share a response."},
    {.key = "proxy_status",
     .type = SETTING_BOOL,
     .offset = HEADERS(proxy_status),
     .preset = "true",
     .means = "Answers that Weir makes itself carry Proxy-Status (RFC 9209)."},
};
const struct section section_headers = SECTION_OF("headers", headers_rows);
