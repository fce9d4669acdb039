/* Requests: their properties and their answers.
 * Runs in: cloched, on its loop. Requests come from anyone who can connect. */
#include "intake.h"
#include "server-internal.h"

#include "base/clock.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define STREAM_BLOCK (32u << 10)
#define STREAM_BYTES_MAX (1u << 30)
/* Silence of an event stream before a comment is sent, so that proxies do not close it. */
#define QUIET_NS UINT64_C(15000000000)

/* -- suspending ----------------------------------------------------------------------------------------------- */

static void on_handle_closed(uv_handle_t *handle)
{
        free(handle);
}

/* libmicrohttpd does not poll a suspended connection, so this poll detects the client's
 * disconnect. */
static void on_gone(uv_poll_t *poll, int status, int events)
{
        struct http_request *request = poll->data;

        if (status == 0 && !(events & UV_DISCONNECT))
                return;
        http_request_gone(request);
}

void http_request_unwatch(struct http_request *request)
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

/* Once: a second call would insert the connection into libmicrohttpd's list of suspended ones
 * again, and it and others would never be served. */
void http_request_suspend(struct http_request *request)
{
        if (request->is_suspended)
                return;
        MHD_suspend_connection(request->mhd);
        request->is_suspended = 1;
        watch(request);
}

void http_request_resume(struct http_request *request)
{
        if (!request->is_suspended)
                return;
        request->is_suspended = 0;
        http_request_unwatch(request);
        MHD_resume_connection(request->mhd);
        request->server->is_due = 1;
}

void http_request_over(struct http_request *request)
{
        if (!request->is_over && request->handler && request->handler->on_over)
                request->handler->on_over(request->data);
        request->is_over = 1;
}

void http_request_gone(struct http_request *request)
{
        request->is_gone = 1;
        http_request_over(request);
        http_request_resume(request);
}

/* -- properties ----------------------------------------------------------------------------------------------- */

const char *http_request_verb(const struct http_request *request)
{
        return request->verb;
}

const char *http_request_path(const struct http_request *request)
{
        return request->path;
}

const char *http_request_target(const struct http_request *request)
{
        return request->target;
}

const char *http_request_query(const struct http_request *request)
{
        const char *mark = strchr(request->target, '?');

        return mark ? mark + 1 : "";
}

const char *http_request_header(const struct http_request *request, const char *name)
{
        return MHD_lookup_connection_value(request->mhd, MHD_HEADER_KIND, name);
}

struct each_header {
        int (*each)(void *data, const char *name, const char *value);
        void *data;
};

static enum MHD_Result on_header(void *data, enum MHD_ValueKind kind, const char *name, const char *value)
{
        const struct each_header *each = data;

        (void)kind;
        return each->each(each->data, name, value ? value : "") == 0 ? MHD_YES : MHD_NO;
}

void http_request_headers(const struct http_request *request,
                          int (*each)(void *data, const char *name, const char *value), void *data)
{
        struct each_header all = {each, data};

        MHD_get_connection_values(request->mhd, MHD_HEADER_KIND, on_header, &all);
}

int http_request_is_tls(const struct http_request *request)
{
        return request->connection->is_tls;
}

void http_request_peer(const struct http_request *request, char *ret, size_t size)
{
        struct sockaddr_storage address;
        socklen_t length = sizeof(address);

        if (getpeername(request->connection->fd, (struct sockaddr *)&address, &length) < 0 ||
            (address.ss_family != AF_INET && address.ss_family != AF_INET6) ||
            getnameinfo((struct sockaddr *)&address, length, ret, (socklen_t)size, NULL, 0, NI_NUMERICHOST) != 0)
                ret[0] = '\0';
}

const struct buf *http_request_body(const struct http_request *request)
{
        return &request->body;
}

void *http_request_socket_data(const struct http_request *request)
{
        return request->connection->data;
}

void http_request_handle(struct http_request *request, const struct http_handler *handler, void *data)
{
        request->handler = handler;
        request->data = data;
}

void http_body_limit(struct http_request *request, size_t bytes)
{
        request->body.max = bytes;
}

void http_body_hold(struct http_request *request, int hold)
{
        request->is_held = hold;
        if (!hold)
                http_request_resume(request);
}

/* -- answering ------------------------------------------------------------------------------------------------ */

