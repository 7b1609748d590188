/* Origin: see origin.h. Who gets a connection and when, and what becomes of a fetch when its connection
 * fails.
 *
 * A fetch waits in line until the pool's task gives it a connection: an idle one, the most recently used
 * first, or a slot to open its own. A link is one connection; while it serves a fetch it belongs to it, and
 * goes back to the idle list only if the answer ended where both sides agree that it did. What the bytes mean
 * is origin_answer's, how they travel origin_wire's.
 */
#include "origin.h"
#include "check.h"
#include "clock.h"
#include "loop.h"
#include "memory.h"
#include "origin_answer.h"
#include "origin_pool.h"
#include "origin_request.h"
#include "origin_tunnel_link.h"
#include "retry.h"

#include <stdlib.h>

enum { READ_BYTES = 64 * 1024 /* one event reads no more */ };

enum fetch_state {
    FETCH_WAITING,    /* in line for a connection */
    FETCH_TURNED_OFF, /* too many in line: only to be told */
    FETCH_RESOLVING,
    FETCH_CONNECTING,
    FETCH_ASKING,  /* the request is being written, the head of the answer has not come */
    FETCH_READING, /* the head has come */
    FETCH_OVER,
};

struct origin_fetch {
    struct origin *origin;
    struct origin_events events;
    void *arg;
    enum fetch_state state;
    struct origin_fetch *next, *before; /* in line */
    struct timer deadline;
    struct link *link;
    bool has_slot; /* counted in the pool's connections without having a link yet */

    char *head; /* as it goes over the wire; NULL: cannot be asked */
    size_t head_len;
    struct slice method;  /* in `head` */
    struct slice upgrade; /* owned; base NULL: none */
    struct slice body;

    struct resolver_ask *lookup;
    struct resolved addresses;
    size_t next_address;
    struct mono_ms connect_until;

    struct answer answer;
    int tried_again;
    bool is_without_body; /* which it cannot be sent again without */
    bool is_paused;
    struct mono_ms quiet_since; /* the other side last read or wrote something */
    int64_t started_us, waited_us;
};

struct fetch_line {
    struct origin_fetch *first, *last;
    size_t count;
};

struct origin {
    struct loop *loop;
    struct resolver *resolver;
    struct origin_limits limits;
    char *host;
    struct fetch_line waiting, turned_off;
    struct pool pool;
    size_t under_way;
    struct task serve; /* gives connections to those in line */
    struct header scratch_headers[HTTP1_MAX_HEADERS];
    char scratch[READ_BYTES]; /* what one event read */
};

static void start_connecting(struct origin_fetch *fetch);

/* ---- states, the line ---- */

static void move_to(struct origin_fetch *fetch, enum fetch_state next)
{
#define TO(state) (1u << (state))
    static const unsigned legal[] = {
        [FETCH_WAITING] = TO(FETCH_RESOLVING) | TO(FETCH_CONNECTING) | TO(FETCH_ASKING) | TO(FETCH_OVER),
        [FETCH_TURNED_OFF] = TO(FETCH_OVER),
        [FETCH_RESOLVING] = TO(FETCH_CONNECTING) | TO(FETCH_OVER),
        [FETCH_CONNECTING] = TO(FETCH_ASKING) | TO(FETCH_OVER),
        [FETCH_ASKING] = TO(FETCH_READING) | TO(FETCH_RESOLVING) | TO(FETCH_CONNECTING) | TO(FETCH_OVER),
        [FETCH_READING] = TO(FETCH_OVER),
        [FETCH_OVER] = 0,
    };
    CHECK(legal[fetch->state] & TO(next));
#undef TO
    fetch->state = next;
}

static void line_add(struct fetch_line *line, struct origin_fetch *fetch)
{
    fetch->before = line->last;
    fetch->next = NULL;
    if (line->last != NULL)
        line->last->next = fetch;
    else
        line->first = fetch;
    line->last = fetch;
    line->count++;
}

static void line_remove(struct fetch_line *line, struct origin_fetch *fetch)
{
    if (fetch->before != NULL)
        fetch->before->next = fetch->next;
    else
        line->first = fetch->next;
    if (fetch->next != NULL)
        fetch->next->before = fetch->before;
    else
        line->last = fetch->before;
    line->count--;
}

