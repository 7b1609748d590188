/* The HTTP working group's vectors for parsers of structured fields: every one is read as it says.
 *
 * They are not part of this repository. They are looked for in the folder that WEIR_STRUCTURED_FIELD_TESTS names, else in
 * ../shared/data/structured-field-tests beside it; without them the test says so and passes.
 */
#include "structured_fields.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

enum { LINES_MAX = 8, VECTORS = 1591 };

static const char *folder(void)
{
    const char *named = getenv("WEIR_STRUCTURED_FIELD_TESTS");

    return named != NULL ? named : "../shared/data/structured-field-tests";
}

static struct json_object *member(struct json_object *object, const char *key)
{
    struct json_object *found = NULL;

    json_object_object_get_ex(object, key, &found);
    return found;
}

/* ---- what was read, in the vectors' own shape ---- */

static struct json_object *text_of(const struct sf_value *value)
{
    char *text = malloc(value->text.len + 1);
    size_t len = sf_text_write(value, text, value->text.len);
    struct json_object *made = json_object_new_string_len(text, (int)len);

    cr_assert(len <= value->text.len, "never longer than as it was written");
    free(text);
    return made;
}

/* The vectors give bytes in base 32. */
static struct json_object *base32_of(const struct sf_value *value)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    char *bytes = malloc(value->text.len + 1), *text = malloc(2 * value->text.len + 8);
    size_t len = sf_text_write(value, bytes, value->text.len), made = 0;
    unsigned pending = 0, bits = 0;
    struct json_object *out;

    for (size_t i = 0; i < len; i++) {
        pending = (pending << 8 | (unsigned char)bytes[i]) & 0xffff;
        for (bits += 8; bits >= 5; bits -= 5)
            text[made++] = digits[pending >> (bits - 5) & 31];
    }
    if (bits > 0)
        text[made++] = digits[pending << (5 - bits) & 31];
    while (made % 8 != 0)
        text[made++] = '=';
    out = json_object_new_string_len(text, (int)made);
    free(bytes);
    free(text);
    return out;
}

static struct json_object *typed(const char *type, struct json_object *value)
{
    struct json_object *made = json_object_new_object();

    json_object_object_add(made, "__type", json_object_new_string(type));
    json_object_object_add(made, "value", value);
    return made;
}

static struct json_object *json_of(const struct sf_value *value)
{
    switch (value->type) {
    case SF_INTEGER: return json_object_new_int64(value->number);
    case SF_DECIMAL: return json_object_new_double((double)value->number / 1000);
    case SF_STRING: return text_of(value);
    case SF_TOKEN: return typed("token", text_of(value));
    case SF_BYTES: return typed("binary", base32_of(value));
    case SF_BOOLEAN: return json_object_new_boolean(value->number != 0);
    case SF_DATE: return typed("date", json_object_new_int64(value->number));
    case SF_DISPLAY_STRING: return typed("displaystring", text_of(value));
    }
    return NULL;
}

static struct json_object *pair(struct json_object *first, struct json_object *second)
{
    struct json_object *made = json_object_new_array();

    json_object_array_add(made, first);
    json_object_array_add(made, second);
    return made;
}

/* Of a key that comes twice the last value counts, at the place of the first. */
static void put(struct json_object *pairs, struct slice key, struct json_object *value)
{
    for (size_t i = 0; i < json_object_array_length(pairs); i++) {
        struct json_object *each = json_object_array_get_idx(pairs, i);

        if (slice_eq(slice_text(json_object_get_string(json_object_array_get_idx(each, 0))), key)) {
            json_object_array_put_idx(each, 1, value);
            return;
        }
    }
    json_object_array_add(pairs, pair(json_object_new_string_len(key.base, (int)key.len), value));
}

/* NULL: malformed. */
static struct json_object *read_all(struct sf_reader *reader)
{
    struct json_object *members = json_object_new_array(), *inner = NULL, *parameters = NULL, *made;

