/* Vary: see vary.h. */
#include "vary.h"

#include "http_char.h"

bool vary_names_all(const struct header *headers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct slice rest = headers[i].value, name;

        if (!slice_eq(headers[i].name, SLICE("vary")))
            continue;
        while (list_next(&rest, &name))
            if (slice_eq(name, SLICE("*")))
                return true;
    }
    return false;
}

/* ---- the names ---- */

struct names {
    struct slice each[VARY_MAX_NAMES];
    size_t count;
};

static int compare(struct slice a, struct slice b)
{
    size_t shorter = a.len < b.len ? a.len : b.len;

    for (size_t i = 0; i < shorter; i++) {
        int difference = (unsigned char)ascii_lower(a.base[i]) - (unsigned char)ascii_lower(b.base[i]);

        if (difference != 0)
            return difference;
    }
    return a.len < b.len ? -1 : a.len > b.len;
}

/* In their order, each once. False: no room. */
static bool insert_name(struct names *names, struct slice name)
{
    size_t at = 0;

    while (at < names->count && compare(names->each[at], name) < 0)
        at++;
    if (at < names->count && compare(names->each[at], name) == 0)
        return true;
    if (names->count == VARY_MAX_NAMES)
        return false;
    memmove(&names->each[at + 1], &names->each[at], (names->count - at) * sizeof(names->each[0]));
    names->each[at] = name;
    names->count++;
    return true;
}

static bool insert_list(struct names *names, struct slice list)
{
    struct slice name;

    while (list_next(&list, &name))
        if (name.len > 0 && (!is_token(name) || !insert_name(names, name)))
            return false;
    return true;
}

static bool is_coded(const struct header *response, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq(response[i].name, SLICE("content-encoding")) &&
            !slice_eq_nocase(slice_trim(response[i].value), SLICE("identity")) &&
            slice_trim(response[i].value).len > 0)
            return true;
    return false;
}

bool vary_extend(struct slice known, const struct header *response, size_t count, char *room, size_t *len_out,
                 bool *has_more)
{
    struct names names = {.count = 0};
    struct text text = text_in(room, VARY_NAMES_ROOM);
    size_t known_count;

    if (!insert_list(&names, known))
        return false;
    known_count = names.count;
    if (is_coded(response, count) && !insert_name(&names, SLICE("accept-encoding")))
        return false;
    for (size_t i = 0; i < count; i++)
        if (slice_eq(response[i].name, SLICE("vary")) && !insert_list(&names, response[i].value))
            return false;
    for (size_t i = 0; i < names.count; i++) {
        if (i > 0)
            text_add(&text, SLICE(", "));
        for (size_t k = 0; k < names.each[i].len; k++)
            text_add_char(&text, ascii_lower(names.each[i].base[k]));
    }
    *has_more = names.count > known_count;
    *len_out = text.len;
    return text_fits(&text);
}

/* ---- weights ---- */

int vary_take_weight(struct slice *element)
{
    const char *semicolon = element->len == 0 ? NULL : memchr(element->base, ';', element->len);
    struct slice weight;
    int value, scale = 100;

    if (semicolon == NULL)
        return 1000;
    weight = slice_trim(slice_of(semicolon + 1, element->len - (size_t)(semicolon - element->base) - 1));
    *element = slice_trim(slice_of(element->base, (size_t)(semicolon - element->base)));
    if (weight.len < 3 || ascii_lower(weight.base[0]) != 'q' || weight.base[1] != '=' ||
        (weight.base[2] != '0' && weight.base[2] != '1') || weight.len > 7 ||
        (weight.len > 3 && weight.base[3] != '.'))
        return -1;
    value = weight.base[2] == '1' ? 1000 : 0;
    for (size_t i = 4; i < weight.len; i++, scale /= 10) {
        if (!is_digit(weight.base[i]))
            return -1;
        value += (weight.base[i] - '0') * scale;
    }
    return value > 1000 ? -1 : value;
}

/* ---- codings ---- */

static const struct slice CODINGS[] = {{"br", 2}, {"gzip", 4}, {"zstd", 4}};
enum { CODING_COUNT = sizeof(CODINGS) / sizeof(CODINGS[0]), UNSAID = -1 };

static void note_coding(struct slice element, int weights[CODING_COUNT], int *any)
{
    int weight = vary_take_weight(&element);

    if (weight < 0)
        return; /* what cannot be read permits nothing */
    if (slice_eq(element, SLICE("*")))
        *any = weight;
    if (slice_eq_nocase(element, SLICE("x-gzip")))
        element = SLICE("gzip");
    for (size_t i = 0; i < CODING_COUNT; i++)
        if (slice_eq_nocase(element, CODINGS[i]))
            weights[i] = weight;
}

