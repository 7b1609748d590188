/* Resolver: which addresses a name has, found off the loop. One per process, shared by its threads.
 *
 * Good answers are kept for 5 s and bad ones for 1 s. However many ask for one name at a time, it is looked
 * up once. While the name service cannot be reached, the last good addresses of a name serve on for a minute:
 * its outage must not become ours.
 */
#ifndef WEIR_RESOLVER_H
#define WEIR_RESOLVER_H

#include "slice.h"

#include <stdbool.h>
#include <sys/socket.h>

enum { RESOLVER_MAX_ADDRESSES = 8, RESOLVER_MAX_NAME = 253 };

struct loop;
struct resolver;
struct resolver_ask; /* a question under way */

struct resolved_address {
    struct sockaddr_storage storage;
    socklen_t len;
};

/* In the order to try them: the system's (RFC 6724), those of the first address family taking turns to be
 * first. */
struct resolved {
    struct resolved_address addresses[RESOLVER_MAX_ADDRESSES];
    size_t count; /* 0: no such name, or nobody could tell */
};

struct resolver *resolver_new(int threads);
/* Nobody may be asking any more. A lookup that hangs in the system is left behind and cleans up after itself.
 */
void resolver_free(struct resolver *resolver);

/* Answers from what needs no waiting: an address literal (IPv6 without brackets), or a name whose answer is
 * still kept. */
bool resolver_knows(struct resolver *resolver, struct slice host, int port, struct resolved *out);

/* `done` runs on `loop`, exactly once, never inside this call. There is no deadline here: the caller has one,
 * and cancels. */
struct resolver_ask *resolver_start(struct resolver *resolver, struct loop *loop, struct slice host, int port,
                                    void (*done)(void *arg, const struct resolved *answer), void *arg);
void resolver_cancel(
    struct resolver_ask **ask); /* takes it; on the loop's thread, until `done` runs; NULL is fine */

#endif
