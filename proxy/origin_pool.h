/* Origin pool: the connections one worker has to one upstream, counted against their maximum, and those of
 * them that are idle.
 *
 * A slot is the right to have one connection. Who opens one takes the slot before; from link_new() on it is
 * the link's, which gives it back when it closes.
 */
#ifndef WEIR_ORIGIN_POOL_H
#define WEIR_ORIGIN_POOL_H

#include "loop.h"
#include "origin_wire.h"

struct origin_fetch;

struct link { /* one connection */
    struct pool *pool;
    struct wire wire;
    struct origin_fetch *fetch; /* NULL: idle, or about to go */
    struct link *newer, *older; /* while idle */
    struct mono_ms idle_since;
    bool was_used;   /* has carried a request before */
    bool is_reading; /* its reader is on the stack: link_end_reading() follows */
    bool is_gone;
};

struct pool {
    struct loop *loop;
    size_t max_connections;
    int64_t keep_idle_ms;
    struct link *newest_idle, *oldest_idle;
    size_t idle_count, connection_count; /* the latter: slots taken */
    struct timer expire;
    void (*on_room)(void *arg); /* a connection became idle or a slot free */
    void *arg;
};

void pool_init(struct pool *pool, struct loop *loop, size_t max_connections, int64_t keep_idle_ms,
               void (*on_room)(void *arg), void *arg);
void pool_dispose(struct pool *pool); /* idle links close; no slot may be taken beside theirs */
size_t pool_free_slots(const struct pool *pool);
void pool_take_slot(struct pool *pool); /* also beyond the maximum where one was given back a moment ago */
void pool_give_slot(struct pool *pool);
/* The idle link used last, or NULL. With `look_twice` only one that has nothing to read, for a request that
 * must not be sent again: worth a system call there. */
struct link *pool_take_idle(struct pool *pool, bool look_twice);
void pool_close_oldest(struct pool *pool); /* idle link, where there is one: its slot is worth more */

struct link *link_new(struct pool *pool, struct origin_fetch *fetch); /* with a slot; not connected yet */
void link_park(struct link *link);                                    /* idle from now on */
void link_close(struct link *link); /* idle or not; freed now or, while it is read, by link_end_reading() */
void link_end_reading(struct link *link);

#endif
