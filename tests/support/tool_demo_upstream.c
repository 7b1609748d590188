/* Demo upstream: the slow API that Weir is shown and tested in front of.
 *
 * One thread, one epoll; a slow answer is a deadline in a sorted list, so thousands of callers may wait at once. It counts every
 * call by method and path, which is how a cache's effect is seen from the other side. What it answers: demo_upstream_answers.c.
 */
#include "demo_upstream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEAD_ROOM = 64 * 1024, ECHO_BODY = 4096, STREAM_STEP = 64 * 1024, CHUNK = 16384 };

static const char usage[] =
    "usage: weir-demo-upstream [--host ADDRESS] [--port N] [--product-ms N] [--report-ms N]\n"
    "\n"
    "A small, deliberately slow HTTP/1.1 API to put Weir in front of.\n"
    "\n"
    "  --host ADDRESS   listen there (default 127.0.0.1)\n"
    "  --port N         on this port; 0, the default, takes a free one. \"listening on ADDRESS:PORT\" on "
    "stdout names it\n"
    "  --product-ms N   how long GET /products/{id} takes (default 50)\n"
    "  --report-ms N    how long GET /reports/top takes (default 300)\n"
    "\n"
    "  GET /products/{id}      JSON: id, version, generated (number of the call that made it)\n"
    "  PUT /products/{id}      the next version, at once; DELETE removes it (then 404 until the next PUT)\n"
    "  GET /reports/top        JSON, slow\n"
    "  GET /slow/{ms}          JSON after so many milliseconds\n"
    "  GET /size/{bytes}       so many bytes (abc...zabc...) with Content-Length; /chunked/{bytes} the same, "
    "chunked\n"
    "  GET /status/{code}      that status\n"
    "  GET /headers?n=v&..     the response fields named; _ms=N, _status=N and _bytes=N set delay, status "
    "and body size\n"
    "  GET|POST /echo          JSON of the request: method, target, headers, body_bytes, crc32, body (up to "
    "4 KiB)\n"
    "  GET /truncated          promises 1000 bytes, sends 100 and closes; /reset resets the connection\n"
    "  GET /healthz            200\n"
    "  GET /calls              JSON: calls by method and path; POST /calls/reset forgets them. Neither is "
    "counted\n"
    "\n"
    "Every answer has x-upstream-call: the number of the call, counted over all. HEAD is as GET. Bodies need "
    "Content-Length.\n";

/* ---- connections ---- */

enum phase { READ_HEAD, READ_BODY, DELAY, WRITE };

struct conn {
    int fd;
    enum phase phase;
    char *in; /* HEAD_ROOM and a NUL; what follows a head in it is its body and further requests */
    size_t in_len, head_len;
    int64_t body_left, body_bytes;
    uint32_t crc;
    char *echo_body;
    struct text out; /* head and short body */
    size_t out_sent;
    int64_t stream_left, stream_at; /* pattern bytes still to be put into `out` */
    bool is_chunked;
    enum ending ending;
    int64_t due_ms;
    struct conn *next, *before; /* in the delay list */
};

static struct {
    int epoll, listener;
    bool is_deaf; /* out of descriptors: not accepting until one comes back */
    struct demo demo;
    struct conn *first_due, *last_due;
} up;

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void delay_remove(struct conn *conn)
{
    *(conn->before != NULL ? &conn->before->next : &up.first_due) = conn->next;
    *(conn->next != NULL ? &conn->next->before : &up.last_due) = conn->before;
    conn->next = conn->before = NULL;
}

/* From the end: most delays are alike, so the newest is due last. */
static void delay_add(struct conn *conn, int64_t wait_ms)
{
    conn->phase = DELAY;
    conn->due_ms = now_ms() + wait_ms;
    struct conn *before = up.last_due;
    while (before != NULL && before->due_ms > conn->due_ms)
        before = before->before;
    conn->before = before;
    conn->next = before != NULL ? before->next : up.first_due;
    *(conn->before != NULL ? &conn->before->next : &up.first_due) = conn;
    *(conn->next != NULL ? &conn->next->before : &up.last_due) = conn;
}