static void set_deadline(struct origin_fetch *fetch, int64_t wait_ms)
{
    timer_start(fetch->origin->loop, &fetch->deadline, mono_after(loop_now(fetch->origin->loop), wait_ms));
}

/* ---- the end of a fetch ---- */

/* Takes it out of wherever it is; its link is closed unless the caller has taken it. */
static void leave(struct origin_fetch *fetch)
{
    struct origin *origin = fetch->origin;

    if (fetch->state == FETCH_WAITING)
        line_remove(&origin->waiting, fetch);
    else if (fetch->state == FETCH_TURNED_OFF)
        line_remove(&origin->turned_off, fetch);
    timer_cancel(origin->loop, &fetch->deadline);
    resolver_cancel(&fetch->lookup);
    if (fetch->link != NULL)
        link_close(fetch->link);
    fetch->link = NULL;
    if (fetch->has_slot)
        pool_give_slot(&origin->pool);
    fetch->has_slot = false;
    move_to(fetch, FETCH_OVER);
    origin->under_way--;
}

static void free_fetch(struct origin_fetch *fetch)
{
    answer_dispose(&fetch->answer);
    free(fetch->head);
    free((char *)(uintptr_t)fetch->upgrade.base);
    free(fetch);
}

static void end_fetch(struct origin_fetch *fetch, enum fault fault)
{
    struct origin_events events = fetch->events;
    void *arg = fetch->arg;

    leave(fetch);
    free_fetch(fetch);
    events.on_end(arg, fault);
}

/* The answer is whole: the link may serve another if nothing is left over on either side of it. */
static void end_whole(struct origin_fetch *fetch)
{
    struct link *link = fetch->link;

    if (answer_keeps_connection(&fetch->answer) && fetch->upgrade.base == NULL && wire_is_sent(&link->wire) &&
        !link->wire.has_failed) {
        fetch->link = NULL;
        link_park(link);
    }
    end_fetch(fetch, FAULT_NONE);
}

/* Its connection is of no use. Its slot stays the fetch's: those in line come after it. */
static void drop_link(struct origin_fetch *fetch)
{
    link_close(fetch->link);
    fetch->link = NULL;
    pool_take_slot(&fetch->origin->pool);
    fetch->has_slot = true;
}

/* The connection broke while the answer was awaited or read. */
static void link_broke(struct origin_fetch *fetch)
{
    struct retry_facts failed = {
        .method = fetch->method,
        .was_reused = fetch->link->was_used,
        .request_left = fetch->link->wire.sent_bytes > 0,
        .answer_began = fetch->answer.has_begun,
        .tried_again = fetch->tried_again,
        .retries = fetch->origin->limits.retries,
    };
    if (fetch->state != FETCH_ASKING || fetch->is_without_body || !retry_may_send_again(&failed)) {
        end_fetch(fetch, FAULT_ORIGIN_BROKE);
        return;
    }
    if (!failed.was_reused)
        fetch->tried_again++;
    drop_link(fetch);
    start_connecting(fetch);
}

/* ---- asking and reading ---- */

static void ask(struct origin_fetch *fetch, struct link *link)
{
    struct origin *origin = fetch->origin;

    move_to(fetch, FETCH_ASKING);
    fetch->link = link;
    link->fetch = fetch;
    answer_dispose(&fetch->answer);
    answer_init(&fetch->answer, fetch->method, fetch->upgrade, origin->scratch_headers);
    fetch->quiet_since = loop_now(origin->loop);
    wire_send(&link->wire, slice_of(fetch->head, fetch->head_len), fetch->body);
    wire_listen(&link->wire);
    set_deadline(fetch, wire_is_sent(&link->wire) ? origin->limits.first_byte_timeout_ms
                                                  : origin->limits.idle_timeout_ms);
}

static void on_sent(void *arg)
{
    struct link *link = arg;
    struct origin_fetch *fetch = link->fetch;

    fetch->quiet_since = loop_now(fetch->origin->loop);
    if (fetch->state == FETCH_ASKING && wire_is_sent(&link->wire))
        set_deadline(fetch, fetch->origin->limits.first_byte_timeout_ms);
}

