#include "server.h"
#include "server-internal.h"

#include "base/clock.h"
#include "base/err.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTION_MEMORY (32u << 10) /* head of a request, and what is read and written at one time */
#define IDLE_SECONDS 75               /* without a byte */
#define REQUEST_NS UINT64_C(120000000000) /* from one answer to the end of the next request */
#define DISCARD_TIMES 4 /* so many times the most is read of a body that is too large, to be able to say so */
#define DISCARD_BYTES (1u << 20) /* of a body whose request is refused anyway */
#define STREAM_BLOCK (32u << 10)
#define STREAM_BYTES_MAX (1u << 30)

/* -- handles -------------------------------------------------------------------------------------------------- */

static void on_handle_closed(uv_handle_t *handle)
{
        free(handle);
}

/* Who waits for an answer is not read from meanwhile, so his end must be looked for: libmicrohttpd does not poll a connection that
 * is suspended. */
static void on_gone(uv_poll_t *poll, int status, int events)
{
        struct http_request *request = poll->data;

        if (status == 0 && !(events & UV_DISCONNECT))
                return;
        http_request_gone(request);
}

static void unwatch(struct http_request *request)
{
        if (request->watch)
                uv_close((uv_handle_t *)request->watch, on_handle_closed);
        request->watch = NULL;
}

static void watch(struct http_request *request)
{
        if (request->watch)
                return;
        request->watch = malloc(sizeof(*request->watch));
        if (!request->watch)
                return;
        if (uv_poll_init(request->server->options.loop, request->watch, request->connection->fd) < 0) {
                free(request->watch);
                request->watch = NULL;
                return;
        }
        request->watch->data = request;
        uv_poll_start(request->watch, UV_DISCONNECT, on_gone);
}

/* -- suspending ----------------------------------------------------------------------------------------------- */

static void suspend(struct http_request *request)
{
        MHD_suspend_connection(request->mhd);
        request->is_suspended = 1;
        watch(request);
}

static void resume(struct http_request *request)
{
        if (!request->is_suspended)
                return;
        request->is_suspended = 0;
        unwatch(request);
        MHD_resume_connection(request->mhd);
        request->server->is_due = 1;
}

static void over(struct http_request *request)
{
        if (!request->is_over)
                request->server->options.on_over(request->server->options.data, request);
        request->is_over = 1;
}

void http_request_gone(struct http_request *request)
{
        request->is_gone = 1;
        over(request);
        resume(request);
}

/* -- a request ------------------------------------------------------------------------------------------------ */

const char *http_request_verb(const struct http_request *request)
{
        return request->verb;
}

const char *http_request_path(const struct http_request *request)
{
        return request->path;
}

const char *http_request_header(const struct http_request *request, const char *name)
{
        return MHD_lookup_connection_value(request->mhd, MHD_HEADER_KIND, name);
}

const struct buf *http_request_body(const struct http_request *request)
{
        return &request->body;
}

void *http_request_socket_data(const struct http_request *request)
{
        return request->connection->data;
}

void *http_request_data(const struct http_request *request)
{
        return request->data;
}

void http_request_set_data(struct http_request *request, void *data)
{
        request->data = data;
}

/* -- answering ------------------------------------------------------------------------------------------------ */

void http_add_header(struct http_request *request, const char *name, const char *value)
{
        if (request->header_count < HTTP_HEADERS_MAX)
                request->headers[request->header_count++] = (struct http_header){name, value};
}

