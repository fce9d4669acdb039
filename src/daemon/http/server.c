/* Runs in: cloched, on its loop. */
#include "server.h"
#include "intake.h"
#include "server-internal.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/peer.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTION_MEMORY (32u << 10)     /* head of a request, and one read and write buffer */
#define IDLE_SECONDS 75                   /* without any byte */
#define REQUEST_NS UINT64_C(120000000000) /* from one answer to the end of the next request */
#define HANDSHAKE_MS 50                   /* between checks of pending handshakes; new input is seen at once */
/* TLS 1.2 with the same protection as 1.3: ephemeral keys and authenticated ciphers. */
#define TLS_PRIORITIES                                                                                          \
        "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA:-CIPHER-ALL:+AES-256-GCM:+" \
        "CHACHA20-POLY1305:+AES-128-GCM:-MAC-ALL:+AEAD"
#define DISCARD_BYTES (1u << 20)   /* of a body whose request is refused */
#define PROGRESS_BYTES (64u << 10) /* of a body received in pieces, within REQUEST_NS */

static void on_handle_closed(uv_handle_t *handle)
{
        free(handle);
}

/* -- libmicrohttpd's side: requests --------------------------------------------------------------------------- */

/* Called for the first line, the only point where libmicrohttpd shows the unmodified target. It
 * passes the object created here back with the head. */
static void *on_target(void *data, const char *target, struct MHD_Connection *mhd)
{
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
        struct http_server *server = data;
        struct http_request *request = calloc(1, sizeof(*request));

        if (!request)
                return NULL;
        request->server = server;
        request->mhd = mhd;
        request->connection = info->socket_context;
        request->body = BUF_INIT(server->options.body_bytes_max);
        request->target = strdup(target);
        if (!request->target) {
                free(request);
                return NULL;
        }
        TAILQ_INSERT_TAIL(&server->requests, request, link);
        return request;
}

static enum MHD_Result send_answer(struct http_request *request)
{
        enum MHD_Result r;

        if (request->status != MHD_HTTP_SWITCHING_PROTOCOLS && framing_resume(&request->connection->framing) < 0)
                MHD_add_response_header(request->response, MHD_HTTP_HEADER_CONNECTION, "close");
        r = MHD_queue_response(request->mhd, request->status, request->response);
        MHD_destroy_response(request->response); /* drops our reference; the connection keeps its own */
        request->is_answered = 1;
        if (!request->is_stream && request->status != MHD_HTTP_SWITCHING_PROTOCOLS)
                http_request_over(request);
        return r;
}

static int is_over_length(const struct http_request *request)
{
        const char *length = http_request_header(request, MHD_HTTP_HEADER_CONTENT_LENGTH);

        return length && strtoull(length, NULL, 10) > request->body.max;
}

static int has_large_body(const struct http_request *request)
{
        const char *length = http_request_header(request, MHD_HTTP_HEADER_CONTENT_LENGTH);

        return (length && strtoull(length, NULL, 10) > DISCARD_BYTES) ||
               http_request_header(request, MHD_HTTP_HEADER_TRANSFER_ENCODING);
}

static void refuse(struct http_request *request, unsigned status, enum cloche_code code, const char *message)
{
        request->server->options.on_refused(request->server->options.data, request, status, code, message);
}

static void too_large(struct http_request *request)
{
        char message[80];

        snprintf(message, sizeof(message), "the body is larger than is taken: %zu bytes", request->body.max);
        refuse(request, MHD_HTTP_CONTENT_TOO_LARGE, CLOCHE_E_TOO_LARGE, message);
}

/* A head that did not pass through intake.c counts as faulty too, in case libmicrohttpd ever reads
 * by another function. */
static int has_fault(struct http_request *request)
{
        return ++request->connection->heads > request->connection->framing.heads;
}

