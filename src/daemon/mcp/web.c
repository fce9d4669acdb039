/* The API over HTTP: POST, GET and DELETE of /mcp (Streamable HTTP). Runs in: cloched-engine, on
 * its loop, with the rights of the daemon's user. */
#include "internal.h"

#include "base/clock.h"
#include "base/err.h"
#include "daemon/core/log.h"
#include "daemon/http/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define JSON_TYPE "application/json"
#define STREAM_TYPE "text/event-stream"
#define SESSION "Mcp-Session-Id"
#define LAST_EVENT "Last-Event-ID"
#define VERSION "MCP-Protocol-Version"
#define RETRY_MS 500                  /* after which a client shall fetch the rest of a stream */
#define AWAY_NS UINT64_C(30000000000) /* a stream waits so long for its client */
#define KEPT_BYTES (16u << 20)        /* of the messages of a stream; the oldest are dropped */

/* A message of a client and the stream of its answer. The stream of a session outlives its
 * connection for a while: another one has the rest of it. */
struct mcp_post {
        TAILQ_ENTRY(mcp_post) link;
        struct mcp_exchange *x;
        struct wire *wire;         /* NULL: the client is away */
        char id[MCP_SESSION_SIZE]; /* of the stream; "": it is kept for nobody */
        json_t *kept;              /* texts of the messages, the first has the number first */
        size_t kept_bytes;
        unsigned long long first;
        int is_stream; /* the answer was begun */
        int is_over;   /* and is complete */
};

/* A request that carries a stream. */
struct wire {
        struct mcp_post *post; /* NULL: another request carries it now */
        struct http_request *request;
};

static void post_free(struct mcp_post *post)
{
        struct mcp *mcp = post->x->door.daemon->mcp;

        TAILQ_REMOVE(&mcp->posts, post, link);
        if (post->wire)
                post->wire->post = NULL;
        mcp_exchange_free(post->x);
        json_decref(post->kept);
        free(post);
}

void mcp_web_stop(struct mcp *mcp)
{
        while (!TAILQ_EMPTY(&mcp->posts))
                post_free(TAILQ_FIRST(&mcp->posts));
}

/* -- streams ----------------------------------------------------------------------------------------------------- */

/* message: stolen. */
static void send_message(struct http_request *request, unsigned status, json_t *message)
{
        char *text = json_dump_text(message, JSON_COMPACT);

        http_answer(request, text ? status : 500, JSON_TYPE, text ? text : "{}", text ? strlen(text) : 2);
        free(text);
        json_decref(message);
}

/* Clients of earlier versions take an event without data for a broken message. */
static int takes_priming(const struct http_request *request)
{
        const char *version = http_request_header(request, VERSION);

        return version && strcmp(version, "2025-11-25") >= 0;
}

static int is_accepted(const struct http_request *request, const char *type)
{
        const char *accept = http_request_header(request, "Accept");

        return accept && strstr(accept, type);
}

/* number 0: the event that a client can begin to resume from. */
static void send_event(const struct mcp_post *post, unsigned long long number, const char *text)
{
        _cleanup_buf_ struct buf event = BUF_INIT(SIZE_MAX);
        char head[120];
        int r;

        if (!post->id[0])
                snprintf(head, sizeof(head), "event: message\ndata: ");
        else if (number == 0)
                snprintf(head, sizeof(head), "id: %s-0\nretry: %d\ndata: ", post->id, RETRY_MS);
        else
                snprintf(head, sizeof(head), "id: %s-%llu\nevent: message\ndata: ", post->id, number);
        r = buf_append(&event, head, strlen(head));
        if (r == 0)
                r = buf_append(&event, text, strlen(text));
        if (r == 0)
                r = buf_append(&event, "\n\n", 2);
        if (r < 0 || http_stream_write(post->wire->request, event.data, event.size) < 0)
                log_event(LEVEL_WARNING, "message-lost", NULL);
}

static void keep(struct mcp_post *post, const char *text)
{
        if (!post->id[0])
                return;
        post->kept_bytes += strlen(text);
        json_array_append_new(post->kept, json_string(text));
        while (post->kept_bytes > KEPT_BYTES && json_array_size(post->kept) > 1) {
                post->kept_bytes -= json_string_length(json_array_get(post->kept, 0));
                json_array_remove(post->kept, 0);
                post->first++;
        }
}

/* message: stolen. */
static void put_event(struct mcp_post *post, json_t *message)
{
        char *text = json_dump_text(message, JSON_COMPACT);

        if (text)
                keep(post, text);
        if (text && post->wire)
                send_event(post, post->first + json_array_size(post->kept) - 1, text);
        free(text);
        json_decref(message);
}

static void begin_stream(struct http_request *request)
{
        http_add_header(request, "X-Accel-Buffering", "no");
        http_stream(request);
}