static void watch(struct conn *conn, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = conn};
    epoll_ctl(up.epoll, EPOLL_CTL_MOD, conn->fd, &event);
}

static void watch_listener(void)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    up.is_deaf = epoll_ctl(up.epoll, EPOLL_CTL_ADD, up.listener, &event) != 0 && errno != EEXIST;
}

static void forget_output(struct conn *conn)
{
    free(conn->out.bytes);
    conn->out = (struct text){NULL, 0};
    conn->out_sent = 0;
}

static void conn_free(struct conn *conn)
{
    if (conn->phase == DELAY)
        delay_remove(conn);
    close(conn->fd);
    free(conn->in);
    free(conn->out.bytes);
    free(conn->echo_body);
    free(conn);
    if (up.is_deaf)
        watch_listener();
}

/* ---- writing an answer ---- */

static const char *reason_of(int status)
{
    switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 304: return "Not Modified";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 411: return "Length Required";
    case 429: return "Too Many Requests";
    case 500: return "Internal Server Error";
    case 503: return "Service Unavailable";
    default: return "Status";
    }
}

/* The answer as it will leave, after its delay. */
static void compose(struct conn *conn, const struct reply *reply, bool is_head)
{
    char date[64];
    time_t now = time(NULL);
    struct tm utc;
    strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &utc));
    bool has_body = reply->status >= 200 && reply->status != 204 && reply->status != 304;
    int64_t length = reply->claimed_bytes >= 0   ? reply->claimed_bytes
                     : reply->pattern_bytes >= 0 ? reply->pattern_bytes
                                                 : (int64_t)reply->body.len;

    forget_output(conn);
    conn->ending = reply->ending;
    text_add(&conn->out, "HTTP/1.1 %d %s\r\ndate: %s\r\nx-upstream-call: %lld\r\n", reply->status,
             reason_of(reply->status), date, (long long)up.demo.calls);
    if (has_body) {
        text_add(&conn->out, "content-type: %s\r\n", reply->type);
        if (reply->is_chunked)
            text_add(&conn->out, "transfer-encoding: chunked\r\n");
        else
            text_add(&conn->out, "content-length: %lld\r\n", (long long)length);
    }
    if (reply->ending == CLOSE)
        text_add(&conn->out, "connection: close\r\n");
    text_add_bytes(&conn->out, reply->fields, strlen(reply->fields));
    text_add(&conn->out, "\r\n");
    conn->stream_left = 0;
    if (!has_body || is_head)
        return;
    conn->stream_left = reply->pattern_bytes >= 0 ? reply->pattern_bytes : 0;
    conn->stream_at = 0;
    conn->is_chunked = reply->is_chunked;
    if (reply->body.len > 0)
        text_add_bytes(&conn->out, reply->body.bytes, reply->body.len);
    if (reply->is_chunked && conn->stream_left == 0)
        text_add(&conn->out, "0\r\n\r\n");
}

static void stream_more(struct conn *conn)
{
    static char pattern[CHUNK + 26];
    if (pattern[0] == '\0')
        for (size_t i = 0; i < sizeof(pattern); i++)
            pattern[i] = (char)('a' + i % 26);

    conn->out.len = conn->out_sent = 0;
    while (conn->stream_left > 0 && conn->out.len < STREAM_STEP) {
        size_t len = conn->stream_left < CHUNK ? (size_t)conn->stream_left : CHUNK;
        if (conn->is_chunked)
            text_add(&conn->out, "%zx\r\n", len);
        text_add_bytes(&conn->out, pattern + conn->stream_at % 26, len);
        if (conn->is_chunked)
            text_add(&conn->out, "\r\n");
        conn->stream_at += (int64_t)len;
        conn->stream_left -= (int64_t)len;
    }
    if (conn->is_chunked && conn->stream_left == 0)
        text_add(&conn->out, "0\r\n\r\n");
}

