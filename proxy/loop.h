/* Loop: one thread's event loop, its timers, and the tasks that run when the turn's events have been handled.
 *
 * A turn: socket events and letters from other threads; timers that are due; then deferred tasks, lowest
 * phase first, until none is left. What is decided in a turn is therefore sent in the same turn, once per
 * connection. Everything here belongs to the thread that called loop_new(), except loop_post() and
 * loop_wake().
 */
#ifndef WEIR_LOOP_H
#define WEIR_LOOP_H

#include "units.h"

#include <stdbool.h>
#include <stddef.h>

struct loop;

struct loop *loop_new(void);
/* Nothing may be linked to it any more, and nobody may begin to post to it or wake it; a post whose letter
 * was delivered is waited for. So let what ends a loop be a letter, not a flag and a wake. */
void loop_free(struct loop *loop);
void loop_turn(struct loop *loop, int max_wait_ms); /* ends early, with nothing lost, when a signal arrives */
struct mono_ms loop_now(const struct loop *loop);   /* monotonic, read once a turn (and after each wait) */

/* A deadline of any length. Embedded in its owner, which cancels it before it goes away. `fired` runs once
 * per start, never inside timer_start() and never early. Starting a running timer moves it; a deadline
 * already past counts as now. Timers of one millisecond fire in the order they were started. O(log n). */
struct timer {
    struct mono_ms at;
    uint64_t order; /* among timers of the same millisecond */
    size_t place;   /* in the loop's heap, 1-based; 0: not running */
    void (*fired)(void *arg);
    void *arg;
};

void timer_init(struct timer *timer, void (*fired)(void *arg), void *arg);
void timer_start(struct loop *loop, struct timer *timer, struct mono_ms at);
void timer_cancel(struct loop *loop, struct timer *timer); /* fine when not running */

/* Work for the end of this turn. Deferring a task that already waits does nothing. Tasks of one phase run in
 * the order they were deferred. `run` may defer again, itself too (it then runs again in this turn: see to it
 * that this ends). What is deferred while writes of the turn complete runs after them, in the same turn; what
 * that writes in its turn is completed at once too, and what is deferred then runs in the next turn, which does
 * not wait. */
enum loop_phase {
    LOOP_ARRIVE, /* requests are shown */
    LOOP_DECIDE, /* questions of the turn go out together */
    LOOP_SEND,   /* what was collected is written */
    LOOP_SETTLE, /* what is still open after all that, such as a client to be watched while it waits */
    LOOP_PHASES
};

struct task {
    struct task *next, *before;
    bool waits;
    enum loop_phase phase;
    void (*run)(void *arg);
    void *arg;
};

void task_init(struct task *task, enum loop_phase phase, void (*run)(void *arg), void *arg);
void loop_defer(struct loop *loop, struct task *task);
void task_cancel(struct loop *loop, struct task *task); /* fine when not waiting */

/* A message to another thread's loop. The letter passes to that loop; `deliver` runs there, once, and owns
 * it. */
struct letter {
    struct letter *next;
    void (*deliver)(struct letter *letter, void *arg);
    void *arg;
};

void loop_post(struct loop *to,
               struct letter *letter); /* from any thread; letters of one sender arrive in order */
void loop_wake(struct loop *loop);     /* from any thread, not from a signal handler: its turn ends soon */

#endif
