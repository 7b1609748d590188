/* Digest: the hashes this project uses; the only file beside tls that knows OpenSSL (and xxHash). */
#ifndef WEIR_DIGEST_H
#define WEIR_DIGEST_H

#include "slice.h"

#include <stdint.h>

void digest_sha256(const struct slice *parts, size_t count,
                   unsigned char out[32]); /* of the parts one after another */
void digest_sha1_hex(struct slice bytes, char out[41]);
uint64_t digest_checksum(const void *bytes, size_t len); /* XXH3: against damage, not against forgery */
void digest_random(void *out, size_t len);

/* A principal in store keys: the first 16 bytes of SHA-256("<kind>\0<value>"), kind as in the configuration
 * ("header:x-api-key", "ip", "global"). */
void digest_principal(struct slice kind, struct slice value, unsigned char out[16]);

#endif
