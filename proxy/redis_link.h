/* Redis link: one connection to Redis on one loop, written once a turn, that comes back by itself.
 *
 * Commands given during a turn leave in one write at its end; replies are matched in order. Each command has
 * a deadline; when it passes, its caller hears FAULT_STORE_SILENT and the late reply is skipped. Whoever is
 * not connected says so at once (FAULT_STORE_AWAY) instead of letting each command cost its deadline: while
 * the connection is down, and also while it is up but mute, when several deadlines in a row passed without
 * one byte from the server. What was already sent then serves as the probe: the first late reply ends the
 * mute state, and if none comes the link dials anew. Only before the first dial has ended one way or the
 * other do commands wait for it, by their deadline. The server's bytes are bounded: size of a reply, elements
 * of an array, depth. What breaks a bound ends the connection.
 */
#ifndef WEIR_REDIS_LINK_H
#define WEIR_REDIS_LINK_H

#include "fault.h"
#include "list.h"
#include "loop.h"
#include "redis_words.h"

struct redis_link;

/* ---- the link ---- */
struct redis_options { /* the strings must stay as long as the link */
    const char *host;  /* a name or an address; names are resolved off the loop, at each dial */
    int port;
    const char *unix_path; /* instead of host and port; else NULL */
    int database;
    const char *user, *password; /* NULL: none */
    const char *name;            /* as CLIENT LIST shows it */
    int64_t timeout_ms;          /* of a heartbeat and, at least a second, of dialling */
    size_t max_reply_bytes, max_output_bytes;
    void (*on_change)(void *arg, bool is_up); /* on the loop, never inside a call of ours; first with true */
    void (*on_push)(void *arg,
                    const struct redis_reply *message); /* a published message; NULL: they are nonsense */
    void *arg;
};

/* `fault` NONE: `reply`, which may be a REDIS_ERROR (but not one that ends the connection, such as READONLY).
 */
typedef void redis_done(void *arg, enum fault fault, const struct redis_reply *reply);

/* A command under way, embedded in its owner. Zeroed before its first use. */
struct redis_call {
    struct redis_link *link; /* NULL: not under way */
    struct timer deadline;
    struct link refused; /* among those that failed before they were sent */
    uint64_t place;      /* in the queue of replies; 0: failed before it was sent */
    redis_done *done;
    void *arg;
};

struct redis_link *redis_link_new(struct loop *loop,
                                  const struct redis_options *options); /* starts to dial */
/* Calls under way are dropped without a callback; what was given in this turn is still sent if it can be at
 * once. Not from inside a callback of the link. Turn the loop once more before freeing it: an answer about
 * the host's name may be on its way. */
void redis_link_free(struct redis_link *link);
bool redis_link_is_up(const struct redis_link *link);
/* Which connection is it by now? What was agreed on an earlier one is forgotten. */
unsigned redis_link_connection(const struct redis_link *link);

/* `done` runs exactly once, on a later event of the loop, by `give_up_at`. */
void redis_link_send(struct redis_link *link, struct redis_call *call, const struct redis_words *words,
                     struct mono_ms give_up_at, redis_done *done, void *arg);
void redis_call_cancel(struct redis_call *call); /* `done` will not run; fine when not under way */
#endif
