/* Peers: how many connections does one address have, over all workers? Shared by threads, a mutex held for no
 * call out. */
#ifndef WEIR_PEERS_H
#define WEIR_PEERS_H

#include "identity.h"

struct peer;
struct peers;

struct peers *peers_new(void);
void peers_free(struct peers *peers); /* every peer has left */

/* One more connection of this address (IPv6 by /64); `*connections` becomes how many it has now, this one
 * included. */
struct peer *peers_join(struct peers *peers, const struct address *address, int *connections);
void peers_leave(struct peers *peers, struct peer *peer);

#endif
