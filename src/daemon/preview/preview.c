/* Ports of sandboxes over HTTP. Runs in: cloched-engine, on its loop, with the rights of the
 * daemon's user. */
#include "preview.h"
#include "answer.h"
#include "daemon/core/auth.h"
#include "daemon/core/connection.h"
#include "daemon/e2b/e2b.h"
#include "daemon/web/access.h"
#include "daemon/web/request.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/peer.h"
#include "daemon/http/forward.h"
#include "daemon/http/server.h"
#include "engine/loop/watch.h"
#include "sandbox/core/sandbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define OUT_HIGH_BYTES (256u << 10) /* unsent to the guest: over this the client is not read, */
#define OUT_LOW_BYTES (64u << 10)   /* until it is below this */
#define ANSWER_HIGH_BYTES (256u << 10)
/* An answer cannot be sent before the request body is complete. This much is buffered of an answer
 * from a guest that answers while it reads. */
#define ANSWER_EARLY_BYTES (16u << 20)
#define BLOCK (64u << 10)
#define HEAD_NS UINT64_C(120000000000) /* without progress, until the answer's head is complete */

/* A request that is forwarded to a port. */
struct proxy {
        TAILQ_ENTRY(proxy) link;
        struct daemon *daemon;
        struct http_request *request;
        struct sandbox_dial *dial;
        int fd;
        struct watch *watch;
        struct buf out; /* bytes for the guest, from out_at on */
        size_t out_at;
        struct answer answer;
        char *host;
        void (*failed)(struct http_request *request, const struct cloche_err *e);
        int is_chunked, is_whole, is_deaf; /* of the body; is_deaf: the guest reads no more of it */
        uint64_t deadline_ns;              /* 0: none */
};

/* -- the end -------------------------------------------------------------------------------------------------- */

static void unwatch(struct proxy *p)
{
        watch_close(p->watch);
        p->watch = NULL;
}

static void hang_up(struct proxy *p)
{
        unwatch(p);
        peer_discard_one(&p->fd);
        p->deadline_ns = 0;
}

static void on_over(void *data)
{
        struct proxy *p = data;

        hang_up(p);
        if (p->dial)
                sandbox_preview_close(p->dial);
        TAILQ_REMOVE(&p->daemon->proxies, p, link);
        answer_done(&p->answer);
        buf_done(&p->out);
        free(p->host);
        free(p);
}

static void fail(struct proxy *p, const struct cloche_err *e)
{
        hang_up(p);
        if (p->answer.is_begun)
                http_stream_break(p->request); /* p is freed */
        else if (p->failed)
                p->failed(p->request, e);
        else
                web_refuse(p->request, e);
}

static void on_slow(struct proxy *p)
{
        struct cloche_err e = {0};

        err_set(&e, CLOCHE_E_TIMEOUT, "the program at the port did not answer in %d s", (int)(HEAD_NS / 1000000000));
        hang_up(p);
        if (p->failed)
                p->failed(p->request, &e);
        else
                web_refuse_with(p->request, 504, &e, NULL);
}

void proxies_sweep(struct daemon *d, uint64_t now_ns)
{
        struct proxy *p, *next;

        for (p = TAILQ_FIRST(&d->proxies); p; p = next) {
                next = TAILQ_NEXT(p, link);
                if (p->deadline_ns && now_ns > p->deadline_ns)
                        on_slow(p);
        }
}

/* -- moving bytes --------------------------------------------------------------------------------------------- */

static size_t unsent(const struct proxy *p)
{
        return p->out.size - p->out_at;
}

/* Return the limit of the unsent answer: no byte is sent before the request body is complete. */
static size_t most_waiting(const struct proxy *p)
{
        return p->is_whole ? ANSWER_HIGH_BYTES : ANSWER_EARLY_BYTES;
}

static void update_watch(struct proxy *p)
{
        int events = (unsent(p) > 0 && !p->is_deaf ? UV_WRITABLE : 0) |
                     (http_stream_waiting(p->request) < most_waiting(p) ? UV_READABLE : 0);

        if (p->watch)
                watch_set(p->watch, events);
}