static void add_headers(const struct http_request *request, const char *type)
{
        if (type)
                MHD_add_response_header(request->response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
        MHD_add_response_header(request->response, "X-Content-Type-Options", "nosniff");
        MHD_add_response_header(request->response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
        for (unsigned i = 0; i < request->header_count; i++)
                MHD_add_response_header(request->response, request->headers[i].name, request->headers[i].value);
}

void http_answer(struct http_request *request, unsigned status, const char *type, const void *body, size_t size)
{
        if (request->response || request->is_gone)
                return;
        request->response = MHD_create_response_from_buffer(size, (void *)body, MHD_RESPMEM_MUST_COPY);
        if (!request->response) {
                http_request_gone(request);
                return;
        }
        request->status = status;
        add_headers(request, type);
        resume(request);
}

/* -- streams -------------------------------------------------------------------------------------------------- */

static ssize_t read_stream(void *data, uint64_t position, char *to, size_t room)
{
        struct http_request *request = data;
        size_t size = request->stream.size < room ? request->stream.size : room;

        (void)position;
        if (request->is_gone)
                return MHD_CONTENT_READER_END_WITH_ERROR;
        if (size == 0 && request->stream_ended)
                return MHD_CONTENT_READER_END_OF_STREAM;
        if (size == 0) {
                suspend(request);
                return 0;
        }
        memcpy(to, request->stream.data, size);
        buf_consume(&request->stream, size);
        request->server->options.on_taken(request->server->options.data, request, size);
        return (ssize_t)size;
}

void http_stream(struct http_request *request)
{
        if (request->response || request->is_gone)
                return;
        request->stream = BUF_INIT(STREAM_BYTES_MAX);
        request->response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, read_stream, request, NULL);
        if (!request->response) {
                http_request_gone(request);
                return;
        }
        request->status = MHD_HTTP_OK;
        request->is_stream = 1;
        add_headers(request, "text/event-stream");
        resume(request);
}

int http_stream_event(struct http_request *request, const char *event, const char *text)
{
        size_t before = request->stream.size;
        int r = buf_append(&request->stream, "event: ", 7);

        if (request->is_gone)
                return 0;
        if (r == 0)
                r = buf_append(&request->stream, event, strlen(event));
        if (r == 0)
                r = buf_append(&request->stream, "\ndata: ", 7);
        if (r == 0)
                r = buf_append(&request->stream, text, strlen(text));
        if (r == 0)
                r = buf_append(&request->stream, "\n\n", 2);
        if (r < 0)
                request->stream.size = before;
        resume(request);
        return r;
}

size_t http_stream_waiting(const struct http_request *request)
{
        return request->stream.size;
}

void http_stream_end(struct http_request *request)
{
        request->stream_ended = 1;
        resume(request);
}

/* -- libmicrohttpd's side: requests --------------------------------------------------------------------------- */

static struct http_request *request_new(struct http_server *server, struct MHD_Connection *mhd, const char *path, const char *verb)
{
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
        struct http_request *request = calloc(1, sizeof(*request));

        if (!request)
                return NULL;
        request->server = server;
        request->mhd = mhd;
        request->connection = info->socket_context;
        request->body = BUF_INIT(server->options.body_bytes_max);
        TAILQ_INSERT_TAIL(&server->requests, request, link);
        snprintf(request->verb, sizeof(request->verb), "%s", verb);
        request->path = strdup(path);
        if (!request->path) {
                TAILQ_REMOVE(&server->requests, request, link);
                free(request);
                return NULL;
        }
        return request;
}

static enum MHD_Result send_answer(struct http_request *request)
{
        enum MHD_Result r = MHD_queue_response(request->mhd, request->status, request->response);

        MHD_destroy_response(request->response); /* ours; the connection keeps its own */
        request->is_answered = 1;
        if (!request->is_stream && request->status != MHD_HTTP_SWITCHING_PROTOCOLS)
                over(request);
        return r;
}

static int is_over_length(const struct http_request *request)
{
        const char *length = http_request_header(request, MHD_HTTP_HEADER_CONTENT_LENGTH);

        return length && strtoull(length, NULL, 10) > request->server->options.body_bytes_max;
}

static int has_large_body(const struct http_request *request)
{
        const char *length = http_request_header(request, MHD_HTTP_HEADER_CONTENT_LENGTH);

        return (length && strtoull(length, NULL, 10) > DISCARD_BYTES) || http_request_header(request, MHD_HTTP_HEADER_TRANSFER_ENCODING);
}

static void too_large(struct http_request *request)
{
        static const char text[] =
                "{\"error\":{\"name\":\"too_large\",\"fault\":\"caller\",\"message\":\"the body is larger than is taken\"}}";

        http_answer(request, MHD_HTTP_CONTENT_TOO_LARGE, "application/json", text, strlen(text));
}

static enum MHD_Result begin(struct http_request *request)
{
        if (is_over_length(request))
                too_large(request);
        else
                request->server->options.on_head(request->server->options.data, request);
        /* An answer before the body's end closes the connection, and whoever is still writing may never read it (the kernel answers
         * him with a reset): it waits, unless there is much to come. */
        if (request->response && has_large_body(request))
                return send_answer(request);
        return request->is_gone ? MHD_NO : MHD_YES;
}

/* No answer can be given in the middle of a body (MHD_queue_response): it is read to its end, if that is not too far. */
static enum MHD_Result take_body(struct http_request *request, const char *data, size_t *size)
{
        request->body_total += *size;
        if (request->body_total > DISCARD_TIMES * (uint64_t)request->server->options.body_bytes_max)
                return MHD_NO;
        if (!request->response && !request->is_too_large && buf_append(&request->body, data, *size) < 0) {
                request->is_too_large = 1;
                buf_done(&request->body);
        }
        *size = 0;
        return MHD_YES;
}

static enum MHD_Result finish(struct http_request *request)
{
        if (!request->is_asked) {
                request->is_asked = 1;
                request->connection->deadline_ns = 0;
                if (request->is_too_large)
                        too_large(request);
                else if (!request->response)
                        request->server->options.on_request(request->server->options.data, request);
        }
        if (request->is_gone)
                return MHD_NO;
        if (request->response)
                return send_answer(request);
        suspend(request);
        return MHD_YES;
}

static enum MHD_Result on_access(void *data, struct MHD_Connection *mhd, const char *path, const char *verb, const char *version,
                                 const char *body, size_t *body_size, void **ret_request)
{
        struct http_request *request = *ret_request;

        (void)version;
        if (!request) {
                request = request_new(data, mhd, path, verb);
                *ret_request = request;
                return request ? begin(request) : MHD_NO;
        }
        if (request->is_answered)
                return MHD_YES;
        return *body_size > 0 ? take_body(request, body, body_size) : finish(request);
}

static void on_completed(void *data, struct MHD_Connection *mhd, void **slot, enum MHD_RequestTerminationCode code)
{
        struct http_request *request = *slot;

        (void)data;
        (void)mhd;
        (void)code;
        if (!request)
                return;
        *slot = NULL;
        request->is_gone = 1;
        over(request);
        unwatch(request);
        if (request->websocket)
                websocket_request_over(request->websocket);
        TAILQ_REMOVE(&request->server->requests, request, link);
        if (request->response && !request->is_answered)
                MHD_destroy_response(request->response);
        request->connection->deadline_ns = clock_now_ns() + REQUEST_NS;
        buf_done(&request->body);
        buf_done(&request->stream);
        free(request->path);
        free(request);
}

/* -- connections ---------------------------------------------------------------------------------------------- */

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
        server->options.on_closed(server->options.data, connection->data);
        free(connection);
}

