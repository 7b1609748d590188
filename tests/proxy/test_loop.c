/* The loop's promises: what runs in a turn, in which order, and that what was cancelled never runs. */
#include "loop.h"
#include "loop_h2o.h"

#include "clock.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE_MS = 10000 };

static struct loop *loop;
static char trail[256];

static void setup(void)
{
    loop = loop_new();
    trail[0] = '\0';
}

static void teardown(void)
{
    loop_free(loop);
}

TestSuite(loop, .init = setup, .fini = teardown);

static void note(const char *what)
{
    strncat(trail, what, sizeof(trail) - strlen(trail) - 1);
}

static void on_note(void *arg)
{
    note(arg);
}

/* Turns until `condition` holds or patience ends. */
#define TURN_UNTIL(condition)                                                                                \
    do {                                                                                                     \
        int64_t give_up_ms = clock_mono().ms + PATIENCE_MS;                                                  \
        while (!(condition) && clock_mono().ms < give_up_ms)                                                 \
            loop_turn(loop, 100);                                                                            \
        cr_assert(condition, "not in time: %s", #condition);                                                 \
    } while (0)

Test(loop, tasks_run_lowest_phase_first_and_in_order_within_one)
{
    struct task send, decide, arrive_1, arrive_2, settle;

    task_init(&settle, LOOP_SETTLE, on_note, "settle");
    task_init(&send, LOOP_SEND, on_note, "send ");
    task_init(&decide, LOOP_DECIDE, on_note, "decide ");
    task_init(&arrive_1, LOOP_ARRIVE, on_note, "arrive1 ");
    task_init(&arrive_2, LOOP_ARRIVE, on_note, "arrive2 ");
    loop_defer(loop, &settle);
    loop_defer(loop, &send);
    loop_defer(loop, &arrive_1);
    loop_defer(loop, &decide);
    loop_defer(loop, &arrive_2);
    loop_defer(loop, &arrive_1); /* waits already: keeps its place */
    loop_turn(loop, PATIENCE_MS);
    cr_assert_str_eq(trail, "arrive1 arrive2 decide send settle");
}

static struct task deferred_late;

static void on_send_defers_arrival(void *arg)
{
    note("send ");
    loop_defer(arg, &deferred_late);
}

Test(loop, a_task_deferred_by_a_later_phase_runs_before_that_phase_goes_on)
{
    struct task send_1, send_2;

    task_init(&deferred_late, LOOP_ARRIVE, on_note, "arrive ");
    task_init(&send_1, LOOP_SEND, on_send_defers_arrival, loop);
    task_init(&send_2, LOOP_SEND, on_note, "send2");
    loop_defer(loop, &send_1);
    loop_defer(loop, &send_2);
    loop_turn(loop, PATIENCE_MS);
    cr_assert_str_eq(trail, "send arrive send2");
}

static struct task itself;
static int runs_left;

static void on_run_again(void *arg)
{
    note("x");
    if (--runs_left > 0)
        loop_defer(arg, &itself);
}

Test(loop, a_task_may_defer_itself_and_runs_again_in_the_turn)
{
    runs_left = 5;
    task_init(&itself, LOOP_DECIDE, on_run_again, loop);
    loop_defer(loop, &itself);
    loop_turn(loop, PATIENCE_MS);
    cr_assert_str_eq(trail, "xxxxx");
}

static struct task victim;
static struct timer victim_timer;

static void on_cancel_victims(void *arg)
{
    note("killer ");
    task_cancel(arg, &victim);
    timer_cancel(arg, &victim_timer);
}

Test(loop, what_a_task_cancels_does_not_run)
{
    struct task killer, witness;

    task_init(&killer, LOOP_ARRIVE, on_cancel_victims, loop);
    task_init(&victim, LOOP_ARRIVE, on_note, "victim ");
    task_init(&witness, LOOP_ARRIVE, on_note, "witness");
    timer_init(&victim_timer, on_note, "timer ");
    timer_start(loop, &victim_timer, mono_after(loop_now(loop), 5));
    loop_defer(loop, &killer);
    loop_defer(loop, &victim);
    loop_defer(loop, &witness);
    loop_turn(loop, 0);
    for (int i = 0; i < 20; i++)
        loop_turn(loop, 1);
    cr_assert_str_eq(trail, "killer witness");
    task_cancel(loop, &victim);        /* not waiting: fine */
    timer_cancel(loop, &victim_timer); /* not running: fine */
}

Test(loop, a_timer_that_a_timer_cancels_does_not_fire_even_if_due)
{
    struct timer killer;

    timer_init(&killer, on_cancel_victims, loop);
    timer_init(&victim_timer, on_note, "timer ");
    timer_start(loop, &killer, loop_now(loop));
    timer_start(loop, &victim_timer, loop_now(loop));
    loop_turn(loop, 0);
    loop_turn(loop, 0);
    cr_assert_str_eq(trail, "killer ");
}

Test(loop, due_timers_fire_before_tasks_and_in_the_order_they_were_started)
{
    struct timer first, second, third;
    struct task task;

    timer_init(&first, on_note, "1");
    timer_init(&second, on_note, "2");
    timer_init(&third, on_note, "3");
    task_init(&task, LOOP_ARRIVE, on_note, "task");
    timer_start(loop, &third, (struct mono_ms){1}); /* long past: now */
    timer_start(loop, &first, (struct mono_ms){2});
    timer_start(loop, &second, (struct mono_ms){1});
    timer_start(loop, &third, (struct mono_ms){1}); /* moved behind the others */
    loop_defer(loop, &task);
    loop_turn(loop, 0);
    cr_assert_str_eq(trail, "123task");
}

Test(loop, a_turn_waits_no_longer_than_to_the_next_timer)
{
    struct timer timer;
    struct mono_ms began = clock_mono();

    timer_init(&timer, on_note, "fired");
    timer_start(loop, &timer, mono_after(loop_now(loop), 30));
    loop_turn(loop, 3600 * 1000);
    if (trail[0] == '\0') /* the wait may have ended by a signal */
        TURN_UNTIL(trail[0] != '\0');
    cr_assert_str_eq(trail, "fired");
    cr_assert_geq(clock_mono().ms - began.ms, 30, "a deadline is never early");
}

static struct timer moved;

static void on_move(void *arg)
{
    struct loop *l = arg;

    note("moved ");
    timer_start(l, &moved, mono_after(loop_now(l), 20));
}

Test(loop, a_running_timer_is_moved_by_starting_it)
{
    struct timer mover;

    timer_init(&moved, on_note, "fired");
    timer_init(&mover, on_move, loop);
    timer_start(loop, &moved, mono_after(loop_now(loop), 3600 * 1000));
    timer_start(loop, &mover, mono_after(loop_now(loop), 5));
    TURN_UNTIL(strcmp(trail, "moved fired") == 0);
}

static void on_restart_at_once(void *arg)
{
    struct timer *self = arg;

    note("s");
    timer_start(loop, self, loop_now(loop));
}

Test(loop, a_timer_that_starts_itself_at_once_cannot_hold_the_loop_or_others)
{
    struct timer selfish, other;

    timer_init(&selfish, on_restart_at_once, &selfish);
    timer_init(&other, on_note, "other");
    timer_start(loop, &selfish, loop_now(loop));
    timer_start(loop, &other, loop_now(loop));
    loop_turn(loop, 0);
    cr_assert_str_eq(trail, "sother");
    timer_cancel(loop, &selfish);
}

static void on_freed(void *arg)
{
    note("freed");
    free(arg);
}

Test(loop, timers_and_tasks_may_be_freed_by_their_own_callbacks)
{
    struct timer *timer = malloc(sizeof(*timer));
    struct task *task = malloc(sizeof(*task));

    timer_init(timer, on_freed, timer);
    task_init(task, LOOP_SEND, on_freed, task);
    timer_start(loop, timer, loop_now(loop));
    loop_defer(loop, task);
    loop_turn(loop, 0);
    cr_assert_str_eq(trail, "freedfreed");
}

/* ---- thousands of random timers against a plain table ---- */

enum { MANY = 3000, STEPS = 20000 };

static struct {
    struct timer timer;
    int64_t due_ms; /* 0: not running */
    uint64_t started;
} many[MANY];
static uint64_t starts;
static int64_t last_due_ms;
static uint64_t last_started;
static size_t fired_count;

static void on_one_of_many(void *arg)
{
    size_t i = (size_t)(uintptr_t)arg;

    cr_assert_neq(many[i].due_ms, 0, "timer %zu fired though it was not running", i);
    cr_assert_leq(many[i].due_ms, loop_now(loop).ms, "timer %zu fired early", i);
    cr_assert(many[i].due_ms > last_due_ms ||
                  (many[i].due_ms == last_due_ms && many[i].started > last_started),
              "timer %zu fired out of order", i);
    last_due_ms = many[i].due_ms;
    last_started = many[i].started;
    many[i].due_ms = 0;
    fired_count++;
}

Test(loop, thousands_of_random_timers_fire_as_a_plain_table_says)
{
    unsigned int random = 12345;
    size_t running = 0;

    for (size_t i = 0; i < MANY; i++)
        timer_init(&many[i].timer, on_one_of_many, (void *)(uintptr_t)i);
    for (int step = 0; step < STEPS; step++) {
        size_t i = (size_t)rand_r(&random) % MANY;

        if (rand_r(&random) % 3 == 0) {
            timer_cancel(loop, &many[i].timer);
            many[i].due_ms = 0;
        } else {
            many[i].due_ms = loop_now(loop).ms + 1 + rand_r(&random) % 200;
            many[i].started = ++starts;
            timer_start(loop, &many[i].timer, (struct mono_ms){many[i].due_ms});
        }
        if (step % 50 == 0) {
            last_due_ms = 0;
            loop_turn(loop, 0);
            for (size_t k = 0; k < MANY; k++)
                cr_assert(many[k].due_ms == 0 || many[k].due_ms >= loop_now(loop).ms - PATIENCE_MS);
        }
    }
    for (size_t i = 0; i < MANY; i++)
        running += many[i].due_ms != 0;
    fired_count = 0;
    last_due_ms = 0;
    TURN_UNTIL(fired_count == running);
    for (size_t i = 0; i < MANY; i++)
        cr_assert_eq(many[i].timer.place, 0);
}

/* ---- letters ---- */

enum { SENDERS = 4, LETTERS = 2000 };

struct numbered_letter {
    struct letter letter;
    int sender, number;
};

static int next_number[SENDERS], delivered;

static void on_delivered(struct letter *letter, void *arg)
{
    struct numbered_letter *numbered = (struct numbered_letter *)letter;

    (void)arg;
    cr_assert_eq(numbered->number, next_number[numbered->sender], "letters of one sender keep their order");
    next_number[numbered->sender]++;
    delivered++;
    free(numbered);
}

static void *send_letters(void *arg)
{
    for (int i = 0; i < LETTERS; i++) {
        struct numbered_letter *numbered = calloc(1, sizeof(*numbered));

        numbered->sender = (int)(intptr_t)arg;
        numbered->number = i;
        numbered->letter.deliver = on_delivered;
        loop_post(loop, &numbered->letter);
    }
    return NULL;
}

Test(loop, letters_from_threads_arrive_once_each_and_in_their_senders_order)
{
    pthread_t threads[SENDERS];

    for (intptr_t i = 0; i < SENDERS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, send_letters, (void *)i), 0);
    TURN_UNTIL(delivered == SENDERS * LETTERS);
    for (int i = 0; i < SENDERS; i++)
        pthread_join(threads[i], NULL);
}