    for (;;) {
        enum sf_event event = sf_next(reader);

        switch (event) {
        case SF_ITEM:
            parameters = json_object_new_array();
            made = pair(json_of(&reader->value), parameters);
            if (inner != NULL)
                json_object_array_add(inner, made);
            else if (reader->kind == SF_KIND_DICTIONARY)
                put(members, reader->key, made);
            else
                json_object_array_add(members, made);
            break;
        case SF_INNER_LIST:
            inner = json_object_new_array();
            parameters = json_object_new_array();
            made = pair(inner, parameters);
            if (reader->kind == SF_KIND_DICTIONARY)
                put(members, reader->key, made);
            else
                json_object_array_add(members, made);
            break;
        case SF_INNER_LIST_END:
            inner = NULL;
            made = json_object_array_get_idx(members, json_object_array_length(members) - 1);
            if (reader->kind == SF_KIND_DICTIONARY)
                made = json_object_array_get_idx(made, 1);
            parameters = json_object_array_get_idx(made, 1);
            break;
        case SF_PARAMETER: put(parameters, reader->key, json_of(&reader->value)); break;
        case SF_END: return members;
        case SF_MALFORMED: json_object_put(members); return NULL;
        }
    }
}

/* ---- one vector ---- */

static enum sf_kind kind_of(struct json_object *vector)
{
    const char *type = json_object_get_string(member(vector, "header_type"));

    return strcmp(type, "list") == 0         ? SF_KIND_LIST
           : strcmp(type, "dictionary") == 0 ? SF_KIND_DICTIONARY
                                             : SF_KIND_ITEM;
}

static bool is_true(struct json_object *vector, const char *key)
{
    return json_object_get_boolean(member(vector, key));
}

static void check(const char *file, struct json_object *vector)
{
    struct json_object *raw = member(vector, "raw"), *expected = member(vector, "expected"), *got;
    const char *name = json_object_get_string(member(vector, "name"));
    struct header lines[LINES_MAX];
    size_t count = json_object_array_length(raw);
    struct sf_reader reader;
    bool is_sound;

    cr_assert(count <= LINES_MAX);
    for (size_t i = 0; i < count; i++) {
        struct json_object *line = json_object_array_get_idx(raw, i);

        lines[i] = (struct header){SLICE("example"), slice_of(json_object_get_string(line),
                                                              (size_t)json_object_get_string_len(line))};
    }
    sf_read_field(&reader, kind_of(vector), lines, count, SLICE("example"));
    is_sound = sf_is_sound(reader);
    got = read_all(&reader);
    cr_assert_eq(got != NULL, is_sound, "%s, %s", file, name);
    if (got != NULL && kind_of(vector) == SF_KIND_ITEM) {
        struct json_object *item = json_object_get(json_object_array_get_idx(got, 0));

        json_object_put(got);
        got = item;
    }
    if (is_true(vector, "must_fail"))
        cr_expect_null(got, "%s, %s: must fail", file, name);
    else if (got != NULL || !is_true(vector, "can_fail"))
        cr_expect(json_object_equal(got, expected), "%s, %s: %s, not %s", file, name,
                  json_object_to_json_string(got), json_object_to_json_string(expected));
    json_object_put(got);
}

static size_t check_file(const char *path, const char *file)
{
    struct json_object *vectors = json_object_from_file(path);
    size_t count;

    cr_assert_not_null(vectors, "%s: %s", path, json_util_get_last_err());
    count = json_object_array_length(vectors);
    for (size_t i = 0; i < count; i++)
        check(file, json_object_array_get_idx(vectors, i));
    json_object_put(vectors);
    return count;
}

Test(structured_fields_vectors, every_one_is_read_as_it_says)
{
    DIR *files = opendir(folder());
    struct dirent *file;
    size_t count = 0;
    char path[4096];

    if (files == NULL)
        cr_skip_test("the vectors are not here: WEIR_STRUCTURED_FIELD_TESTS names their folder");
    while ((file = readdir(files)) != NULL) {
        size_t len = strlen(file->d_name);

        if (len < 5 || strcmp(file->d_name + len - 5, ".json") != 0)
            continue;
        cr_assert(snprintf(path, sizeof(path), "%s/%s", folder(), file->d_name) < (int)sizeof(path));
        count += check_file(path, file->d_name);
    }
    closedir(files);
    cr_assert_geq(count, VECTORS, "all of them: %zu", count);
}
