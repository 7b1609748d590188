/* Settings YAML: bytes in, a tree of nodes with their places out. The only file that knows libyaml.
 *
 * A configuration is one document of maps, lists and plain values. What YAML has beyond that (anchors and
 * aliases, tags, merge keys, several documents) is refused: none is needed, and an alias can make a small
 * file unboundedly large. Bounds: depth, number of values, length of each; the caller bounds the text.
 */
#include "settings_env.h"
#include "settings_node.h"
#include "memory.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { MAX_DEPTH = 16, MAX_NODES = 100000, MAX_KEY_BYTES = 128 };

struct reader {
    yaml_parser_t parser;
    const char *text;
    size_t len;
    struct complaints *complaints;
    size_t node_count;
};

/* Where the next value belongs. */
struct slot {
    struct node *parent;
    const char *key; /* in a map, else NULL */
    yaml_mark_t key_mark;
};

static struct node *read_value(struct reader *reader, yaml_event_t *event, const struct slot *slot,
                               int depth);

static int line_of(yaml_mark_t mark)
{
    return (int)mark.line + 1;
}

static int column_of(yaml_mark_t mark)
{
    return (int)mark.column + 1;
}

/* libyaml tells the place of bad bytes as an offset only. */
static yaml_mark_t mark_of_offset(const struct reader *reader, size_t offset)
{
    yaml_mark_t mark = {.index = offset};

    for (size_t i = 0; i < offset && i < reader->len; i++) {
        if (reader->text[i] == '\n') {
            mark.line++;
            mark.column = 0;
        } else if (((unsigned char)reader->text[i] & 0xc0) != 0x80) {
            mark.column++;
        }
    }
    return mark;
}

/* The next event (to be deleted), or false with a complaint where the text is no YAML. */
static bool next_event(struct reader *reader, yaml_event_t *event)
{
    const yaml_parser_t *parser = &reader->parser;
    yaml_mark_t mark;

    if (yaml_parser_parse(&reader->parser, event))
        return true;
    if (parser->error == YAML_READER_ERROR)
        mark = mark_of_offset(reader, parser->problem_offset);
    else
        mark = parser->problem_mark;
    complain_at(reader->complaints, line_of(mark), column_of(mark), "this is not valid YAML: %s%s%s",
                parser->context == NULL ? "" : parser->context, parser->context == NULL ? "" : ", ",
                parser->problem == NULL ? "out of memory" : parser->problem);
    return false;
}

static struct node *new_node(struct reader *reader, enum node_kind kind, yaml_mark_t mark,
                             const struct slot *slot)
{
    yaml_mark_t key_mark = slot->key == NULL ? mark : slot->key_mark;
    struct node *node;

    if (reader->node_count == MAX_NODES) {
        complain_at(reader->complaints, line_of(mark), column_of(mark),
                    "there are more than %d values in this file", MAX_NODES);
        return NULL;
    }
    reader->node_count++;
    node = must_alloc(sizeof *node);
    node->kind = kind;
    node->line = line_of(mark);
    node->column = column_of(mark);
    node->key_line = line_of(key_mark);
    node->key_column = column_of(key_mark);
    node->parent = slot->parent;
    node->key = slot->key;
    node->index = slot->parent == NULL ? 0 : slot->parent->count;
    return node;
}

/* `room` is the caller's, so that a list of n items costs n log n, not a reallocation each. */
static void append(struct node *parent, struct node *child, size_t *room)
{
    if (parent->count == *room) {
        *room = *room == 0 ? 8 : *room * 2;
        parent->items = must_realloc(parent->items, *room * sizeof(struct node *));
    }
    parent->items[parent->count++] = child;
}

static void refuse_extras(struct reader *reader, yaml_mark_t mark, const yaml_char_t *anchor,
                          const yaml_char_t *tag)
{
    if (anchor != NULL)
        complain_at(reader->complaints, line_of(mark), column_of(mark),
                    "anchors (&name) are not part of a configuration; write each value where it belongs");
    if (tag != NULL)
        complain_at(reader->complaints, line_of(mark), column_of(mark),
                    "tags (!name) are not part of a configuration; leave the tag out");
}

static bool has_control_bytes(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return true;
    return false;
}

