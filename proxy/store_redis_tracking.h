/* Store redis, tracking: is this process told of every plan that changes, whoever changed it and by whichever command?
 *
 * The server tells: `ask` has it track all keys of plans and send what changes to `ear` (CLIENT TRACKING, BCAST, REDIRECT), which says
 * on each new connection by which number the server knows it, and listens to a channel of the server's own. The process's copies count
 * (known_plans) from when tracking and listening are both confirmed, until either connection is lost.
 * Private to the subscriber's thread, which makes the connections and subscribes (store_redis_push.c).
 */
#ifndef WEIR_STORE_REDIS_TRACKING_H
#define WEIR_STORE_REDIS_TRACKING_H

#include "store_redis.h"

#define TRACKING_CHANNEL "__redis__:invalidate" /* the server's name for it */

struct tracking { /* all its own; zeroed at first */
    struct store_redis *shared;
    struct loop *loop;
    struct redis_words words;
    struct redis_link *ask, *ear; /* borrowed; ear NULL: there is none */
    struct redis_call identifying, stopping, starting;
    unsigned ear_connection; /* of which ear_id is */
    int64_t ear_id;          /* -1: not known */
    bool is_on, is_listening;
    bool is_refused; /* by this server: asked for again on the next connection only */
};

void tracking_init(struct tracking *tracking, struct store_redis *shared, struct loop *loop);
void tracking_free(
    struct tracking *tracking); /* what it holds; the connections are gone, or nothing is under way on them */

/* These are the connections from now on. */
void tracking_follow(struct tracking *tracking, struct redis_link *ask, struct redis_link *ear);
void tracking_begin(
    struct tracking *tracking); /* the ear is up, and not subscribed yet if its connection is new */
void tracking_listens(struct tracking *tracking);   /* the channel is subscribed */
void tracking_try_again(struct tracking *tracking); /* if need be: what got no answer in time */
void tracking_forget(
    struct tracking *tracking); /* nothing that was agreed holds any more: copies do not count */

void tracking_refuse(struct tracking *tracking,
                     const struct redis_reply *error); /* the server will not have it */
bool tracking_is_refused(const struct tracking *tracking);

void tracking_hear(struct tracking *tracking, const struct redis_reply *what); /* what came on the channel */

#endif
