/* Demo upstream: what its two halves share. tool_demo_upstream.c reads requests and writes answers; demo_upstream_answers.c says
 * what is answered, and counts. */
#ifndef WEIR_DEMO_UPSTREAM_H
#define WEIR_DEMO_UPSTREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DEMO_MAX_NAME = 512, DEMO_MAX_DELAY_MS = 600000 };

struct text { /* grows */
    char *bytes;
    size_t len;
};

void text_add_bytes(struct text *text, const char *bytes, size_t len);
void text_add(struct text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* at most 2 KiB at a time */
void text_add_json(struct text *text, const char *bytes, size_t len);

struct row {
    struct row *next;
    int64_t value;
    char name[];
};

struct table { /* of numbers by name */
    struct row *rows[1024];
    size_t count;
};

struct demo {
    int64_t product_ms, report_ms;
    int64_t calls, calls_by_no_name /* the table was full */;
    struct table counted, versions; /* version 0: never changed; -1: deleted */
};

struct ask {
    char method[16];
    char path[DEMO_MAX_NAME]; /* without the query */
    const char *target, *query, *fields;
    size_t target_len, query_len, fields_len;
    int64_t body_bytes;
    uint32_t body_crc;
    const char *body; /* NULL: none, or too long to be shown */
};

enum ending { KEEP, CLOSE, RESET };

struct reply {
    int status;
    const char *type;
    char fields[4096]; /* further header lines */
    struct text body;
    int64_t pattern_bytes; /* instead of a body; -1: none */
    bool is_chunked;
    int64_t claimed_bytes; /* a Content-Length that is not kept; -1: the true one */
    int64_t delay_ms;
    enum ending ending;
};

void demo_answer(struct demo *demo, const struct ask *ask, struct reply *reply);
int64_t demo_number(const char *text, int64_t max); /* its leading digits, at most `max` */

#endif
