/* Admin, cache: what is invalidated by tags, or purged by its URL.
 *
 * Acknowledged only once it is recorded. Where the store cannot be reached the answer is 503, and the invalidation is
 * kept all the same: this node serves nothing of it any more and tells the store as soon as it can.
 */
#include "admin_parts.h"
#include "uri_tag.h"

#include <json-c/json.h>
#include <stdio.h>

enum { TAGS_MAX = 64, TAG_MAX_BYTES = 256, DEPTH_MAX = 8 };

static void on_invalidated(void *arg, int64_t epoch)
{
    struct admin_request *request = arg;
    char body[96];
    int len;

    request->invalidation = NULL;
    if (epoch < 0) {
        admin_refuse(request->client, 503, "invalidation_kept",
                     "The store cannot be reached. This node serves nothing of it from now on, and tells the "
                     "store as soon as it is back; other nodes may serve it until then.");
        return;
    }
    len = snprintf(body, sizeof(body), "{\"epoch\":%lld}\n", (long long)epoch);
    admin_answer(request->client, 200, SLICE("application/json"), slice_of(body, (size_t)len));
}

/* ---- what came ---- */

struct json_object *admin_parse_json(struct slice body)
{
    struct json_tokener *tokener = json_tokener_new_ex(DEPTH_MAX);
    struct json_object *parsed;

    if (tokener == NULL || body.len == 0 || body.len > ADMIN_BODY_MAX_BYTES) {
        if (tokener != NULL)
            json_tokener_free(tokener);
        return NULL;
    }
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
    parsed = json_tokener_parse_ex(tokener, body.base, (int)body.len);
    if (json_tokener_get_error(tokener) != json_tokener_success) {
        json_object_put(parsed);
        parsed = NULL;
    }
    json_tokener_free(tokener);
    return parsed;
}

/* The tags of {"tags": ["a", ...]}; NULL, or what is wrong. The slices point into `body`. */
static const char *read_tags(struct json_object *body, struct slice *tags, size_t *count)
{
    struct json_object *list;

    if (!json_object_is_type(body, json_type_object) || !json_object_object_get_ex(body, "tags", &list) ||
        !json_object_is_type(list, json_type_array))
        return "The body must be an object with a list named tags.";
    *count = json_object_array_length(list);
    if (*count == 0 || *count > TAGS_MAX)
        return "Between 1 and 64 tags can be invalidated at once.";
    for (size_t i = 0; i < *count; i++) {
        struct json_object *tag = json_object_array_get_idx(list, i);

        if (!json_object_is_type(tag, json_type_string))
            return "Each tag must be a string.";
        tags[i] = slice_of(json_object_get_string(tag), (size_t)json_object_get_string_len(tag));
        if (tags[i].len == 0 || tags[i].len > TAG_MAX_BYTES)
            return "A tag has between 1 and 256 bytes.";
    }
    return NULL;
}

/* Whoever misspells `soft` is told: a hard invalidation is not what was asked for. */
static const char *read_soft(struct json_object *body, const char *known, bool *is_soft)
{
    struct json_object *soft;

    *is_soft = false;
    json_object_object_foreach(body, name, value)
    {
        (void)value;
        if (strcmp(name, known) != 0 && strcmp(name, "soft") != 0)
            return "The body has a member that is not known here.";
    }
    if (!json_object_object_get_ex(body, "soft", &soft))
        return NULL;
    *is_soft = json_object_get_boolean(soft);
    return json_object_is_type(soft, json_type_boolean) ? NULL : "soft must be true or false.";
}

static const char *read_url(struct json_object *body, char room[URI_TAGS_OF_URL][URI_TAG_BYTES],
                            struct slice *tags)
{
    struct json_object *url;
    const char *flaw;

    if (!json_object_is_type(body, json_type_object) || !json_object_object_get_ex(body, "url", &url) ||
        !json_object_is_type(url, json_type_string))
        return "The body must be an object with a string named url.";
    flaw =
        uri_tags_of_url(slice_of(json_object_get_string(url), (size_t)json_object_get_string_len(url)), room);
    for (size_t i = 0; i < URI_TAGS_OF_URL; i++)
        tags[i] = slice_of(room[i], URI_TAG_BYTES);
    return flaw;
}

/* ---- what becomes of it ---- */

static void ask(struct admin_request *request, const struct slice *tags, size_t count, bool is_soft)
{
    request->invalidation = invalidator_ask(request->admin->invalidator, tags, count, is_soft ? count : 0,
                                            on_invalidated, request);
}

void admin_invalidate(struct admin_request *request, struct slice body)
{
    struct json_object *parsed = admin_parse_json(body);
    struct slice tags[TAGS_MAX];
    size_t count = 0;
    const char *flaw;
    bool is_soft = false;

    if (parsed == NULL) {
        admin_refuse(request->client, 400, "bad_json", "The body is not one JSON value.");
        return;
    }
    flaw = read_tags(parsed, tags, &count);
    if (flaw == NULL)
        flaw = read_soft(parsed, "tags", &is_soft);
    if (flaw != NULL)
        admin_refuse(request->client, 400, "bad_tags", flaw);
    else
        ask(request, tags, count, is_soft);
    json_object_put(parsed);
}

void admin_purge(struct admin_request *request, struct slice body)
{
    struct json_object *parsed = admin_parse_json(body);
    char room[URI_TAGS_OF_URL][URI_TAG_BYTES];
    struct slice tags[URI_TAGS_OF_URL];
    const char *flaw;
    bool is_soft = false;

    if (parsed == NULL) {
        admin_refuse(request->client, 400, "bad_json", "The body is not one JSON value.");
        return;
    }
    flaw = read_url(parsed, room, tags);
    if (flaw == NULL)
        flaw = read_soft(parsed, "url", &is_soft);
    if (flaw != NULL)
        admin_refuse(request->client, 400, "bad_url", flaw);
    else
        ask(request, tags, URI_TAGS_OF_URL, is_soft);
    json_object_put(parsed);
}
