/* Response control: see response_control.h. */
#include "response_control.h"

#include "structured_fields.h"

#define US SLICE("weir")

/* Ours first (RFC 9213 section 2.2: a target list). */
static const struct slice TARGETED[] = {{"weir-cache-control", 18}, {"cdn-cache-control", 17}};
enum { TARGETED_COUNT = sizeof(TARGETED) / sizeof(TARGETED[0]), NAMES_ROOM = 1024 };

/* ---- a structured field ---- */

/* What a directive may have as its value (RFC 9213 section 2.1). */
enum form {
    FORM_FLAG,    /* a boolean */
    FORM_FIELDS,  /* a boolean, or a string that names fields */
    FORM_SECONDS, /* an integer, not negative */
};

enum directive {
    NO_STORE,
    NO_CACHE,
    PRIVATE,
    PUBLIC,
    MUST_REVALIDATE,
    PROXY_REVALIDATE,
    MUST_UNDERSTAND,
    NO_TRANSFORM,
    MAX_AGE,
    S_MAXAGE,
    STALE_WHILE_REVALIDATE,
    STALE_IF_ERROR,
    DIRECTIVES
};

static const struct {
    struct slice name;
    enum form form;
} KNOWN[DIRECTIVES] = {
    [NO_STORE] = {{"no-store", 8}, FORM_FLAG},
    [NO_CACHE] = {{"no-cache", 8}, FORM_FIELDS},
    [PRIVATE] = {{"private", 7}, FORM_FIELDS},
    [PUBLIC] = {{"public", 6}, FORM_FLAG},
    [MUST_REVALIDATE] = {{"must-revalidate", 15}, FORM_FLAG},
    [PROXY_REVALIDATE] = {{"proxy-revalidate", 16}, FORM_FLAG},
    [MUST_UNDERSTAND] = {{"must-understand", 15}, FORM_FLAG},
    [NO_TRANSFORM] = {{"no-transform", 12}, FORM_FLAG},
    [MAX_AGE] = {{"max-age", 7}, FORM_SECONDS},
    [S_MAXAGE] = {{"s-maxage", 8}, FORM_SECONDS},
    [STALE_WHILE_REVALIDATE] = {{"stale-while-revalidate", 22}, FORM_SECONDS},
    [STALE_IF_ERROR] = {{"stale-if-error", 14}, FORM_SECONDS},
};

/* The last value of each directive that a dictionary gives. */
struct dictionary {
    bool has_members;
    struct given {
        bool is_there, is_inner_list;
        struct sf_value value;
    } given[DIRECTIVES];
};

static bool is_of_form(const struct given *given, enum form form)
{
    enum sf_type type = given->value.type;

    if (given->is_inner_list)
        return false;
    switch (form) {
    case FORM_FLAG: return type == SF_BOOLEAN;
    case FORM_FIELDS: return type == SF_BOOLEAN || type == SF_STRING || type == SF_TOKEN;
    case FORM_SECONDS: return type == SF_INTEGER && given->value.number >= 0;
    }
    return false;
}

static void note_member(struct dictionary *dictionary, struct slice key, const struct sf_value *value,
                        bool is_inner_list)
{
    dictionary->has_members = true;
    for (size_t i = 0; i < DIRECTIVES; i++)
        if (slice_eq(key, KNOWN[i].name))
            dictionary->given[i] = (struct given){true, is_inner_list, *value};
}

/* False where the field counts as absent. */
static bool read_dictionary(const struct header *headers, size_t count, struct slice name,
                            struct dictionary *out)
{
    struct sf_reader reader;
    enum sf_event event;
    bool is_inside = false;

    *out = (struct dictionary){.has_members = false};
    sf_read_field(&reader, SF_KIND_DICTIONARY, headers, count, name);
    while ((event = sf_next(&reader)) != SF_END) {
        if (event == SF_MALFORMED)
            return false;
        if (!is_inside && (event == SF_ITEM || event == SF_INNER_LIST))
            note_member(out, reader.key, &reader.value, event == SF_INNER_LIST);
        is_inside = event == SF_INNER_LIST || (is_inside && event != SF_INNER_LIST_END);
    }
    for (size_t i = 0; i < DIRECTIVES; i++)
        if (out->given[i].is_there && !is_of_form(&out->given[i], KNOWN[i].form))
            return false;
    return out->has_members;
}

