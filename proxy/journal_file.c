/* Journal, the file: written anew or longer, opened where nobody else has it, and read where somebody left it. */
#include "journal_parts.h"

#include "digest.h"
#include "journal_record.h"
#include "log.h"
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    SLOTS = 8,
    MOST_BYTES = 256 << 20, /* of a file that is read; ours are far below */
};

/* ---- writing ---- */

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

void journal_text_add(struct journal_text *room, const char *bytes, size_t len)
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
static struct journal_text whole_text(struct journal *journal)
{
    struct journal_text text = {NULL, 0, 0};

    journal_text_add(&text, JOURNAL_MAGIC.base, JOURNAL_MAGIC.len);
    pthread_mutex_lock(&journal->lock);
    for (struct link *at = journal->live.next; at != &journal->live; at = at->next) {
        const struct journal_mark *mark = LIST_OWNER(at, struct journal_mark, live);

        journal_text_add(&text, mark->bytes, mark->len);
    }
    pthread_mutex_unlock(&journal->lock);
    return text;
}

/* The new file is locked before it has the name: nobody else ever finds it free. */
bool journal_rewrite(struct journal *journal)
{
    struct journal_text text = whole_text(journal);
    size_t len = strlen(journal->path);
    char *beside = must_alloc(len + sizeof(".new"));
    bool is_written = false;
    int fd;

    memcpy(beside, journal->path, len);
    memcpy(beside + len, ".new", sizeof(".new"));
    fd = open(beside, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
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

bool journal_append(struct journal *journal, const struct journal_text *text)
{
    if (!write_all(journal->fd, text->base, text->len) || fdatasync(journal->fd) != 0)
        return false;
    journal->file_bytes += text->len;
    return true;
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

/* A descriptor of a file that is ours alone, or -1: in use, absent, or errno says why it cannot be used. No link is
 * followed: what is written anew takes the link's place, and would lie on another disk than whoever made it meant. */
static int open_slot(const char *path, bool creates)
{
    struct stat facts;
    int fd =
        open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_APPEND | O_NOFOLLOW | (creates ? O_CREAT : 0), 0600);

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

static bool read_all(int fd, struct journal_text *out)
{
    struct stat facts;
    ssize_t got;

    if (fstat(fd, &facts) != 0 || facts.st_size > MOST_BYTES)
        return false;
    *out = (struct journal_text){must_alloc((size_t)facts.st_size + 1), 0, (size_t)facts.st_size};
    while (out->len < out->room &&
           (got = pread(fd, out->base + out->len, out->room - out->len, (off_t)out->len)) > 0)
        out->len += (size_t)got;
    return out->len == out->room;
}

static void add_found(struct journal *journal, const struct journal_record *record)
{
    struct journal_mark *mark =
        journal_mark_new(journal, record->tags, record->tag_count, record->soft_count, record->id);

    mark->state = MARK_SETTLED;
    pthread_mutex_lock(&journal->lock);
    list_append(&journal->live, &mark->live);
    list_append(&journal->found, &mark->queue);
    journal->live_bytes += mark->len;
    pthread_mutex_unlock(&journal->lock);
}

static int by_value(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

/* Which of the records are done, in order of their ids: looked for one by one among tens of thousands, they would hold
 * the start up for minutes. */
static uint64_t *done_ids(struct slice rest, size_t *count_out)
{
    uint64_t *ids = NULL;
    size_t count = 0, room = 0;
    struct journal_record record;

    while (journal_record_read(&rest, digest_checksum, &record) == JOURNAL_RECORD) {
        if (!record.is_done)
            continue;
        if (count == room) {
            room = room * 2 + 64;
            ids = must_realloc(ids, room * sizeof(*ids));
        }
        ids[count++] = record.id;
    }
    if (count > 0)
        qsort(ids, count, sizeof(*ids), by_value);
    *count_out = count;
    return ids;
}

/* To the end, or to what cannot be read. */
static enum journal_read add_all_found(struct journal *journal, struct slice rest)
{
    size_t count;
    uint64_t *done = done_ids(rest, &count);
    struct journal_record record;
    enum journal_read read;

    while ((read = journal_record_read(&rest, digest_checksum, &record)) == JOURNAL_RECORD)
        if (!record.is_done &&
            (count == 0 || bsearch(&record.id, done, count, sizeof(*done), by_value) == NULL))
            add_found(journal, &record);
    free(done);
    return read;
}

/* The records of one file; at what cannot be read, everything counts as invalidated. */
static void find_records(struct journal *journal, int fd, const char *path)
{
    struct journal_text text = {NULL, 0, 0};
    bool is_read = read_all(fd, &text);
    struct slice rest = slice_of(text.base, text.len), magic = JOURNAL_MAGIC;
    struct journal_record record;
    enum journal_read read = JOURNAL_DAMAGED;

    if (is_read && rest.len == 0)
        read = JOURNAL_END;
    else if (is_read && rest.len >= magic.len && slice_eq(slice_of(rest.base, magic.len), magic))
        read = add_all_found(journal, slice_of(rest.base + magic.len, rest.len - magic.len));
    if (read == JOURNAL_DAMAGED) {
        log_error("journal: %s cannot be read to its end: everything that is stored counts as invalidated",
                  path);
        record = (struct journal_record){.id = journal_new_id()};
        add_found(journal, &record);
    }
    free(text.base);
}

static const char *why_unusable(int error)
{
    if (error == EINVAL)
        return "it is no regular file";
    return error == ELOOP ? "it is a symbolic link; name the file itself" : strerror(error);
}

/* Our slot is the first that nobody has. */
bool journal_open_own(struct journal *journal, const char *path, FILE *errors)
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
    fprintf(errors, "store.journal: %s cannot be used: %s\n", path, why_unusable(errno));
    return false;
}

/* What the others hold is in our file before theirs are gone. */
void journal_take_over_others(struct journal *journal)
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
        is_written = journal_rewrite(journal);
    for (size_t i = 0; i < count; i++) {
        if (is_written)
            unlink(names[i]);
        close(fds[i]);
        free(names[i]);
    }
    journal->is_broken = !is_written;
}