static struct http_connection *connection_new(struct http_server *server, int fd, void *data)
{
        struct http_connection *connection = calloc(1, sizeof(*connection));

        if (!connection)
                return NULL;
        connection->fd = fd;
        connection->data = data;
        connection->deadline_ns = clock_now_ns() + REQUEST_NS;
        TAILQ_INSERT_TAIL(&server->connections, connection, link);
        return connection;
}

int http_server_take(struct http_server *server, int fd, int is_tls, void *socket_data, struct cloche_err *e)
{
        struct sockaddr_storage address = {.ss_family = AF_UNIX};
        socklen_t size = sizeof(address);
        struct http_connection *connection = connection_new(server, fd, socket_data);

        if (!connection) {
                close(fd);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "take a connection");
        }
        (void)getpeername(fd, (struct sockaddr *)&address, &size);
        server->taking = connection;
        server->is_due = 1;
        if (MHD_add_connection(server->daemons[is_tls].mhd, fd, (struct sockaddr *)&address, sizeof(address)) == MHD_YES)
                return 0;
        /* It was closed; whether we were told depends on how far it came. */
        if (server->taking) {
                TAILQ_REMOVE(&server->connections, connection, link);
                free(connection);
                server->taking = NULL;
                server->options.on_closed(server->options.data, socket_data);
        }
        return err_set(e, CLOCHE_E_RESOURCE, "the HTTP server takes no connection");
}

void http_server_sweep(struct http_server *server, uint64_t now_ns)
{
        struct http_connection *connection;

        /* libmicrohttpd then reads the end, and closes it in its own time. */
        TAILQ_FOREACH(connection, &server->connections, link)
                if (connection->deadline_ns && now_ns > connection->deadline_ns) {
                        (void)shutdown(connection->fd, SHUT_RDWR);
                        connection->deadline_ns = 0;
                }
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

        if (MHD_get_timeout(daemon->mhd, &ms) == MHD_YES)
                uv_timer_start(daemon->timer, on_timer, ms, 0);
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
}

/* -- life ----------------------------------------------------------------------------------------------------- */

/* Paths are taken as they come: no name of ours needs an escape, and what is not decoded cannot hide a NUL or a slash. */
static size_t keep_escapes(void *data, struct MHD_Connection *mhd, char *text)
{
        (void)data;
        (void)mhd;
        return strlen(text);
}

static int open_daemon(struct http_server *server, struct http_daemon *daemon, int is_tls, struct cloche_err *e)
{
        unsigned flags =
                MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_ALLOW_UPGRADE | (is_tls ? MHD_USE_TLS : 0);
        const struct MHD_OptionItem tls[] = {
                {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)server->options.tls_certificate},
                {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)server->options.tls_key},
                {MHD_OPTION_END, 0, NULL},
        };
        const union MHD_DaemonInfo *info;

        daemon->mhd = MHD_start_daemon(flags, 0, NULL, NULL, on_access, server, MHD_OPTION_NOTIFY_COMPLETED, on_completed, server,
                                       MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                                       (size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_LIMIT, server->options.connections_max,
                                       MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS, MHD_OPTION_STRICT_FOR_CLIENT, 1,
                                       MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
                                       MHD_OPTION_ARRAY, is_tls ? tls : tls + 2, MHD_OPTION_END);
        info = daemon->mhd ? MHD_get_daemon_info(daemon->mhd, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
        if (!info)
                return is_tls ? err_set(e, CLOCHE_E_INVALID_ARGUMENT, "TLS cannot be had with this certificate and key")
                              : err_set(e, CLOCHE_E_RESOURCE, "the HTTP server does not start");
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

        TAILQ_FOREACH(request, &server->requests, link)
                count += !request->websocket;
        return count;
}

/* None may be suspended, nor a WebSocket, when libmicrohttpd stops (MHD_stop_daemon). */
static void end_requests(struct http_server *server)
{
        struct http_request *request;

        TAILQ_FOREACH(request, &server->requests, link)
                if (request->websocket)
                        websocket_close(request->websocket, 1001, "");
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
        free(server);
}
