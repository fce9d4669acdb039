/* Requests to the PID 1 of a box, and its answers, which are checked. Runs in: the engine, on its
 * loop. */
#include "control.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/peer.h"
#include "handle.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

const struct control_kind control_of_box = {"box", CLOCHE_E_STATE, 20000, 0},
                          control_of_sandbox = {"sandbox", CLOCHE_E_SANDBOX_ENDED, 30000, 1},
                          control_of_context = {"context", CLOCHE_E_CONTEXT_ENDED, 20000, 0};

struct control_pending {
        STAILQ_ENTRY(control_pending) link;
        struct init_request request;
        unsigned round; /* of its control, at the request */
        int fds[FD_MESSAGE_MAX];
        size_t fd_count;
        control_done done;
        void *data;
};

/* Unread descriptors in the socket could block its close (base/peer.h). A copy must not be shut
 * down: the other holders still use the socket. */
static void close_socket(struct control *c)
{
        if (c->is_copy)
                peer_discard_one(&c->fd);
        else
                peer_close(&c->fd);
}

static void pending_free(struct control_pending *q)
{
        for (size_t i = 0; i < q->fd_count; i++)
                fd_close(&q->fds[i]);
        free(q);
}

/* fd goes to the callback, or is closed. */
static void deliver(struct control_pending *q, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        control_done done = q->done;
        void *data = q->data;

        pending_free(q);
        if (e || !done)
                peer_discard_one(&fd);
        if (done)
                done(data, e ? NULL : answer, fd, e);
}

static struct control_pending *take_first(struct control *c)
{
        struct control_pending *q = STAILQ_FIRST(&c->sent);

        if (q) {
                STAILQ_REMOVE_HEAD(&c->sent, link);
        } else if ((q = STAILQ_FIRST(&c->unsent))) {
                STAILQ_REMOVE_HEAD(&c->unsent, link);
        }
        return q;
}

/* Stop the handles, without the socket. */
static void stop(struct control *c)
{
        watch_close(c->watch);
        handle_close(c->timer);
        c->watch = NULL;
        c->timer = NULL;
}

/* The owner closes it. */
static void mark_closed(struct control *c)
{
        if (c->was_closed)
                *c->was_closed = 1;
        c->was_closed = NULL;
}

/* End with an error. A callback may close c and free it, which sets *was_closed. */
static void end(struct control *c, const int *was_closed, const struct cloche_err *e)
{
        struct control_pending *q;

        stop(c);
        close_socket(c);
        while (!*was_closed && (q = take_first(c)))
                deliver(q, NULL, -EBADF, e);
}

static void fail(struct control *c, const struct cloche_err *e)
{
        const int *was_closed = c->was_closed;

        end(c, was_closed, e);
        if (!*was_closed && c->on_end)
                c->on_end(c->data, e);
}

/* -- timeouts ------------------------------------------------------------------------------------------------- */

/* Find the first request with a callback from before this round: callbacks may send new ones. */
static struct control_pending *first_late(const struct control *c, struct control_pending *q)
{
        while (q && (!q->done || q->round == c->round))
                q = STAILQ_NEXT(q, link);
        return q;
}

/* Late requests stay in their lists without a callback, for their answers may still come. */
static void fail_late(struct control *c, const int *was_closed, const struct cloche_err *e)
{
        struct control_pending *q;

        c->round++;
        while (!*was_closed &&
               ((q = first_late(c, STAILQ_FIRST(&c->sent))) || (q = first_late(c, STAILQ_FIRST(&c->unsent))))) {
                control_done done = q->done;

                q->done = NULL;
                done(q->data, NULL, -EBADF, e);
        }
}

static void on_timeout(uv_timer_t *timer)
{
        struct control *c = timer->data;
        struct cloche_err e;
        int was_closed = 0;

        err_set(&e, CLOCHE_E_TIMEOUT, "the %s's init did not answer within %d s", c->kind->name,
                (int)(c->kind->patience_ms / 1000));
        c->was_closed = &was_closed;
        if (c->kind->outlives_silence)
                fail_late(c, &was_closed, &e);
        else
                fail(c, &e);
        if (!was_closed)
                c->was_closed = NULL;
}

