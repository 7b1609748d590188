/* Settings reload: may this configuration take the place of that one in a running process?
 *
 * Everything may change but what was opened, sized or connected at the start. What may not is refused rather
 * than left as it was: an operator who was told "reloaded" must be able to rely on it.
 */
#include "settings.h"

#include <inttypes.h>
#include <string.h>

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

struct comparison {
    const struct settings *old, *fresh;
    FILE *errors;
    bool is_equal;
};

static void differ(struct comparison *comparison, const char *key)
{
    fprintf(comparison->errors, "%s: %s: cannot be changed by a reload; restart to change it\n",
            comparison->fresh->path, key);
    comparison->is_equal = false;
}

/* Values are not shown: some are secrets, and the files can be compared. */
static void expect(struct comparison *comparison, bool is_same, const char *key)
{
    if (!is_same)
        differ(comparison, key);
}

static bool same_endpoint(const struct listen_setting *a, const struct listen_setting *b)
{
    return a->port == b->port && same_text(a->host, b->host);
}

static bool same_listens(const struct settings *a, const struct settings *b)
{
    if (a->listen_count != b->listen_count)
        return false;
    for (size_t i = 0; i < a->listen_count; i++)
        if (!same_endpoint(&a->listens[i], &b->listens[i]))
            return false;
    return true;
}

static void compare_stores(struct comparison *comparison)
{
    const struct store_settings *a = &comparison->old->store, *b = &comparison->fresh->store;

    expect(comparison,
           a->kind == b->kind && same_text(a->host, b->host) && a->port == b->port &&
               same_text(a->unix_path, b->unix_path) && a->database == b->database &&
               same_text(a->user, b->user),
           "store.url");
    expect(comparison, same_text(a->password, b->password), "the password of the store");
    expect(comparison, same_text(a->prefix, b->prefix), "store.prefix");
    expect(comparison, a->timeout_ms == b->timeout_ms, "store.timeout");
    expect(comparison, a->consistency == b->consistency, "store.consistency");
    expect(comparison, same_text(a->journal_path, b->journal_path), "store.journal");
}

bool settings_may_replace(const struct settings *old, const struct settings *fresh, FILE *errors)
{
    struct comparison comparison = {.old = old, .fresh = fresh, .errors = errors, .is_equal = true};

    expect(&comparison, same_listens(old, fresh), "listen");
    expect(&comparison, old->workers == fresh->workers, "workers");
    expect(&comparison, same_endpoint(&old->admin, &fresh->admin), "admin.address");
    expect(&comparison, same_text(old->admin_token, fresh->admin_token), "the token of admin");
    expect(&comparison, same_text(old->log.access, fresh->log.access), "log.access");
    expect(&comparison, old->log.format == fresh->log.format, "log.format");
    compare_stores(&comparison);
    expect(&comparison, old->near_cache_bytes == fresh->near_cache_bytes, "near_cache.size");
    expect(&comparison, old->near_object_bytes == fresh->near_object_bytes, "near_cache.max_object");
    return comparison.is_equal;
}
