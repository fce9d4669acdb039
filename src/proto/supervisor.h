/* Messages between supervisor and engine: packets on a socketpair, each of them one struct. */
#ifndef CLOCHE_PROTO_SUPERVISOR_H
#define CLOCHE_PROTO_SUPERVISOR_H

#include <cloche/error.h>
#include <stdint.h>

enum supervisor_message_kind {
        /* From the engine. */
        /* Sent again about every second, because a message may be lost. */
        MESSAGE_ALIVE = 1, /* the engine starts, or ends because its keeper ended */
        MESSAGE_READY,     /* the engine serves; number: 1 if it saves sandboxes */
        MESSAGE_STOPPING,  /* the engine got a signal to end, or is idle: its exit is the daemon's */
        /* Sent once. */
        MESSAGE_FAILED, /* the engine could not start; with the error */
        /* From the supervisor. */
        MESSAGE_BEGIN,  /* the first message; number: engines before this one */
        MESSAGE_SIGNAL, /* number: the signal that the supervisor received */
};

struct supervisor_message {
        uint32_t kind, number;
        uint32_t has_state; /* for MESSAGE_BEGIN: the engine before saved sandboxes */
        uint32_t reserved;
        struct cloche_err error;
};

/* Descriptors are passed in the way of systemd (sd_listen_fds(3), LISTEN_FDNAMES). They have these
 * names, in this order: */
#define HANDED_LINK "cloched-link"            /* the messages; always the first */
#define HANDED_LOCK "cloched-lock"            /* for a daemon on demand (on-demand.c) */
#define HANDED_E2B "cloched-e2b"              /* a listening socket for the E2B API */
#define HANDED_CONTAINER "cloched-container=" /* a listening socket, and the sandbox whose container API it serves */
#define HANDED_SOCKET "cloched-socket"        /* any other listening socket */

#define LISTEN_FDS_START 3
#define LISTEN_FDS_MAX 64 /* sockets */
#define HANDED_MORE 2     /* the link and the lock */

#endif
