/* Redis link: see redis_link.h.
 *
 * One timer, `wait`, belongs to the state: rest, deadline of dialling and greeting, next heartbeat, patience
 * with a mute server. What must never happen: a reply matched to another command. So every command that was
 * put into the bytes to send has a place in the queue of replies, and keeps it when its caller gives up; a
 * connection that ends takes the whole queue with it.
 */
#include "redis_link.h"

#include "check.h"
#include "digest.h"
#include "log.h"
#include "loop_h2o.h"
#include "memory.h"
#include "redis_queue.h"
#include "redis_reader.h"
#include "redis_resolve.h"

#include <stdlib.h>

enum {
    REST_MIN_MS = 50,
    REST_MAX_MS = 2000,
    DIAL_MIN_MS = 1000,     /* a dial may take this long, however short store.timeout is */
    HEARTBEAT_MS = 1000,    /* without a word from the server */
    PATIENCE_MIN_MS = 1000, /* with a mute server, before the connection is given up */
    PATIENCE_TIMEOUTS = 4,  /* the same, in timeouts */
    MUTE_AFTER = 3,         /* deadlines in a row that passed in silence */
    STEADY_MS = 2000,       /* a connection that lasted so long earns a quick redial */
    MAX_UNDER_WAY = 65536,  /* commands */
    FEED_BYTES = 64 << 10,
    WHY_BYTES = 160,
};

enum link_state { RESTING, RESOLVING, DIALLING, GREETING, UP, MUTE, LINK_STATES };

struct redis_link {
    struct redis_options options;
    struct loop *loop;
    char address[140]; /* for the log */

    enum link_state state;
    struct timer wait;
    int64_t rest_ms;
    unsigned connections; /* that were made so far */
    struct mono_ms up_since;
    bool may_wait;                 /* the first dial has not ended yet */
    bool is_heard;                 /* since the last heartbeat */
    int silences;                  /* deadlines in a row that passed without a word */
    struct redis_resolve *resolve; /* outlives its dial: there is one such thread at most */
    struct redis_addresses addresses;
    size_t next_address;

    h2o_socket_t *socket;
    struct redis_reader *reader;
    int greetings_left; /* replies to what the link itself said first */
    int naming_left;    /* when so many are left, the next one answers CLIENT SETNAME */

    struct redis_bytes flying, waiting; /* being written; collected for the next write */
    struct task flush;
    struct redis_queue queue;

    struct link refused; /* calls that failed before they were sent */
    struct timer refusing;
    struct redis_call heartbeat;
};

static void dial(struct redis_link *link);
static void on_read(h2o_socket_t *socket, const char *error);
static void on_written(h2o_socket_t *socket, const char *error);

static void move_to(struct redis_link *link, enum link_state state)
{
    static const bool legal[LINK_STATES][LINK_STATES] = {
        [RESTING] = {[RESOLVING] = true, [DIALLING] = true, [RESTING] = true},
        [RESOLVING] = {[DIALLING] = true, [RESTING] = true},
        [DIALLING] = {[DIALLING] = true, [GREETING] = true, [RESTING] = true},
        [GREETING] = {[UP] = true, [RESTING] = true},
        [UP] = {[MUTE] = true, [RESTING] = true},
        [MUTE] = {[UP] = true, [RESTING] = true},
    };

    CHECK(legal[link->state][state]);
    link->state = state;
}

/* ---- bytes to send ---- */

static void write_flying(struct redis_link *link)
{
    h2o_iovec_t bytes = h2o_iovec_init(link->flying.base, link->flying.len);

    h2o_socket_write(link->socket, &bytes, 1, on_written);
}

static void on_flush(void *arg)
{
    struct redis_link *link = arg;
    struct redis_bytes empty = link->flying;

    if ((link->state != UP && link->state != MUTE) || link->waiting.len == 0 ||
        h2o_socket_is_writing(link->socket))
        return;
    link->flying = link->waiting;
    link->waiting = empty;
    write_flying(link);
}

