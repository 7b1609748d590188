/* Redis queue: see redis_queue.h. */
#include "redis_queue.h"

#include "check.h"
#include "memory.h"

#include <stdlib.h>

enum { FIRST_ROOM = 64 };

static struct redis_call **slot(const struct redis_queue *queue, uint64_t place)
{
    return &queue->ring[place & (queue->room - 1)];
}

static void grow(struct redis_queue *queue)
{
    struct redis_queue larger = *queue;

    larger.room = queue->room == 0 ? FIRST_ROOM : queue->room * 2;
    larger.ring = must_alloc(larger.room * sizeof(struct redis_call *));
    for (uint64_t place = queue->taken + 1; place <= queue->given; place++)
        *slot(&larger, place) = *slot(queue, place);
    free(queue->ring);
    *queue = larger;
}

uint64_t redis_queue_push(struct redis_queue *queue, struct redis_call *call)
{
    if (redis_queue_count(queue) == queue->room)
        grow(queue);
    *slot(queue, ++queue->given) = call;
    return queue->given;
}

struct redis_call *redis_queue_first(const struct redis_queue *queue)
{
    CHECK(redis_queue_count(queue) > 0);
    return *slot(queue, queue->taken + 1);
}

struct redis_call *redis_queue_pop(struct redis_queue *queue)
{
    struct redis_call *first = redis_queue_first(queue);

    queue->taken++;
    return first;
}

void redis_queue_vacate(struct redis_queue *queue, uint64_t place)
{
    if (place > queue->taken && place <= queue->given)
        *slot(queue, place) = NULL;
}

void redis_queue_free(struct redis_queue *queue)
{
    free(queue->ring);
    *queue = (struct redis_queue){0};
}