static void begin_reading(struct origin_fetch *fetch)
{
    move_to(fetch, FETCH_READING);
    fetch->waited_us = clock_mono_us() - fetch->started_us;
    if (fetch->is_paused) {
        wire_deafen(&fetch->link->wire);
        timer_cancel(fetch->origin->loop, &fetch->deadline);
    } else {
        set_deadline(fetch, fetch->origin->limits.idle_timeout_ms);
    }
}

/* What was a connection of ours speaks another protocol from now on. */
static void end_switched(struct origin_fetch *fetch)
{
    struct origin_events events = fetch->events;
    struct link *link = fetch->link;
    struct origin_tunnel *tunnel;

    if (!wire_is_sent(&link->wire)) { /* the upstream cannot have read what it agrees to */
        end_fetch(fetch, FAULT_ORIGIN_NONSENSE);
        return;
    }
    fetch->link = NULL;
    move_to(fetch, FETCH_READING);
    fetch->waited_us = clock_mono_us() - fetch->started_us;
    leave(fetch);
    tunnel = origin_tunnel_new(link, answer_rest(&fetch->answer));
    events.on_switched(fetch->arg, &fetch->answer.response, tunnel, fetch->waited_us);
    free_fetch(fetch);
}

/* Any callback may cancel the fetch: from then on only the link may be looked at. */
static void read_answer(struct link *link, struct origin_fetch *fetch)
{
    struct answer *answer = &fetch->answer;

    do {
        switch (answer_next(answer)) {
        case ANSWER_HUNGRY: return;
        case ANSWER_INTERIM:
            if (fetch->events.on_interim != NULL)
                fetch->events.on_interim(fetch->arg, &answer->response);
            break;
        case ANSWER_HEAD:
            begin_reading(fetch);
            fetch->events.on_head(fetch->arg, &answer->response);
            break;
        case ANSWER_DATA: fetch->events.on_body(fetch->arg, answer->data); break;
        case ANSWER_END: end_whole(fetch); return;
        case ANSWER_SWITCHED: end_switched(fetch); return;
        case ANSWER_BAD: end_fetch(fetch, FAULT_ORIGIN_NONSENSE); return;
        }
    } while (link->fetch == fetch);
}

static void read_fetch(struct link *link, struct origin_fetch *fetch)
{
    struct origin *origin = fetch->origin;
    size_t got = 0;

    switch (wire_receive(&link->wire, origin->scratch, sizeof(origin->scratch), &got)) {
    case WIRE_NOTHING: return;
    case WIRE_BYTES:
        fetch->quiet_since = loop_now(origin->loop);
        answer_give(&fetch->answer, origin->scratch, got);
        read_answer(link, fetch);
        return;
    case WIRE_FIN:
        if (answer_close(&fetch->answer) == ANSWER_END)
            end_whole(fetch);
        else
            link_broke(fetch);
        return;
    case WIRE_BROKEN: link_broke(fetch); return;
    }
}

static void on_readable(void *arg)
{
    struct link *link = arg;

    if (link->fetch == NULL) { /* idle: its end, or bytes that nobody asked for */
        link_close(link);
        return;
    }
    link->is_reading = true;
    read_fetch(link, link->fetch);
    link_end_reading(link);
}

/* ---- connecting ---- */

static void on_connected(void *arg, bool is_connected);

/* Addresses that refuse at once are passed over; one that is silent gets its share of the time that is left,
 * so that a dead first address does not hide a living second one. */
static void connect_next(struct origin_fetch *fetch)
{
    struct origin *origin = fetch->origin;

    while (fetch->next_address < fetch->addresses.count) {
        int64_t left_ms = fetch->connect_until.ms - loop_now(origin->loop).ms;
        size_t addresses_left = fetch->addresses.count - fetch->next_address;
        struct link *link = link_new(&origin->pool, fetch);

        fetch->link = link;
        fetch->has_slot = false; /* the link has it now */
        link->wire.on_connected = on_connected;
        link->wire.on_readable = on_readable;
        link->wire.on_sent = on_sent;
        if (wire_connect(&link->wire, origin->loop, &fetch->addresses.addresses[fetch->next_address++])) {
            set_deadline(fetch, left_ms / (int64_t)addresses_left);
            return;
        }
        drop_link(fetch);
    }
    end_fetch(fetch, FAULT_ORIGIN_REFUSED);
}