/* ---- the queue of replies ---- */

void redis_call_cancel(struct redis_call *call)
{
    struct redis_link *link = call->link;

    if (link == NULL)
        return;
    timer_cancel(link->loop, &call->deadline);
    if (call->place == 0)
        list_leave(&call->refused);
    else
        redis_queue_vacate(&link->queue, call->place);
    call->link = NULL;
}

/* The call may be gone when this returns. */
static void finish(struct redis_call *call, enum fault fault, const struct redis_reply *reply)
{
    redis_call_cancel(call);
    call->done(call->arg, fault, reply);
}

/* ---- the end of a connection ---- */

static void rest(struct redis_link *link)
{
    int64_t rest_ms = link->rest_ms;
    uint32_t random;

    digest_random(&random, sizeof(random)); /* so that a fleet does not come back in step */
    link->rest_ms = rest_ms * 2 < REST_MAX_MS ? rest_ms * 2 : REST_MAX_MS;
    move_to(link, RESTING);
    timer_start(
        link->loop, &link->wait,
        mono_after(loop_now(link->loop), rest_ms / 2 + (int64_t)(random % (uint32_t)(rest_ms / 2 + 1))));
}

/* A callback that asks again is refused, so that this ends. */
static void fail_all(struct redis_link *link)
{
    while (redis_queue_count(&link->queue) > 0) {
        struct redis_call *call = redis_queue_pop(&link->queue);

        if (call != NULL)
            finish(call, FAULT_STORE_AWAY, NULL);
    }
}

static void lose(struct redis_link *link, const char *why)
{
    bool was_up = link->state == UP;

    if (was_up || link->state == MUTE) {
        log_warn("redis %s: connection given up: %s", link->address, why);
        if (loop_now(link->loop).ms - link->up_since.ms >= STEADY_MS)
            link->rest_ms = REST_MIN_MS;
    } else {
        log_warn("redis %s: not reached: %s", link->address, why);
    }
    if (link->socket != NULL)
        h2o_socket_close(link->socket);
    link->socket = NULL;
    redis_reader_free(link->reader);
    link->reader = NULL;
    redis_bytes_empty(&link->flying);
    redis_bytes_empty(&link->waiting);
    link->silences = 0;
    link->may_wait = false;
    rest(link);
    if (was_up)
        link->options.on_change(link->options.arg, false);
    fail_all(link);
}

/* ---- silence ---- */

static void turn_mute(struct redis_link *link)
{
    int64_t patience_ms = link->options.timeout_ms * PATIENCE_TIMEOUTS;

    if (link->state != UP)
        return;
    log_warn("redis %s: no answer in time, nothing more is asked until it speaks", link->address);
    move_to(link, MUTE);
    timer_start(
        link->loop, &link->wait,
        mono_after(loop_now(link->loop), patience_ms > PATIENCE_MIN_MS ? patience_ms : PATIENCE_MIN_MS));
    link->options.on_change(link->options.arg, false);
}

static void beat_later(struct redis_link *link)
{
    link->is_heard = false;
    timer_start(link->loop, &link->wait, mono_after(loop_now(link->loop), HEARTBEAT_MS));
}

static void turn_up(struct redis_link *link)
{
    if (link->state == GREETING) {
        link->up_since = loop_now(link->loop);
        log_info("redis %s: connected", link->address);
    } else {
        log_info("redis %s: answers again", link->address);
    }
    move_to(link, UP);
    link->may_wait = false;
    link->silences = 0;
    beat_later(link);
    loop_defer(link->loop, &link->flush);
    link->options.on_change(link->options.arg, true);
}

static void on_deadline(void *arg)
{
    struct redis_call *call = arg;
    struct redis_link *link = call->link;

    if (++link->silences >= MUTE_AFTER)
        turn_mute(link);
    if (call->link != NULL) /* the change may have made its owner cancel it */
        finish(call, FAULT_STORE_SILENT, NULL);
}

