/* Access log: what happened to each request, one line each, without a loop ever waiting for a disk.
 *
 * Workers append whole lines to a bounded buffer under a mutex held for a copy; a thread of its own swaps the
 * buffer for an empty one and writes it out. Lines that find no room, and lines that cannot be written, are
 * counted. Every string of a client is escaped and bounded, so no request can forge, break or swell a line.
 */
#include "log.h"

#include "check.h"
#include "clock.h"
#include "json_text.h"
#include "memory.h"
#include "stats.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    BUFFER_BYTES = 4 << 20, /* of lines waiting, and as much again being written */
    GATHER_BYTES = 64 << 10,
    GATHER_MS = 50,       /* a line waits so long for others, so that a write serves many */
    CLOSE_WAIT_MS = 2000, /* for a reader of ours that has stopped reading */
    LINE_ROOM = 16 << 10,
    TARGET_MAX = 8 << 10, /* what a string may take of a line, escapes included; all of them fit LINE_ROOM */
    WORD_MAX = 1 << 10,
};

struct buffer {
    char *bytes;
    size_t len;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    pthread_t writer;
    struct buffer waiting;
    char *spare; /* NULL while its bytes are being written */
    enum log_format format;
    int fd;
    bool is_pipe, is_open, is_closing;
    stats_id lost;
    int64_t give_up_at_ms; /* once closing */
} sink = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Atomic bool is_on; /* read before anything is formatted */

static void count_lost(int64_t lines)
{
    stats_add(stats_join(), sink.lost, lines);
}

/* ---- lines ---- */

/* Breaking a moment down costs more than the rest of the line: done once a second and thread. */
static const struct tm *utc_of(time_t s)
{
    static _Thread_local time_t known = -1;
    static _Thread_local struct tm utc;

    if (s != known)
        gmtime_r(&s, &utc);
    known = s;
    return &utc;
}

static void add_number(struct text *line, struct slice name, int64_t value)
{
    text_add(line, name);
    text_add_int(line, value);
}

static void add_string(struct text *line, struct slice name, struct slice value, size_t max_bytes)
{
    if (value.len == 0)
        return;
    text_add(line, name);
    text_add_json(line, value, max_bytes);
}

static void add_json_time(struct text *line, int64_t at_wall_us)
{
    char stamp[64];
    size_t len = strftime(stamp, sizeof(stamp), "{\"time\":\"%Y-%m-%dT%H:%M:%S.",
                          utc_of((time_t)(at_wall_us / 1000000)));

    text_add(line, slice_of(stamp, len));
    text_add_digits(line, at_wall_us % 1000000, 6);
    text_add(line, SLICE("Z\""));
}

static void format_json(const struct access_record *r, struct text *line)
{
    add_json_time(line, r->at_wall_us);
    add_string(line, SLICE(",\"client\":"), r->peer, WORD_MAX / 2);
    add_string(line, SLICE(",\"method\":"), r->method, WORD_MAX / 4);
    add_string(line, SLICE(",\"host\":"), r->host, WORD_MAX / 2);
    add_string(line, SLICE(",\"target\":"), r->target, TARGET_MAX);
    add_string(line, SLICE(",\"route\":"), r->route, WORD_MAX);
    add_number(line, SLICE(",\"status\":"), r->status);
    add_number(line, SLICE(",\"body_bytes\":"), r->body_bytes);
    if (r->was_tunnel)
        add_number(line, SLICE(",\"received_bytes\":"), r->received_bytes);
    add_number(line, SLICE(",\"took_us\":"), r->took_us);
    if (r->upstream_us >= 0)
        add_number(line, SLICE(",\"upstream_us\":"), r->upstream_us);
    if (r->limit_wait_us > 0)
        add_number(line, SLICE(",\"limit_wait_us\":"), r->limit_wait_us);
    add_string(line, SLICE(",\"cache\":"), slice_text(r->cache), WORD_MAX / 8);
    add_string(line, SLICE(",\"code\":"), slice_text(r->code), WORD_MAX / 8);
    add_string(line, SLICE(",\"detail\":"), slice_text(r->detail), WORD_MAX / 8);
    add_string(line, SLICE(",\"limit\":"), slice_text(r->limit), WORD_MAX / 2);
    if (r->degraded)
        text_add(line, SLICE(",\"degraded\":true"));
    if (r->client_left)
        text_add(line, SLICE(",\"client_left\":true"));
    add_string(line, SLICE(",\"user_agent\":"), r->user_agent, WORD_MAX);
    add_string(line, SLICE(",\"referer\":"), r->referer, WORD_MAX);
    text_add(line, SLICE("}\n"));
}

