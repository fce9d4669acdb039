/* Listening sockets. */
#ifndef CLOCHE_DAEMON_START_LISTEN_H
#define CLOCHE_DAEMON_START_LISTEN_H

#include "daemon/core/daemon.h"

struct listener {
        TAILQ_ENTRY(listener) link;
        struct daemon *daemon;
        int fd, is_tcp, is_polling, is_resting;
        struct entrance entrance;
        uid_t own_uid;
        uv_poll_t poll;
};

/* Open the sockets of the options, and take systemd's. Call it before privileges are dropped. */
int listen_open(struct daemon *d, struct cloche_err *e);
/* True if any caller needs a token. */
int listen_needs_token(const struct daemon *d);
int listen_start(struct daemon *d, struct cloche_err *e);
/* Retry the sockets that were out of descriptors; now and then. */
void listen_sweep(struct daemon *d);
void listen_stop(struct daemon *d);

#endif
