/* Json text: any bytes as one JSON string (RFC 8259 section 7), valid whatever a client sent. */
#ifndef WEIR_JSON_TEXT_H
#define WEIR_JSON_TEXT_H

#include "text.h"

/* In quotes. Control characters, quote and backslash are escaped; a byte that is not part of valid UTF-8 is
 * shown as the character of its number (\u00ff). What would pass `max_bytes` between the quotes is left out
 * from the first whole character, with "..." in its place. */
void text_add_json(struct text *text, struct slice bytes, size_t max_bytes);

/* How many bytes the UTF-8 character at s[at] has, 0: none begins there. Overlong forms and surrogates are
 * none. */
size_t utf8_length(struct slice s, size_t at);

#endif
