/* Memory: allocation of small fixed structs, which stops the process in one place when there is none left.
 * Sizes that come from outside are bounded by their caller before they get here. */
#ifndef WEIR_MEMORY_H
#define WEIR_MEMORY_H

#include <stddef.h>

void *must_alloc(size_t bytes);                 /* zeroed; free() it */
void *must_realloc(void *old, size_t bytes);    /* as realloc */
char *must_copy(const char *bytes, size_t len); /* NUL added; free() it */

#endif
