/* Admin: see admin.h. */
#include "admin_parts.h"
#include "journal.h"
#include "log.h"
#include "loop.h"
#include "memory.h"
#include "problem.h"
#include "respond.h"
#include "stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONNECTIONS_MAX = 128 };

static void on_gone(void *arg)
{
    struct admin_request *request = arg;

    invalidation_forget(&request->invalidation);
    admin_leave_caller(request);
}

void admin_answer(struct client_request *client, int status, struct slice type, struct slice body)
{
    const struct header fields[] = {
        {SLICE("content-type"), type},
        {SLICE("cache-control"), SLICE("no-store")},
        {SLICE("x-content-type-options"), SLICE("nosniff")},
    };

    respond(client, status, fields, sizeof(fields) / sizeof(fields[0]), body);
}

void admin_refuse(struct client_request *client, int status, const char *code, const char *detail)
{
    char body[PROBLEM_ROOM];

    admin_answer(client, status, SLICE("application/problem+json"),
                 slice_of(body, problem_body(status, code, detail, body, sizeof(body))));
}

/* ---- what may be asked ---- */

static void answer_metrics(struct client_request *client)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    stats_write_prometheus(out);
    fclose(out);
    admin_answer(client, 200, SLICE("text/plain; version=0.0.4; charset=utf-8"), slice_of(text, len));
    free(text);
}

/* ---- who may ask ---- */

static struct slice field(const struct request_head *head, struct slice name)
{
    for (size_t i = 0; i < head->header_count; i++)
        if (slice_eq(head->headers[i].name, name))
            return head->headers[i].value;
    return slice_of(NULL, 0);
}

/* Takes the same time wherever the first difference is. */
static bool token_is_right(const struct admin *admin, const struct request_head *head)
{
    struct slice given = field(head, SLICE("authorization")), prefix = SLICE("Bearer ");
    size_t len = admin->token == NULL ? 0 : strlen(admin->token);
    unsigned char difference = 0;

    if (admin->token == NULL)
        return true;
    if (given.len != prefix.len + len || memcmp(given.base, prefix.base, prefix.len) != 0)
        return false;
    for (size_t i = 0; i < len; i++)
        difference |= (unsigned char)(given.base[prefix.len + i] ^ admin->token[i]);
    return difference == 0;
}

/* A page in a browser on this host can post forms to us, but not with this type without being asked first
 * (CORS). */
bool admin_sent_json(const struct request_head *head)
{
    struct slice type = field(head, SLICE("content-type"));
    const char *end = type.len == 0 ? NULL : memchr(type.base, ';', type.len);

    if (end != NULL)
        type.len = (size_t)(end - type.base);
    return slice_eq_nocase(slice_trim(type), SLICE("application/json"));
}

static struct slice path_of(const struct request_head *head)
{
    const char *mark = memchr(head->target.base, '?', head->target.len);

    return mark == NULL ? head->target : slice_of(head->target.base, (size_t)(mark - head->target.base));
}

static void route_read(struct admin_request *request, struct slice path)
{
    if (slice_eq(path, SLICE("/readyz"))) {
        bool is_ready = request->admin->is_ready;

        admin_answer(request->client, is_ready ? 200 : 503, SLICE("text/plain"),
                     is_ready ? SLICE("ready\n") : SLICE("draining\n"));
    } else if (slice_eq(path, SLICE("/metrics")))
        answer_metrics(request->client);
    else if (slice_eq(path, SLICE("/api/stats")))
        admin_stats(request);
    else
        admin_refuse(request->client, 404, "no_route", "See docs/operations.md for what this port answers.");
}

/* What changes something: by POST, with a body of JSON. */
static void route_change(struct admin_request *request, struct slice path)
{
    static const struct {
        struct slice path;
        void (*act)(struct admin_request *, struct slice body);
    } rows[] = {
        {{"/api/invalidate", 15}, admin_invalidate},
        {{"/api/purge", 10}, admin_purge},
    };
    const struct request_head *head = client_head(request->client);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!slice_eq(path, rows[i].path) || !slice_eq(head->method, SLICE("POST")))
            continue;
        if (admin_sent_json(head))
            rows[i].act(request, head->body);
        else
            admin_refuse(request->client, 415, "json_required", "Send the body as application/json.");
        return;
    }
    admin_refuse(request->client, 404, "no_route", "See docs/operations.md for what this port answers.");
}

