/* Front, linger: does the client of a refused request get to read the answer?
 *
 * h2o closes its socket right after the answer. Where bytes of the client are still on their way, the kernel
 * then resets the connection, and the reset may overtake the answer. So a duplicate of the descriptor stays
 * open, its sending half closed, and what arrives is dropped until the client closes, too, or has had its
 * time. Bounded in number, time and bytes.
 */
#include "front_http1.h"

#include "memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_LINGERERS = 64, LINGER_MS = 2000, MAX_DROPPED_BYTES = 4 << 20 };

struct lingerer {
    struct front *front;
    struct link link;
    h2o_socket_t *sock;
    struct timer deadline;
    size_t dropped_bytes;
};

static void end(struct lingerer *lingerer)
{
    timer_cancel(lingerer->front->loop, &lingerer->deadline);
    list_leave(&lingerer->link);
    lingerer->front->lingerer_count--;
    h2o_socket_close(lingerer->sock);
    free(lingerer);
}

static void on_deadline(void *arg)
{
    end(arg);
}

static void on_bytes(h2o_socket_t *sock, const char *err)
{
    struct lingerer *lingerer = sock->data;

    lingerer->dropped_bytes += sock->input->size;
    h2o_buffer_consume(&sock->input, sock->input->size);
    if (err != NULL || lingerer->dropped_bytes > MAX_DROPPED_BYTES)
        end(lingerer);
}

void linger_begin(struct front *front, int fd)
{
    struct lingerer *lingerer;
    int own_fd;

    if (front->lingerer_count >= MAX_LINGERERS)
        return;
    own_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own_fd < 0)
        return;
    shutdown(own_fd, SHUT_WR);
    lingerer = must_alloc(sizeof(*lingerer));
    lingerer->front = front;
    lingerer->sock = h2o_evloop_socket_create(loop_h2o(front->loop), own_fd, 0);
    lingerer->sock->data = lingerer;
    list_append(&front->lingerers, &lingerer->link);
    front->lingerer_count++;
    timer_init(&lingerer->deadline, on_deadline, lingerer);
    timer_start(front->loop, &lingerer->deadline, mono_after(loop_now(front->loop), LINGER_MS));
    h2o_socket_read_start(lingerer->sock, on_bytes);
}

void lingerers_end(struct front *front)
{
    while (!list_is_empty(&front->lingerers))
        end(LIST_OWNER(front->lingerers.next, struct lingerer, link));
}
