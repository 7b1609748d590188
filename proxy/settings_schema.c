/* Settings schema: see settings_schema.h. */
#include "settings_schema.h"
#include "check.h"
#include "settings_suggest.h"
#include "settings_units.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 64 };

struct quoted describe(const struct node *node)
{
    switch (node->kind) {
    case NODE_TEXT: return node->is_empty ? (struct quoted){"nothing"} : quote(node->text);
    case NODE_LIST: return (struct quoted){"a list"};
    case NODE_MAP: return (struct quoted){"a map"};
    case NODE_BROKEN: return (struct quoted){"a mistake"};
    }
    CHECK(!"node kind is one of its own values");
    return (struct quoted){""};
}

struct word_list join_words(const char *const *words, size_t count)
{
    struct word_list out = {""};
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(words[i]);

        if (used + len + sizeof ", ..." > sizeof out.text) {
            strcpy(out.text + used, i == 0 ? "..." : ", ...");
            break;
        }
        used +=
            (size_t)snprintf(out.text + used, sizeof out.text - used, "%s%s", i == 0 ? "" : ", ", words[i]);
    }
    return out;
}

struct word_list unknown_word(const char *word, const char *const *known, size_t count)
{
    const char *near = nearest_word(word, known, count);
    struct word_list out;

    if (near != NULL)
        snprintf(out.text, sizeof out.text, "did you mean %s?", near);
    else if (count == 0)
        snprintf(out.text, sizeof out.text, "there are none");
    else
        snprintf(out.text, sizeof out.text, "known here: %.480s", join_words(known, count).text);
    return out;
}

/* A node of another kind than it must be. */
static void complain_kind(struct draft *draft, const struct node *node, const char *shape)
{
    if (node->kind == NODE_BROKEN)
        return;
    if (node->kind == NODE_TEXT && node->is_empty)
        complain_value(draft->complaints, node, "has no value; it must be %s", shape);
    else
        complain_value(draft->complaints, node, "must be %s; found %s", shape, describe(node).text);
}

bool want_text(struct draft *draft, const struct node *node, const char *shape, const char **out)
{
    if (node->kind == NODE_TEXT && !node->is_empty) {
        *out = node->text;
        return true;
    }
    complain_kind(draft, node, shape);
    return false;
}

bool want_list(struct draft *draft, const struct node *node, const char *shape, size_t most)
{
    if (node->kind != NODE_LIST) {
        complain_kind(draft, node, shape);
        return false;
    }
    if (node->count > most) {
        complain_value(draft->complaints, node, "has %zu items; allowed are at most %zu", node->count, most);
        return false;
    }
    return true;
}

bool want_map(struct draft *draft, const struct node *node, const char *shape)
{
    if (node->kind == NODE_MAP)
        return true;
    complain_kind(draft, node, shape);
    return false;
}

bool want_count(struct draft *draft, const struct node *node, int64_t least, int64_t most, int64_t *out)
{
    const char *text;
    int64_t number;

    if (!want_text(draft, node, "a whole number", &text))
        return false;
    if (!read_count(text, &number)) {
        complain_value(draft->complaints, node, "%s is no whole number; allowed is %" PRId64 " to %" PRId64,
                       quote(text).text, least, most);
        return false;
    }
    if (number < least || number > most) {
        complain_value(draft->complaints, node,
                       "%" PRId64 " is out of range; allowed is %" PRId64 " to %" PRId64, number, least,
                       most);
        return false;
    }
    *out = number;
    return true;
}

/* The words of the choices that this release has. */
static struct word_list supported_words(const struct choice *choices)
{
    const char *words[MAX_WORDS];
    size_t count = 0;

    for (; choices->word != NULL && count < MAX_WORDS; choices++)
        if (!choices->is_later)
            words[count++] = choices->word;
    return join_words(words, count);
}

