/* Waits: see waits.h.
 *
 * A line goes in rounds. A round begins when its head is due; it tries the first few, and ends once all of them have said what
 * came of it. If all passed the next one follows at once, and tries twice as many: what was freed together is taken together. If
 * one was refused, the rest is not due before that one. Whoever takes longer to say (his turn may be a look for the answer in the
 * cache) holds up nobody: the line goes on without him, and he keeps his place. */
#include "waits.h"
#include "check.h"
#include "memory.h"
#include "settings.h"

#include <stdlib.h>

enum {
    BUCKETS = 256,
    ROUND_MS = 100, /* then a round is over, whoever has not said yet */
    POLL_MS = 50,   /* where no moment is known */
    CALM_MS = 50,   /* between two corrections that give every line a turn */
    MOST_AT_ONCE = 64,
};

struct wait_line {
    struct waits *all;
    struct link link;
    struct wait_line *next_in_bucket;
    const struct limit_rule *rule; /* held by the sites of those who wait */
    unsigned char principal[16];
    struct link waiters; /* in order of arrival */
    size_t count;
    uint64_t round;
    size_t trying; /* how many of this round have not said yet */
    size_t stride; /* how many the next round tries */
    bool was_refused, was_nudged;
    struct mono_ms next_try;
    struct timer timer; /* the next round, or the end of this one */
};

struct waits {
    struct loop *loop;
    struct link lines;
    struct wait_line *buckets[BUCKETS];
    uint64_t arrivals;
    bool is_over;
    struct timer calm; /* runs after a nudge to all: the next one is not before its end */
    bool is_nudged;    /* ... and is due then */
};

/* ---- lines ---- */

static size_t bucket_of(const struct limit_charge *charge)
{
    return charge->principal[0]; /* a digest's byte */
}

static bool is_for(const struct wait_line *line, const struct limit_charge *charge)
{
    return line->rule == charge->rule &&
           memcmp(line->principal, charge->principal, sizeof(line->principal)) == 0;
}

static struct wait_line *find(const struct waits *waits, const struct limit_charge *charge)
{
    struct wait_line *line = waits->buckets[bucket_of(charge)];

    while (line != NULL && !is_for(line, charge))
        line = line->next_in_bucket;
    return line;
}

static void on_timer(void *arg);

static struct wait_line *line_new(struct waits *waits, const struct limit_charge *charge)
{
    struct wait_line *line = must_alloc(sizeof(*line));
    struct wait_line **bucket = &waits->buckets[bucket_of(charge)];

    line->all = waits;
    line->rule = charge->rule;
    memcpy(line->principal, charge->principal, sizeof(line->principal));
    line->stride = 1;
    list_init(&line->link);
    list_init(&line->waiters);
    list_append(&waits->lines, &line->link);
    timer_init(&line->timer, on_timer, line);
    line->next_in_bucket = *bucket;
    *bucket = line;
    return line;
}

static void line_free(struct wait_line *line)
{
    struct wait_line **at = &line->all->buckets[line->principal[0]];

    while (*at != line)
        at = &(*at)->next_in_bucket;
    *at = line->next_in_bucket;
    list_leave(&line->link);
    timer_cancel(line->all->loop, &line->timer);
    free(line);
}

static struct waiter *waiter_of(struct link *link)
{
    return LIST_OWNER(link, struct waiter, link);
}

static struct waiter *first_idle(struct wait_line *line)
{
    for (struct link *at = line->waiters.next; at != &line->waiters; at = at->next)
        if (!waiter_of(at)->is_trying)
            return waiter_of(at);
    return NULL;
}

static struct mono_ms patience_of(const struct wait_line *line, const struct waiter *waiter)
{
    return mono_after(waiter->since, line->rule->max_wait_ms);
}

/* ---- rounds ---- */

/* When is the line due next? Ends it where nobody is left. */
static void go_on(struct wait_line *line)
{
    const struct waiter *head;
    struct mono_ms at = line->next_try;

    if (line->count == 0) {
        line_free(line);
        return;
    }
    if (line->trying > 0)
        return;
    head = first_idle(line);
    if (head == NULL) { /* all are about to say what came of it */
        timer_cancel(line->all->loop, &line->timer);
        return;
    }
    if (patience_of(line, head).ms < at.ms)
        at = patience_of(line, head); /* once more, then he is told what the store says */
    timer_start(line->all->loop, &line->timer, at);
}

static void begin_round(struct wait_line *line)
{
    struct waiter *turns[MOST_AT_ONCE];
    size_t count = 0;

    line->round++;
    line->was_refused = line->was_nudged = false;
    for (struct link *at = line->waiters.next; at != &line->waiters && count < line->stride; at = at->next)
        if (!waiter_of(at)->is_trying)
            turns[count++] = waiter_of(at);
    line->trying = count;
    timer_start(line->all->loop, &line->timer, mono_after(loop_now(line->all->loop), ROUND_MS));
    for (size_t i = 0; i < count; i++) {
        turns[i]->is_trying = true;
        turns[i]->tried_in = line->round;
        turns[i]->turn(turns[i]->arg);
    }
}

static void end_round(struct wait_line *line)
{
    if (!line->was_refused) {
        line->stride = line->stride * 2 < MOST_AT_ONCE ? line->stride * 2 : MOST_AT_ONCE;
        line->next_try = loop_now(line->all->loop);
    } else
        line->stride = 1;
    if (line->was_nudged || line->all->is_over)
        line->next_try = loop_now(line->all->loop);
    if (line->all->is_over)
        line->stride = MOST_AT_ONCE;
    go_on(line);
}

static void on_timer(void *arg)
{
    struct wait_line *line = arg;

    if (line->trying == 0) {
        begin_round(line);
        return;
    }
    line->trying = 0;
    line->was_refused = false;
    line->stride = 1;
    line->next_try = loop_now(line->all->loop);
    go_on(line);
}

