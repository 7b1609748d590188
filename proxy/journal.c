/* Journal: see journal.h.
 *
 * All that is shared is under one lock, which is never held while the disk is waited for. The thread takes the marks
 * that queue, writes them and syncs once, then tells each by a letter. It is also told what is done, and empties the
 * file when nothing is left in it that is not, or writes it anew when most of it is. After a failed write nobody
 * knows what the file holds at its end: the next one writes it anew.
 */
#include "journal.h"

#include "digest.h"
#include "journal_record.h"
#include "list.h"
#include "log.h"
#include "loop.h"
#include "memory.h"
#include "stats.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    SLOTS = 8,
    MOST_BYTES = 256 << 20,  /* of a file that is read; ours are far below */
    REWRITE_BYTES = 1 << 20, /* a file above it, of which half is done, is written anew */
    LOOK_AGAIN_S = 1,        /* whether a file that another process has is free */
};

enum mark_state {
    MARK_QUEUED,  /* for the thread */
    MARK_WRITING, /* with it */
    MARK_POSTED,  /* its letter is with the loop */
    MARK_SETTLED, /* it was told, or nobody wants to be */
};

struct journal_mark {
    struct letter letter;
    struct journal *journal;
    struct link live;  /* among all that is not done; under the lock, as is all from here on */
    struct link queue; /* for the thread to write */
    enum mark_state state;
    bool is_forgotten; /* nobody is told; it stays among the living to the end */
    bool is_removed;   /* freed by whoever has it */
    bool is_safe;
    struct loop *loop;
    void (*done)(void *arg, bool is_safe);
    void *arg;
    struct slice *tags; /* own */
    size_t tag_count, soft_count;
    char *bytes; /* the record, own */
    size_t len;
};

struct journal {
    char *path; /* of the slot that is ours */
    int fd;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct link live, queue, found;
    struct text_room {
        char *base;
        size_t len, room;
    } done; /* records of what is done, to be appended */
    size_t live_bytes;
    bool is_stopping;
    struct {
        struct letter letter;
        struct loop *loop; /* NULL: nobody */
        void (*found)(void *arg);
        void *arg;
        bool is_posted;
    } watch;
    /* the thread's own, and fixed before it runs */
    char *first_path;
    bool are_others_busy; /* another process has one of the slots */
    size_t file_bytes;
    bool is_broken; /* the end of the file is not known */
    struct stats *stats;
};

/* ---- marks ---- */

static void mark_free(struct journal_mark *mark)
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

static uint64_t new_id(void)
{
    uint64_t id;

    digest_random(&id, sizeof(id));
    return id;
}

static uint64_t id_of(const struct journal_mark *mark)
{
    struct slice rest = slice_of(mark->bytes, mark->len);
    struct journal_record record;

    journal_record_read(&rest, digest_checksum, &record);
    return record.id;
}

static struct journal_mark *mark_new(struct journal *journal, const struct slice *tags, size_t count,
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

/* ---- the file, in the thread (or before it runs) ---- */

static bool write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t wrote = write(fd, bytes, len);

        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return false;
        bytes += wrote;
        len -= (size_t)wrote;
    }
    return true;
}

static void room_add(struct text_room *room, const char *bytes, size_t len)
{
    if (room->len + len > room->room) {
        room->room = (room->len + len) * 2;
        room->base = must_realloc(room->base, room->room);
    }
    memcpy(room->base + room->len, bytes, len);
    room->len += len;
}

static void sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder =
        slash == NULL ? must_copy(".", 1) : must_copy(path, slash == path ? 1 : (size_t)(slash - path));
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(folder);
}

/* All that is not done, as the lock shows it now. */
static struct text_room whole_text(struct journal *journal)
{
    struct text_room text = {NULL, 0, 0};

    room_add(&text, JOURNAL_MAGIC.base, JOURNAL_MAGIC.len);
    pthread_mutex_lock(&journal->lock);
    for (struct link *at = journal->live.next; at != &journal->live; at = at->next) {
        const struct journal_mark *mark = LIST_OWNER(at, struct journal_mark, live);

        room_add(&text, mark->bytes, mark->len);
    }
    pthread_mutex_unlock(&journal->lock);
    return text;
}

