/* Redis queue: the calls whose replies are due, in the order in which they were sent.
 *
 * A place is a running number, never 0, and stays in the queue until its reply came, also when its caller
 * gave up.
 */
#ifndef WEIR_REDIS_QUEUE_H
#define WEIR_REDIS_QUEUE_H

#include <stddef.h>
#include <stdint.h>

struct redis_call;

struct redis_queue {          /* all zero is an empty one */
    struct redis_call **ring; /* by place modulo room, which is a power of two; NULL: its caller gave up */
    size_t room;
    uint64_t taken, given; /* how many were popped, and pushed; the last place pushed is `given` */
};

static inline size_t redis_queue_count(const struct redis_queue *queue)
{
    return (size_t)(queue->given - queue->taken);
}

uint64_t redis_queue_push(struct redis_queue *queue, struct redis_call *call); /* its place */
struct redis_call *redis_queue_first(const struct redis_queue *queue);         /* the queue is not empty */
struct redis_call *redis_queue_pop(struct redis_queue *queue);                 /* the queue is not empty */
void redis_queue_vacate(struct redis_queue *queue,
                        uint64_t place); /* its caller gives up; fine when popped */
void redis_queue_free(struct redis_queue *queue);

#endif