static bool is_empty_word(const yaml_event_t *event)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};

    if (event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp((const char *)event->data.scalar.value, words[i]) == 0)
            return true;
    return false;
}

static struct node *broken_node(struct reader *reader, const yaml_event_t *event, const struct slot *slot,
                                const char *why)
{
    struct node *node = new_node(reader, NODE_BROKEN, event->start_mark, slot);

    if (node != NULL)
        complain_value(reader->complaints, node, "%s", why);
    return node;
}

static struct node *read_scalar(struct reader *reader, const yaml_event_t *event, const struct slot *slot)
{
    const char *text = (const char *)event->data.scalar.value;
    struct env_problem problem;
    struct node *node;
    char *expanded;

    refuse_extras(reader, event->start_mark, event->data.scalar.anchor, event->data.scalar.tag);
    if (event->data.scalar.length > MAX_VALUE_BYTES)
        return broken_node(reader, event, slot, "this value is too long; at most 8192 bytes are allowed");
    if (has_control_bytes(text, event->data.scalar.length))
        return broken_node(reader, event, slot, "this value holds a line end or another control character");
    expanded = env_expand(text, &problem);
    if (expanded == NULL)
        return broken_node(reader, event, slot, problem.text);
    if (has_control_bytes(expanded, strlen(expanded))) {
        free(expanded);
        return broken_node(reader, event, slot,
                           "an environment variable used here holds a line end or another control character");
    }
    node = new_node(reader, NODE_TEXT, event->start_mark, slot);
    if (node == NULL) {
        free(expanded);
        return NULL;
    }
    node->is_empty = is_empty_word(event);
    node->text = expanded;
    return node;
}

static struct node *read_list(struct reader *reader, const yaml_event_t *start, const struct slot *slot,
                              int depth)
{
    struct node *list = new_node(reader, NODE_LIST, start->start_mark, slot), *item;
    size_t room = 0;
    yaml_event_t event;

    refuse_extras(reader, start->start_mark, start->data.sequence_start.anchor,
                  start->data.sequence_start.tag);
    while (list != NULL) {
        if (!next_event(reader, &event))
            break;
        if (event.type == YAML_SEQUENCE_END_EVENT) {
            yaml_event_delete(&event);
            return list;
        }
        item = read_value(reader, &event, &(struct slot){.parent = list}, depth);
        if (item == NULL)
            break;
        append(list, item, &room);
    }
    node_free(list);
    return NULL;
}