static void refuse_framing(struct http_request *request)
{
        enum framing_fault fault = request->connection->framing.fault;

        http_add_header(request, MHD_HTTP_HEADER_CONNECTION, "close");
        refuse(request, fault == FRAMING_HEAD ? MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE : MHD_HTTP_BAD_REQUEST,
               CLOCHE_E_INVALID_ARGUMENT, framing_message(fault));
}

static int takes_body(const struct http_request *request)
{
        return request->handler && request->handler->on_body;
}

static enum MHD_Result begin(struct http_request *request, const char *path, const char *verb)
{
        request->is_begun = 1;
        snprintf(request->verb, sizeof(request->verb), "%s", verb);
        request->path = strdup(path);
        if (!request->path)
                return MHD_NO;
        if (has_fault(request)) {
                refuse_framing(request);
                return request->response ? send_answer(request) : MHD_NO;
        }
        request->server->options.on_head(request->server->options.data, request);
        if (!request->response && !takes_body(request) && is_over_length(request))
                too_large(request);
        /* An answer before the body's end closes the connection. A small body is read first; the
         * rest of a large one is read after the close (linger.h). */
        if (request->response && has_large_body(request) && !request->is_stream) {
                request->connection->unread_bytes = DISCARD_TIMES * (uint64_t)request->body.max;
                return send_answer(request);
        }
        return request->is_gone ? MHD_NO : MHD_YES;
}

/* A body may take any time while it makes progress. */
static void renew_deadline(struct http_request *request, size_t size)
{
        request->deadline_bytes += size;
        if (request->is_held)
                request->connection->deadline_ns = 0;
        else if (request->deadline_bytes >= PROGRESS_BYTES || !request->connection->deadline_ns)
                request->connection->deadline_ns = clock_now_ns() + REQUEST_NS;
        request->deadline_bytes %= PROGRESS_BYTES;
}

static enum MHD_Result hand_over(struct http_request *request, const char *data, size_t *size)
{
        request->handler->on_body(request->data, data, *size);
        renew_deadline(request, *size);
        *size = 0;
        if (request->is_held && !request->is_gone)
                http_request_suspend(request);
        return request->is_gone ? MHD_NO : MHD_YES;
}

/* MHD_queue_response is not possible in the middle of a body, so the body is read to its end, up
 * to a limit. */
static enum MHD_Result discard(struct http_request *request, size_t *size)
{
        request->discarded += *size;
        *size = 0;
        return request->discarded > DISCARD_TIMES * (uint64_t)request->server->options.body_bytes_max ? MHD_NO
                                                                                                      : MHD_YES;
}

static enum MHD_Result take_body(struct http_request *request, const char *data, size_t *size)
{
        if (request->is_gone)
                return MHD_NO;
        /* libmicrohttpd (0.9.75, process_request_body) hands over the other chunks of its buffer
         * although the first one suspended the connection. It keeps bytes that are not taken. */
        if (request->is_suspended)
                return MHD_YES;
        if (takes_body(request) && (!request->response || request->is_stream))
                return hand_over(request, data, size);
        if (request->response || request->is_too_large)
                return discard(request, size);
        if (buf_append(&request->body, data, *size) < 0) {
                request->is_too_large = 1;
                buf_done(&request->body);
        }
        *size = 0;
        return MHD_YES;
}

static void take_end(struct http_request *request)
{
        request->is_asked = 1;
        request->connection->deadline_ns = 0;
        if (request->is_too_large)
                too_large(request);
        else if (request->response && !request->is_stream)
                ;
        else if (!request->handler)
                request->server->options.on_request(request->server->options.data, request);
        else if (request->handler->on_whole)
                request->handler->on_whole(request->data);
}

static enum MHD_Result finish(struct http_request *request)
{
        if (!request->is_asked && !request->is_gone)
                take_end(request);
        if (request->is_gone)
                return MHD_NO;
        if (request->response)
                return send_answer(request);
        http_request_suspend(request);
        return MHD_YES;
}

