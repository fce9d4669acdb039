/* Sockets that connections come in on. */
#ifndef CLOCHE_DAEMON_LISTEN_H
#define CLOCHE_DAEMON_LISTEN_H

#include "daemon.h"

struct listener {
        TAILQ_ENTRY(listener) link;
        struct daemon *daemon;
        int fd, is_tcp, is_polling, is_resting;
        const char *container; /* the sandbox whose container API is all there is here; NULL: everything else */
        uid_t own_uid;
        uv_poll_t poll;
};

/* Those of the options, and those systemd hands over; before privilege goes. */
int listen_open(struct daemon *d, struct cloche_err *e);
/* Some caller has to show it. */
int listen_needs_token(const struct daemon *d);
int listen_start(struct daemon *d, struct cloche_err *e);
/* Those that rest for want of descriptors try again; now and then. */
void listen_sweep(struct daemon *d);
void listen_stop(struct daemon *d);

#endif
