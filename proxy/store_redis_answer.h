/* Store redis answer: what a script's reply means, or that it is none that our scripts give.
 *
 * Pure reading of reply trees: whatever a server sends, these say yes or no. What they hand out points into
 * the reply.
 */
#ifndef WEIR_STORE_REDIS_ANSWER_H
#define WEIR_STORE_REDIS_ANSWER_H

#include "redis_words.h"
#include "store.h"

enum {
    ANSWER_MAX_STAMPS = 128, /* as the scripts cut them */
    TOKEN_HEX_BYTES = 32,
    KEY_HEX_BYTES = 64,
    PRINCIPAL_HEX_BYTES = 32,
};

/* Moments and epochs of the store lie below this (the year 2112): a server cannot raise ours above all others
 * for ever. */
#define STORE_LAST_US (INT64_C(1) << 52)

/* What every script answers first: the epoch, and what was invalidated since the one that it was shown. */
struct store_news {
    int64_t epoch, floor; /* everything older than floor is invalid; 0: as before */
    struct tag_stamp stamps[ANSWER_MAX_STAMPS];
    size_t stamp_count;
    const struct redis_reply *result; /* the script's own */
};

bool answer_read_news(const struct redis_reply *reply, struct store_news *out);
int64_t answer_epoch(const struct redis_reply *reply); /* of one that answer_read_news() has taken */

/* Answers of tuples[0..count): `admitted` and the states, of which there is room for each charge, are
 * written. */
bool answer_read_admit(const struct redis_reply *result, const struct admit_tuple *tuples, size_t count,
                       struct admit_answer *answers);

/* One word for each of `count` holds: was it held? */
bool answer_read_settle(const struct redis_reply *result, bool *was_held, size_t count);

struct lookup_reply {
    enum lookup_kind kind;
    struct load_token token; /* zero: none */
    int64_t epoch, wait_ms;
    int status;
    int64_t stored_us, fresh_us, stale_us, error_us, age_us; /* what is left of each */
    struct slice entry;                                      /* encoded; len 0: none */
};

bool answer_read_lookup(const struct redis_reply *result, struct lookup_reply *out);
bool answer_read_fill(const struct redis_reply *result, enum fill_result *out);
bool answer_read_held(const struct redis_reply *result, bool *out);
bool answer_read_plan(const struct redis_reply *reply, struct plan_answer *out);
bool answer_read_epoch(const struct redis_reply *result, int64_t *out);

/* ---- published messages ---- */
/* The caller whose plan is kept under a key that begins with `prefix`. */
bool message_read_plan_key(struct slice key, struct slice prefix, unsigned char out[PRINCIPAL_BYTES]);
bool message_read_key(struct slice message, struct key32 *out);

struct invalidation_message { /* see lua/invalidate.lua */
    int64_t previous, epoch;
    struct slice stamps; /* for message_next_stamp() */
};

bool message_read_invalidation(struct slice message, struct invalidation_message *out);
/* The next tag and its kind, cut off `*stamps`. False at the end, and also where there is none although there are
 * bytes: compare the length. */
bool message_next_stamp(struct slice *stamps, struct tag_stamp *out);

void token_write(struct load_token token, char out[TOKEN_HEX_BYTES]);
void principal_write(const unsigned char principal[PRINCIPAL_BYTES], char out[PRINCIPAL_HEX_BYTES]);
void key_write(const struct key32 *key, char out[KEY_HEX_BYTES]);

#endif
