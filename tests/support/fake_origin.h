/* Fake origin: proxy/origin.h played by the test itself, which says when a fetch gets a head, bytes, its end.
 *
 * It defines all of origin.h's functions, so the linker leaves the real ones in their archive. Include it in
 * one file of a test executable.
 */
#ifndef WEIR_TESTS_FAKE_ORIGIN_H
#define WEIR_TESTS_FAKE_ORIGIN_H

#include "origin.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { FAKE_FETCHES = 64 };

struct origin {
    size_t under_way;
};

struct origin_fetch {
    struct origin *origin;
    struct origin_events events;
    void *arg;
    size_t place;
    bool is_paused;
    char asked_by[32]; /* the request's x-api-key */
};

static struct {
    struct origin_fetch *fetches[FAKE_FETCHES]; /* in order of their start; NULL once gone */
    char asked_by[FAKE_FETCHES][32];
    size_t started, cancelled, pauses, resumes, pools;
    size_t inside; /* callbacks of a fetch on the stack */
} fake_origin;

struct origin *origin_new(struct loop *loop, struct resolver *resolver, const struct origin_limits *limits)
{
    (void)loop, (void)resolver, (void)limits;
    fake_origin.pools++;
    return calloc(1, sizeof(struct origin));
}

void origin_free(struct origin *origin)
{
    cr_assert_eq(origin->under_way, 0, "a pool is freed with a fetch under way");
    cr_assert_eq(fake_origin.inside, 0, "a pool is freed inside a callback of one of its fetches");
    fake_origin.pools--;
    free(origin);
}

struct origin_fetch *origin_start(struct origin *origin, const struct origin_request *request,
                                  const struct origin_events *events, void *arg)
{
    struct origin_fetch *fetch = calloc(1, sizeof(*fetch));

    cr_assert_lt(fake_origin.started, FAKE_FETCHES);
    fetch->origin = origin;
    fetch->events = *events;
    fetch->arg = arg;
    fetch->place = fake_origin.started++;
    for (size_t i = 0; i < request->header_count; i++)
        if (slice_eq(request->headers[i].name, SLICE("x-api-key")))
            memcpy(fake_origin.asked_by[fetch->place], request->headers[i].value.base,
                   request->headers[i].value.len);
    fake_origin.fetches[fetch->place] = fetch;
    origin->under_way++;
    return fetch;
}

static void fake_fetch_free(struct origin_fetch *fetch)
{
    fake_origin.fetches[fetch->place] = NULL;
    fetch->origin->under_way--;
    free(fetch);
}

void origin_cancel(struct origin_fetch **taken)
{
    struct origin_fetch *fetch = *taken;

    *taken = NULL;
    if (fetch == NULL)
        return;
    fake_origin.cancelled++;
    fake_fetch_free(fetch);
}

void origin_pause(struct origin_fetch *fetch)
{
    cr_assert(!fetch->is_paused);
    fetch->is_paused = true;
    fake_origin.pauses++;
}

void origin_resume(struct origin_fetch *fetch)
{
    cr_assert(fetch->is_paused);
    fetch->is_paused = false;
    fake_origin.resumes++;
}

bool origin_let_go_of_body(struct origin_fetch *fetch)
{
    (void)fetch;
    return true;
}

int64_t origin_waited_us(const struct origin_fetch *fetch)
{
    (void)fetch;
    return 1000;
}

size_t origin_under_way(const struct origin *origin)
{
    return origin->under_way;
}

/* ---- what the test says ---- */

static inline struct origin_fetch *fetch_at(size_t place)
{
    cr_assert_lt(place, fake_origin.started, "fetch %zu has not been started", place);
    cr_assert_not_null(fake_origin.fetches[place], "fetch %zu is gone", place);
    return fake_origin.fetches[place];
}

static inline void fetch_head(size_t place, int status, int64_t content_length, const struct header *headers,
                              size_t count)
{
    struct origin_fetch *fetch = fetch_at(place);
    struct origin_response head = {
        .status = status, .headers = headers, .header_count = count, .content_length = content_length};

    fake_origin.inside++;
    fetch->events.on_head(fetch->arg, &head);
    fake_origin.inside--;
}

static inline void fetch_body(size_t place, struct slice bytes)
{
    struct origin_fetch *fetch = fetch_at(place);
    char *copy = malloc(bytes.len + 1); /* so that keeping the slice shows */

    memcpy(copy, bytes.base, bytes.len);
    fake_origin.inside++;
    fetch->events.on_body(fetch->arg, slice_of(copy, bytes.len));
    fake_origin.inside--;
    free(copy);
}

static inline void fetch_end(size_t place, enum fault fault)
{
    struct origin_fetch *fetch = fetch_at(place);
    struct origin_events events = fetch->events;
    void *arg = fetch->arg;

    fake_fetch_free(fetch);
    fake_origin.inside++;
    events.on_end(arg, fault);
    fake_origin.inside--;
}

#endif
