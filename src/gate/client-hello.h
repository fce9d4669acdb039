/* The first bytes of a TLS connection: which server does the client name? RFC 8446 4.1.2, RFC 6066 3. Pure; fuzzed. */
#ifndef CLOCHE_GATE_CLIENT_HELLO_H
#define CLOCHE_GATE_CLIENT_HELLO_H

#include "policy.h"

#include <stddef.h>
#include <sys/types.h>

#define CLIENT_HELLO_MAX 16384 /* of the message; it may come in several records */

enum client_hello { CLIENT_HELLO_MORE, CLIENT_HELLO_NAMED, CLIENT_HELLO_NAMELESS, CLIENT_HELLO_MALFORMED };

/* Is it TLS that begins so? */
static inline int client_hello_begins(const unsigned char *bytes, size_t size)
{
        return size > 0 && bytes[0] == 22; /* a handshake record */
}

/* ret_name: with CLIENT_HELLO_NAMED, else "". A server name that is no host's name is malformed. ret_used: bytes of the records it came in. */
enum client_hello client_hello_read(const unsigned char *bytes, size_t size, char ret_name[HOST_NAME_MAX_BYTES + 1], size_t *ret_used);

/* A server may ask for a second one (RFC 8446 4.1.4), before which and behind which other records come: it must name the same. */
struct client_hello_watch {
        char name[HOST_NAME_MAX_BYTES + 1]; /* of the first; "": none */
        size_t skip;                        /* of the record that is passing */
        int is_over;                        /* no other may come */
};

/* How many of the bytes may go on; those behind are to be given again, with what follows them. -1: another server is named. */
ssize_t client_hello_follow(struct client_hello_watch *watch, const unsigned char *bytes, size_t size);

#endif
