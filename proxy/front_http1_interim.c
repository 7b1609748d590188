/* Front, interim: which forerunners of an answer does a client get (RFC 9110 section 15.2)?
 *
 * h2o cannot write one, so it is written past it: where h2o is not writing itself, and where the kernel has room for all
 * of it, since nobody would write the rest. A forerunner that cannot be sent so is left out; what it says is never
 * needed to understand the answer.
 */
#include "front_http1.h"

#include "check.h"
#include "status_text.h"
#include "text.h"

#include <sys/ioctl.h>
#include <sys/socket.h>

enum { INTERIM_ROOM = 8192 };

static size_t write_interim(int status, const struct header *headers, size_t count, char *out, size_t room)
{
    struct text text = text_in(out, room);

    text_add(&text, SLICE("HTTP/1.1 "));
    text_add_int(&text, status);
    text_add_char(&text, ' ');
    text_add(&text, slice_text(status_text(status)));
    text_add(&text, SLICE("\r\n"));
    for (size_t i = 0; i < count; i++) {
        text_add(&text, headers[i].name);
        text_add(&text, SLICE(": "));
        text_add(&text, headers[i].value);
        text_add(&text, SLICE("\r\n"));
    }
    text_add(&text, SLICE("\r\n"));
    return text.len;
}

/* Half of the buffer counts: the kernel's own bookkeeping takes part of it. */
static bool kernel_has_room(int fd, size_t len)
{
    int buffer_bytes = 0, unsent_bytes = 0;
    socklen_t option_len = sizeof(buffer_bytes);

    return getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, &option_len) == 0 &&
           ioctl(fd, TIOCOUTQ, &unsent_bytes) == 0 && unsent_bytes >= 0 && buffer_bytes >= 0 &&
           (size_t)unsent_bytes + len <= (size_t)buffer_bytes / 2;
}

/* A client of HTTP/1.0 would take it for the answer. */
static bool takes_interim(const struct client_request *request)
{
    const struct connection *c = request->connection;

    return !request->is_started && !request->is_ended && !c->has_left && !request->head.is_http10 &&
           c->sock->ssl == NULL && c->sock->_cb.write == NULL;
}

void client_inform(struct client_request *request, int status, const struct header *headers, size_t count)
{
    char bytes[INTERIM_ROOM];
    int fd;
    size_t len;

    CHECK(status > 101 && status <= 199);
    if (!takes_interim(request))
        return;
    fd = h2o_socket_get_fd(request->connection->sock);
    len = write_interim(status, headers, count, bytes, sizeof(bytes));
    if (len > sizeof(bytes) || !kernel_has_room(fd, len))
        return;
    if (send(fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)len)
        shutdown(fd, SHUT_RDWR); /* half of it may have left: whatever followed would be misread */
}
