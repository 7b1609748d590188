/* Front, chunks: is the chunked body that h2o is about to decode the one that everybody else would read?
 *
 * h2o decodes leniently ("0x3" is a size of 0 to it, a bare LF ends a line) and in place, so that afterwards
 * nothing can be checked any more. A proxy before us that reads such a body otherwise would let a client hide
 * a request in it. So every byte of a chunked body is read strictly just before h2o gets it. That needs each of
 * them to come through our callback: see watch_words() for the one place where h2o reads without us, and
 * chunks_are_ahead() for bodies that were read along with the request before them.
 */
#include "front_http1.h"

#include <string.h>

static const char CODING[] = "\ntransfer-encoding";

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
}

/* Does a line begin so? */
static bool has_coding_line(const char *bytes, size_t len)
{
    const size_t wanted = sizeof(CODING) - 1;
    const char *at = bytes, *end = bytes + len;

    while ((size_t)(end - at) >= wanted && (at = memchr(at, '\n', (size_t)(end - at) - wanted + 1)) != NULL) {
        size_t same = 1;

        while (same < wanted && lower(at[same]) == CODING[same])
            same++;
        if (same == wanted)
            return true;
        at++;
    }
    return false;
}

void chunks_begin(struct connection *c, size_t head_bytes)
{
    c->is_chunked = has_coding_line(c->sock->input->bytes, head_bytes);
    c->checked_bytes = head_bytes;
    if (c->is_chunked)
        chunked_init(&c->chunks);
}

bool chunks_are_sound(struct connection *c)
{
    h2o_buffer_t *input = c->sock->input;
    struct slice fresh, data;

    if (!c->is_chunked || c->checked_bytes >= input->size)
        return true;
    fresh = slice_of(input->bytes + c->checked_bytes, input->size - c->checked_bytes);
    for (;;) {
        switch (chunked_next(&c->chunks, &fresh, &data)) {
        case CHUNKED_DATA: continue;
        case CHUNKED_HUNGRY:
        case CHUNKED_END: return true; /* what is behind the end is the next request's */
        case CHUNKED_BROKEN: return false;
        }
    }
}

bool chunks_are_ahead(const struct slice *behind)
{
    return has_coding_line(behind->base, behind->len);
}
