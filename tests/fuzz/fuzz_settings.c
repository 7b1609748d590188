/* Any bytes as a configuration: either settings, or complaints; never both, never a crash, never a hang. */
#include "settings.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *said;
    size_t len;
    FILE *errors = open_memstream(&said, &len);
    struct settings *settings = settings_parse("fuzz.yaml", (const char *)data, size, errors);

    fclose(errors);
    if ((settings == NULL) == (len == 0))
        abort();
    settings_release(&settings);
    free(said);
    return 0;
}
