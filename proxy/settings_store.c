/* Settings store: where nodes meet (or that there is but one), and the memory of this process in front of it.
 */
#include "settings_file.h"
#include "settings_sections.h"
#include "settings_suggest.h"
#include "settings_units.h"
#include "settings_url.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

enum { REDIS_PORT = 6379, MAX_DATABASE = 65535 };

static bool read_database(const char *text, size_t len, int *out)
{
    char digits[8];
    int64_t number;

    if (len == 0 || len >= sizeof digits)
        return false;
    memcpy(digits, text, len);
    digits[len] = '\0';
    if (!read_count(digits, &number) || number > MAX_DATABASE)
        return false;
    *out = (int)number;
    return true;
}

static const char *take_redis(struct draft *draft, const struct url *url, struct store_settings *store)
{
    if (url->host[0] == '\0')
        return "a redis:// URL needs a host: redis://[user:password@]host[:port][/db]";
    if (url->query != NULL)
        return "a redis:// URL has no ? part: redis://[user:password@]host[:port][/db]";
    if (url->path_len > 1 && !read_database(url->path + 1, url->path_len - 1, &store->database))
        return "behind the host stands the number of a database, 0 to 65535: redis://host:port/db";
    store->kind = STORE_REDIS;
    store->host = draft_copy(draft, url->host);
    store->port = url->port == 0 ? REDIS_PORT : url->port;
    return NULL;
}

static const char *take_redis_unix(struct draft *draft, const struct url *url, struct store_settings *store)
{
    static const char *const shape = "a redis+unix:// URL is redis+unix:///path/of/socket[?db=N]";
    char path[sizeof((struct sockaddr_un *)0)->sun_path];

    if (url->host[0] != '\0' || url->port != 0 || url->path_len < 2)
        return shape;
    if (url->path_len >= sizeof path)
        return "the path of a unix socket has at most 107 bytes";
    if (url->query != NULL && (strncmp(url->query, "db=", 3) != 0 ||
                               !read_database(url->query + 3, strlen(url->query + 3), &store->database)))
        return shape;
    memcpy(path, url->path, url->path_len);
    path[url->path_len] = '\0';
    store->kind = STORE_REDIS;
    store->unix_path = draft_copy(draft, path);
    return NULL;
}

static const char *take_url(struct draft *draft, const struct url *url, struct store_settings *store)
{
    const char *problem = NULL;

    if (strcmp(url->scheme, "memory") == 0) {
        if (url->host[0] != '\0' || url->has_user || url->has_password || url->port != 0 ||
            url->path_len > 0 || url->query != NULL)
            problem = "nothing may stand behind memory://";
        store->kind = STORE_MEMORY;
        return problem;
    }
    if (strcmp(url->scheme, "redis") == 0)
        problem = take_redis(draft, url, store);
    else
        problem = take_redis_unix(draft, url, store);
    if (problem == NULL && url->has_user && !url->has_password)
        store->user = draft_copy(draft, url->user); /* its password comes from password_file */
    if (problem == NULL && url->has_password) {
        store->user = url->has_user ? draft_copy(draft, url->user) : NULL;
        store->password = draft_copy(draft, url->password);
    }
    return problem;
}

