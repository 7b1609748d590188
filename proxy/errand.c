/* Errand: see errand.h. A command is a process of its own with one thing to do, so it waits by turning its loop. */
#include "errand.h"
#include "commands.h"
#include "log.h"
#include "loop.h"
#include "memory.h"
#include "near.h"
#include "origin.h"
#include "settings.h"
#include "store.h"

#include <json-c/json.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    DIAL_MS = 2000, /* for the store to be reached; its own timeout is meant for questions */
    ANSWER_MS = 30000,
    TURN_MS = 100,
    NEAR_BYTES = 1 << 20, /* of a near cache that nothing is kept in */
    ANSWER_MAX_BYTES = 4 << 20,
};

struct errand_ways {
    struct loop *loop;
    struct near *near;
    struct store_redis *redis;
    struct resolver *resolver;
    struct origin *admin;
};

struct admin_question { /* under way */
    struct errand_answer *answer;
    bool is_ended, is_too_large;
    enum fault fault;
    struct origin_fetch *fetch;
};

void errand_complain(struct errand *errand, const char *format, ...)
{
    va_list list;

    fprintf(errand->err, "weir %s: ", errand->command);
    va_start(list, format);
    vfprintf(errand->err, format, list);
    va_end(list);
    fputc('\n', errand->err);
}

/* ---- the store ---- */

static bool reach_store(struct errand *errand)
{
    struct errand_ways *ways = errand->ways;
    struct mono_ms give_up_at;

    ways->near = near_new(NEAR_BYTES, NEAR_BYTES / 4);
    ways->redis = store_redis_new(errand->settings, ways->near);
    errand->store = store_redis_join(ways->redis, ways->loop);
    give_up_at = mono_after(loop_now(ways->loop), DIAL_MS);
    while (!errand->store->is_up && loop_now(ways->loop).ms < give_up_at.ms)
        loop_turn(ways->loop, TURN_MS);
    if (!errand->store->is_up)
        errand_complain(errand, "the store cannot be reached within %d seconds", DIAL_MS / 1000);
    return errand->store->is_up;
}

void errand_wait(struct errand *errand, const bool *is_done)
{
    while (!*is_done)
        loop_turn(errand->ways->loop, TURN_MS);
}

/* ---- the admin port ---- */

/* An address that means "all of this host's" is listened on, but cannot be called. */
static struct slice callable(const char *host)
{
    if (strcmp(host, "0.0.0.0") == 0)
        return SLICE("127.0.0.1");
    return strcmp(host, "::") == 0 ? SLICE("::1") : slice_text(host);
}

static void reach_admin(struct errand *errand)
{
    struct errand_ways *ways = errand->ways;
    struct origin_limits limits = {
        .host = callable(errand->settings->admin.host),
        .port = errand->settings->admin.port,
        .connect_timeout_ms = DIAL_MS,
        .first_byte_timeout_ms = ANSWER_MS,
        .idle_timeout_ms = ANSWER_MS,
        .max_connections = 1,
        .max_pending = 1,
    };

    ways->resolver = resolver_new(1);
    ways->admin = origin_new(ways->loop, ways->resolver, &limits);
}

static void on_head(void *arg, const struct origin_response *head)
{
    struct admin_question *question = arg;

    question->answer->status = head->status;
}

static void on_body(void *arg, struct slice bytes)
{
    struct admin_question *question = arg;
    struct errand_answer *answer = question->answer;

    if (bytes.len > ANSWER_MAX_BYTES - answer->len) {
        question->is_too_large = question->is_ended = true;
        origin_cancel(&question->fetch);
        return;
    }
    answer->body = must_realloc(answer->body, answer->len + bytes.len + 1);
    memcpy(answer->body + answer->len, bytes.base, bytes.len);
    answer->len += bytes.len;
    answer->body[answer->len] = '\0';
}

static void on_end(void *arg, enum fault fault)
{
    struct admin_question *question = arg;

    question->fault = fault;
    question->is_ended = true;
}

static const struct origin_events events = {.on_head = on_head, .on_body = on_body, .on_end = on_end};

static void ask(struct errand *errand, struct slice method, struct slice target, struct slice json,
                struct admin_question *question)
{
    const struct settings *settings = errand->settings;
    char authority[300], token[4200];
    struct header headers[2];
    size_t count = 0;
    bool is_v6 = strchr(settings->admin.host, ':') != NULL;
    int len = snprintf(authority, sizeof(authority), "%s%.256s%s:%d", is_v6 ? "[" : "", settings->admin.host,
                       is_v6 ? "]" : "", settings->admin.port);
    struct origin_request request = {
        .method = method, .target = target, .authority = slice_of(authority, (size_t)len), .body = json};

