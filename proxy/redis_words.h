/* Redis words: what is said to Redis and what it says back, as plain values.
 *
 * A command is a list of words. A word may be borrowed, and may consist of several pieces, so that a large
 * body is copied once: into the bytes that are sent.
 */
#ifndef WEIR_REDIS_WORDS_H
#define WEIR_REDIS_WORDS_H

#include "slice.h"

#include <stdint.h>

/* ---- what Redis said ---- */
enum redis_kind { REDIS_TEXT /* bulk or status */, REDIS_ERROR, REDIS_INTEGER, REDIS_NIL, REDIS_LIST };

struct redis_reply {
    enum redis_kind kind;
    int64_t integer;
    struct slice text; /* of TEXT and ERROR; NUL-terminated too */
    struct redis_reply **items;
    size_t count; /* of LIST; no item is NULL */
};

bool redis_error_is(const struct redis_reply *reply,
                    const char *word);            /* an error whose first word is this one */
void redis_reply_free(struct redis_reply *reply); /* NULL is fine; also one that is only partly built */

/* ---- the words of a command ---- */
struct redis_word {
    const char *borrowed; /* NULL: in the list's own text */
    size_t at, len;
    bool goes_on; /* the next piece belongs to the same word */
};

struct redis_words { /* all zero is an empty one; kept and cleared for reuse */
    struct redis_word *words;
    size_t count, room;
    char *text;
    size_t text_len, text_room;
};

void redis_words_clear(struct redis_words *words);
void redis_words_free(struct redis_words *words);
void redis_words_add(struct redis_words *words, struct slice word); /* copied */
void redis_words_add_int(struct redis_words *words, int64_t number);
void redis_words_borrow(struct redis_words *words,
                        struct slice word); /* must stay until the command is sent */
void redis_words_add_more(struct redis_words *words, struct slice piece);    /* lengthens the last word */
void redis_words_borrow_more(struct redis_words *words, struct slice piece); /* lengthens the last word */
size_t redis_words_encoded_bytes(const struct redis_words *words);
void redis_words_encode(const struct redis_words *words,
                        char *out); /* the command in RESP; out has that room */

/* ---- bytes to send ---- */
struct redis_bytes { /* all zero is an empty one */
    char *base;
    size_t len, room;
};

void redis_bytes_add(struct redis_bytes *bytes, const struct redis_words *words);
void redis_bytes_empty(struct redis_bytes *bytes); /* keeps its memory, unless that was for something large */
void redis_bytes_free(struct redis_bytes *bytes);

#endif
