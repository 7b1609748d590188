/* Journal: what was kept and is not done is found by the next process, whatever became of the last one. */
#include "journal.h"

#include "clock.h"
#include "digest.h"
#include "journal_record.h"
#include "log.h"
#include "loop.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATIENCE_MS = 20000 };

static char folder[40], path[80];
static struct loop *loop;
static struct journal *journal;

static void start(void)
{
    log_set_level(LOG_ERROR);
    strcpy(folder, "/tmp/weir-journal-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/journal", folder);
    loop = loop_new();
    journal = journal_open(path, stderr);
    cr_assert_not_null(journal);
}

static void stop(void)
{
    char command[120];

    journal_close(journal);
    loop_turn(loop, 0);
    loop_free(loop);
    snprintf(command, sizeof(command), "rm -r %s", folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(journal, .init = start, .fini = stop, .timeout = 60);

static void reopen(void)
{
    journal_close(journal);
    journal = journal_open(path, stderr);
    cr_assert_not_null(journal);
}

/* ---- keeping ---- */

struct keeper {
    struct journal_mark *mark;
    int told;
    bool is_safe;
};

static void on_kept(void *arg, bool is_safe)
{
    struct keeper *keeper = arg;

    keeper->told++;
    keeper->is_safe = is_safe;
}

static void add(struct keeper *keeper, const char *tag, size_t soft_count)
{
    struct slice tags[1] = {slice_text(tag)};

    keeper->mark = journal_add(journal, tags, tag == NULL ? 0 : 1, soft_count, loop, on_kept, keeper);
    cr_assert_eq(keeper->told, 0, "never inside the call");
}

static void turn_until_told(const struct keeper *keeper)
{
    int64_t give_up_ms = clock_mono().ms + PATIENCE_MS;

    while (keeper->told == 0) {
        cr_assert_lt(clock_mono().ms, give_up_ms);
        loop_turn(loop, 10);
    }
}

static void keep(struct keeper *keeper, const char *tag, size_t soft_count)
{
    add(keeper, tag, soft_count);
    turn_until_told(keeper);
    cr_assert(keeper->told == 1 && keeper->is_safe);
}

/* The next one that is found has this tag (NULL: everything); its mark. */
static struct journal_mark *expect_found(const char *tag, size_t soft_count)
{
    const struct slice *tags;
    size_t count, soft;
    struct journal_mark *mark = journal_next_found(journal, &tags, &count, &soft);

    cr_assert_not_null(mark, "%s", tag);
    cr_assert_eq(count, tag == NULL ? 0 : 1);
    cr_assert_eq(soft, soft_count);
    if (tag != NULL)
        cr_assert(slice_eq(tags[0], slice_text(tag)), "%.*s", (int)tags[0].len, tags[0].base);
    return mark;
}

static void expect_no_more(void)
{
    const struct slice *tags;
    size_t count, soft;

    cr_assert_null(journal_next_found(journal, &tags, &count, &soft));
}

static off_t file_bytes(void)
{
    struct stat facts;

    cr_assert_eq(stat(path, &facts), 0);
    return facts.st_size;
}

Test(journal, what_is_kept_is_found_by_the_next_process_in_order)
{
    struct keeper keepers[3] = {{0}};

    keep(&keepers[0], "a", 0);
    keep(&keepers[1], "b", 1);
    keep(&keepers[2], NULL, 0);
    for (size_t i = 0; i < 3; i++)
        journal_forget(journal, &keepers[i].mark);
    reopen();
    expect_found("a", 0);
    expect_found("b", 1);
    expect_found(NULL, 0);
    expect_no_more();
}

Test(journal, what_is_done_is_not_found_and_the_file_is_emptied)
{
    struct keeper first = {0}, second = {0};
    off_t empty = file_bytes();

    keep(&first, "a", 0);
    keep(&second, "b", 0);
    cr_assert_gt(file_bytes(), empty);
    journal_remove(journal, &first.mark);
    cr_assert_null(first.mark);
    journal_forget(journal, &second.mark);
    reopen();
    struct journal_mark *mark = expect_found("b", 0);

    expect_no_more();
    journal_remove(journal, &mark);
    reopen();
    expect_no_more();
    cr_assert_eq(file_bytes(), empty);
}

Test(journal, what_is_found_and_not_done_is_found_again)
{
    struct keeper keeper = {0};

    keep(&keeper, "a", 0);
    journal_forget(journal, &keeper.mark);
    for (int i = 0; i < 3; i++) {
        reopen();
        expect_found("a", 0);
        expect_no_more();
    }
}

Test(journal, nobody_is_told_who_forgot_or_removed_at_any_moment)
{
    for (int i = 0; i < 200; i++) {
        struct keeper keeper = {0};

        add(&keeper, "a", 0);
        for (int turns = i % 3; turns > 0; turns--)
            loop_turn(loop, 0);
        if (keeper.told == 0 && i % 2 == 0)
            journal_forget(journal, &keeper.mark);
        else
            journal_remove(journal, &keeper.mark);
        int told = keeper.told;

        loop_turn(loop, 1);
        loop_turn(loop, 0);
        cr_assert_eq(keeper.told, told);
    }
}

Test(journal, a_file_that_was_cut_short_or_damaged_counts_as_everything)
{
    struct keeper keepers[2] = {{0}};
    off_t whole;

    keep(&keepers[0], "a", 0);
    whole = file_bytes();
    keep(&keepers[1], "b", 0);
    for (size_t i = 0; i < 2; i++)
        journal_forget(journal, &keepers[i].mark);
    journal_close(journal);
    cr_assert_eq(truncate(path, whole + 5), 0);
    journal = journal_open(path, stderr);
    cr_assert_not_null(journal);
    expect_found("a", 0);
    struct journal_mark *all = expect_found(NULL, 0);

    expect_no_more();
    journal_remove(journal, &all);
    reopen();
    expect_found("a", 0);
    expect_no_more();
}

Test(journal, what_is_no_journal_counts_as_everything)
{
    int fd;

    journal_close(journal);
    fd = open(path, O_WRONLY | O_TRUNC);
    cr_assert_eq(write(fd, "something else altogether", 25), 25);
    close(fd);
    journal = journal_open(path, stderr);
    cr_assert_not_null(journal);
    expect_found(NULL, 0);
    expect_no_more();
}

Test(journal, two_processes_at_once_have_files_of_their_own_and_the_next_finds_both)
{
    struct keeper mine = {0}, theirs = {0};
    struct journal *own = journal, *other = journal_open(path, stderr);

    cr_assert_not_null(other);
    keep(&mine, "mine", 0);
    journal = other;
    expect_no_more();
    keep(&theirs, "theirs", 0);
    journal_forget(other, &theirs.mark);
    journal_forget(own, &mine.mark);
    journal_close(other);
    journal_close(own);
    journal = journal_open(path, stderr);
    expect_found("mine", 0);
    expect_found("theirs", 0);
    expect_no_more();
    char second[90];

    snprintf(second, sizeof(second), "%s.1", path);
    cr_assert_neq(access(second, F_OK), 0, "all is in one file again");
    reopen();
    expect_found("mine", 0);
    expect_found("theirs", 0);
}

static void on_found(void *arg)
{
    ++*(int *)arg;
}

Test(journal, what_a_process_leaves_that_outlived_our_start_is_found_as_soon_as_it_has_ended)
{
    struct keeper theirs = {0};
    struct journal *old = journal, *young = journal_open(path, stderr);
    int found = 0;

    cr_assert_not_null(young);
    keep(&theirs, "theirs", 0);
    journal_forget(old, &theirs.mark);
    journal_watch(young, loop, on_found, &found);
    journal_close(old);
    journal = young;
    for (int64_t give_up_ms = clock_mono().ms + PATIENCE_MS; found == 0; loop_turn(loop, 10))
        cr_assert_lt(clock_mono().ms, give_up_ms);
    expect_found("theirs", 0);
    expect_no_more();
    journal_unwatch(young);
    cr_assert_neq(access(path, F_OK), 0, "its file is gone: all is in ours");
    reopen();
    expect_found("theirs", 0);
}

Test(journal, a_path_that_cannot_be_used_is_told_at_once)
{
    char *text = NULL;
    size_t len;
    FILE *errors = open_memstream(&text, &len);
    char nowhere[100];

    snprintf(nowhere, sizeof(nowhere), "%s/none/journal", folder);
    cr_assert_null(journal_open(nowhere, errors));
    cr_assert_null(journal_open(folder, errors));
    snprintf(nowhere, sizeof(nowhere), "%s/link", folder);
    cr_assert_eq(symlink(path, nowhere), 0);
    cr_assert_null(journal_open(nowhere, errors));
    fclose(errors);
    cr_assert_not_null(strstr(text, "No such file"), "%s", text);
    cr_assert_not_null(strstr(text, "symbolic link"), "%s", text);
    free(text);
}

Test(journal, a_file_of_which_most_is_done_is_written_anew)
{
    static char long_tag[60000];
    struct keeper stays = {0};

    memset(long_tag, 'x', sizeof(long_tag) - 1);
    keep(&stays, "stays", 0);
    for (int i = 0; i < 60; i++) {
        struct keeper keeper = {0};

        keep(&keeper, long_tag, 0);
        journal_remove(journal, &keeper.mark);
    }
    cr_assert_lt(file_bytes(), 2 << 20, "not 3.6 MB");
    journal_forget(journal, &stays.mark);
    reopen();
    expect_found("stays", 0);
    expect_no_more();
}

/* The process that wrote it was killed while it told Redis of what a long outage had left. */
Test(journal, what_a_great_outage_left_holds_no_start_up)
{
    enum { KEPT = 60000, DONE = 26000 };
    FILE *file;

    journal_close(journal);
    file = fopen(path, "w");
    cr_assert_not_null(file);
    fwrite(JOURNAL_MAGIC.base, 1, JOURNAL_MAGIC.len, file);
    for (uint64_t i = 0; i < KEPT + DONE; i++) {
        struct journal_record record = {.id = i % KEPT * 977 + 1, .is_done = i >= KEPT, .tag_count = 1};
        char tag[32], bytes[80];

        snprintf(tag, sizeof(tag), "product:%d", (int)i);
        record.tags[0] = slice_text(tag);
        journal_record_write(&record, digest_checksum, bytes);
        fwrite(bytes, 1, journal_record_bytes(&record), file);
    }
    fclose(file);
    journal = journal_open(path, stderr);
    cr_assert_not_null(journal);
    for (int i = DONE; i < KEPT; i++) {
        char tag[32];
        struct journal_mark *mark;

        snprintf(tag, sizeof(tag), "product:%d", i);
        mark = expect_found(tag, 0);
        journal_remove(journal, &mark);
    }
    expect_no_more();
}
