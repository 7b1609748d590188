/* Principals: the digest under which a caller is counted, remembered for the callers seen most recently.
 *
 * A principal is the first 128 bits of SHA-256(kind NUL value). One per worker; it holds raw values in
 * memory, and only there.
 */
#ifndef WEIR_PRINCIPALS_H
#define WEIR_PRINCIPALS_H

#include "slice.h"

struct principals;

struct principals *principals_new(void);
void principals_free(struct principals *principals);
void principal_of(struct principals *principals, struct slice kind, struct slice value,
                  unsigned char out[16]);

#endif
