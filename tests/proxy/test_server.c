/* Server: a whole process from its start to its end, by signals. */
#include "server.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(server, .timeout = 60);

static char config[] = "/tmp/weir-server-XXXXXX";
static int client_port, admin_port;
static pid_t child;

static int free_port(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(any);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cr_assert_eq(bind(fd, (struct sockaddr *)&any, len), 0);
    getsockname(fd, (struct sockaddr *)&any, &len);
    close(fd);
    return ntohs(any.sin_port);
}

static void write_config(const char *extra)
{
    FILE *file = fopen(config, "w");

    fprintf(file,
            "listen: 127.0.0.1:%d\nadmin: 127.0.0.1:%d\nworkers: 2\nlog: { access: 'off', level: error }\n"
            "upstreams: { api: { servers: ['http://127.0.0.1:1'] } }\n%s",
            client_port, admin_port, extra);
    fclose(file);
}

/* The answer of a port to a GET; "" while nobody listens. */
static const char *get(int port, const char *target)
{
    static char got[65536];
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t len = 0;
    ssize_t n;

    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0) {
        dprintf(fd, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", target);
        while ((n = read(fd, got + len, sizeof(got) - 1 - len)) > 0)
            len += (size_t)n;
    }
    close(fd);
    got[len] = '\0';
    return got;
}

static void wait_for_answer(int port, const char *target, const char *part)
{
    while (strstr(get(port, target), part) == NULL) {
        cr_assert_eq(waitpid(child, NULL, WNOHANG), 0, "the server ended");
        poll(NULL, 0, 5);
    }
}

static void start(void)
{
    pid_t parent = getpid();

    close(mkstemp(config));
    client_port = free_port();
    admin_port = free_port();
    write_config("routes: [{ match: /old, upstream: api }]\n");
    child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        _exit(server_run(config));
    }
    wait_for_answer(admin_port, "/readyz", " 200 ");
}

static void expect_success(int status)
{
    cr_assert(WIFEXITED(status), "ended by signal %d", WTERMSIG(status));
    cr_assert_eq(WEXITSTATUS(status), 0);
    unlink(config);
}

Test(server, a_signal_ends_it_however_often_it_is_sent)
{
    int status = 0;
    pid_t ended;

    start();
    do {
        kill(child, SIGTERM);
        kill(child, SIGHUP);
        ended = waitpid(child, &status, WNOHANG);
    } while (ended == 0);
    expect_success(status);
}

Test(server, a_reload_takes_what_is_right_and_keeps_the_old_for_what_is_not)
{
    int status;

    start();
    cr_assert_not_null(strstr(get(client_port, "/new"), "no_route"));
    write_config("routes: [{ match: /new, upstream: nobody }]\n");
    kill(child, SIGHUP);
    wait_for_answer(admin_port, "/metrics", "weir_reloads_total{outcome=\"refused\"} 1");
    cr_assert_not_null(strstr(get(client_port, "/old"), "upstream_error"));
    write_config("routes: [{ match: /new, upstream: api }]\n");
    kill(child, SIGHUP);
    wait_for_answer(client_port, "/old", "no_route");
    wait_for_answer(client_port, "/new", "upstream_error");
    kill(child, SIGTERM);
    cr_assert_eq(waitpid(child, &status, 0), child);
    expect_success(status);
}
