/* Loop: when does a thread's next piece of work run, and in which order?
 *
 * h2o's evloop waits and runs the sockets. Everything else hangs on two h2o timeout entries, which fire in every
 * turn after the sockets. `end_of_turn` brings letters, due timers, then the deferred tasks. It has to be h2o
 * that calls us: what is written between two runs of its loop is only completed after the next wait. Between
 * the two, h2o completes what the tasks wrote; `after_writes` then runs the tasks that the completions deferred,
 * which else would cost a turn, and a system call, of their own.
 *
 * h2o's timeouts follow the wall clock, and a step of that clock would stop or fire them all. So no deadline
 * of ours is one: ours are kept in a heap in monotonic time, and the wait is cut to the earliest. The entries
 * themselves are made due for ever, see link_due().
 */
#include "loop.h"
#include "loop_h2o.h"

#include "check.h"
#include "clock.h"
#include "memory.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

struct task_queue {
    struct task *first, *last;
};

struct loop {
    h2o_loop_t *h2o;
    h2o_timeout_t every_turn;
    h2o_timeout_entry_t end_of_turn, after_writes;
    h2o_multithread_queue_t *waker;
    h2o_multithread_receiver_t receiver; /* never gets a message: it is only there to wake the loop */
    _Atomic(struct letter *)
        mailbox;         /* newest first. Other threads touch this, `callers` and the waker, no more */
    _Atomic int callers; /* threads that are inside loop_post() or loop_wake() */
    struct mono_ms now;
    bool now_is_old; /* a wait lies between the last reading and now */
    bool in_turn;
    struct timer **heap; /* heap[0] is not used: places are 1-based */
    size_t heap_count, heap_room;
    uint64_t started; /* timers so far */
    struct task_queue tasks[LOOP_PHASES];
    size_t tasks_waiting;
};

/* ---- the timers' heap ---- */

static bool is_before(const struct timer *a, const struct timer *b)
{
    return a->at.ms != b->at.ms ? a->at.ms < b->at.ms : a->order < b->order;
}

static void heap_put(struct loop *loop, struct timer *timer, size_t place)
{
    loop->heap[place] = timer;
    timer->place = place;
}

static void heap_rise(struct loop *loop, struct timer *timer, size_t place)
{
    while (place > 1 && is_before(timer, loop->heap[place / 2])) {
        heap_put(loop, loop->heap[place / 2], place);
        place /= 2;
    }
    heap_put(loop, timer, place);
}

static void heap_sink(struct loop *loop, struct timer *timer, size_t place)
{
    for (size_t child; (child = place * 2) <= loop->heap_count; place = child) {
        if (child < loop->heap_count && is_before(loop->heap[child + 1], loop->heap[child]))
            child++;
        if (!is_before(loop->heap[child], timer))
            break;
        heap_put(loop, loop->heap[child], place);
    }
    heap_put(loop, timer, place);
}

static void heap_settle(struct loop *loop, struct timer *timer, size_t place)
{
    if (place > 1 && is_before(timer, loop->heap[place / 2]))
        heap_rise(loop, timer, place);
    else
        heap_sink(loop, timer, place);
}

static void heap_remove(struct loop *loop, struct timer *timer)
{
    struct timer *moved = loop->heap[loop->heap_count--];

    if (moved != timer)
        heap_settle(loop, moved, timer->place);
    timer->place = 0;
}

void timer_init(struct timer *timer, void (*fired)(void *arg), void *arg)
{
    *timer = (struct timer){.fired = fired, .arg = arg};
}

void timer_start(struct loop *loop, struct timer *timer, struct mono_ms at)
{
    struct mono_ms now = loop_now(loop);

    /* Clamped, so that a timer which its own callback starts again "at once" queues behind the others that
     * are due. */
    timer->at = at.ms > now.ms ? at : now;
    timer->order = loop->started++;
    if (timer->place != 0) {
        CHECK(timer->place <= loop->heap_count && loop->heap[timer->place] == timer);
        heap_settle(loop, timer, timer->place);
        return;
    }
    if (loop->heap_count + 1 >= loop->heap_room) {
        loop->heap_room = loop->heap_room == 0 ? 64 : loop->heap_room * 2;
        loop->heap = must_realloc(loop->heap, loop->heap_room * sizeof(loop->heap[0]));
    }
    heap_rise(loop, timer, ++loop->heap_count);
}

