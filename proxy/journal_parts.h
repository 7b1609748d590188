/* Journal parts: what the files of the journal share, and nobody else sees.
 *
 * journal.c       marks, the thread that writes them, and what others ask of it
 * journal_file.c  the file, and what other processes left in theirs
 */
#ifndef WEIR_JOURNAL_PARTS_H
#define WEIR_JOURNAL_PARTS_H

#include "journal.h"
#include "list.h"
#include "loop.h"

#include <pthread.h>
#include <stdint.h>

struct stats;

struct journal_text {
    char *base;
    size_t len, room;
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
    struct journal_text done; /* records of what is done, to be appended */
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

/* journal.c */
struct journal_mark *journal_mark_new(struct journal *journal, const struct slice *tags, size_t count,
                                      size_t soft_count, uint64_t id);
void journal_mark_free(struct journal_mark *mark);
uint64_t journal_mark_id(const struct journal_mark *mark);
uint64_t journal_new_id(void);

/* journal_file.c; by the journal's thread, or before it runs */
void journal_text_add(struct journal_text *text, const char *bytes, size_t len);
bool journal_rewrite(struct journal *journal); /* the file, with all that is not done */
bool journal_append(struct journal *journal, const struct journal_text *text);
bool journal_open_own(struct journal *journal, const char *path,
                      FILE *errors); /* the first slot that nobody has */
void journal_take_over_others(struct journal *journal);

#endif
