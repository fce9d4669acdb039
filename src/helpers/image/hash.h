/* SHA-256 as hexadecimal digits. */
#ifndef CLOCHE_HELPERS_IMAGE_HASH_H
#define CLOCHE_HELPERS_IMAGE_HASH_H

#include "base/hex.h"

#include <nettle/sha2.h>

#define HASH_TEXT_SIZE (2 * SHA256_DIGEST_SIZE + 1)

/* Write the digits of the hash, which starts anew. */
static inline void hash_finish(struct sha256_ctx *hash, char ret[HASH_TEXT_SIZE])
{
        unsigned char bytes[SHA256_DIGEST_SIZE];

        sha256_digest(hash, sizeof(bytes), bytes);
        hex_write(ret, bytes, sizeof(bytes));
}

static inline void hash_bytes(const void *bytes, size_t size, char ret[HASH_TEXT_SIZE])
{
        struct sha256_ctx hash;

        sha256_init(&hash);
        sha256_update(&hash, size, bytes);
        hash_finish(&hash, ret);
}

/* True for 64 lower-case digits and no more. */
static inline int hash_is_text(const char *text, size_t size)
{
        if (size != HASH_TEXT_SIZE - 1)
                return 0;
        for (size_t i = 0; i < size; i++)
                if (hex_digit(text[i]) < 0 || (text[i] >= 'A' && text[i] <= 'F'))
                        return 0;
        return 1;
}

#endif
