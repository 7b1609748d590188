/* Log: the error log (stderr, one line a message) and the access log (a bounded buffer written by its own
 * thread).
 *
 * No line ever holds an API key, a raw principal or a password. A full buffer drops lines and counts them
 * rather than block a loop.
 */
#ifndef WEIR_LOG_H
#define WEIR_LOG_H

#include "settings.h"
#include "slice.h"

void log_set_level(enum log_level level);
/* printf-like; rate-limited per call site (10 a second, then one line telling how many were left out). */
#define log_error(...) log_line(LOG_ERROR, __FILE__, __LINE__, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __FILE__, __LINE__, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __FILE__, __LINE__, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __FILE__, __LINE__, __VA_ARGS__)
void log_line(enum log_level level, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

struct access_record { /* of one request; slices are copied */
    int64_t at_wall_us, took_us, upstream_us /* -1: not asked */, limit_wait_us;
    struct slice peer /* the digest of the address, never the address */, method, target, host, route,
        user_agent, referer;
    int status;
    int64_t body_bytes;
    bool was_tunnel; /* then it says also what came the other way: */
    int64_t received_bytes;
    const char *cache;  /* X-Cache value or NULL */
    const char *code;   /* refusal code or fault name, or NULL */
    const char *detail; /* what was wrong with a request that was refused unread, or NULL */
    const char *limit;  /* the limit that refused, or NULL */
    bool degraded, client_left;
};

/* Opens what settings->access names and starts the writer thread; false and an error line if it can't. "off":
 * true, and nothing is written. Before the threads that write, and not while open. */
bool access_log_open(const struct log_settings *settings);
bool access_log_is_on(void);                               /* false: a record need not even be made */
void access_log_write(const struct access_record *record); /* from any thread; never waits for the output */
/* All lines written so far reach the output first; one that takes no bytes for 2 s loses them, counted. */
void access_log_close(void);

#endif
