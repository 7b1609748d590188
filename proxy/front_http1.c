/* Front over HTTP/1.1: how many clients come in, and how do they all leave again?
 *
 * One h2o context for each front, with HTTP/2 and the upgrade to it off. Everything lives and dies in the
 * loop's thread. The process must ignore SIGPIPE: h2o writes with writev().
 */
#include "front_http1.h"

#include "check.h"
#include "memory.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { ACCEPTS_AT_ONCE = 16, ACCEPTS_AT_LAST = 4096, ACCEPT_AGAIN_MS = 100 };

/* Our deadlines end connections, not h2o's, which follow the wall clock. Not for ever: h2o computes "now -
 * timeout". */
#define H2O_TIMEOUT_MS (UINT64_C(365) * 24 * 3600 * 1000)

struct listener {
    struct link link;
    h2o_socket_t *sock;
};

/* ---- figures ---- */

static const struct {
    int status;
    const char *label;
} refusals[FRONT_REFUSALS] = {{400, "400"}, {408, "408"}, {413, "413"}, {414, "414"}, {417, "417"},
                              {431, "431"}, {501, "501"}, {503, "503"}, {505, "505"}, {0, "other"}};

void front_set_stats(struct front *front, struct stats *stats)
{
    front->stats = stats;
    front->accepted_id = stats_series(STATS_client_connections_accepted, NULL);
    front->open_id = stats_series(STATS_client_connections, NULL);
    for (size_t i = 0; i < FRONT_REFUSALS; i++)
        front->refused_ids[i] =
            stats_series(STATS_refused_by_front, (const char *const[]){refusals[i].label});
}

static void count(struct front *front, stats_id id, int64_t n)
{
    if (front->stats != NULL)
        stats_add(front->stats, id, n);
}

void front_refused(struct front *front, int status, const char *why, struct slice peer_text)
{
    size_t i = 0;

    while (i < FRONT_REFUSALS - 1 && refusals[i].status != status)
        i++;
    count(front, front->refused_ids[i], 1);
    if (front->app.on_refused != NULL)
        front->app.on_refused(front->app.app, status, why, peer_text);
}

/* ---- accepting ---- */

static void on_connectable(h2o_socket_t *sock, const char *err);

static void set_accepting(struct front *front, bool is_accepting)
{
    if (front->is_accepting == is_accepting)
        return;
    front->is_accepting = is_accepting;
    for (struct link *link = front->listeners.next; link != &front->listeners; link = link->next) {
        h2o_socket_t *sock = LIST_OWNER(link, struct listener, link)->sock;

        if (is_accepting)
            h2o_socket_read_start(sock, on_connectable);
        else
            h2o_socket_read_stop(sock);
    }
}

static bool is_full(const struct front *front)
{
    return front->connection_count >= (size_t)front->limits.max_connections;
}

static void resume_accepting(struct front *front)
{
    if (!is_full(front)) {
        timer_cancel(front->loop, &front->accept_again);
        set_accepting(front, true);
    }
}

static void on_accept_again(void *arg)
{
    resume_accepting(arg);
}

static void turn_away(struct front *front, h2o_socket_t *sock, const struct address *address)
{
    static const char why[] = "too many connections from this address";
    char refusal[REFUSAL_ROOM], text[46];
    size_t len = refusal_write(503, why, refusal, sizeof(refusal));
    int fd = h2o_socket_get_fd(sock);

    if (send(fd, refusal, len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)len)
        linger_begin(front, fd);
    h2o_socket_close(sock);
    front_refused(front, 503, why, slice_of(text, address_write(address, text)));
}

static struct address address_from(const struct sockaddr_storage *from)
{
    struct address address = {{0}};

    if (from->ss_family == AF_INET6) {
        memcpy(address.bytes, &((const struct sockaddr_in6 *)from)->sin6_addr, 16);
    } else { /* IPv4-mapped */
        address.bytes[10] = address.bytes[11] = 0xff;
        if (from->ss_family == AF_INET)
            memcpy(address.bytes + 12, &((const struct sockaddr_in *)from)->sin_addr, 4);
    }
    return address;
}

static void welcome(struct front *front, h2o_socket_t *sock)
{
    struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
    struct address address;
    struct peer *peer;
    int of_address;

    h2o_socket_getpeername(sock,
                           (struct sockaddr *)&from); /* leaves it alone where the client is gone already */
    address = address_from(&from);
    count(front, front->accepted_id, 1);
    peer = peers_join(front->peers, &address, &of_address);
    if (front->limits.max_per_address > 0 && of_address > front->limits.max_per_address) {
        peers_leave(front->peers, peer);
        turn_away(front, sock, &address);
        return;
    }
    connection_new(front, sock, &address, peer)->address.room = from;
    count(front, front->open_id, 1);
}

/* False when none waits, or none may come in now. */
static bool accept_one(struct front *front, h2o_socket_t *listener)
{
    h2o_socket_t *sock;

    if (is_full(front)) {
        set_accepting(front, false);
        return false;
    }
    sock = h2o_evloop_socket_accept(listener);
    if (sock != NULL) {
        welcome(front, sock);
        return true;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        /* level-triggered: the loop would spin on a client that cannot be accepted */
        set_accepting(front, false);
        timer_start(front->loop, &front->accept_again, mono_after(loop_now(front->loop), ACCEPT_AGAIN_MS));
    }
    return false;
}