static enum MHD_Result on_access(void *data, struct MHD_Connection *mhd, const char *path, const char *verb,
                                 const char *version, const char *body, size_t *body_size, void **ret_request)
{
        struct http_request *request = *ret_request;

        (void)data;
        (void)mhd;
        (void)version;
        intake_progress();
        if (!request)
                return MHD_NO; /* out of memory */
        if (!request->is_begun)
                return begin(request, path, verb);
        if (request->is_answered)
                return MHD_YES;
        return *body_size > 0 ? take_body(request, body, body_size) : finish(request);
}

static void request_free(struct http_request *request)
{
        for (unsigned i = 0; i < request->header_count; i++) {
                free(request->headers[i].name);
                free(request->headers[i].value);
        }
        free(request->headers);
        buf_done(&request->body);
        buf_done(&request->stream);
        free(request->path);
        free(request->target);
        free(request);
}

static void on_completed(void *data, struct MHD_Connection *mhd, void **slot, enum MHD_RequestTerminationCode code)
{
        struct http_request *request = *slot;

        (void)data;
        (void)mhd;
        (void)code;
        intake_progress();
        if (!request)
                return;
        *slot = NULL;
        request->is_gone = 1;
        if (request->tunnel)
                tunnel_request_over(request->tunnel);
        http_request_over(request);
        http_request_unwatch(request);
        if (request->websocket)
                websocket_request_over(request->websocket);
        TAILQ_REMOVE(&request->server->requests, request, link);
        if (request->response && !request->is_answered)
                MHD_destroy_response(request->response);
        request->connection->deadline_ns = clock_now_ns() + REQUEST_NS;
        request_free(request);
}

/* -- connections ---------------------------------------------------------------------------------------------- */

/* Called before libmicrohttpd closes the socket (0.9.75, cleanup_connection). */
static void keep_unread(struct http_server *server, const struct http_connection *connection)
{
        int fd = connection->is_local ? peer_copy_unread(connection->fd) : -EBADF;
        struct http_leaving *leaving = fd < 0 ? NULL : malloc(sizeof(*leaving));

        if (!leaving) {
                peer_close(&fd);
                return;
        }
        leaving->fd = fd;
        STAILQ_INSERT_TAIL(&server->leaving, leaving, link);
}

static void close_leaving(struct http_server *server)
{
        struct http_leaving *leaving;

        while ((leaving = STAILQ_FIRST(&server->leaving))) {
                STAILQ_REMOVE_HEAD(&server->leaving, link);
                peer_close(&leaving->fd);
                free(leaving);
        }
}

static void on_connection(void *data, struct MHD_Connection *mhd, void **slot, enum MHD_ConnectionNotificationCode code)
{
        struct http_server *server = data;
        struct http_connection *connection = *slot;

        (void)mhd;
        if (code == MHD_CONNECTION_NOTIFY_STARTED) {
                *slot = server->taking;
                server->taking = NULL;
                return;
        }
        TAILQ_REMOVE(&server->connections, connection, link);
        intake_remove(connection);
        keep_unread(server, connection);
        if (connection->unread_bytes && !connection->is_local)
                linger_begin(&server->lingers, connection->fd, connection->unread_bytes, clock_now_ns());
        server->options.on_closed(server->options.data, connection->data);
        free(connection);
}

static struct http_connection *connection_new(struct http_server *server, int fd, int is_tls, void *data)
{
        struct http_connection *connection = calloc(1, sizeof(*connection));

        if (!connection)
                return NULL;
        connection->fd = fd;
        connection->is_tls = is_tls;
        connection->data = data;
        connection->deadline_ns = clock_now_ns() + REQUEST_NS;
        if (intake_add(connection) < 0) {
                free(connection);
                return NULL;
        }
        TAILQ_INSERT_TAIL(&server->connections, connection, link);
        return connection;
}