/* Start the timeout of the next answer. */
static void watch_time(struct control *c)
{
        if (!c->timer)
                return;
        if (c->is_held || (STAILQ_EMPTY(&c->sent) && STAILQ_EMPTY(&c->unsent)))
                uv_timer_stop(c->timer);
        else
                uv_timer_start(c->timer, on_timeout, c->kind->patience_ms, 0);
}

/* -- answers -------------------------------------------------------------------------------------------------- */

/* PID 1 runs beside hostile code, so each of its packets is checked here: size bytes, or 0
 * or -errno of the receive. */
static int check_packet(const struct control_kind *kind, struct init_answer *answer, ssize_t size, struct cloche_err *e)
{
        if (size <= 0)
                return err_os(e, kind->ended_code, size == 0 ? EPIPE : (int)-size, "the %s's init is gone", kind->name);
        if (size != sizeof(*answer) || err_check(&answer->err) < 0)
                return err_set(e, CLOCHE_E_PROTOCOL, "the %s's init sent an invalid answer of %zd bytes", kind->name,
                               size);
        return 0;
}

/* It must also answer the oldest request. */
static int check(const struct control *c, struct init_answer *answer, ssize_t size, struct cloche_err *e)
{
        const struct control_pending *q = STAILQ_FIRST(&c->sent);
        int r = check_packet(c->kind, answer, size, e);

        if (r < 0)
                return r;
        if (answer->op != INIT_EXITED && (!q || q->request.op != answer->op))
                return err_set(e, CLOCHE_E_PROTOCOL,
                               "the %s's init sent an invalid answer: type %u, which no request has", c->kind->name,
                               answer->op);
        if ((answer->op == INIT_EXITED || (answer->op == INIT_SPAWN && !answer->err.code)) && answer->pid <= 1)
                return err_set(e, CLOCHE_E_PROTOCOL, "the %s's init sent an invalid answer: the process id %d",
                               c->kind->name, (int)answer->pid);
        return 0;
}

static void deliver_answer(struct control *c, const struct init_answer *answer, int fd)
{
        struct control_pending *q = take_first(c);

        watch_time(c);
        deliver(q, answer, fd, answer->err.code ? &answer->err : NULL);
}

/* Return the type of the descriptor that the next answer may bring. */
static mode_t awaited_type(const struct control *c)
{
        const struct control_pending *q = STAILQ_FIRST(&c->sent);

        if (!q)
                return 0;
        return q->request.op == INIT_CONNECT ? S_IFSOCK : q->request.op == INIT_SPAWN ? S_IFCHR : S_IFREG;
}

/* 1: there may be more, if c is still open. */
static int receive(struct control *c)
{
        struct init_answer answer = {0};
        struct cloche_err e = {0};
        int fd = -EBADF;
        ssize_t n = peer_receive_with(c->fd, &answer, sizeof(answer), awaited_type(c), &fd, MSG_DONTWAIT);

        if (n == -EAGAIN || n == -EINTR)
                return 0;
        if (n == -ECONNRESET) /* a request was not read, but earlier answers follow (net/unix/af_unix.c,
                                 unix_release_sock) */
                return 1;
        if (n == -EMFILE) { /* no free descriptor number: only this request fails */
                err_os(&answer.err, CLOCHE_E_RESOURCE, EMFILE, "take a descriptor from the %s's init", c->kind->name);
                n = sizeof(answer);
        }
        if (check(c, &answer, n, &e) < 0) {
                peer_discard_one(&fd);
                fail(c, &e);
                return 0;
        }
        if (answer.op != INIT_EXITED) {
                deliver_answer(c, &answer, fd);
        } else {
                peer_discard_one(&fd);
                if (c->on_exit)
                        c->on_exit(c->data, &answer);
        }
        return 1;
}

/* -- requests ------------------------------------------------------------------------------------------------- */

