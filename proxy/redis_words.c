/* Redis words: see redis_words.h. */
#include "redis_words.h"

#include "check.h"
#include "memory.h"

#include <stdlib.h>

enum { NUMBER_ROOM = 24, KEPT_BYTES = 1 << 20 };

bool redis_error_is(const struct redis_reply *reply, const char *word)
{
    size_t len = strlen(word);

    return reply->kind == REDIS_ERROR && reply->text.len >= len && memcmp(reply->text.base, word, len) == 0 &&
           (reply->text.len == len || reply->text.base[len] == ' ');
}

/* As deep as the reader builds them, which is bounded. */
void redis_reply_free(struct redis_reply *reply)
{
    if (reply == NULL)
        return;
    for (size_t i = 0; i < reply->count; i++)
        redis_reply_free(reply->items[i]);
    free(reply->items);
    free(reply);
}

/* ---- building ---- */

void redis_words_clear(struct redis_words *words)
{
    words->count = 0;
    words->text_len = 0;
}

void redis_words_free(struct redis_words *words)
{
    free(words->words);
    free(words->text);
    *words = (struct redis_words){0};
}

static struct redis_word *next_word(struct redis_words *words)
{
    if (words->count == words->room) {
        words->room = words->room == 0 ? 64 : words->room * 2;
        words->words = must_realloc(words->words, words->room * sizeof(words->words[0]));
    }
    words->words[words->count] = (struct redis_word){0};
    return &words->words[words->count++];
}

void redis_words_add(struct redis_words *words, struct slice word)
{
    struct redis_word *fresh = next_word(words);

    if (words->text_room - words->text_len < word.len) {
        words->text_room = (words->text_len + word.len) * 2 + 256;
        words->text = must_realloc(words->text, words->text_room);
    }
    if (word.len > 0)
        memcpy(words->text + words->text_len, word.base, word.len);
    fresh->at = words->text_len;
    fresh->len = word.len;
    words->text_len += word.len;
}

/* Decimal digits of `number`, right-aligned in `room`. */
static struct slice write_number(uint64_t number, bool is_negative, char room[NUMBER_ROOM])
{
    char *cursor = room + NUMBER_ROOM;

    do {
        *--cursor = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    if (is_negative)
        *--cursor = '-';
    return slice_of(cursor, (size_t)(room + NUMBER_ROOM - cursor));
}

void redis_words_add_int(struct redis_words *words, int64_t number)
{
    char room[NUMBER_ROOM];
    uint64_t size = number < 0 ? -(uint64_t)number : (uint64_t)number;

    redis_words_add(words, write_number(size, number < 0, room));
}

void redis_words_borrow(struct redis_words *words, struct slice word)
{
    struct redis_word *fresh = next_word(words);

    fresh->borrowed = word.base != NULL ? word.base : "";
    fresh->len = word.len;
}

void redis_words_add_more(struct redis_words *words, struct slice piece)
{
    CHECK(words->count > 0);
    words->words[words->count - 1].goes_on = true;
    redis_words_add(words, piece);
}

void redis_words_borrow_more(struct redis_words *words, struct slice piece)
{
    CHECK(words->count > 0);
    words->words[words->count - 1].goes_on = true;
    redis_words_borrow(words, piece);
}

/* ---- encoding ---- */

/* The length of the word that begins at piece `*i`; moves `*i` behind its last piece. */
static size_t word_len(const struct redis_words *words, size_t *i)
{
    size_t len = 0;
    bool goes_on;

    do {
        len += words->words[*i].len;
        goes_on = words->words[*i].goes_on;
        (*i)++;
    } while (goes_on);
    return len;
}

static size_t count_words(const struct redis_words *words)
{
    size_t count = 0;

    for (size_t i = 0; i < words->count; i++)
        count += !words->words[i].goes_on;
    return count;
}

static size_t digits_of(size_t number)
{
    size_t digits = 1;

    for (; number >= 10; number /= 10)
        digits++;
    return digits;
}

enum { LINE_OVERHEAD = 3 /* the mark and CR LF */, WORD_END = 2 };

size_t redis_words_encoded_bytes(const struct redis_words *words)
{
    size_t bytes = digits_of(count_words(words)) + LINE_OVERHEAD;

    for (size_t i = 0; i < words->count;) {
        size_t len = word_len(words, &i);

        bytes += digits_of(len) + LINE_OVERHEAD + len + WORD_END;
    }
    return bytes;
}

static char *put(char *out, struct slice bytes)
{
    if (bytes.len > 0)
        memcpy(out, bytes.base, bytes.len);
    return out + bytes.len;
}

static char *put_line(char *out, char mark, size_t number)
{
    char room[NUMBER_ROOM];

    *out++ = mark;
    return put(put(out, write_number(number, false, room)), SLICE("\r\n"));
}

void redis_words_encode(const struct redis_words *words, char *out)
{
    out = put_line(out, '*', count_words(words));
    for (size_t i = 0; i < words->count;) {
        size_t end = i;

        out = put_line(out, '$', word_len(words, &end));
        for (; i < end; i++) {
            const struct redis_word *piece = &words->words[i];

            out = put(out, slice_of(piece->borrowed != NULL ? piece->borrowed : words->text + piece->at,
                                    piece->len));
        }
        out = put(out, SLICE("\r\n"));
    }
}

/* ---- bytes to send ---- */

void redis_bytes_add(struct redis_bytes *bytes, const struct redis_words *words)
{
    size_t more = redis_words_encoded_bytes(words);

    if (bytes->room - bytes->len < more) {
        bytes->room = (bytes->len + more) / 2 * 3 + 256;
        bytes->base = must_realloc(bytes->base, bytes->room);
    }
    redis_words_encode(words, bytes->base + bytes->len);
    bytes->len += more;
}

void redis_bytes_empty(struct redis_bytes *bytes)
{
    bytes->len = 0;
    if (bytes->room > KEPT_BYTES)
        redis_bytes_free(bytes);
}

void redis_bytes_free(struct redis_bytes *bytes)
{
    free(bytes->base);
    *bytes = (struct redis_bytes){0};
}
