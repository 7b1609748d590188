/* Redis resolve: the addresses of the Redis host, found without blocking a loop. */
#ifndef WEIR_REDIS_RESOLVE_H
#define WEIR_REDIS_RESOLVE_H

#include "loop.h"

#include <sys/socket.h>

enum { REDIS_MAX_ADDRESSES = 8 };

struct redis_addresses {
    struct sockaddr_storage list[REDIS_MAX_ADDRESSES];
    socklen_t lens[REDIS_MAX_ADDRESSES];
    size_t count;
};

struct redis_resolve; /* one question under way */

/* An address written out needs no asking: true, and one address. */
bool redis_address_read(const char *host, int port, struct redis_addresses *out);

void redis_address_unix(const char *path, struct redis_addresses *out); /* none where the path is too long */

/* Asks the system in a thread of its own; NULL when there can be no such thread. `done` runs once, on the
 * loop; no addresses: not known. There is no deadline here: who tires of waiting cancels, and a thread in
 * getaddrinfo() ends when that does. */
typedef void redis_resolved(void *arg, const struct redis_addresses *addresses);
struct redis_resolve *redis_resolve_start(struct loop *loop, const char *host, int port, redis_resolved *done,
                                          void *arg);
/* `done` will not run. The answer may already lie in the loop's letter box: turn the loop once before freeing
 * it. */
void redis_resolve_cancel(struct redis_resolve **resolve);

#endif