static int send_pending(struct control *c, struct control_pending *q)
{
        int r;

        do
                r = fd_send(c->fd, &q->request, sizeof(q->request), q->fds, q->fd_count);
        while (r == -EINTR);
        if (r < 0)
                return r;
        STAILQ_REMOVE_HEAD(&c->unsent, link);
        for (size_t i = 0; i < q->fd_count; i++)
                fd_close(&q->fds[i]);
        q->fd_count = 0;
        STAILQ_INSERT_TAIL(&c->sent, q, link);
        return 0;
}

/* Return 0, or -errno if the first unsent request can never be sent (ETOOMANYREFS, ENOMEM). */
static int flush(struct control *c)
{
        struct control_pending *q;
        int r = 0, is_lost;

        while (r == 0 && (q = STAILQ_FIRST(&c->unsent)))
                r = send_pending(c, q);
        is_lost = r == -EPIPE || r == -ECONNRESET; /* the reader reports it */
        watch_set(c->watch, UV_READABLE | (r == 0 || is_lost ? 0 : UV_WRITABLE));
        return is_lost || r == -EAGAIN ? 0 : r;
}

static int cannot_send(const struct control *c, int code, struct cloche_err *e)
{
        return err_os(e, CLOCHE_E_RESOURCE, code, "send a request to the %s's init", c->kind->name);
}

static void fail_unsent(struct control *c, int code)
{
        struct control_pending *q = STAILQ_FIRST(&c->unsent);
        struct cloche_err e;

        (void)cannot_send(c, code, &e);
        STAILQ_REMOVE_HEAD(&c->unsent, link);
        watch_time(c);
        deliver(q, NULL, -EBADF, &e);
}

static void handle_event(struct control *c, const int *was_closed, int status, int events)
{
        int r;

        while (events & UV_WRITABLE && !*was_closed && (r = flush(c)) < 0)
                fail_unsent(c, -r);
        /* While no request waits the socket is most likely empty: its next event is an exit, or
         * the end. */
        if (!*was_closed && (status < 0 || (events & UV_READABLE)))
                while (receive(c) && !*was_closed && (status < 0 || !STAILQ_EMPTY(&c->sent)))
                        ;
}

static void on_event(void *data, int status, int events)
{
        struct control *c = data;
        int was_closed = 0;

        c->was_closed = &was_closed;
        handle_event(c, &was_closed, status, events);
        if (!was_closed)
                c->was_closed = NULL;
}

int control_request(struct control *c, const struct init_request *request, const int *fds, size_t fd_count,
                    control_done done, void *data, struct cloche_err *e)
{
        struct control_pending *q;
        int r;

        if (c->fd < 0)
                return err_set(e, c->kind->ended_code, "the %s has ended", c->kind->name);
        if (fd_count > FD_MESSAGE_MAX)
                return err_set(e, CLOCHE_E_INTERNAL, "%zu descriptors for a %s's init", fd_count, c->kind->name);
        q = calloc(1, sizeof(*q));
        if (!q)
                return cannot_send(c, ENOMEM, e);
        q->request = *request;
        q->round = c->round;
        q->done = done;
        q->data = data;
        for (; q->fd_count < fd_count; q->fd_count++) {
                q->fds[q->fd_count] = fcntl(fds[q->fd_count], F_DUPFD_CLOEXEC, 3);
                if (q->fds[q->fd_count] < 0) {
                        int code = errno;

                        pending_free(q);
                        return cannot_send(c, code, e);
                }
        }
        if (c->timer && !c->is_held && !uv_is_active((uv_handle_t *)c->timer))
                uv_timer_start(c->timer, on_timeout, c->kind->patience_ms, 0);
        STAILQ_INSERT_TAIL(&c->unsent, q, link);
        r = flush(c);
        if (r == 0 || STAILQ_FIRST(&c->unsent) != q) /* the loop fails an earlier one */
                return 0;
        STAILQ_REMOVE_HEAD(&c->unsent, link);
        watch_time(c);
        pending_free(q);
        return cannot_send(c, -r, e);
}