static void on_heartbeat(void *arg, enum fault fault, const struct redis_reply *reply)
{
    struct redis_link *link = arg;

    (void)reply;
    if (fault == FAULT_STORE_SILENT) /* one is enough: it had nothing else to do */
        turn_mute(link);
}

static void beat(struct redis_link *link)
{
    struct redis_words ping = {0};

    if (!link->is_heard && link->heartbeat.link == NULL) {
        redis_words_borrow(&ping, SLICE("PING"));
        redis_link_send(link, &link->heartbeat, &ping,
                        mono_after(loop_now(link->loop), link->options.timeout_ms), on_heartbeat, link);
        redis_words_free(&ping);
    }
    beat_later(link);
}

/* ---- replies ---- */

/* Errors after which this connection is of no use: a master that was demoted, or one that is not ready yet. A
 * new one may reach another server behind the same name. */
static bool ends_connection(const struct redis_reply *reply)
{
    return redis_error_is(reply, "READONLY") || redis_error_is(reply, "LOADING") ||
           redis_error_is(reply, "MASTERDOWN") || redis_error_is(reply, "NOAUTH");
}

static void complain(struct redis_link *link, const struct redis_reply *error)
{
    char why[WHY_BYTES];

    snprintf(why, sizeof(why), "it says %.*s", (int)(error->text.len < 100 ? error->text.len : 100),
             error->text.base);
    lose(link, why);
}

/* A server that refuses a name for the connection (by its access rules) is fine otherwise. */
static void take_greeting(struct redis_link *link, const struct redis_reply *reply)
{
    bool is_naming = link->greetings_left == link->naming_left;

    link->greetings_left--;
    if (reply->kind == REDIS_ERROR && !is_naming)
        complain(link, reply);
    else if (link->greetings_left == 0)
        turn_up(link);
}

static bool is_push(const struct redis_reply *reply)
{
    return reply->kind == REDIS_LIST && reply->count == 3 && reply->items[0]->kind == REDIS_TEXT &&
           slice_eq(reply->items[0]->text, SLICE("message"));
}

static void take(struct redis_link *link, const struct redis_reply *reply)
{
    struct redis_call *call;

    if (link->state == GREETING) {
        take_greeting(link, reply);
        return;
    }
    link->is_heard = true;
    link->silences = 0;
    if (link->options.on_push != NULL && is_push(reply)) {
        link->options.on_push(link->options.arg, reply);
        return;
    }
    if (redis_queue_count(&link->queue) == 0) {
        lose(link, "it answers what was not asked");
        return;
    }
    if (ends_connection(reply)) {
        complain(link, reply);
        return;
    }
    link->rest_ms = REST_MIN_MS; /* it does what it is for */
    if (link->state == MUTE)
        turn_up(link);
    call = redis_queue_pop(&link->queue);
    if (call != NULL)
        finish(call, FAULT_NONE, reply);
}

/* A callback may have ended the connection: then the reader is gone, too. */
static void take_all(struct redis_link *link)
{
    struct redis_reader *reader = link->reader;
    struct redis_reply *reply;

    for (;;) {
        if (!redis_reader_next(reader, &reply)) {
            lose(link, redis_reader_complaint(reader));
            return;
        }
        if (reply == NULL)
            return;
        take(link, reply);
        redis_reply_free(reply);
        if (link->reader != reader)
            return;
    }
}

static void on_read(h2o_socket_t *socket, const char *error)
{
    struct redis_link *link = socket->data;

    if (error != NULL) {
        lose(link, error);
        return;
    }
    while (link->socket == socket && socket->input->size > 0) {
        size_t piece = socket->input->size < FEED_BYTES ? socket->input->size : FEED_BYTES;

        if (!redis_reader_feed(link->reader, slice_of(socket->input->bytes, piece))) {
            lose(link, redis_reader_complaint(link->reader));
            return;
        }
        h2o_buffer_consume(&socket->input, piece);
        take_all(link);
    }
}

