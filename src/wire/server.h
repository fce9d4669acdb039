/* The server half of JSON-RPC over a stream socket, for programs with one client: cloche-fs,
 * cloche-sync, cloche-egress and cloche-files. One thread. Requests are handled in the order of
 * their arrival; a handler may leave its reply for later. Only server_run() waits. */
#ifndef CLOCHE_WIRE_SERVER_H
#define CLOCHE_WIRE_SERVER_H

#include "transport.h"

#include <stdbool.h>

/* The result of a handler; after an error it may be incomplete. */
struct server_reply {
        json_t *result;         /* NULL: an empty object */
        struct buf attachments; /* bytes that the result refers to */
        int fd;                 /* sent with the reply; -EBADF: none */
};

enum server_when {
        SERVER_ALWAYS,
        SERVER_OPENS, /* once, before any SERVER_AFTER; an error ends the connection after its reply */
        SERVER_AFTER,
};

struct server_method {
        const char *name; /* NULL ends a table */
        enum server_when when;
        int (*handle)(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e);
};

/* Returned by options.handle. */
#define SERVER_LATER 1
#define SERVER_UNKNOWN 2

struct server_options {
        const struct server_method *methods;
        /* Called for other requests and all notifications, if it is not NULL: 0 with a reply, an
         * error, SERVER_UNKNOWN, or SERVER_LATER, after which server_reply() or server_fail() is
         * called some time. Nothing is replied to a notification. The views in f are valid until
         * server_is_cancelled() is called. */
        int (*handle)(void *argument, const struct rpc_message *m, const struct frame *f, struct server_reply *ret,
                      struct cloche_err *e);
        void *argument; /* of the handlers */
        size_t request_bytes_max, reply_bytes_max;
        size_t notify_bytes_max; /* with more unsent bytes notifications are dropped */
        size_t batch_bytes;      /* of notifications to collect before a system call; 0: each is sent at once */
};

#define SERVER_FDS_MAX WIRE_FDS_MAX

enum server_state {
        SERVER_NEW, /* until the request that opens it, in a table with one */
        SERVER_OPEN,
        SERVER_CLOSING, /* opening has failed: replies are sent, and nothing is read */
        SERVER_CLOSED,  /* the client has gone, or violated the protocol */
        SERVER_STATES
};

struct server {
        struct wire_transport transport;
        struct server_options options;
        int arrived[SERVER_FDS_MAX];
        unsigned arrived_count;
        enum server_state state;
        bool is_cancelled;       /* the request that is handled */
        struct cloche_err error; /* the violation that ended the connection; code 0: none */
};

/* socket_fd is borrowed. Close with server_done(). */
void server_init(struct server *server, int socket_fd, const struct server_options *options);
void server_done(struct server *server);

/* Events to wait for, as in poll(2). */
short server_events(const struct server *server);
/* Read once, handle the messages that are whole, and send as much as possible without waiting: to
 * be called while server_events() occur. Returns 0, or -1: the client has closed or violated the
 * protocol, or opening failed. */
int server_turn(struct server *server);
/* Take turns until the connection ends. */
void server_run(struct server *server);

/* Queue the reply of a request whose handler returned SERVER_LATER; server_turn() sends it. id and
 * the members of reply are borrowed, but for its descriptor. -1: the connection has to end. */
CLOCHE_MUST_CHECK int server_reply(struct server *server, const json_t *id, struct server_reply *reply);
CLOCHE_MUST_CHECK int server_fail(struct server *server, const json_t *id, const struct cloche_err *e);
/* Likewise a frame that was built elsewhere. */
CLOCHE_MUST_CHECK int server_forward(struct server *server, const struct frame *f);
/* Bytes that the client has not read. While there are any, the source of a stream should wait. */
size_t server_unsent(const struct server *server);

/* Send a notification; params are stolen. -CLOCHE_E_RESOURCE: it was dropped because the
 * client reads too slowly. */
int server_notify(struct server *server, const char *method, json_t *params);
/* Return the oldest descriptor that came with requests and was not taken, owned by the caller;
 * -EBADF: none. */
int server_take_fd(struct server *server);
/* For a handler that takes long: read new requests, and return true once the client has cancelled
 * this one or closed. Other requests are refused meanwhile. */
bool server_is_cancelled(struct server *server);

#endif
