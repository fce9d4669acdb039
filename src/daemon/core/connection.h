/* A connection. Its first byte shows the protocol: web.c serves HTTP and TLS, this file frames. */
#ifndef CLOCHE_DAEMON_CORE_CONNECTION_H
#define CLOCHE_DAEMON_CORE_CONNECTION_H

#include "client.h"

enum connection_kind { CONNECTION_UNKNOWN, CONNECTION_FRAMES, CONNECTION_WEB };

struct connection {
        TAILQ_ENTRY(connection) link;
        struct caller caller;
        struct daemon *daemon;
        int fd;
        enum connection_kind kind;
        int is_tcp, is_private, is_closing, is_poll_closed, is_web_closed;
        struct entrance entrance;
        int64_t principal;
        int peer_fd;        /* the same socket, while the connection lives, if it is a unix one; else -EBADF */
        size_t greeting_at; /* bytes of the greeting received */
        struct frame_reader reader;
        struct client client; /* for frames */
        uv_poll_t poll;
        int events;                  /* registered; 0: not yet */
        struct http_connection *web; /* for HTTP, until it is closed */
        uint64_t deadline_ns;        /* 0: none */
        uint64_t progress_ns;        /* of the last write */
        const char *why;
};

/* Takes fd, also on failure. caller: with lane and key. */
void connection_new(struct daemon *d, int fd, int is_tcp, int64_t principal, struct entrance entrance,
                    const struct caller *caller);
/* The callback of struct callers. */
void connection_drop(struct caller *caller, const char *why);
/* The caller is authenticated. Fails with -CLOCHE_E_RESOURCE if there are too many. */
int connection_known(struct connection *c, enum caller_lane lane, struct cloche_err *e);
/* Make the connection of a private daemon; it carries frames. */
int connection_private(struct daemon *d, int fd, struct cloche_err *e);
/* A connection that was handed to web.c is closed. */
void connection_on_closed(struct connection *c);
/* Close the connections that are marked for it; once per loop iteration. */
void connections_tidy(struct daemon *d);
/* Close the connections that were too slow; now and then. */
void connections_sweep(struct daemon *d, uint64_t now_ns);
void connections_close_all(struct daemon *d);
/* True if everything was written. */
int connections_are_idle(const struct daemon *d);

#endif
