/* Loops of several threads that post to each other, for the thread sanitizer: every letter is delivered,
 * once. */
#include "loop.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, ROUNDS = 3000 };

struct place {
    struct loop *loop;
    struct timer tick;
    int sent, received, own_ticks;
    unsigned int random;
    pthread_t thread;
};

static struct place places[THREADS];
static pthread_barrier_t all_ready;
static _Atomic int letters_open;
static _Atomic int senders_left;

static void on_delivered(struct letter *letter, void *arg)
{
    struct place *place = arg;

    place->received++;
    free(letter);
    atomic_fetch_sub(&letters_open, 1);
}

static void on_tick(void *arg)
{
    struct place *place = arg;

    place->own_ticks++;
    for (int i = 0; i < 20 && place->sent < ROUNDS; i++, place->sent++) {
        struct place *to = &places[(unsigned int)rand_r(&place->random) % THREADS];
        struct letter *letter = calloc(1, sizeof(*letter));

        letter->deliver = on_delivered;
        letter->arg = to;
        atomic_fetch_add(&letters_open, 1);
        loop_post(to->loop, letter);
    }
    if (place->sent < ROUNDS)
        timer_start(place->loop, &place->tick, mono_after(loop_now(place->loop), 1));
    else
        atomic_fetch_sub(&senders_left, 1);
}

static void *live(void *arg)
{
    struct place *place = arg;

    place->loop = loop_new();
    timer_init(&place->tick, on_tick, place);
    pthread_barrier_wait(&all_ready);
    timer_start(place->loop, &place->tick, loop_now(place->loop));
    while (atomic_load(&senders_left) > 0 || atomic_load(&letters_open) > 0) {
        loop_turn(place->loop, 50);
        loop_wake(places[(unsigned int)rand_r(&place->random) % THREADS].loop);
    }
    pthread_barrier_wait(&all_ready);
    loop_turn(place->loop, 0);
    loop_free(place->loop);
    return NULL;
}

int main(void)
{
    int received = 0;

    signal(SIGPIPE, SIG_IGN);
    pthread_barrier_init(&all_ready, NULL, THREADS);
    atomic_store(&senders_left, THREADS);
    for (unsigned int i = 0; i < THREADS; i++) {
        places[i].random = i + 1;
        if (pthread_create(&places[i].thread, NULL, live, &places[i]) != 0)
            return 1;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(places[i].thread, NULL);
    for (int i = 0; i < THREADS; i++)
        received += places[i].received;
    printf("%d of %d letters arrived\n", received, THREADS * ROUNDS);
    return received == THREADS * ROUNDS ? 0 : 1;
}
