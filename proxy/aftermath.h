/* Aftermath: what becomes of a change whose client left before the upstream's answer came?
 *
 * The upstream has the request, and may well do what it says. Were the request dropped with its client, the
 * copies that it makes untrue would be served until they expire. So it is awaited without a client, and
 * then invalidates what it would have. One per worker.
 */
#ifndef WEIR_AFTERMATH_H
#define WEIR_AFTERMATH_H

#include "asked_tags.h"
#include "invalidator.h"
#include "stream.h"

struct aftermaths;

/* What is known beforehand of a change; all borrowed. */
struct change {
    const struct slice *tags;
    size_t tag_count, soft_count; /* the first are soft */
    struct slice authority;       /* of the host whose groups an answer may name */
};

bool status_tells_of_change(int status); /* 2xx and 3xx: the upstream did what the request says */

/* What a kept answer's body names, once it is whole. */
bool answer_may_name_tags(const struct stream *answer); /* by its head: plain, and not too long to be kept */
struct named_tags read_named_tags(struct asked_tags *asked, const struct stream *answer);

struct aftermaths *aftermaths_new(struct loop *loop, struct invalidator *invalidator);
void aftermaths_free(struct aftermaths *aftermaths); /* ends what is under way */

/* Takes the stream, which has no head yet or, with `has_head`, one that tells of a change and is kept for what its body
 * names; and `asked`, which may be NULL. The change is copied. False, with nothing taken, where the request has not left
 * whole: then the upstream cannot act on it, and it may be cancelled. */
bool aftermath_begin(struct aftermaths *aftermaths, struct stream **stream, const struct change *change,
                     struct asked_tags **asked, bool has_head);
size_t aftermaths_under_way(const struct aftermaths *aftermaths);
/* The outcome will not be known: what is under way invalidates at once, and ends. */
void aftermaths_hurry(struct aftermaths *aftermaths);

#endif