static void on_delivered_defers(struct letter *letter, void *arg)
{
    (void)letter;
    note("letter ");
    loop_defer(loop, arg);
}

Test(loop, a_letter_comes_before_timers_and_tasks_of_its_turn)
{
    struct task task;
    struct timer timer;
    struct letter letter = {.deliver = on_delivered_defers, .arg = &task};

    task_init(&task, LOOP_DECIDE, on_note, "task");
    timer_init(&timer, on_note, "timer ");
    timer_start(loop, &timer, loop_now(loop));
    loop_post(loop, &letter);
    loop_turn(loop, PATIENCE_MS);
    cr_assert_str_eq(trail, "letter timer task");
}

static _Atomic bool is_stopped;

static void *wake_later(void *arg)
{
    (void)arg;
    atomic_store(&is_stopped, true);
    loop_wake(loop);
    return NULL;
}

Test(loop, a_wake_ends_a_long_wait, .timeout = 30)
{
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, wake_later, NULL), 0);
    while (!atomic_load(&is_stopped))
        loop_turn(loop, 3600 * 1000);
    pthread_join(thread, NULL);
}

/* ---- sockets ---- */

static struct task after_written;
static bool completion_defers;

static void on_after_written(void *arg)
{
    (void)arg;
    note(" settled");
}

