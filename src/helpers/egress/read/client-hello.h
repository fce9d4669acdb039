/* Read the server name from the first bytes of a TLS connection. RFC 8446 4.1.2, RFC 6066 3.
 * Pure; fuzzed. */
#ifndef CLOCHE_HELPERS_EGRESS_READ_CLIENT_HELLO_H
#define CLOCHE_HELPERS_EGRESS_READ_CLIENT_HELLO_H

#include "policy.h"

#include <stddef.h>
#include <sys/types.h>

#define CLIENT_HELLO_MAX 16384 /* of the message; it may span several records */

enum client_hello { CLIENT_HELLO_MORE, CLIENT_HELLO_NAMED, CLIENT_HELLO_NAMELESS, CLIENT_HELLO_MALFORMED };

/* True if the bytes may begin a TLS connection. */
static inline int client_hello_begins(const unsigned char *bytes, size_t size)
{
        return size > 0 && bytes[0] == 22; /* a handshake record */
}

/* ret_name: the name with CLIENT_HELLO_NAMED, otherwise "". A server name that is not a valid host
 * name is malformed. ret_used: bytes of its records. */
enum client_hello client_hello_read(const unsigned char *bytes, size_t size, char ret_name[HOST_NAME_MAX_BYTES + 1],
                                    size_t *ret_used);

/* A server may request a second ClientHello (RFC 8446 4.1.4), with other records around it. It must
 * name the same server. */
struct client_hello_watch {
        char name[HOST_NAME_MAX_BYTES + 1]; /* from the first ClientHello; "": none */
        size_t skip;                        /* bytes left of the passing record */
        int is_over;                        /* no second ClientHello may follow */
};

/* Return how many bytes may pass; the rest is passed in again with later data. -1: the second
 * ClientHello names another server. */
ssize_t client_hello_follow(struct client_hello_watch *watch, const unsigned char *bytes, size_t size);

#endif
