/* Vary: on which request fields does a response depend, and when do two requests agree in them (RFC 9111
 * section 4.1)?
 *
 * All lines of Vary are one list. Names are kept as one text: lower case, sorted, each once, ", " between them.
 * What two requests say in these fields is written as text to be hashed; the same text: the same variant. Values
 * are compared after normalisations that keep their meaning: the lines of a name are joined, blanks around
 * commas left out. Of Accept-Encoding counts which of the codings that we know may be used; of Accept-Language
 * the languages without case, by their weights.
 */
#ifndef WEIR_VARY_H
#define WEIR_VARY_H

#include "text.h"

enum { VARY_MAX_NAMES = 16, VARY_NAMES_ROOM = 256 };

bool vary_names_all(const struct header *headers, size_t count); /* Vary: * */

/* Writes the names in `known` (such a text, or empty) and those of a response's Vary to `room`, which has
 * VARY_NAMES_ROOM bytes. A response with a Content-Encoding varies on Accept-Encoding, whether it says so or
 * not. False: they are too many or too long, or one is no name. `has_more`: some are not known. */
bool vary_extend(struct slice known, const struct header *response, size_t count, char *room, size_t *len_out,
                 bool *has_more);

/* What a request says in the fields of these names. */
void vary_write_values(struct slice names, const struct header *request, size_t count, struct text *out);

/* The same as if the request asked for this language and no other. */
void vary_write_values_in(struct slice language, struct slice names, const struct header *request,
                          size_t count, struct text *out);

/* The language that the request wants before all others. False: it wants none, several alike, any, or what cannot be
 * read. */
bool vary_prefers_language(const struct header *request, size_t count, struct slice *language);
/* The one language that a response says it is in; false: it does not say, or is in several. */
bool vary_is_in_language(const struct header *response, size_t count, struct slice *language);

/* What all the request's Accept-Encoding lines permit of "br", "gzip" and "zstd", in this order, ", " between
 * them; nothing: none of them. */
void vary_write_codings(const struct header *request, size_t count, struct text *out);

/* Takes the weight off an element of such a list, "en;q=0.5": thousandths; -1 where it is none that the grammar knows. */
int vary_take_weight(struct slice *element);

#endif
