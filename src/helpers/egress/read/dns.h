/* DNS queries from a box and their answers. RFC 1035. Pure; fuzzed. */
#ifndef CLOCHE_HELPERS_EGRESS_READ_DNS_H
#define CLOCHE_HELPERS_EGRESS_READ_DNS_H

#include "policy.h"

#include <stddef.h>
#include <stdint.h>

#define DNS_MESSAGE_MAX 512 /* over UDP; our answers never need more */

enum dns_code { DNS_OK = 0, DNS_MALFORMED = 1, DNS_FAILED = 2, DNS_NO_SUCH_NAME = 3, DNS_UNKNOWN = 4, DNS_REFUSED = 5 };
enum dns_type { DNS_TYPE_A = 1, DNS_TYPE_AAAA = 28 };

struct dns_question {
        uint16_t id, flags, type;
        int is_host; /* name holds a valid host name */
        char name[HOST_NAME_MAX_BYTES + 1];
        const unsigned char *raw; /* the question section, copied into the answer; NULL with DNS_MALFORMED */
        size_t raw_size;
};

/* DNS_OK, or the code to answer with; -1: not a query, send no answer. */
int dns_read(const unsigned char *message, size_t size, struct dns_question *ret);

/* address: NULL for an answer without one. Returns the size, at most DNS_MESSAGE_MAX. */
size_t dns_write(const struct dns_question *question, enum dns_code code, const uint32_t *address, uint32_t ttl_s,
                 unsigned char ret[DNS_MESSAGE_MAX]);

#endif
