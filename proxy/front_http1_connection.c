/* Front, connection: what is a client's connection waiting for, and for how long may it?
 *
 * One timer a connection. It is started when a deadline comes nearer, and otherwise left alone: when it fires
 * it looks at the state the connection is in now, ends it or starts again. So a busy connection costs the
 * heap nothing.
 *
 * While a request is being answered h2o does not read, and would learn of a client's departure from a failing
 * write only. So where an answer is still open at the end of a turn we read in h2o's place, without taking a
 * byte (see watch()). A request that is answered in its turn never pays for this.
 */
#include "front_http1.h"

#include "check.h"
#include "memory.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { BLIND_CHECK_MS = 1000 };

static struct slice peer_text(const struct connection *c)
{
    return slice_of(c->peer_text, c->peer_text_len);
}

void connection_check_within(struct connection *c, int64_t wait_ms)
{
    struct mono_ms at = mono_after(loop_now(c->front->loop), wait_ms);

    if (c->deadline.place == 0 || at.ms < c->deadline.at.ms)
        timer_start(c->front->loop, &c->deadline, at);
}

void connection_unsettle(struct connection *c)
{
    if (!list_is_empty(&c->unsettled))
        return;
    list_append(&c->front->unsettled, &c->unsettled);
    loop_defer(c->front->loop, &c->front->settle);
}

static int64_t patience_ms(const struct connection *c)
{
    const struct front_limits *limits = &c->front->limits;

    switch (c->state) {
    case AWAITS_REQUEST: return c->had_request ? limits->idle_timeout_ms : limits->header_timeout_ms;
    case READS_HEAD: return limits->header_timeout_ms;
    case READS_BODY: return limits->body_timeout_ms;
    case ANSWERS: break;
    }
    return INT64_MAX; /* the story's own deadlines count, and ours for writing */
}

void connection_enter(struct connection *c, enum connection_state state)
{
    c->state = state;
    c->since = loop_now(c->front->loop);
    c->head_scanned = 0;
    c->may_be_refused = c->is_blind = c->is_sampled = false;
    if (state != ANSWERS)
        connection_check_within(c, patience_ms(c));
}