void timer_cancel(struct loop *loop, struct timer *timer)
{
    if (timer->place == 0)
        return;
    CHECK(timer->place <= loop->heap_count && loop->heap[timer->place] == timer);
    heap_remove(loop, timer);
}

/* No more fire in one turn than there were at its start: timers which start each other cannot hold the loop.
 */
static void fire_due_timers(struct loop *loop)
{
    struct mono_ms now = loop_now(loop);

    for (size_t left = loop->heap_count; left > 0 && loop->heap_count > 0 && loop->heap[1]->at.ms <= now.ms;
         left--) {
        struct timer *timer = loop->heap[1];

        heap_remove(loop, timer);
        timer->fired(timer->arg); /* the timer may be gone now */
    }
}

/* ---- deferred tasks ---- */

void task_init(struct task *task, enum loop_phase phase, void (*run)(void *arg), void *arg)
{
    CHECK(phase >= 0 && phase < LOOP_PHASES);
    *task = (struct task){.phase = phase, .run = run, .arg = arg};
}

void loop_defer(struct loop *loop, struct task *task)
{
    struct task_queue *queue = &loop->tasks[task->phase];

    if (task->waits)
        return;
    task->waits = true;
    task->next = NULL;
    task->before = queue->last;
    if (queue->last != NULL)
        queue->last->next = task;
    else
        queue->first = task;
    queue->last = task;
    loop->tasks_waiting++;
}

void task_cancel(struct loop *loop, struct task *task)
{
    struct task_queue *queue = &loop->tasks[task->phase];

    if (!task->waits)
        return;
    if (task->before != NULL)
        task->before->next = task->next;
    else
        queue->first = task->next;
    if (task->next != NULL)
        task->next->before = task->before;
    else
        queue->last = task->before;
    task->next = task->before = NULL;
    task->waits = false;
    loop->tasks_waiting--;
}

static struct task *first_task(const struct loop *loop)
{
    for (size_t phase = 0; phase < LOOP_PHASES; phase++)
        if (loop->tasks[phase].first != NULL)
            return loop->tasks[phase].first;
    return NULL;
}

static void run_tasks(struct loop *loop)
{
    for (struct task *task; (task = first_task(loop)) != NULL;) {
        task_cancel(loop, task);
        task->run(task->arg); /* the task may be gone now */
    }
}

/* ---- letters ---- */

static void wake(struct loop *loop)
{
    h2o_multithread_send_message(&loop->receiver, NULL);
}

void loop_post(struct loop *to, struct letter *letter)
{
    struct letter *newest = atomic_load_explicit(&to->mailbox, memory_order_relaxed);

    atomic_fetch_add(&to->callers, 1);
    do {
        letter->next = newest;
    } while (!atomic_compare_exchange_weak_explicit(&to->mailbox, &newest, letter, memory_order_release,
                                                    memory_order_relaxed));
    if (newest == NULL) /* else whoever posted into the empty box wakes the loop */
        wake(to);
    atomic_fetch_sub(&to->callers, 1);
}

void loop_wake(struct loop *loop)
{
    atomic_fetch_add(&loop->callers, 1);
    wake(loop);
    atomic_fetch_sub(&loop->callers, 1);
}

/* A letter may be delivered before its sender has woken the loop for it, and be the one that ends the loop.
 */
static void await_callers(struct loop *loop)
{
    while (atomic_load(&loop->callers) > 0)
        sched_yield();
}

static void deliver_letters(struct loop *loop)
{
    struct letter *newest, *oldest = NULL;

    if (atomic_load_explicit(&loop->mailbox, memory_order_relaxed) == NULL)
        return;
    newest = atomic_exchange_explicit(&loop->mailbox, NULL, memory_order_acquire);
    while (newest != NULL) {
        struct letter *older = newest->next;

        newest->next = oldest;
        oldest = newest;
        newest = older;
    }
    while (oldest != NULL) {
        struct letter *letter = oldest;

        oldest = letter->next;
        letter->next = NULL;
        letter->deliver(letter, letter->arg); /* owns the letter */
    }
}

