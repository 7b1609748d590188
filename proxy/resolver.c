/* Resolver: see resolver.h. One mutex over all of it: it is held for list work only, never while the system
 * looks a name up.
 *
 * An ask is linked to its name until it is answered; from then on it belongs to its loop, as a letter.
 * Cancelling therefore either unlinks and frees it, or marks the letter, which frees it on delivery.
 */
#include "resolver.h"
#include "check.h"
#include "clock.h"
#include "loop.h"
#include "memory.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

enum { GOOD_MS = 5000, BAD_MS = 1000, LAST_GOOD_MS = 60000, MAX_THREADS = 16, KEPT_NAMES = 256 };

enum name_state { NAME_IDLE, NAME_QUEUED, NAME_RUNNING };

struct name {
    struct name *next, *next_queued;
    enum name_state state;
    struct resolved found; /* ports 0 */
    bool is_answered;      /* `found` is an answer, good until ... */
    struct mono_ms until, last_good_until;
    size_t turn; /* rotates the addresses */
    struct resolver_ask *asks;
    char text[RESOLVER_MAX_NAME + 1];
};

struct resolver_ask {
    struct letter letter;
    struct resolver_ask *next;
    struct resolver *resolver;
    struct name *name; /* NULL: answered, the letter is on its way */
    struct loop *loop;
    int port;
    bool is_cancelled; /* the loop's thread only */
    struct resolved answer;
    void (*done)(void *arg, const struct resolved *answer);
    void *arg;
};

struct resolver {
    pthread_mutex_t mutex;
    pthread_cond_t work;
    int refs; /* the owner and each thread */
    bool is_stopping;
    struct name *names;
    size_t name_count;
    struct name *queue_head, **queue_tail;
    int thread_count;
    struct resolver_thread {
        struct resolver *resolver;
        pthread_t id;
        bool is_looking; /* in getaddrinfo */
    } threads[MAX_THREADS];
};

static void set_port(struct resolved *resolved, int port)
{
    for (size_t i = 0; i < resolved->count; i++) {
        struct sockaddr_storage *storage = &resolved->addresses[i].storage;
        if (storage->ss_family == AF_INET6)
            ((struct sockaddr_in6 *)storage)->sin6_port = htons((uint16_t)port);
        else
            ((struct sockaddr_in *)storage)->sin_port = htons((uint16_t)port);
    }
}

static bool parse_literal(struct slice host, struct resolved *out)
{
    char text[RESOLVER_MAX_NAME + 1];
    if (host.len >= sizeof(text))
        return false;
    memcpy(text, host.base, host.len);
    text[host.len] = '\0';

    struct resolved_address *address = &out->addresses[0];
    struct sockaddr_in *v4 = (struct sockaddr_in *)&address->storage;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&address->storage;
    memset(address, 0, sizeof(*address));
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        address->len = sizeof(*v4);
    } else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        address->len = sizeof(*v6);
    } else {
        return false;
    }
    out->count = 1;
    return true;
}

/* What this ask is told: the addresses with its port. Those of the first family take turns; the others stay
 * behind them, because the system had a reason to prefer the first family. */
static void give_answer(struct name *name, int port, struct resolved *out)
{
    const struct resolved *found = &name->found;
    size_t first_family = 0;
    while (first_family < found->count &&
           found->addresses[first_family].storage.ss_family == found->addresses[0].storage.ss_family)
        first_family++;

    out->count = found->count;
    for (size_t i = 0; i < found->count; i++)
        out->addresses[i] = found->addresses[i < first_family ? (i + name->turn) % first_family : i];
    name->turn++;
    set_port(out, port);
}

static void drop_stale_names(struct resolver *resolver)
{
    struct mono_ms now = clock_mono();
    for (struct name **link = &resolver->names; *link != NULL;) {
        struct name *name = *link;
        if (name->state == NAME_IDLE && name->last_good_until.ms <= now.ms && name->until.ms <= now.ms) {
            *link = name->next;
            free(name);
            resolver->name_count--;
        } else {
            link = &name->next;
        }
    }
}

static struct name *find_name(struct resolver *resolver, struct slice host)
{
    for (struct name *name = resolver->names; name != NULL; name = name->next)
        if (slice_eq(slice_text(name->text), host))
            return name;
    return NULL;
}

