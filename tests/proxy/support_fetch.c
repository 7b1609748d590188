/* See support_fetch.h. */
#include "support_fetch.h"
#include "clock.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct bench *on_bench; /* one a test */

void bench_start(struct bench *bench, const char *host, int port)
{
    memset(bench, 0, sizeof(*bench));
    bench->loop = loop_new();
    bench->resolver = resolver_new(1);
    bench->limits = (struct origin_limits){.host = slice_text(host),
                                           .port = port,
                                           .connect_timeout_ms = 5000,
                                           .first_byte_timeout_ms = 5000,
                                           .idle_timeout_ms = 5000,
                                           .max_connections = 8,
                                           .max_pending = 8,
                                           .retries = 1};
    on_bench = bench;
}

void bench_open(struct bench *bench)
{
    bench->origin = origin_new(bench->loop, bench->resolver, &bench->limits);
}

void bench_stop(struct bench *bench)
{
    cr_assert_eq(origin_under_way(bench->origin), 0);
    origin_free(bench->origin);
    loop_turn(bench->loop, 0);
    resolver_free(bench->resolver);
    loop_free(bench->loop);
}

static void write_headers(const struct origin_response *head, char *out, size_t room)
{
    for (size_t i = 0, used = 0; i < head->header_count && used < room; i++)
        used += (size_t)snprintf(out + used, room - used, "%.*s: %.*s\n", (int)head->headers[i].name.len,
                                 head->headers[i].name.base, (int)head->headers[i].value.len,
                                 head->headers[i].value.base);
}

static void on_interim(void *arg, const struct origin_response *interim)
{
    struct told *told = arg;
    cr_assert(!told->is_starting);
    cr_assert_eq(told->heads + told->ends, 0, "forerunners come before the head");
    told->interims++;
    told->interim_status = interim->status;
    write_headers(interim, told->interim_headers, sizeof(told->interim_headers));
    if (told->cancel_at == CANCEL_IN_INTERIM)
        origin_cancel(&told->fetch);
}

static void on_head(void *arg, const struct origin_response *head)
{
    struct told *told = arg;
    cr_assert(!told->is_starting);
    cr_assert_eq(told->heads + told->ends, 0, "the head comes once and first");
    told->heads++;
    told->status = head->status;
    told->content_length = head->content_length;
    told->until_close = head->until_close;
    write_headers(head, told->headers, sizeof(told->headers));
    if (told->cancel_at == CANCEL_IN_HEAD)
        origin_cancel(&told->fetch);
}

static void on_body(void *arg, struct slice bytes)
{
    struct told *told = arg;
    cr_assert(!told->is_starting);
    cr_assert(told->fetch != NULL, "a cancelled fetch says nothing");
    cr_assert(told->heads == 1 && told->ends == 0);
    cr_assert_gt(bytes.len, 0);
    if (told->body_len + bytes.len > told->body_room) {
        told->body_room = (told->body_len + bytes.len) * 2;
        told->body = realloc(told->body, told->body_room);
    }
    memcpy(told->body + told->body_len, bytes.base, bytes.len);
    told->body_len += bytes.len;
    if (told->pause_in_body)
        origin_pause(told->fetch);
    if (told->cancel_at == CANCEL_IN_BODY)
        origin_cancel(&told->fetch);
}

static void on_end(void *arg, enum fault fault)
{
    struct told *told = arg;
    cr_assert(!told->is_starting);
    cr_assert(told->fetch != NULL, "a cancelled fetch says nothing");
    cr_assert_eq(told->ends, 0, "the end comes once");
    told->ends++;
    told->fault = fault;
    told->fetch = NULL;
    told->order = ++on_bench->ended;
}

static void on_switched(void *arg, const struct origin_response *head, struct origin_tunnel *tunnel,
                        int64_t waited_us)
{
    struct told *told = arg;
    cr_assert(!told->is_starting);
    cr_assert(told->fetch != NULL, "a cancelled fetch says nothing");
    cr_assert(told->heads == 0 && told->ends == 0 && waited_us > 0);
    told->status = head->status;
    told->tunnel = tunnel;
    told->fetch = NULL;
    for (size_t i = 0; i < head->header_count; i++) {
        size_t len = strlen(told->headers);
        snprintf(told->headers + len, sizeof(told->headers) - len, "%.*s: %.*s\n",
                 (int)head->headers[i].name.len, head->headers[i].name.base, (int)head->headers[i].value.len,
                 head->headers[i].value.base);
    }
}

static void start(struct bench *bench, struct told *told, const char *method, struct slice body,
                  const char *protocols)
{
    static const struct origin_events events = {on_head, on_body, on_end, on_interim, on_switched};
    /* all of it on the stack, and overwritten below: the origin must have copied it */
    char name[] = "x-asked", value[] = "yes", target[] = "/a?b=c", authority[] = "api.example", verb[16];
    struct header header = {slice_text(name), slice_text(value)};
    struct origin_request request = {.target = slice_text(target),
                                     .authority = slice_text(authority),
                                     .headers = &header,
                                     .header_count = 1,
                                     .body = body,
                                     .upgrade = slice_text(protocols)};
    request.method = slice_of(verb, (size_t)snprintf(verb, sizeof(verb), "%s", method));
    told->is_starting = true;
    told->fetch = origin_start(bench->origin, &request, &events, told);
    told->is_starting = false;
    memset(name, '!', sizeof(name));
    memset(value, '!', sizeof(value));
    memset(target, '!', sizeof(target));
    memset(authority, '!', sizeof(authority));
    memset(verb, '!', sizeof(verb));
    memset(&header, 0, sizeof(header));
}

void fetch_start(struct bench *bench, struct told *told, const char *method, struct slice body)
{
    start(bench, told, method, body, NULL);
}

void fetch_upgrade(struct bench *bench, struct told *told, const char *protocols)
{
    start(bench, told, "GET", (struct slice){NULL, 0}, protocols);
}

void fetch_get(struct bench *bench, struct told *told)
{
    fetch_start(bench, told, "GET", (struct slice){NULL, 0});
}

void told_free(struct told *told)
{
    free(told->body);
    memset(told, 0, sizeof(*told));
}

int64_t wait_clock_ms(void)
{
    return clock_mono().ms;
}

void wait_end(struct bench *bench, struct told *told)
{
    WAIT_UNTIL(bench, told->ends == 1);
}