/* The new file is locked before it has the name: nobody else ever finds it free. */
static bool rewrite(struct journal *journal)
{
    struct text_room text = whole_text(journal);
    size_t len = strlen(journal->path);
    char *beside = must_alloc(len + sizeof(".new"));
    bool is_written = false;
    int fd;

    memcpy(beside, journal->path, len);
    memcpy(beside + len, ".new", sizeof(".new"));
    fd = open(beside, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0)
        is_written = flock(fd, LOCK_EX | LOCK_NB) == 0 && write_all(fd, text.base, text.len) &&
                     fsync(fd) == 0 && rename(beside, journal->path) == 0;
    if (is_written) {
        sync_folder(journal->path);
        close(journal->fd);
        journal->fd = fd;
        journal->file_bytes = text.len;
    } else if (fd >= 0) {
        unlink(beside);
        close(fd);
    }
    free(beside);
    free(text.base);
    return is_written;
}

static bool append(struct journal *journal, const struct text_room *text)
{
    if (!write_all(journal->fd, text->base, text->len) || fdatasync(journal->fd) != 0)
        return false;
    journal->file_bytes += text->len;
    return true;
}

/* ---- the thread ---- */

/* Under the lock: what is to be written, and whose it is. */
static struct text_room take_queue(struct journal *journal, struct link *taken, bool *is_all_done)
{
    struct text_room text = journal->done;

