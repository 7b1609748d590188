/* HTTP date: the three spellings of a moment that RFC 9110 section 5.6.7 knows are read; one of them is written.
 *
 * Pure calendar arithmetic, years 0 to 9999, no time zone but GMT. Letters count without case, as RFC 9111 section
 * 4.2 asks of caches. The name of the day must be one; whether it is the right one adds nothing to the moment, and
 * is not asked. A date that exists in no calendar, or a byte too many, is no date: what that means (already
 * expired, time of receipt) is for the caller to say.
 */
#ifndef WEIR_HTTP_DATE_H
#define WEIR_HTTP_DATE_H

#include "slice.h"
#include "units.h"

enum { HTTP_DATE_BYTES = 29 };

/* `now` decides the century of the two-digit year of an RFC 850 date: more than 50 years ahead means the past
 * one. A leap second
 * (:60) is the first second of the next minute. */
bool http_date_parse(struct slice text, struct wall_s now, struct wall_s *out);

/* IMF-fixdate, "Sun, 06 Nov 1994 08:49:37 GMT"; no NUL. A moment outside the years 0 to 9999 becomes the
 * nearest one inside. */
void http_date_write(struct wall_s moment, char out[HTTP_DATE_BYTES]);

#endif
