/* The API over HTTP: POST /mcp (Streamable HTTP). Runs in: cloched-engine, on its loop, with the
 * rights of the daemon's user. */
#include "internal.h"

#include "base/err.h"
#include "base/hex.h"
#include "daemon/core/log.h"
#include "daemon/http/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#define JSON_TYPE "application/json"
#define SESSION "Mcp-Session-Id"

/* message: stolen. */
static void send_message(struct http_request *request, unsigned status, json_t *message)
{
        char *text = json_dump_text(message, JSON_COMPACT);

        http_answer(request, text ? status : 500, JSON_TYPE, text ? text : "{}", text ? strlen(text) : 2);
        free(text);
        json_decref(message);
}

/* The id lets a client of the earlier era cancel a request by another one. Nothing is kept of
 * it. */
static void add_session(struct http_request *request)
{
        unsigned char bytes[(MCP_SESSION_SIZE - 1) / 2];
        char id[MCP_SESSION_SIZE];

        while (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
                ;
        hex_write(id, bytes, sizeof(bytes));
        id[MCP_SESSION_SIZE - 1] = '\0';
        http_add_header(request, SESSION, id);
}

static int takes_stream(const struct http_request *request)
{
        const char *accept = http_request_header(request, "Accept");

        return accept && strstr(accept, "text/event-stream");
}

/* A message of a stream. message: stolen. */
static void send_event(struct http_request *request, json_t *message)
{
        char *text = json_dump_text(message, JSON_COMPACT);

        if (!text || http_stream_event(request, "message", text) < 0)
                log_event(LEVEL_WARNING, "message-lost", NULL);
        free(text);
        json_decref(message);
}

static void answer(struct mcp_exchange *x, unsigned status, json_t *message)
{
        struct http_request *request = x->carried;

        if (x->is_stream) {
                if (message)
                        send_event(request, message);
                http_stream_end(request);
        } else if (!message) {
                http_answer(request, status, NULL, "", 0);
        } else {
                if (x->method && strcmp(x->method, "initialize") == 0)
                        add_session(request);
                send_message(request, status, message);
        }
}

static void notify(struct mcp_exchange *x, json_t *message)
{
        struct http_request *request = x->carried;

        if (!takes_stream(request)) {
                json_decref(message);
                return;
        }
        if (!x->is_stream) {
                http_add_header(request, "X-Accel-Buffering", "no");
                http_stream(request);
                x->is_stream = 1;
        }
        send_event(request, message);
}

static const char *header(const struct mcp_exchange *x, const char *name)
{
        return http_request_header(x->carried, name);
}

static void on_over(void *data)
{
        mcp_exchange_free(data);
}

/* -- requests ---------------------------------------------------------------------------------------------------- */

int mcp_is_path(const struct daemon *d, const char *path)
{
        return d->options.is_mcp && strcmp(path, MCP_PATH) == 0;
}

void mcp_refuse_request(struct http_request *request, unsigned status, const struct cloche_err *e)
{
        if (status == 401)
                http_add_header(request, "WWW-Authenticate", "Bearer");
        send_message(request, status, mcp_error_message(MCP_INVALID_REQUEST, e->msg));
}

static int is_json(const struct http_request *request)
{
        const char *type = http_request_header(request, "Content-Type");

        return type && strncasecmp(type, JSON_TYPE, sizeof(JSON_TYPE) - 1) == 0 &&
               strchr("; ", type[sizeof(JSON_TYPE) - 1]);
}

void mcp_handle(struct daemon *d, struct http_request *request, int64_t principal)
{
        static const struct mcp_carrier carrier = {.answer = answer, .notify = notify, .header = header};
        static const struct http_handler handler = {.on_over = on_over};
        const struct buf *body = http_request_body(request);
        struct mcp_exchange *x;
        struct cloche_err e = {0};

        if (strcmp(http_request_verb(request), "POST") != 0) {
                http_add_header(request, "Allow", "POST");
                err_set(&e, CLOCHE_E_INVALID_ARGUMENT, "messages are sent by POST");
                mcp_refuse_request(request, 405, &e);
                return;
        }
        if (!is_json(request)) {
                err_set(&e, CLOCHE_E_INVALID_ARGUMENT, "the header Content-Type must be " JSON_TYPE);
                mcp_refuse_request(request, 415, &e);
                return;
        }
        x = mcp_exchange_new(d, &carrier, request, principal);
        if (!x) {
                err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "take a message");
                mcp_refuse_request(request, 503, &e);
                return;
        }
        x->session = http_request_header(request, SESSION);
        http_request_handle(request, &handler, x);
        mcp_exchange_begin(x, body->data ? body->data : "", body->size);
}
