/* A connection: its first byte says what is spoken on it. Frames are served here; HTTP and TLS are handed to web.c. */
#ifndef CLOCHE_DAEMON_CONNECTION_H
#define CLOCHE_DAEMON_CONNECTION_H

#include "client.h"

enum connection_kind { CONNECTION_UNKNOWN, CONNECTION_FRAMES, CONNECTION_WEB };

struct connection {
        TAILQ_ENTRY(connection) link;
        struct caller caller;
        struct daemon *daemon;
        int fd;
        enum connection_kind kind;
        int is_tcp, is_private, is_closing, is_poll_closed, is_web_over;
        const char *container; /* of such a listener (listen.h) */
        int64_t principal;
        int peer_fd; /* the same socket, as long as the connection lives, of a unix listener; -EBADF: of another */
        size_t greeting_at; /* bytes of the greeting that came */
        struct frame_reader reader;
        struct client client; /* of frames */
        uv_poll_t poll;
        struct http_connection *web; /* of HTTP, until it is closed */
        uint64_t deadline_ns;  /* 0: none */
        uint64_t progress_ns;  /* of writing */
        const char *why;
};

/* Takes fd, also on failure. caller: lane and key. */
void connection_new(struct daemon *d, int fd, int is_tcp, int64_t principal, const char *container, const struct caller *caller);
/* The callback of struct callers. */
void connection_drop(struct caller *caller, const char *why);
/* It has shown who it is; -CLOCHE_E_RESOURCE: there are too many. */
int connection_known(struct connection *c, enum caller_lane lane, struct cloche_err *e);
/* The one of a private daemon; it speaks frames. */
int connection_private(struct daemon *d, int fd, struct cloche_err *e);
/* One that was handed on is closed. */
void connection_over(struct connection *c);
/* Those that are to be closed are; once a turn. */
void connections_tidy(struct daemon *d);
/* Those that were too slow; now and then. */
void connections_sweep(struct daemon *d, uint64_t now_ns);
void connections_close_all(struct daemon *d);
/* Whether everything was written. */
int connections_are_idle(const struct daemon *d);

#endif
