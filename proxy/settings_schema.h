/* Settings schema: which keys may a section of the configuration hold, and how does each become a field?
 *
 * A section is a table; a row says key, type, range, default and meaning once, for the reader, for its error
 * messages and for docs/configuration.md (a test holds that page against these tables). Quantities are
 * written in the table as in the file: "250ms". What needs more than a row (an address, a URL, a list) has a
 * reader of its own, given in the row.
 */
#ifndef WEIR_SETTINGS_SCHEMA_H
#define WEIR_SETTINGS_SCHEMA_H

#include "settings.h"
#include "settings_node.h"

/* A configuration under construction. Readers complain and go on, so that one run tells every mistake. */
struct draft {
    struct settings *settings;
    struct complaints *complaints;
    const struct route_pattern
        *pattern; /* of the route being read, for its templates; NULL: it does not compile */
};

enum setting_type {
    SETTING_INT,      /* int */
    SETTING_DURATION, /* int64_t, milliseconds */
    SETTING_SIZE,     /* size_t, bytes */
    SETTING_BOOL,     /* bool */
    SETTING_CHOICE,   /* an enum of ours (int) */
    SETTING_SECTION,  /* a struct, by a table of its own; always filled */
    SETTING_OWN,      /* whatever `read` makes of it */
    SETTING_LATER,    /* known, but this release has only the default (none: not even that) */
};

struct choice {
    const char *word;
    int value;
    bool is_later; /* known, but this release does not have it */
};

struct setting {
    const char *key;
    enum setting_type type;
    size_t offset; /* of the field in the section's struct; NOWHERE where only one value is supported */
    const char *least, *most; /* INT, DURATION, SIZE */
    const char *note;         /* why the range ends where it does, if that is not plain */
    const char *
        preset; /* the default; NULL: the key must be given, or its reader's caller says what absence means */
    bool is_required;
    const struct choice *choices; /* CHOICE; ends with a NULL word */
    const struct section *section;
    void (*read)(struct draft *draft, const struct node *node,
                 void *into); /* OWN; `into` is the section's struct */
    const char *shape;        /* OWN, LATER: what may stand there, in words */
    const char *means;        /* one sentence for docs/configuration.md */
};

struct section {
    const char *path; /* in docs/configuration.md: "client", "upstreams.NAME" */
    const struct setting *settings;
    size_t count;
};

#define NOWHERE ((size_t)-1)
#define SECTION_OF(path_text, table)                                                                         \
    {                                                                                                        \
        .path = (path_text), .settings = (table), .count = sizeof(table) / sizeof *(table)                   \
    }

/* Fills *into from the map, or with the defaults alone where `map` is NULL. */
void section_read(struct draft *draft, const struct node *map, const struct section *section, void *into);

/* The text of a node that must be one; false with a complaint that says it must be `shape`. */
bool want_text(struct draft *draft, const struct node *node, const char *shape, const char **out);
bool want_list(struct draft *draft, const struct node *node, const char *shape, size_t most);
bool want_map(struct draft *draft, const struct node *node, const char *shape);
bool want_choice(struct draft *draft, const struct node *node, const struct choice *choices, int *out);
bool want_count(struct draft *draft, const struct node *node, int64_t least, int64_t most, int64_t *out);

struct quoted
describe(const struct node *node); /* what was found: quoted text, "a list", "a map", "nothing" */

struct word_list {
    char text[512];
};
struct word_list join_words(const char *const *words, size_t count); /* "a, b, c"; cut with "..." */

/* `"WORD" is unknown; did you mean "NEAR"?`, or without a near one what there is: for references and keys. */
struct word_list unknown_word(const char *word, const char *const *known, size_t count);

/* `node` names none of the things of this kind ("limit") that there are. */
void complain_reference(struct draft *draft, const struct node *node, const char *kind,
                        const char *const *names, size_t count);

/* Memory that lives as long as the settings; zeroed. */
void *draft_alloc(struct draft *draft, size_t bytes);
char *draft_copy(struct draft *draft, const char *text);
char *draft_copy_lower(struct draft *draft, const char *text);

#endif