/* ---- reading a request ---- */

static bool parse_ask(const struct conn *conn, struct ask *ask)
{
    const char *line_end = memmem(conn->in, conn->head_len, "\r\n", 2);
    const char *space = memchr(conn->in, ' ', (size_t)(line_end - conn->in));
    if (space == NULL || space == conn->in || (size_t)(space - conn->in) >= sizeof(ask->method))
        return false;
    const char *target = space + 1;
    const char *stop = memchr(target, ' ', (size_t)(line_end - target));
    if (stop == NULL || strncmp(stop, " HTTP/1.", 8) != 0 || *target != '/')
        return false;
    memset(ask, 0, sizeof(*ask));
    memcpy(ask->method, conn->in, (size_t)(space - conn->in));
    ask->target = target;
    ask->target_len = (size_t)(stop - target);
    const char *mark = memchr(target, '?', ask->target_len);
    size_t path_len = mark == NULL ? ask->target_len : (size_t)(mark - target);
    ask->query = mark == NULL ? stop : mark + 1;
    ask->query_len = (size_t)(stop - ask->query);
    if (path_len >= sizeof(ask->path))
        return false;
    memcpy(ask->path, target, path_len);
    ask->fields = line_end + 2;
    ask->fields_len = conn->head_len - 4 - (size_t)(line_end - conn->in);
    if (ask->fields_len > conn->head_len) /* no field at all: the line's end is the head's */
        ask->fields_len = 0;
    return true;
}

static const char *field_value(const struct conn *conn, const char *name)
{
    size_t len = strlen(name);
    const char *end = conn->in + conn->head_len;
    for (const char *at = conn->in; at != NULL && at < end;) {
        const char *next = memmem(at, (size_t)(end - at), "\r\n", 2);
        at = next == NULL ? NULL : next + 2;
        if (at != NULL && (size_t)(end - at) > len && strncasecmp(at, name, len) == 0 && at[len] == ':')
            return at + len + 1 + strspn(at + len + 1, " \t");
    }
    return NULL;
}

static void read_events(struct conn *conn);

static void start_writing(struct conn *conn)
{
    conn->phase = WRITE;
    watch(conn, EPOLLOUT);
}

/* The request is whole. */
static void serve(struct conn *conn)
{
    struct ask ask;
    struct reply reply = {
        .status = 200, .type = "application/json", .pattern_bytes = -1, .claimed_bytes = -1, .ending = KEEP};

    if (!parse_ask(conn, &ask)) {
        reply.status = 400;
        reply.ending = CLOSE;
        memset(&ask, 0, sizeof(ask));
    } else {
        ask.body_bytes = conn->body_bytes;
        ask.body_crc = conn->crc;
        ask.body = conn->echo_body;
        demo_answer(&up.demo, &ask, &reply);
    }
    if (conn->ending == CLOSE && reply.ending == KEEP)
        reply.ending = CLOSE; /* the request asked for it */
    compose(conn, &reply, strcmp(ask.method, "HEAD") == 0);
    free(reply.body.bytes);
    free(conn->echo_body);
    conn->echo_body = NULL;
    conn->in_len -= conn->head_len;
    memmove(conn->in, conn->in + conn->head_len, conn->in_len);
    if (reply.delay_ms > 0) {
        delay_add(conn, reply.delay_ms);
        watch(conn, EPOLLRDHUP); /* so that a caller that leaves is noticed */
    } else {
        start_writing(conn);
    }
}

static uint32_t crc32_add(uint32_t crc, const char *bytes, size_t len)
{
    static uint32_t table[256];
    if (table[1] == 0)
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t value = i;
            for (int bit = 0; bit < 8; bit++)
                value = (value >> 1) ^ (value & 1 ? 0xedb88320u : 0);
            table[i] = value;
        }
    crc = ~crc;
    for (size_t i = 0; i < len; i++)
        crc = table[(crc ^ (unsigned char)bytes[i]) & 0xff] ^ (crc >> 8);
    return ~crc;
}

