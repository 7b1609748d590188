/* Digest: see digest.h. */
#include "digest.h"

#include "check.h"

#include <openssl/evp.h>
#include <openssl/rand.h>
#include <pthread.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Fetched once: OpenSSL 3 would else look the algorithm up, under a lock, for each hash. */
static EVP_MD *sha256;
static pthread_once_t sha256_once = PTHREAD_ONCE_INIT;

static void fetch_sha256(void)
{
    sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    CHECK(sha256 != NULL);
}

void digest_sha256(const struct slice *parts, size_t count, unsigned char out[32])
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool is_done;

    pthread_once(&sha256_once, fetch_sha256);
    CHECK(context != NULL);
    is_done = EVP_DigestInit_ex(context, sha256, NULL) == 1;
    for (size_t i = 0; is_done && i < count; i++)
        is_done = EVP_DigestUpdate(context, parts[i].base, parts[i].len) == 1;
    is_done = is_done && EVP_DigestFinal_ex(context, out, NULL) == 1;
    EVP_MD_CTX_free(context);
    CHECK(is_done);
}

void digest_sha1_hex(struct slice bytes, char out[41])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char hash[EVP_MAX_MD_SIZE];

    CHECK(EVP_Digest(bytes.base, bytes.len, hash, NULL, EVP_sha1(), NULL) == 1);
    for (size_t i = 0; i < 20; i++) {
        out[2 * i] = digits[hash[i] >> 4];
        out[2 * i + 1] = digits[hash[i] & 15];
    }
    out[40] = '\0';
}

uint64_t digest_checksum(const void *bytes, size_t len)
{
    return XXH3_64bits(bytes, len);
}

void digest_random(void *out, size_t len)
{
    unsigned char *at = out;

    /* RAND_bytes takes an int. */
    while (len > 0) {
        size_t part = len < 4096 ? len : 4096;

        CHECK(RAND_bytes(at, (int)part) == 1);
        at += part;
        len -= part;
    }
}

void digest_principal(struct slice kind, struct slice value, unsigned char out[16])
{
    unsigned char whole[32];

    digest_sha256((const struct slice[]){kind, {"", 1}, value}, 3, whole);
    memcpy(out, whole, 16);
}
