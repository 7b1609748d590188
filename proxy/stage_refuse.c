/* Refuse: our own answers, in the one form that docs/limits.md and docs/configuration.md promise. */
#include "exchange.h"
#include "problem.h"
#include "respond.h"
#include "verdict.h"

enum { BODY_ROOM = 4096 };

static size_t add_retry_after(struct exchange *exchange, struct header *out, size_t count, int64_t seconds)
{
    struct text text = text_in(client_alloc(exchange->client, TEXT_INT_ROOM), TEXT_INT_ROOM);

    text_add_int(&text, seconds);
    out[count] = (struct header){SLICE("retry-after"), text_slice(&text)};
    return count + 1;
}

static size_t add_proxy_status(struct exchange *exchange, struct header *out, size_t count, const char *error)
{
    struct text text;

    if (!site_settings(exchange->site)->headers.proxy_status)
        return count;
    text = text_in(client_alloc(exchange->client, PROXY_STATUS_ROOM), PROXY_STATUS_ROOM);
    proxy_status_write(error, &text);
    out[count] = (struct header){SLICE("proxy-status"), text_slice(&text)};
    return count + 1;
}

static struct header *begin_fields(struct exchange *exchange, size_t *count)
{
    struct header *fields = client_alloc(exchange->client, OWN_FIELDS_MAX * sizeof(*fields));

    fields[0] = (struct header){SLICE("content-type"), SLICE("application/problem+json")};
    fields[1] = (struct header){SLICE("cache-control"), SLICE("no-store")};
    *count = 2;
    return fields;
}

static void answer(struct exchange *exchange, int status, const char *code, struct header *fields,
                   size_t count, struct slice body)
{
    if (exchange->stage != STAGE_DELIVERING)
        move_to(exchange, STAGE_DELIVERING);
    exchange->status = status;
    exchange->code = code;
    exchange->body_bytes = (int64_t)body.len;
    exchange->is_started = true;
    move_to(exchange, STAGE_ANSWERED);
    respond(exchange->client, status, fields, count, body); /* may end the exchange */
}

/* ---- by a limit ---- */

static size_t violated_names(const struct limit_request *by, struct slice *names,
                             struct limit_standing *standings, size_t *standing_count)
{
    size_t violated = 0, count = 0;

    for (size_t i = 0; i < by->charge_count; i++) {
        struct limit_standing standing = limit_request_standing(by, i);

        if (!by->has_state[i])
            continue;
        standings[count++] = standing;
        if (limit_refuses(&standing))
            names[violated++] = slice_text(by->charges[i].rule->name);
    }
    *standing_count = count;
    return violated;
}

static enum refusal_kind kind_of(const struct limit_request *by)
{
    switch (by->ruling) {
    case RULING_REFUSED:
        return by->named->terms.algorithm == LIMIT_CONCURRENCY ? REFUSED_SLOTS : REFUSED_RATE;
    case RULING_TOO_COSTLY: return REFUSED_COST;
    case RULING_UNAVAILABLE: return REFUSED_LIMITER_AWAY;
    case RULING_ADMITTED: break;
    }
    return REFUSED_RATE;
}

static void answer_refusal(struct exchange *exchange, const struct refusal *refusal, const char *proxy_error)
{
    char *body = client_alloc(exchange->client, BODY_ROOM);
    size_t len = refusal_body(refusal, body, BODY_ROOM), count;
    struct header *fields = begin_fields(exchange, &count);

    if (refusal->retry_after_us > 0)
        count = add_retry_after(exchange, fields, count, verdict_retry_s(refusal->retry_after_us));
    if (proxy_error != NULL)
        count = add_proxy_status(exchange, fields, count, proxy_error);
    count = add_ratelimit_fields(exchange, fields, count);
    answer(exchange, refusal_status(refusal->kind), refusal_code(refusal->kind), fields, count,
           slice_of(body, len));
}

