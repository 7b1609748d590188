/* Settings URL: the parts of scheme://[user[:password]@]host[:port][/path][?query], and of an ADDRESS:PORT to
 * listen on. */
#ifndef WEIR_SETTINGS_URL_H
#define WEIR_SETTINGS_URL_H

#include <stdbool.h>
#include <stddef.h>

enum { MAX_HOST_BYTES = 253, MAX_SECRET_BYTES = 1024 };

struct url {
    char scheme[32];
    bool has_user, has_password;
    char user[MAX_SECRET_BYTES + 1], password[MAX_SECRET_BYTES + 1]; /* percent-decoded */
    char host[MAX_HOST_BYTES + 1]; /* lower case, without brackets; may be empty */
    int port;                      /* 0: not given */
    const char *path;              /* in the text, from its '/' on; empty where there is none */
    size_t path_len;
    const char *query; /* behind its '?'; NULL: none */
};

/* NULL on success, else what is wrong. The words never hold a piece of the text, which may be a secret. */
const char *url_parse(const char *text, struct url *out);

/* An IPv4 or bracketed IPv6 literal with a port of 1 to 65535; the host in canonical text. Same return. */
const char *endpoint_parse(const char *text, char host[MAX_HOST_BYTES + 1], int *port);

bool host_is_valid(const char *host);    /* a name or an IPv4 address: letters, digits, - _ and single dots */
bool host_is_loopback(const char *host); /* a literal of 127.0.0.0/8 or ::1 */

#endif
