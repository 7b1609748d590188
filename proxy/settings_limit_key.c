/* Settings limit key: whose requests are counted together? One form, or a list of them. */
#include "settings_limit_key.h"
#include "settings_sections.h"
#include "settings_suggest.h"

#include <stdio.h>
#include <string.h>

enum { MAX_NAME = 128 };

static const struct form {
    const char *word;
    enum limit_key_kind kind;
    bool has_name;
} forms[] = {{"header", LIMIT_KEY_HEADER, true}, {"query", LIMIT_KEY_QUERY, true},
             {"cookie", LIMIT_KEY_COOKIE, true}, {"path", LIMIT_KEY_PATH, true},
             {"ip", LIMIT_KEY_IP, false},        {"host", LIMIT_KEY_HOST, false},
             {"route", LIMIT_KEY_ROUTE, false},  {"global", LIMIT_KEY_GLOBAL, false}};
enum { FORMS = sizeof forms / sizeof *forms };

/* ---- names ---- */

/* These say where a message ends or whom it is for, not who is asking, and are gone before limits are
 * decided. */
static bool is_framing_header(const char *name)
{
    static const char *const framing[] = {"host",   "content-length", "transfer-encoding",
                                          "expect", "upgrade",        "connection"};

    for (size_t i = 0; i < sizeof framing / sizeof *framing; i++)
        if (strcmp(name, framing[i]) == 0)
            return true;
    return false;
}

static bool is_variable_name(const char *name)
{
    return name[0] != '\0' && strlen(name) <= MAX_NAME &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == strlen(name);
}

/* Why a name cannot be that of its kind; NULL where it can. */
static const char *name_problem(enum limit_key_kind kind, const char *name)
{
    switch (kind) {
    case LIMIT_KEY_HEADER:
        return is_header_name(name) ? NULL
                                    : "no header field's name; write header:NAME, such as header:x-api-key";
    case LIMIT_KEY_QUERY:
        return is_parameter_name(name) ? NULL
                                       : "no parameter's name; write query:NAME, such as query:api_key";
    case LIMIT_KEY_COOKIE:
        return is_header_name(name) ? NULL : "no cookie's name; write cookie:NAME, such as cookie:session";
    case LIMIT_KEY_PATH:
        return is_variable_name(name) ? NULL
                                      : "no variable's name; write path:NAME, such as path:id for {id}";
    case LIMIT_KEY_IP:
    case LIMIT_KEY_HOST:
    case LIMIT_KEY_ROUTE:
    case LIMIT_KEY_GLOBAL: break;
    }
    return NULL;
}

/* ---- one form ---- */

static const struct form *find_form(const char *text)
{
    size_t len = strcspn(text, ":");

    for (size_t i = 0; i < FORMS; i++)
        if (strlen(forms[i].word) == len && strncmp(forms[i].word, text, len) == 0 &&
            (text[len] == ':') == forms[i].has_name)
            return &forms[i];
    return NULL;
}

static void complain_unknown(struct draft *draft, const struct node *node, const char *text)
{
    const char *words[FORMS], *near;
    char word[16];
    bool takes_name = false;

    snprintf(word, sizeof word, "%.*s", (int)strcspn(text, ":"), text);
    for (size_t i = 0; i < FORMS; i++)
        words[i] = forms[i].word;
    near = nearest_word(word, words, FORMS);
    for (size_t i = 0; near != NULL && i < FORMS; i++)
        takes_name |= strcmp(forms[i].word, near) == 0 && forms[i].has_name;
    complain_value(draft->complaints, node, "%s is unknown;%s%s%s allowed is " LIMIT_KEY_FORMS,
                   quote(text).text, near == NULL ? "" : " did you mean ", near == NULL ? "" : near,
                   near == NULL ? ""
                   : takes_name ? ":NAME?"
                                : "?");
}

