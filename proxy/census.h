/* Census: about how many callers did each limit have lately, in this process?
 *
 * One for each name of a limit, for as long as the process lives, so that a reload goes on counting. Any thread may note and ask. Kept are
 * three minutes of a kilobyte each (policies/distinct): the present one and the one before count, the third is for those who are
 * slow to see that a minute began. Nobody can be found out from it.
 */
#ifndef WEIR_CENSUS_H
#define WEIR_CENSUS_H

#include "units.h"

#include <stdint.h>

struct census;

struct census *census_of(const char *limit); /* NULL: beyond a thousand names nobody is counted */
void census_note(struct census *census, const unsigned char principal[16],
                 struct mono_ms now); /* NULL is fine */
/* Distinct callers of this minute and the one before; 3.3 % more or less. */
int64_t census_count(struct census *census, struct mono_ms now);

#endif
