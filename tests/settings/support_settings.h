/* Support: configurations as text, and what was said about them. */
#ifndef WEIR_TEST_SUPPORT_SETTINGS_H
#define WEIR_TEST_SUPPORT_SETTINGS_H

#include "settings.h"

/* What is needed by every configuration; to be put before or behind the lines under test. */
#define UPSTREAM "upstreams: {api: {servers: [\"http://127.0.0.1:9000\"]}}\n"
#define ROUTE "routes: [{match: /**, upstream: api}]\n"

struct outcome {
    struct settings *settings; /* NULL where it was refused */
    char *said;                /* all that was written to `errors` */
};

struct outcome parse(const char *text);
struct outcome parse_bytes(const char *text, size_t len);
struct outcome load(const char *path);
void forget(struct outcome *outcome);

struct settings *accepted(const char *text); /* fails the test where it is refused; settings_release() it */

#endif
