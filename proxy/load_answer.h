/* Load answer: may the answer that a load received be shared and stored, with which tags, for how long? */
#ifndef WEIR_LOAD_ANSWER_H
#define WEIR_LOAD_ANSWER_H

#include "compressor.h"
#include "flight.h"
#include "group_tags.h"

enum { ANSWER_MAX_TAGS = 64, ANSWER_MAX_TAG_BYTES = 256 };

struct load_answer {
    struct freshness freshness; /* in ms from the receipt of the head */
    struct slice
        tags[ANSWER_MAX_TAGS]; /* the route's and the response's; they point into plan, stream, groups */
    size_t tag_count;
    struct group_tags groups;
    char vary[VARY_NAMES_ROOM]; /* all the fields that the answer depends on */
    size_t vary_len;
    bool permits_authorization; /* says itself that who asks makes no difference (RFC 9111 section 3.5) */
    bool has_more;              /* some of them its plan's key does not tell apart yet */
    struct header *merged; /* of a validated copy: its fields, updated; they point into copy and stream */
    size_t merged_count;
    struct object *object; /* once finished */
};

enum answer_kind {
    ANSWER_SHARED, /* for all riders, and for the store */
    ANSWER_ERROR,  /* the upstream failed and says nothing private: for all riders, not for the store */
    ANSWER_ERROR_UNSHARED, /* the upstream failed, and what it says is for the leader alone */
    ANSWER_UNSHARED,       /* for the leader alone; the next one will be the same */
    ANSWER_PERSONAL, /* for the leader alone, whom the upstream knows by Authorization: what others would get is open */
    ANSWER_UNSHARED_THIS_TIME, /* for the leader alone; the next one may fare better */
};

/* Reads the stream's head. `*why` names the reason where it may not be stored (a token for Cache-Status). */
enum answer_kind load_answer_judge(struct load_answer *answer, const struct stream *stream,
                                   const struct load_plan *plan, const char **why);

/* Is the judged answer worth to be kept compressed? */
bool load_answer_compresses(const struct load_answer *answer, const struct stream *stream,
                            const struct load_plan *plan);

/* The whole answer came: makes the object, of the stream's bytes or of their packed form where there is one. False when
 * every lifetime has passed meanwhile. `lifetimes` count from now. */
bool load_answer_finish(struct load_answer *answer, const struct stream *stream,
                        const struct packer *packed /* or NULL */, const struct load_plan *plan,
                        int64_t epoch, struct lifetimes *lifetimes);
void load_answer_clear(struct load_answer *answer);

/* The same for a 304 to a load that asked whether `copy` is still what it was: the answer is the copy, its
 * fields updated. Its lifetimes may all have passed: then it is for the one who asked. */
enum answer_kind load_answer_judge_copy(struct load_answer *answer, const struct object *copy,
                                        const struct stream *stream, const struct load_plan *plan,
                                        const char **why);
void load_answer_finish_copy(struct load_answer *answer, const struct object *copy,
                             const struct stream *stream, const struct load_plan *plan, int64_t epoch,
                             struct lifetimes *lifetimes);

bool load_answer_is_error(int status); /* a status that stale-if-error covers */

/* Must the upstream be asked before each use of what was judged, or of the copy? Then it is shared with nobody
 * who has not asked himself. */
bool load_answer_asks_always(const struct load_answer *answer);
bool copy_asks_always(const struct object *copy, const struct cache_rule *rule);

/* Until when may the copy stand in for an upstream that gives no answer at all? */
struct mono_ms copy_bridges_until(const struct object *copy, const struct cache_rule *rule);

/* The plan's request, asking whether `copy` has changed. `room` has two headers more than the plan's; false:
 * the copy has nothing to ask by. */
bool plan_validation(const struct load_plan *plan, const struct object *copy, struct header *room,
                     struct origin_request *out);

#endif
