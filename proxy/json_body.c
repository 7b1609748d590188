/* Json body: see json_body.h. */
#include "json_body.h"
#include "json_scan.h"
#include "memory.h"

#include <json-c/json_object.h>
#include <json-c/json_object_iterator.h>
#include <json-c/json_pointer.h>
#include <json-c/json_tokener.h>
#include <limits.h>
#include <stdlib.h>

struct json_body {
    struct json_object *root; /* NULL is JSON's null */
};

/* Members of all objects; as deep as the parser went, which is bounded. */
static size_t count_members(struct json_object *value)
{
    size_t members = 0;

    if (json_object_is_type(value, json_type_array)) {
        for (size_t i = 0; i < json_object_array_length(value); i++)
            members += count_members(json_object_array_get_idx(value, i));
    } else if (json_object_is_type(value, json_type_object)) {
        struct json_object_iterator at = json_object_iter_begin(value), end = json_object_iter_end(value);

        for (; !json_object_iter_equal(&at, &end); json_object_iter_next(&at))
            members += 1 + count_members(json_object_iter_peek_value(&at));
    }
    return members;
}

/* The whole text is one value. */
static bool parse(struct slice text, struct json_object **root)
{
    struct json_tokener *tokener = json_tokener_new_ex(JSON_MAX_DEPTH);
    enum json_tokener_error error;

    if (tokener == NULL)
        return false;
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    *root = json_tokener_parse_ex(tokener, text.base, (int)text.len);
    error = json_tokener_get_error(tokener);
    if (error == json_tokener_continue) { /* a number at the top may go on: the NUL ends it */
        *root = json_tokener_parse_ex(tokener, "", 1);
        error = json_tokener_get_error(tokener);
    }
    json_tokener_free(tokener);
    return error == json_tokener_success;
}

struct json_body *json_body_read(struct slice text)
{
    struct json_body *body;
    struct json_object *root = NULL;
    size_t members;

    if (text.len > INT_MAX || !json_scan(text, &members) || !parse(text, &root))
        return NULL;
    if (count_members(root) != members) {
        json_object_put(root);
        return NULL;
    }
    body = must_alloc(sizeof(*body));
    body->root = root;
    return body;
}

void json_body_free(struct json_body **taken)
{
    struct json_body *body = *taken;

    *taken = NULL;
    if (body == NULL)
        return;
    json_object_put(body->root);
    free(body);
}

enum json_found json_body_look(const struct json_body *body, const char *pointer, int64_t *number)
{
    struct json_object *value = body->root;

    if (pointer[0] != '\0' && json_pointer_get(body->root, pointer, &value) != 0)
        return JSON_NOTHING;
    switch (json_object_get_type(value)) {
    case json_type_int: *number = json_object_get_int64(value); return JSON_WHOLE;
    case json_type_array: *number = (int64_t)json_object_array_length(value); return JSON_WHOLE;
    case json_type_null:
    case json_type_boolean:
    case json_type_double:
    case json_type_object:
    case json_type_string: break;
    }
    return JSON_OTHER;
}

static bool text_of(struct json_object *value, struct slice *out)
{
    if (!json_object_is_type(value, json_type_string) && !json_object_is_type(value, json_type_int))
        return false;
    /* of a number: as it is written, kept with the value */
    *out = json_object_is_type(value, json_type_string)
               ? slice_of(json_object_get_string(value), (size_t)json_object_get_string_len(value))
               : slice_text(json_object_get_string(value));
    return true;
}

size_t json_body_texts(const struct json_body *body, const char *pointer, struct slice *out, size_t room)
{
    struct json_object *value = body->root;
    size_t count;

    if ((pointer[0] != '\0' && json_pointer_get(body->root, pointer, &value) != 0) || value == NULL)
        return 0;
    if (!json_object_is_type(value, json_type_array))
        return room > 0 && text_of(value, out) ? 1 : SIZE_MAX;
    count = json_object_array_length(value);
    if (count > room)
        return SIZE_MAX;
    for (size_t i = 0; i < count; i++)
        if (!text_of(json_object_array_get_idx(value, i), &out[i]))
            return SIZE_MAX;
    return count;
}
