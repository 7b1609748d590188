/* Settings node: how a value of the configuration names itself. */
#include "settings_node.h"
#include "memory.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void node_free(struct node *root)
{
    if (root == NULL)
        return;
    for (size_t i = 0; i < root->count; i++) {
        free((char *)root->items[i]->key);
        node_free(root->items[i]);
    }
    free(root->items);
    free(root->text);
    free(root);
}

const struct node *node_member(const struct node *map, const char *key)
{
    for (size_t i = 0; i < map->count; i++)
        if (strcmp(map->items[i]->key, key) == 0)
            return map->items[i];
    return NULL;
}

/* Puts `step` before what `path` holds from `*from` on; a step that does not fit is shown as "...". */
static bool prepend(struct node_path *path, size_t *from, const char *step)
{
    size_t len = strlen(step);

    if (*from < len + 3) {
        memcpy(path->text + *from - 3, "...", 3);
        *from -= 3;
        return false;
    }
    *from -= len;
    memcpy(path->text + *from, step, len);
    return true;
}

struct node_path node_path(const struct node *node)
{
    struct node_path path;
    size_t from = sizeof path.text - 1;
    char step[96];

    path.text[from] = '\0';
    for (; node->parent != NULL; node = node->parent) {
        if (node->key == NULL)
            snprintf(step, sizeof step, "[%zu]", node->index);
        else
            snprintf(step, sizeof step, "%s%.64s", node->parent->parent == NULL ? "" : ".", node->key);
        if (!prepend(&path, &from, step))
            break;
    }
    memmove(path.text, path.text + from, sizeof path.text - from);
    return path;
}

__attribute__((format(printf, 5, 0))) static void complain_of(struct complaints *complaints,
                                                              const struct node *node, int line, int column,
                                                              const char *format, va_list args)
{
    struct node_path path = node_path(node);
    char *text = NULL;

    if (vasprintf(&text, format, args) < 0)
        text = must_copy("out of memory", strlen("out of memory"));
    if (path.text[0] == '\0')
        complain_at(complaints, line, column, "%s", text);
    else
        complain_at(complaints, line, column, "%s: %s", path.text, text);
    free(text);
}

void complain_value(struct complaints *complaints, const struct node *node, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    complain_of(complaints, node, node->line, node->column, format, args);
    va_end(args);
}

void complain_key(struct complaints *complaints, const struct node *node, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    complain_of(complaints, node, node->key_line, node->key_column, format, args);
    va_end(args);
}
