/* Identity: who is asking. Addresses in one canonical form, ranges, and the client's address behind trusted
 * proxies.
 *
 * An address is 16 bytes; IPv4 is kept as IPv4-mapped (::ffff:a.b.c.d), so that both spellings of one client
 * are one.
 */
#ifndef WEIR_IDENTITY_H
#define WEIR_IDENTITY_H

#include "slice.h"

#include <stdint.h>

struct address {
    unsigned char bytes[16];
};

struct address_range {
    struct address base;
    int prefix; /* 0..128, of the mapped form: an IPv4 /8 is 104 */
};

bool address_parse(
    struct slice text,
    struct address *out); /* "192.0.2.1", "2001:db8::1", "[::1]", with ":port" where unambiguous */
bool address_range_parse(struct slice text,
                         struct address_range *out); /* "10.0.0.0/8", "::1"; host bits must be zero */
bool address_is_in(const struct address *address, const struct address_range *ranges, size_t count);
bool address_is_v4(const struct address *address);
/* Cuts IPv6 (not IPv4) to its first `ipv6_prefix` bits. */
struct address address_group(const struct address *address, int ipv6_prefix);
size_t address_write(const struct address *address,
                     char out[46]); /* canonical text (RFC 5952), returns its length */

/* The client's address: the peer, or, where the peer is trusted, the first untrusted one from the right of
 * X-Forwarded-For or, where that is absent, Forwarded (never mixed). A value that is no address ends the walk
 * at the last good one. */
struct address client_address(const struct address *peer, const struct address_range *trusted,
                              size_t trusted_count, const struct header *headers, size_t header_count);

#endif