static void on_request(void *app, struct client_request *client)
{
    const struct request_head *head = client_head(client);
    struct admin_request *request = client_alloc(client, sizeof(*request));
    struct slice path = path_of(head);
    bool is_read = slice_eq(head->method, SLICE("GET")) || slice_eq(head->method, SLICE("HEAD"));

    request->admin = app;
    request->client = client;
    client_on_gone(client, on_gone, request);
    if (slice_eq(path, SLICE("/healthz")) && is_read) /* what keeps a process alive needs no token */
        admin_answer(client, 200, SLICE("text/plain"), SLICE("alive\n"));
    else if (!token_is_right(request->admin, head))
        admin_refuse(client, 401, "token_required", "Send the admin token as Authorization: Bearer TOKEN.");
    else if (admin_takes_caller(request, path))
        return;
    else if (is_read)
        route_read(request, path);
    else
        route_change(request, path);
}

/* ---- life ---- */

/* What another process left: at the start before anything is served, later as soon as that process has ended. */
static void adopt_found(void *arg)
{
    struct admin *admin = arg;
    struct journal_mark *mark;
    const struct slice *tags;
    size_t count, soft_count, adopted = 0;

    while ((mark = journal_next_found(admin->journal, &tags, &count, &soft_count)) != NULL) {
        invalidator_adopt(admin->invalidator, tags, count, soft_count, mark);
        adopted++;
    }
    if (adopted > 0)
        log_warn(
            "journal: an earlier process left %zu invalidations, which are held back until the store is told",
            adopted);
}

static void adopt_journal(struct admin *admin, struct journal *journal)
{
    admin->journal = journal;
    if (journal == NULL)
        return;
    invalidator_use_journal(admin->invalidator, journal);
    adopt_found(admin);
    journal_watch(journal, admin->loop, adopt_found, admin);
}

struct admin *admin_start(struct loop *loop, struct commons *commons, struct settings *settings, int fd)
{
    struct admin *admin = must_alloc(sizeof(*admin));
    struct front_limits limits = {
        .max_body_bytes = ADMIN_BODY_MAX_BYTES,
        .max_header_bytes = settings->client.max_header_bytes,
        .max_headers = settings->client.max_headers,
        .max_connections = CONNECTIONS_MAX,
        .header_timeout_ms = 10000,
        .body_timeout_ms = 10000,
        .idle_timeout_ms = 60000,
        .write_timeout_ms = 10000,
    };
    struct front_app app = {on_request, NULL, admin};

    admin->loop = loop;
    admin->settings = settings_hold(settings);
    admin->token = settings->admin_token == NULL
                       ? NULL
                       : must_copy(settings->admin_token, strlen(settings->admin_token));
    admin->store = commons_join(commons, loop);
    admin->invalidator = invalidator_new(loop, admin->store, stats_join());
    admin->front = front_new(loop, &limits, &app);
    adopt_journal(admin, commons->journal);
    front_listen(admin->front, fd);
    return admin;
}

void admin_set_settings(struct admin *admin, struct settings *settings)
{
    settings_release(&admin->settings);
    admin->settings = settings_hold(settings);
}

void admin_set_ready(struct admin *admin, bool is_ready)
{
    admin->is_ready = is_ready;
}

size_t admin_kept(const struct admin *admin)
{
    return invalidator_kept(admin->invalidator);
}

void admin_stop(struct admin *admin)
{
    front_stop_listening(admin->front);
    front_abort(admin->front);
}

bool admin_has_ended(const struct admin *admin)
{
    return front_connections(admin->front) == 0;
}

void admin_free(struct admin **taken)
{
    struct admin *admin = *taken;

    *taken = NULL;
    if (admin->journal != NULL)
        journal_unwatch(admin->journal);
    front_free(admin->front);
    invalidator_free(admin->invalidator);
    admin->store->ops->free(admin->store);
    settings_release(&admin->settings);
    free(admin->token);
    free(admin);
}