/* Takes body bytes out of `in` from behind the head, which stays until the request is served. */
static void take_body(struct conn *conn)
{
    size_t have = conn->in_len - conn->head_len;
    size_t len = (int64_t)have < conn->body_left ? have : (size_t)conn->body_left;
    char *body = conn->in + conn->head_len;

    conn->crc = crc32_add(conn->crc, body, len);
    if (conn->echo_body != NULL)
        memcpy(conn->echo_body + (conn->body_bytes - conn->body_left), body, len);
    conn->body_left -= (int64_t)len;
    conn->in_len -= len;
    memmove(body, body + len, conn->in_len - conn->head_len);
    if (conn->body_left == 0)
        serve(conn);
    else
        conn->phase = READ_BODY;
}

static void begin_request(struct conn *conn)
{
    const char *length = field_value(conn, "content-length"), *expect = field_value(conn, "expect");
    const char *connection = field_value(conn, "connection");

    conn->ending = connection != NULL && strncasecmp(connection, "close", 5) == 0 ? CLOSE : KEEP;
    conn->body_bytes = conn->body_left = length == NULL ? 0 : demo_number(length, INT64_C(1) << 40);
    conn->crc = 0;
    if (conn->body_bytes > 0 && conn->body_bytes <= ECHO_BODY)
        conn->echo_body = malloc((size_t)conn->body_bytes);
    if (field_value(conn, "transfer-encoding") != NULL) {
        struct reply reply = {
            .status = 411, .pattern_bytes = -1, .claimed_bytes = -1, .type = "text/plain", .ending = CLOSE};
        compose(conn, &reply, false);
        start_writing(conn);
        return;
    }
    if (expect != NULL && conn->body_left > 0)
        (void)!send(conn->fd, "HTTP/1.1 100 Continue\r\n\r\n", 25, MSG_NOSIGNAL | MSG_DONTWAIT);
    take_body(conn);
}

/* With bytes in `in`, in phase READ_HEAD or READ_BODY. False: the connection is gone. */
static bool look_at_input(struct conn *conn)
{
    if (conn->phase == READ_BODY) {
        take_body(conn);
        return true;
    }
    char *end = memmem(conn->in, conn->in_len, "\r\n\r\n", 4);
    if (end != NULL) {
        conn->head_len = (size_t)(end - conn->in) + 4;
        begin_request(conn);
    } else if (conn->in_len >= HEAD_ROOM) {
        conn_free(conn);
        return false;
    }
    return true;
}

static void read_events(struct conn *conn)
{
    ssize_t got = recv(conn->fd, conn->in + conn->in_len, HEAD_ROOM - conn->in_len, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        conn_free(conn);
        return;
    }
    conn->in_len += (size_t)got;
    conn->in[conn->in_len] = '\0'; /* demo_number() and strspn() stop there at the latest */
    look_at_input(conn);
}