static struct name *add_name(struct resolver *resolver, struct slice host)
{
    if (resolver->name_count >= KEPT_NAMES)
        drop_stale_names(resolver);
    struct name *name = must_alloc(sizeof(*name));
    memcpy(name->text, host.base, host.len);
    name->next = resolver->names;
    resolver->names = name;
    resolver->name_count++;
    return name;
}

static void deliver(struct letter *letter, void *arg)
{
    (void)letter;
    struct resolver_ask *ask = arg;
    if (!ask->is_cancelled)
        ask->done(ask->arg, &ask->answer);
    free(ask);
}

static void collect(const struct addrinfo *list, struct resolved *out)
{
    out->count = 0;
    for (; list != NULL && out->count < RESOLVER_MAX_ADDRESSES; list = list->ai_next) {
        if (list->ai_family != AF_INET && list->ai_family != AF_INET6)
            continue;
        struct resolved_address *address = &out->addresses[out->count++];
        memset(address, 0, sizeof(*address));
        memcpy(&address->storage, list->ai_addr, list->ai_addrlen);
        address->len = list->ai_addrlen;
    }
}

/* With the mutex held: keeps the answer and sends it to all who asked. */
static void answer_name(struct name *name, const struct resolved *found, bool is_outage)
{
    struct mono_ms now = clock_mono();
    if (found->count > 0) {
        name->found = *found;
        name->until = mono_after(now, GOOD_MS);
        name->last_good_until = mono_after(now, LAST_GOOD_MS);
    } else {
        if (!is_outage || name->last_good_until.ms <= now.ms)
            name->found.count = 0;
        name->until = mono_after(now, BAD_MS);
    }
    name->is_answered = true;
    name->state = NAME_IDLE;

    for (struct resolver_ask *ask = name->asks, *next; ask != NULL; ask = next) {
        next = ask->next;
        ask->name = NULL;
        give_answer(name, ask->port, &ask->answer);
        loop_post(ask->loop, &ask->letter); /* the ask is its loop's from here on */
    }
    name->asks = NULL;
}

static void look_up(const char *text, struct resolved *found, bool *is_outage)
{
    struct addrinfo *list = NULL;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    int failed = getaddrinfo(text, NULL, &hints, &list);

    *is_outage = failed == EAI_AGAIN || failed == EAI_SYSTEM || failed == EAI_MEMORY;
    collect(failed == 0 ? list : NULL, found);
    if (list != NULL)
        freeaddrinfo(list);
}

/* With the mutex held, which it gives back. */
static void drop_ref(struct resolver *resolver)
{
    bool is_last = --resolver->refs == 0;
    pthread_mutex_unlock(&resolver->mutex);
    if (!is_last)
        return;
    while (resolver->names != NULL) {
        struct name *name = resolver->names;
        resolver->names = name->next;
        free(name);
    }
    pthread_cond_destroy(&resolver->work);
    pthread_mutex_destroy(&resolver->mutex);
    free(resolver);
}

static void *run_thread(void *arg)
{
    struct resolver_thread *self = arg;
    struct resolver *resolver = self->resolver;

    pthread_mutex_lock(&resolver->mutex);
    while (true) {
        while (!resolver->is_stopping && resolver->queue_head == NULL)
            pthread_cond_wait(&resolver->work, &resolver->mutex);
        if (resolver->is_stopping)
            break;
        struct name *name = resolver->queue_head;
        resolver->queue_head = name->next_queued;
        if (resolver->queue_head == NULL)
            resolver->queue_tail = &resolver->queue_head;
        name->state = NAME_RUNNING; /* which keeps the name from being dropped meanwhile */
        self->is_looking = true;
        pthread_mutex_unlock(&resolver->mutex);

        struct resolved found;
        bool is_outage;
        look_up(name->text, &found, &is_outage);

        pthread_mutex_lock(&resolver->mutex);
        self->is_looking = false;
        answer_name(name, &found, is_outage);
    }
    drop_ref(resolver);
    return NULL;
}

