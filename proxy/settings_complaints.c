/* Settings complaints: see settings_complaints.h. */
#include "settings_complaints.h"
#include "memory.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void complain_at(struct complaints *complaints, int line, int column, const char *format, ...)
{
    char *text = NULL;
    va_list args;

    if (complaints->count == MAX_COMPLAINTS) {
        complaints->left_out++;
        return;
    }
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = must_copy("out of memory", strlen("out of memory"));
    va_end(args);
    if (complaints->count == complaints->room) {
        complaints->room = complaints->room == 0 ? 16 : complaints->room * 2;
        complaints->list = must_realloc(complaints->list, complaints->room * sizeof *complaints->list);
    }
    complaints->list[complaints->count] =
        (struct complaint){.line = line, .column = column, .order = complaints->count, .text = text};
    complaints->count++;
}

bool complaints_are_many(const struct complaints *complaints)
{
    return complaints->count >= MANY_COMPLAINTS;
}

static int by_place(const void *left, const void *right)
{
    const struct complaint *a = left, *b = right;

    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    if (a->column != b->column)
        return a->column < b->column ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

void complaints_write(struct complaints *complaints, FILE *out)
{
    if (complaints->count > 0)
        qsort(complaints->list, complaints->count, sizeof *complaints->list, by_place);
    for (size_t i = 0; i < complaints->count; i++) {
        const struct complaint *one = &complaints->list[i];

        if (one->line == 0)
            fprintf(out, "%s: %s\n", complaints->file, one->text);
        else
            fprintf(out, "%s:%d:%d: %s\n", complaints->file, one->line, one->column, one->text);
    }
    if (complaints->left_out > 0)
        fprintf(out, "%s: %zu further errors are not shown\n", complaints->file, complaints->left_out);
}

void complaints_free(struct complaints *complaints)
{
    for (size_t i = 0; i < complaints->count; i++)
        free(complaints->list[i].text);
    free(complaints->list);
    *complaints = (struct complaints){.file = complaints->file};
}

/* Is this the second or a later byte of a UTF-8 sequence? */
static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

struct quoted quote(const char *text)
{
    static const char ellipsis[] = "...\"";
    struct quoted out;
    size_t used = 0;

    out.text[used++] = '"';
    for (size_t i = 0; text[i] != '\0'; i++) {
        unsigned char c = (unsigned char)text[i];

        /* The longest thing written at once is \xNN; behind it the ellipsis must still fit. */
        if (used + 4 + sizeof ellipsis > sizeof out.text) {
            while (used > 1 && is_continuation(text[i])) { /* never half a character */
                used--;
                i--;
            }
            memcpy(out.text + used, ellipsis, sizeof ellipsis);
            return out;
        }
        if (c < 0x20 || c == 0x7f)
            used += (size_t)snprintf(out.text + used, sizeof out.text - used, "\\x%02x", c);
        else
            out.text[used++] = (char)c;
    }
    out.text[used++] = '"';
    out.text[used] = '\0';
    return out;
}