/* A guest that stops reading may still have answered. */
static void write_out(struct proxy *p)
{
        while (p->fd >= 0 && unsent(p) > 0 && !p->is_deaf) {
                ssize_t n = send(p->fd, p->out.data + p->out_at, unsent(p), MSG_DONTWAIT | MSG_NOSIGNAL);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        break;
                p->is_deaf = n < 0;
                p->out_at += n < 0 ? 0 : (size_t)n;
                if (p->deadline_ns)
                        p->deadline_ns = clock_now_ns() + HEAD_NS;
        }
        if (unsent(p) == 0 || p->is_deaf)
                p->out.size = p->out_at = 0;
        else if (p->out_at * 2 > p->out.size) {
                buf_consume(&p->out, p->out_at);
                p->out_at = 0;
        }
        if (unsent(p) <= OUT_LOW_BYTES && (p->fd >= 0 || p->answer.is_done))
                http_body_hold(p->request, 0);
        update_watch(p);
}

static void become_tunnel(struct proxy *p, const char *rest, size_t size)
{
        struct cloche_err e = {0};

        unwatch(p);
        p->deadline_ns = 0;
        if (http_tunnel(p->request, TAKE_FD(p->fd), rest, size, &e) < 0)
                fail(p, &e);
}

static void read_in(struct proxy *p)
{
        static char bytes[1 + BLOCK]; /* one thread uses it, and no bytes stay in it */
        struct cloche_err e = {0};
        size_t size;
        ssize_t n;

        do
                n = recv(p->fd, bytes + 1, BLOCK, MSG_DONTWAIT);
        while (n < 0 && errno == EINTR);
        if (n < 0 && errno == EAGAIN)
                return;
        size = n < 0 ? 0 : (size_t)n;
        if (answer_take(&p->answer, bytes, &size, &e) < 0) {
                fail(p, &e);
                return;
        }
        if (p->answer.is_begun)
                p->deadline_ns = 0;
        if (p->answer.is_upgrade) {
                become_tunnel(p, bytes + p->answer.read, size - p->answer.read);
        } else if (p->answer.is_done) {
                hang_up(p);
                http_body_hold(p->request, 0);
                http_stream_end(p->request);
        } else if (http_stream_waiting(p->request) >= ANSWER_EARLY_BYTES) {
                err_set(&e, CLOCHE_E_PROTOCOL,
                        "the program at the port answered with more than %u bytes before it had the whole request",
                        ANSWER_EARLY_BYTES);
                fail(p, &e);
        } else {
                update_watch(p);
        }
}

static void on_event(void *data, int status, int events)
{
        struct proxy *p = data;

        if (events & UV_WRITABLE)
                write_out(p);
        if (p->watch && (status < 0 || (events & UV_READABLE)))
                read_in(p);
}

/* -- the forwarded request ------------------------------------------------------------------------------------ */

static int add(struct proxy *p, const char *text)
{
        return buf_append(&p->out, text, strlen(text));
}

static int add_header(struct proxy *p, const char *name, const char *value)
{
        return add(p, name) || add(p, ": ") || add(p, value) || add(p, "\r\n");
}

/* Headers about the message framing or the client are replaced. */
static int is_written_anew(const char *name)
{
        static const char *const names[] = {"Host",
                                            "Content-Length",
                                            "Expect",
                                            "Forwarded",
                                            "X-Forwarded-For",
                                            "X-Forwarded-Host",
                                            "X-Forwarded-Proto",
                                            "X-Real-IP"};

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (strcasecmp(name, names[i]) == 0)
                        return 1;
        return 0;
}

struct forwarding {
        struct proxy *proxy;
        const char *connection;
        int r;
};

