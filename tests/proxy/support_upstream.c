/* See support_upstream.h. */
#include "support_upstream.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct served {
    struct upstream *upstream;
    int fd, nth;
};

static void *serve_thread(void *arg)
{
    struct served served = *(struct served *)arg;
    free(arg);
    served.upstream->serve(served.upstream, served.fd, served.nth);
    pthread_mutex_lock(&served.upstream->mutex);
    close(served.fd);
    served.upstream->fds[served.nth - 1] = -1;
    pthread_mutex_unlock(&served.upstream->mutex);
    return NULL;
}

static void *accept_thread(void *arg)
{
    struct upstream *upstream = arg;
    int fd;
    while (upstream->connections < UPSTREAM_MOST_CONNECTIONS &&
           (fd = accept(upstream->listener, NULL, NULL)) >= 0) {
        struct served *served = malloc(sizeof(*served));
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        pthread_mutex_lock(&upstream->mutex);
        *served = (struct served){upstream, fd, upstream->connections + 1};
        upstream->fds[served->nth - 1] = fd;
        upstream->connections++; /* before anybody can see an effect of it */
        pthread_create(&upstream->servers[served->nth - 1], NULL, serve_thread, served);
        pthread_mutex_unlock(&upstream->mutex);
    }
    return NULL;
}

void upstream_start(struct upstream *upstream, void (*serve)(struct upstream *, int, int), void *arg)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);

    memset(upstream, 0, sizeof(*upstream));
    signal(SIGPIPE, SIG_IGN);
    pthread_mutex_init(&upstream->mutex, NULL);
    upstream->serve = serve;
    upstream->arg = arg;
    upstream->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(upstream->listener, (struct sockaddr *)&address, len) != 0 ||
        listen(upstream->listener, 128) != 0 ||
        getsockname(upstream->listener, (struct sockaddr *)&address, &len) != 0)
        abort();
    upstream->port = ntohs(address.sin_port);
    pthread_create(&upstream->acceptor, NULL, accept_thread, upstream);
}

void upstream_stop(struct upstream *upstream)
{
    shutdown(upstream->listener, SHUT_RDWR);
    pthread_join(upstream->acceptor, NULL);
    close(upstream->listener);
    upstream->gate += 1000000;
    pthread_mutex_lock(&upstream->mutex);
    for (int i = 0; i < upstream->connections; i++)
        if (upstream->fds[i] >= 0)
            shutdown(upstream->fds[i], SHUT_RDWR);
    pthread_mutex_unlock(&upstream->mutex);
    for (int i = 0; i < upstream->connections; i++)
        pthread_join(upstream->servers[i], NULL);
    pthread_mutex_destroy(&upstream->mutex);
}

bool upstream_read(struct upstream *upstream, int fd, char *room, size_t room_bytes)
{
    size_t len = 0, whole = 0;
    while (whole == 0 || len < whole) {
        ssize_t got = recv(fd, room + len, whole == 0 ? 1 : whole - len, 0);
        if (got <= 0 || len + (size_t)got >= room_bytes)
            return false;
        len += (size_t)got;
        room[len] = '\0';
        if (whole == 0 && len >= 4 && memcmp(room + len - 4, "\r\n\r\n", 4) == 0) {
            const char *length = strstr(room, "\r\ncontent-length: ");
            whole = len + (length == NULL ? 0 : strtoul(length + 18, NULL, 10));
            if (whole >= room_bytes)
                return false;
        }
    }
    upstream->requests++;
    return true;
}

bool upstream_request(struct upstream *upstream, int fd)
{
    char room[16384];
    return upstream_read(upstream, fd, room, sizeof(room));
}

bool upstream_send_bytes(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes += sent;
        len -= (size_t)sent;
    }
    return true;
}

bool upstream_send(int fd, const char *text)
{
    return upstream_send_bytes(fd, text, strlen(text));
}

void upstream_reset(int fd)
{
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
}

void upstream_hang(int fd)
{
    char byte[4096];
    while (recv(fd, byte, sizeof(byte), 0) > 0)
        continue;
}

void upstream_wait_gate(struct upstream *upstream, int at_least)
{
    while (upstream->gate < at_least)
        usleep(1000);
}
