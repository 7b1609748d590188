/* Range: which bytes of a whole response does a request ask for (RFC 9110 section 14)?
 *
 * Only bytes. One range, or several that we may also refuse to take apart: a client must be ready to get the
 * whole. So several ranges become one where they are one after sorting (they overlap or touch); otherwise the
 * whole is the answer. What is no range at all is ignored (section 14.2).
 */
#ifndef WEIR_RANGE_H
#define WEIR_RANGE_H

#include "text.h"

enum { RANGE_MAX_PARTS = 16, CONTENT_RANGE_ROOM = 80 };

enum range_answer {
    RANGE_WHOLE,         /* 200: no range, or one that is not to be served */
    RANGE_PART,          /* 206, first..last */
    RANGE_PARTS,         /* 206, several; from range_read_parts() alone */
    RANGE_UNSATISFIABLE, /* 416 */
};

struct byte_range {
    int64_t first, last; /* both inclusive */
};

/* `value`: of the Range field, base NULL: absent. `length`: of the whole, >= 0. */
enum range_answer range_read(struct slice value, int64_t length, struct byte_range *out);

/* The same, with several ranges that lie apart as such: in their order, which is ascending (others get the whole, as section
 * 14.2 allows), those that overlap or touch joined. `*count_out` is 1 with RANGE_PART. */
enum range_answer range_read_parts(struct slice value, int64_t length,
                                   struct byte_range parts[RANGE_MAX_PARTS], size_t *count_out);

/* Is it one range, and less than all of it? Writes it in its one spelling ("bytes=5-", "bytes=-5", "bytes=2-4"): what two
 * clients ask for alike has the same. False, nothing written: none, several, from the first byte to the last, or no range
 * by the grammar. `out` has RANGE_TEXT_ROOM. */
enum { RANGE_TEXT_ROOM = 48 };
bool range_is_part(struct slice value, struct text *out);

/* Content-Range of a part: "bytes 4-9/10". `*whole` is -1 where it is not known ("*"). False: it is none, says that nothing
 * is there, or contradicts itself. */
bool content_range_read(struct slice value, struct byte_range *range, int64_t *whole);

/* "bytes 0-4/10"; with `range` NULL "bytes * / 10" (without the blanks). */
void content_range_write(const struct byte_range *range, int64_t length, struct text *out);

#endif
