/* Settings root: the parts of a configuration, in the order in which they need one another. */
#include "http_char.h"
#include "settings_sections.h"

#include <string.h>

enum { MAX_NAME_BYTES = 64, MAX_OUTER_NAME_BYTES = 128 /* of what requests hold */ };

bool is_plain_name(const char *name)
{
    size_t len = strlen(name);

    return len >= 1 && len <= MAX_NAME_BYTES &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == len;
}

bool is_header_name(const char *name)
{
    return strlen(name) <= MAX_OUTER_NAME_BYTES && is_token(slice_text(name));
}

/* What a parameter's name is once decoded. A comma would part two keys, the others would never be met. */
bool is_parameter_name(const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < len; i++)
        if (name[i] <= ' ' || name[i] > '~' || strchr("&=#%+,", name[i]) != NULL)
            return false;
    return len > 0 && len <= MAX_OUTER_NAME_BYTES;
}

#define ROOT(field) offsetof(struct settings, field)
static const struct setting root_rows[] = {
    {.key = "listen",
     .type = SETTING_OWN,
     .read = read_listen,
     .preset = "127.0.0.1:8080",
     .shape = "an address and a port, or a list of at most 64",
     .means = "Where clients are served."},
    {.key = "workers",
     .type = SETTING_OWN,
     .read = read_workers,
     .preset = "auto",
     .shape = "auto, or 1 to 256",
     .means = "Threads that serve; auto: one for each CPU that the process may use."},
    {.key = "admin",
     .type = SETTING_OWN,
     .read = read_admin,
     .preset = "127.0.0.1:9901",
     .shape = "a map, or its address alone",
     .means = "The second port, for operators."},
    {.key = "max_body",
     .type = SETTING_SIZE,
     .offset = ROOT(max_body_bytes),
     .least = "0B",
     .most = "16GiB",
     .preset = "64MiB",
     .means = "Larger request bodies are answered 413."},
    {.key = "client",
     .type = SETTING_SECTION,
     .offset = ROOT(client),
     .section = &section_client,
     .means = "How patient Weir is with clients, and how many it takes."},
    {.key = "drain_timeout",
     .type = SETTING_DURATION,
     .offset = ROOT(drain_timeout_ms),
     .least = "0s",
     .most = "1h",
     .preset = "30s",
     .means = "How long requests under way may last when the process is told to stop."},
    {.key = "trusted_proxies",
     .type = SETTING_OWN,
     .read = read_trusted_proxies,
     .preset = "[]",
     .shape = "a list of at most 1024 addresses and ranges",
     .means = "Peers whose X-Forwarded-For or Forwarded counts."},
    {.key = "log",
     .type = SETTING_SECTION,
     .offset = ROOT(log),
     .section = &section_log,
     .means = "What the process writes about its work."},
    {.key = "store",
     .type = SETTING_SECTION,
     .offset = ROOT(store),
     .section = &section_store,
     .means = "What nodes share."},
    {.key = "near_cache",
     .type = SETTING_SECTION,
     .offset = 0,
     .section = &section_near_cache,
     .means = "Cached responses in the memory of this process."},
    {.key = "upstreams",
     .type = SETTING_OWN,
     .read = read_upstreams,
     .is_required = true,
     .shape = "a map of names, each with its servers",
     .means = "The servers behind Weir."},
    {.key = "limits",
     .type = SETTING_OWN,
     .read = read_limits,
     .shape = "a map of names",
     .means = "Limits that routes may name."},
    /* behind what routes refer to */
    {.key = "routes",
     .type = SETTING_OWN,
     .read = read_routes,
     .is_required = true,
     .shape = "a list of at least one route",
     .means = "What is served; the first match wins, without one: 404, code no_route."},
    {.key = "headers",
     .type = SETTING_SECTION,
     .offset = ROOT(headers),
     .section = &section_headers,
     .means = "What answers tell about limits and the cache."},
};
const struct section section_root = SECTION_OF("", root_rows);

static bool is_wildcard(const char *host)
{
    return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

/* One port cannot be both: requests of clients would reach the admin interface, or the other way round. */
static void check_admin(struct draft *draft, const struct node *root)
{
    const struct settings *settings = draft->settings;
    const struct node *node = node_member(root, "admin");

    if (node == NULL)
        node = node_member(root, "listen");
    for (size_t i = 0; i < settings->listen_count && node != NULL && settings->admin.host != NULL; i++)
        if (settings->listens[i].port == settings->admin.port &&
            (strcmp(settings->listens[i].host, settings->admin.host) == 0 ||
             is_wildcard(settings->listens[i].host) || is_wildcard(settings->admin.host)))
            complain_value(draft->complaints, node, "%s port %d is both in listen and the admin address",
                           settings->admin.host, settings->admin.port);
}

void settings_build(struct draft *draft, const struct node *root)
{
    if (root->kind == NODE_BROKEN)
        return;
    if (root->kind == NODE_TEXT && root->is_empty) {
        complain_at(draft->complaints, root->line, root->column,
                    "there is nothing in this file; it needs at least upstreams and routes");
        return;
    }
    section_read(draft, root, &section_root, draft->settings);
    if (root->kind != NODE_MAP)
        return;
    check_admin(draft, root);
    check_store(draft, root);
}
