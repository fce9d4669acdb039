/* HTTP/1.1 by libmicrohttpd, in a libuv loop. The server delivers requests whole, or their bodies
 * in pieces to a handler. They are answered at once or later, with one body or a stream, or become
 * a WebSocket or a tunnel. Sockets come from outside: the server does not listen. */
#ifndef CLOCHE_DAEMON_HTTP_SERVER_H
#define CLOCHE_DAEMON_HTTP_SERVER_H

#include "base/buf.h"

#include <cloche/error.h>
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
        /* The head of a request has arrived: refuse it with http_answer before its body is read, or
         * let it continue. */
        void (*on_head)(void *data, struct http_request *request);
        /* The request is complete; not called for requests with a handler. */
        void (*on_request)(void *data, struct http_request *request);
        /* The server refuses the request, from the head on: answer with http_answer. The path may
         * be invalid if the head is unreadable. */
        void (*on_refused)(void *data, struct http_request *request, unsigned status, enum cloche_code code,
                           const char *message);
        /* A socket of http_server_take has been closed. */
        void (*on_closed)(void *data, void *socket_data);
        void *data;
};

/* Callbacks of one request. NULL members are not called. */
struct http_handler {
        /* A piece of the body. Without on_body the body is collected, up to body_bytes_max. */
        void (*on_body)(void *data, const void *bytes, size_t size);
        /* The body is complete. */
        void (*on_whole)(void *data);
        /* Some of the stream was sent. */
        void (*on_taken)(void *data);
        /* The request is answered, or the client has gone; the request must not be used any more.
         * Called once. */
        void (*on_over)(void *data);
};

int http_server_new(const struct http_options *opt, struct http_server **ret, struct cloche_err *e);
/* Closes connections. Accepts NULL. */
void http_server_free(struct http_server *server);

/* Take over a connected socket, also on failure; is_tls: it carries TLS. */
int http_server_take(struct http_server *server, int fd, int is_tls, void *socket_data, struct http_connection **ret,
                     struct cloche_err *e);
/* Close a connection; on_closed follows later. */
void http_server_cut(struct http_server *server, struct http_connection *connection);
/* The number of unfinished requests; WebSockets and tunnels do not count. */
unsigned http_server_open(const struct http_server *server);
int http_server_has_tls(const struct http_server *server);
/* Call it once a turn, before the loop waits. */
void http_server_turn(struct http_server *server);
/* Close connections whose request is stuck and keep idle event streams alive; call it
 * periodically. */
void http_server_sweep(struct http_server *server, uint64_t now_ns);

/* -- requests */
const char *http_request_verb(const struct http_request *request);
const char *http_request_path(const struct http_request *request);   /* as sent, without the query */
const char *http_request_target(const struct http_request *request); /* as sent */
const char *http_request_query(const struct http_request *request);  /* of the target, as sent; "" if none */
const char *http_request_header(const struct http_request *request, const char *name); /* the first, or NULL */
/* Iterate over all headers in order of arrival, until each returns nonzero. */
void http_request_headers(const struct http_request *request,
                          int (*each)(void *data, const char *name, const char *value), void *data);
int http_request_is_tls(const struct http_request *request);
/* The peer's address; "" for a unix socket. */
void http_request_peer(const struct http_request *request, char *ret, size_t size);
const struct buf *http_request_body(const struct http_request *request);
void *http_request_socket_data(const struct http_request *request);

/* Set the handler once, from on_head (to receive the body) or on_request. handler and data must
 * live until on_over. */
void http_request_handle(struct http_request *request, const struct http_handler *handler, void *data);
/* From on_head: limit the body to so many bytes instead of body_bytes_max. */
void http_body_limit(struct http_request *request, size_t bytes);
/* Pause or resume the body. */
void http_body_hold(struct http_request *request, int hold);

/* Add a header to the answer; copied. */
void http_add_header(struct http_request *request, const char *name, const char *value);
/* The answer is forwarded from another server: add no headers of our own. */
void http_set_foreign(struct http_request *request);
/* Answer once; body is copied. The rest of an unfinished request body is discarded. */
void http_answer(struct http_request *request, unsigned status, const char *type, const void *body, size_t size);

/* -- streams */
/* Answer with a stream of events (text/event-stream); comments keep an idle one alive. */
void http_stream(struct http_request *request);
/* Answer with a stream of bytes; length: the total, -1: unknown. type may be NULL. */
void http_stream_raw(struct http_request *request, unsigned status, const char *type, int64_t length);
/* 0 or -ENOBUFS, -ENOMEM. An event's text is one line. */
int http_stream_event(struct http_request *request, const char *event, const char *text);
int http_stream_write(struct http_request *request, const void *bytes, size_t size);
size_t http_stream_waiting(const struct http_request *request);
void http_stream_end(struct http_request *request);
/* Close the connection before the end of the stream, so that the client detects a truncated
 * body. */
void http_stream_break(struct http_request *request);

/* -- WebSockets (RFC 6455), by libwslay */
struct websocket_handler {
        void (*on_open)(void *data, struct websocket *socket);
        void (*on_message)(void *data, char *bytes, size_t size); /* binary, whole */
        void (*on_text)(void *data, char *bytes, size_t size); /* text, whole, perhaps invalid UTF-8; NULL: refused */
        void (*on_sent)(void *data);                           /* the kernel has all sent bytes: more may follow */
        void (*on_closed)(void *data);                         /* once, also if it was never open */
};

/* Upgrade the request; 0, or -CLOCHE_E_INVALID_ARGUMENT: it did not request an upgrade and still
 * needs an answer. */
int http_upgrade(struct http_request *request, const struct websocket_handler *handler, void *data,
                 size_t message_bytes_max, struct cloche_err *e);
/* Send one message at a time. 0: wait for on_sent; 1: the kernel has it already; -1: the socket
 * is closing. */
int websocket_send(struct websocket *socket, const void *bytes, size_t size);
/* Queue any number of messages, copied; -1: the socket is closing. on_sent follows
 * when the queue is empty. */
int websocket_queue(struct websocket *socket, int is_text, const void *bytes, size_t size);
size_t websocket_waiting(const struct websocket *socket);
/* Pause or resume reading. */
void websocket_hold(struct websocket *socket, int hold);
/* Close it; on_closed follows when the peer has taken the pending bytes (close), or at once
 * (abort). */
void websocket_close(struct websocket *socket, unsigned code, const char *why);
void websocket_abort(struct websocket *socket);
/* Time when the peer last took bytes. */
uint64_t websocket_progress_ns(const struct websocket *socket);

/* -- tunnels */
/* Join the request's connection and fd into one pipe in both directions until one of them ends. A
 * 101 with the added headers is sent, then first. Takes fd, also on failure; on_over of the request
 * follows at the end. -CLOCHE_E_RESOURCE. */
int http_tunnel(struct http_request *request, int fd, const void *first, size_t size, struct cloche_err *e);
void http_tunnel_end(struct http_request *request);

#endif