bool connection_is_idle(const struct connection *c)
{
    char byte;

    return c->state == AWAITS_REQUEST && c->sock->input->size == 0 &&
           recv(h2o_socket_get_fd(c->sock), &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0;
}

/* ---- ends ---- */

static void on_closed(void *arg)
{
    struct connection *c = arg;
    struct front *front = c->front;

    CHECK(c->request == NULL);
    if (c->may_be_refused)
        front_refused(front, 400, "not a request of HTTP/1.1", peer_text(c));
    if (c->closed != NULL)
        *c->closed = true;
    timer_cancel(front->loop, &c->deadline);
    list_leave(&c->place);
    list_leave(&c->unsettled);
    peers_leave(c->front->peers, c->peer);
    free(c);
    front_closed_one(front);
}

/* h2o is told that the client closed, and closes. Only where no request of ours is under way. */
static void hang_up(struct connection *c)
{
    CHECK(c->request == NULL);
    c->may_be_refused = false;
    c->read_by_h2o(c->sock, "closed by the front");
}

/* Where h2o has no request to answer, the refusal is written past it. What does not fit the kernel's buffer
 * is lost. */
static void refuse_and_hang_up(struct connection *c, int status, const char *why)
{
    char refusal[REFUSAL_ROOM];
    size_t len = refusal_write(status, why, refusal, sizeof(refusal));
    int fd = h2o_socket_get_fd(c->sock);

    if (h2o_socket_is_reading(c->sock) && c->sock->ssl == NULL) { /* else h2o is writing something itself */
        if (send(fd, refusal, len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)len)
            linger_begin(c->front, fd);
    }
    front_refused(c->front, status, why, peer_text(c));
    hang_up(c);
}

void connection_depart(struct connection *c)
{
    if (c->request == NULL) {
        hang_up(c);
        return;
    }
    connection_unwatch(c);
    c->has_left = true;
    shutdown(h2o_socket_get_fd(c->sock), SHUT_RDWR); /* a write under way fails now, and h2o closes */
    if (!c->request->is_sending)
        answer_abandon(c->request);
}

/* ---- between requests ---- */

/* The bytes of the head, with the empty line that ends it; 0 while that is not here. */
static size_t whole_head_bytes(struct connection *c)
{
    const char *bytes = c->sock->input->bytes;
    size_t size = c->sock->input->size, at = c->head_scanned;

    while (at < size) {
        const char *lf = memchr(bytes + at, '\n', size - at);
        size_t next;

        if (lf == NULL)
            break;
        next = (size_t)(lf - bytes) + 1;
        if (next < size && bytes[next] == '\r')
            next++;
        if (next >= size) { /* the deciding byte is not here yet */
            c->head_scanned = (size_t)(lf - bytes);
            return 0;
        }
        if (bytes[next] == '\n')
            return next + 1;
        at = (size_t)(lf - bytes) + 1;
    }
    c->head_scanned = size;
    return 0;
}

/* Then what h2o writes may be a "100 Continue"; it has lowered the names of a head that it liked. */
static bool asked_to_continue(const struct connection *c)
{
    return memmem(c->sock->input->bytes, c->sock->input->size, "\nexpect:", 8) != NULL;
}

static void on_input(h2o_socket_t *sock, const char *err);

static void on_words_sent(h2o_socket_t *sock, const char *err)
{
    struct connection *c = sock->on_close.data;
    bool is_closed = false;

    c->closed = &is_closed;
    c->words_sent_by_h2o(sock, err);
    if (is_closed)
        return;
    c->closed = NULL;
    c->checked_bytes = sock->input->size;
    if (c->state == READS_BODY && h2o_socket_is_reading(sock)) {
        c->read_by_h2o = sock->_cb.read;
        h2o_socket_read_start(sock, on_input);
    }
}

/* h2o writes "100 Continue", and would read the body without us when that has left. */
static void watch_words(struct connection *c)
{
    if (!c->is_chunked || c->sock->_cb.write == NULL)
        return;
    c->words_sent_by_h2o = c->sock->_cb.write;
    c->sock->_cb.write = on_words_sent;
}

/* h2o has read and shown no request. What is it waiting for now? May end the connection. */
static void look_at_part(struct connection *c)
{
    if (c->sock->input->size == 0)
        return;
    if (!h2o_socket_is_reading(c->sock)) {
        connection_enter(c, READS_BODY);
        c->may_be_refused = !asked_to_continue(c);
        if (!c->may_be_refused)
            watch_words(c);
        return;
    }
    if (c->state == READS_BODY) {
        c->checked_bytes = c->sock->input->size;
        return;
    }
    if (c->state == AWAITS_REQUEST)
        connection_enter(c, READS_HEAD);
    if (whole_head_bytes(c) > 0) {
        connection_enter(c, READS_BODY);
        c->checked_bytes = c->sock->input->size;
        if (!c->is_chunked) /* h2o alone knows what to do with its bytes */
            h2o_socket_read_start(c->sock, c->read_by_h2o);
    } else if (c->sock->input->size > c->front->limits.max_header_bytes) {
        refuse_and_hang_up(c, 431, "the request's header fields are too large");
    }
}

static bool is_sound_so_far(struct connection *c)
{
    if (c->state == READS_HEAD) {
        size_t head_bytes = whole_head_bytes(c);

        if (head_bytes == 0)
            return true;
        chunks_begin(c, head_bytes);
    }
    return chunks_are_sound(c);
}

static void on_input(h2o_socket_t *sock, const char *err)
{
    struct connection *c = sock->on_close.data;
    bool is_closed = false;

    if (err == NULL && c->state == AWAITS_REQUEST && sock->input->size > 0)
        connection_enter(c, READS_HEAD);
    if (err == NULL && !is_sound_so_far(c)) {
        refuse_and_hang_up(c, 400, "the request's body is malformed");
        return;
    }
    c->closed = &is_closed;
    c->read_by_h2o(sock, err);
    if (is_closed)
        return;
    c->closed = NULL;
    if (c->state != ANSWERS)
        look_at_part(c);
}

static void stand_before_h2o(struct connection *c)
{
    if (!h2o_socket_is_reading(c->sock) || c->sock->_cb.read == on_input)
        return;
    c->read_by_h2o = c->sock->_cb.read;
    h2o_socket_read_start(c->sock, on_input);
    look_at_part(c);
}

/* ---- while an answer is open ---- */

static void on_peek(h2o_socket_t *sock, const char *err)
{
    struct connection *c = sock->on_close.data;
    char byte;
    ssize_t got = recv(h2o_socket_get_fd(sock), &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    (void)err; /* h2o did not read, so it has no opinion */
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got > 0) { /* the next request: it would be readable for as long as this one takes */
        connection_unwatch(c);
        c->is_blind = true;
        connection_check_within(c, BLIND_CHECK_MS);
        return;
    }
    connection_depart(c);
}

/* h2o has stopped reading in this turn, and the socket is still registered with epoll: reading on costs no
 * system call. */
static void watch(struct connection *c)
{
    if (c->is_watched || c->is_blind || c->has_left || h2o_socket_is_reading(c->sock))
        return;
    c->is_watched = true;
    h2o_socket_dont_read(c->sock, 1);
    h2o_socket_read_start(c->sock, on_peek);
}

void connection_unwatch(struct connection *c)
{
    if (!c->is_watched)
        return;
    c->is_watched = false;
    if (h2o_socket_is_reading(c->sock))
        h2o_socket_read_stop(c->sock);
    h2o_socket_dont_read(c->sock, 0);
}

void connections_settle(void *arg)
{
    struct front *front = arg;

    while (!list_is_empty(&front->unsettled)) {
        struct connection *c = LIST_OWNER(front->unsettled.next, struct connection, unsettled);

        list_leave(&c->unsettled);
        if (c->request == NULL && front->is_draining && connection_is_idle(c))
            hang_up(c); /* its answer began before the drain, and promised to go on */
        else if (c->request == NULL)
            stand_before_h2o(c);
        else if (!c->request->is_ended && c->request->tunnel == NULL)
            watch(c);
    }
}

/* ---- the deadline ---- */

/* A write counts as stuck when the client's kernel took no byte of it for write_timeout. Looked at four times
 * in that time, and not when the write starts: most end at once. */
static void check_write(struct connection *c)
{
    struct mono_ms now = loop_now(c->front->loop);
    int64_t timeout_ms = c->front->limits.write_timeout_ms;
    uint64_t acked_bytes = 0;

    tcp_acked_bytes(h2o_socket_get_fd(c->sock), &acked_bytes);
    if (!c->is_sampled || acked_bytes != c->acked_bytes) {
        c->is_sampled = true;
        c->acked_bytes = acked_bytes;
        c->stalled_since = now;
    } else if (now.ms - c->stalled_since.ms >= timeout_ms) {
        connection_depart(c);
        return;
    }
    connection_check_within(c, timeout_ms / 4 + 1);
}

static void check_answer(struct connection *c)
{
    if (c->has_left)
        return;
    if (c->request->is_sending) {
        check_write(c);
    } else if (c->is_blind) {
        if (tcp_peer_is_there(h2o_socket_get_fd(c->sock)))
            connection_check_within(c, BLIND_CHECK_MS);
        else
            connection_depart(c);
    }
}

static void on_deadline(void *arg)
{
    struct connection *c = arg;
    int64_t left_ms;

    if (c->state == ANSWERS) {
        check_answer(c);
        return;
    }
    left_ms = patience_ms(c) - (loop_now(c->front->loop).ms - c->since.ms);
    if (left_ms > 0) {
        connection_check_within(c, left_ms);
        return;
    }
    switch (c->state) {
    case AWAITS_REQUEST: hang_up(c); return;
    case READS_HEAD: refuse_and_hang_up(c, 408, "the request's head took too long"); return;
    case READS_BODY: refuse_and_hang_up(c, 408, "the request's body took too long"); return;
    case ANSWERS: return;
    }
}

struct connection *connection_new(struct front *front, h2o_socket_t *sock, const struct address *address,
                                  struct peer *peer)
{
    struct connection *c = must_alloc(sizeof(*c));

    c->front = front;
    c->sock = sock;
    c->peer = peer;
    c->peer_text_len = address_write(address, c->peer_text);
    list_append(&front->connections, &c->place);
    front->connection_count++;
    list_init(&c->unsettled);
    timer_init(&c->deadline, on_deadline, c);
    sock->on_close.cb = on_closed;
    sock->on_close.data = c;
    connection_enter(c, AWAITS_REQUEST);
    h2o_accept(&front->accept, sock);
    c->read_by_h2o = sock->_cb.read;
    h2o_socket_read_start(sock, on_input);
    return c;
}