struct resolver *resolver_new(int threads)
{
    struct resolver *resolver = must_alloc(sizeof(*resolver));
    pthread_mutex_init(&resolver->mutex, NULL);
    pthread_cond_init(&resolver->work, NULL);
    resolver->queue_tail = &resolver->queue_head;
    resolver->refs = 1;

    /* Signals are for the thread that waits for them. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&resolver->mutex);
    for (int i = 0; i < threads && i < MAX_THREADS; i++) {
        struct resolver_thread *thread = &resolver->threads[resolver->thread_count];
        thread->resolver = resolver;
        if (pthread_create(&thread->id, NULL, run_thread, thread) != 0)
            break;
        resolver->thread_count++;
        resolver->refs++;
    }
    pthread_mutex_unlock(&resolver->mutex);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    CHECK(resolver->thread_count > 0);
    return resolver;
}

void resolver_free(struct resolver *resolver)
{
    pthread_t idle[MAX_THREADS];
    int idle_count = 0;

    pthread_mutex_lock(&resolver->mutex);
    resolver->is_stopping = true;
    for (struct name *name = resolver->names; name != NULL; name = name->next)
        CHECK(name->asks == NULL);
    for (int i = 0; i < resolver->thread_count; i++) {
        if (resolver->threads[i].is_looking)
            pthread_detach(
                resolver->threads[i].id); /* it may hang for minutes; the last one out frees everything */
        else
            idle[idle_count++] = resolver->threads[i].id;
    }
    pthread_cond_broadcast(&resolver->work);
    pthread_mutex_unlock(&resolver->mutex);
    for (int i = 0; i < idle_count; i++)
        pthread_join(idle[i], NULL);

    pthread_mutex_lock(&resolver->mutex);
    drop_ref(resolver);
}

/* With the mutex held. */
static bool is_known(const struct name *name)
{
    return name != NULL && name->is_answered && clock_mono().ms < name->until.ms;
}

bool resolver_knows(struct resolver *resolver, struct slice host, int port, struct resolved *out)
{
    if (parse_literal(host, out)) {
        set_port(out, port);
        return true;
    }
    if (host.len == 0 || host.len > RESOLVER_MAX_NAME) { /* no such name can exist */
        out->count = 0;
        return true;
    }
    pthread_mutex_lock(&resolver->mutex);
    struct name *name = find_name(resolver, host);
    bool knows = is_known(name);
    if (knows)
        give_answer(name, port, out);
    pthread_mutex_unlock(&resolver->mutex);
    return knows;
}

struct resolver_ask *resolver_start(struct resolver *resolver, struct loop *loop, struct slice host, int port,
                                    void (*done)(void *arg, const struct resolved *answer), void *arg)
{
    struct resolver_ask *ask = must_alloc(sizeof(*ask));
    ask->letter.deliver = deliver;
    ask->letter.arg = ask;
    ask->resolver = resolver;
    ask->loop = loop;
    ask->port = port;
    ask->done = done;
    ask->arg = arg;

    if (resolver_knows(resolver, host, port, &ask->answer)) {
        loop_post(loop, &ask->letter);
        return ask;
    }
    pthread_mutex_lock(&resolver->mutex);
    struct name *name = find_name(resolver, host);
    if (name == NULL)
        name = add_name(resolver, host);
    ask->name = name;
    ask->next = name->asks;
    name->asks = ask;
    if (name->state == NAME_IDLE) {
        name->state = NAME_QUEUED;
        name->next_queued = NULL;
        *resolver->queue_tail = name;
        resolver->queue_tail = &name->next_queued;
        pthread_cond_signal(&resolver->work);
    }
    pthread_mutex_unlock(&resolver->mutex);
    return ask;
}

void resolver_cancel(struct resolver_ask **taken)
{
    struct resolver_ask *ask = *taken;
    *taken = NULL;
    if (ask == NULL)
        return;
    struct resolver *resolver = ask->resolver;
    pthread_mutex_lock(&resolver->mutex);
    struct name *name = ask->name;
    if (name != NULL) {
        struct resolver_ask **link = &name->asks;
        while (*link != ask)
            link = &(*link)->next;
        *link = ask->next;
    }
    pthread_mutex_unlock(&resolver->mutex);
    if (name != NULL)
        free(ask);
    else
        ask->is_cancelled = true; /* on its way: the letter frees it */
}