int http_server_take(struct http_server *server, int fd, int is_tls, void *socket_data, struct http_connection **ret,
                     struct cloche_err *e)
{
        struct sockaddr_storage address = {.ss_family = AF_UNIX};
        socklen_t size = sizeof(address);
        struct http_connection *connection = connection_new(server, fd, is_tls, socket_data);

        if (!connection) {
                peer_close(&fd);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "accept a connection");
        }
        (void)getpeername(fd, (struct sockaddr *)&address, &size);
        connection->is_local = address.ss_family == AF_UNIX;
        *ret = server->taking = connection;
        server->is_due = 1;
        if (MHD_add_connection(server->daemons[is_tls].mhd, fd, (struct sockaddr *)&address, sizeof(address)) ==
            MHD_YES)
                return 0;
        /* The socket was closed. on_connection has run or not, depending on the point of
         * failure. */
        if (server->taking) {
                TAILQ_REMOVE(&server->connections, connection, link);
                intake_remove(connection);
                free(connection);
                server->taking = NULL;
                server->options.on_closed(server->options.data, socket_data);
        }
        return err_set(e, CLOCHE_E_RESOURCE, "the HTTP server did not accept a connection");
}

/* libmicrohttpd then reads the end of the stream and closes the socket in its own time. */
void http_server_cut(struct http_server *server, struct http_connection *connection)
{
        (void)shutdown(connection->fd, SHUT_RDWR);
        connection->deadline_ns = 0;
        server->is_due = 1;
}

void http_server_sweep(struct http_server *server, uint64_t now_ns)
{
        struct http_connection *connection;
        struct http_request *request;

        lingers_sweep(&server->lingers, now_ns);
        TAILQ_FOREACH (request, &server->requests, link)
                http_request_keep_awake(request, now_ns);
        TAILQ_FOREACH (connection, &server->connections, link)
                if (connection->deadline_ns && now_ns > connection->deadline_ns)
                        http_server_cut(server, connection);
}

/* -- turns ---------------------------------------------------------------------------------------------------- */

static void on_poll(uv_poll_t *poll, int status, int events)
{
        struct http_server *server = poll->data;

        (void)status;
        (void)events;
        server->is_due = 1;
}

static void on_timer(uv_timer_t *timer)
{
        struct http_server *server = timer->data;

        server->is_due = 1;
}

static void set_timer(struct http_daemon *daemon)
{
        MHD_UNSIGNED_LONG_LONG ms;

        int only_waited = intake_only_waited();

        if (MHD_get_timeout(daemon->mhd, &ms) == MHD_YES)
                uv_timer_start(daemon->timer, on_timer, ms == 0 && only_waited ? HANDSHAKE_MS : ms, 0);
        else
                uv_timer_stop(daemon->timer);
}

void http_server_turn(struct http_server *server)
{
        if (!server->is_due)
                return;
        server->is_due = 0;
        for (int i = 0; i < 2; i++)
                if (server->daemons[i].mhd) {
                        MHD_run(server->daemons[i].mhd);
                        set_timer(&server->daemons[i]);
                }
        close_leaving(server);
}

/* -- life ----------------------------------------------------------------------------------------------------- */

/* Paths are used undecoded: no name of ours needs an escape, and undecoded text cannot hide a NUL
 * or a slash. */
static size_t keep_escapes(void *data, struct MHD_Connection *mhd, char *text)
{
        (void)data;
        (void)mhd;
        return strlen(text);
}

