/* HTTP/1.1 by libmicrohttpd, in a libuv loop. The server reads requests whole and hands them over; they are answered at once or any
 * time later, as one body or as a stream of events, or become a WebSocket. Sockets come from outside: it listens on none. */
#ifndef CLOCHE_HTTP_SERVER_H
#define CLOCHE_HTTP_SERVER_H

#include "base/buf.h"

#include <cloche/cloche.h>
#include <uv.h>

struct http_server;
struct http_request;
struct websocket;

struct http_options {
        uv_loop_t *loop;
        const char *tls_certificate, *tls_key; /* PEM text; NULL: no TLS */
        size_t body_bytes_max;
        unsigned connections_max;
        /* The head of a request is there: refuse it with http_answer before its body is read, or let it go on. */
        void (*on_head)(void *data, struct http_request *request);
        /* All of it is there. */
        void (*on_request)(void *data, struct http_request *request);
        /* It is answered, or whoever asked is gone; nothing may be said about it any more. */
        void (*on_over)(void *data, struct http_request *request);
        /* A stream of events was taken up to here. */
        void (*on_taken)(void *data, struct http_request *request, size_t size);
        /* A socket that was given is closed. */
        void (*on_closed)(void *data, void *socket_data);
        void *data;
};

int http_server_new(const struct http_options *opt, struct http_server **ret, struct cloche_err *e);
/* Connections end. Accepts NULL. */
void http_server_free(struct http_server *server);

/* A connected socket, taken over, also on failure; of TLS when is_tls. */
int http_server_take(struct http_server *server, int fd, int is_tls, void *socket_data, struct cloche_err *e);
/* Requests that are not answered to their end; WebSockets do not count. */
unsigned http_server_open(const struct http_server *server);
int http_server_has_tls(const struct http_server *server);
/* Once a turn, before the loop waits. */
void http_server_turn(struct http_server *server);
/* Connections whose request does not get on; now and then. */
void http_server_sweep(struct http_server *server, uint64_t now_ns);

/* -- requests */
const char *http_request_verb(const struct http_request *request);
const char *http_request_path(const struct http_request *request); /* as it was sent, without the query */
const char *http_request_header(const struct http_request *request, const char *name); /* the first, or NULL */
const struct buf *http_request_body(const struct http_request *request);
void *http_request_socket_data(const struct http_request *request);
void *http_request_data(const struct http_request *request);
void http_request_set_data(struct http_request *request, void *data);

/* Sent with whatever is answered; both live until then. */
void http_add_header(struct http_request *request, const char *name, const char *value);
/* The answer; body is copied. Once. */
void http_answer(struct http_request *request, unsigned status, const char *type, const void *body, size_t size);
/* A stream of events instead (text/event-stream). */
void http_stream(struct http_request *request);
/* An event; its text is one line. 0 or -ENOBUFS, -ENOMEM. */
int http_stream_event(struct http_request *request, const char *event, const char *text);
size_t http_stream_waiting(const struct http_request *request);
void http_stream_end(struct http_request *request);

/* -- WebSockets (RFC 6455), by libwslay */
struct websocket_handler {
        void (*on_open)(void *data, struct websocket *socket);
        void (*on_message)(void *data, char *bytes, size_t size); /* a binary one, whole */
        void (*on_sent)(void *data);                              /* what was sent is with the kernel: more may be */
        void (*on_closed)(void *data);                            /* once, also when it never was open */
};

/* Make one of the request; 0, or -CLOCHE_E_INVALID_ARGUMENT: it asked for no such thing, and is still to be answered. */
int http_upgrade(struct http_request *request, const struct websocket_handler *handler, void *data, size_t message_bytes_max,
                 struct cloche_err *e);
/* One message at a time: 0 until on_sent is due, 1: it is with the kernel already. -1: it is about to be closed. */
int websocket_send(struct websocket *socket, const void *bytes, size_t size);
/* Read nothing more for now. */
void websocket_hold(struct websocket *socket, int hold);
/* on_closed follows, later: when the other side has taken what is under way, or at once. */
void websocket_close(struct websocket *socket, unsigned code, const char *why);
void websocket_abort(struct websocket *socket);
/* When bytes were taken of it last. */
uint64_t websocket_progress_ns(const struct websocket *socket);

#endif