/* In quotes, as readers of this format expect it: \" \\ and \xHH. */
static void add_quoted(struct text *line, struct slice value, size_t max_bytes)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t end = line->len + max_bytes;

    for (size_t i = 0; i < value.len && line->len < end; i++) {
        unsigned char c = (unsigned char)value.base[i];

        if (c < 0x20 || c >= 0x7f) {
            text_add(line, SLICE("\\x"));
            text_add_char(line, digits[c >> 4]);
            text_add_char(line, digits[c & 15]);
            continue;
        }
        if (c == '"' || c == '\\')
            text_add_char(line, '\\');
        text_add_char(line, (char)c);
    }
}

static void add_quoted_or_dash(struct text *line, struct slice value, size_t max_bytes)
{
    text_add(line, SLICE(" \""));
    add_quoted(line, value.len == 0 ? SLICE("-") : value, max_bytes);
    text_add_char(line, '"');
}

static void format_combined(const struct access_record *r, struct text *line)
{
    char stamp[64];
    size_t len = strftime(stamp, sizeof(stamp), " - - [%d/%b/%Y:%H:%M:%S +0000] \"",
                          utc_of((time_t)(r->at_wall_us / 1000000)));

    add_quoted(line, r->peer.len == 0 ? SLICE("-") : r->peer, WORD_MAX / 2);
    text_add(line, slice_of(stamp, len));
    add_quoted(line, r->method, WORD_MAX / 4);
    text_add_char(line, ' ');
    add_quoted(line, r->target, TARGET_MAX);
    text_add(line, SLICE(" HTTP/1.1\" "));
    text_add_int(line, r->status);
    add_number(line, SLICE(" "), r->body_bytes);
    add_quoted_or_dash(line, r->referer, WORD_MAX);
    add_quoted_or_dash(line, r->user_agent, WORD_MAX);
    text_add_char(line, '\n');
}

bool access_log_is_on(void)
{
    return atomic_load_explicit(&is_on, memory_order_relaxed);
}

void access_log_write(const struct access_record *record)
{
    char room[LINE_ROOM];
    struct text line = text_in(room, sizeof(room));
    bool has_room;

    if (!atomic_load_explicit(&is_on, memory_order_acquire))
        return;
    switch (sink.format) {
    case LOG_JSON: format_json(record, &line); break;
    case LOG_COMBINED: format_combined(record, &line); break;
    }
    pthread_mutex_lock(&sink.lock);
    has_room = sink.is_open && text_fits(&line) && line.len <= BUFFER_BYTES - sink.waiting.len;
    if (has_room) {
        size_t before = sink.waiting.len;

        memcpy(sink.waiting.bytes + before, room, line.len);
        sink.waiting.len += line.len;
        if (before == 0 || (before < GATHER_BYTES && sink.waiting.len >= GATHER_BYTES))
            pthread_cond_signal(&sink.filled);
    }
    pthread_mutex_unlock(&sink.lock);
    if (!has_room)
        count_lost(1);
}

/* ---- the writer ---- */

/* Waits until a pipe or terminal takes bytes; false once closing has waited long enough. A file always does.
 */
static bool wait_writable(void)
{
    struct pollfd one = {.fd = sink.fd, .events = POLLOUT};
    bool is_over = false;

    while (!is_over) {
        if (poll(&one, 1, 100) > 0)
            return true;
        pthread_mutex_lock(&sink.lock);
        is_over = sink.is_closing && clock_mono().ms >= sink.give_up_at_ms;
        pthread_mutex_unlock(&sink.lock);
    }
    return false;
}

/* How much of it was written. What poll() calls writable takes PIPE_BUF bytes without blocking: no more is
 * offered to it. */
static size_t write_out(const char *bytes, size_t len)
{
    size_t done = 0;

    while (done < len) {
        size_t part = sink.is_pipe && len - done > PIPE_BUF ? PIPE_BUF : len - done;
        ssize_t written;

        if (sink.is_pipe && !wait_writable()) {
            log_error("access log: its reader has stopped reading");
            break;
        }
        written = write(sink.fd, bytes + done, part);
        if (written >= 0) {
            done += (size_t)written;
        } else if (errno != EINTR && errno != EAGAIN) {
            log_error("access log: cannot write: %s", strerror(errno));
            break;
        }
    }
    return done;
}

