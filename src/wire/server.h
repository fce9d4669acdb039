/* The server half of JSON-RPC over a stream socket, for programs with one client: cloche-fs,
 * cloche-sync and cloche-egress. One thread; requests are answered in the order of their arrival, and
 * only server_run() waits. */
#ifndef CLOCHE_WIRE_SERVER_H
#define CLOCHE_WIRE_SERVER_H

#include "frame.h"
#include "rpc.h"

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

struct server_options {
        const struct server_method *methods;
        void *argument; /* of the handlers */
        size_t request_bytes_max, reply_bytes_max;
        size_t notify_bytes_max; /* with more unsent bytes notifications are dropped */
        size_t batch_bytes;      /* of notifications to collect before a system call; 0: each is sent at once */
};

#define SERVER_FDS_MAX 4

struct server {
        int socket_fd; /* borrowed */
        struct server_options options;
        struct frame_reader in;
        struct buf out;
        size_t sent; /* bytes of out */
        struct {
                size_t at; /* offset in out of the first byte of its reply */
                int fd;
        } leaving[SERVER_FDS_MAX];
        int arrived[SERVER_FDS_MAX];
        unsigned leaving_count, arrived_count;
        bool is_open, is_closing, is_gone, is_cancelled;
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

/* Send a notification; params are stolen. -CLOCHE_E_RESOURCE: it was dropped because the client reads too slowly. */
int server_notify(struct server *server, const char *method, json_t *params);
/* Return the oldest descriptor that came with requests and was not taken, owned by the caller;
 * -EBADF: none. */
int server_take_fd(struct server *server);
/* For a handler that takes long: read new requests, and return true once the client has cancelled
 * this one or closed. Other requests are refused meanwhile. */
bool server_is_cancelled(struct server *server);

#endif
