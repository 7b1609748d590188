/* Origin tunnel link: how the origin makes a tunnel out of one of its connections. For origin.c alone. */
#ifndef WEIR_ORIGIN_TUNNEL_LINK_H
#define WEIR_ORIGIN_TUNNEL_LINK_H

#include "origin_pool.h"
#include "origin_tunnel.h"

/* Takes the link, which has sent all that it had to send; `early` has come behind the head, and is copied. */
struct origin_tunnel *origin_tunnel_new(struct link *link, struct slice early);

#endif