static int64_t count_lines(const char *bytes, size_t len)
{
    const char *end = bytes + len, *lf;
    int64_t lines = 0;

    while (bytes < end && (lf = memchr(bytes, '\n', (size_t)(end - bytes))) != NULL) {
        bytes = lf + 1;
        lines++;
    }
    return lines;
}

/* Under the lock: until there are lines, and then for a moment more, unless there are many or this is the
 * end. */
static void await_lines(void)
{
    struct timespec until;

    while (sink.waiting.len == 0 && !sink.is_closing)
        pthread_cond_wait(&sink.filled, &sink.lock);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += GATHER_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    while (sink.waiting.len < GATHER_BYTES && !sink.is_closing)
        if (pthread_cond_timedwait(&sink.filled, &sink.lock, &until) == ETIMEDOUT)
            break;
}

static void *write_lines(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&sink.lock);
    for (;;) {
        struct buffer full;
        size_t done;

        await_lines();
        if (sink.waiting.len == 0)
            break; /* closing, and all is written */
        full = sink.waiting;
        sink.waiting = (struct buffer){sink.spare, 0};
        sink.spare = NULL;
        pthread_mutex_unlock(&sink.lock);

        done = write_out(full.bytes, full.len);
        if (done < full.len)
            count_lost(count_lines(full.bytes + done, full.len - done));

        pthread_mutex_lock(&sink.lock);
        sink.spare = full.bytes;
    }
    pthread_mutex_unlock(&sink.lock);
    return NULL;
}

/* ---- opening and closing ---- */

static int open_target(const char *name)
{
    int fd;

    if (strcmp(name, "stdout") == 0)
        return STDOUT_FILENO;
    if (strcmp(name, "stderr") == 0)
        return STDERR_FILENO;
    fd = open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0640);
    if (fd < 0)
        log_error("access log: cannot open %s: %s", name, strerror(errno));
    return fd;
}

static void close_target(void)
{
    if (sink.fd > STDERR_FILENO)
        close(sink.fd);
    sink.fd = -1;
}

/* Signals are for the main thread. */
static bool start_writer(void)
{
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    error = pthread_create(&sink.writer, NULL, write_lines, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        log_error("access log: cannot start its thread: %s", strerror(error));
    return error == 0;
}

static void init_condition(void)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&sink.filled, &attributes);
    pthread_condattr_destroy(&attributes);
}

static void free_buffers(void)
{
    free(sink.waiting.bytes);
    free(sink.spare);
    sink.waiting = (struct buffer){NULL, 0};
    sink.spare = NULL;
}

bool access_log_open(const struct log_settings *settings)
{
    struct stat what;

    CHECK(!sink.is_open);
    if (strcmp(settings->access, "off") == 0)
        return true;
    sink.fd = open_target(settings->access);
    if (sink.fd < 0)
        return false;
    sink.is_pipe = fstat(sink.fd, &what) != 0 || !S_ISREG(what.st_mode);
    sink.format = settings->format;
    sink.lost = stats_series(STATS_access_lines_lost, NULL);
    sink.waiting = (struct buffer){must_alloc(BUFFER_BYTES), 0};
    sink.spare = must_alloc(BUFFER_BYTES);
    sink.is_closing = false;
    init_condition();
    if (!start_writer()) {
        pthread_cond_destroy(&sink.filled);
        free_buffers();
        close_target();
        return false;
    }
    sink.is_open = true;
    atomic_store_explicit(&is_on, true, memory_order_release);
    return true;
}

void access_log_close(void)
{
    if (!atomic_exchange(&is_on, false))
        return;
    pthread_mutex_lock(&sink.lock);
    sink.is_open = false; /* a write that is under way finds no room */
    sink.is_closing = true;
    sink.give_up_at_ms = clock_mono().ms + CLOSE_WAIT_MS;
    pthread_cond_signal(&sink.filled);
    pthread_mutex_unlock(&sink.lock);
    pthread_join(sink.writer, NULL);
    pthread_cond_destroy(&sink.filled);
    free_buffers();
    close_target();
}
