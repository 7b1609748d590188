/* Retry: may a request be sent to the upstream once more? RFC 9110 section 9.2.2. */
#ifndef WEIR_RETRY_H
#define WEIR_RETRY_H

#include "slice.h"

bool method_is_safe(struct slice method);       /* GET, HEAD, OPTIONS, TRACE; an unknown method is not */
bool method_is_idempotent(struct slice method); /* the safe ones, PUT and DELETE */

struct retry_facts { /* of the attempt that failed */
    struct slice method;
    bool was_reused;   /* its connection had carried a request before: it may just have been closed as idle */
    bool request_left; /* at least one byte of the request was written */
    bool answer_began; /* at least one byte of an answer came */
    bool was_timeout;  /* a slow upstream is not helped by asking twice */
    int tried_again;   /* earlier attempts of this request, those on reused connections not counted */
    int retries;       /* the upstream's setting */
};

/* Where true, the next attempt must use a new connection. A reused connection that broke costs no retry, so
 * that keep-alive never makes a request fail that would have passed without it. */
bool retry_may_send_again(const struct retry_facts *failed);

#endif
