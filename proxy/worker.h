/* Worker: one thread with its loop, its connections and its story. */
#ifndef WEIR_WORKER_H
#define WEIR_WORKER_H

#include "near.h"
#include "settings.h"
#include "store.h"

struct journal;
struct peers;
struct resolver;
struct worker;

/* What the process's workers share. Outlives them. */
struct commons {
    struct near *near;
    struct store_memory *memory; /* the store, where it is memory */
    struct store_redis *redis;   /* the store, where it is Redis */
    struct store_memory
        *fallback; /* for limits that are decided locally while Redis is away; NULL with the memory store */
    struct near *fallback_near; /* which that memory store keeps nothing in */
    struct resolver *resolver;
    struct peers *peers;
    struct journal *journal; /* of invalidations; NULL: none */
};

struct store *commons_join(struct commons *commons, struct loop *loop); /* a handle for one more loop */

/* Connections of clients, client.max_connections or fewer: so many that descriptors are left for the rest. For
 * upstreams as many as they may use, half of all at most, and some for Redis, files and listeners. Else clients
 * took the last ones, and every request failed for want of a connection to its upstream. */
int affordable_connections(const struct settings *settings);

/* Starts the thread; returns when it accepts connections on `fds`, which pass to it. */
struct worker *worker_start(struct commons *commons, struct settings *settings, const int *fds,
                            size_t fd_count);
void worker_reload(struct worker *worker,
                   struct settings *settings); /* new requests begin with it; holds it */
void worker_drain(
    struct worker *worker); /* stops accepting; ends when its requests have, or by drain_timeout by force */
void worker_join(struct worker **worker); /* waits for its end */

#endif
