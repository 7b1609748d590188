/* Origin wire: one TCP connection to an upstream: connecting, sending pieces, reading.
 *
 * h2o's socket is only the poller here; bytes are sent and received by this file itself. h2o reads into a
 * buffer that grows as long as the other side is faster than we are, hides why a connection failed (errno),
 * and does not tell when a write has reached the kernel. Here one event reads at most what the caller has
 * room for.
 */
#ifndef WEIR_ORIGIN_WIRE_H
#define WEIR_ORIGIN_WIRE_H

#include "resolver.h"
#include "slice.h"

#include <stdbool.h>
#include <sys/uio.h>

struct loop;
struct st_h2o_socket_t;

struct wire {
    struct st_h2o_socket_t *socket; /* NULL: closed */
    struct iovec unsent[2];
    size_t unsent_count;
    size_t sent_bytes; /* of this send */
    bool has_failed;   /* a send found the connection broken; what can still be read may be read */
    void (*on_connected)(void *arg, bool is_connected);
    void (*on_readable)(
        void *arg);             /* bytes, end or failure: wire_receive() tells. Repeats until that is read */
    void (*on_sent)(void *arg); /* more of the pieces left, perhaps the last */
    void *arg;
};

enum wire_got {
    WIRE_BYTES,
    WIRE_NOTHING, /* not now */
    WIRE_FIN,     /* the other side ended its half in order */
    WIRE_BROKEN,
};

/* Events set by the caller before. False: refused at once, no event follows. */
bool wire_connect(struct wire *wire, struct loop *loop, const struct resolved_address *address);
/* Pieces stay where they are until wire_is_sent(). Nothing may be left of an earlier send. No event runs
 * inside. */
void wire_send(struct wire *wire, struct slice first, struct slice second);
bool wire_is_sent(const struct wire *wire);
void wire_finish(struct wire *wire); /* the other side reads an end, behind all that was sent */
void wire_listen(struct wire *wire); /* on_readable may run from now on */
void wire_deafen(struct wire *wire);
enum wire_got wire_receive(struct wire *wire, char *room, size_t room_bytes, size_t *got_out);
bool wire_is_quiet(
    struct wire *wire);             /* nothing to read, not even an end: it looks fit for another request */
void wire_close(struct wire *wire); /* fine when closed; no event runs afterwards */

#endif
