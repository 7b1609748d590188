/* Path text: see path_text.h. */
#include "path_text.h"
#include "http_char.h"

size_t path_fold(struct slice path, char *out)
{
    size_t len = 0;

    for (size_t at = 0; at < path.len;)
        out[len++] = unreserved_next(path, &at);
    return len;
}
