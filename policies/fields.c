/* Fields: the text of the response fields by which we tell what the cache and the proxy did. */
#include "fields.h"

#define AGE_MAX_S INT64_C(2147483648)

const char *cache_result_name(enum cache_result result)
{
    /* clang-format off */
    switch (result) {
    case CACHE_HIT:         return "HIT";
    case CACHE_MISS:        return "MISS";
    case CACHE_WAIT:        return "WAIT";
    case CACHE_STALE:       return "STALE";
    case CACHE_REVALIDATED: return "REVALIDATED";
    case CACHE_BYPASS:      return "BYPASS";
    }
    /* clang-format on */
    return "UNKNOWN";
}

static const char *forward_name(enum cache_forward forward)
{
    /* clang-format off */
    switch (forward) {
    case FORWARD_NONE:      return "hit";
    case FORWARD_BYPASS:    return "fwd=bypass";
    case FORWARD_METHOD:    return "fwd=method";
    case FORWARD_URI_MISS:  return "fwd=uri-miss";
    case FORWARD_VARY_MISS: return "fwd=vary-miss";
    case FORWARD_MISS:      return "fwd=miss";
    case FORWARD_REQUEST:   return "fwd=request";
    case FORWARD_STALE:     return "fwd=stale";
    case FORWARD_PARTIAL:   return "fwd=partial";
    }
    /* clang-format on */
    return "fwd=miss";
}

/* An sf-token of RFC 9651 section 3.3.4, of the letters we use. */
static bool is_sf_token(struct slice word)
{
    for (size_t i = 0; i < word.len; i++) {
        char c = ascii_lower(word.base[i]);
        bool is_letter = c >= 'a' && c <= 'z';
        bool is_mark = (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
        if (!is_letter && !(is_mark && i > 0))
            return false;
    }
    return word.len > 0;
}

/* An sf-string of RFC 9651 section 3.3.3. */
static void add_key(struct text *out, struct slice key)
{
    static const char digits[] = "0123456789abcdef";

    text_add(out, SLICE("; key=\""));
    for (size_t i = 0; i < key.len; i++) {
        unsigned char byte = (unsigned char)key.base[i];

        text_add_char(out, digits[byte >> 4]);
        text_add_char(out, digits[byte & 15]);
    }
    text_add_char(out, '"');
}

static void add_detail(struct text *out, struct slice detail)
{
    text_add(out, SLICE("; detail="));
    if (is_sf_token(detail))
        text_add(out, detail);
    else
        text_add_quoted(out, detail);
}

void cache_status_write(const struct cache_status *status, struct text *out)
{
    text_add(out, SLICE("weir; "));
    text_add(out, slice_text(forward_name(status->forward)));
    if (status->forward != FORWARD_NONE && status->forward_status != 0) {
        text_add(out, SLICE("; fwd-status="));
        text_add_int(out, status->forward_status);
    }
    if (status->has_ttl) {
        text_add(out, SLICE("; ttl="));
        text_add_int(out, status->ttl_s);
    }
    if (status->forward != FORWARD_NONE && status->is_stored)
        text_add(out, SLICE("; stored"));
    if (status->forward != FORWARD_NONE && status->is_collapsed)
        text_add(out, SLICE("; collapsed"));
    if (status->key.len > 0)
        add_key(out, status->key);
    if (status->detail != NULL)
        add_detail(out, slice_text(status->detail));
}

void age_write(int64_t age_ms, struct text *out)
{
    int64_t age_s = age_ms < 0 ? 0 : age_ms / 1000;

    text_add_int(out, age_s > AGE_MAX_S ? AGE_MAX_S : age_s);
}

void proxy_status_write(const char *error, struct text *out)
{
    text_add(out, SLICE("weir; error="));
    text_add(out, slice_text(error));
}
