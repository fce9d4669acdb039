/* Ranges of addresses that are not ordinary internet hosts, and the text form of addresses. Pure;
 * addresses are in host order. */
#ifndef CLOCHE_HELPERS_EGRESS_READ_ADDRESS_H
#define CLOCHE_HELPERS_EGRESS_READ_ADDRESS_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

#define ADDRESS_TEXT_MAX 48

struct address_range {
        uint32_t network;
        unsigned bits;
        const char *name; /* "private" */
};

/* The narrowest closed range that holds the address, or NULL. A name never leads to such an address
 * unless a rule opens the range. */
const struct address_range *address_closed(uint32_t address);
/* The reason why an IPv6 address is closed, or NULL. No rule opens one. */
const char *address6_closed(const struct in6_addr *address);

/* Accepts four decimal numbers only: no octal, no short forms. 0 or -1. */
int address_parse(const char *text, size_t size, uint32_t *ret);
void address_print(uint32_t address, char ret[ADDRESS_TEXT_MAX]);

static inline uint32_t address_mask(unsigned bits)
{
        return bits == 0 ? 0 : UINT32_MAX << (32 - bits);
}

#endif
