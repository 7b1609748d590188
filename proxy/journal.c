/* Journal: see journal.h.
 *
 * All that is shared is under one lock, which is never held while the disk is waited for. The thread takes the marks
 * that queue, writes them and syncs once, then tells each by a letter. It is also told what is done, and empties the
 * file when nothing is left in it that is not, or writes it anew when most of it is. After a failed write nobody
 * knows what the file holds at its end: the next one writes it anew.
 */
#include "journal_parts.h"

#include "digest.h"
#include "journal_record.h"
#include "log.h"
#include "memory.h"
#include "stats.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    REWRITE_BYTES = 1 << 20, /* a file above it, of which half is done, is written anew */
    LOOK_AGAIN_S = 1,        /* whether a file that another process has is free */
};

/* ---- marks ---- */

void journal_mark_free(struct journal_mark *mark)
{
    free(mark->tags);
    free(mark->bytes);
    free(mark);
}

static struct slice *copy_tags(const struct slice *tags, size_t count)
{
    size_t bytes = count * sizeof(*tags);
    struct slice *copies;
    char *at;

    for (size_t i = 0; i < count; i++)
        bytes += tags[i].len;
    copies = must_alloc(bytes + 1);
    at = (char *)(copies + count);
    for (size_t i = 0; i < count; i++) {
        if (tags[i].len > 0)
            memcpy(at, tags[i].base, tags[i].len);
        copies[i] = slice_of(at, tags[i].len);
        at += tags[i].len;
    }
    return copies;
}

/* What no record can say is written as what covers it: everything. */
static void encode(struct journal_mark *mark, uint64_t id)
{
    struct journal_record record = {.id = id};

    if (mark->tag_count <= JOURNAL_MAX_TAGS) {
        record.tag_count = mark->tag_count;
        record.soft_count = mark->soft_count;
        for (size_t i = 0; i < mark->tag_count; i++)
            record.tags[i] = mark->tags[i];
    }
    if (journal_record_bytes(&record) == 0)
        record.tag_count = record.soft_count = 0;
    mark->len = journal_record_bytes(&record);
    mark->bytes = must_alloc(mark->len);
    journal_record_write(&record, digest_checksum, mark->bytes);
}

uint64_t journal_new_id(void)
{
    uint64_t id;

    digest_random(&id, sizeof(id));
    return id;
}

uint64_t journal_mark_id(const struct journal_mark *mark)
{
    struct slice rest = slice_of(mark->bytes, mark->len);
    struct journal_record record;

    journal_record_read(&rest, digest_checksum, &record);
    return record.id;
}

struct journal_mark *journal_mark_new(struct journal *journal, const struct slice *tags, size_t count,
                                      size_t soft_count, uint64_t id)
{
    struct journal_mark *mark = must_alloc(sizeof(*mark));

    mark->journal = journal;
    mark->tags = copy_tags(tags, count);
    mark->tag_count = count;
    mark->soft_count = soft_count;
    list_init(&mark->live);
    list_init(&mark->queue);
    encode(mark, id);
    return mark;
}

/* ---- the thread ---- */

/* Under the lock: what is to be written, and whose it is. */
static struct journal_text take_queue(struct journal *journal, struct link *taken, bool *is_all_done)
{
    struct journal_text text = journal->done;

    journal->done = (struct journal_text){NULL, 0, 0};
    while (!list_is_empty(&journal->queue)) {
        struct journal_mark *mark = LIST_OWNER(journal->queue.next, struct journal_mark, queue);

        list_leave(&mark->queue);
        mark->state = MARK_WRITING;
        list_append(taken, &mark->queue);
        journal_text_add(&text, mark->bytes, mark->len);
    }
    *is_all_done = list_is_empty(&journal->live);
    return text;
}

static void deliver(struct letter *letter, void *arg)
{
    struct journal_mark *mark = arg;
    struct journal *journal = mark->journal;
    bool is_removed, is_forgotten;

    (void)letter;
    pthread_mutex_lock(&journal->lock);
    mark->state = MARK_SETTLED;
    is_removed = mark->is_removed;
    is_forgotten = mark->is_forgotten;
    pthread_mutex_unlock(&journal->lock);
    if (is_removed)
        journal_mark_free(mark);
    else if (!is_forgotten)
        mark->done(mark->arg, mark->is_safe);
}

