/* The cache's scripts, called one at a time at a moment of the test's choice, on a real Redis. */
#ifndef WEIR_SUPPORT_CACHE_H
#define WEIR_SUPPORT_CACHE_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SECOND = 1000000, HOUR_S = 3600, LOOKS = -1 };

/* What is said of one key. `key` is any short text; the tags are NULL-terminated. */
struct looked {
    char kind[8], token[40], bytes[64];
    int64_t epoch; /* the table's */
    int64_t began, wait_ms, status, stored_us, fresh_us, stale_us, error_us, age_us;
};

struct lookup_words {
    const char *key, *token, *waited, *damaged;
    int64_t now_us, seen, lease_ms; /* 0: 30 s; LOOKS: a mere look */
    const char *tags[4];
};

struct fill_words {
    const char *key, *token, *bytes;
    int64_t now_us, seen, began;
    int64_t fresh_s, stale_s, error_s, age_s;
    const char *tags[4];
};

struct release_words {
    const char *key, *token, *why;
    int64_t now_us, seen, status, ms;
};

redisReply *run_script(redisContext *redis, const char *name, int keys, int count, const char **words,
                       const size_t *lens);
struct looked look(redisContext *redis, struct lookup_words words);
const char *fill(redisContext *redis, struct fill_words words); /* stored, superseded, invalidated */
bool give_up(redisContext *redis, struct release_words words);  /* release: was it held? */
int64_t invalidate(redisContext *redis, int64_t now_us, int64_t seen, const char *const *tags);
int64_t invalidate_softly(redisContext *redis, int64_t now_us, int64_t seen, const char *const *tags);
int64_t server_now_us(redisContext *redis);
void expire_flight(redisContext *redis, const char *key); /* what its lease running out does */

#endif
