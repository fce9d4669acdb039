/* Join a request's connection and another socket into one pipe.
 * Runs in: cloched, on its loop. */
#include "server-internal.h"

#include "base/err.h"
#include "base/fd.h"
#include "engine/loop/watch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define BLOCK (64u << 10) /* per direction; reading pauses while the other side does not read */

struct side {
        struct tunnel *tunnel;
        int fd;
        struct watch *watch;
        char *out; /* pending output to this side, from at to size */
        size_t at, size;
        int has_ended, is_told; /* has_ended: this side has closed; is_told: so has the other, passed on here */
};

struct tunnel {
        struct http_request *request;
        struct MHD_UpgradeResponseHandle *urh; /* NULL before it is open and after its end */
        struct side sides[2];                  /* client and target */
};

static struct side *other(struct side *s)
{
        return &s->tunnel->sides[s == &s->tunnel->sides[0]];
}

/* -- the end -------------------------------------------------------------------------------------------------- */

static void unwatch(struct tunnel *t)
{
        for (int i = 0; i < 2; i++) {
                watch_close(t->sides[i].watch);
                t->sides[i].watch = NULL;
        }
}

void tunnel_end(struct tunnel *t)
{
        struct MHD_UpgradeResponseHandle *urh = t->urh;

        unwatch(t);
        t->urh = NULL;
        t->request->server->is_due = 1;
        if (urh)
                MHD_upgrade_action(urh, MHD_UPGRADE_ACTION_CLOSE);
}

void http_tunnel_end(struct http_request *request)
{
        if (request->tunnel)
                tunnel_end(request->tunnel);
}

void tunnel_request_over(struct tunnel *t)
{
        unwatch(t);
        fd_close(&t->sides[1].fd);
        free(t->sides[0].out);
        free(t->sides[1].out);
        free(t);
}

/* -- moving --------------------------------------------------------------------------------------------------- */

/* 0, or -1: the side has failed. */
static int write_out(struct side *s)
{
        while (s->at < s->size) {
                ssize_t n = send(s->fd, s->out + s->at, s->size - s->at, MSG_DONTWAIT | MSG_NOSIGNAL);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return errno == EAGAIN ? 0 : -1;
                s->at += (size_t)n;
        }
        s->at = s->size = 0;
        if (other(s)->has_ended && !s->is_told) {
                s->is_told = 1;
                (void)shutdown(s->fd, SHUT_WR);
        }
        return 0;
}

/* Forward input of s to the other side once that side has no pending output. */
static int read_in(struct side *s)
{
        struct side *to = other(s);
        ssize_t n;

        if (s->has_ended || to->size > 0)
                return 0;
        do
                n = recv(s->fd, to->out, BLOCK, MSG_DONTWAIT);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return errno == EAGAIN ? 0 : -1;
        s->has_ended = n == 0;
        to->size = (size_t)n;
        return write_out(to);
}

static void update_watch(struct side *s)
{
        watch_set(s->watch,
                  (s->size > s->at ? UV_WRITABLE : 0) | (!s->has_ended && other(s)->size == 0 ? UV_READABLE : 0));
}

/* The tunnel ends when either side ends: protocols used here do not work half closed, and a guest
 * must not hold an abandoned tunnel. */
static int is_over(const struct tunnel *t)
{
        return t->sides[0].is_told || t->sides[1].is_told;
}

static void on_event(void *data, int status, int events)
{
        struct side *s = data;
        struct tunnel *t = s->tunnel;
        int r = status < 0 ? -1 : 0;

        if (r == 0 && (events & UV_WRITABLE))
                r = write_out(s);
        if (r == 0 && (events & UV_READABLE))
                r = read_in(s);
        if (r < 0 || is_over(t)) {
                tunnel_end(t);
                return;
        }
        update_watch(&t->sides[0]);
        update_watch(&t->sides[1]);
}

/* -- the beginning -------------------------------------------------------------------------------------------- */

static int watch(struct side *s)
{
        int r = watch_new(s->tunnel->request->server->options.loop, s->fd, &s->watch);

        if (r == 0)
                watch_on_event(s->watch, on_event, s);
        return r;
}

static void on_upgrade(void *data, struct MHD_Connection *mhd, void *slot, const char *extra, size_t extra_size,
                       MHD_socket fd, struct MHD_UpgradeResponseHandle *urh)
{
        struct tunnel *t = data;

        (void)mhd;
        (void)slot;
        t->urh = urh;
        t->sides[0].fd = fd;
        if (watch(&t->sides[0]) < 0 || watch(&t->sides[1]) < 0 || extra_size > BLOCK) {
                tunnel_end(t);
                return;
        }
        memcpy(t->sides[1].out, extra, extra_size); /* read together with the head */
        t->sides[1].size = extra_size;
        if (write_out(&t->sides[0]) < 0 || write_out(&t->sides[1]) < 0) {
                tunnel_end(t);
                return;
        }
        update_watch(&t->sides[0]);
        update_watch(&t->sides[1]);
}

static struct tunnel *tunnel_new(struct http_request *request, int fd)
{
        struct tunnel *t = calloc(1, sizeof(*t));

        if (!t) {
                close(fd);
                return NULL;
        }
        *t = (struct tunnel){.request = request, .sides = {{.tunnel = t, .fd = -EBADF}, {.tunnel = t, .fd = fd}}};
        t->sides[0].out = malloc(BLOCK);
        t->sides[1].out = malloc(BLOCK);
        if (t->sides[0].out && t->sides[1].out)
                return t;
        tunnel_request_over(t);
        return NULL;
}

int http_tunnel(struct http_request *request, int fd, const void *first, size_t size, struct cloche_err *e)
{
        struct tunnel *t = tunnel_new(request, fd);

        request->response = t && size <= BLOCK ? MHD_create_response_for_upgrade(on_upgrade, t) : NULL;
        if (!request->response) {
                if (t)
                        tunnel_request_over(t);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "open a tunnel");
        }
        memcpy(t->sides[0].out, first, size);
        t->sides[0].size = size;
        request->tunnel = t;
        request->status = MHD_HTTP_SWITCHING_PROTOCOLS;
        http_request_put_headers(request);
        http_request_resume(request);
        return 0;
}