bool want_choice(struct draft *draft, const struct node *node, const struct choice *choices, int *out)
{
    const char *words[MAX_WORDS], *text, *near;
    struct word_list allowed = supported_words(choices);
    size_t count = 0;

    if (!want_text(draft, node, allowed.text, &text))
        return false;
    for (const struct choice *one = choices; one->word != NULL; one++) {
        CHECK(count < MAX_WORDS);
        words[count++] = one->word;
        if (strcmp(one->word, text) != 0)
            continue;
        if (one->is_later) {
            complain_value(draft->complaints, node, "%s is not supported yet; allowed is %s", text,
                           allowed.text);
            return false;
        }
        *out = one->value;
        return true;
    }
    near = nearest_word(text, words, count);
    if (near != NULL)
        complain_value(draft->complaints, node, "%s is unknown; did you mean %s? allowed is %s",
                       quote(text).text, near, allowed.text);
    else
        complain_value(draft->complaints, node, "%s is unknown; allowed is %s", quote(text).text,
                       allowed.text);
    return false;
}

/* ---- the rows ---- */

struct quantity_kind {
    const char *shape;
    bool (*read)(const char *text, int64_t *out);
};

static struct quantity_kind quantity_kind(enum setting_type type)
{
    static const struct quantity_kind count = {"a whole number", read_count};
    static const struct quantity_kind duration = {"a duration such as 250ms, 2s, 5m, 1h or 1d",
                                                  read_duration_ms};
    static const struct quantity_kind size = {"a size such as 512KiB, 8MiB or 1GiB", read_size};

    return type == SETTING_DURATION ? duration : type == SETTING_SIZE ? size : count;
}

static int64_t quantity_of_row(const struct setting *row, const char *text)
{
    int64_t number = 0;

    CHECK(quantity_kind(row->type).read(text, &number));
    return number;
}

static void store_quantity(const struct setting *row, int64_t number, void *field)
{
    if (row->type == SETTING_INT)
        *(int *)field = (int)number;
    else if (row->type == SETTING_SIZE)
        *(size_t *)field = (size_t)number;
    else
        *(int64_t *)field = number;
}

static bool read_quantity(struct draft *draft, const struct node *node, const struct setting *row,
                          int64_t *out)
{
    struct quantity_kind kind = quantity_kind(row->type);
    const char *text;

    if (!want_text(draft, node, kind.shape, &text))
        return false;
    if (!kind.read(text, out)) {
        complain_value(draft->complaints, node, "%s is not %s; allowed is %s to %s", quote(text).text,
                       kind.shape, row->least, row->most);
        return false;
    }
    if (*out < quantity_of_row(row, row->least) || *out > quantity_of_row(row, row->most)) {
        complain_value(draft->complaints, node, "%.64s is out of range; allowed is %s to %s%s%s", text,
                       row->least, row->most, row->note == NULL ? "" : ": ",
                       row->note == NULL ? "" : row->note);
        return false;
    }
    return true;
}

/* The one value that may already be written where the feature itself comes later, such as `proxy_protocol:
 * false`. */
static void read_later(struct draft *draft, const struct node *node, const struct setting *row)
{
    bool written, preset;

    if (node->kind == NODE_BROKEN)
        return;
    if (row->preset != NULL && node->kind == NODE_TEXT) {
        if (strcmp(node->text, row->preset) == 0)
            return;
        if (read_truth(row->preset, &preset) && read_truth(node->text, &written) && written == preset)
            return;
    }
    if (row->preset != NULL)
        complain_key(draft->complaints, node, "is not supported yet, other than as %s", row->preset);
    else
        complain_key(draft->complaints, node, "is not supported yet");
}

static void read_row(struct draft *draft, const struct node *node, const struct setting *row, void *into)
{
    void *field = row->offset == NOWHERE ? NULL : (char *)into + row->offset;
    const char *text;
    int64_t quantity;
    int choice;

    switch (row->type) {
    case SETTING_INT:
    case SETTING_DURATION:
    case SETTING_SIZE:
        if (read_quantity(draft, node, row, &quantity))
            store_quantity(row, quantity, field);
        return;
    case SETTING_BOOL:
        if (want_text(draft, node, "true or false", &text) && !read_truth(text, field))
            complain_value(draft->complaints, node, "%s is neither true nor false", quote(text).text);
        return;
    case SETTING_CHOICE:
        if (want_choice(draft, node, row->choices, &choice) && field != NULL)
            *(int *)field = choice;
        return;
    case SETTING_SECTION: section_read(draft, node, row->section, field); return;
    case SETTING_OWN: row->read(draft, node, into); return;
    case SETTING_LATER: read_later(draft, node, row); return;
    }
    CHECK(!"setting type is one of its own values");
}