static void try_next_address(struct origin_fetch *fetch)
{
    drop_link(fetch);
    connect_next(fetch);
}

static void on_connected(void *arg, bool is_connected)
{
    struct link *link = arg;
    struct origin_fetch *fetch = link->fetch;

    if (is_connected)
        ask(fetch, link);
    else
        try_next_address(fetch);
}

static void on_resolved(void *arg, const struct resolved *answer)
{
    struct origin_fetch *fetch = arg;

    fetch->lookup = NULL;
    fetch->addresses = *answer;
    move_to(fetch, FETCH_CONNECTING);
    connect_next(fetch);
}

/* With a slot. May end the fetch. */
static void start_connecting(struct origin_fetch *fetch)
{
    struct origin *origin = fetch->origin;
    struct slice host = origin->limits.host;
    int port = origin->limits.port;

    fetch->next_address = 0;
    fetch->connect_until = mono_after(loop_now(origin->loop), origin->limits.connect_timeout_ms);
    if (resolver_knows(origin->resolver, host, port, &fetch->addresses)) {
        move_to(fetch, FETCH_CONNECTING);
        connect_next(fetch);
        return;
    }
    move_to(fetch, FETCH_RESOLVING);
    set_deadline(fetch, origin->limits.connect_timeout_ms);
    fetch->lookup = resolver_start(origin->resolver, origin->loop, host, port, on_resolved, fetch);
}

/* ---- deadlines ---- */

/* The upstream is silent, unless it read or wrote since the timer was set: then the pause counts from there.
 */
static void judge_pause(struct origin_fetch *fetch)
{
    struct mono_ms until = mono_after(fetch->quiet_since, fetch->origin->limits.idle_timeout_ms);

    if (loop_now(fetch->origin->loop).ms < until.ms)
        timer_start(fetch->origin->loop, &fetch->deadline, until);
    else
        end_fetch(fetch, FAULT_ORIGIN_SILENT);
}

static void on_deadline(void *arg)
{
    struct origin_fetch *fetch = arg;

    switch (fetch->state) {
    case FETCH_WAITING: end_fetch(fetch, FAULT_ORIGIN_SATURATED); return;
    case FETCH_RESOLVING: end_fetch(fetch, FAULT_ORIGIN_CONNECT_TIMEOUT); return;
    case FETCH_CONNECTING:
        if (fetch->next_address < fetch->addresses.count)
            try_next_address(fetch);
        else
            end_fetch(fetch, FAULT_ORIGIN_CONNECT_TIMEOUT);
        return;
    case FETCH_ASKING:
        if (wire_is_sent(&fetch->link->wire))
            end_fetch(fetch, FAULT_ORIGIN_SILENT);
        else
            judge_pause(fetch);
        return;
    case FETCH_READING: judge_pause(fetch); return;
    case FETCH_TURNED_OFF:
    case FETCH_OVER: break;
    }
    CHECK(!"a deadline belongs to a fetch that waits for something");
}

/* ---- giving out connections ---- */

static void serve_one(struct origin *origin, struct origin_fetch *fetch)
{
    struct link *link = NULL;

    timer_cancel(origin->loop, &fetch->deadline);
    if (fetch->head == NULL) {
        end_fetch(fetch, FAULT_ORIGIN_REFUSED);
        return;
    }
    if (fetch->upgrade.base == NULL)
        link = pool_take_idle(&origin->pool, !method_is_idempotent(fetch->method));
    else if (pool_free_slots(&origin->pool) == 0)
        pool_close_oldest(
            &origin->pool); /* it gets one of its own, and those in line have shown that there is one idle */
    line_remove(&origin->waiting, fetch);
    if (link != NULL) {
        ask(fetch, link);
        return;
    }
    pool_take_slot(&origin->pool);
    fetch->has_slot = true;
    start_connecting(fetch);
}

