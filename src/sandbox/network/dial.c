/* Connections from outside to ports of sandboxes: PID 1 of the box makes the socket, because only
 * the box is in its network, and passes it to us. Runs in: cloched-engine, on its loop, with the
 * rights of the daemon's user. */
#include "port.h"
#include "sandbox/life/pause.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/peer.h"
#include "engine/loop/watch.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct sandbox_dial {
        TAILQ_ENTRY(sandbox_dial) link;
        struct sandbox *sandbox; /* NULL: the connection has ended */
        unsigned port;
        int needs_token;
        sandbox_connected on_connected;
        void *data;
        int fd; /* until it is connected */
        struct watch *watch;
};

static void leave(struct sandbox_dial *dial)
{
        watch_close(dial->watch);
        dial->watch = NULL;
        peer_discard_one(&dial->fd);
        if (!dial->sandbox)
                return;
        control_detach(&dial->sandbox->control, dial);
        TAILQ_REMOVE(&dial->sandbox->dials, dial, link);
        sandbox_change(dial->sandbox);
        dial->sandbox = NULL;
}

/* Check the connection. 1: connected; 0: not yet; negative: refused. */
static int look(int fd)
{
        struct pollfd polled = {.fd = fd, .events = POLLOUT};
        socklen_t size = sizeof(int);
        int code = 0;

        if (poll(&polled, 1, 0) <= 0)
                return 0;
        return getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) < 0 || code ? -ECONNREFUSED : 1;
}

static void connected(struct sandbox_dial *dial)
{
        int fd = TAKE_FD(dial->fd);

        watch_close(dial->watch);
        dial->watch = NULL;
        dial->on_connected(dial->data, fd, NULL);
}

static void refuse(struct sandbox_dial *dial, const struct cloche_err *e)
{
        struct cloche_err copy = *e;

        leave(dial);
        dial->on_connected(dial->data, -EBADF, &copy);
}

static void on_writable(void *data, int status, int events)
{
        struct sandbox_dial *dial = data;
        struct cloche_err e;
        int r = status < 0 ? -ECONNREFUSED : look(dial->fd);

        (void)events;
        if (r > 0) {
                connected(dial);
        } else if (r < 0) {
                err_set(&e, CLOCHE_E_PORT_CLOSED, "nothing accepts connections at port %u", dial->port);
                refuse(dial, &e);
        }
}

static void on_answer(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        struct sandbox_dial *dial = data;
        struct cloche_err failure;
        int r = 0;

        (void)answer;
        if (e) {
                refuse(dial, e);
                return;
        }
        dial->fd = fd;
        if (look(fd) > 0) {
                connected(dial);
                return;
        }
        /* The listen queue is full: it may still accept us. */
        r = watch_new(&dial->sandbox->all->engine->loop, fd, &dial->watch);
        if (r < 0) {
                err_os(&failure, CLOCHE_E_RESOURCE, -r, "connect to port %u", dial->port);
                refuse(dial, &failure);
                return;
        }
        watch_on_event(dial->watch, on_writable, dial);
        watch_set(dial->watch, UV_WRITABLE);
}

static int start(struct sandbox *s, unsigned port, int needs_token, sandbox_connected on_connected, void *data,
                 struct sandbox_dial **ret, struct cloche_err *e)
{
        struct init_request request = {.op = INIT_CONNECT, .port = port};
        struct sandbox_dial *dial;
        int r;

        if (!sandbox_is_live(s))
                return err_set(e, CLOCHE_E_PORT_CLOSED, "the sandbox does not run: any request to it starts it");
        dial = calloc(1, sizeof(*dial));
        if (!dial)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "connect to port %u", port);
        *dial = (struct sandbox_dial){.port = port,
                                      .needs_token = needs_token,
                                      .on_connected = on_connected,
                                      .data = data,
                                      .fd = -EBADF};
        r = control_request(&s->control, &request, NULL, 0, on_answer, dial, e);
        if (r < 0) {
                free(dial);
                return r;
        }
        if (s->state != SANDBOX_RUNNING)
                sandbox_wake(s);
        dial->sandbox = s;
        TAILQ_INSERT_TAIL(&s->dials, dial, link);
        sandbox_change(s);
        *ret = dial;
        return 0;
}

/* Compare in constant time: the time must not show how much of the token is right. */
static int is_token(const char *token, const char *given)
{
        char a[sizeof(((struct port *)0)->token)] = "", b[sizeof(a)] = "";
        unsigned char differs = strlen(given) >= sizeof(b);

        memcpy(a, token, strnlen(token, sizeof(a) - 1));
        memcpy(b, given, strnlen(given, sizeof(b) - 1));
        for (size_t i = 0; i < sizeof(a); i++)
                differs |= (unsigned char)(a[i] ^ b[i]);
        return !differs;
}

static int is_exposed(const struct sandbox *s, unsigned number, const char *token)
{
        const struct port *port;

        TAILQ_FOREACH (port, &s->ports, link)
                if (port->number == number && is_token(port->token, token))
                        return 1;
        return 0;
}

/* Sandboxes of different principals may have the same name; the token selects one. */
int sandboxes_preview(struct sandboxes *all, const char *name, unsigned port, const char *token,
                      sandbox_connected on_connected, void *data, struct sandbox_dial **ret, struct cloche_err *e)
{
        struct sandbox *s;

        TAILQ_FOREACH (s, &all->list, link)
                if (!s->is_deleted && strcmp(s->name, name) == 0 && is_exposed(s, port, token))
                        return start(s, port, 1, on_connected, data, ret, e);
        return err_set(e, CLOCHE_E_NOT_FOUND,
                       "there is no preview at this address: port.expose returns the URL of one");
}

int sandboxes_exposes(const struct sandboxes *all, int64_t principal, const char *name, unsigned number)
{
        const struct sandbox *s = sandbox_find(all, principal, name);
        const struct port *port;

        if (s)
                TAILQ_FOREACH (port, &s->ports, link)
                        if (port->number == number)
                                return 1;
        return 0;
}

int sandboxes_dial(struct sandboxes *all, int64_t principal, const char *name, unsigned port,
                   sandbox_connected on_connected, void *data, struct sandbox_dial **ret, struct cloche_err *e)
{
        struct sandbox *s = sandbox_find(all, principal, name);

        if (port < 1 || port > 65535)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "port is %u, expected 1 to 65535", port);
        return s ? start(s, port, 0, on_connected, data, ret, e)
                 : err_set(e, CLOCHE_E_NOT_FOUND, "there is no sandbox \"%.64s\" (sandbox.list lists them)", name);
}

void sandbox_preview_close(struct sandbox_dial *dial)
{
        leave(dial);
        free(dial);
}

void sandbox_dials_hang_up(struct sandbox *s, unsigned port)
{
        struct sandbox_dial *dial, *next;
        struct cloche_err e;

        err_set(&e, CLOCHE_E_NOT_FOUND, "there is no preview at this address: port.expose returns the URL of one");
        for (dial = TAILQ_FIRST(&s->dials); dial; dial = next) {
                next = TAILQ_NEXT(dial, link);
                if (dial->needs_token && dial->port == port)
                        refuse(dial, &e);
        }
}

void sandbox_dials_close(struct sandbox *s)
{
        struct cloche_err e;

        err_set(&e, CLOCHE_E_SANDBOX_ENDED, "the sandbox has ended");
        while (!TAILQ_EMPTY(&s->dials))
                refuse(TAILQ_FIRST(&s->dials), &e);
}