void refuse_by_limit(struct exchange *exchange, const struct limit_request *by)
{
    struct slice names[LIMITS_PER_REQUEST];
    struct limit_standing standings[LIMITS_PER_REQUEST];
    size_t standing_count;
    struct refusal refusal = {
        .kind = kind_of(by),
        .limit = slice_text(by->named->name),
        .violated = names,
        .violated_count = violated_names(by, names, standings, &standing_count),
    };

    if (by->is_tentative)
        limiter_count_refusal(by);
    exchange->refusal = by;
    exchange->refusing_limit = by->named->name;
    if (refusal.kind == REFUSED_LIMITER_AWAY) {
        names[0] = refusal.limit;
        refusal.violated_count = 1;
        refusal.retry_after_us = 1000000;
    } else
        refusal.retry_after_us = verdict_reach(standings, standing_count).retry_after_us;
    if (refusal.kind == REFUSED_RATE &&
        refusal.retry_after_us == 0) /* until a reservation is settled, whenever that is */
        refusal.retry_after_us = 1000000;
    answer_refusal(exchange, &refusal,
                   refusal.kind == REFUSED_LIMITER_AWAY  ? "proxy_internal_error"
                   : refusal_status(refusal.kind) == 429 ? "http_request_denied"
                                                         : NULL);
}

void refuse_objection(struct exchange *exchange, const struct objection *objection)
{
    struct slice name = slice_text(objection->limit->name);
    struct refusal refusal = {.kind = objection->kind,
                              .limit = name,
                              .violated = &name,
                              .violated_count = 1,
                              .words = objection->words};

    exchange->refusing_limit = objection->limit->name;
    exchange->limits.charge_count = 0;
    exchange->bill = NULL;
    answer_refusal(exchange, &refusal, NULL);
}

/* ---- for other reasons ---- */

static void answer_problem(struct exchange *exchange, int status, const char *code, const char *detail,
                           const char *proxy_error, bool tell_retry)
{
    char *body = client_alloc(exchange->client, PROBLEM_ROOM);
    size_t len = problem_body(status, code, detail, body, PROBLEM_ROOM), count;
    struct header *fields = begin_fields(exchange, &count);

    if (tell_retry)
        count = add_retry_after(exchange, fields, count, 1);
    if (proxy_error != NULL)
        count = add_proxy_status(exchange, fields, count, proxy_error);
    count = add_ratelimit_fields(exchange, fields, count);
    answer(exchange, status, code, fields, count, slice_of(body, len));
}

/* To OPTIONS, as who receives it last: there is nothing to say of the resource. */
void answer_as_last_hop(struct exchange *exchange)
{
    struct header *fields = client_alloc(exchange->client, OWN_FIELDS_MAX * sizeof(*fields));

    answer(exchange, 204, NULL, fields, add_ratelimit_fields(exchange, fields, 0), slice_of(NULL, 0));
}

void refuse(struct exchange *exchange, int status, const char *code, const char *detail)
{
    answer_problem(exchange, status, code, detail, NULL, false);
}

static const char *detail_of(enum fault fault)
{
    switch (fault) {
    case FAULT_ORIGIN_REFUSED: return "No connection to the upstream could be made.";
    case FAULT_ORIGIN_CONNECT_TIMEOUT: return "The upstream did not accept a connection in time.";
    case FAULT_ORIGIN_SILENT: return "The upstream did not answer in time.";
    case FAULT_ORIGIN_BROKE: return "The upstream closed the connection before its answer was whole.";
    case FAULT_ORIGIN_NONSENSE: return "The upstream's answer is not valid HTTP.";
    case FAULT_ORIGIN_SATURATED: return "All connections to the upstream are in use, and the queue is full.";
    case FAULT_NONE:
    case FAULT_STORE_AWAY:
    case FAULT_STORE_SILENT:
    case FAULT_STORE_NONSENSE:
    case FAULT_CLIENT_LEFT: break;
    }
    return "The request could not be answered.";
}

void refuse_fault(struct exchange *exchange, enum fault fault)
{
    int status = fault_status(fault);

    if (status == 0) /* nobody to tell; but whoever is still there must not hang */
        status = 502;
    answer_problem(exchange, status, fault_code(fault), detail_of(fault), fault_proxy_error(fault),
                   status == 503);
}

void refuse_upstream_status(struct exchange *exchange, int status)
{
    bool is_timeout = status == 504;

    answer_problem(exchange, status == 503 || is_timeout ? status : 502,
                   is_timeout ? "upstream_timeout" : "upstream_error",
                   "The load that this request waited for failed.",
                   is_timeout ? "http_response_timeout" : "http_response_incomplete", false);
}