static int open_daemon(struct http_server *server, struct http_daemon *daemon, int is_tls, struct cloche_err *e)
{
        unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_ALLOW_UPGRADE |
                         (is_tls ? MHD_USE_TLS : 0);
        const struct MHD_OptionItem tls[] = {
                {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)server->options.tls_certificate},
                {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)server->options.tls_key},
                {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)TLS_PRIORITIES},
                {MHD_OPTION_END, 0, NULL},
        };
        const union MHD_DaemonInfo *info;

        daemon->mhd =
                MHD_start_daemon(flags, 0, NULL, NULL, on_access, server, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
                                 server, MHD_OPTION_NOTIFY_CONNECTION, on_connection, server,
                                 MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
                                 MHD_OPTION_CONNECTION_LIMIT, server->options.connections_max,
                                 MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS,
                                 /* framing.h is strict; with this option, a head without Host
                                  * would get two answers (0.9.75) */
                                 MHD_OPTION_STRICT_FOR_CLIENT, 0, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,
                                 MHD_OPTION_URI_LOG_CALLBACK, on_target, server, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
                                 MHD_OPTION_ARRAY, is_tls ? tls : tls + 3, MHD_OPTION_END);
        info = daemon->mhd ? MHD_get_daemon_info(daemon->mhd, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
        if (!info)
                return is_tls ? err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                        "the certificate and key cannot be used: expected a PEM certificate (chain) "
                                        "and its private key")
                              : err_set(e, CLOCHE_E_RESOURCE, "the HTTP server could not be started");
        daemon->poll = malloc(sizeof(*daemon->poll));
        daemon->timer = malloc(sizeof(*daemon->timer));
        if (!daemon->poll || !daemon->timer || uv_poll_init(server->options.loop, daemon->poll, info->epoll_fd) < 0) {
                free(daemon->poll);
                free(daemon->timer);
                daemon->poll = NULL;
                daemon->timer = NULL;
                return err_set(e, CLOCHE_E_RESOURCE, "the HTTP server cannot be watched");
        }
        uv_timer_init(server->options.loop, daemon->timer);
        daemon->poll->data = daemon->timer->data = server;
        uv_poll_start(daemon->poll, UV_READABLE, on_poll);
        return 0;
}

int http_server_new(const struct http_options *opt, struct http_server **ret, struct cloche_err *e)
{
        struct http_server *server = calloc(1, sizeof(*server));
        int r;

        if (!server)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start the HTTP server");
        server->options = *opt;
        TAILQ_INIT(&server->connections);
        TAILQ_INIT(&server->requests);
        STAILQ_INIT(&server->leaving);
        lingers_init(&server->lingers, opt->loop);
        r = open_daemon(server, &server->daemons[0], 0, e);
        if (r == 0 && opt->tls_key)
                r = open_daemon(server, &server->daemons[1], 1, e);
        if (r < 0) {
                http_server_free(server);
                return r;
        }
        *ret = server;
        return 0;
}

int http_server_has_tls(const struct http_server *server)
{
        return server->daemons[1].mhd != NULL;
}

static void close_daemon(struct http_daemon *daemon)
{
        if (daemon->poll)
                uv_close((uv_handle_t *)daemon->poll, on_handle_closed);
        if (daemon->timer)
                uv_close((uv_handle_t *)daemon->timer, on_handle_closed);
        if (daemon->mhd)
                MHD_stop_daemon(daemon->mhd);
}

unsigned http_server_open(const struct http_server *server)
{
        const struct http_request *request;
        unsigned count = 0;

        TAILQ_FOREACH (request, &server->requests, link)
                count += request->is_begun && !request->websocket && !request->tunnel;
        return count;
}

/* MHD_stop_daemon requires that no request is suspended and no WebSocket open. */
static void end_requests(struct http_server *server)
{
        struct http_request *request;

        TAILQ_FOREACH (request, &server->requests, link)
                if (request->websocket)
                        websocket_close(request->websocket, 1001, "");
                else if (request->tunnel)
                        tunnel_end(request->tunnel);
                else
                        http_request_gone(request);
        for (int i = 0; i < 8 && !TAILQ_EMPTY(&server->requests); i++) {
                server->is_due = 1;
                http_server_turn(server);
        }
}

void http_server_free(struct http_server *server)
{
        if (!server)
                return;
        end_requests(server);
        for (int i = 0; i < 2; i++)
                close_daemon(&server->daemons[i]);
        close_leaving(server);
        lingers_done(&server->lingers);
        free(server);
}
