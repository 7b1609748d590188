/* Settings suggest: see settings_suggest.h. */
#include "settings_suggest.h"
#include "slice.h"

#include <string.h>

enum { MAX_WORD = 64 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Optimal string alignment: three rows of the edit matrix, since a swap looks two rows back. */
static size_t edits_between(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t rows[3][MAX_WORD + 1];
    size_t *before = rows[0], *above = rows[1], *row = rows[2];

    for (size_t j = 0; j <= b_len; j++)
        above[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t *oldest = before;

        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            char x = ascii_lower(a[i - 1]), y = ascii_lower(b[j - 1]);

            row[j] = least(above[j - 1] + (x != y), least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && x == ascii_lower(b[j - 2]) && y == ascii_lower(a[i - 2]))
                row[j] = least(row[j], before[j - 2] + 1);
        }
        before = above;
        above = row;
        row = oldest;
    }
    return above[b_len];
}

const char *nearest_word(const char *word, const char *const *known, size_t count)
{
    size_t len = strlen(word), best = len / 3 > 0 ? len / 3 + 1 : 2; /* to be stayed below */
    const char *found = NULL;

    if (len == 0 || len > MAX_WORD)
        return NULL;
    best = least(best, len); /* a word of which nothing is left was not meant */
    for (size_t i = 0; i < count; i++) {
        size_t known_len = strlen(known[i]), edits;

        if (known_len > MAX_WORD || known_len + best <= len || len + best <= known_len)
            continue;
        edits = edits_between(word, len, known[i], known_len);
        if (edits < best) {
            best = edits;
            found = known[i];
        }
    }
    return found;
}
