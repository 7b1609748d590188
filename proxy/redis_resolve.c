/* Redis resolve: see redis_resolve.h. The question is shared by the loop and the thread; whichever lets go
 * last frees it: the thread if it was cancelled before the answer was posted, else the letter.
 */
#include "redis_resolve.h"

#include "memory.h"

#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

struct redis_resolve {
    struct letter letter;
    pthread_mutex_t lock;
    struct loop *loop; /* NULL: cancelled before the answer came. Under the lock */
    bool is_cancelled; /* the loop's own */
    bool is_posted;    /* under the lock */
    char *host;
    int port;
    redis_resolved *done;
    void *arg;
    struct redis_addresses found;
};

static void ask(const char *host, int port, int flags, struct redis_addresses *out)
{
    struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[16];

    out->count = 0;
    snprintf(service, sizeof(service), "%d", port);
    if (getaddrinfo(host, service, &want, &found) != 0)
        return;
    for (struct addrinfo *each = found; each != NULL && out->count < REDIS_MAX_ADDRESSES;
         each = each->ai_next) {
        if (each->ai_addrlen > sizeof(out->list[0]))
            continue;
        memcpy(&out->list[out->count], each->ai_addr, each->ai_addrlen);
        out->lens[out->count++] = each->ai_addrlen;
    }
    freeaddrinfo(found);
}

bool redis_address_read(const char *host, int port, struct redis_addresses *out)
{
    ask(host, port, AI_NUMERICHOST, out);
    return out->count > 0;
}

void redis_address_unix(const char *path, struct redis_addresses *out)
{
    struct sockaddr_un *address = (struct sockaddr_un *)&out->list[0];
    size_t len = strlen(path);

    out->count = 0;
    if (len >= sizeof(address->sun_path))
        return;
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, path, len + 1);
    out->lens[0] = sizeof(*address);
    out->count = 1;
}

static void free_resolve(struct redis_resolve *resolve)
{
    pthread_mutex_destroy(&resolve->lock);
    free(resolve->host);
    free(resolve);
}

static void deliver(struct letter *letter, void *arg)
{
    struct redis_resolve *resolve = arg;

    (void)letter;
    if (!resolve->is_cancelled)
        resolve->done(resolve->arg, &resolve->found);
    pthread_mutex_lock(&resolve->lock); /* the thread may still be leaving its lock */
    pthread_mutex_unlock(&resolve->lock);
    free_resolve(resolve);
}

static void *run(void *arg)
{
    struct redis_resolve *resolve = arg;
    bool is_wanted;

    ask(resolve->host, resolve->port, AI_ADDRCONFIG, &resolve->found);
    if (resolve->found.count == 0) /* a host without any outside address still has its loopback names */
        ask(resolve->host, resolve->port, 0, &resolve->found);
    pthread_mutex_lock(&resolve->lock);
    is_wanted = resolve->loop != NULL;
    resolve->is_posted = is_wanted;
    if (is_wanted) /* under the lock: whoever cancels may free the loop right after */
        loop_post(resolve->loop, &resolve->letter);
    pthread_mutex_unlock(&resolve->lock);
    if (!is_wanted)
        free_resolve(resolve);
    return NULL;
}

struct redis_resolve *redis_resolve_start(struct loop *loop, const char *host, int port, redis_resolved *done,
                                          void *arg)
{
    struct redis_resolve *resolve = must_alloc(sizeof(*resolve));
    pthread_attr_t attributes;
    pthread_t thread;
    int error;

    resolve->letter = (struct letter){.deliver = deliver, .arg = resolve};
    pthread_mutex_init(&resolve->lock, NULL);
    resolve->loop = loop;
    resolve->host = must_copy(host, strlen(host));
    resolve->port = port;
    resolve->done = done;
    resolve->arg = arg;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    error = pthread_create(&thread, &attributes, run, resolve);
    pthread_attr_destroy(&attributes);
    if (error != 0) {
        free_resolve(resolve);
        return NULL;
    }
    return resolve;
}

void redis_resolve_cancel(struct redis_resolve **taken)
{
    struct redis_resolve *resolve = *taken;

    if (resolve == NULL)
        return;
    *taken = NULL;
    resolve->is_cancelled = true;
    pthread_mutex_lock(&resolve->lock);
    if (!resolve->is_posted)
        resolve->loop = NULL;
    pthread_mutex_unlock(&resolve->lock);
}