/* The receiver is registered only to be woken through; h2o calls this for messages, and none is ever sent. */
static void on_no_message(h2o_multithread_receiver_t *receiver, h2o_linklist_t *messages)
{
    (void)receiver;
    CHECK(h2o_linklist_is_empty(messages));
}

/* ---- the turn ---- */

static void on_end_of_turn(h2o_timeout_entry_t *entry)
{
    struct loop *loop = H2O_STRUCT_FROM_MEMBER(struct loop, end_of_turn, entry);

    loop->now_is_old = true; /* the sockets may have taken a while */
    deliver_letters(loop);
    fire_due_timers(loop);
    run_tasks(loop);
}

static void on_after_writes(h2o_timeout_entry_t *entry)
{
    run_tasks(H2O_STRUCT_FROM_MEMBER(struct loop, after_writes, entry));
}

/* An entry registered at 0 on a timeout of half the range of h2o's unsigned clock: "0 + timeout" lies so far
 * ahead that it never shortens a wait, and "now - timeout" wraps to above 0, so that the entry is due after
 * each wait, whatever the wall clock says. It is linked anew for each turn; h2o would loop for ever if its
 * own callback did so. */
static void link_due(struct loop *loop, h2o_timeout_entry_t *entry)
{
    if (h2o_timeout_is_linked(entry))
        return; /* the last wait was interrupted by a signal */
    h2o_timeout_link(loop->h2o, &loop->every_turn, entry);
    entry->registered_at = 0;
}

struct loop *loop_new(void)
{
    struct loop *loop = must_alloc(sizeof(*loop));

    loop->h2o = h2o_evloop_create();
    h2o_timeout_init(loop->h2o, &loop->every_turn, UINT64_C(1) << 63);
    loop->end_of_turn.cb = on_end_of_turn;
    loop->after_writes.cb = on_after_writes;
    loop->waker = h2o_multithread_create_queue(loop->h2o);
    h2o_multithread_register_receiver(loop->waker, &loop->receiver, on_no_message);
    atomic_init(&loop->mailbox, NULL);
    atomic_init(&loop->callers, 0);
    loop->now_is_old = true;
    return loop;
}

void loop_free(struct loop *loop)
{
    CHECK(!loop->in_turn);
    await_callers(loop);
    CHECK(loop->tasks_waiting == 0);
    CHECK(loop->heap_count == 0);
    CHECK(atomic_load(&loop->mailbox) == NULL);
    h2o_timeout_unlink(&loop->end_of_turn);
    h2o_timeout_unlink(&loop->after_writes);
    h2o_timeout_dispose(loop->h2o, &loop->every_turn);
    h2o_multithread_unregister_receiver(loop->waker, &loop->receiver);
    h2o_multithread_destroy_queue(loop->waker);
    free(loop->waker); /* which destroy_queue() leaves behind */
    h2o_evloop_destroy(loop->h2o);
    free(loop->heap);
    free(loop);
}

static int32_t wait_for(struct loop *loop, int max_wait_ms)
{
    int64_t wait_ms = max_wait_ms > 0 ? max_wait_ms : 0;

    if (loop->tasks_waiting > 0)
        return 0;
    if (loop->heap_count > 0) {
        int64_t left_ms = loop->heap[1]->at.ms - loop_now(loop).ms;

        if (left_ms < wait_ms)
            wait_ms = left_ms > 0 ? left_ms : 0;
    }
    return (int32_t)wait_ms;
}

void loop_turn(struct loop *loop, int max_wait_ms)
{
    int32_t wait_ms;

    CHECK(!loop->in_turn);
    loop->in_turn = true;
    wait_ms = wait_for(loop, max_wait_ms);
    link_due(loop, &loop->end_of_turn);
    link_due(loop, &loop->after_writes);
    loop->now_is_old = true; /* as seen from the first callback after the wait */
    h2o_evloop_run(loop->h2o, wait_ms);
    loop->now_is_old = true; /* who knows when the next turn begins */
    loop->in_turn = false;
}

struct mono_ms loop_now(const struct loop *loop)
{
    if (loop->now_is_old) { /* a cache: nobody can tell that this function writes */
        struct loop *cache = (struct loop *)loop;

        cache->now = clock_mono();
        cache->now_is_old = false;
    }
    return loop->now;
}

h2o_loop_t *loop_h2o(struct loop *loop)
{
    return loop->h2o;
}
