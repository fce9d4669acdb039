/* One connection of the box: from a socket of the box's namespace to one of ours.
 *
 *   accepted ─▶ looking up the name ─▶ connecting, one address after the other ─▶ open: bytes pass as far as inspect.c lets them ─▶ over */
#ifndef CLOCHE_GATE_CONNECTION_H
#define CLOCHE_GATE_CONNECTION_H

#include "client-hello.h"
#include "end.h"
#include "flow.h"
#include "gate.h"
#include "http.h"

#include <netinet/in.h>

#define CANDIDATES_MAX 8
#define WORD_MAX 32

enum connection_state { CONNECTION_LOOKING_UP, CONNECTION_CONNECTING, CONNECTION_OPEN, CONNECTION_OVER };
enum protocol { PROTOCOL_OPEN, PROTOCOL_OTHER, PROTOCOL_TLS, PROTOCOL_TLS_NAMED, PROTOCOL_HTTP };

struct candidate {
        struct sockaddr_storage address;
        char text[64];
};

struct connection {
        TAILQ_ENTRY(connection) link;
        struct gate *gate;
        enum connection_state state;
        struct end guest, host;
        struct flow out, in; /* from the guest, to the guest */
        uint32_t asked;      /* the address it was made to */
        unsigned port;
        char name[HOST_NAME_MAX_BYTES + 1]; /* which that stands for; "": an address */
        const char *rule;                   /* text of the policy's; until another is given */
        struct lookup *lookup;
        struct candidate candidates[CANDIDATES_MAX];
        size_t candidate, candidate_count;
        uint64_t accepted_ns, tried_ns, moved_ns, held_ns; /* held_ns: bytes wait to be understood since; 0: none */

        enum protocol protocol;
        int host_spoke, is_tunnel;
        char word[WORD_MAX]; /* with PROTOCOL_OPEN: what was let go of a first line */
        size_t word_size;
        unsigned inner_port; /* of the host that what is read is meant for: port, but behind CONNECT */
        struct client_hello_watch hello;
        struct http http;
        char said[HOST_NAME_MAX_BYTES + 1]; /* the last name in it that was allowed; "": none */
        unsigned said_port;
};

/* Tell what was decided about it. */
void connection_report(struct connection *c, int allowed, const char *kind, const char *host, const char *address, const char *rule, const char *why);

/* dial.c: from what was looked up, or the address itself, to candidates that the policy allows. 0, or -1: none, which was told. */
int dial_names(struct connection *c, const struct lookup_result *result);
int dial_address(struct connection *c);
/* A socket that connects to the next candidate, or -errno. */
int dial_next(struct connection *c);
/* Is it an address of this machine? */
int dial_is_own(const struct sockaddr *address, socklen_t size);

/* inspect.c: how much of what the guest has sent may go (out.passed). 0, or -1: cut it, which was told. */
int inspect(struct connection *c);
/* Nothing has followed for a while: a word alone may go, for somebody may wait for the answer to it. Should HTTP come of it, it is cut. 1: it may go. */
int inspect_word(struct connection *c);
/* The host has sent something: how much of it may go (in.passed). */
void inspect_answer(struct connection *c);

#endif