static void on_written(h2o_socket_t *socket, const char *error)
{
    struct redis_link *link = socket->data;

    if (error != NULL) {
        lose(link, error);
        return;
    }
    redis_bytes_empty(&link->flying);
    if (link->waiting.len > 0)
        loop_defer(link->loop, &link->flush);
}

/* ---- dialling ---- */

static void say(struct redis_link *link, const char *const *texts, size_t count)
{
    struct redis_words words = {0};

    for (size_t i = 0; i < count; i++)
        redis_words_borrow(&words, slice_text(texts[i]));
    redis_bytes_add(&link->flying, &words);
    redis_words_free(&words);
    link->greetings_left++;
}

/* PING last: its answer tells a server that is loading, or that wants a password, from one that is ready. */
static void greet(struct redis_link *link)
{
    const struct redis_options *options = &link->options;
    char database[16];

    move_to(link, GREETING);
    link->connections++;
    link->reader = redis_reader_new(options->max_reply_bytes);
    link->greetings_left = 0;
    if (options->password != NULL && options->user != NULL)
        say(link, (const char *const[]){"AUTH", options->user, options->password}, 3);
    else if (options->password != NULL)
        say(link, (const char *const[]){"AUTH", options->password}, 2);
    if (options->database != 0) {
        snprintf(database, sizeof(database), "%d", options->database);
        say(link, (const char *const[]){"SELECT", database}, 2);
    }
    say(link, (const char *const[]){"CLIENT", "SETNAME", options->name}, 3);
    say(link, (const char *const[]){"PING"}, 1);
    link->naming_left = 2;
    h2o_socket_read_start(link->socket, on_read);
    write_flying(link);
}

static void on_connected(h2o_socket_t *socket, const char *error)
{
    struct redis_link *link = socket->data;

    if (error == NULL) {
        greet(link);
        return;
    }
    h2o_socket_close(socket);
    link->socket = NULL;
    dial(link);
}

static void dial(struct redis_link *link)
{
    while (link->next_address < link->addresses.count) {
        size_t i = link->next_address++;
        struct sockaddr *address = (struct sockaddr *)&link->addresses.list[i];

        move_to(link, DIALLING);
        link->socket =
            h2o_socket_connect(loop_h2o(link->loop), address, link->addresses.lens[i], on_connected);
        if (link->socket != NULL) {
            link->socket->data = link;
            return;
        }
    }
    lose(link, link->addresses.count == 0 ? "the name is not known" : "connection refused");
}

static void on_resolved(void *arg, const struct redis_addresses *addresses)
{
    struct redis_link *link = arg;

    link->resolve = NULL;
    if (link->state != RESOLVING)
        return; /* too late for the dial that asked */
    link->addresses = *addresses;
    dial(link);
}

static void start_dial(struct redis_link *link)
{
    const struct redis_options *options = &link->options;
    int64_t patience_ms = options->timeout_ms > DIAL_MIN_MS ? options->timeout_ms : DIAL_MIN_MS;

    timer_start(link->loop, &link->wait, mono_after(loop_now(link->loop), patience_ms));
    link->next_address = 0;
    if (options->unix_path != NULL) {
        redis_address_unix(options->unix_path, &link->addresses);
        dial(link);
        return;
    }
    if (redis_address_read(options->host, options->port, &link->addresses)) {
        dial(link);
        return;
    }
    if (link->resolve == NULL)
        link->resolve = redis_resolve_start(link->loop, options->host, options->port, on_resolved, link);
    if (link->resolve == NULL) {
        lose(link, "no thread to resolve its name");
        return;
    }
    move_to(link, RESOLVING);
}

static void on_wait_over(void *arg)
{
    struct redis_link *link = arg;

    switch (link->state) {
    case RESTING: start_dial(link); break;
    case RESOLVING: lose(link, "its name was not resolved in time"); break;
    case DIALLING: lose(link, "no connection in time"); break;
    case GREETING: lose(link, "no answer to the greeting in time"); break;
    case UP: beat(link); break;
    case MUTE: lose(link, "it stays mute"); break;
    case LINK_STATES: CHECK(!"a state"); break;
    }
}