    if (json.len > 0)
        headers[count++] = (struct header){SLICE("content-type"), SLICE("application/json")};
    if (settings->admin_token != NULL) {
        len = snprintf(token, sizeof(token), "Bearer %.4096s", settings->admin_token);
        headers[count++] = (struct header){SLICE("authorization"), slice_of(token, (size_t)len)};
    }
    request.headers = headers;
    request.header_count = count;
    question->fetch = origin_start(errand->ways->admin, &request, &events, question);
}

bool errand_ask_admin(struct errand *errand, struct slice method, struct slice target, struct slice json,
                      struct errand_answer *out)
{
    struct admin_question question = {.answer = out};

    *out = (struct errand_answer){.body = must_copy("", 0)};
    ask(errand, method, target, json, &question);
    while (!question.is_ended)
        loop_turn(errand->ways->loop, TURN_MS);
    if (question.fault == FAULT_NONE && !question.is_too_large)
        return true;
    if (question.is_too_large)
        errand_complain(errand, "the running process gives an answer that is too long");
    else
        errand_complain(
            errand,
            "the process that serves this configuration cannot be asked by its admin port %s port %d: %s",
            errand->settings->admin.host, errand->settings->admin.port, fault_name(question.fault));
    free(out->body);
    out->body = NULL;
    return false;
}

char *errand_text(const struct errand_answer *answer, const char *name)
{
    struct json_object *parsed = json_tokener_parse(answer->body), *value;
    char *text = NULL;

    if (json_object_is_type(parsed, json_type_object) && json_object_object_get_ex(parsed, name, &value) &&
        json_object_is_type(value, json_type_string))
        text = must_copy(json_object_get_string(value), (size_t)json_object_get_string_len(value));
    json_object_put(parsed);
    return text;
}

int64_t errand_number(const struct errand_answer *answer, const char *name)
{
    struct json_object *parsed = json_tokener_parse(answer->body), *value;
    int64_t number = -1;

    if (json_object_is_type(parsed, json_type_object) && json_object_object_get_ex(parsed, name, &value) &&
        json_object_is_type(value, json_type_int))
        number = json_object_get_int64(value);
    json_object_put(parsed);
    return number;
}

bool errand_flag(const struct errand_answer *answer, const char *name)
{
    struct json_object *parsed = json_tokener_parse(answer->body), *value;
    bool is_set = json_object_is_type(parsed, json_type_object) &&
                  json_object_object_get_ex(parsed, name, &value) && json_object_get_boolean(value);

    json_object_put(parsed);
    return is_set;
}

int errand_refused(struct errand *errand, const struct errand_answer *answer)
{
    char *detail = errand_text(answer, "detail");

    errand_complain(errand, "%s",
                    detail != NULL ? detail : "the running process refuses, and does not say why");
    free(detail);
    return answer->status == 400 || answer->status == 404 || answer->status == 422 ? EXIT_USAGE : EXIT_FAILED;
}

/* ---- life ---- */

int errand_load(struct errand *errand, const char *command, const char *config_path, FILE *err)
{
    *errand = (struct errand){.command = command, .err = err};
    errand->settings = settings_load(config_path, err);
    return errand->settings == NULL ? EXIT_USAGE : EXIT_DONE;
}

static void begin(struct errand *errand)
{
    log_set_level(LOG_ERROR); /* how connections come and go is no news here */
    errand->ways = must_alloc(sizeof(*errand->ways));
    errand->ways->loop = loop_new();
}

void errand_reach_process(struct errand *errand)
{
    begin(errand);
    reach_admin(errand);
}

int errand_reach(struct errand *errand)
{
    begin(errand);
    if (errand->settings->store.kind == STORE_MEMORY)
        reach_admin(errand);
    else if (!reach_store(errand))
        return EXIT_FAILED;
    return EXIT_DONE;
}

int errand_open(struct errand *errand, const char *command, const char *config_path, FILE *err)
{
    int code = errand_load(errand, command, config_path, err);

    return code == EXIT_DONE ? errand_reach(errand) : code;
}

void errand_close(struct errand *errand)
{
    struct errand_ways *ways = errand->ways;

    if (ways != NULL) {
        if (errand->store != NULL)
            errand->store->ops->free(errand->store);
        loop_turn(ways->loop, 0); /* a wake may still be on its way */
        if (ways->redis != NULL)
            store_redis_free(ways->redis);
        if (ways->near != NULL)
            near_free(ways->near);
        if (ways->admin != NULL)
            origin_free(ways->admin);
        loop_turn(ways->loop, 0); /* and so may a name that was asked for */
        if (ways->resolver != NULL)
            resolver_free(ways->resolver);
        loop_free(ways->loop);
        free(ways);
    }
    settings_release(&errand->settings);
}
