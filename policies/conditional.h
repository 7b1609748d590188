/* Conditional: what does a request's precondition make of a response that we hold (RFC 9110 section 13)?
 *
 * The response is one to GET with a status of 2xx; others ignore preconditions. If-None-Match compares weakly
 * and, where it is there, makes If-Modified-Since void. If-Match and If-Unmodified-Since are the origin's to
 * judge: a request with one of them is no business of a cache.
 */
#ifndef WEIR_CONDITIONAL_H
#define WEIR_CONDITIONAL_H

#include "slice.h"
#include "units.h"

struct conditions {             /* of a request; base NULL: absent */
    struct slice if_none_match; /* the first line; see has_more_tags */
    bool has_more_tags;
    struct slice if_modified_since;
    struct slice if_range;
    bool is_for_origin; /* If-Match, If-Unmodified-Since */
};

void conditions_read(const struct header *request, size_t count, struct conditions *out);

/* May the request be answered with 304 instead of this response? `now` as for http_date_parse(). */
bool condition_says_unmodified(const struct conditions *conditions, const struct header *request,
                               size_t request_count, const struct header *response, size_t response_count,
                               struct wall_s now);

/* If-Range: does the request's Range still mean this response? A strong ETag, byte for byte, or a date that is
 * exactly Last-Modified and a minute before the response's Date at least, so that it is strong, too (section
 * 8.8.2.2). True without If-Range. */
bool condition_permits_range(const struct conditions *conditions, const struct header *response, size_t count,
                             struct wall_s now);

/* The fields of a response that a 304 for it carries (section 15.4.5), beside those that we write ourselves:
 * without what describes the body that is not there. */
bool field_belongs_in_304(struct slice name);

/* How a stored response is asked about: its validators as conditions. Adds at most two fields to `out`, and
 * returns how many; 0: it has none. */
size_t conditions_to_validate(const struct header *stored, size_t count, struct header out[2]);

/* ---- 304 from the upstream (RFC 9111 section 4.3.4) ---- */

/* We ask with the validators of one stored response, so a 304 is about that one; where it names another ETag
 * than the one it was asked for, ours stands.
 *
 * The stored fields updated by those of the 304: a field that it names replaces all of that name, save those
 * that describe the stored body (section 3.2). Date is the 304's, or none: the copy is as of now. `out` has
 * room for both together; returns how many. */
size_t not_modified_merge(const struct header *stored, size_t stored_count, const struct header *fresh,
                          size_t fresh_count, struct header *out);

#endif
