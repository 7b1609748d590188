/* Aftermath: what becomes of a change whose client left before the upstream's answer came?
 *
 * The upstream has the request, and may well do what it says. Were the request dropped with its client, the
 * copies that it makes untrue would be served until they expire. So it is awaited without a client, and
 * then invalidates what it would have. One per worker.
 */
#ifndef WEIR_AFTERMATH_H
#define WEIR_AFTERMATH_H

#include "invalidator.h"
#include "stream.h"

struct aftermaths;

bool status_tells_of_change(int status); /* 2xx and 3xx: the upstream did what the request says */

struct aftermaths *aftermaths_new(struct invalidator *invalidator);
void aftermaths_free(struct aftermaths *aftermaths); /* ends what is under way */

/* Takes the stream, which has no head yet; `tags` and the host that was asked, for the groups that the answer
 * names, are copied. False, with nothing taken, where the request has
 * not left whole: then the upstream cannot act on it, and it may be cancelled. */
bool aftermath_begin(struct aftermaths *aftermaths, struct stream **stream, const struct slice *tags,
                     size_t tag_count, size_t soft_count, struct slice authority);
size_t aftermaths_under_way(const struct aftermaths *aftermaths);
/* The outcome will not be known: what is under way invalidates at once, and ends. */
void aftermaths_hurry(struct aftermaths *aftermaths);

#endif