static void write_events(struct conn *conn)
{
    if (conn->ending == RESET) {
        setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
        conn_free(conn);
        return;
    }
    if (conn->out_sent == conn->out.len && conn->stream_left > 0)
        stream_more(conn);
    ssize_t sent = send(conn->fd, conn->out.bytes + conn->out_sent, conn->out.len - conn->out_sent,
                        MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (sent < 0) {
        conn_free(conn);
        return;
    }
    conn->out_sent += (size_t)sent;
    if (conn->out_sent < conn->out.len || conn->stream_left > 0)
        return;
    if (conn->ending == CLOSE) {
        conn_free(conn);
        return;
    }
    forget_output(conn);
    conn->phase = READ_HEAD;
    watch(conn, EPOLLIN);
    if (conn->in_len > 0)
        look_at_input(conn);
}

/* ---- the loop ---- */

static void accept_some(void)
{
    for (int i = 0; i < 64; i++) {
        int fd = accept4(up.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE) {
                epoll_ctl(up.epoll, EPOLL_CTL_DEL, up.listener, NULL);
                up.is_deaf = true;
            }
            return;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        struct conn *conn = calloc(1, sizeof(*conn));
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
        if (conn == NULL || (conn->in = malloc(HEAD_ROOM + 1)) == NULL ||
            epoll_ctl(up.epoll, EPOLL_CTL_ADD, fd, &event) != 0)
            abort();
        conn->fd = fd;
    }
}

static void run(void)
{
    struct epoll_event events[256];
    while (true) {
        int64_t wait = up.first_due == NULL ? -1 : up.first_due->due_ms - now_ms();
        int count = epoll_wait(up.epoll, events, 256, up.first_due == NULL ? -1 : wait > 0 ? (int)wait : 0);
        for (int i = 0; i < count;
             i++) { /* one event a connection and turn, so none is freed before its own */
            struct conn *conn = events[i].data.ptr;
            if (conn == NULL)
                accept_some();
            else if (conn->phase == DELAY)
                conn_free(conn); /* the caller left */
            else if (conn->phase == WRITE)
                write_events(conn);
            else
                read_events(conn);
        }
        while (up.first_due != NULL && up.first_due->due_ms <= now_ms()) {
            struct conn *conn = up.first_due;
            delay_remove(conn);
            start_writing(conn);
        }
    }
}

static int listen_on(const char *host, int port)
{
    bool is_v6 = strchr(host, ':') != NULL;
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    struct sockaddr *address = is_v6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4;
    socklen_t len = is_v6 ? sizeof(v6) : sizeof(v4);
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (inet_pton(address->sa_family, host, is_v6 ? (void *)&v6.sin6_addr : (void *)&v4.sin_addr) != 1) {
        fprintf(stderr, "weir-demo-upstream: %s is no address\n", host);
        exit(2);
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (fd < 0 || bind(fd, address, len) != 0 || listen(fd, 4096) != 0) {
        fprintf(stderr, "weir-demo-upstream: cannot listen on %s:%d: %s\n", host, port, strerror(errno));
        exit(1);
    }
    getsockname(fd, address, &len);
    printf(is_v6 ? "listening on [%s]:%d\n" : "listening on %s:%d\n", host,
           ntohs(is_v6 ? v6.sin6_port : v4.sin_port));
    fflush(stdout);
    return fd;
}

static int64_t number_option(const char *name, const char *value, int64_t max)
{
    char *end;
    errno = 0;
    long long n = value == NULL ? -1 : strtoll(value, &end, 10);
    if (value == NULL || end == value || *end != '\0' || errno != 0 || n < 0 || n > max) {
        fprintf(stderr, "weir-demo-upstream: %s needs a number from 0 to %lld\n\n%s", name, (long long)max,
                usage);
        exit(2);
    }
    return n;
}

int main(int argc, char **argv)
{
    const char *host = "127.0.0.1";
    int port = 0;

    up.demo.product_ms = 50;
    up.demo.report_ms = 300;
    for (int i = 1; i < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (strcmp(name, "--help") == 0) {
            fputs(usage, stdout);
            return 0;
        }
        if (strcmp(name, "--port") == 0)
            port = (int)number_option(name, value, 65535);
        else if (strcmp(name, "--product-ms") == 0)
            up.demo.product_ms = number_option(name, value, DEMO_MAX_DELAY_MS);
        else if (strcmp(name, "--report-ms") == 0)
            up.demo.report_ms = number_option(name, value, DEMO_MAX_DELAY_MS);
        else if (strcmp(name, "--host") == 0 && value != NULL)
            host = value;
        else {
            fprintf(stderr, "weir-demo-upstream: unknown option %s\n\n%s", name, usage);
            return 2;
        }
    }
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    signal(SIGPIPE, SIG_IGN);
    up.epoll = epoll_create1(EPOLL_CLOEXEC);
    up.listener = listen_on(host, port);
    watch_listener();
    run();
}
