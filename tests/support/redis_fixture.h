/* Redis fixture: a private redis-server for one test, gone when the test is.
 *
 * It listens on a socket in a folder of its own and on a free loopback port, keeps nothing on disk, and dies
 * with the process that started it even if that crashes. It can be stopped and started again at the same
 * addresses, empty.
 */
#ifndef WEIR_REDIS_FIXTURE_H
#define WEIR_REDIS_FIXTURE_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct redis_fixture {
    pid_t pid; /* 0: not running */
    int port;
    char dir[40], socket[64];
};

static inline void redis_fixture_fail(const char *what)
{
    fprintf(stderr, "redis fixture: %s: %s\n", what, strerror(errno));
    abort();
}

static inline void redis_fixture_pause(void)
{
    struct timespec five_ms = {.tv_nsec = 5000000};
    nanosleep(&five_ms, NULL);
}

/* A port that was free a moment ago; redis_fixture_run() notices where it no longer is. */
static inline int redis_fixture_free_port(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(any);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&any, len) != 0 ||
        getsockname(fd, (struct sockaddr *)&any, &len) != 0)
        redis_fixture_fail("no free port");
    close(fd);
    return ntohs(any.sin_port);
}

/* A blocking connection that gives up after ten seconds of silence; the caller frees it. NULL while the
 * server is not there. */
static inline redisContext *redis_fixture_connect(const struct redis_fixture *fixture)
{
    struct timeval patience = {.tv_sec = 10};
    redisContext *connection = redisConnectUnixWithTimeout(fixture->socket, patience);

    if (connection == NULL || connection->err != 0) {
        redisFree(connection);
        return NULL;
    }
    redisSetTimeout(connection, patience);
    return connection;
}

static inline bool redis_fixture_answers(const struct redis_fixture *fixture)
{
    redisContext *connection = redis_fixture_connect(fixture);
    redisReply *reply = connection == NULL ? NULL : redisCommand(connection, "PING");
    bool is_pong = reply != NULL && reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "PONG") == 0;

    freeReplyObject(reply);
    if (connection != NULL)
        redisFree(connection);
    return is_pong;
}

static inline pid_t redis_fixture_spawn(const struct redis_fixture *fixture)
{
    char port[12];
    pid_t parent = getpid();
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died before we asked to be told */
        _exit(1);
    int quiet = open("/dev/null", O_RDWR);
    dup2(quiet, STDIN_FILENO);
    dup2(quiet, STDOUT_FILENO);
    dup2(quiet, STDERR_FILENO);
    snprintf(port, sizeof(port), "%d", fixture->port);
    execlp("redis-server", "redis-server", "--port", port, "--bind", "127.0.0.1", "--unixsocket",
           fixture->socket, "--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", fixture->dir,
           (char *)NULL);
    _exit(127);
}

/* Starts the server at the fixture's addresses and waits until it answers; false if it ended instead. */
static inline bool redis_fixture_run(struct redis_fixture *fixture)
{
    fixture->pid = redis_fixture_spawn(fixture);
    if (fixture->pid < 0)
        redis_fixture_fail("fork");
    for (int tries = 0; tries < 6000; tries++) {
        if (redis_fixture_answers(fixture))
            return true;
        if (waitpid(fixture->pid, NULL, WNOHANG) == fixture->pid) {
            fixture->pid = 0;
            return false;
        }
        redis_fixture_pause();
    }
    errno = ETIMEDOUT;
    redis_fixture_fail("redis-server does not answer");
    return false;
}

/* As a crash does: no goodbye, and everything is lost. */
static inline void redis_fixture_kill(struct redis_fixture *fixture)
{
    if (fixture->pid == 0)
        return;
    kill(fixture->pid, SIGKILL);
    waitpid(fixture->pid, NULL, 0);
    fixture->pid = 0;
    unlink(fixture->socket);
}

static inline struct redis_fixture redis_fixture_start(void)
{
    struct redis_fixture fixture = {.dir = "/tmp/weir-redis-XXXXXX"};

    signal(SIGPIPE, SIG_IGN);
    if (mkdtemp(fixture.dir) == NULL)
        redis_fixture_fail("no temporary folder");
    snprintf(fixture.socket, sizeof(fixture.socket), "%s/socket", fixture.dir);
    for (int tries = 0; tries < 5; tries++) {
        fixture.port = redis_fixture_free_port();
        if (redis_fixture_run(&fixture))
            return fixture;
    }
    redis_fixture_fail("redis-server does not start (is it installed?)");
    return fixture;
}

/* The server and its folder are gone afterwards. */
static inline void redis_fixture_stop(struct redis_fixture *fixture)
{
    redis_fixture_kill(fixture);
    rmdir(fixture->dir);
}

#endif