static int by_key(const void *left, const void *right)
{
    const struct node *a = *(struct node *const *)left, *b = *(struct node *const *)right;
    int order = strcmp(a->key, b->key);

    if (order != 0)
        return order;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* On a sorted copy: comparing each with each would let a long map take minutes. */
static void refuse_duplicates(struct reader *reader, const struct node *map)
{
    struct node **sorted;
    const struct node *first;

    if (map->count < 2)
        return;
    sorted = must_alloc(map->count * sizeof *sorted);
    memcpy(sorted, map->items, map->count * sizeof *sorted);
    qsort(sorted, map->count, sizeof *sorted, by_key);
    first = sorted[0];
    for (size_t i = 1; i < map->count; i++) {
        if (strcmp(sorted[i]->key, first->key) == 0)
            complain_key(reader->complaints, sorted[i], "is given twice; the first is in line %d",
                         first->key_line);
        else
            first = sorted[i];
    }
    free(sorted);
}

/* The text of a key, or NULL with a complaint; a map with a broken key cannot be read on. */
static char *read_key(struct reader *reader, const yaml_event_t *event)
{
    const char *problem = NULL;

    if (event->type != YAML_SCALAR_EVENT)
        problem = "a key must be a plain word";
    else if (event->data.scalar.length > MAX_KEY_BYTES)
        problem = "this key is too long; at most 128 bytes are allowed";
    else if (has_control_bytes((const char *)event->data.scalar.value, event->data.scalar.length))
        problem = "this key holds a line end or another control character";
    else if (event->data.scalar.anchor != NULL || event->data.scalar.tag != NULL)
        problem = "a key can have neither an anchor (&name) nor a tag (!name)";
    if (problem != NULL) {
        complain_at(reader->complaints, line_of(event->start_mark), column_of(event->start_mark), "%s",
                    problem);
        return NULL;
    }
    return must_copy((const char *)event->data.scalar.value, event->data.scalar.length);
}

/* Reads the value of the key that `event` is. */
static struct node *read_member(struct reader *reader, yaml_event_t *event, struct node *map, int depth)
{
    struct slot slot = {.parent = map, .key_mark = event->start_mark};
    char *key = read_key(reader, event);
    struct node *member = NULL;
    yaml_event_t value;

    yaml_event_delete(event);
    slot.key = key;
    if (key != NULL && next_event(reader, &value))
        member = read_value(reader, &value, &slot, depth);
    if (member == NULL)
        free(key);
    return member;
}

static struct node *read_map(struct reader *reader, const yaml_event_t *start, const struct slot *slot,
                             int depth)
{
    struct node *map = new_node(reader, NODE_MAP, start->start_mark, slot), *member;
    size_t room = 0;
    yaml_event_t event;

    refuse_extras(reader, start->start_mark, start->data.mapping_start.anchor, start->data.mapping_start.tag);
    while (map != NULL) {
        if (!next_event(reader, &event))
            break;
        if (event.type == YAML_MAPPING_END_EVENT) {
            yaml_event_delete(&event);
            refuse_duplicates(reader, map);
            return map;
        }
        member = read_member(reader, &event, map, depth);
        if (member == NULL)
            break;
        append(map, member, &room);
    }
    node_free(map);
    return NULL;
}

/* Takes the event. NULL with a complaint where reading cannot go on. */
static struct node *read_value(struct reader *reader, yaml_event_t *event, const struct slot *slot, int depth)
{
    struct node *node = NULL;

    if (depth == MAX_DEPTH && event->type != YAML_SCALAR_EVENT)
        complain_at(reader->complaints, line_of(event->start_mark), column_of(event->start_mark),
                    "maps and lists are nested more than %d deep", MAX_DEPTH);
    else if (event->type == YAML_SCALAR_EVENT)
        node = read_scalar(reader, event, slot);
    else if (event->type == YAML_SEQUENCE_START_EVENT)
        node = read_list(reader, event, slot, depth + 1);
    else if (event->type == YAML_MAPPING_START_EVENT)
        node = read_map(reader, event, slot, depth + 1);
    else
        node =
            broken_node(reader, event, slot,
                        "aliases (*name) are not part of a configuration; write each value where it belongs");
    yaml_event_delete(event);
    return node;
}

/* Skips to the first value; false where there is none or the text is no YAML. */
static bool find_root(struct reader *reader, yaml_event_t *event)
{
    while (next_event(reader, event)) {
        if (event->type == YAML_STREAM_END_EVENT) {
            complain_at(reader->complaints, 1, 1,
                        "there is nothing in this file; it needs at least upstreams and routes");
            yaml_event_delete(event);
            return false;
        }
        if (event->type != YAML_STREAM_START_EVENT && event->type != YAML_DOCUMENT_START_EVENT)
            return true;
        yaml_event_delete(event);
    }
    return false;
}

static bool is_whole_stream_read(struct reader *reader)
{
    yaml_event_t event;

    while (next_event(reader, &event)) {
        bool is_end = event.type == YAML_STREAM_END_EVENT;
        bool is_more = event.type == YAML_DOCUMENT_START_EVENT;

        if (is_more)
            complain_at(reader->complaints, line_of(event.start_mark), column_of(event.start_mark),
                        "a second document begins here; a configuration is one document");
        yaml_event_delete(&event);
        if (is_end || is_more)
            return is_end;
    }
    return false;
}

struct node *node_read(const char *text, size_t len, struct complaints *complaints)
{
    struct reader reader = {.text = text, .len = len, .complaints = complaints};
    struct node *root = NULL;
    yaml_event_t event;

    if (len >= 3 &&
        memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark: libyaml would count it as a column */
        reader.text += 3;
        reader.len -= 3;
    }
    if (!yaml_parser_initialize(&reader.parser)) {
        complain_at(complaints, 0, 0, "out of memory");
        return NULL;
    }
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)reader.text, reader.len);
    yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
    if (find_root(&reader, &event))
        root = read_value(&reader, &event, &(struct slot){0}, 0);
    if (root != NULL && !is_whole_stream_read(&reader)) {
        node_free(root);
        root = NULL;
    }
    yaml_parser_delete(&reader.parser);
    return root;
}
