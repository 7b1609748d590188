/* Settings cache key: what of a request distinguishes two responses, beyond method, scheme, host and path? */
#include "settings_sections.h"

#include "hop_headers.h"
#include "vary.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PARAMETERS = 64, MAX_HEADERS = 16, MAX_COOKIES = 16 };

/* ---- names ---- */

/* Why this field cannot tell responses apart, or NULL. What is not sent with a load has no say in its answer. */
static const char *header_problem(const char *name)
{
    static const struct {
        const char *name, *why;
    } refused[] = {
        {"host", "is part of every key"},
        {"cookie", "has as many values as there are clients; list the ones that count in cookies"},
        {"connection", "ends here"},
        {"keep-alive", "ends here"},
        {"transfer-encoding", "ends here"},
        {"te", "ends here"},
        {"trailer", "ends here"},
        {"upgrade", "ends here"},
        {"content-length", "ends here"},
        {"expect", "ends here"},
        {"range", "is not sent with a load"},
        {"if-match", "is not sent with a load"},
        {"if-none-match", "is not sent with a load"},
        {"if-modified-since", "is not sent with a load"},
        {"if-unmodified-since", "is not sent with a load"},
        {"if-range", "is not sent with a load"},
    };

    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (strcmp(name, refused[i].name) == 0)
            return refused[i].why;
    return is_proxys_word(slice_text(name)) ? "is not sent with a load" : NULL;
}

static int compare_names(const void *a, const void *b)
{
    const struct slice *left = a, *right = b;

    return strcmp(left->base, right->base); /* copies that end in NUL */
}

/* Adds a name to those that were read so far; false, with a complaint, where it is one of them. */
static bool add_name(struct draft *draft, const struct node *node, char *name, struct slice *names,
                     size_t *count)
{
    for (size_t i = 0; i < *count; i++)
        if (strcmp(names[i].base, name) == 0) {
            complain_value(draft->complaints, node, "%s is listed twice", quote(name).text);
            return false;
        }
    names[(*count)++] = slice_text(name);
    return true;
}

static void finish_names(struct slice *names, size_t count, struct key_names *out)
{
    qsort(names, count, sizeof *names, compare_names);
    out->each = names;
    out->count = count;
}

/* ---- query ---- */

static void read_parameters(struct draft *draft, const struct node *node, enum key_query query, void *into)
{
    struct cache_rule *cache = into;
    struct slice *names;
    const char *text;
    size_t count = 0;

    if (!want_list(draft, node, "a list of parameters", MAX_PARAMETERS))
        return;
    if (node->count == 0) {
        complain_value(draft->complaints, node, "names no parameter; query: %s says that",
                       query == KEY_QUERY_ONLY ? "none" : "all");
        return;
    }
    names = draft_alloc(draft, node->count * sizeof *names);
    for (size_t i = 0; i < node->count; i++) {
        if (!want_text(draft, node->items[i], "the name of a parameter", &text))
            continue;
        if (is_parameter_name(text))
            add_name(draft, node->items[i], draft_copy(draft, text), names, &count);
        else
            complain_value(draft->complaints, node->items[i],
                           "%s is no parameter's name; write one such as utm_source", quote(text).text);
    }
    cache->key.query = query;
    finish_names(names, count, &cache->key.parameters);
}

static void read_only(struct draft *draft, const struct node *node, void *into)
{
    read_parameters(draft, node, KEY_QUERY_ONLY, into);
}

static void read_except(struct draft *draft, const struct node *node, void *into)
{
    read_parameters(draft, node, KEY_QUERY_EXCEPT, into);
}

static const struct setting key_query_rows[] = {
    {.key = "only",
     .type = SETTING_OWN,
     .read = read_only,
     .shape = "a list of at most 64 parameters",
     .means = "These parameters of the query distinguish responses, in any order, and no others."},
    {.key = "except",
     .type = SETTING_OWN,
     .read = read_except,
     .shape = "a list of at most 64 parameters",
     .means = "All parameters of the query distinguish responses, in any order, but these."},
};
const struct section section_cache_key_query = SECTION_OF("routes[].cache.key.query", key_query_rows);

