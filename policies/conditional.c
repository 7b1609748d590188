/* Conditional: see conditional.h. */
#include "conditional.h"

#include "http_date.h"
#include "slice_search.h"

static struct slice value_of(const struct header *headers, size_t count, struct slice name)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq(headers[i].name, name))
            return headers[i].value.base == NULL ? SLICE("") : headers[i].value;
    return slice_of(NULL, 0);
}

void conditions_read(const struct header *request, size_t count, struct conditions *out)
{
    size_t tag_lines = 0;

    *out = (struct conditions){
        .if_none_match = value_of(request, count, SLICE("if-none-match")),
        .if_modified_since = value_of(request, count, SLICE("if-modified-since")),
        .if_range = value_of(request, count, SLICE("if-range")),
    };
    for (size_t i = 0; i < count; i++) {
        if (slice_eq(request[i].name, SLICE("if-none-match")))
            tag_lines++;
        if (slice_eq(request[i].name, SLICE("if-match")) ||
            slice_eq(request[i].name, SLICE("if-unmodified-since")))
            out->is_for_origin = true;
    }
    out->has_more_tags = tag_lines > 1;
}

/* ---- entity tags ---- */

static bool is_weak(struct slice tag)
{
    return tag.len >= 2 && tag.base[0] == 'W' && tag.base[1] == '/';
}

static struct slice opaque_part(struct slice tag)
{
    return is_weak(tag) ? slice_of(tag.base + 2, tag.len - 2) : tag;
}

static bool is_quoted(struct slice tag)
{
    return tag.len >= 2 && tag.base[0] == '"' && tag.base[tag.len - 1] == '"';
}

/* Takes the next tag, with its W/ and quotes, off the front. A tag may hold commas; what is not quoted (which
 * no grammar allows, but some send) ends at one. False at the end. */
static bool next_tag(struct slice *rest, struct slice *tag)
{
    size_t at = 0, start;

    while (at < rest->len && (rest->base[at] == ',' || rest->base[at] == ' ' || rest->base[at] == '\t'))
        at++;
    if (at == rest->len)
        return false;
    start = at;
    if (rest->len - at >= 2 && rest->base[at] == 'W' && rest->base[at + 1] == '/')
        at += 2;
    if (at < rest->len && rest->base[at] == '"') {
        const char *end = memchr(rest->base + at + 1, '"', rest->len - at - 1);

        at = end == NULL ? rest->len : (size_t)(end - rest->base) + 1;
    }
    while (at < rest->len && rest->base[at] != ',')
        at++;
    *tag = slice_trim(slice_of(rest->base + start, at - start));
    *rest = slice_of(rest->base + at, rest->len - at);
    return true;
}

static bool line_matches(struct slice line, struct slice etag)
{
    struct slice tag;

    if (slice_eq(slice_trim(line), SLICE("*")))
        return true;
    while (next_tag(&line, &tag))
        if (etag.len > 0 && slice_eq(opaque_part(tag), opaque_part(etag)))
            return true;
    return false;
}

static bool any_line_matches(const struct header *request, size_t count, struct slice etag)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq(request[i].name, SLICE("if-none-match")) && line_matches(request[i].value, etag))
            return true;
    return false;
}

/* ---- the two questions ---- */

/* Without Last-Modified, its Date is what the client may have taken for it. */
static bool is_unmodified_since(struct slice since, const struct header *response, size_t count,
                                struct wall_s now)
{
    struct wall_s since_s, modified;

    if (!http_date_parse(since, now, &since_s))
        return false;
    if (!http_date_parse(value_of(response, count, SLICE("last-modified")), now, &modified) &&
        !http_date_parse(value_of(response, count, SLICE("date")), now, &modified))
        return false;
    return modified.s <= since_s.s;
}

bool condition_says_unmodified(const struct conditions *conditions, const struct header *request,
                               size_t request_count, const struct header *response, size_t response_count,
                               struct wall_s now)
{
    struct slice etag = value_of(response, response_count, SLICE("etag"));

    if (conditions->if_none_match.base != NULL)
        return conditions->has_more_tags ? any_line_matches(request, request_count, etag)
                                         : line_matches(conditions->if_none_match, etag);
    return conditions->if_modified_since.base != NULL &&
           is_unmodified_since(conditions->if_modified_since, response, response_count, now);
}

bool condition_permits_range(const struct conditions *conditions, const struct header *response, size_t count,
                             struct wall_s now)
{
    struct slice etag = value_of(response, count, SLICE("etag"));
    struct slice modified = value_of(response, count, SLICE("last-modified"));
    struct wall_s asked_s, modified_s, date_s;

    if (conditions->if_range.base == NULL)
        return true;
    if (is_weak(conditions->if_range))
        return false;
    if (is_quoted(conditions->if_range))
        return slice_eq(conditions->if_range, etag);
    return http_date_parse(conditions->if_range, now, &asked_s) &&
           http_date_parse(modified, now, &modified_s) && asked_s.s == modified_s.s &&
           http_date_parse(value_of(response, count, SLICE("date")), now, &date_s) &&
           date_s.s - modified_s.s >= 60;
}

/* ---- fields ---- */

bool field_belongs_in_304(struct slice name)
{
    static const struct slice body_only[] = {
        {"content-type", 12},
        {"content-encoding", 16},
        {"content-language", 16},
        {"content-range", 13},
        {"content-md5", 11},
        {"content-length", 14},
        {"last-modified", 13},
        {"content-digest", 14},
        {"repr-digest", 11},
        {"digest", 6},
        {"trailer", 7},
        {"accept-ranges", 13},
        {"content-disposition", 19},
    };

    return !SLICE_AMONG(name, body_only);
}

size_t conditions_to_validate(const struct header *stored, size_t count, struct header out[2])
{
    struct slice etag = value_of(stored, count, SLICE("etag"));
    struct slice modified = value_of(stored, count, SLICE("last-modified"));
    size_t made = 0;

    if (etag.len > 0)
        out[made++] = (struct header){SLICE("if-none-match"), etag};
    if (modified.len > 0)
        out[made++] = (struct header){SLICE("if-modified-since"), modified};
    return made;
}

/* What says how the stored bytes are to be read goes with those bytes. */
static bool describes_body(struct slice name)
{
    static const struct slice bound[] = {
        {"content-encoding", 16},
        {"content-length", 14},
        {"content-range", 13},
        {"content-md5", 11},
        {"etag", 4},
        {"content-digest", 14},
        {"repr-digest", 11},
        {"digest", 6},
    };

    return SLICE_AMONG(name, bound);
}

size_t not_modified_merge(const struct header *stored, size_t stored_count, const struct header *fresh,
                          size_t fresh_count, struct header *out)
{
    size_t made = 0;

    for (size_t i = 0; i < stored_count; i++) {
        bool is_replaced = slice_eq(stored[i].name, SLICE("date")) ||
                           value_of(fresh, fresh_count, stored[i].name).base != NULL;

        if (describes_body(stored[i].name) || !is_replaced)
            out[made++] = stored[i];
    }
    for (size_t i = 0; i < fresh_count; i++)
        if (!describes_body(fresh[i].name))
            out[made++] = fresh[i];
    return made;
}