static void serve_line(void *arg)
{
    struct origin *origin = arg;

    while (origin->turned_off.first != NULL)
        end_fetch(origin->turned_off.first, FAULT_ORIGIN_SATURATED);
    while (origin->waiting.first != NULL &&
           (origin->pool.idle_count > 0 || pool_free_slots(&origin->pool) > 0))
        serve_one(origin, origin->waiting.first);
}

static void on_room(void *arg)
{
    struct origin *origin = arg;
    if (origin->waiting.count > 0)
        loop_defer(origin->loop, &origin->serve);
}

/* ---- the interface ---- */

struct origin *origin_new(struct loop *loop, struct resolver *resolver, const struct origin_limits *limits)
{
    struct origin *origin = must_alloc(sizeof(*origin));
    int64_t keep_idle_ms = limits->keep_idle_ms != 0 ? limits->keep_idle_ms : limits->idle_timeout_ms;

    origin->loop = loop;
    origin->resolver = resolver;
    origin->limits = *limits;
    origin->host = must_copy(limits->host.base, limits->host.len);
    origin->limits.host = slice_of(origin->host, limits->host.len);
    task_init(&origin->serve, LOOP_SEND, serve_line, origin);
    pool_init(&origin->pool, loop, (size_t)limits->max_connections, keep_idle_ms, on_room, origin);
    return origin;
}

void origin_free(struct origin *origin)
{
    CHECK(origin->under_way == 0);
    pool_dispose(&origin->pool);
    task_cancel(origin->loop, &origin->serve);
    free(origin->host);
    free(origin);
}

struct origin_fetch *origin_start(struct origin *origin, const struct origin_request *request,
                                  const struct origin_events *events, void *arg)
{
    struct origin_fetch *fetch = must_alloc(sizeof(*fetch));
    size_t room =
        pool_free_slots(&origin->pool) + origin->pool.idle_count + (size_t)origin->limits.max_pending;

    fetch->origin = origin;
    fetch->events = *events;
    fetch->arg = arg;
    fetch->head = origin_request_write(request, &fetch->head_len);
    if (fetch->head != NULL)
        fetch->method = slice_of(fetch->head, request->method.len);
    if (request->upgrade.base != NULL)
        fetch->upgrade =
            slice_of(must_copy(request->upgrade.base, request->upgrade.len), request->upgrade.len);
    fetch->body = request->body;
    fetch->started_us = clock_mono_us();
    timer_init(&fetch->deadline, on_deadline, fetch);
    origin->under_way++;
    if (origin->waiting.count < room) {
        line_add(&origin->waiting, fetch);
        set_deadline(fetch, origin->limits.first_byte_timeout_ms);
    } else {
        fetch->state = FETCH_TURNED_OFF;
        line_add(&origin->turned_off, fetch);
    }
    loop_defer(origin->loop, &origin->serve);
    return fetch;
}

void origin_cancel(struct origin_fetch **taken)
{
    struct origin_fetch *fetch = *taken;

    *taken = NULL;
    if (fetch == NULL)
        return;
    leave(fetch);
    free_fetch(fetch);
}

void origin_pause(struct origin_fetch *fetch)
{
    fetch->is_paused = true;
    if (fetch->state == FETCH_READING) {
        wire_deafen(&fetch->link->wire);
        timer_cancel(fetch->origin->loop, &fetch->deadline);
    }
}

void origin_resume(struct origin_fetch *fetch)
{
    if (!fetch->is_paused)
        return;
    fetch->is_paused = false;
    if (fetch->state == FETCH_READING) {
        fetch->quiet_since = loop_now(fetch->origin->loop);
        set_deadline(fetch, fetch->origin->limits.idle_timeout_ms);
        wire_listen(&fetch->link->wire);
    }
}

bool origin_let_go_of_body(struct origin_fetch *fetch)
{
    if (fetch->link == NULL || fetch->state == FETCH_CONNECTING || !wire_is_sent(&fetch->link->wire))
        return false;
    fetch->is_without_body = true;
    fetch->body = slice_of(NULL, 0);
    return true;
}

int64_t origin_waited_us(const struct origin_fetch *fetch)
{
    return fetch->waited_us;
}

size_t origin_under_way(const struct origin *origin)
{
    return origin->under_way;
}
