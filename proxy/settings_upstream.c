/* Settings upstream: the servers that requests are passed on to, and how patiently. */
#include "settings_sections.h"
#include "settings_url.h"

#include <string.h>

enum { HTTP_PORT = 80 };

static void read_server_url(struct draft *draft, const struct node *node, void *into)
{
    static const char shape[] = "a URL such as http://10.0.0.1:8000";
    struct upstream_rule *rule = into;
    const char *text, *problem;
    struct url url;

    if (!want_text(draft, node, shape, &text))
        return;
    problem = url_parse(text, &url);
    if (problem == NULL && strcmp(url.scheme, "https") == 0) {
        complain_value(draft->complaints, node,
                       "https:// is not supported yet; allowed is http://HOST[:PORT]");
        return;
    }
    if (problem == NULL && strcmp(url.scheme, "http") != 0)
        problem = "its scheme must be http";
    else if (problem == NULL && url.host[0] == '\0')
        problem = "its host is missing";
    else if (problem == NULL && (url.has_user || url.has_password))
        problem = "it must not hold a user or a password";
    else if (problem == NULL && (url.path_len > 1 || url.query != NULL))
        problem = "it must end with the host or port; to change paths, give the route a rewrite";
    if (problem != NULL) { /* not quoted: it may hold a password */
        complain_value(draft->complaints, node, "must be %s; %s", shape, problem);
        return;
    }
    rule->host = draft_copy(draft, url.host);
    rule->port = url.port == 0 ? HTTP_PORT : url.port;
}

static const struct setting server_rows[] = {
    {.key = "url",
     .type = SETTING_OWN,
     .read = read_server_url,
     .is_required = true,
     .shape = "a URL such as http://10.0.0.1:8000",
     .means = "http://HOST[:PORT]; port 80 where none is given."},
    {.key = "weight",
     .type = SETTING_LATER,
     .preset = "1",
     .shape = "a whole number",
     .means = "Share of the requests among several servers."},
};
const struct section section_server = SECTION_OF("upstreams.NAME.servers[]", server_rows);

static void read_servers(struct draft *draft, const struct node *node, void *into)
{
    if (!want_list(draft, node, "a list of one URL", 1000))
        return;
    if (node->count == 0)
        complain_value(draft->complaints, node, "is an empty list; one server is needed");
    if (node->count > 1)
        complain_value(draft->complaints, node->items[1],
                       "several servers of one upstream are not supported yet");
    for (size_t i = 0; i < node->count && i < 1; i++) {
        if (node->items[i]->kind == NODE_MAP)
            section_read(draft, node->items[i], &section_server, into);
        else
            read_server_url(draft, node->items[i], into);
    }
}

static const struct choice balances[] = {
    {"round_robin", 0, false}, {"least_requests", 0, true}, {"hash", 0, true}, {NULL, 0, false}};

#define UPSTREAM(field) offsetof(struct upstream_rule, field)
static const struct setting upstream_rows[] = {
    {.key = "servers",
     .type = SETTING_OWN,
     .read = read_servers,
     .is_required = true,
     .shape = "a list of one URL, such as [http://10.0.0.1:8000]",
     .means = "Where requests are passed on to."},
    {.key = "balance",
     .type = SETTING_CHOICE,
     .offset = NOWHERE,
     .choices = balances,
     .preset = "round_robin",
     .means = "How requests are spread over several servers."},
    {.key = "connect_timeout",
     .type = SETTING_DURATION,
     .offset = UPSTREAM(connect_timeout_ms),
     .least = "1ms",
     .most = "1h",
     .preset = "1s",
     .means = "A connection must stand within this time, its name resolved."},
    {.key = "first_byte_timeout",
     .type = SETTING_DURATION,
     .offset = UPSTREAM(first_byte_timeout_ms),
     .least = "1ms",
     .most = "1h",
     .preset = "30s",
     .means = "The answer must begin within this time: else 504."},
    {.key = "idle_timeout",
     .type = SETTING_DURATION,
     .offset = UPSTREAM(idle_timeout_ms),
     .least = "1ms",
     .most = "1h",
     .preset = "30s",
     .means = "Longest silence within an answer or a tunnel, and how long an unused connection is kept."},
    {.key = "max_connections",
     .type = SETTING_INT,
     .offset = UPSTREAM(max_connections),
     .least = "1",
     .most = "100000",
     .preset = "512",
     .means = "Connections to the upstream at a time."},
    {.key = "max_pending",
     .type = SETTING_INT,
     .offset = UPSTREAM(max_pending),
     .least = "0",
     .most = "1000000",
     .preset = "1024",
     .means = "Requests that wait for a connection; beyond it: 503, code upstream_saturated."},
    {.key = "retries",
     .type = SETTING_INT,
     .offset = UPSTREAM(retries),
     .least = "0",
     .most = "10",
     .preset = "1",
     .means = "Further tries of an idempotent request, before the first byte of its answer."},
    {.key = "health", .type = SETTING_LATER, .shape = "a map", .means = "Active health checks."},
    {.key = "tls", .type = SETTING_LATER, .shape = "a map", .means = "TLS to the upstream."},
};
const struct section section_upstream = SECTION_OF("upstreams.NAME", upstream_rows);

void read_upstreams(struct draft *draft, const struct node *node, void *into)
{
    struct settings *settings = into;

    if (!want_map(draft, node, "a map of names"))
        return;
    if (node->count == 0 || node->count > MAX_UPSTREAMS) {
        complain_value(draft->complaints, node, "has %zu upstreams; allowed is 1 to %d", node->count,
                       MAX_UPSTREAMS);
        return;
    }
    settings->upstreams = draft_alloc(draft, node->count * sizeof *settings->upstreams);
    for (size_t i = 0; i < node->count; i++) {
        struct upstream_rule *rule = &settings->upstreams[i];

        rule->name = draft_copy(draft, node->items[i]->key);
        rule->index = settings->upstream_count++;
        if (!is_plain_name(rule->name))
            complain_key(draft->complaints, node->items[i], "%s", PLAIN_NAME_RULE);
        section_read(draft, node->items[i], &section_upstream, rule);
    }
}