/* False: complained. */
static bool read_part(struct draft *draft, const struct node *node, bool is_item, struct limit_key_part *out)
{
    const struct form *form;
    const char *text, *name, *problem;

    if (!want_text(draft, node, is_item ? LIMIT_KEY_ONE_FORM : LIMIT_KEY_FORMS, &text))
        return false;
    form = find_form(text);
    if (form == NULL) {
        complain_unknown(draft, node, text);
        return false;
    }
    out->kind = form->kind;
    if (!form->has_name)
        return true;
    name = text + strlen(form->word) + 1;
    problem = name_problem(form->kind, name);
    if (problem != NULL) {
        complain_value(draft->complaints, node, "%s is %s", quote(name).text, problem);
        return false;
    }
    name = form->kind == LIMIT_KEY_HEADER ? draft_copy_lower(draft, name) : draft_copy(draft, name);
    out->name = slice_text(name);
    if (form->kind != LIMIT_KEY_HEADER || !is_framing_header(name))
        return true;
    complain_value(draft->complaints, node,
                   "the field %s belongs to the framing of a message and cannot be a key%s", name,
                   strcmp(name, "host") == 0 ? "; write host" : "");
    return false;
}

/* ---- a list ---- */

static bool is_listed(const struct limit_key *key, const struct limit_key_part *part)
{
    for (size_t i = 0; i < key->part_count; i++)
        if (key->parts[i].kind == part->kind && slice_eq(key->parts[i].name, part->name))
            return true;
    return false;
}

static void read_list(struct draft *draft, const struct node *node, struct limit_key *key)
{
    if (node->count == 0)
        complain_value(draft->complaints, node, "is an empty list; allowed is " LIMIT_KEY_FORMS);
    for (size_t i = 0; i < node->count; i++) {
        struct limit_key_part part = {.kind = LIMIT_KEY_GLOBAL};

        if (!read_part(draft, node->items[i], true, &part))
            continue;
        if (is_listed(key, &part))
            complain_value(draft->complaints, node->items[i], "is listed twice");
        else if (part.kind == LIMIT_KEY_GLOBAL && node->count > 1)
            complain_value(draft->complaints, node->items[i],
                           "global parts nothing; leave it out of the list");
        else
            key->parts[key->part_count++] = part;
    }
}

static struct slice kind_of(struct draft *draft, const struct limit_key *key)
{
    enum { ROOM = LIMIT_KEY_MAX_PARTS * (MAX_NAME + 8) };
    char *text = draft_alloc(draft, ROOM);
    size_t len = 0;

    for (size_t i = 0; i < key->part_count; i++)
        for (size_t f = 0; f < FORMS; f++)
            if (forms[f].kind == key->parts[i].kind)
                len += (size_t)snprintf(text + len, ROOM - len, "%s%s%s%.*s", i > 0 ? "," : "", forms[f].word,
                                        forms[f].has_name ? ":" : "", (int)key->parts[i].name.len,
                                        key->parts[i].name.len > 0 ? key->parts[i].name.base : "");
    return slice_of(text, len);
}

void read_limit_key(struct draft *draft, const struct node *node, void *into)
{
    struct limit_rule *rule = into;

    if (node->kind == NODE_LIST) {
        if (!want_list(draft, node, LIMIT_KEY_FORMS, LIMIT_KEY_MAX_PARTS))
            return;
        read_list(draft, node, &rule->key);
    } else if (read_part(draft, node, false, &rule->key.parts[0]))
        rule->key.part_count = 1;
    rule->key.kind = kind_of(draft, &rule->key);
    rule->plan_key = rule->key;
    if (rule->key.part_count <= 1)
        return;
    rule->plan_key.part_count = 1;
    rule->plan_key.kind = kind_of(draft, &rule->plan_key);
}

/* ---- on a route ---- */

static bool has_variable(const struct route_pattern *pattern, struct slice name)
{
    for (size_t i = 0; i < pattern->segment_count; i++)
        if (pattern->segments[i].kind == SEGMENT_VARIABLE && slice_eq(pattern->segments[i].text, name))
            return true;
    return false;
}

void check_limit_key(struct draft *draft, const struct node *node, const struct limit_rule *rule)
{
    for (size_t i = 0; draft->pattern != NULL && i < rule->key.part_count; i++) {
        const struct limit_key_part *part = &rule->key.parts[i];

        if (part->kind == LIMIT_KEY_PATH && !has_variable(draft->pattern, part->name))
            complain_value(draft->complaints, node,
                           "%s counts by path:%.*s, and this route's match has no {%.*s}", rule->name,
                           (int)part->name.len, part->name.base, (int)part->name.len, part->name.base);
    }
}
