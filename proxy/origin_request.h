/* Origin request: the head of a request as bytes for the wire. */
#ifndef WEIR_ORIGIN_REQUEST_H
#define WEIR_ORIGIN_REQUEST_H

#include "origin.h"

/* Host, the headers, and Content-Length where there is a body or the method expects one. NULL where method,
 * target or authority cannot stand in a request; a field that cannot is left out. The front has checked them
 * all: this is the last gate before somebody else's parser. free() the text. */
char *origin_request_write(const struct origin_request *request, size_t *len_out);

#endif