static bool says(const struct dictionary *dictionary, enum directive directive)
{
    const struct given *given = &dictionary->given[directive];

    return given->is_there && (given->value.type != SF_BOOLEAN || given->value.number != 0);
}

static int64_t seconds_of(const struct dictionary *dictionary, enum directive directive)
{
    const struct given *given = &dictionary->given[directive];

    if (!given->is_there)
        return CACHE_SECONDS_ABSENT;
    return given->value.number < CACHE_SECONDS_MAX ? given->value.number : CACHE_SECONDS_MAX;
}

/* The names that private="..." gives, without the string's escapes, which no name has. */
static struct slice names_of(const struct dictionary *dictionary, enum directive directive,
                             char room[NAMES_ROOM])
{
    const struct given *given = &dictionary->given[directive];
    size_t len;

    if (!given->is_there || (given->value.type != SF_STRING && given->value.type != SF_TOKEN))
        return slice_of(NULL, 0);
    len = sf_text_write(&given->value, room, NAMES_ROOM);
    return len > NAMES_ROOM ? slice_of(NULL, 0) : slice_of(room, len);
}

/* Where it is not sure which fields are named, all of the response is meant. */
static bool names_fields(const struct dictionary *dictionary, enum directive directive)
{
    char room[NAMES_ROOM];

    return says(dictionary, directive) && cache_control_is_name_list(names_of(dictionary, directive, room));
}

static void interpret(const struct dictionary *dictionary, struct cache_control *out)
{
    cache_control_clear(out);
    out->no_store = says(dictionary, NO_STORE);
    out->no_cache = says(dictionary, NO_CACHE);
    out->no_cache_fields_only = names_fields(dictionary, NO_CACHE);
    out->is_private = says(dictionary, PRIVATE);
    out->private_fields_only = names_fields(dictionary, PRIVATE);
    out->is_public = says(dictionary, PUBLIC);
    out->must_revalidate = says(dictionary, MUST_REVALIDATE);
    out->proxy_revalidate = says(dictionary, PROXY_REVALIDATE);
    out->must_understand = says(dictionary, MUST_UNDERSTAND);
    out->no_transform = says(dictionary, NO_TRANSFORM);
    out->max_age_s = seconds_of(dictionary, MAX_AGE);
    out->s_maxage_s = seconds_of(dictionary, S_MAXAGE);
    out->s_maxage_is_valid = out->s_maxage_s != CACHE_SECONDS_ABSENT;
    out->stale_while_revalidate_s = seconds_of(dictionary, STALE_WHILE_REVALIDATE);
    out->stale_if_error_s = seconds_of(dictionary, STALE_IF_ERROR);
    out->permits_authorization = out->is_public || out->must_revalidate;
    cache_control_settle(out);
}

/* ---- which field counts ---- */

static bool is_there(const struct header *headers, size_t count, struct slice name)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq(headers[i].name, name))
            return true;
    return false;
}

/* The first structured one that counts. */
static bool find_targeted(const struct header *headers, size_t count, struct dictionary *out)
{
    for (size_t i = 0; i < TARGETED_COUNT; i++)
        if (is_there(headers, count, TARGETED[i]) && read_dictionary(headers, count, TARGETED[i], out))
            return true;
    return false;
}

void response_control_parse(const struct header *headers, size_t count, struct cache_control *out)
{
    struct dictionary dictionary;

    if (find_targeted(headers, count, &dictionary)) {
        interpret(&dictionary, out);
        out->is_targeted = true;
    } else if (surrogate_control_parse(headers, count, US, out)) {
        out->is_targeted = true;
    } else {
        cache_control_parse(headers, count, out);
    }
}

static bool is_named(const struct dictionary *dictionary, enum directive directive, struct slice name)
{
    char room[NAMES_ROOM];

    return cache_control_names(names_of(dictionary, directive, room), name);
}

bool response_control_withholds(const struct header *headers, size_t count, struct slice name)
{
    struct dictionary dictionary;
    struct cache_control control;

    if (find_targeted(headers, count, &dictionary))
        return is_named(&dictionary, NO_CACHE, name) || is_named(&dictionary, PRIVATE, name);
    if (surrogate_control_parse(headers, count, US, &control))
        return surrogate_control_withholds(headers, count, US, name);
    return cache_control_withholds(headers, count, name);
}