void http_add_header(struct http_request *request, const char *name, const char *value)
{
        struct http_header *more;

        if (request->header_count == HTTP_HEADERS_MAX)
                return;
        more = realloc(request->headers, (request->header_count + 1) * sizeof(*more));
        if (!more)
                return;
        request->headers = more;
        more[request->header_count] = (struct http_header){strdup(name), strdup(value)};
        if (more[request->header_count].name && more[request->header_count].value) {
                request->header_count++;
                return;
        }
        free(more[request->header_count].name);
        free(more[request->header_count].value);
}

void http_set_foreign(struct http_request *request)
{
        request->is_foreign = 1;
}

void http_request_put_headers(const struct http_request *request)
{
        for (unsigned i = 0; i < request->header_count; i++)
                MHD_add_response_header(request->response, request->headers[i].name, request->headers[i].value);
}

static void add_headers(const struct http_request *request, const char *type)
{
        if (type)
                MHD_add_response_header(request->response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
        if (!request->is_foreign) {
                MHD_add_response_header(request->response, "X-Content-Type-Options", "nosniff");
                MHD_add_response_header(request->response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
        }
        http_request_put_headers(request);
}

/* Takes the response; NULL: out of memory. */
static void begin_response(struct http_request *request, unsigned status, const char *type,
                           struct MHD_Response *response)
{
        request->response = response;
        if (!response) {
                http_request_gone(request);
                return;
        }
        request->status = status;
        add_headers(request, type);
        http_request_resume(request);
}

void http_answer(struct http_request *request, unsigned status, const char *type, const void *body, size_t size)
{
        if (request->response || request->is_gone)
                return;
        begin_response(request, status, type,
                       MHD_create_response_from_buffer(size, (void *)body, MHD_RESPMEM_MUST_COPY));
}

/* -- streams -------------------------------------------------------------------------------------------------- */

static ssize_t read_stream(void *data, uint64_t position, char *to, size_t room)
{
        struct http_request *request = data;
        size_t size = request->stream.size - request->stream_at;

        (void)position;
        intake_progress();
        if (request->is_gone)
                return MHD_CONTENT_READER_END_WITH_ERROR;
        if (size == 0 && request->stream_ended)
                return MHD_CONTENT_READER_END_OF_STREAM;
        if (size == 0) {
                http_request_suspend(request);
                return 0;
        }
        size = size < room ? size : room;
        memcpy(to, request->stream.data + request->stream_at, size);
        request->stream_at += size;
        if (request->stream_at * 2 > request->stream.size) {
                buf_consume(&request->stream, request->stream_at);
                request->stream_at = 0;
        }
        if (request->handler && request->handler->on_taken)
                request->handler->on_taken(request->data);
        return (ssize_t)size;
}

void http_stream_raw(struct http_request *request, unsigned status, const char *type, int64_t length)
{
        struct MHD_Response *response;

        if (request->response || request->is_gone)
                return;
        request->stream = BUF_INIT(STREAM_BYTES_MAX);
        response = MHD_create_response_from_callback(length < 0 ? MHD_SIZE_UNKNOWN : (uint64_t)length, STREAM_BLOCK,
                                                     read_stream, request, NULL);
        request->is_stream = response != NULL;
        begin_response(request, status, type, response);
}

void http_stream(struct http_request *request)
{
        http_stream_raw(request, MHD_HTTP_OK, "text/event-stream", -1);
        request->is_events = request->is_stream;
        request->stream_said_ns = clock_now_ns();
}

int http_stream_write(struct http_request *request, const void *bytes, size_t size)
{
        int r = request->is_gone ? 0 : buf_append(&request->stream, bytes, size);

        http_request_resume(request);
        return r;
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
        request->stream_said_ns = clock_now_ns();
        http_request_resume(request);
        return r;
}

void http_request_keep_awake(struct http_request *request, uint64_t now_ns)
{
        if (!request->is_events || request->stream_ended || request->is_gone || http_stream_waiting(request) > 0 ||
            now_ns < request->stream_said_ns + QUIET_NS)
                return;
        request->stream_said_ns = now_ns;
        (void)http_stream_write(request, ":\n\n", 3);
}

size_t http_stream_waiting(const struct http_request *request)
{
        return request->stream.size - request->stream_at;
}

void http_stream_end(struct http_request *request)
{
        request->stream_ended = 1;
        http_request_resume(request);
}

void http_stream_break(struct http_request *request)
{
        buf_done(&request->stream); /* a client that does not read keeps its connection for a while */
        request->stream_at = 0;
        http_request_gone(request);
}
