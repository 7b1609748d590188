/* Origin tunnel: a connection to an upstream that speaks another protocol from here on, which is none of our business.
 *
 * It still counts as one of its pool's connections, and never carries a request again. Each half ends by
 * itself. Memory: one read of at most 16 KiB (the first: what came in one piece with the head, at most 64), and
 * only while its bytes are on their way.
 */
#ifndef WEIR_ORIGIN_TUNNEL_H
#define WEIR_ORIGIN_TUNNEL_H

#include "slice.h"

struct origin_tunnel;

/* None runs inside a call of ours. */
struct origin_tunnel_events {
    void (*on_bytes)(void *arg,
                     struct slice bytes); /* they stay, and no others come, until origin_tunnel_go_on() */
    void (*on_finished)(void *arg);       /* behind its last bytes: the upstream will send no more */
    void (*on_sent)(void *arg);           /* all of the last origin_tunnel_send() has left */
    void (*on_broken)(void *arg);         /* of no use any more: only to be closed */
};

/* What has already come is told first. Once. */
void origin_tunnel_open(struct origin_tunnel *tunnel, const struct origin_tunnel_events *events, void *arg);
void origin_tunnel_go_on(struct origin_tunnel *tunnel);
/* Not empty, and none may be under way. The bytes stay where they are until on_sent, or the tunnel is closed. */
void origin_tunnel_send(struct origin_tunnel *tunnel, struct slice bytes);
void origin_tunnel_finish(
    struct origin_tunnel *tunnel); /* closes our half: nothing is under way, and no more will be sent */
void origin_tunnel_close(
    struct origin_tunnel **tunnel); /* takes it; NULL is fine. No event runs afterwards */

#endif