static void on_written(h2o_socket_t *sock, const char *err)
{
    (void)sock;
    (void)err;
    note("written");
    if (completion_defers)
        loop_defer(loop, &after_written);
}

static void on_write(void *arg)
{
    static char hello[] = "hello";
    h2o_iovec_t bytes = h2o_iovec_init(hello, 5);

    note("write ");
    h2o_socket_write(arg, &bytes, 1, on_written);
}

/* A turn in which a task writes to one end of a pair; what arrived at the other is looked at. */
static void write_in_a_turn(void)
{
    int ends[2];
    char got[8];
    h2o_socket_t *sock;
    struct task task;

    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    sock = h2o_evloop_socket_create(loop_h2o(loop), ends[0], 0);
    task_init(&task, LOOP_SEND, on_write, sock);
    task_init(&after_written, LOOP_SETTLE, on_after_written, NULL);
    loop_defer(loop, &task);
    loop_turn(loop, PATIENCE_MS);
    cr_assert_eq(read(ends[1], got, sizeof(got)), 5);
    h2o_socket_close(sock);
    close(ends[1]);
}

Test(loop, what_a_task_writes_is_completed_in_the_same_turn)
{
    write_in_a_turn();
    cr_assert_str_eq(trail, "write written");
}

/* Every answer ends so: a turn of its own for it would be a system call more for each request of a quiet server. */
Test(loop, what_the_completion_of_a_write_defers_runs_in_the_same_turn)
{
    completion_defers = true;
    write_in_a_turn();
    cr_assert_str_eq(trail, "write written settled");
}