/* The lock is held while a letter is posted: who forgets its mark ends its loop only afterwards. */
static void tell(struct journal *journal, struct link *taken, bool is_safe)
{
    pthread_mutex_lock(&journal->lock);
    while (!list_is_empty(taken)) {
        struct journal_mark *mark = LIST_OWNER(taken->next, struct journal_mark, queue);

        list_leave(&mark->queue);
        mark->is_safe = is_safe;
        if (mark->is_removed) {
            journal_mark_free(mark);
            continue;
        }
        mark->state = mark->is_forgotten ? MARK_SETTLED : MARK_POSTED;
        if (!mark->is_forgotten)
            loop_post(mark->loop, &mark->letter);
    }
    pthread_mutex_unlock(&journal->lock);
}

static bool is_mostly_done(struct journal *journal)
{
    size_t live_bytes;

    pthread_mutex_lock(&journal->lock);
    live_bytes = journal->live_bytes;
    pthread_mutex_unlock(&journal->lock);
    return journal->file_bytes > REWRITE_BYTES && journal->file_bytes > 2 * live_bytes;
}

static void note_failure(struct journal *journal, bool has_failed)
{
    static const char *none = "";

    if (has_failed) {
        stats_add(journal->stats, stats_series(STATS_journal_failures, &none), 1);
        if (!journal->is_broken)
            log_error("journal: %s cannot be written (%s): invalidations that are kept end with this process",
                      journal->path, strerror(errno));
    } else if (journal->is_broken) {
        log_info("journal: %s is written again", journal->path);
    }
    journal->is_broken = has_failed;
}

static void write_down(struct journal *journal, const struct journal_text *text, bool is_all_done,
                       struct link *taken)
{
    bool is_written;

    if (journal->is_broken || is_mostly_done(journal) ||
        (is_all_done && journal->file_bytes > JOURNAL_MAGIC.len))
        is_written = journal_rewrite(journal);
    else
        is_written = text->len == 0 || journal_append(journal, text);
    note_failure(journal, !is_written);
    tell(journal, taken, is_written);
}

