/* Listener: see listener.h. */
#include "listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 4096 };

static socklen_t to_sockaddr(const struct listen_setting *at, struct sockaddr_storage *out)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)out;

    memset(out, 0, sizeof(*out));
    if (inet_pton(AF_INET, at->host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)at->port);
        return sizeof(*v4);
    }
    if (inet_pton(AF_INET6, at->host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)at->port);
        return sizeof(*v6);
    }
    return 0;
}

static int open_one(const struct listen_setting *at, bool shared)
{
    struct sockaddr_storage address;
    socklen_t len = to_sockaddr(at, &address);
    int on = 1, fd;

    if (len == 0) {
        errno = EINVAL;
        return -1;
    }
    fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (shared)
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    if (address.ss_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&address, len) != 0 || (shared && listen(fd, BACKLOG) != 0)) {
        int why = errno;

        close(fd);
        errno = why;
        return -1;
    }
    return fd;
}

static bool complain(const struct listen_setting *at, FILE *errors)
{
    fprintf(errors, "weir: cannot listen on %s port %d: %s\n", at->host, at->port, strerror(errno));
    return false;
}

bool listener_open(const struct listen_setting *at, int copies, int *fds_out, FILE *errors)
{
    /* Sockets that share a port would also share it with a stranger's: a first bind without sharing finds
     * out. */
    int probe = open_one(at, false);

    if (probe < 0)
        return complain(at, errors);
    close(probe);
    for (int i = 0; i < copies; i++) {
        fds_out[i] = open_one(at, true);
        if (fds_out[i] < 0) {
            complain(at, errors);
            while (i-- > 0)
                close(fds_out[i]);
            return false;
        }
    }
    return true;
}