/* Is it a scheme that this release can use? Else complains. */
static bool scheme_is_usable(struct draft *draft, const struct node *node, const char *scheme)
{
    static const char allowed[] = "allowed is memory://, redis:// or redis+unix://";
    static const char *const usable[] = {"memory", "redis", "redis+unix"};
    static const char *const later[] = {"rediss", "redis+sentinel", "redis+cluster", "rediss+sentinel",
                                        "rediss+cluster"};
    const char *near;

    for (size_t i = 0; i < sizeof usable / sizeof *usable; i++)
        if (strcmp(scheme, usable[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (strcmp(scheme, later[i]) == 0) {
            complain_value(draft->complaints, node, "%s:// is not supported yet; %s", scheme, allowed);
            return false;
        }
    near = nearest_word(scheme, usable, sizeof usable / sizeof *usable);
    complain_value(draft->complaints, node, "its scheme is unknown;%s%s%s %s",
                   near == NULL ? "" : " did you mean ", near == NULL ? "" : near, near == NULL ? "" : "://?",
                   allowed);
    return false;
}

/* The URL may hold a password: no message repeats it. */
static void read_store_url(struct draft *draft, const struct node *node, void *into)
{
    const char *text, *problem;
    struct url url;

    if (!want_text(draft, node, "memory://, redis://HOST:PORT/DB or redis+unix:///PATH", &text))
        return;
    problem = url_parse(text, &url);
    /* The scheme first: what is behind it may be well-formed for another one. */
    if (url.scheme[0] == '\0' || scheme_is_usable(draft, node, url.scheme)) {
        if (problem == NULL)
            problem = take_url(draft, &url, into);
        if (problem != NULL)
            complain_value(draft->complaints, node, "this URL cannot be used: %s", problem);
    }
    explicit_bzero(&url, sizeof url);
}

static void read_prefix(struct draft *draft, const struct node *node, void *into)
{
    struct store_settings *store = into;
    const char *text;

    if (!want_text(draft, node, "a word", &text))
        return;
    if (!is_plain_name(text))
        complain_value(draft->complaints, node,
                       "%s cannot begin a key; allowed are 1 to 64 letters, digits, . _ and -",
                       quote(text).text);
    else
        store->prefix = draft_copy(draft, text);
}

static void read_password_file(struct draft *draft, const struct node *node, void *into)
{
    struct store_settings *store = into;
    const char *text, *problem;
    char *path, *password;

    if (!want_text(draft, node, "the path of a file", &text))
        return;
    if (store->password != NULL)
        complain_key(draft->complaints, node, "store.url holds a password already; keep one of them");
    path = path_beside(draft->settings->path, text);
    password = secret_read(path, &problem);
    free(path);
    if (password == NULL) {
        complain_value(draft->complaints, node, "%s cannot be used: %s", quote(text).text, problem);
        return;
    }
    if (store->kind != STORE_MEMORY) /* so that one file serves memory:// and redis:// by ${} */
        store->password = draft_copy(draft, password);
    explicit_bzero(password, strlen(password));
    free(password);
}

static const struct choice consistencies[] = {
    {"strict", CONSISTENCY_STRICT, false}, {"push", CONSISTENCY_PUSH, false}, {NULL, 0, false}};

#define STORE(field) offsetof(struct store_settings, field)
static void read_journal(struct draft *draft, const struct node *node, void *into)
{
    struct store_settings *store = into;
    const char *text;
    char *path;

    if (!want_text(draft, node, "the path of a file", &text))
        return;
    path = path_beside(draft->settings->path, text);
    store->journal_path = draft_copy(draft, path);
    free(path);
}

static const struct setting store_rows[] = {
    {.key = "url",
     .type = SETTING_OWN,
     .read = read_store_url,
     .preset = "memory://",
     .shape = "memory://, redis://[user:password@]host[:port][/db] or redis+unix:///path[?db=N]",
     .means = "Where limits and cached responses are kept: this process alone, or a Redis that nodes share."},
    {.key = "prefix",
     .type = SETTING_OWN,
     .read = read_prefix,
     .preset = "weir",
     .shape = "1 to 64 letters, digits, . _ and -",
     .means = "The first part of every key in Redis."},
    {.key = "timeout",
     .type = SETTING_DURATION,
     .offset = STORE(timeout_ms),
     .least = "1ms",
     .most = "1m",
     .preset = "50ms",
     .means = "A store that has not answered by then has failed for that request."},
    {.key = "consistency",
     .type = SETTING_CHOICE,
     .offset = STORE(consistency),
     .choices = consistencies,
     .preset = "strict",
     .means = "strict: no answer older than an acknowledged invalidation; push: routes without limits trust "
              "pushed ones."},
    {.key = "tls", .type = SETTING_LATER, .shape = "a map", .means = "TLS to Redis."},
    {.key = "password_file",
     .type = SETTING_OWN,
     .read = read_password_file,
     .shape = "the path of a file",
     .means = "Holds the password of Redis, instead of the URL."},
    {.key = "journal",
     .type = SETTING_OWN,
     .read = read_journal,
     .shape = "the path of a file",
     .means = "Where invalidations wait that Redis could not be told of, so that they outlive the process."},
};
const struct section section_store = SECTION_OF("store", store_rows);

static const struct setting near_cache_rows[] = {
    {.key = "size",
     .type = SETTING_SIZE,
     .offset = offsetof(struct settings, near_cache_bytes),
     .least = "64KiB",
     .most = "1024GiB",
     .preset = "256MiB",
     .means = "Memory of this process for cached responses."},
    {.key = "max_object",
     .type = SETTING_SIZE,
     .offset = offsetof(struct settings, near_object_bytes),
     .least = "1KiB",
     .most = "1GiB",
     .preset = "1MiB",
     .means = "Responses above it are not kept in this memory."},
};
const struct section section_near_cache = SECTION_OF("near_cache", near_cache_rows);

void check_store(struct draft *draft, const struct node *root)
{
    const struct settings *settings = draft->settings;
    const struct node *node = node_member(root, "near_cache"), *store = node_member(root, "store");

    if (settings->store.kind == STORE_MEMORY && settings->store.journal_path != NULL && store != NULL)
        complain_key(
            draft->complaints, node_member(store, "journal"),
            "there is nothing to keep for memory://, which ends with the process; it is for a Redis");
    if (node == NULL || node->kind != NODE_MAP || settings->near_object_bytes <= settings->near_cache_bytes)
        return;
    complain_value(draft->complaints, node,
                   "max_object (%s) is above size (%s), so nothing that large could be kept",
                   show_size((int64_t)settings->near_object_bytes).text,
                   show_size((int64_t)settings->near_cache_bytes).text);
}
