/* Respond: a whole answer of our own to a client, in one send. */
#ifndef WEIR_RESPOND_H
#define WEIR_RESPOND_H

#include "front.h"

/* Fields and body are copied into the request's memory. The request may be gone when this returns: let it be
 * the last statement. */
void respond(struct client_request *client, int status, const struct header *fields, size_t count,
             struct slice body);

#endif