static void read_query_map(struct draft *draft, const struct node *node, void *into)
{
    section_read(draft, node, &section_cache_key_query, into);
    if (node_member(node, "only") != NULL && node_member(node, "except") != NULL)
        complain_value(draft->complaints, node, "only and except exclude each other");
    else if (node->count == 0)
        complain_value(draft->complaints, node, "must have only or except");
}

static void read_query(struct draft *draft, const struct node *node, void *into)
{
    static const struct choice queries[] = {
        {"all", KEY_QUERY_ALL, false}, {"none", KEY_QUERY_NONE, false}, {NULL, 0, false}};
    struct cache_rule *cache = into;
    const char *text;
    int query;

    if (node->kind == NODE_MAP)
        read_query_map(draft, node, into);
    else if (node->kind == NODE_LIST)
        want_text(draft, node, "all, none or a map with only or except", &text);
    else if (want_choice(draft, node, queries, &query))
        cache->key.query = (enum key_query)query;
}

/* ---- headers, cookies ---- */

/* What the key tells apart by itself need not be told apart again where a response names it in Vary. Where there is
 * no room for the names it is, which costs a look-up and harms nobody. */
static void note_varied(struct draft *draft, struct cache_rule *cache)
{
    struct text text = text_in(draft_alloc(draft, VARY_NAMES_ROOM), VARY_NAMES_ROOM);

    for (size_t i = 0; i < cache->key.headers.count; i++) {
        text_add(&text, i == 0 ? SLICE("") : SLICE(", "));
        text_add(&text, cache->key.headers.each[i]);
    }
    cache->key_varied = text_fits(&text) ? text_slice(&text) : slice_of(NULL, 0);
}

static void read_headers(struct draft *draft, const struct node *node, void *into)
{
    struct cache_rule *cache = into;
    struct slice *names;
    const char *text, *problem;
    size_t count = 0;

    if (!want_list(draft, node, "a list of header fields", MAX_HEADERS))
        return;
    names = draft_alloc(draft, (node->count + 1) * sizeof *names);
    for (size_t i = 0; i < node->count; i++) {
        char *name;

        if (!want_text(draft, node->items[i], "a header field's name", &text))
            continue;
        if (!is_header_name(text)) {
            complain_value(draft->complaints, node->items[i], "%s is no header field's name",
                           quote(text).text);
            continue;
        }
        name = draft_copy_lower(draft, text);
        problem = header_problem(name);
        if (problem != NULL)
            complain_value(draft->complaints, node->items[i], "%s %s", name, problem);
        else
            add_name(draft, node->items[i], name, names, &count);
    }
    finish_names(names, count, &cache->key.headers);
    note_varied(draft, cache);
}

static void read_cookies(struct draft *draft, const struct node *node, void *into)
{
    struct cache_rule *cache = into;
    struct slice *names;
    const char *text;
    size_t count = 0;

    if (!want_list(draft, node, "a list of cookies", MAX_COOKIES))
        return;
    names = draft_alloc(draft, (node->count + 1) * sizeof *names);
    for (size_t i = 0; i < node->count; i++) {
        if (!want_text(draft, node->items[i], "a cookie's name", &text))
            continue;
        if (is_header_name(text)) /* the same grammar */
            add_name(draft, node->items[i], draft_copy(draft, text), names, &count);
        else
            complain_value(draft->complaints, node->items[i], "%s is no cookie's name", quote(text).text);
    }
    finish_names(names, count, &cache->key.cookies);
}

static const struct setting cache_key_rows[] = {
    {.key = "query",
     .type = SETTING_OWN,
     .read = read_query,
     .preset = "all",
     .shape = "all, none or a map",
     .means = "Whether the query string distinguishes responses, or which of its parameters do."},
    {.key = "headers",
     .type = SETTING_OWN,
     .read = read_headers,
     .preset = "[]",
     .shape = "a list of at most 16 fields",
     .means = "Request fields that distinguish responses."},
    {.key = "cookies",
     .type = SETTING_OWN,
     .read = read_cookies,
     .preset = "[]",
     .shape = "a list of at most 16 cookies",
     .means = "Cookies that distinguish responses."},
};
const struct section section_cache_key = SECTION_OF("routes[].cache.key", cache_key_rows);