int control_request_path(struct control *c, struct init_request *request, const char *path, const int *fds,
                         size_t fd_count, control_done done, void *data, struct cloche_err *e)
{
        if (strlen(path) >= sizeof(request->path))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the path has %zu bytes, expected at most %zu",
                               strlen(path), sizeof(request->path) - 1);
        strcpy(request->path, path);
        return control_request(c, request, fds, fd_count, done, data, e);
}

int control_spawn(struct control *c, const struct init_request *request, const char *strings, size_t size,
                  const int *fds, size_t fd_count, control_done done, void *data, struct cloche_err *e)
{
        _cleanup_fd_ int strings_fd = -EBADF;
        int all[FD_MESSAGE_MAX];

        if (size > INIT_STRINGS_MAX)
                return err_set(e, CLOCHE_E_TOO_LARGE,
                               "command and environment have %zu bytes, expected at most %u: pass what is large as a "
                               "file",
                               size, INIT_STRINGS_MAX);
        if (fd_count >= FD_MESSAGE_MAX)
                return err_set(e, CLOCHE_E_INTERNAL, "%zu descriptors for a program", fd_count);
        strings_fd = fd_from_bytes("strings", strings, size);
        if (strings_fd < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -strings_fd, "hold the arguments");
        all[0] = strings_fd;
        memcpy(all + 1, fds, fd_count * sizeof(int));
        return control_request(c, request, all, fd_count + 1, done, data, e);
}

void control_hold(struct control *c, int is_held)
{
        c->is_held = is_held;
        watch_time(c);
}

void control_detach(struct control *c, const void *data)
{
        struct control_pending *q;

        STAILQ_FOREACH (q, &c->sent, link)
                if (q->data == data)
                        q->done = NULL;
        STAILQ_FOREACH (q, &c->unsent, link)
                if (q->data == data)
                        q->done = NULL;
}

/* -- life ----------------------------------------------------------------------------------------------------- */

static int watch(struct control *c, uv_loop_t *loop)
{
        int r = watch_new(loop, c->fd, &c->watch);

        if (r < 0)
                return r;
        watch_on_event(c->watch, on_event, c);
        if (!c->kind->patience_ms)
                return 0;
        c->timer = handle_timer(loop, c);
        return c->timer ? 0 : -ENOMEM;
}

void control_init(struct control *c, const struct control_kind *kind)
{
        c->kind = kind;
        c->fd = -EBADF;
        STAILQ_INIT(&c->unsent);
        STAILQ_INIT(&c->sent);
}

int control_open(struct control *c, int fd, uv_loop_t *loop, struct cloche_err *e)
{
        int r;

        c->fd = fd;
        r = watch(c, loop);
        if (r < 0) {
                stop(c);
                close_socket(c);
                return err_os(e, CLOCHE_E_RESOURCE, -r, "watch a %s's init", c->kind->name);
        }
        watch_set(c->watch, UV_READABLE);
        return 0;
}

struct control *control_new(const struct control_kind *kind, int fd, uv_loop_t *loop, struct cloche_err *e)
{
        struct control *c = calloc(1, sizeof(*c));
        int r;

        if (!c) {
                fd_close(&fd);
                err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "watch a %s's init", kind->name);
                return NULL;
        }
        control_init(c, kind);
        r = control_open(c, fd, loop, e);
        if (r < 0) {
                free(c);
                return NULL;
        }
        return c;
}

void control_close(struct control *c)
{
        int was_closed = 0;
        struct cloche_err e;

        mark_closed(c);
        err_set(&e, c->kind->ended_code, "the %s has ended", c->kind->name);
        c->was_closed = &was_closed;
        end(c, &was_closed, &e);
        if (!was_closed)
                c->was_closed = NULL;
}

int control_free_but_fd(struct control *c)
{
        struct control_pending *q;
        int fd = TAKE_FD(c->fd);

        mark_closed(c);
        stop(c);
        while ((q = take_first(c)))
                pending_free(q);
        free(c);
        if (fd >= 0)
                fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
        return fd;
}

void control_free(struct control *c)
{
        int fd = c ? control_free_but_fd(c) : -EBADF;

        peer_close(&fd);
}
