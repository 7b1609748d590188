/* Log: see log.h. This file is the error log; access_log.c the other. */
#include "log.h"

#include "clock.h"
#include "text.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 2048, MAX_SITES = 512, LINES_PER_WINDOW = 10, WINDOW_MS = 1000 };

struct site { /* of a log call in the source */
    const char *file;
    int line;
    int64_t window_start_ms;
    int64_t written, left_out; /* in this window */
};

static _Atomic int threshold = LOG_INFO;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct site sites[MAX_SITES];
static size_t silenced; /* sites with lines left out */

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&threshold, (int)level, memory_order_relaxed);
}

static const char *level_name(enum log_level level)
{
    switch (level) {
    case LOG_DEBUG: return "debug";
    case LOG_INFO: return "info";
    case LOG_WARN: return "warn";
    case LOG_ERROR: return "error";
    }
    return "error";
}

/* One write of one line, so that lines of several threads and processes never mix. A message cannot break its
 * line or colour the terminal, whatever it quotes. */
static void write_line(const char *level, const char *message)
{
    static const char digits[] = "0123456789abcdef";
    char line[2 * LINE_BYTES];
    struct text text = text_in(line, sizeof(line) - 1);
    int64_t now_us = clock_wall_us();
    time_t now_s = (time_t)(now_us / 1000000);
    struct tm utc;
    char stamp[64];
    ssize_t written;

    gmtime_r(&now_s, &utc);
    strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S.", &utc);
    text_add(&text, slice_text(stamp));
    text_add_digits(&text, now_us / 1000 % 1000, 3);
    text_add(&text, SLICE("Z "));
    text_add(&text, slice_text(level));
    text_add_char(&text, ' ');
    for (; *message != '\0'; message++) {
        unsigned char c = (unsigned char)*message;

        if (c >= 0x20 && c != 0x7f) {
            text_add_char(&text, (char)c);
        } else {
            text_add(&text, SLICE("\\x"));
            text_add_char(&text, digits[c >> 4]);
            text_add_char(&text, digits[c & 15]);
        }
    }
    text = (struct text){line, sizeof(line), text_slice(&text).len};
    text_add_char(&text, '\n');
    written = write(STDERR_FILENO, line, text.len);
    (void)written; /* there is nobody left to tell */
}

/* Its place in the table, by open addressing. With more sites than places the last one is shared. */
static struct site *site_of(const char *file, int line)
{
    size_t at = ((uintptr_t)file / 8 + (size_t)line * 31) % MAX_SITES;

    for (int i = 0; i < MAX_SITES - 1 && sites[at].file != NULL; i++) {
        if (sites[at].file == file && sites[at].line == line)
            break;
        at = (at + 1) % MAX_SITES;
    }
    sites[at].file = file;
    sites[at].line = line;
    return &sites[at];
}

static void report_left_out(struct site *site)
{
    char message[LINE_BYTES];
    const char *slash = strrchr(site->file, '/');

    snprintf(message, sizeof(message), "%lld more lines like the last from %s:%d were left out",
             (long long)site->left_out, slash == NULL ? site->file : slash + 1, site->line);
    write_line("warn", message);
    site->left_out = 0;
    silenced--;
}

/* Sites whose window is over tell what they kept to themselves, whoever logs next. */
static void report_ended_windows(int64_t now_ms)
{
    for (size_t i = 0; silenced > 0 && i < MAX_SITES; i++)
        if (sites[i].left_out > 0 && now_ms - sites[i].window_start_ms >= WINDOW_MS)
            report_left_out(&sites[i]);
}

static bool may_write(struct site *site, int64_t now_ms)
{
    if (site->written == 0 || now_ms - site->window_start_ms >= WINDOW_MS) {
        site->window_start_ms = now_ms;
        site->written = 0;
    }
    if (site->written < LINES_PER_WINDOW) {
        site->written++;
        return true;
    }
    silenced += site->left_out++ == 0;
    return false;
}

void log_line(enum log_level level, const char *file, int line, const char *format, ...)
{
    char message[LINE_BYTES];
    int64_t now_ms = clock_mono().ms;
    va_list arguments;

    if ((int)level < atomic_load_explicit(&threshold, memory_order_relaxed))
        return;
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);

    pthread_mutex_lock(&lock);
    report_ended_windows(now_ms);
    if (may_write(site_of(file, line), now_ms))
        write_line(level_name(level), message);
    pthread_mutex_unlock(&lock);
}