/* Under the lock. False: it is time to look after the others' files again. */
static bool wait_for_change(struct journal *journal)
{
    struct timespec until;

    if (!journal->are_others_busy) {
        pthread_cond_wait(&journal->changed, &journal->lock);
        return true;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LOOK_AGAIN_S;
    return pthread_cond_timedwait(&journal->changed, &journal->lock, &until) == 0;
}

static void deliver_found(struct letter *letter, void *arg)
{
    struct journal *journal = arg;
    bool is_watched;

    (void)letter;
    pthread_mutex_lock(&journal->lock);
    journal->watch.is_posted = false;
    is_watched = journal->watch.loop != NULL;
    pthread_mutex_unlock(&journal->lock);
    if (is_watched)
        journal->watch.found(journal->watch.arg);
}

static void look_after_others(struct journal *journal)
{
    if (!journal->are_others_busy)
        return;
    journal_take_over_others(journal);
    pthread_mutex_lock(&journal->lock);
    if (!list_is_empty(&journal->found) && journal->watch.loop != NULL && !journal->watch.is_posted) {
        journal->watch.is_posted = true;
        loop_post(journal->watch.loop, &journal->watch.letter);
    }
    pthread_mutex_unlock(&journal->lock);
}

static void *run(void *arg)
{
    struct journal *journal = arg;
    bool is_stopping = false;

    journal->stats = stats_join();
    while (!is_stopping) {
        struct link taken;
        struct journal_text text;
        bool is_all_done;

        list_init(&taken);
        pthread_mutex_lock(&journal->lock);
        while (list_is_empty(&journal->queue) && journal->done.len == 0 && !journal->is_stopping &&
               wait_for_change(journal))
            ;
        is_stopping = journal->is_stopping;
        text = take_queue(journal, &taken, &is_all_done);
        pthread_mutex_unlock(&journal->lock);
        write_down(journal, &text, is_all_done, &taken);
        free(text.base);
        look_after_others(journal);
    }
    return NULL;
}

/* ---- what others ask of it ---- */

struct journal_mark *journal_add(struct journal *journal, const struct slice *tags, size_t count,
                                 size_t soft_count, struct loop *loop, void (*done)(void *arg, bool is_safe),
                                 void *arg)
{
    struct journal_mark *mark = journal_mark_new(journal, tags, count, soft_count, journal_new_id());

    mark->letter.deliver = deliver;
    mark->letter.arg = mark;
    mark->state = MARK_QUEUED;
    mark->loop = loop;
    mark->done = done;
    mark->arg = arg;
    pthread_mutex_lock(&journal->lock);
    list_append(&journal->live, &mark->live);
    list_append(&journal->queue, &mark->queue);
    journal->live_bytes += mark->len;
    pthread_cond_signal(&journal->changed);
    pthread_mutex_unlock(&journal->lock);
    return mark;
}

void journal_remove(struct journal *journal, struct journal_mark **taken)
{
    struct journal_record record = {.is_done = true};
    struct journal_mark *mark = *taken;
    char bytes[64];

    *taken = NULL;
    if (mark == NULL)
        return;
    record.id = journal_mark_id(mark);
    journal_record_write(&record, digest_checksum, bytes);
    pthread_mutex_lock(&journal->lock);
    list_leave(&mark->live);
    journal->live_bytes -= mark->len;
    mark->is_removed = true;
    if (mark->state == MARK_QUEUED) { /* the file never had it */
        list_leave(&mark->queue);
        journal_mark_free(mark);
    } else {
        journal_text_add(&journal->done, bytes, journal_record_bytes(&record));
        pthread_cond_signal(&journal->changed);
        if (mark->state == MARK_SETTLED)
            journal_mark_free(mark);
    }
    pthread_mutex_unlock(&journal->lock);
}

void journal_forget(struct journal *journal, struct journal_mark **taken)
{
    struct journal_mark *mark = *taken;

    *taken = NULL;
    if (mark == NULL)
        return;
    pthread_mutex_lock(&journal->lock);
    mark->is_forgotten = true;
    pthread_mutex_unlock(&journal->lock);
}

/* ---- life ---- */

void journal_watch(struct journal *journal, struct loop *loop, void (*found)(void *arg), void *arg)
{
    pthread_mutex_lock(&journal->lock);
    journal->watch.loop = loop;
    journal->watch.found = found;
    journal->watch.arg = arg;
    journal->watch.letter.deliver = deliver_found;
    journal->watch.letter.arg = journal;
    pthread_mutex_unlock(&journal->lock);
}

void journal_unwatch(struct journal *journal)
{
    pthread_mutex_lock(&journal->lock);
    journal->watch.loop = NULL;
    pthread_mutex_unlock(&journal->lock);
}

struct journal_mark *journal_next_found(struct journal *journal, const struct slice **tags, size_t *count,
                                        size_t *soft_count)
{
    struct journal_mark *mark;

    pthread_mutex_lock(&journal->lock);
    mark =
        list_is_empty(&journal->found) ? NULL : LIST_OWNER(journal->found.next, struct journal_mark, queue);
    if (mark != NULL)
        list_leave(&mark->queue);
    pthread_mutex_unlock(&journal->lock);
    if (mark == NULL)
        return NULL;
    *tags = mark->tags;
    *count = mark->tag_count;
    *soft_count = mark->soft_count;
    return mark;
}

static void journal_free(struct journal *journal)
{
    while (!list_is_empty(&journal->live)) {
        struct journal_mark *mark = LIST_OWNER(journal->live.next, struct journal_mark, live);

        list_leave(&mark->live);
        journal_mark_free(mark);
    }
    if (journal->fd >= 0)
        close(journal->fd);
    pthread_mutex_destroy(&journal->lock);
    pthread_cond_destroy(&journal->changed);
    free(journal->done.base);
    free(journal->path);
    free(journal->first_path);
    free(journal);
}

static bool start_thread(struct journal *journal)
{
    sigset_t all, before;
    int error;

    sigfillset(&all); /* signals are the main thread's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&journal->thread, NULL, run, journal);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0;
}

struct journal *journal_open(const char *path, FILE *errors)
{
    struct journal *journal = must_alloc(sizeof(*journal));

    journal->fd = -1;
    pthread_mutex_init(&journal->lock, NULL);
    pthread_cond_init(&journal->changed, NULL);
    list_init(&journal->live);
    list_init(&journal->queue);
    list_init(&journal->found);
    if (!journal_open_own(journal, path, errors)) {
        journal_free(journal);
        return NULL;
    }
    journal->first_path = must_copy(path, strlen(path));
    journal_take_over_others(journal);
    if (journal->is_broken || !start_thread(journal)) {
        fprintf(errors, "store.journal: %s cannot be used: %s\n", path, strerror(errno));
        journal_free(journal);
        return NULL;
    }
    return journal;
}

void journal_close(struct journal *journal)
{
    if (journal == NULL)
        return;
    pthread_mutex_lock(&journal->lock);
    journal->is_stopping = true;
    pthread_cond_signal(&journal->changed);
    pthread_mutex_unlock(&journal->lock);
    pthread_join(journal->thread, NULL);
    journal_free(journal);
}
