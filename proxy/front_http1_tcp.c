/* Front, tcp: what does the kernel know of a client's connection that h2o does not tell? */
#include <linux/tcp.h> /* before our headers: netinet/tcp.h has an older struct of the same name */

#include "front_http1.h"

#include <sys/socket.h>

enum { STATE_ESTABLISHED = 1 };

bool tcp_acked_bytes(int fd, uint64_t *out)
{
    struct tcp_info info;
    socklen_t len = sizeof(info);

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0 ||
        len < offsetof(struct tcp_info, tcpi_bytes_acked) + sizeof(info.tcpi_bytes_acked))
        return false;
    *out = info.tcpi_bytes_acked;
    return true;
}

bool tcp_peer_is_there(int fd)
{
    struct tcp_info info;
    socklen_t len = sizeof(info);

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
        return true; /* no TCP: a write will tell */
    return info.tcpi_state == STATE_ESTABLISHED;
}