/* ---- commands ---- */

/* Those that callbacks add meanwhile are for the next turn. */
static void on_refusing(void *arg)
{
    struct redis_link *link = arg;
    struct link refused;

    list_init(&refused);
    list_move_all(&refused, &link->refused);
    while (!list_is_empty(&refused))
        finish(LIST_OWNER(refused.next, struct redis_call, refused), FAULT_STORE_AWAY, NULL);
}

static void refuse(struct redis_link *link, struct redis_call *call)
{
    call->place = 0;
    list_append(&link->refused, &call->refused);
    timer_start(link->loop, &link->refusing, loop_now(link->loop));
}

static bool accepts(const struct redis_link *link, size_t bytes)
{
    bool is_open = link->state == UP || (link->may_wait && link->state != MUTE);

    return is_open && redis_queue_count(&link->queue) < MAX_UNDER_WAY &&
           link->flying.len + link->waiting.len + bytes <= link->options.max_output_bytes;
}

void redis_link_send(struct redis_link *link, struct redis_call *call, const struct redis_words *words,
                     struct mono_ms give_up_at, redis_done *done, void *arg)
{
    CHECK(call->link == NULL);
    call->link = link;
    call->done = done;
    call->arg = arg;
    timer_init(&call->deadline, on_deadline, call);
    if (!accepts(link, redis_words_encoded_bytes(words))) {
        refuse(link, call);
        return;
    }
    redis_bytes_add(&link->waiting, words);
    call->place = redis_queue_push(&link->queue, call);
    timer_start(link->loop, &call->deadline, give_up_at);
    loop_defer(link->loop, &link->flush);
}

unsigned redis_link_connection(const struct redis_link *link)
{
    return link->connections;
}

bool redis_link_is_up(const struct redis_link *link)
{
    return link->state == UP;
}

struct redis_link *redis_link_new(struct loop *loop, const struct redis_options *options)
{
    struct redis_link *link = must_alloc(sizeof(*link));

    link->options = *options;
    link->loop = loop;
    if (options->unix_path != NULL)
        snprintf(link->address, sizeof(link->address), "%.130s", options->unix_path);
    else
        snprintf(link->address, sizeof(link->address), "%.120s:%d", options->host, options->port);
    link->rest_ms = REST_MIN_MS;
    link->may_wait = true;
    timer_init(&link->wait, on_wait_over, link);
    list_init(&link->refused);
    timer_init(&link->refusing, on_refusing, link);
    task_init(&link->flush, LOOP_SEND, on_flush, link);
    timer_start(loop, &link->wait, loop_now(loop)); /* the first dial begins in the loop's next turn */
    return link;
}

/* Locks that were given back in the last turn: what the kernel takes at once is still sent. */
static void say_last_words(struct redis_link *link)
{
    if (link->state == UP && link->waiting.len > 0 && !h2o_socket_is_writing(link->socket))
        (void)!send(h2o_socket_get_fd(link->socket), link->waiting.base, link->waiting.len,
                    MSG_DONTWAIT | MSG_NOSIGNAL);
}

void redis_link_free(struct redis_link *link)
{
    while (!list_is_empty(&link->refused))
        redis_call_cancel(LIST_OWNER(link->refused.next, struct redis_call, refused));
    while (redis_queue_count(&link->queue) > 0)
        if (redis_queue_first(&link->queue) != NULL)
            redis_call_cancel(redis_queue_first(&link->queue));
        else
            redis_queue_pop(&link->queue);
    say_last_words(link);
    if (link->socket != NULL)
        h2o_socket_close(link->socket);
    redis_resolve_cancel(&link->resolve);
    timer_cancel(link->loop, &link->wait);
    timer_cancel(link->loop, &link->refusing);
    task_cancel(link->loop, &link->flush);
    redis_reader_free(link->reader);
    redis_bytes_free(&link->flying);
    redis_bytes_free(&link->waiting);
    redis_queue_free(&link->queue);
    free(link);
}
