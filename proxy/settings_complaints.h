/* Settings complaints: what is wrong with a configuration, gathered in one run and told in the order of the
 * file.
 *
 * Sections are read in the order of their references, not of the file, so nothing is written before the end.
 * Everything that came from the file is quoted by quote(): bounded, without control characters.
 */
#ifndef WEIR_SETTINGS_COMPLAINTS_H
#define WEIR_SETTINGS_COMPLAINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct complaint {
    int line, column; /* from 1; 0: the file as a whole */
    size_t order;
    char *text;
};

struct complaints {
    const char *file; /* borrowed */
    struct complaint *list;
    size_t count, room;
    size_t left_out; /* beyond MAX_COMPLAINTS: counted, not kept */
};

enum { MANY_COMPLAINTS = 100, MAX_COMPLAINTS = 500, QUOTED_SIZE = 128 };

struct quoted {
    char text[QUOTED_SIZE];
};

void complain_at(struct complaints *complaints, int line, int column, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void complaints_write(struct complaints *complaints, FILE *out); /* sorted by place */
void complaints_free(struct complaints *complaints);

/* So many that nobody reads to the end: what is costly to find out for a message (a nearest word) is left out
 * from here on. */
bool complaints_are_many(const struct complaints *complaints);

/* `text` in double quotes, control characters escaped, cut with "..." where it is long; always
 * NUL-terminated. */
struct quoted quote(const char *text);

#endif
