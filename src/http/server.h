/* HTTP/1.1 by libmicrohttpd, in a libuv loop. The server hands requests over whole, or their bodies piece by piece to who wants that; they are
 * answered at once or any time later, as one body or as a stream, or become a WebSocket or a tunnel. Sockets come from outside: it listens on none. */
#ifndef CLOCHE_HTTP_SERVER_H
#define CLOCHE_HTTP_SERVER_H

#include "base/buf.h"

#include <cloche/cloche.h>
#include <uv.h>

struct http_server;
struct http_connection;
struct http_request;
struct websocket;

struct http_options {
        uv_loop_t *loop;
        const char *tls_certificate, *tls_key; /* PEM text; NULL: no TLS */
        size_t body_bytes_max;
        unsigned connections_max;
        /* The head of a request is there: refuse it with http_answer before its body is read, or let it go on. */
        void (*on_head)(void *data, struct http_request *request);
        /* All of it is there; not of those that have a handler already. */
        void (*on_request)(void *data, struct http_request *request);
        /* The server itself refuses it, from the head on: answer with http_answer. A head that cannot be read may have a path that is none. */
        void (*on_refused)(void *data, struct http_request *request, unsigned status, enum cloche_code code, const char *message);
        /* A socket that was given is closed. */
        void (*on_closed)(void *data, void *socket_data);
        void *data;
};

/* Who has to do with one request. Those that are NULL are not called. */
struct http_handler {
        /* A piece of the body. Without it the body is collected, up to body_bytes_max. */
        void (*on_body)(void *data, const void *bytes, size_t size);
        /* That was all of it. */
        void (*on_whole)(void *data);
        /* Some of a stream was taken. */
        void (*on_taken)(void *data);
        /* It is answered, or whoever asked is gone; nothing may be said about it any more. Once. */
        void (*on_over)(void *data);
};

int http_server_new(const struct http_options *opt, struct http_server **ret, struct cloche_err *e);
/* Connections end. Accepts NULL. */
void http_server_free(struct http_server *server);

/* A connected socket, taken over, also on failure; of TLS when is_tls. */
int http_server_take(struct http_server *server, int fd, int is_tls, void *socket_data, struct http_connection **ret, struct cloche_err *e);
/* on_closed follows, later. */
void http_server_cut(struct http_server *server, struct http_connection *connection);
/* Requests that are not answered to their end; WebSockets and tunnels do not count. */
unsigned http_server_open(const struct http_server *server);
int http_server_has_tls(const struct http_server *server);
/* Once a turn, before the loop waits. */
void http_server_turn(struct http_server *server);
/* Connections whose request does not get on, and streams of events that say nothing; now and then. */
void http_server_sweep(struct http_server *server, uint64_t now_ns);

/* -- requests */
const char *http_request_verb(const struct http_request *request);
const char *http_request_path(const struct http_request *request);   /* as it was sent, without the query */
const char *http_request_target(const struct http_request *request); /* as it was sent */
const char *http_request_query(const struct http_request *request);  /* of the target, as it was sent; "" when there is none */
const char *http_request_header(const struct http_request *request, const char *name); /* the first, or NULL */
/* All of them, in the order they came; until each says other than 0. */
void http_request_headers(const struct http_request *request, int (*each)(void *data, const char *name, const char *value), void *data);
int http_request_is_tls(const struct http_request *request);
/* The address it comes from; "" of a unix socket. */
void http_request_peer(const struct http_request *request, char *ret, size_t size);
const struct buf *http_request_body(const struct http_request *request);
void *http_request_socket_data(const struct http_request *request);

/* From on_head (who takes the body) or on_request on; once. handler and data live until on_over. */
void http_request_handle(struct http_request *request, const struct http_handler *handler, void *data);
void *http_request_data(const struct http_request *request);
/* From on_head: the body may have so many bytes at most, not body_bytes_max. */
void http_body_limit(struct http_request *request, size_t bytes);
/* No more of the body for now; pieces are small, and one may still come. */
void http_body_hold(struct http_request *request, int hold);

/* Sent with whatever is answered; copied. */
void http_add_header(struct http_request *request, const char *name, const char *value);
/* Somebody else's answer is passed on: nothing of ours is added to it. */
void http_set_foreign(struct http_request *request);
/* The answer; body is copied. Once. The rest of a body that is under way goes nowhere. */
void http_answer(struct http_request *request, unsigned status, const char *type, const void *body, size_t size);

/* -- streams */
/* A stream of events instead (text/event-stream); one that says nothing is kept awake with comments. */
void http_stream(struct http_request *request);
/* Any bytes; length: of all of them, -1: not known. type may be NULL. */
void http_stream_raw(struct http_request *request, unsigned status, const char *type, int64_t length);
/* 0 or -ENOBUFS, -ENOMEM. An event's text is one line. */
int http_stream_event(struct http_request *request, const char *event, const char *text);
int http_stream_write(struct http_request *request, const void *bytes, size_t size);
size_t http_stream_waiting(const struct http_request *request);
void http_stream_end(struct http_request *request);
/* There is more that cannot be had: the connection is cut, so that nobody takes it for all. */
void http_stream_break(struct http_request *request);

/* -- WebSockets (RFC 6455), by libwslay */
struct websocket_handler {
        void (*on_open)(void *data, struct websocket *socket);
        void (*on_message)(void *data, char *bytes, size_t size); /* a binary one, whole */
        void (*on_text)(void *data, char *bytes, size_t size);    /* the same of text, which may be no UTF-8; NULL: it is closed then */
        void (*on_sent)(void *data);                              /* what was sent is with the kernel: more may be */
        void (*on_closed)(void *data);                            /* once, also when it never was open */
};

/* Make one of the request; 0, or -CLOCHE_E_INVALID_ARGUMENT: it asked for no such thing, and is still to be answered. */
int http_upgrade(struct http_request *request, const struct websocket_handler *handler, void *data, size_t message_bytes_max,
                 struct cloche_err *e);
/* One message at a time: 0 until on_sent is due, 1: it is with the kernel already. -1: it is about to be closed. */
int websocket_send(struct websocket *socket, const void *bytes, size_t size);
/* As many as one likes, copied; -1: it is about to be closed. on_sent when none waits any more. */
int websocket_queue(struct websocket *socket, int is_text, const void *bytes, size_t size);
size_t websocket_waiting(const struct websocket *socket);
/* Read nothing more for now. */
void websocket_hold(struct websocket *socket, int hold);
/* on_closed follows, later: when the other side has taken what is under way, or at once. */
void websocket_close(struct websocket *socket, unsigned code, const char *why);
void websocket_abort(struct websocket *socket);
/* When bytes were taken of it last. */
uint64_t websocket_progress_ns(const struct websocket *socket);

/* -- tunnels */
/* The request's connection and fd are one pipe from here on, in both directions and until one of them ends: a 101 goes out with
 * the headers that were added, then first. fd is taken over, also on failure; on_over of the request follows when it ended. -CLOCHE_E_RESOURCE. */
int http_tunnel(struct http_request *request, int fd, const void *first, size_t size, struct cloche_err *e);
void http_tunnel_end(struct http_request *request);

#endif
