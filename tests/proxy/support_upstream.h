/* A scripted upstream for tests: a listener on a free port of 127.0.0.1 whose connections are served by a
 * function of the test, a thread each, with raw bytes. */
#ifndef WEIR_SUPPORT_UPSTREAM_H
#define WEIR_SUPPORT_UPSTREAM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum { UPSTREAM_MOST_CONNECTIONS = 64 };

struct upstream {
    int listener, port;
    void (*serve)(struct upstream *upstream, int fd,
                  int nth); /* nth connection, from 1; the caller closes fd */
    void *arg;
    atomic_int connections, requests;
    atomic_int gate; /* for the test's own use: what a script waits for, or tells */
    pthread_t acceptor, servers[UPSTREAM_MOST_CONNECTIONS];
    int fds[UPSTREAM_MOST_CONNECTIONS];
    pthread_mutex_t mutex; /* over fds */
};

void upstream_start(struct upstream *upstream, void (*serve)(struct upstream *, int, int), void *arg);
void upstream_stop(struct upstream *upstream); /* ends what still waits for bytes */

/* For scripts. Reads until the head's empty line and its Content-Length; false at the end of the connection.
 */
bool upstream_read(struct upstream *upstream, int fd, char *room, size_t room_bytes);
bool upstream_request(struct upstream *upstream, int fd); /* the same, not looking at it */
bool upstream_send(int fd, const char *text);
bool upstream_send_bytes(int fd, const char *bytes, size_t len);
void upstream_reset(int fd); /* the close that follows is a reset */
void upstream_hang(int fd);  /* until the other side has gone */
void upstream_wait_gate(struct upstream *upstream, int at_least);

#endif
