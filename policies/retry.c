/* Retry: see retry.h. */
#include "retry.h"

bool method_is_safe(struct slice method)
{
    return slice_eq(method, SLICE("GET")) || slice_eq(method, SLICE("HEAD")) ||
           slice_eq(method, SLICE("OPTIONS")) || slice_eq(method, SLICE("TRACE"));
}

bool method_is_idempotent(struct slice method)
{
    return method_is_safe(method) || slice_eq(method, SLICE("PUT")) || slice_eq(method, SLICE("DELETE"));
}

bool retry_may_send_again(const struct retry_facts *failed)
{
    if (failed->answer_began || failed->was_timeout)
        return false;
    /* What never left cannot have been acted upon. */
    if (failed->request_left && !method_is_idempotent(failed->method))
        return false;
    return failed->was_reused || failed->tried_again < failed->retries;
}