/* Whoever tried in this round has said what came of it. The line may be gone afterwards. */
static void note_said(struct wait_line *line, struct waiter *waiter)
{
    bool counts = waiter->is_trying && waiter->tried_in == line->round && line->trying > 0;

    waiter->is_trying = false;
    if (counts && --line->trying == 0)
        end_round(line);
    else
        go_on(line);
}

/* ---- who waits ---- */

static void stand(struct wait_line *line, struct waiter *waiter)
{
    struct link *before = line->waiters.before;

    while (before != &line->waiters && waiter_of(before)->arrival > waiter->arrival)
        before = before->before;
    list_init(&waiter->link);
    list_append(before->next, &waiter->link); /* in front of it */
    waiter->line = line;
    line->count++;
}

/* Its place is free. The line may be gone afterwards. */
static void step_out(struct waiter *waiter)
{
    struct wait_line *line = waiter->line;

    if (line == NULL)
        return;
    list_leave(&waiter->link);
    waiter->line = NULL;
    line->count--;
    note_said(line, waiter);
}

static void arrive(struct waits *waits, struct waiter *waiter)
{
    if (waiter->arrival > 0)
        return;
    waiter->arrival = ++waits->arrivals;
    waiter->since = loop_now(waits->loop);
}

/* The others were not refused by what refused him: let as many try as may, so that each is told soon. */
static void give_up(struct waits *waits, struct waiter *waiter)
{
    struct wait_line *line = waiter->line;

    if (line != NULL) {
        line->stride = MOST_AT_ONCE / 2;
        waits_leave(waits, waiter);
    }
    waiter->arrival = 0;
}

static int64_t rounded_up_ms(int64_t us)
{
    return us / 1000 + (us % 1000 > 0 ? 1 : 0);
}

bool waits_join(struct waits *waits, struct waiter *waiter, const struct limit_charge *charge)
{
    struct wait_line *line = find(waits, charge);

    if (waits->is_over || line == NULL || line->count >= WAITERS_PER_LINE)
        return false;
    arrive(waits, waiter);
    stand(line, waiter);
    go_on(line);
    return true;
}

bool waits_stay(struct waits *waits, struct waiter *waiter, const struct limit_charge *charge,
                int64_t retry_after_us)
{
    struct mono_ms now = loop_now(waits->loop), until;
    struct mono_ms next_try = mono_after(now, retry_after_us > 0 ? rounded_up_ms(retry_after_us) : POLL_MS);
    struct wait_line *line = find(waits, charge);

    arrive(waits, waiter);
    until = mono_after(waiter->since, charge->rule->max_wait_ms);
    if (waits->is_over || (retry_after_us > 0 ? next_try.ms > until.ms : now.ms >= until.ms) ||
        (line != waiter->line && line != NULL && line->count >= WAITERS_PER_LINE)) {
        give_up(waits, waiter);
        return false;
    }
    if (line == NULL) {
        line = line_new(waits, charge);
        line->next_try = next_try;
    }
    if (waiter->line != line) {
        step_out(waiter);
        stand(line, waiter);
    }
    if (!line->was_refused && waiter->is_trying && waiter->tried_in == line->round) {
        line->was_refused = true; /* the first to say so stood before the others */
        line->next_try = next_try;
    }
    note_said(line, waiter);
    return true;
}

void waits_leave(struct waits *waits, struct waiter *waiter)
{
    (void)waits;
    step_out(waiter);
    waiter->arrival = 0;
}

const struct limit_charge *waits_find_line(const struct waits *waits, const struct limit_charge *charges,
                                           size_t count)
{
    if (list_is_empty(&waits->lines))
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (charges[i].rule->when_refused == WAIT_FOR_IT && find(waits, &charges[i]) != NULL)
            return &charges[i];
    return NULL;
}

static void try_now(struct wait_line *line)
{
    line->was_nudged = true; /* where a round is under way it may have asked too early */
    line->next_try = loop_now(line->all->loop);
    go_on(line);
}

void waits_nudge(struct waits *waits, const struct limit_charge *charge)
{
    struct wait_line *line = find(waits, charge);

    if (line != NULL)
        try_now(line);
}

static void nudge_lines(struct waits *waits)
{
    waits->is_nudged = false;
    if (list_is_empty(&waits->lines))
        return;
    for (struct link *at = waits->lines.next; at != &waits->lines; at = at->next)
        try_now(LIST_OWNER(at, struct wait_line, link)); /* which ends none: somebody stands in each */
    timer_start(waits->loop, &waits->calm, mono_after(loop_now(waits->loop), CALM_MS));
}

static void on_calm(void *arg)
{
    struct waits *waits = arg;

    if (waits->is_nudged)
        nudge_lines(waits);
}

void waits_nudge_all(struct waits *waits)
{
    waits->is_nudged = true;
    if (waits->calm.place == 0)
        nudge_lines(waits);
}

void waits_end(struct waits *waits)
{
    waits->is_over = true;
    for (struct link *at = waits->lines.next, *next; at != &waits->lines; at = next) {
        struct wait_line *line = LIST_OWNER(at, struct wait_line, link);

        next = at->next;
        line->stride = MOST_AT_ONCE;
        try_now(line);
    }
}

struct waits *waits_new(struct loop *loop)
{
    struct waits *waits = must_alloc(sizeof(*waits));

    waits->loop = loop;
    list_init(&waits->lines);
    timer_init(&waits->calm, on_calm, waits);
    return waits;
}

void waits_free(struct waits *waits)
{
    CHECK(list_is_empty(&waits->lines));
    timer_cancel(waits->loop, &waits->calm);
    free(waits);
}
