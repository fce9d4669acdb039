/* Shared definitions of the server's files. */
#ifndef CLOCHE_DAEMON_HTTP_SERVER_INTERNAL_H
#define CLOCHE_DAEMON_HTTP_SERVER_INTERNAL_H

#include "framing.h"
#include "linger.h"
#include "server.h"

#include <microhttpd.h>
#include <sys/queue.h>

#define HTTP_HEADERS_MAX 128
#define DISCARD_TIMES 4 /* factor over the limit that is still read, so that the client receives the answer */

struct http_connection {
        TAILQ_ENTRY(http_connection) link;
        int fd; /* owned by libmicrohttpd */
        void *data;
        int is_tls, is_secured, is_local; /* is_local: over a unix socket */
        uint64_t deadline_ns;             /* 0: none */
        struct framing framing;
        uint64_t heads;        /* heads seen by libmicrohttpd */
        uint64_t unread_bytes; /* rest of a body answered early: bytes to read after the close */
};

/* A connection that libmicrohttpd closes in this turn. */
struct http_leaving {
        STAILQ_ENTRY(http_leaving) link;
        int fd;
};

struct http_server {
        struct http_options options;
        struct http_daemon {
                struct MHD_Daemon *mhd;
                uv_poll_t *poll;
                uv_timer_t *timer;
        } daemons[2]; /* without and with TLS */
        TAILQ_HEAD(http_connections, http_connection) connections;
        TAILQ_HEAD(http_requests, http_request) requests;
        STAILQ_HEAD(, http_leaving) leaving;
        struct http_lingers lingers;
        struct http_connection *taking; /* until libmicrohttpd calls on_connection */
        int is_due;
};

struct http_request {
        TAILQ_ENTRY(http_request) link;
        struct http_server *server;
        struct MHD_Connection *mhd;
        struct http_connection *connection;
        char verb[16], *path, *target;
        struct buf body;
        uint64_t body_total, discarded, deadline_bytes;
        const struct http_handler *handler;
        void *data;
        struct MHD_Response *response;
        unsigned status;
        struct http_header {
                char *name, *value;
        } * headers;
        unsigned header_count;
        struct buf stream; /* valid from stream_at on */
        size_t stream_at;
        uint64_t stream_said_ns;
        int is_begun, is_stream, is_events, stream_ended, is_asked, is_answered, is_suspended, is_held, is_over,
                is_gone, is_too_large, is_foreign;
        uv_poll_t *watch;
        struct websocket *websocket;
        struct tunnel *tunnel;
};

/* The client has disconnected. */
void http_request_gone(struct http_request *request);
/* Suspend reading and writing until the request is answered or resumed, or its client
 * disconnects. */
void http_request_suspend(struct http_request *request);
void http_request_unwatch(struct http_request *request);
void http_request_resume(struct http_request *request);
/* Call the handler's on_over, once. */
void http_request_over(struct http_request *request);
void http_request_keep_awake(struct http_request *request, uint64_t now_ns);
/* Add the headers of http_add_header to the answer. */
void http_request_put_headers(const struct http_request *request);
/* The request of a WebSocket has ended, upgraded or not. */
void websocket_request_over(struct websocket *socket);
/* The request of a tunnel has ended; tunnel_end() ends it from our side. */
void tunnel_request_over(struct tunnel *tunnel);
void tunnel_end(struct tunnel *tunnel);

#endif