static int is_word(const char *name)
{
        return *name &&
               name[strspn(name, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")] ==
                       '\0';
}

static int on_header(void *data, const char *name, const char *value)
{
        struct forwarding *f = data;

        if (!is_word(name) || !forward_is_clean(value))
                f->r = -CLOCHE_E_INVALID_ARGUMENT;
        else if (is_written_anew(name) || forward_is_hop(name, f->connection) ||
                 /* The daemon's token, the key of E2B's clients and tokens of ports are never
                  * passed to a guest, whoever sends them. */
                 e2b_is_secret(f->proxy->daemon, name, value) ||
                 (strcasecmp(name, "Authorization") == 0 &&
                  web_has_token(&f->proxy->daemon->options, f->proxy->request)))
                f->r = 0;
        else if (add_header(f->proxy, name, value) != 0)
                f->r = -CLOCHE_E_RESOURCE;
        return f->r;
}

static int is_upgrade(const struct http_request *request)
{
        return strcmp(http_request_verb(request), "GET") == 0 &&
               forward_has_item(http_request_header(request, "Connection"), "upgrade") &&
               forward_has_item(http_request_header(request, "Upgrade"), "websocket");
}

static int add_framing(struct proxy *p)
{
        const char *length = http_request_header(p->request, "Content-Length");
        char text[32];

        if (length) {
                snprintf(text, sizeof(text), "%llu", strtoull(length, NULL, 10));
                return add_header(p, "Content-Length", text);
        }
        p->is_chunked = http_request_header(p->request, "Transfer-Encoding") != NULL;
        return p->is_chunked ? add_header(p, "Transfer-Encoding", "chunked") : 0;
}

static int add_origin(struct proxy *p)
{
        char peer[64];

        http_request_peer(p->request, peer, sizeof(peer));
        return (*peer && add_header(p, "X-Forwarded-For", peer)) || add_header(p, "X-Forwarded-Host", p->host) ||
               add_header(p, "X-Forwarded-Proto", http_request_is_tls(p->request) ? "https" : "http");
}

static int write_head(struct proxy *p, const char *target, struct cloche_err *e)
{
        struct forwarding f = {p, http_request_header(p->request, "Connection"), 0};
        int r = add(p, http_request_verb(p->request)) || add(p, " ") || add(p, target) || add(p, " HTTP/1.1\r\n") ||
                add_header(p, "Host", p->host);

        http_request_headers(p->request, on_header, &f);
        if (f.r == -CLOCHE_E_INVALID_ARGUMENT)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a header has an invalid character");
        if (r == 0 && f.r == 0)
                r = add_origin(p);
        if (r == 0 && f.r == 0)
                r = add_framing(p);
        if (r == 0 && p->answer.wants_upgrade)
                r = add(p, "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
        else if (r == 0)
                r = add(p, "Connection: close\r\n\r\n");
        return r != 0 || f.r < 0 ? err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "pass a request on") : 0;
}

static void on_body(void *data, const void *bytes, size_t size)
{
        struct proxy *p = data;
        struct cloche_err e = {0};
        char head[24];
        int r = 0;

        if (p->is_deaf || p->answer.is_done)
                return;
        snprintf(head, sizeof(head), "%zx\r\n", size);
        if (p->is_chunked)
                r = add(p, head);
        if (r == 0)
                r = buf_append(&p->out, bytes, size);
        if (r == 0 && p->is_chunked)
                r = add(p, "\r\n");
        if (r < 0) {
                err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "pass a body on");
                fail(p, &e);
                return;
        }
        http_body_hold(p->request, unsent(p) > OUT_HIGH_BYTES);
        write_out(p);
}

static void on_whole(void *data)
{
        struct proxy *p = data;

        p->is_whole = 1;
        if (p->is_chunked && !p->is_deaf && !p->answer.is_done)
                (void)add(p, "0\r\n\r\n");
        write_out(p);
}

static void on_taken(void *data)
{
        update_watch(data);
}

static const struct http_handler handler = {.on_body = on_body,
                                            .on_whole = on_whole,
                                            .on_taken = on_taken,
                                            .on_over = on_over};

/* -- the beginning -------------------------------------------------------------------------------------------- */

static void on_connected(void *data, int fd, const struct cloche_err *e)
{
        struct cloche_err own = {0};
        struct proxy *p = data;
        int r;

        if (fd < 0) { /* perhaps later: the port is no longer exposed */
                if (p->answer.is_upgrade)
                        http_tunnel_end(p->request);
                else if (!p->answer.is_done)
                        fail(p, e);
                return;
        }
        p->fd = fd;
        r = watch_new(&p->daemon->loop, fd, &p->watch);
        if (r < 0) {
                err_os(&own, CLOCHE_E_RESOURCE, -r, "watch a connection");
                fail(p, &own);
                return;
        }
        watch_on_event(p->watch, on_event, p);
        p->deadline_ns = clock_now_ns() + HEAD_NS;
        write_out(p);
}

static struct proxy *proxy_new(struct daemon *d, struct http_request *request, const char *host)
{
        struct proxy *p = calloc(1, sizeof(*p));

        if (!p)
                return NULL;
        *p = (struct proxy){.daemon = d,
                            .request = request,
                            .fd = -EBADF,
                            .host = strdup(host),
                            .out = BUF_INIT(1u << 20)};
        TAILQ_INSERT_TAIL(&d->proxies, p, link);
        answer_init(&p->answer, request, p->host, strcmp(http_request_verb(request), "HEAD") == 0, is_upgrade(request));
        if (p->host)
                return p;
        on_over(p);
        return NULL;
}

int preview_is_host(const struct daemon_options *o, const char *host)
{
        size_t size;

        return o->preview_host && host && preview_label(host, o->preview_host, &size);
}

static int check_request(const struct http_request *request, struct cloche_err *e)
{
        const char *verb = http_request_verb(request);

        if (strcmp(verb, "CONNECT") == 0 || strcmp(verb, "TRACE") == 0 || !is_word(verb) || strlen(verb) > 14)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "previews do not pass on the method %.20s", verb);
        if (http_request_target(request)[0] != '/' || !forward_is_clean(http_request_target(request)))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "the target of a request must be a path that begins with /");
        return 0;
}

