/* A front with a scripted story, and clients of raw bytes, all driven in the test's own thread. */
#ifndef WEIR_SUPPORT_FRONT_H
#define WEIR_SUPPORT_FRONT_H

#include "front.h"
#include "loop.h"

#include <stdbool.h>
#include <stddef.h>

enum { STAGE_PATIENCE_MS = 15000, STAGE_MANY = 64 };

/* What the story remembers. It answers by the target:
 *   /echo...    200 at once, "METHOD TARGET AUTHORITY BODY"
 *   /wait...    not at all: the request is parked in `parked`
 *   /dated      200, made on 6 November 1994
 *   /chunks     200 of unknown length, "one" and "two" in two sends */
struct stage {
    struct loop *loop;
    struct front *front;
    struct front_limits limits;
    int port;
    struct client_request *parked[STAGE_MANY];
    size_t parked_count; /* for ever: a request that is gone leaves NULL */
    int shown, gone, ready, refused, refused_status;
    char refused_why[128];
    char targets[512]; /* of all that were shown, each with a blank behind it */
};

extern struct stage stage;

void stage_open(void); /* with stage.limits, if a test has set some */
void stage_close(void);
void stage_turn(void);
void stage_answer(struct client_request *request, int status, const char *body);
void stage_start(struct client_request *request, int status, int64_t content_length);
void stage_send(struct client_request *request, const char *bytes, enum client_piece how);

struct client {
    int fd;
    char *got; /* NUL-terminated */
    size_t len;
    bool is_closed, is_reset; /* by the front */
};

struct client client_connect(void);
void client_write(struct client *client, const char *bytes, size_t len);
void client_say(struct client *client, const char *text);
void client_read(struct client *client);                    /* what is there, without waiting */
void client_await(struct client *client, const char *text); /* turns until it was received */
void client_await_end(struct client *client);               /* turns until the front closed */
void client_close(struct client *client);
/* A client that says all this, and reads until the front closes the connection. */
struct client client_whole(const char *text);

#define STAGE_UNTIL(condition)                                                                               \
    do {                                                                                                     \
        int64_t give_up_ms = clock_mono().ms + STAGE_PATIENCE_MS;                                            \
        while (!(condition) && clock_mono().ms < give_up_ms)                                                 \
            stage_turn();                                                                                    \
        cr_assert(condition, "not in time: %s", #condition);                                                 \
    } while (0)

#endif
