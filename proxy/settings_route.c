/* Settings route: which requests go where, under which limits. First match wins. */
#include "settings_sections.h"
#include "settings_url.h"

#include <string.h>

static void read_match(struct draft *draft, const struct node *node, void *into)
{
    static const char shape[] = "METHOD[,METHOD] PATH, such as GET /products/{id}";
    struct route_rule *route = into;
    struct route_pattern *pattern;
    const char *text, *problem;

    if (!want_text(draft, node, shape, &text))
        return;
    route->match = draft_copy(draft, text);
    pattern = draft_alloc(draft, sizeof *pattern);
    problem = route_compile(slice_text(route->match), pattern);
    if (problem != NULL) {
        complain_value(draft->complaints, node, "%s is not %s: %s", quote(text).text, shape, problem);
        return;
    }
    route->pattern = pattern;
    draft->pattern = pattern;
}

static void read_host(struct draft *draft, const struct node *node, void *into)
{
    struct route_rule *route = into;
    const char *text, *name;
    size_t len;

    if (!want_text(draft, node, "a host such as api.example.com or *.example.com", &text))
        return;
    name = strncmp(text, "*.", 2) == 0 ? text + 2 : text;
    len = strlen(name);
    if (!host_is_valid(name) || name[len - 1] == '.') {
        complain_value(draft->complaints, node,
                       "%s is no host; write a name or an address without port, such as api.example.com or "
                       "*.example.com",
                       quote(text).text);
        return;
    }
    route->host = draft_copy_lower(draft, text);
}

/* ---- references ---- */

static void read_upstream_name(struct draft *draft, const struct node *node, void *into)
{
    const struct settings *settings = draft->settings;
    const char *names[MAX_UPSTREAMS], *text;
    struct route_rule *route = into;

    if (!want_text(draft, node, "the name of an upstream", &text))
        return;
    for (size_t i = 0; i < settings->upstream_count; i++) {
        names[i] = settings->upstreams[i].name;
        if (strcmp(names[i], text) == 0) {
            route->upstream = &settings->upstreams[i];
            return;
        }
    }
    complain_reference(draft, node, "upstream", names, settings->upstream_count);
}

/* ---- rewrite ---- */

static const char *rewrite_problem(const char *text, const struct route_pattern *pattern,
                                   struct template *out)
{
    const char *problem;

    if (text[0] != '/')
        return "the path does not begin with /";
    if (strpbrk(text, "?# \\*") != NULL)
        return "a path holds no ?, #, \\, * or blank";
    problem = template_compile(slice_text(text), pattern, out);
    for (size_t i = 0; problem == NULL && i < out->part_count; i++)
        if (out->parts[i].kind != PART_TEXT && out->parts[i].kind != PART_VARIABLE)
            problem = "a path is made of the route's own variables only";
    return problem;
}

static void read_rewrite(struct draft *draft, const struct node *node, void *into)
{
    struct route_rule *route = into;
    const char *text, *problem;
    struct template *rewrite;

    if (!want_text(draft, node, "a path such as /v1/products/{id}", &text) || draft->pattern == NULL)
        return;
    text = draft_copy(draft, text);
    rewrite = draft_alloc(draft, sizeof *rewrite);
    problem = rewrite_problem(text, draft->pattern, rewrite);
    if (problem != NULL)
        complain_value(draft->complaints, node, "%s cannot be the upstream's path: %s", quote(text).text,
                       problem);
    else
        route->rewrite = rewrite;
}

static const struct setting route_rows[] = {
    /* match first: the others need its variables */
    {.key = "match",
     .type = SETTING_OWN,
     .read = read_match,
     .is_required = true,
     .shape = "METHOD[,METHOD] PATH, such as GET /products/{id}",
     .means = "{x} and * are one segment, ** is the rest; GET also takes HEAD; without a method, all."},
    {.key = "host",
     .type = SETTING_OWN,
     .read = read_host,
     .shape = "a host name, or *.NAME",
     .means = "Takes only requests for this host, or for any below NAME; without it, for all."},
    {.key = "upstream",
     .type = SETTING_OWN,
     .read = read_upstream_name,
     .is_required = true,
     .shape = "the name of an upstream",
     .means = "Where its requests are passed on to."},
    {.key = "rewrite",
     .type = SETTING_OWN,
     .read = read_rewrite,
     .shape = "a path with variables of match",
     .means = "The path that the upstream is asked for instead; the query string stays."},
    {.key = "limits",
     .type = SETTING_OWN,
     .read = read_route_limits,
     .preset = "[]",
     .shape = "a list of at most 16 names, or maps of a name and a cost",
     .means = "All of them must allow a request; they are decided together."},
    {.key = "cache",
     .type = SETTING_OWN,
     .read = read_cache,
     .shape = "a map; {} for its defaults",
     .means = "Responses are kept; without it, none is."},
    {.key = "invalidates",
     .type = SETTING_OWN,
     .read = read_invalidates,
     .preset = "[]",
     .shape = "a list of at most 16 templates, or maps of one and how",
     .means = "Tags that the upstream's 2xx or 3xx invalidates, before the client is answered."},
};
const struct section section_route = SECTION_OF("routes[]", route_rows);

static bool takes_get(const struct route_pattern *pattern)
{
    for (size_t i = 0; i < pattern->method_count; i++)
        if (slice_eq(pattern->methods[i], SLICE("GET")))
            return true;
    return pattern->method_count == 0;
}

static void check_route(struct draft *draft, const struct node *node, const struct route_rule *route)
{
    if (route->pattern != NULL && route->cache != NULL && !takes_get(route->pattern))
        complain_key(draft->complaints, node_member(node, "cache"),
                     "the match %s does not take GET, and only responses to GET are kept",
                     quote(route->match).text);
}

/* Routes without a pattern, which was complained of, neither cover nor are covered. */
static void check_reach(struct draft *draft, const struct node *list)
{
    const struct route_rule *routes = draft->settings->routes;

    for (size_t later = 1; later < list->count; later++) {
        for (size_t earlier = 0; earlier < later && routes[later].pattern != NULL; earlier++) {
            if (routes[earlier].pattern == NULL || !route_covers(&routes[earlier], &routes[later]))
                continue;
            complain_value(draft->complaints, node_member(list->items[later], "match"),
                           "no request can reach this route: routes[%zu] in line %d takes them all; put this "
                           "one before it",
                           earlier, list->items[earlier]->line);
            break;
        }
    }
}

void read_routes(struct draft *draft, const struct node *node, void *into)
{
    struct settings *settings = into;

    if (!want_list(draft, node, "a list of routes", MAX_ROUTES))
        return;
    if (node->count == 0)
        complain_value(draft->complaints, node, "is an empty list; at least one route is needed");
    settings->routes = draft_alloc(draft, (node->count + 1) * sizeof *settings->routes);
    for (size_t i = 0; i < node->count; i++) {
        struct route_rule *route = &settings->routes[i];

        route->index = settings->route_count++;
        draft->pattern = NULL;
        section_read(draft, node->items[i], &section_route, route);
        if (node->items[i]->kind == NODE_MAP)
            check_route(draft, node->items[i], route);
    }
    check_reach(draft, node);
}