/* Only streams of a session are kept: no other client has a name for its own. */
static void open_stream(struct mcp_post *post)
{
        struct http_request *request = post->wire->request;

        post->is_stream = 1;
        begin_stream(request);
        if (!post->x->client || post->x->is_modern || !takes_priming(request))
                return;
        mcp_random_id(post->id);
        post->x->session = post->x->client->session; /* its request may end before it */
        post->kept = json_array();
        post->first = 1;
        send_event(post, 0, "");
}

static int notify(struct mcp_exchange *x, json_t *message)
{
        struct mcp_post *post = x->carried;

        if (post->is_over || (!post->is_stream && (!post->wire || !is_accepted(post->wire->request, STREAM_TYPE)))) {
                json_decref(message);
                return 0;
        }
        if (!post->is_stream)
                open_stream(post);
        if (post->wire && http_stream_waiting(post->wire->request) > KEPT_BYTES)
                json_decref(message); /* its client does not read; the answer still comes */
        else
                put_event(post, message);
        return 1;
}

static int is_behind(const struct mcp_exchange *x)
{
        const struct mcp_post *post = x->carried;

        return post->wire && post->is_stream && http_stream_waiting(post->wire->request) > DOOR_WAITING_BYTES;
}

static void answer(struct mcp_exchange *x, unsigned status, json_t *message)
{
        struct mcp_post *post = x->carried;
        struct http_request *request = post->wire ? post->wire->request : NULL;

        if (post->is_stream) {
                post->is_over = 1;
                if (message)
                        put_event(post, message);
                if (request)
                        http_stream_end(request);
                else if (!message)
                        post_free(post);
                return;
        }
        if (x->new_session[0])
                http_add_header(request, SESSION, x->new_session);
        if (message)
                send_message(request, status, message);
        else
                http_answer(request, status, NULL, "", 0);
}

static const char *header(const struct mcp_exchange *x, const char *name)
{
        const struct mcp_post *post = x->carried;

        return post->wire ? http_request_header(post->wire->request, name) : NULL;
}

static void adopt(struct mcp_exchange *x)
{
        struct mcp_post *post = x->carried;

        post->x = x;
}

static void lapse(struct mcp_exchange *x)
{
        post_free(x->carried);
}

static void detach(struct mcp_post *post)
{
        if (post->wire)
                post->wire->post = NULL;
        post->wire = NULL;
        post->x->lapse_ns = clock_now_ns() + AWAY_NS;
        mcp_watch_clock(post->x->door.daemon->mcp);
}

