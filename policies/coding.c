/* Coding: see coding.h. */
#include "coding.h"

#include "http_char.h"
#include "response_control.h"
#include "vary.h"

static struct slice value_of(const struct header *headers, size_t count, struct slice name)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq(headers[i].name, name))
            return headers[i].value;
    return slice_of(NULL, 0);
}

/* ---- may it be compressed? ---- */

bool coding_is_forbidden(const struct header *response, size_t count)
{
    struct cache_control control;

    cache_control_parse(response, count, &control);
    if (control.no_transform)
        return true;
    response_control_parse(response, count, &control);
    return control.no_transform;
}

static bool is_coded(const struct header *response, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq(response[i].name, SLICE("content-encoding")) && slice_trim(response[i].value).len > 0 &&
            !slice_eq_nocase(slice_trim(response[i].value), SLICE("identity")))
            return true;
    return false;
}

static bool is_of_type(struct slice media, struct slice type)
{
    if (type.base[type.len - 1] == '/')
        return media.len > type.len && slice_eq_nocase(slice_of(media.base, type.len), type);
    return slice_eq_nocase(media, type);
}

bool coding_may_compress(const struct header *response, size_t count, const struct slice *types,
                         size_t type_count)
{
    struct slice media = value_of(response, count, SLICE("content-type"));
    const char *semicolon = media.len == 0 ? NULL : memchr(media.base, ';', media.len);

    if (semicolon != NULL)
        media.len = (size_t)(semicolon - media.base);
    media = slice_trim(media);
    for (size_t i = 0; i < type_count; i++)
        if (is_of_type(media, types[i]))
            return !is_coded(response, count) && !coding_is_forbidden(response, count);
    return false;
}

/* ---- which form? ---- */

enum { UNSAID = -1 };

static void note_weight(struct slice element, int *gzip, int *plain, int *any)
{
    int weight = vary_take_weight(&element);

    if (weight < 0)
        return; /* what cannot be read permits nothing */
    if (slice_eq(element, SLICE("*")))
        *any = weight;
    else if (slice_eq_nocase(element, SLICE("gzip")) || slice_eq_nocase(element, SLICE("x-gzip")))
        *gzip = weight;
    else if (slice_eq_nocase(element, SLICE("identity")))
        *plain = weight;
}

enum coding_wish coding_wish_of(const struct header *request, size_t count)
{
    int gzip = UNSAID, plain = UNSAID, any = UNSAID;
    struct cache_control control;

    cache_control_parse(request, count, &control);
    for (size_t i = 0; i < count; i++) {
        struct slice rest = request[i].value, element;

        if (!slice_eq(request[i].name, SLICE("accept-encoding")))
            continue;
        while (list_next(&rest, &element))
            note_weight(element, &gzip, &plain, &any);
    }
    if (gzip == UNSAID)
        gzip = any;
    if (plain == UNSAID && any == 0)
        plain = 0;
    if (gzip <= 0 || control.no_transform || plain > gzip)
        return CODING_PLAIN;
    return plain == 0 ? CODING_GZIP_ONLY : CODING_GZIP;
}

/* ---- the head ---- */

/* Of the bytes of one form, not of the other. */
static bool is_of_the_plain_bytes(struct slice name)
{
    static const struct slice names[] = {{"content-encoding", 16}, {"content-length", 14},
                                         {"content-md5", 11},      {"content-digest", 14},
                                         {"repr-digest", 11},      {"digest", 6}};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (slice_eq(name, names[i]))
            return true;
    return false;
}

static bool is_weak(struct slice etag)
{
    return etag.len >= 2 && etag.base[0] == 'W' && etag.base[1] == '/';
}

size_t coding_text_bytes(const struct header *stored, size_t count)
{
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++)
        if (slice_eq(stored[i].name, SLICE("etag")))
            bytes += 2 + stored[i].value.len;
    return bytes;
}

static struct slice weaken(struct slice etag, char **room)
{
    char *text = *room;

    if (is_weak(etag) || etag.len == 0)
        return etag;
    memcpy(text, "W/", 2);
    memcpy(text + 2, etag.base, etag.len);
    *room += 2 + etag.len;
    return slice_of(text, 2 + etag.len);
}

static bool varies_on_coding(const struct header *headers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct slice rest = headers[i].value, name;

        if (!slice_eq(headers[i].name, SLICE("vary")))
            continue;
        while (list_next(&rest, &name))
            if (slice_eq_nocase(name, SLICE("accept-encoding")) || slice_eq(name, SLICE("*")))
                return true;
    }
    return false;
}

size_t coding_write_head(const struct header *stored, size_t count, bool is_gzip, struct header *out,
                         char *room)
{
    size_t made = 0;

    for (size_t i = 0; i < count; i++) {
        struct header field = stored[i];

        if (is_gzip && is_of_the_plain_bytes(field.name))
            continue;
        if (is_gzip && slice_eq(field.name, SLICE("etag")))
            field.value = weaken(field.value, &room);
        out[made++] = field;
    }
    if (is_gzip)
        out[made++] = (struct header){SLICE("content-encoding"), SLICE("gzip")};
    if (!varies_on_coding(stored, count))
        out[made++] = (struct header){SLICE("vary"), SLICE("accept-encoding")};
    return made;
}
