/* Runs in: every program that writes values as text. */
#include "base64.h"

#include <errno.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* A size of 0 needs no room: an empty buffer has no address. */
static int reserve(struct buf *out, size_t size, char **ret)
{
        *ret = buf_reserve(out, size);
        if (*ret || size == 0)
                return 0;
        return size > out->max - out->size ? -ENOBUFS : -ENOMEM;
}

int base64_encode(struct buf *out, const void *data, size_t size)
{
        const unsigned char *in = data;
        char *at;
        int r = reserve(out, (size + 2) / 3 * 4, &at);

        if (r < 0)
                return r;
        for (size_t i = 0; i < size; i += 3) {
                size_t have = size - i < 3 ? size - i : 3;
                uint32_t word =
                        (uint32_t)in[i] << 16 | (have > 1 ? (uint32_t)in[i + 1] << 8 : 0) | (have > 2 ? in[i + 2] : 0);

                *at++ = alphabet[word >> 18];
                *at++ = alphabet[word >> 12 & 63];
                *at++ = have > 1 ? alphabet[word >> 6 & 63] : '=';
                *at++ = have > 2 ? alphabet[word & 63] : '=';
        }
        out->size += (size + 2) / 3 * 4;
        return 0;
}

static int digit(char c)
{
        if (c >= 'A' && c <= 'Z')
                return c - 'A';
        if (c >= 'a' && c <= 'z')
                return c - 'a' + 26;
        if (c >= '0' && c <= '9')
                return c - '0' + 52;
        return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int base64_decode(struct buf *out, const char *text, size_t size)
{
        size_t padding = size && text[size - 1] == '=' ? 1 + (size > 1 && text[size - 2] == '=') : 0;
        uint32_t word = 0;
        int bits = 0, r;
        char *at;

        if (size % 4)
                return -EINVAL;
        r = reserve(out, size / 4 * 3 - padding, &at);
        if (r < 0)
                return r;
        for (size_t i = 0; i < size - padding; i++) {
                int d = digit(text[i]);

                if (d < 0)
                        return -EINVAL;
                word = word << 6 | (uint32_t)d;
                bits += 6;
                if (bits >= 8) {
                        bits -= 8;
                        *at++ = (char)(word >> bits);
                }
        }
        if (word & ((1u << bits) - 1)) /* unused bits must be zero */
                return -EINVAL;
        out->size += size / 4 * 3 - padding;
        return 0;
}
