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

/* The value of a digit, or -1. Without branches: digits of random bytes would be mispredicted. */
static int digit(char c)
{
        unsigned at = (unsigned char)c;
        int value = -1;

        value += at - 'A' < 26 ? (int)(at - 'A') + 1 : 0;
        value += at - 'a' < 26 ? (int)(at - 'a') + 27 : 0;
        value += at - '0' < 10 ? (int)(at - '0') + 53 : 0;
        value += at == '+' ? 63 : 0;
        value += at == '/' ? 64 : 0;
        return value;
}

/* Decode the four digits of three bytes. Returns a negative number if one is no digit. */
static int decode_four(const char *text, char *to)
{
        int a = digit(text[0]), b = digit(text[1]), c = digit(text[2]), d = digit(text[3]);
        uint32_t word = (uint32_t)a << 18 | (uint32_t)b << 12 | (uint32_t)c << 6 | (uint32_t)d;

        to[0] = (char)(word >> 16);
        to[1] = (char)(word >> 8);
        to[2] = (char)word;
        return a | b | c | d;
}

int base64_decode(struct buf *out, const char *text, size_t size)
{
        size_t padding = size && text[size - 1] == '=' ? 1 + (size > 1 && text[size - 2] == '=') : 0;
        uint32_t word = 0;
        size_t done = 0;
        int bits = 0, r;
        char *at;

        if (size % 4)
                return -EINVAL;
        r = reserve(out, size / 4 * 3 - padding, &at);
        if (r < 0)
                return r;
        for (; done + 4 <= size - padding; done += 4, at += 3)
                if (decode_four(text + done, at) < 0)
                        return -EINVAL;
        for (size_t i = done; i < size - padding; i++) {
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
