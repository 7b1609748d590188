/* Inbox: see store_memory_inbox.h. */
#include "store_memory_inbox.h"

#include "memory.h"

#include <pthread.h>
#include <stdlib.h>

/* Not yet delivered to one loop; further ones are dropped, waiters have their deadlines. */
enum { MOST_WAKES = 65536 };

struct inbox {
    struct letter letter;
    struct loop *loop;
    pthread_mutex_t lock;
    struct key32 *keys, *delivered; /* swapped at each delivery */
    size_t count, room, delivered_room;
    bool is_corrected;
    bool is_posted;      /* the letter is with the loop */
    struct store *owner; /* of the worker's thread alone; NULL: gone, the delivery frees the inbox */
};

static void free_inbox(struct inbox *inbox)
{
    pthread_mutex_destroy(&inbox->lock);
    free(inbox->keys);
    free(inbox->delivered);
    free(inbox);
}

static void deliver(struct letter *letter, void *arg)
{
    struct inbox *inbox = arg;
    struct store *owner = inbox->owner;
    struct key32 *keys;
    size_t count, room;
    bool is_corrected;

    (void)letter;
    if (owner == NULL) {
        free_inbox(inbox);
        return;
    }
    pthread_mutex_lock(&inbox->lock);
    keys = inbox->keys;
    count = inbox->count;
    room = inbox->room;
    is_corrected = inbox->is_corrected;
    inbox->keys = inbox->delivered;
    inbox->room = inbox->delivered_room;
    inbox->count = 0;
    inbox->is_corrected = false;
    inbox->delivered = keys;
    inbox->delivered_room = room;
    inbox->is_posted = false;
    pthread_mutex_unlock(&inbox->lock);
    for (size_t i = 0; i < count && owner->on_wake != NULL; i++)
        owner->on_wake(owner->on_wake_arg, &keys[i]);
    if (is_corrected && owner->on_correction != NULL)
        owner->on_correction(owner->on_correction_arg);
}

/* Under the lock: must the letter be posted for what was added? */
static bool must_post(struct inbox *inbox)
{
    bool was_posted = inbox->is_posted;

    inbox->is_posted = true;
    return !was_posted;
}

void inbox_add_wake(struct inbox *inbox, const struct key32 *key)
{
    bool posts;

    pthread_mutex_lock(&inbox->lock);
    if (inbox->count == inbox->room && inbox->room < MOST_WAKES) {
        inbox->room = inbox->room == 0 ? 16 : inbox->room * 2;
        inbox->keys = must_realloc(inbox->keys, inbox->room * sizeof(*inbox->keys));
    }
    if (inbox->count < inbox->room)
        inbox->keys[inbox->count++] = *key;
    posts = must_post(inbox);
    pthread_mutex_unlock(&inbox->lock);
    if (posts)
        loop_post(inbox->loop, &inbox->letter);
}

void inbox_add_correction(struct inbox *inbox)
{
    bool posts;

    pthread_mutex_lock(&inbox->lock);
    inbox->is_corrected = true;
    posts = must_post(inbox);
    pthread_mutex_unlock(&inbox->lock);
    if (posts)
        loop_post(inbox->loop, &inbox->letter);
}

struct inbox *inbox_new(struct store *owner, struct loop *loop)
{
    struct inbox *inbox = must_alloc(sizeof(*inbox));

    inbox->letter.deliver = deliver;
    inbox->letter.arg = inbox;
    inbox->loop = loop;
    inbox->owner = owner;
    pthread_mutex_init(&inbox->lock, NULL);
    return inbox;
}

void inbox_close(struct inbox *inbox)
{
    inbox->owner = NULL;
    if (!inbox->is_posted)
        free_inbox(inbox);
}
