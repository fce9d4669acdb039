/* Parse a DNS query and write its answer. Runs in: cloche-egress, on bytes of the guest; pure. */
#include "dns.h"

#include <string.h>

#define HEADER_BYTES 12
#define NAME_WIRE_MAX 255
#define FLAG_RESPONSE 0x8000u
#define FLAG_OPCODE 0x7800u
#define FLAG_DESIRED 0x0100u   /* recursion, copied into the answer */
#define FLAG_AVAILABLE 0x0080u /* recursion */
#define CLASS_INTERNET 1
#define NAME_AT_QUESTION 0xc00cu /* a compression pointer to the question */

static unsigned get16(const unsigned char *at)
{
        return (unsigned)at[0] << 8 | at[1];
}

static unsigned char *put16(unsigned char *at, unsigned value)
{
        at[0] = (unsigned char)(value >> 8);
        at[1] = (unsigned char)value;
        return at + 2;
}

static unsigned char *put32(unsigned char *at, uint32_t value)
{
        return put16(put16(at, value >> 16), value & 0xffff);
}

/* Read labels, joined with dots. A label that contains a dot or NUL is not a host name. Returns the
 * bytes used; 0: malformed, or a compression pointer, which no query needs. */
static size_t read_name(const unsigned char *at, size_t size, struct dns_question *ret)
{
        char text[NAME_WIRE_MAX + 1];
        size_t used = 0, text_size = 0;
        int is_plain = 1;

        for (;;) {
                size_t label = used < size ? at[used] : 64;

                if (label > 63 || used + 1 + label > size || used + 1 + label > NAME_WIRE_MAX)
                        return 0;
                used++;
                if (label == 0)
                        break;
                is_plain &= !memchr(at + used, '.', label) && !memchr(at + used, '\0', label);
                if (text_size > 0)
                        text[text_size++] = '.';
                memcpy(text + text_size, at + used, label);
                text_size += label;
                used += label;
        }
        ret->is_host = is_plain && host_name(text, text_size, ret->name) == 0;
        if (!ret->is_host)
                ret->name[0] = '\0';
        return used;
}

int dns_read(const unsigned char *message, size_t size, struct dns_question *ret)
{
        size_t name_size;

        *ret = (struct dns_question){.raw = NULL};
        if (size < HEADER_BYTES || (get16(message + 2) & FLAG_RESPONSE))
                return -1;
        ret->id = (uint16_t)get16(message);
        ret->flags = (uint16_t)get16(message + 2);
        if (ret->flags & FLAG_OPCODE)
                return DNS_UNKNOWN;
        if (get16(message + 4) != 1)
                return DNS_MALFORMED;
        name_size = read_name(message + HEADER_BYTES, size - HEADER_BYTES, ret);
        if (name_size == 0 || HEADER_BYTES + name_size + 4 > size)
                return DNS_MALFORMED;
        ret->raw = message + HEADER_BYTES;
        ret->raw_size = name_size + 4;
        ret->type = (uint16_t)get16(ret->raw + name_size);
        return get16(ret->raw + name_size + 2) == CLASS_INTERNET ? DNS_OK : DNS_REFUSED;
}

size_t dns_write(const struct dns_question *question, enum dns_code code, const uint32_t *address, uint32_t ttl_s,
                 unsigned char ret[DNS_MESSAGE_MAX])
{
        unsigned char *at = put16(ret, question->id);

        at = put16(at,
                   FLAG_RESPONSE | (question->flags & (FLAG_OPCODE | FLAG_DESIRED)) | FLAG_AVAILABLE | (unsigned)code);
        at = put16(at, question->raw ? 1 : 0);
        at = put16(at, address ? 1 : 0);
        at = put32(at, 0); /* no authority or additional records */
        if (question->raw) {
                memcpy(at, question->raw, question->raw_size);
                at += question->raw_size;
        }
        if (address) {
                at = put16(put16(put16(at, NAME_AT_QUESTION), DNS_TYPE_A), CLASS_INTERNET);
                at = put16(put32(at, ttl_s), sizeof(*address));
                at = put32(at, *address);
        }
        return (size_t)(at - ret);
}
