/* Store: see store.h. What both implementations share. */
#include "store.h"

#include "digest.h"

void store_cancel(struct store_call **call)
{
    if (*call != NULL)
        (*call)->is_cancelled = true;
    *call = NULL;
}

struct load_token load_token_new(void)
{
    struct load_token token = {0, 0};

    while (token.hi == 0 && token.lo == 0)
        digest_random(&token, sizeof(token));
    return token;
}