void vary_write_codings(const struct header *request, size_t count, struct text *out)
{
    int weights[CODING_COUNT] = {UNSAID, UNSAID, UNSAID}, any = 0;
    size_t start = out->len;

    for (size_t i = 0; i < count; i++) {
        struct slice rest = request[i].value, element;

        if (!slice_eq(request[i].name, SLICE("accept-encoding")))
            continue;
        while (list_next(&rest, &element))
            note_coding(element, weights, &any);
    }
    for (size_t i = 0; i < CODING_COUNT; i++) {
        if ((weights[i] == UNSAID ? any : weights[i]) <= 0)
            continue;
        if (out->len > start)
            text_add(out, SLICE(", "));
        text_add(out, CODINGS[i]);
    }
}

/* ---- languages ---- */

enum { MAX_LANGUAGES = 32 };

struct language {
    struct slice tag;
    int weight;
};

static bool goes_before(const struct language *a, const struct language *b)
{
    return a->weight != b->weight ? a->weight > b->weight : compare(a->tag, b->tag) < 0;
}

/* False: not all of it can be read, so that it counts byte for byte. */
static bool read_languages(const struct header *request, size_t count, struct language *out,
                           size_t *count_out)
{
    size_t made = 0;

    for (size_t i = 0; i < count; i++) {
        struct slice rest = request[i].value, element;

        if (!slice_eq(request[i].name, SLICE("accept-language")))
            continue;
        while (list_next(&rest, &element)) {
            struct language language = {.weight = vary_take_weight(&element), .tag = element};
            size_t at = made;

            if (element.len == 0)
                continue;
            language.tag = element;
            if (language.weight < 0 || made == MAX_LANGUAGES)
                return false;
            for (; at > 0 && goes_before(&language, &out[at - 1]); at--)
                out[at] = out[at - 1];
            out[at] = language;
            made++;
        }
    }
    *count_out = made;
    return true;
}

static void write_language(struct slice tag, int weight, struct text *out)
{
    for (size_t k = 0; k < tag.len; k++)
        text_add_char(out, ascii_lower(tag.base[k]));
    text_add_char(out, ';');
    text_add_int(out, weight);
    text_add_char(out, ',');
}

static bool write_languages(const struct header *request, size_t count, struct text *out)
{
    struct language languages[MAX_LANGUAGES];
    size_t made;

    if (!read_languages(request, count, languages, &made))
        return false;
    for (size_t i = 0; i < made; i++)
        write_language(languages[i].tag, languages[i].weight, out);
    return true;
}

bool vary_prefers_language(const struct header *request, size_t count, struct slice *language)
{
    struct language languages[MAX_LANGUAGES];
    size_t made;

    if (!read_languages(request, count, languages, &made) || made == 0 || languages[0].weight == 0 ||
        (made > 1 && languages[1].weight == languages[0].weight) || slice_eq(languages[0].tag, SLICE("*")))
        return false;
    *language = languages[0].tag;
    return true;
}

bool vary_is_in_language(const struct header *response, size_t count, struct slice *language)
{
    bool says = false;

    for (size_t i = 0; i < count; i++) {
        if (!slice_eq(response[i].name, SLICE("content-language")))
            continue;
        if (says || !is_token(slice_trim(response[i].value)))
            return false; /* a list, too */
        *language = slice_trim(response[i].value);
        says = true;
    }
    return says;
}

/* ---- any other field ---- */

/* Blanks around commas are left out; in quotes they may mean something, so then nothing is. */
static void write_value(struct slice value, struct text *out)
{
    struct slice element;
    bool is_first = true;

    value = slice_trim(value);
    if (value.len == 0 || memchr(value.base, '"', value.len) != NULL) {
        text_add(out, value);
        return;
    }
    while (list_next(&value, &element)) {
        if (!is_first)
            text_add_char(out, ',');
        is_first = false;
        text_add(out, element);
    }
}

static void write_field(struct slice name, const struct header *request, size_t count, struct text *out)
{
    bool is_first = true;

    for (size_t i = 0; i < count; i++) {
        if (!slice_eq(request[i].name, name))
            continue;
        text_add_char(out, is_first ? '=' : ',');
        is_first = false;
        write_value(request[i].value, out);
    }
}

/* Each field ends in a line feed, which no value holds. */
void vary_write_values_in(struct slice language, struct slice names, const struct header *request,
                          size_t count, struct text *out)
{
    struct slice name;

    while (list_next(&names, &name)) {
        text_add(out, name);
        if (slice_eq(name, SLICE("accept-encoding"))) {
            text_add_char(out, '=');
            vary_write_codings(request, count, out);
        } else if (slice_eq(name, SLICE("accept-language")) && language.base != NULL) {
            write_language(language, 1000, out);
        } else if (!slice_eq(name, SLICE("accept-language")) || !write_languages(request, count, out)) {
            write_field(name, request, count, out);
        }
        text_add_char(out, '\n');
    }
}

void vary_write_values(struct slice names, const struct header *request, size_t count, struct text *out)
{
    vary_write_values_in(slice_of(NULL, 0), names, request, count, out);
}
