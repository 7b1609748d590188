/* Origin: our HTTP/1.1 client to one upstream, one pool per worker and upstream. A fetch knows nothing of
 * clients.
 *
 * Callbacks never run inside origin_start(). `on_end` runs exactly once and last (the fetch is gone by then),
 * unless origin_cancel() was called first. A request whose connection breaks before any response byte is sent
 * once more on a new one, where policies/retry allows it.
 *
 * Every wait ends: for one of the pool's connections and, once the request has been written, for the whole
 * response head after first_byte_timeout each; for resolving and connecting together after connect_timeout;
 * for more of the body, or for the upstream to take more of ours, after idle_timeout.
 *
 * A request with `upgrade` gets a connection of its own. Where the upstream agrees, `on_switched` runs in place of all other events,
 * once and last, and brings the tunnel that the connection has become; any other answer is an answer like all.
 */
#ifndef WEIR_ORIGIN_H
#define WEIR_ORIGIN_H

#include "fault.h"
#include "resolver.h" /* resolver_new(): one per process */
#include "slice.h"
#include "units.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct origin;
struct origin_fetch;
struct origin_tunnel; /* origin_tunnel.h */

struct origin_limits {
    struct slice host; /* name or address literal (IPv6 without brackets); copied */
    int port;
    int64_t connect_timeout_ms, first_byte_timeout_ms, idle_timeout_ms;
    int max_connections, max_pending; /* of this worker's pool */
    int retries;
    int64_t keep_idle_ms; /* how long an unused connection is kept; 0: idle_timeout */
};

struct origin_request {
    struct slice method, target, authority;
    const struct header
        *headers; /* end-to-end ones and those we add; without host, content-length, connection */
    size_t header_count;
    struct slice body; /* base NULL: none. Must live until on_end or cancel */
    struct slice
        upgrade; /* the protocols to change to; base NULL: none. Then without a body, and with on_switched */
};

struct origin_response {
    int status;
    const struct header
        *headers; /* lower-case names, hop-by-hop ones removed (RFC 9110 section 7.6.1), content-length too */
    size_t header_count;
    int64_t content_length; /* -1: unknown (chunked or until close). To HEAD and with 304: what was stated,
                               with no body */
    bool until_close;       /* framed by the close alone: whole only as far as TCP can tell */
};

struct origin_events {
    void (*on_head)(void *arg, const struct origin_response *head); /* slices valid during the call */
    void (*on_body)(void *arg, struct slice bytes);                 /* valid during the call */
    void (*on_end)(void *arg, enum fault fault);                    /* FAULT_NONE: the answer is whole */
    /* NULL: not wanted. A forerunner (1xx save 100 and 101) of the answer, before on_head: its status and fields */
    void (*on_interim)(void *arg, const struct origin_response *interim); /* slices valid during the call */
    /* `head` as in on_head, its status 101 and one of its fields Upgrade. The tunnel is the callee's. */
    void (*on_switched)(void *arg, const struct origin_response *head, struct origin_tunnel *tunnel,
                        int64_t waited_us);
};

struct origin *origin_new(struct loop *loop, struct resolver *resolver, const struct origin_limits *limits);
/* Idle connections close. No fetch may be under way, and none of its callbacks may be on the stack. Give the
 * loop one more turn before it ends: a cancelled lookup may still be a letter in its box. */
void origin_free(struct origin *origin);

/* Head and slices of `request` are copied before this returns, the body is not. */
struct origin_fetch *origin_start(struct origin *origin, const struct origin_request *request,
                                  const struct origin_events *events, void *arg);
void origin_cancel(
    struct origin_fetch **fetch); /* takes it; allowed inside on_head and on_body too, not in on_end */
/* Stops reading the body: back-pressure; the idle timeout rests meanwhile. What was already read (at most 64
 * KiB) still arrives when this is called inside on_body. Before the response head it takes effect behind it.
 */
void origin_pause(struct origin_fetch *fetch);
void origin_resume(struct origin_fetch *fetch);
/* True: all of the request has left, so its body may go; it is not sent a second time any more. */
bool origin_let_go_of_body(struct origin_fetch *fetch);
int64_t origin_waited_us(const struct origin_fetch *fetch); /* from start to the response head, for metrics */
size_t origin_under_way(const struct origin *origin);

#endif
