/* Uri tag: see uri_tag.h. */
#include "uri_tag.h"

#include "cache_key.h"
#include "digest.h"
#include "request_check.h"
#include "uri_reference.h"

#include <string.h>

enum { KEY_ROOM = 16 << 10, URL_MAX_BYTES = 8 << 10 };

bool uri_tag_write(struct slice authority, struct slice target, bool ignores_query, char out[URI_TAG_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    /* without fields and cookies: what they tell apart are variants of one resource, which end together */
    const struct key_rule rule = {.query = ignores_query ? KEY_QUERY_NONE : KEY_QUERY_ALL};
    struct cache_key_parts parts = {
        .method = SLICE("GET"), .authority = authority, .target = target, .rule = &rule};
    char key[KEY_ROOM];
    size_t len = cache_key_write(&parts, key, sizeof(key));
    struct slice whole = slice_of(key, len);
    unsigned char hash[32];

    if (len > sizeof(key))
        return false;
    digest_sha256(&whole, 1, hash);
    memcpy(out, "uri:", 4);
    for (size_t i = 0; i < 16; i++) {
        out[4 + 2 * i] = digits[hash[i] >> 4];
        out[5 + 2 * i] = digits[hash[i] & 15];
    }
    return true;
}

/* The host and port, as they stand in the URL. */
static const char *take_authority(struct slice url, bool *is_tls, struct slice *authority)
{
    static const struct slice http = {"http://", 7}, https = {"https://", 8};
    struct slice rest;
    size_t len = 0;

    *is_tls = url.len >= https.len && slice_eq_nocase(slice_of(url.base, https.len), https);
    if (!*is_tls && (url.len < http.len || !slice_eq_nocase(slice_of(url.base, http.len), http)))
        return "The URL must be an absolute one: http://HOST/PATH or https://HOST/PATH.";
    rest = slice_of(url.base + (*is_tls ? https.len : http.len), url.len - (*is_tls ? https.len : http.len));
    while (len < rest.len && memchr("/?#", rest.base[len], 3) == NULL)
        len++;
    *authority = slice_of(rest.base, len);
    return authority_is_valid(*authority) ? NULL : "The URL's host is missing, or is none.";
}

const char *uri_tags_of_url(struct slice url, char out[URI_TAGS_OF_URL][URI_TAG_BYTES])
{
    char target[URL_MAX_BYTES + 2], host[URL_MAX_BYTES];
    struct slice authority, named;
    const char *problem;
    size_t len;
    bool is_tls;

    if (url.len > URL_MAX_BYTES)
        return "The URL is longer than 8 KiB.";
    problem = take_authority(url, &is_tls, &authority);
    if (problem != NULL)
        return problem;
    authority = slice_of(host, authority_write(authority, is_tls, host));
    if (!uri_reference_resolve(url, authority, SLICE("/"), target, sizeof(target), &len))
        return "The URL has bytes that no URL has; blanks and all that is not ASCII must be escaped (%20).";
    named = slice_of(target, len);
    /* What fits here fits the key. */
    uri_tag_write(authority, named, false, out[0]);
    uri_tag_write(authority, named, true, out[1]);
    return NULL;
}
