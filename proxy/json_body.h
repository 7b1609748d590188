/* Json body: what number stands at a place of a request's body? The file beside the admin interface that
 * knows json-c.
 *
 * Bodies come from anyone: depth, and through json_scan() the number of parts, are bounded; what is not JSON
 * to the letter, or gives a name twice, is not read at all.
 */
#ifndef WEIR_JSON_BODY_H
#define WEIR_JSON_BODY_H

#include "slice.h"

#include <stdint.h>

struct json_body;

struct json_body *json_body_read(struct slice text); /* NULL: not readable, or above INT_MAX bytes */
void json_body_free(struct json_body **body);        /* takes it; NULL is fine */

enum json_found {
    JSON_NOTHING, /* nothing stands there */
    JSON_WHOLE,   /* an integer, or an array: its length. Beyond int64_t: the nearest one */
    JSON_OTHER,   /* a string, a fraction, an object, true, null, ... */
};

/* `pointer`: RFC 6901, "" is the whole. */
/* The strings and whole numbers at `pointer`: one, or of an array each. They live as long as the body. 0: nothing, null,
 * or an empty array; SIZE_MAX: something else stands there, also in the array, or more than `room`. */
size_t json_body_texts(const struct json_body *body, const char *pointer, struct slice *out, size_t room);
enum json_found json_body_look(const struct json_body *body, const char *pointer, int64_t *number);

#endif
