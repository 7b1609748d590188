/* Origin pool: see origin_pool.h. The idle list is a stack, so that a burst's surplus of connections gets old
 * at its bottom. */
#include "origin_pool.h"
#include "check.h"
#include "memory.h"

#include <stdlib.h>

static void idle_remove(struct link *link)
{
    struct pool *pool = link->pool;

    *(link->newer != NULL ? &link->newer->older : &pool->newest_idle) = link->older;
    *(link->older != NULL ? &link->older->newer : &pool->oldest_idle) = link->newer;
    link->newer = link->older = NULL;
    pool->idle_count--;
}

static bool is_idle(const struct link *link)
{
    return link->newer != NULL || link->pool->newest_idle == link;
}

/* The timer follows the oldest link of the time it was set, and is only set again here: not once a request.
 */
static void on_expire(void *arg)
{
    struct pool *pool = arg;
    struct mono_ms now = loop_now(pool->loop);

    while (pool->oldest_idle != NULL) {
        struct mono_ms until = mono_after(pool->oldest_idle->idle_since, pool->keep_idle_ms);
        if (until.ms > now.ms) {
            timer_start(pool->loop, &pool->expire, until);
            return;
        }
        link_close(pool->oldest_idle);
    }
}

void pool_init(struct pool *pool, struct loop *loop, size_t max_connections, int64_t keep_idle_ms,
               void (*on_room)(void *arg), void *arg)
{
    *pool = (struct pool){.loop = loop,
                          .max_connections = max_connections,
                          .keep_idle_ms = keep_idle_ms,
                          .on_room = on_room,
                          .arg = arg};
    timer_init(&pool->expire, on_expire, pool);
}

void pool_dispose(struct pool *pool)
{
    while (pool->newest_idle != NULL)
        link_close(pool->newest_idle);
    CHECK(pool->connection_count == 0);
    timer_cancel(pool->loop, &pool->expire);
}

size_t pool_free_slots(const struct pool *pool)
{
    return pool->connection_count < pool->max_connections ? pool->max_connections - pool->connection_count
                                                          : 0;
}

void pool_take_slot(struct pool *pool)
{
    pool->connection_count++;
}

void pool_give_slot(struct pool *pool)
{
    CHECK(pool->connection_count > 0);
    pool->connection_count--;
    pool->on_room(pool->arg);
}

struct link *pool_take_idle(struct pool *pool, bool look_twice)
{
    while (pool->newest_idle != NULL) {
        struct link *link = pool->newest_idle;
        if (!look_twice || wire_is_quiet(&link->wire)) {
            idle_remove(link);
            return link;
        }
        link_close(link);
    }
    return NULL;
}

void pool_close_oldest(struct pool *pool)
{
    if (pool->oldest_idle != NULL)
        link_close(pool->oldest_idle);
}

struct link *link_new(struct pool *pool, struct origin_fetch *fetch)
{
    struct link *link = must_alloc(sizeof(*link));

    link->pool = pool;
    link->fetch = fetch;
    link->wire.arg = link;
    return link;
}

void link_park(struct link *link)
{
    struct pool *pool = link->pool;

    link->fetch = NULL;
    link->was_used = true;
    link->idle_since = loop_now(pool->loop);
    link->older = pool->newest_idle;
    if (link->older != NULL)
        link->older->newer = link;
    else
        pool->oldest_idle = link;
    pool->newest_idle = link;
    pool->idle_count++;
    if (pool->idle_count == 1)
        timer_start(pool->loop, &pool->expire, mono_after(link->idle_since, pool->keep_idle_ms));
    wire_listen(&link->wire); /* so that the upstream's close is noticed; it may have been paused */
    pool->on_room(pool->arg);
}

void link_close(struct link *link)
{
    struct pool *pool = link->pool;

    if (is_idle(link))
        idle_remove(link);
    wire_close(&link->wire);
    link->fetch = NULL;
    link->is_gone = true;
    if (!link->is_reading)
        free(link);
    pool_give_slot(pool);
}

void link_end_reading(struct link *link)
{
    link->is_reading = false;
    if (link->is_gone)
        free(link);
}
