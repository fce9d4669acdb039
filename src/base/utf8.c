/* Checks of UTF-8. Runs in: every program; pure. */
#include "utf8.h"

#include <string.h>

static int continues(unsigned char byte)
{
        return (byte & 0xc0) == 0x80;
}

/* Returns 0 if no character begins with this byte. *ret_least and *ret_most bound its second
 * byte. */
static size_t length_of(unsigned char first, unsigned char *ret_least, unsigned char *ret_most)
{
        *ret_least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
        *ret_most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
        return first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
}

size_t utf8_character(const void *bytes, size_t size, size_t *ret_good)
{
        const unsigned char *at = bytes;
        unsigned char least, most;
        size_t length = size > 0 ? length_of(at[0], &least, &most) : 0, good = length > 0;

        if (length > 1 && size > 1 && at[1] >= least && at[1] <= most)
                for (good = 2; good < length && good < size && continues(at[good]);)
                        good++;
        if (ret_good)
                *ret_good = good;
        return good == length ? length : 0;
}

size_t utf8_decode(const void *bytes, size_t size, uint32_t *ret)
{
        static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
        const unsigned char *at = bytes;
        size_t length = utf8_character(bytes, size, NULL);

        *ret = length > 0 ? at[0] & masks[length] : 0;
        for (size_t i = 1; i < length; i++)
                *ret = *ret << 6 | (at[i] & 0x3f);
        return length;
}

size_t utf8_valid_size(const void *bytes, size_t size)
{
        const unsigned char *text = bytes;
        size_t at = 0, length = 1;

        while (at < size && length > 0) {
                length = text[at] < 0x80 ? 1 : utf8_character(text + at, size - at, NULL);
                at += length;
        }
        return at;
}

int utf8_is_valid(const void *bytes, size_t size)
{
        return utf8_valid_size(bytes, size) == size;
}

size_t utf8_count(const char *text, size_t size)
{
        size_t count = 0;

        for (size_t i = 0; i < size; i++)
                count += !continues((unsigned char)text[i]);
        return count;
}

size_t utf8_offset(const char *text, size_t size, size_t characters)
{
        size_t at = 0;

        for (; at < size; at++)
                if (!continues((unsigned char)text[at]) && characters-- == 0)
                        break;
        return at;
}

size_t utf8_cut(const char *text, size_t size, size_t most)
{
        if (size <= most)
                return size;
        while (most > 0 && continues((unsigned char)text[most]))
                most--;
        return most;
}

int utf8_append_valid(struct buf *out, const void *bytes, size_t size)
{
        const unsigned char *text = bytes;
        int r = 0;

        while (r == 0 && size > 0) {
                size_t valid = utf8_valid_size(text, size), good = 0;

                r = buf_append(out, text, valid);
                if (r == 0 && valid < size) {
                        (void)utf8_character(text + valid, size - valid, &good);
                        r = buf_append(out, UTF8_REPLACEMENT, strlen(UTF8_REPLACEMENT));
                        valid += good > 0 ? good : 1;
                }
                text += valid;
                size -= valid;
        }
        return r;
}