/* A stream that was cut is kept for its client; one that is complete was sent. */
static void on_over(void *data)
{
        struct wire *wire = data;
        struct mcp_post *post = wire->post;

        if (post && post->id[0] && !post->is_over)
                detach(post);
        else if (post)
                post_free(post);
        free(wire);
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

static void refuse(struct http_request *request, unsigned status, const char *text)
{
        struct cloche_err e = {0};

        err_set(&e, CLOCHE_E_INVALID_ARGUMENT, "%s", text);
        mcp_refuse_request(request, status, &e);
}

static int is_json(const struct http_request *request)
{
        const char *type = http_request_header(request, "Content-Type");

        return type && strncasecmp(type, JSON_TYPE, sizeof(JSON_TYPE) - 1) == 0 &&
               strchr("; ", type[sizeof(JSON_TYPE) - 1]);
}

/* Let the request carry the stream. 0: out of memory. */
static int attach(struct mcp_post *post, struct http_request *request)
{
        static const struct http_handler handler = {.on_over = on_over};
        struct wire *wire = malloc(sizeof(*wire));

        if (!wire)
                return 0;
        *wire = (struct wire){post, request};
        post->wire = wire;
        http_request_handle(request, &handler, wire);
        return 1;
}

/* NULL: the request is refused. */
static struct mcp_post *post_new(struct daemon *d, struct http_request *request, int64_t principal)
{
        static const struct mcp_carrier carrier = {.answer = answer,
                                                   .notify = notify,
                                                   .is_behind = is_behind,
                                                   .adopt = adopt,
                                                   .lapse = lapse,
                                                   .header = header};
        struct mcp_post *post = calloc(1, sizeof(*post));

        if (post)
                post->x = mcp_exchange_new(d, &carrier, post, principal);
        if (!post || !post->x || !attach(post, request)) {
                if (post && post->x)
                        mcp_exchange_free(post->x);
                free(post);
                refuse(request, 503, "the daemon has no memory for a message");
                return NULL;
        }
        TAILQ_INSERT_TAIL(&d->mcp->posts, post, link);
        post->x->session = http_request_header(request, SESSION);
        return post;
}

/* True, and the request is refused, if its session was ended. */
static int is_ended(struct daemon *d, struct http_request *request, int64_t principal)
{
        const struct mcp_exchange sender = {.door = {.daemon = d, .principal = principal},
                                            .session = http_request_header(request, SESSION)};
        const struct mcp_client *client = mcp_client_find(&sender);

        if (client && client->is_over)
                refuse(request, 404, "the session was ended: initialize another");
        return client && client->is_over;
}

static void on_post(struct daemon *d, struct http_request *request, int64_t principal)
{
        const struct buf *body = http_request_body(request);
        struct mcp_post *post;

        if (!is_json(request)) {
                refuse(request, 415, "the header Content-Type must be " JSON_TYPE);
                return;
        }
        post = post_new(d, request, principal);
        if (post)
                mcp_exchange_begin(post->x, body->data ? body->data : "", body->size);
}

/* -- GET: messages that answer no request, and the rest of streams ------------------------------------------------- */

/* event: ID-NUMBER. */
static struct mcp_post *find_stream(struct daemon *d, const struct http_request *request, int64_t principal,
                                    const char *event, unsigned long long *ret_number)
{
        const char *session = http_request_header(request, SESSION);
        struct mcp_post *post;

        TAILQ_FOREACH (post, &d->mcp->posts, link)
                if (post->id[0] && strncmp(event, post->id, MCP_SESSION_SIZE - 1) == 0 &&
                    event[MCP_SESSION_SIZE - 1] == '-' && post->x->door.principal == principal && session &&
                    post->x->client && strcmp(post->x->client->session, session) == 0) {
                        *ret_number = strtoull(event + MCP_SESSION_SIZE, NULL, 10);
                        return post;
                }
        return NULL;
}

static void resume(struct mcp_post *post, struct http_request *request, unsigned long long number)
{
        struct wire *before = post->wire;
        size_t i;
        json_t *text;

        detach(post);
        if (before && http_stream_waiting(before->request) > 0)
                http_stream_break(before->request); /* a client that reads none of them has one copy of its events */
        else if (before)
                http_stream_end(before->request);
        if (!attach(post, request)) {
                refuse(request, 503, "the daemon has no memory for a stream");
                return;
        }
        post->x->lapse_ns = 0;
        begin_stream(request);
        json_array_foreach (post->kept, i, text)
                if (post->first + i > number)
                        send_event(post, post->first + i, json_string_value(text));
        if (post->is_over)
                http_stream_end(request);
}

static void on_get(struct daemon *d, struct http_request *request, int64_t principal)
{
        const char *event = http_request_header(request, LAST_EVENT), *version = http_request_header(request, VERSION);
        unsigned long long number = 0;
        struct mcp_post *post = event ? find_stream(d, request, principal, event, &number) : NULL;

        if (version && strcmp(version, MCP_MODERN_VERSION) >= 0) {
                http_add_header(request, "Allow", "POST");
                refuse(request, 405, "since version " MCP_MODERN_VERSION " messages come by subscriptions/listen");
        } else if (!is_accepted(request, STREAM_TYPE)) {
                refuse(request, 406, "the header Accept must have " STREAM_TYPE);
        } else if (event && !post) {
                refuse(request, 404, "there is no such stream: it is complete, or its client was away for too long");
        } else if (post) {
                resume(post, request, number);
        } else {
                post = post_new(d, request, principal);
                if (post && mcp_listen(post->x))
                        open_stream(post);
                else if (post)
                        refuse(request, 400,
                               "messages to the client need the session that initialize returns, in the "
                               "header " SESSION);
        }
}

/* The session is remembered as ended. */
static void on_delete(struct daemon *d, struct http_request *request, int64_t principal)
{
        struct mcp_exchange sender = {.door = {.daemon = d, .principal = principal},
                                      .session = http_request_header(request, SESSION)};
        struct mcp_client *client = mcp_client_find(&sender);

        if (!client) {
                refuse(request, 404, "there is no such session");
                return;
        }
        client->is_over = 1;
        mcp_watches_end(client);
        if (client->listener)
                client->listener->carrier->answer(client->listener, 202, NULL);
        http_answer(request, 204, NULL, "", 0);
}

/* -- the table ---------------------------------------------------------------------------------------------------- */

static const struct verb {
        const char *name;
        void (*handle)(struct daemon *d, struct http_request *request, int64_t principal);
} verbs[] = {
        {"POST", on_post},
        {"GET", on_get},
        {"DELETE", on_delete},
};

void mcp_handle(struct daemon *d, struct http_request *request, int64_t principal)
{
        for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
                if (strcmp(verbs[i].name, http_request_verb(request)) == 0) {
                        if (!is_ended(d, request, principal))
                                verbs[i].handle(d, request, principal);
                        return;
                }
        http_add_header(request, "Allow", "POST, GET, DELETE");
        refuse(request, 405, "messages are sent by POST");
}

/* A server may end the stream of an answer that comes later; the client polls for it. */
int mcp_break_off(struct mcp_exchange *x)
{
        struct mcp_post *post = x->carrier->header == header ? x->carried : NULL;
        struct http_request *request;

        if (!post || !post->wire || post->is_stream || !is_accepted(post->wire->request, STREAM_TYPE))
                return 0;
        open_stream(post);
        if (!post->id[0])
                return 0;
        request = post->wire->request;
        detach(post);
        http_stream_end(request);
        return 1;
}
