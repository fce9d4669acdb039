/* One connection of the box: from a socket of the box's namespace to one of the host.
 *
 *   accepted ─▶ looking up the name ─▶ connecting, one address after the other ─▶ open: bytes pass
 *   as far as inspect.c permits ─▶ over */
#ifndef CLOCHE_HELPERS_EGRESS_CONNECTION_H
#define CLOCHE_HELPERS_EGRESS_CONNECTION_H

#include "egress.h"
#include "end.h"
#include "flow.h"
#include "helpers/egress/read/client-hello.h"
#include "helpers/egress/read/http.h"

#include <netinet/in.h>

#define CANDIDATES_MAX 8
#define WORD_MAX 32

enum connection_state { CONNECTION_LOOKING_UP, CONNECTION_CONNECTING, CONNECTION_OPEN, CONNECTION_OVER };
enum protocol { PROTOCOL_OPEN, PROTOCOL_OTHER, PROTOCOL_TLS, PROTOCOL_TLS_NAMED, PROTOCOL_HTTP };

struct candidate {
        struct sockaddr_storage address;
        char text[64];
};

struct egress_connection {
        TAILQ_ENTRY(egress_connection) link;
        struct egress *egress;
        enum connection_state state;
        struct end guest, host;
        struct flow out, in; /* from the guest, to the guest */
        uint32_t requested;  /* the original destination address */
        unsigned port;
        char name[HOST_NAME_MAX_BYTES + 1]; /* the name assigned to that address; "": none */
        const char *rule;                   /* text owned by the policy; valid until the policy changes */
        struct lookup *lookup;
        struct candidate candidates[CANDIDATES_MAX];
        size_t candidate, candidate_count;
        uint64_t accepted_ns, tried_ns, moved_ns, held_ns; /* held_ns: start of a wait for more bytes; 0: none */

        enum protocol protocol;
        int host_spoke, is_tunnel;
        char word[WORD_MAX]; /* PROTOCOL_OPEN: bytes of the first line already passed */
        size_t word_size;
        unsigned inner_port; /* port of the inspected host: port, except behind CONNECT */
        struct client_hello_watch hello;
        struct http http;
        int names_itself, names_other, sets_headers; /* hosts of the request: that of the connection, another one, one
                                                        with headers of the policy */
        char announced[HOST_NAME_MAX_BYTES + 1];     /* the last allowed name in the connection; "": none */
        unsigned announced_port;
};

/* Report a decision about the connection. */
void connection_report(struct egress_connection *c, int allowed, const char *kind, const char *host,
                       const char *address, const char *rule, const char *why);

/* dial.c: turn a lookup result, or the address itself, into candidates that the policy allows. 0;
 * -1: none, reported. */
int dial_names(struct egress_connection *c, const struct lookup_result *result);
int dial_address(struct egress_connection *c);
/* The candidate of a service of this machine that the policy allows. */
void dial_service(struct egress_connection *c);
/* Return a socket that connects to the next candidate, or -errno. */
int dial_next(struct egress_connection *c);
/* True if the address belongs to this machine. */
int dial_is_own(const struct sockaddr *address, socklen_t size);

/* inspect.c: compute how many of the guest's bytes may pass (out.passed). 0; -1: close the
 * connection, reported. */
int inspect(struct egress_connection *c);
/* Called when no byte has followed for a while: a lone word may pass, because the client may await
 * its answer. If the rest turns out to be HTTP, the connection is closed. 1: it may pass. */
int inspect_word(struct egress_connection *c);
/* Handle bytes from the host: compute how many may pass (in.passed). */
void inspect_answer(struct egress_connection *c);

#endif
