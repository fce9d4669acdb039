/* Hexadecimal digits. */
#ifndef CLOCHE_BASE_HEX_H
#define CLOCHE_BASE_HEX_H

#include <stddef.h>

/* Return the value of a digit of either case; -1 for another character. */
static inline int hex_digit(char c)
{
        int lower = c | 0x20;

        return c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Write two digits for each byte, and a terminator: ret has room for 2 * size + 1. */
static inline void hex_write(char *ret, const void *bytes, size_t size)
{
        static const char digits[] = "0123456789abcdef";
        const unsigned char *at = bytes;

        for (size_t i = 0; i < size; i++) {
                *ret++ = digits[at[i] >> 4];
                *ret++ = digits[at[i] & 15];
        }
        *ret = '\0';
}

#endif