static void on_connectable(h2o_socket_t *listener, const char *err)
{
    (void)err;
    for (int i = 0; i < ACCEPTS_AT_ONCE && accept_one(listener->data, listener); i++)
        continue;
}

void front_listen(struct front *front, int fd)
{
    struct listener *listener = must_alloc(sizeof(*listener));

    listener->sock = h2o_evloop_socket_create(loop_h2o(front->loop), fd, H2O_SOCKET_FLAG_DONT_READ);
    listener->sock->data = front;
    list_append(&front->listeners, &listener->link);
    if (front->is_accepting)
        h2o_socket_read_start(listener->sock, on_connectable);
}

/* Clients in the kernel's queue are let in first: the close would reset them. */
void front_stop_listening(struct front *front)
{
    while (!list_is_empty(&front->listeners)) {
        struct listener *listener = LIST_OWNER(front->listeners.next, struct listener, link);

        for (int i = 0; i < ACCEPTS_AT_LAST && accept_one(front, listener->sock); i++)
            continue;
        list_leave(&listener->link);
        h2o_socket_close(listener->sock);
        free(listener);
    }
    timer_cancel(front->loop, &front->accept_again);
}

void front_closed_one(struct front *front)
{
    front->connection_count--;
    count(front, front->open_id, -1);
    resume_accepting(front);
}

/* ---- leaving ---- */

/* Ending one connection may end others, by what the story does when its requests are gone: so each is taken
 * off the list's front, and those which only end later are back in the list by then. */
static void end_connections(struct front *front, bool (*which)(const struct connection *c))
{
    struct link left;

    list_init(&left);
    list_move_all(&left, &front->connections);
    while (!list_is_empty(&left)) {
        struct connection *c = LIST_OWNER(left.next, struct connection, place);

        list_leave(&c->place);
        list_append(&front->connections, &c->place);
        if (which == NULL || which(c))
            connection_depart(c);
    }
}

void front_drain(struct front *front)
{
    front->is_draining = true;
    front->context.shutdown_requested = 1; /* h2o says "Connection: close" to requests it reads from now on */
    end_connections(front, connection_is_idle);
}

static void on_abort(void *arg)
{
    end_connections(arg, NULL);
}

/* Not at once: it may be called between two turns, where nothing may be written. */
void front_abort(struct front *front)
{
    loop_defer(front->loop, &front->abort);
}

/* ---- the front itself ---- */

void front_set_limits(struct front *front, const struct front_limits *limits)
{
    front->limits = *limits;
    /* One more than allowed: h2o refuses a chunked body that just reaches its limit. We refuse the one above.
     */
    front->config.max_request_entity_size = limits->max_body_bytes + 1;
    if (is_full(front))
        set_accepting(front, false);
    else
        resume_accepting(front);
}

static void configure(struct front *front)
{
    h2o_globalconf_t *config = &front->config;
    h2o_hostconf_t *host;

    h2o_config_init(config);
    config->http1.upgrade_to_http2 = 0;
    config->http1.req_timeout = H2O_TIMEOUT_MS;
    config->server_name = h2o_iovec_init("", 0); /* no Server field */
    host = h2o_config_register_host(config, h2o_iovec_init(H2O_STRLIT("default")), 65535);
    requests_register(front, host);
}

struct front *front_new(struct loop *loop, const struct front_limits *limits, const struct front_app *app)
{
    struct front *front = must_alloc(sizeof(*front));

    front->loop = loop;
    front->app = *app;
    front->is_accepting = true;
    list_init(&front->listeners);
    list_init(&front->connections);
    list_init(&front->arrivals);
    list_init(&front->unsettled);
    list_init(&front->lingerers);
    task_init(&front->arrive, LOOP_ARRIVE, requests_arrive, front);
    task_init(&front->settle, LOOP_SETTLE, connections_settle, front);
    task_init(&front->abort, LOOP_ARRIVE, on_abort, front);
    timer_init(&front->accept_again, on_accept_again, front);
    front->peers = front->own_peers = peers_new();
    configure(front);
    h2o_context_init(&front->context, loop_h2o(loop), &front->config);
    front->accept = (h2o_accept_ctx_t){.ctx = &front->context, .hosts = front->config.hosts};
    front_set_limits(front, limits);
    return front;
}

void front_free(struct front *front)
{
    CHECK(front->connection_count == 0);
    front_stop_listening(front);
    lingerers_end(front);
    task_cancel(front->loop, &front->arrive);
    task_cancel(front->loop, &front->settle);
    task_cancel(front->loop, &front->abort);
    peers_free(front->own_peers);
    h2o_context_dispose(&front->context);
    h2o_config_dispose(&front->config);
    free(front);
}

void front_share_peers(struct front *front, struct peers *peers)
{
    CHECK(front->connection_count == 0);
    front->peers = peers;
}

size_t front_connections(const struct front *front)
{
    return front->connection_count;
}

size_t front_requests(const struct front *front)
{
    return front->request_count;
}
