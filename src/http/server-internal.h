/* What the server's files share. */
#ifndef CLOCHE_HTTP_SERVER_INTERNAL_H
#define CLOCHE_HTTP_SERVER_INTERNAL_H

#include "server.h"

#include <microhttpd.h>
#include <sys/queue.h>

#define HTTP_HEADERS_MAX 8

struct http_connection {
        TAILQ_ENTRY(http_connection) link;
        int fd; /* libmicrohttpd's */
        void *data;
        uint64_t deadline_ns; /* 0: none */
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
        struct http_connection *taking; /* until libmicrohttpd has told of it */
        int is_due;
};

struct http_request {
        TAILQ_ENTRY(http_request) link;
        struct http_server *server;
        struct MHD_Connection *mhd;
        struct http_connection *connection;
        char verb[16], *path;
        struct buf body;
        uint64_t body_total;
        void *data;
        struct MHD_Response *response;
        unsigned status;
        struct http_header {
                const char *name, *value;
        } headers[HTTP_HEADERS_MAX];
        unsigned header_count;
        struct buf stream;
        int is_stream, stream_ended, is_asked, is_answered, is_suspended, is_over, is_gone, is_too_large;
        uv_poll_t *watch;
        struct websocket *websocket;
};

/* Whoever asked is not there any more. */
void http_request_gone(struct http_request *request);
/* The request of a WebSocket ends, with or without having become one. */
void websocket_request_over(struct websocket *socket);

#endif