/* A default goes through the same reader as a written value: what the table says is what happens. */
static void preset_row(struct draft *draft, const struct setting *row, void *into)
{
    struct node plain = {.kind = NODE_TEXT, .text = (char *)row->preset, .is_empty = false};
    struct node *listed;

    if (row->type == SETTING_LATER || row->preset == NULL)
        return;
    if (row->type != SETTING_OWN || row->preset[0] != '[') {
        read_row(draft, &plain, row, into);
        return;
    }
    listed = node_read(row->preset, strlen(row->preset), draft->complaints);
    CHECK(listed != NULL);
    read_row(draft, listed, row, into);
    node_free(listed);
}

static size_t known_keys(const struct section *section, const char *known[MAX_WORDS])
{
    CHECK(section->count <= MAX_WORDS);
    for (size_t i = 0; i < section->count; i++)
        known[i] = section->settings[i].key;
    return section->count;
}

/* A misspelled key was complained of; that the right one is missing is the same mistake. */
static bool is_misspelled_in(const struct node *map, const struct section *section, const char *key)
{
    const char *known[MAX_WORDS];
    size_t count = known_keys(section, known);

    for (size_t i = 0; i < map->count && i < MAX_WORDS; i++) {
        const char *near = nearest_word(map->items[i]->key, known, count);

        if (near != NULL && strcmp(near, key) == 0)
            return true;
    }
    return false;
}

static void complain_unknown_keys(struct draft *draft, const struct node *map, const struct section *section)
{
    const char *known[MAX_WORDS];

    known_keys(section, known);
    for (size_t i = 0; i < map->count; i++) {
        bool is_known = map->items[i]->kind == NODE_BROKEN; /* complained of already, whatever it is */

        for (size_t k = 0; k < section->count && !is_known; k++)
            is_known = strcmp(known[k], map->items[i]->key) == 0;
        if (is_known)
            continue;
        if (complaints_are_many(draft->complaints))
            complain_key(draft->complaints, map->items[i], "unknown key");
        else
            complain_key(draft->complaints, map->items[i], "unknown key; %s",
                         unknown_word(map->items[i]->key, known, section->count).text);
    }
}

void section_read(struct draft *draft, const struct node *map, const struct section *section, void *into)
{
    if (map != NULL && !want_map(draft, map, "a map of keys"))
        map = NULL;
    if (map != NULL)
        complain_unknown_keys(draft, map, section);
    for (size_t i = 0; i < section->count; i++) {
        const struct setting *row = &section->settings[i];
        const struct node *node = map == NULL ? NULL : node_member(map, row->key);

        if (row->type == SETTING_SECTION && node == NULL) {
            section_read(draft, NULL, row->section, (char *)into + row->offset);
            continue;
        }
        /* The default first: a value that is refused leaves something sane for the checks that follow. */
        if (node == NULL || row->type != SETTING_OWN)
            preset_row(draft, row, into);
        if (node != NULL)
            read_row(draft, node, row, into);
        else if (map != NULL && row->is_required && !is_misspelled_in(map, section, row->key))
            complain_value(draft->complaints, map, "%s is missing; it must be %s", row->key, row->shape);
    }
}

void complain_reference(struct draft *draft, const struct node *node, const char *kind,
                        const char *const *names, size_t count)
{
    if (complaints_are_many(draft->complaints))
        complain_value(draft->complaints, node, "there is no %s %s", kind, quote(node->text).text);
    else
        complain_value(draft->complaints, node, "there is no %s %s; %s", kind, quote(node->text).text,
                       unknown_word(node->text, names, count).text);
}
