/* Settings node: one value of the configuration file, with its place, as settings_yaml reads it and the
 * sections walk it.
 *
 * A tree without sharing (anchors are refused), so that a node knows its one parent and can name itself:
 * "routes[1].cache.ttl". Texts are NUL-terminated UTF-8 without control characters, with ${} already
 * expanded.
 */
#ifndef WEIR_SETTINGS_NODE_H
#define WEIR_SETTINGS_NODE_H

#include "settings_complaints.h"

enum node_kind {
    NODE_TEXT,
    NODE_LIST,
    NODE_MAP,
    NODE_BROKEN, /* complained of already: whoever reads it leaves it alone, so that one mistake is told once
                  */
};

struct node {
    enum node_kind kind;
    int line, column;         /* where the value begins, from 1 */
    int key_line, key_column; /* where its key begins; the value's own place for a list item */
    const struct node *parent;
    const char *key; /* in a map, else NULL */
    size_t index;    /* in its parent */
    char *text;      /* NODE_TEXT */
    bool is_empty;   /* NODE_TEXT: nothing, ~ or null, unquoted */
    struct node **items;
    size_t count;
};

/* Reads YAML text into a tree. NULL, with at least one complaint, where it is not well-formed or breaks a
 * bound; complaints may also be added with a tree (duplicate keys, a ${NAME} that is not set), so that all
 * mistakes are told in one run. */
struct node *node_read(const char *text, size_t len, struct complaints *complaints);
void node_free(struct node *root); /* NULL is fine */

/* The member of this name, or NULL; the first where it is given twice. */
const struct node *node_member(const struct node *map, const char *key);

struct node_path {
    char text[256];
};
struct node_path
node_path(const struct node *node); /* "upstreams.api.servers[0]"; cut at the left where it is long */

/* Complain about a value, or about the key of a map's member, by its path. */
void complain_value(struct complaints *complaints, const struct node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void complain_key(struct complaints *complaints, const struct node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
