/* Asked tags: which tags does an upstream's answer name in its JSON?
 *
 * Made of a route's templates with {json:/pointer}, of which all else is expanded already: what the request says does not
 * outlive it, and the answer may come when it is gone. A string or whole number at the pointer gives a tag, in its one
 * spelling; an array of such gives one for each; what is not there, or null, gives none, as with a header that is absent.
 */
#ifndef WEIR_ASKED_TAGS_H
#define WEIR_ASKED_TAGS_H

#include "route_match.h"

enum { ASKED_BODY_MAX_BYTES = 64 << 10, ASKED_TAGS_MAX = 1024 };

struct asked_tags;

/* Copies the templates, of which the first `soft_count` are soft; their other parts are text. */
struct asked_tags *asked_tags_new(const struct template *templates, size_t count, size_t soft_count);
void asked_tags_free(struct asked_tags **asked); /* takes it; NULL is fine */

struct named_tags { /* valid until asked_tags_free() */
    struct slice *tags;
    size_t count, soft_count;
    bool is_incomplete; /* something that should have named a tag could not be read */
};

/* Of a whole answer's body, as it was made (no content coding). Once. */
struct named_tags asked_tags_read(struct asked_tags *asked, struct slice body);

#endif
