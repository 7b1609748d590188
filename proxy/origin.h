/* Origin: our HTTP/1.1 client to one upstream, one pool per worker and upstream. A fetch knows nothing of clients.
 *
 * Callbacks never run inside origin_start(). `on_end` runs exactly once and last, unless origin_cancel() was called first.
 * A request on a reused connection that fails before any response byte, and is idempotent, is sent once more on a new one.
 */
#ifndef WEIR_ORIGIN_H
#define WEIR_ORIGIN_H

#include "fault.h"
#include "slice.h"
#include "units.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct resolver;
struct origin;
struct origin_fetch;

struct origin_limits {
    struct slice host; /* name or address literal (IPv6 without brackets); copied */
    int port;
    int64_t connect_timeout_ms, first_byte_timeout_ms, idle_timeout_ms;
    int max_connections, max_pending; /* of this worker's pool */
    int retries;
};

struct origin_request {
    struct slice method, target, authority;
    const struct header *headers; /* end-to-end ones and those we add; without host, content-length, connection */
    size_t header_count;
    struct slice body; /* base NULL: none. Must live until on_end or cancel */
};

struct origin_response {
    int status;
    const struct header *headers; /* lower-case names, hop-by-hop ones removed (RFC 9110 section 7.6.1), content-length too */
    size_t header_count;
    int64_t content_length; /* -1: unknown (chunked or until close) */
    bool until_close;       /* framed by the close alone: whole only as far as TCP can tell */
};

struct origin_events {
    void (*on_head)(void *arg, const struct origin_response *head); /* slices valid during the call */
    void (*on_body)(void *arg, struct slice bytes);                 /* valid during the call */
    void (*on_end)(void *arg, enum fault fault);                    /* FAULT_NONE: the answer is whole */
};

struct origin *origin_new(struct loop *loop, struct resolver *resolver, const struct origin_limits *limits);
void origin_free(struct origin *origin); /* idle connections close; no fetch may be under way */

/* Head and slices of `request` are copied before this returns, the body is not. */
struct origin_fetch *origin_start(struct origin *origin, const struct origin_request *request,
                                  const struct origin_events *events, void *arg);
void origin_cancel(struct origin_fetch **fetch); /* takes it; allowed inside on_head and on_body too */
void origin_pause(struct origin_fetch *fetch);   /* stops reading: back-pressure; the idle timeout rests meanwhile */
void origin_resume(struct origin_fetch *fetch);
int64_t origin_waited_us(const struct origin_fetch *fetch); /* from start to the response head, for metrics */
size_t origin_under_way(const struct origin *origin);

/* Names to addresses, off the loop, one per process. */
struct resolver *resolver_new(int threads);
void resolver_free(struct resolver *resolver);

#endif
