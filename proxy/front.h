/* Front: how the story knows a client. Request in; head, body pieces, end or failure out; "ready" and "gone"
 * back.
 *
 * A client_request lives until its `gone` callback has run: after the last byte of the answer left, or when
 * the client left, whichever way it ended. That callback is the only cleanup and runs exactly once. Every
 * slice of the request, and all memory of client_alloc(), lives exactly as long. All of this belongs to one
 * loop's thread.
 */
#ifndef WEIR_FRONT_H
#define WEIR_FRONT_H

#include "slice.h"
#include "units.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

struct client_request;
struct front;
struct loop;
struct stats;
struct peers;

enum { CLIENT_MAX_PIECES = 64 }; /* of one client_send() */

struct request_head {
    struct slice method;    /* a token, upper case known methods compare byte for byte */
    struct slice target;    /* origin form as received: starts with '/', may hold '?' */
    struct slice authority; /* Host (or absolute form), lower case, default port removed */
    bool is_tls;
    bool is_http10;
    const struct header
        *headers; /* names lower case, values trimmed; without host, content-length, transfer-encoding,
                     expect and upgrade, which belong to the message framing */
    size_t header_count;
    struct slice body; /* whole; base NULL: the request has none */
    struct slice
        upgrade; /* the protocols, none of them HTTP, that it would rather speak from here on: see client_switch().
                             Base NULL: none. Whatever else it is answered ends the connection: who believes that the protocol
                             has changed must not have what it says read as requests */
    const struct sockaddr *peer;
    struct slice peer_text; /* the address alone: "192.0.2.1", "2001:db8::1" */
};

struct response_head {
    int status; /* 200..999 */
    const struct header
        *headers; /* lower-case names; without date, connection, content-length, transfer-encoding. Names are
                     tokens and values hold no control bytes: whoever made them has seen to it */
    size_t header_count;
    int64_t content_length; /* -1: unknown, framed by the front. Bytes beyond it are never sent; an answer
                               that ends before it is one that broke */
    struct slice date; /* an IMF-fixdate (RFC 9110 section 5.6.7): when the answer was made; base NULL: now */
};

enum client_piece {
    CLIENT_MORE,
    CLIENT_LAST,
    CLIENT_BROKEN /* the client must see a failure, not a short success */
};

/* What the story gives the front. `on_request` runs in the loop's LOOP_ARRIVE phase, never inside the parser.
 * Requests whose client left before that are never shown. `on_refused` tells of a request the front answered
 * itself (400, 413, 431, ...), for the log. */
struct front_app {
    void (*on_request)(void *app, struct client_request *request);
    void (*on_refused)(void *app, int status, const char *why, struct slice peer_text);
    void *app;
};

/* The `code` of the problem that clients get with such a refusal. */
const char *front_refusal_code(int status);

struct front_limits {
    size_t max_body_bytes, max_header_bytes;
    int max_headers, max_connections /* of this front */, max_per_address /* 0: no cap */;
    int64_t header_timeout_ms, body_timeout_ms, idle_timeout_ms, write_timeout_ms;
};

const struct request_head *client_head(const struct client_request *request);
void *client_alloc(struct client_request *request, size_t bytes); /* zeroed, freed after `gone` */
/* Set once, before anything else. A client that closes its half of the connection while it waits has left,
 * too. */
void client_on_gone(struct client_request *request, void (*gone)(void *arg), void *arg);

/* A forerunner of the answer (RFC 9110 section 15.2), status 102 to 199: sent at once or, where this client or its
 * connection cannot take one now, not at all. Before client_start(), as often as there are some. Never ends the
 * request. */
void client_inform(struct client_request *request, int status, const struct header *headers, size_t count);

/* The answer's head; nothing is written yet. `on_ready` runs (on a later event, never inside client_send)
 * when the pieces of the last client_send() are no longer needed and more may be sent; never after
 * CLIENT_LAST or CLIENT_BROKEN. Head and header bytes are copied or must live until gone: they are not
 * copied. */
void client_start(struct client_request *request, const struct response_head *head,
                  void (*on_ready)(void *arg), void *arg);

/* One send may be under way. The bytes stay where they are until on_ready or gone. The first send of all may
 * have no pieces with CLIENT_MORE (it sends the head alone). For HEAD, 204 and 304 the front drops body bytes
 * itself. After CLIENT_LAST or CLIENT_BROKEN the request may be gone when the call returns: let it be the
 * last statement. */
void client_send(struct client_request *request, const struct slice *pieces, size_t count,
                 enum client_piece how);

/* ---- tunnels ---- */

/* None runs inside a call of ours, and none once the request is gone. */
struct client_tunnel_events {
    void (*on_bytes)(
        void *arg,
        struct slice bytes);        /* they stay, and no others come, until client_tunnel_go_on(), nor do the
                                                        first before that */
    void (*on_finished)(void *arg); /* behind its last bytes: the client will send no more */
    void (*on_sent)(void *arg);     /* all of the last client_tunnel_send() has left */
};

/* In place of client_start(), for a request with `upgrade`: answers 101 with these fields, of which Upgrade is one. From then on
 * the connection carries bytes, each half until it ends by itself. What the client said before it could know is told first. A client
 * that breaks the connection, or takes no byte for write_timeout, is gone. `headers` as with client_start(). */
void client_switch(struct client_request *request, const struct header *headers, size_t header_count,
                   const struct client_tunnel_events *events, void *arg);
void client_tunnel_go_on(struct client_request *request);
/* Not empty, and none may be under way: the 101 itself counts as the first. The bytes stay where they are until on_sent or gone. */
void client_tunnel_send(struct client_request *request, struct slice bytes);
void client_tunnel_finish(
    struct client_request *request); /* closes our half: nothing is under way, and no more will be sent */
/* Ends the connection, with `is_broken` so that the client can tell. The request may be gone when it returns: last statement. */
void client_tunnel_close(struct client_request *request, bool is_broken);

/* One front per worker. Listening sockets are added by the worker (already bound and listening, fd passes to
 * the front). The process must ignore SIGPIPE. A client with `max_per_address` connections to this front gets
 * a 503 on the next one; IPv6 addresses count by their /64. At `max_connections` the front does not accept:
 * clients wait in the kernel's queue. */
struct front *front_new(struct loop *loop, const struct front_limits *limits, const struct front_app *app);
/* Counts addresses together with other fronts, for max_per_address; before the first connection. Without it:
 * by itself. */
void front_share_peers(struct front *front, struct peers *peers);
void front_set_limits(struct front *front,
                      const struct front_limits *limits); /* reload: for what comes from now on */
void front_set_stats(struct front *front,
                     struct stats *stats); /* this thread's; without them nothing is counted */
void front_listen(struct front *front, int fd);
void front_stop_listening(struct front *front);
void front_drain(struct front *front); /* idle connections close now, others after their answer */
size_t front_connections(const struct front *front);
size_t front_requests(const struct front *front); /* under way */
void front_abort(struct front *front); /* shuts every connection down; they end in the next turns */
void front_free(struct front *front);  /* no connection may be left */

#endif
