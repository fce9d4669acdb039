/* Messages between the supervisor and the engine's process: packets over a socketpair, each of one struct. */
#ifndef CLOCHE_DAEMON_SUPERVISOR_PROTOCOL_H
#define CLOCHE_DAEMON_SUPERVISOR_PROTOCOL_H

#include <cloche/cloche.h>
#include <stdint.h>

enum supervisor_message_kind {
        /* From the engine. */
        /* Again about every second, for one may be lost. */
        MESSAGE_ALIVE = 1, /* it starts, or ends because its keeper did */
        MESSAGE_READY,     /* it serves; number: 1 when it saves sandboxes */
        MESSAGE_STOPPING,  /* it was told to end, or is idle: its exit is the daemon's */
        /* Once. */
        MESSAGE_FAILED,    /* it could not start; with the error */
        /* From the supervisor. */
        MESSAGE_BEGIN,     /* the first; number: how many engines there were before */
        MESSAGE_SIGNAL,    /* number: the signal that the supervisor got */
};

struct supervisor_message {
        uint32_t kind, number;
        uint32_t has_state; /* of MESSAGE_BEGIN: the engine before saved sandboxes */
        uint32_t reserved;
        struct cloche_err error;
};

/* Descriptors are handed over as systemd does (sd_listen_fds(3), LISTEN_FDNAMES). Those that are no socket of its own have these names, in this order: */
#define HANDED_LINK "cloched-link"           /* the messages; always the first */
#define HANDED_LOCK "cloched-lock"           /* of a daemon on demand (on-demand.c) */
#define HANDED_CONTAINER "cloched-container=" /* a listening socket, and the sandbox whose container API is there */
#define HANDED_SOCKET "cloched-socket"       /* any other listening socket */

#define LISTEN_FDS_START 3
#define LISTEN_FDS_MAX 64 /* sockets */
#define HANDED_MORE 2     /* the link and the lock */

#endif
