/* Demo upstream's answers: what is said to which request, and how often each was asked.
 *
 * A product's version is read when its request arrives, not when its answer leaves: a load that overlaps a PUT therefore brings
 * the old version, as from a database.
 */
#include "demo_upstream.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TABLE = 65536 };

/* ---- texts ---- */

void text_add_bytes(struct text *text, const char *bytes, size_t len)
{
    char *grown = realloc(text->bytes, text->len + len + 1);
    if (grown == NULL)
        abort();
    text->bytes = grown;
    memcpy(text->bytes + text->len, bytes, len);
    text->len += len;
}

void text_add(struct text *text, const char *format, ...)
{
    char line[2048];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    text_add_bytes(text, line, len < (int)sizeof(line) ? (size_t)len : sizeof(line) - 1);
}

void text_add_json(struct text *text, const char *bytes, size_t len)
{
    text_add_bytes(text, "\"", 1);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c < 0x20 || c == '"' || c == '\\' || c >= 0x7f)
            text_add(text, "\\u%04x", c);
        else
            text_add_bytes(text, &bytes[i], 1);
    }
    text_add_bytes(text, "\"", 1);
}

/* ---- tables of counters by name ---- */

static struct row *table_find(struct table *table, const char *name, bool add)
{
    uint32_t hash = 2166136261u;
    for (const char *c = name; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    struct row **head = &table->rows[hash % 1024];

    for (struct row *row = *head; row != NULL; row = row->next)
        if (strcmp(row->name, name) == 0)
            return row;
    if (!add || table->count >= MAX_TABLE)
        return NULL;
    size_t len = strlen(name);
    struct row *row = calloc(1, sizeof(*row) + len + 1);
    if (row == NULL)
        return NULL;
    memcpy(row->name, name, len + 1);
    row->next = *head;
    *head = row;
    table->count++;
    return row;
}

static void table_clear(struct table *table)
{
    for (size_t i = 0; i < 1024; i++) {
        while (table->rows[i] != NULL) {
            struct row *row = table->rows[i];
            table->rows[i] = row->next;
            free(row);
        }
    }
    table->count = 0;
}

/* ---- what is answered ---- */

static const char *after(const char *path, const char *prefix)
{
    size_t len = strlen(prefix);
    return strncmp(path, prefix, len) == 0 && path[len] != '\0' ? path + len : NULL;
}

int64_t demo_number(const char *text, int64_t max)
{
    int64_t value = 0;
    for (; isdigit((unsigned char)*text) && value <= max; text++)
        value = value * 10 + (*text - '0');
    return value < max ? value : max;
}

static void answer_calls(struct demo *demo, struct reply *reply)
{
    struct text *body = &reply->body;
    bool is_first = true;
    text_add(body, "{\"total\":%lld,\"not_kept\":%lld,\"calls\":{", (long long)demo->calls,
             (long long)demo->calls_by_no_name);
    for (size_t i = 0; i < 1024; i++) {
        for (struct row *row = demo->counted.rows[i]; row != NULL; row = row->next) {
            text_add(body, "%s", is_first ? "" : ",");
            text_add_json(body, row->name, strlen(row->name));
            text_add(body, ":%lld", (long long)row->value);
            is_first = false;
        }
    }
    text_add(body, "}}\n");
}

static void answer_product(struct demo *demo, struct reply *reply, const char *method, const char *id)
{
    bool is_put = strcmp(method, "PUT") == 0;
    struct row *row = table_find(&demo->versions, id, is_put || strcmp(method, "DELETE") == 0);

    if (row == NULL && is_put) {
        reply->status = 503;
        text_add(&reply->body, "{\"error\":\"too many products\"}\n");
    } else if (strcmp(method, "DELETE") == 0) {
        if (row != NULL)
            row->value = -1;
        reply->status = 204;
    } else {
        if (is_put) /* absent rows are products at version 1 that nobody has changed */
            row->value = row->value == 0 ? 2 : row->value < 0 ? 1 : row->value + 1;
        reply->delay_ms = is_put ? 0 : demo->product_ms;
        int64_t version = row == NULL || row->value == 0 ? 1 : row->value;
        reply->status = version < 0 ? 404 : 200;
        text_add(&reply->body, "{\"id\":");
        text_add_json(&reply->body, id, strlen(id));
        text_add(&reply->body, ",\"version\":%lld,\"generated\":%lld}\n",
                 (long long)(version < 0 ? 0 : version), (long long)demo->calls);
    }
}

static void answer_echo(struct reply *reply, const struct ask *ask)
{
    struct text *body = &reply->body;
    text_add(body, "{\"method\":");
    text_add_json(body, ask->method, strlen(ask->method));
    text_add(body, ",\"target\":");
    text_add_json(body, ask->target, ask->target_len);
    text_add(body, ",\"headers\":[");
    const char *at = ask->fields, *end = ask->fields + ask->fields_len;
    for (bool is_first = true; at < end; is_first = false) {
        const char *stop = memmem(at, (size_t)(end - at), "\r\n", 2);
        if (stop == NULL)
            stop = end;
        const char *colon = memchr(at, ':', (size_t)(stop - at));
        const char *value = colon == NULL ? stop : colon + 1;
        while (value < stop && *value == ' ')
            value++;
        text_add(body, is_first ? "[" : ",[");
        text_add_json(body, at, (size_t)((colon == NULL ? stop : colon) - at));
        text_add(body, ",");
        text_add_json(body, value, (size_t)(stop - value));
        text_add(body, "]");
        at = stop + 2;
    }
    text_add(body, "],\"body_bytes\":%lld,\"crc32\":%u", (long long)ask->body_bytes, ask->body_crc);
    if (ask->body != NULL) {
        text_add(body, ",\"body\":");
        text_add_json(body, ask->body, (size_t)ask->body_bytes);
    }
    text_add(body, "}\n");
}

/* One name=value of the query, decoded; false at its end. */
static bool query_next(const char **at, const char *end, char name[DEMO_MAX_NAME], char value[DEMO_MAX_NAME])
{
    size_t name_len = 0, value_len = 0;
    bool in_value = false;
    if (*at >= end)
        return false;
    for (; *at < end && **at != '&'; (*at)++) {
        char c = **at;
        if (c == '=' && !in_value) {
            in_value = true;
            continue;
        }
        if (c == '+')
            c = ' ';
        if (c == '%' && end - *at > 2 && isxdigit((unsigned char)(*at)[1]) &&
            isxdigit((unsigned char)(*at)[2])) {
            c = (char)strtol((char[]){(*at)[1], (*at)[2], '\0'}, NULL, 16);
            *at += 2;
        }
        if ((unsigned char)c < 0x20) /* it would split the answer */
            c = ' ';
        if (in_value && value_len < DEMO_MAX_NAME - 1)
            value[value_len++] = c;
        else if (!in_value && name_len < DEMO_MAX_NAME - 1)
            name[name_len++] = c;
    }
    (*at)++;
    name[name_len] = value[value_len] = '\0';
    return true;
}

static void answer_headers(struct demo *demo, struct reply *reply, const struct ask *ask)
{
    const char *at = ask->query, *end = ask->query + ask->query_len;
    char name[DEMO_MAX_NAME], value[DEMO_MAX_NAME];
    while (query_next(&at, end, name, value)) {
        size_t used = strlen(reply->fields);
        if (strcmp(name, "_ms") == 0)
            reply->delay_ms = demo_number(value, DEMO_MAX_DELAY_MS);
        else if (strcmp(name, "_status") == 0)
            reply->status = (int)demo_number(value, 599);
        else if (strcmp(name, "_bytes") == 0)
            reply->pattern_bytes = demo_number(value, INT64_C(1) << 40);
        else if (name[0] != '\0' && used + strlen(name) + strlen(value) + 5 < sizeof(reply->fields))
            snprintf(reply->fields + used, sizeof(reply->fields) - used, "%s: %s\r\n", name, value);
    }
    if (reply->status < 200)
        reply->status = 200;
    if (reply->pattern_bytes < 0)
        text_add(&reply->body, "{\"generated\":%lld}\n", (long long)demo->calls);
}

static void answer(struct demo *demo, struct reply *reply, const struct ask *ask)
{
    const char *path = ask->path, *rest;
    bool is_get = strcmp(ask->method, "GET") == 0 || strcmp(ask->method, "HEAD") == 0;
    bool is_change = strcmp(ask->method, "PUT") == 0 || strcmp(ask->method, "DELETE") == 0;

    if ((rest = after(path, "/products/")) != NULL && (is_get || is_change)) {
        answer_product(demo, reply, ask->method, rest);
    } else if (strcmp(path, "/echo") == 0) {
        answer_echo(reply, ask);
    } else if (!is_get) {
        reply->status = 404;
        text_add(&reply->body, "{\"error\":\"no such thing\"}\n");
    } else if (strcmp(path, "/reports/top") == 0) {
        reply->delay_ms = demo->report_ms;
        text_add(
            &reply->body,
            "{\"report\":\"top\",\"generated\":%lld,\"rows\":[[\"weirs\",3],[\"dams\",2],[\"locks\",1]]}\n",
            (long long)demo->calls);
    } else if ((rest = after(path, "/slow/")) != NULL) {
        reply->delay_ms = demo_number(rest, DEMO_MAX_DELAY_MS);
        text_add(&reply->body, "{\"slept_ms\":%lld,\"generated\":%lld}\n", (long long)reply->delay_ms,
                 (long long)demo->calls);
    } else if ((rest = after(path, "/size/")) != NULL || (rest = after(path, "/chunked/")) != NULL) {
        reply->type = "application/octet-stream";
        reply->pattern_bytes = demo_number(rest, INT64_C(1) << 40);
        reply->is_chunked = path[1] == 'c';
    } else if ((rest = after(path, "/status/")) != NULL) {
        reply->status = (int)demo_number(rest, 599);
        if (reply->status < 200)
            reply->status = 200;
        text_add(&reply->body, "{\"status\":%d,\"generated\":%lld}\n", reply->status, (long long)demo->calls);
    } else if (strcmp(path, "/headers") == 0) {
        answer_headers(demo, reply, ask);
    } else if (strcmp(path, "/truncated") == 0) {
        reply->claimed_bytes = 1000;
        text_add(&reply->body, "%0100d", 0);
        reply->ending = CLOSE;
    } else if (strcmp(path, "/reset") == 0) {
        reply->ending = RESET;
    } else if (strcmp(path, "/healthz") == 0) {
        text_add(&reply->body, "ok\n");
    } else {
        reply->status = 404;
        text_add(&reply->body, "{\"error\":\"no such thing\"}\n");
    }
}

static void count_call(struct demo *demo, const struct ask *ask)
{
    char name[DEMO_MAX_NAME + 20];
    snprintf(name, sizeof(name), "%s %s", ask->method, ask->path);
    demo->calls++;
    struct row *row = table_find(&demo->counted, name, true);
    if (row != NULL)
        row->value++;
    else
        demo->calls_by_no_name++;
}

void demo_answer(struct demo *demo, const struct ask *ask, struct reply *reply)
{
    if (strcmp(ask->path, "/calls") == 0) {
        answer_calls(demo, reply);
    } else if (strcmp(ask->path, "/calls/reset") == 0 && strcmp(ask->method, "POST") == 0) {
        table_clear(&demo->counted);
        demo->calls = demo->calls_by_no_name = 0;
    } else {
        count_call(demo, ask);
        answer(demo, reply, ask);
    }
}
