#include "digest.h"

#include <criterion/criterion.h>
#include <stdio.h>

static const char *hex(const unsigned char *bytes, size_t len)
{
    static char text[65];

    for (size_t i = 0; i < len; i++)
        sprintf(text + 2 * i, "%02x", bytes[i]);
    return text;
}

Test(digest, sha256_is_of_the_parts_one_after_another)
{
    unsigned char out[32];

    digest_sha256((const struct slice[]){SLICE("a"), SLICE(""), SLICE("bc")}, 3, out);
    cr_expect_str_eq(hex(out, 32), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
                     "FIPS 180-2, B.1");
    digest_sha256(NULL, 0, out);
    cr_expect_str_eq(hex(out, 32), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

Test(digest, sha1_is_what_redis_names_a_script_by)
{
    char out[41];

    digest_sha1_hex(SLICE("abc"), out);
    cr_expect_str_eq(out, "a9993e364706816aba3e25717850c26c9cd0d89d");
}

Test(digest, a_principal_has_the_documented_formula)
{
    unsigned char whole[32], principal[16];

    digest_principal(SLICE("header:x-api-key"), SLICE("k1"), principal);
    digest_sha256((const struct slice[]){{"header:x-api-key\0k1", 19}}, 1, whole);
    cr_expect_eq(memcmp(principal, whole, 16), 0);
    digest_principal(SLICE("header:x-api-key\0k"), SLICE("1"), whole);
    cr_expect_neq(memcmp(principal, whole, 16), 0);
}

Test(digest, a_checksum_sees_each_damaged_byte)
{
    char bytes[300];
    uint64_t sound;

    memset(bytes, 'x', sizeof(bytes));
    sound = digest_checksum(bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] ^= 1;
        cr_expect_neq(digest_checksum(bytes, sizeof(bytes)), sound, "byte %zu", i);
        bytes[i] ^= 1;
    }
    cr_expect_eq(digest_checksum(bytes, sizeof(bytes)), sound);
}

Test(digest, random_bytes_fill_all_they_are_given_and_no_more)
{
    unsigned char a[5001], seen = 0;

    memset(a, 0, sizeof(a));
    digest_random(a, sizeof(a) - 1);
    cr_expect_eq(a[sizeof(a) - 1], 0);
    for (size_t i = sizeof(a) - 65; i < sizeof(a) - 1; i++)
        seen |= a[i];
    cr_expect_neq(seen, 0, "up to the end");
}