static int begin(struct proxy *p, const struct preview_name *name, struct cloche_err *e)
{
        int r = write_head(p, http_request_target(p->request), e);

        if (r == 0)
                r = sandboxes_preview(p->daemon->sandboxes, name->sandbox, name->port, name->token, on_connected, p,
                                      &p->dial, e);
        if (r < 0)
                p->dial = NULL;
        return r;
}

void preview_begin(struct daemon *d, struct http_request *request, const char *host)
{
        struct preview_name name;
        struct cloche_err e = {0};
        struct proxy *p;
        size_t size;
        const char *label = preview_label(host, d->options.preview_host, &size);
        int r = check_request(request, &e);

        d->stats.requests_total++;
        if (r == 0 && preview_name_parse(label, size, &name) < 0)
                r = err_set(&e, CLOCHE_E_NOT_FOUND,
                            "there is no preview at this address: port.expose returns the URL of one");
        if (r == 0)
                r = daemon_check_work(d, &e);
        p = r == 0 ? proxy_new(d, request, host) : NULL;
        if (r == 0 && !p)
                r = err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "pass a request on");
        if (r == 0)
                r = begin(p, &name, &e);
        if (r == 0)
                r = connection_known(http_request_socket_data(request), LANE_PREVIEW, &e);
        if (r == 0) {
                http_request_handle(request, &handler, p);
                return;
        }
        if (p)
                on_over(p);
        web_refuse(request, &e);
}

int proxy_begin(struct daemon *d, struct http_request *request, const struct proxy_target *target, struct cloche_err *e)
{
        const char *host = target->host ? target->host : http_request_header(request, "Host");
        int r = check_request(request, e);
        struct proxy *p = r == 0 ? proxy_new(d, request, host ? host : "localhost") : NULL;

        if (r < 0 || !p)
                return r < 0 ? r : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "pass a request on");
        p->failed = target->failed;
        r = write_head(p, target->target, e);
        if (r == 0)
                r = sandboxes_dial(d->sandboxes, target->principal, target->sandbox, target->port, on_connected, p,
                                   &p->dial, e);
        if (r < 0) {
                p->dial = NULL;
                on_over(p);
        } else {
                http_request_handle(request, &handler, p);
        }
        return r;
}
