/* Group tags: by which tags is invalidated what belongs to a cache group (RFC 9875)?
 *
 * A group is its origin's own: its tag is a hash of host and name. It holds a blank, as no tag does that a route or a
 * field such as Surrogate-Key can name. What is in any group also has the tag of all groups of its host, so that an
 * answer that names more of them than we count one by one loses none: it invalidates them all.
 */
#ifndef WEIR_GROUP_TAGS_H
#define WEIR_GROUP_TAGS_H

#include "slice.h"

enum { GROUPS_MAX = 64, GROUP_TAG_BYTES = 6 + 32 };

struct group_tags {
    struct slice tags[GROUPS_MAX + 1]; /* they point into `texts`: not to be copied */
    size_t count;
    char texts[GROUPS_MAX + 1][GROUP_TAG_BYTES];
};

/* Of a response to be stored, by its Cache-Groups. False: it is in more than GROUPS_MAX. */
bool group_tags_of(struct group_tags *out, const struct header *headers, size_t count,
                   struct slice authority);

/* What the answer to an unsafe request invalidates, by its Cache-Group-Invalidation. */
void group_tags_invalidated(struct group_tags *out, const struct header *headers, size_t count,
                            struct slice authority);

#endif
