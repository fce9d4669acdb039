/* Special address ranges, and addresses as text. Runs in: cloche-egress and the engine; pure. */
#include "address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

/* Narrower ranges precede those that contain them. Sources: IANA's special-purpose registry and the
 * metadata addresses of clouds. */
static const struct address_range closed[] = {
        {0xa9fea9feu, 32, "metadata"}, /* 169.254.169.254 */
        {0xa9feaa02u, 32, "metadata"}, /* 169.254.170.2 */
        {0xa83f8110u, 32, "metadata"}, /* 168.63.129.16 */
        {0x646464c8u, 32, "metadata"}, /* 100.100.100.200 */
        {0xc00000c0u, 32, "metadata"}, /* 192.0.0.192 */
        {0x00000000u, 8, "reserved"},  /* this network: Linux treats 0.0.0.0 as itself */
        {0x0a000000u, 8, "private"},        {0x64400000u, 10, "shared"},     /* 100.64.0.0 */
        {0x7f000000u, 8, "loopback"},       {0xa9fe0000u, 16, "link-local"}, /* 169.254.0.0 */
        {0xac100000u, 12, "private"},                                        /* 172.16.0.0 */
        {0xc0000000u, 24, "reserved"},                                       /* 192.0.0.0 */
        {0xc0000200u, 24, "documentation"},                                  /* 192.0.2.0 */
        {0xc0586300u, 24, "reserved"},                                       /* 192.88.99.0 */
        {0xc0a80000u, 16, "private"},                                        /* 192.168.0.0 */
        {0xc6120000u, 15, "reserved"},                                       /* 198.18.0.0, assigned to names here */
        {0xc6336400u, 24, "documentation"},                                  /* 198.51.100.0 */
        {0xcb007100u, 24, "documentation"},                                  /* 203.0.113.0 */
        {0xe0000000u, 4, "multicast"},      {0xf0000000u, 4, "reserved"},
};

static const struct {
        unsigned char network[16];
        unsigned bits;
        const char *name;
} closed6[] = {
        {{0x20, 0x01, 0x0d, 0xb8}, 32, "documentation"},
        {{0x20, 0x01}, 23, "reserved"}, /* Teredo, ORCHID and the like */
        {{0x20, 0x02}, 16, "reserved"}, /* 6to4: any IPv4 address */
        {{0x3f, 0xff}, 20, "documentation"},
};

const struct address_range *address_closed(uint32_t address)
{
        for (size_t i = 0; i < sizeof(closed) / sizeof(closed[0]); i++)
                if ((address & address_mask(closed[i].bits)) == closed[i].network)
                        return &closed[i];
        return NULL;
}

static int lies_in(const unsigned char *address, const unsigned char *network, unsigned bits)
{
        unsigned bytes = bits / 8, rest = bits % 8;

        return memcmp(address, network, bytes) == 0 &&
               (rest == 0 || (address[bytes] ^ network[bytes]) >> (8 - rest) == 0);
}

/* 64:ff9b::/96 (RFC 6052) leads to the IPv4 address at its end. Other internet hosts are in
 * 2000::/3. */
const char *address6_closed(const struct in6_addr *address)
{
        static const unsigned char translated[16] = {0x00, 0x64, 0xff, 0x9b};
        const unsigned char *bytes = address->s6_addr;
        uint32_t embedded;

        if (lies_in(bytes, translated, 96)) {
                memcpy(&embedded, bytes + 12, sizeof(embedded));
                return address_closed(ntohl(embedded)) ? address_closed(ntohl(embedded))->name : NULL;
        }
        if (bytes[0] >> 5 != 1)
                return "reserved";
        for (size_t i = 0; i < sizeof(closed6) / sizeof(closed6[0]); i++)
                if (lies_in(bytes, closed6[i].network, closed6[i].bits))
                        return closed6[i].name;
        return NULL;
}

int address_parse(const char *text, size_t size, uint32_t *ret)
{
        const char *end = text + size;
        uint32_t address = 0;

        for (int part = 0; part < 4; part++) {
                unsigned value = 0, digits = 0;

                if (part > 0 && (text == end || *text++ != '.'))
                        return -1;
                for (; text < end && *text >= '0' && *text <= '9'; text++) {
                        if (++digits > 3 || (digits > 1 && value == 0))
                                return -1;
                        value = value * 10 + (unsigned)(*text - '0');
                }
                if (digits == 0 || value > 255)
                        return -1;
                address = address << 8 | value;
        }
        if (text != end)
                return -1;
        *ret = address;
        return 0;
}

void address_print(uint32_t address, char ret[ADDRESS_TEXT_MAX])
{
        snprintf(ret, ADDRESS_TEXT_MAX, "%u.%u.%u.%u", address >> 24, address >> 16 & 255, address >> 8 & 255,
                 address & 255);
}