    journal->done = (struct text_room){NULL, 0, 0};
    while (!list_is_empty(&journal->queue)) {
        struct journal_mark *mark = LIST_OWNER(journal->queue.next, struct journal_mark, queue);

        list_leave(&mark->queue);
        mark->state = MARK_WRITING;
        list_append(taken, &mark->queue);
        room_add(&text, mark->bytes, mark->len);
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
        mark_free(mark);
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
            mark_free(mark);
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

static void write_down(struct journal *journal, const struct text_room *text, bool is_all_done,
                       struct link *taken)
{
    bool is_written;

    if (journal->is_broken || is_mostly_done(journal) ||
        (is_all_done && journal->file_bytes > JOURNAL_MAGIC.len))
        is_written = rewrite(journal);
    else
        is_written = text->len == 0 || append(journal, text);
    note_failure(journal, !is_written);
    tell(journal, taken, is_written);
}

static void take_over_others(struct journal *journal);

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
    take_over_others(journal);
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
        struct text_room text;
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
    struct journal_mark *mark = mark_new(journal, tags, count, soft_count, new_id());

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
    record.id = id_of(mark);
    journal_record_write(&record, digest_checksum, bytes);
    pthread_mutex_lock(&journal->lock);
    list_leave(&mark->live);
    journal->live_bytes -= mark->len;
    mark->is_removed = true;
    if (mark->state == MARK_QUEUED) { /* the file never had it */
        list_leave(&mark->queue);
        mark_free(mark);
    } else {
        room_add(&journal->done, bytes, journal_record_bytes(&record));
        pthread_cond_signal(&journal->changed);
        if (mark->state == MARK_SETTLED)
            mark_free(mark);
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

/* ---- what earlier processes left ---- */

static char *slot_path(const char *path, int slot)
{
    size_t len = strlen(path);
    char *name = must_alloc(len + 3);

    memcpy(name, path, len);
    if (slot > 0) {
        name[len] = '.';
        name[len + 1] = (char)('0' + slot);
    }
    return name;
}

/* Locked, and still the file of that name: else another process has just written it anew. */
static bool has_locked(int fd, const char *path)
{
    struct stat opened, named;

    return flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &opened) == 0 && stat(path, &named) == 0 &&
           opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/* A descriptor of a file that is ours alone, or -1: in use, absent, or errno says why it cannot be used. */
static int open_slot(const char *path, bool creates)
{
    struct stat facts;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_APPEND | (creates ? O_CREAT : 0), 0600);

    if (fd < 0)
        return -1;
    if (fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && has_locked(fd, path))
        return fd;
    if (fstat(fd, &facts) == 0 && !S_ISREG(facts.st_mode))
        errno = EINVAL;
    else
        errno = EWOULDBLOCK;
    close(fd);
    return -1;
}

static bool read_all(int fd, struct text_room *out)
{
    struct stat facts;
    ssize_t got;

    if (fstat(fd, &facts) != 0 || facts.st_size > MOST_BYTES)
        return false;
    *out = (struct text_room){must_alloc((size_t)facts.st_size + 1), 0, (size_t)facts.st_size};
    while (out->len < out->room &&
           (got = pread(fd, out->base + out->len, out->room - out->len, (off_t)out->len)) > 0)
        out->len += (size_t)got;
    return out->len == out->room;
}

static void add_found(struct journal *journal, const struct journal_record *record)
{
    struct journal_mark *mark =
        mark_new(journal, record->tags, record->tag_count, record->soft_count, record->id);

    mark->state = MARK_SETTLED;
    pthread_mutex_lock(&journal->lock);
    list_append(&journal->live, &mark->live);
    list_append(&journal->found, &mark->queue);
    journal->live_bytes += mark->len;
    pthread_mutex_unlock(&journal->lock);
}

static void take_back_found(struct journal *journal, uint64_t id)
{
    pthread_mutex_lock(&journal->lock);
    for (struct link *at = journal->found.before; at != &journal->found; at = at->before) {
        struct journal_mark *mark = LIST_OWNER(at, struct journal_mark, queue);

        if (id_of(mark) != id)
            continue;
        list_leave(&mark->queue);
        list_leave(&mark->live);
        journal->live_bytes -= mark->len;
        mark_free(mark);
        break;
    }
    pthread_mutex_unlock(&journal->lock);
}

/* The records of one file; at what cannot be read, everything counts as invalidated. */
static void find_records(struct journal *journal, int fd, const char *path)
{
    struct text_room text = {NULL, 0, 0};
    bool is_read = read_all(fd, &text);
    struct slice rest = slice_of(text.base, text.len), magic = JOURNAL_MAGIC;
    struct journal_record record;
    enum journal_read read = JOURNAL_DAMAGED;

    if (is_read && rest.len == 0)
        read = JOURNAL_END;
    else if (is_read && rest.len >= magic.len && slice_eq(slice_of(rest.base, magic.len), magic)) {
        rest = slice_of(rest.base + magic.len, rest.len - magic.len);
        while ((read = journal_record_read(&rest, digest_checksum, &record)) == JOURNAL_RECORD) {
            if (record.is_done)
                take_back_found(journal, record.id);
            else
                add_found(journal, &record);
        }
    }
    if (read == JOURNAL_DAMAGED) {
        log_error("journal: %s cannot be read to its end: everything that is stored counts as invalidated",
                  path);
        record = (struct journal_record){.id = new_id()};
        add_found(journal, &record);
    }
    free(text.base);
}

/* Our slot is the first that nobody has. */
static bool open_own(struct journal *journal, const char *path, FILE *errors)
{
    for (int slot = 0; slot < SLOTS; slot++) {
        char *name = slot_path(path, slot);
        int fd = open_slot(name, true);

        if (fd >= 0) {
            journal->fd = fd;
            journal->path = name;
            find_records(journal, fd, name);
            return true;
        }
        free(name);
        if (errno != EWOULDBLOCK)
            break;
    }
    fprintf(errors, "store.journal: %s cannot be used: %s\n", path,
            errno == EINVAL ? "it is no regular file" : strerror(errno));
    return false;
}

/* What the others hold is in our file before theirs are gone. */
static void take_over_others(struct journal *journal)
{
    char *names[SLOTS];
    int fds[SLOTS];
    size_t count = 0;
    bool is_written = true;

    journal->are_others_busy = false;
    for (int slot = 0; slot < SLOTS; slot++) {
        char *name = slot_path(journal->first_path, slot);
        bool is_own = strcmp(name, journal->path) == 0;
        int fd = is_own ? -1 : open_slot(name, false);

        if (fd < 0) {
            journal->are_others_busy |= !is_own && errno == EWOULDBLOCK;
            free(name);
            continue;
        }
        find_records(journal, fd, name);
        names[count] = name;
        fds[count++] = fd;
    }
    if (count > 0 || journal->file_bytes == 0)
        is_written = rewrite(journal);
    for (size_t i = 0; i < count; i++) {
        if (is_written)
            unlink(names[i]);
        close(fds[i]);
        free(names[i]);
    }
    journal->is_broken = !is_written;
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
        mark_free(mark);
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
    if (!open_own(journal, path, errors)) {
        journal_free(journal);
        return NULL;
    }
    journal->first_path = must_copy(path, strlen(path));
    take_over_others(journal);
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
