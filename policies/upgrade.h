/* Upgrade: for which change of protocol may a request ask the upstream, and which answer agrees to it? RFC 9110 section 7.8.
 *
 * Other versions of HTTP never pass, nor does TLS: whoever spoke those to the upstream through us would send it requests that no
 * route, limit or log of ours ever saw.
 */
#ifndef WEIR_UPGRADE_H
#define WEIR_UPGRADE_H

#include "slice.h"
#include "text.h"

/* Of what a client's Upgrade field asks for, what the upstream may be asked for, in the client's order. Nothing where the field is
 * no list of protocols. Never longer than the field itself. */
void upgrade_write(struct slice asked, struct text *out);

/* The protocol that a 101 with these fields changes to, in the answer's spelling: one of `asked`, named alone by one Upgrade field that
 * Connection names too. Base NULL: it agrees to nothing that was asked. Names are lower case. */
struct slice upgrade_agreed(struct slice asked, const struct header *headers, size_t count);

/* Does one of the Connection fields name `upgrade`? Without that an Upgrade field is another hop's, and says nothing. */
bool connection_names_upgrade(struct slice connection);

#endif
