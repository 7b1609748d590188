/* Front over HTTP/1.1 by libh2o: what its files share. Nobody else includes this; the story knows front.h.
 *
 * h2o owns each connection's socket and parses and writes on it. We hang ourselves on three of its hooks: the
 * handler (a whole request), the request pool's disposal (the end of a request, whichever way), and the
 * socket's on_close. Between requests we stand before h2o's read callback, to know when a head begins and to
 * keep our own deadlines.
 */
#ifndef WEIR_FRONT_HTTP1_H
#define WEIR_FRONT_HTTP1_H

#include "chunked.h"
#include "front.h"
#include "identity.h"
#include "list.h"
#include "peers.h"
#include "loop.h"
#include "loop_h2o.h"
#include "stats.h"

struct peer;

enum { FRONT_REFUSALS = 10 }; /* statuses that are counted apart */

struct front {
    struct loop *loop;
    struct front_limits limits;
    struct front_app app;
    struct stats *stats; /* NULL: none, and the ids are not valid */
    stats_id accepted_id, open_id, refused_ids[FRONT_REFUSALS];
    h2o_globalconf_t config;
    h2o_context_t context;
    h2o_accept_ctx_t accept;
    struct link listeners;
    bool is_accepting;         /* the listeners are being read */
    struct timer accept_again; /* after the process ran out of descriptors */
    bool is_draining;
    struct link connections;
    size_t connection_count, request_count;
    struct peers *peers, *own_peers; /* connections by address; own: where they are not shared */
    struct link arrivals;            /* requests, to be shown in LOOP_ARRIVE */
    struct link unsettled;           /* connections, to be looked at in LOOP_SETTLE */
    struct task arrive, settle, abort;
    struct link lingerers;
    size_t lingerer_count;
};

enum connection_state {
    AWAITS_REQUEST, /* not a byte of it yet */
    READS_HEAD,
    READS_BODY, /* or h2o writes words of its own, a 100 or a refusal */
    ANSWERS,    /* a request of ours is under way */
};

struct connection {
    struct front *front;
    h2o_socket_t *sock;
    h2o_socket_cb read_by_h2o;
    struct link place;     /* in front->connections */
    struct link unsettled; /* in front->unsettled */
    struct client_request *request;
    enum connection_state state;
    struct mono_ms since;  /* in this state */
    struct timer deadline; /* may be early: it looks at the state and starts again, see on_deadline() */
    bool had_request;
    bool is_watched;     /* for its departure, while it waits */
    bool is_blind;       /* more requests have arrived behind this one, so that a departure cannot be read */
    bool has_left;       /* or was told to: only waits for h2o to notice */
    bool may_be_refused; /* h2o stopped reading before it showed a request */
    bool *closed;        /* set when the connection is freed, for a caller that is still on the stack */
    size_t head_scanned; /* bytes of the input known to hold no end of a head */
    bool is_chunked;     /* the request being read */
    struct chunked chunks;
    size_t checked_bytes;            /* of the input: h2o has decoded them */
    h2o_socket_cb words_sent_by_h2o; /* its callback, while it writes a "100 Continue" */
    uint64_t acked_bytes;            /* by the client's kernel, when last looked at during a write */
    struct mono_ms stalled_since;
    bool is_sampled; /* the two above are of this write */
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_storage room;
    } address;
    struct peer *peer;
    char peer_text[46];
    size_t peer_text_len;
};

struct tunnel;

enum framing { FRAMED_BY_LENGTH, FRAMED_IN_CHUNKS, FRAMED_BY_CLOSE, FRAMED_WITHOUT_BODY };

struct client_request {
    h2o_generator_t generator;
    h2o_req_t *h2o;
    struct connection *connection;
    struct link arrival; /* in front->arrivals */
    struct request_head head;
    void (*gone)(void *arg);
    void *gone_arg;
    void (*on_ready)(void *arg);
    void *ready_arg;
    struct task say_ready; /* for sends of which nothing was written */
    bool is_started;       /* the answer's head is known */
    bool is_head_sent;
    bool is_sending; /* a write is under way */
    bool is_ended;   /* the last piece was given, or the answer given up */
    bool lingers; /* refused: what the client still sends is read and dropped, so that it sees the answer */
    enum framing framing;
    int64_t left_bytes; /* of the content length */
    char chunk_head[20];
    char date[H2O_TIMESTR_RFC1123_LEN + 1]; /* of the answer's making, or empty: now */
    struct slice early;                     /* what its client has already sent behind it */
    struct tunnel *tunnel;                  /* what its connection has become, or NULL */
};

/* front_http1.c */
void front_refused(struct front *front, int status, const char *why, struct slice peer_text);
void front_closed_one(struct front *front); /* there is room for another connection */

/* front_http1_connection.c */
struct connection *connection_new(struct front *front, h2o_socket_t *sock, const struct address *address,
                                  struct peer *peer);
void connection_enter(struct connection *connection, enum connection_state state);
void connection_check_within(struct connection *connection, int64_t wait_ms);
void connection_unsettle(struct connection *connection);
void connection_unwatch(struct connection *connection);
void connection_depart(struct connection *connection); /* ends it, at once or in this turn: last statement */
bool connection_is_idle(const struct connection *connection);
void connections_settle(void *front);

/* front_http1_chunks.c */
void chunks_begin(struct connection *connection, size_t head_bytes); /* of a whole head, before h2o sees it */
bool chunks_are_sound(
    struct connection *connection); /* what h2o has not seen yet; true where nothing is chunked */
/* Does what is already here behind a request hold the head of a chunked one? h2o would decode that unseen. */
bool chunks_are_ahead(const struct slice *behind);

/* front_http1_request.c */
struct connection *connection_of(h2o_req_t *req);
void requests_register(struct front *front, h2o_hostconf_t *host);
void requests_arrive(void *front);
/* A whole refusal as bytes, for a connection on which h2o has no request. Returns its length. */
size_t refusal_write(int status, const char *why, char *out, size_t room);
enum { REFUSAL_ROOM = 1024 };

/* front_http1_answer.c */
void answer_abandon(struct client_request *request); /* nothing is being sent: last statement */

/* front_http1_tunnel.c */
void tunnel_dispose(struct client_request *request); /* fine where there is none */

/* front_http1_tcp.c: what the kernel knows of a connection */
bool tcp_acked_bytes(int fd, uint64_t *out); /* false: it cannot tell */
bool tcp_peer_is_there(int fd);

/* front_http1_linger.c: the client of a refused request may still be sending; closing at once would reset the
 * connection and take the answer from it. Keeps a duplicate of the socket for a short while after h2o has
 * closed its own. */
void linger_begin(struct front *front, int fd); /* `fd` is still h2o's, and about to be closed */
void lingerers_end(struct front *front);

#endif
