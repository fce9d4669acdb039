#include "control.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/peer.h"
#include "engine/handle.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

struct control_question {
        STAILQ_ENTRY(control_question) link;
        struct init_request request;
        int fds[FD_MESSAGE_MAX];
        size_t fd_count;
        control_done done;
        void *data;
};

static void question_free(struct control_question *q)
{
        for (size_t i = 0; i < q->fd_count; i++)
                fd_close(&q->fds[i]);
        free(q);
}

/* fd goes to the hearer, or is closed. */
static void tell(struct control_question *q, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        control_done done = q->done;
        void *data = q->data;

        question_free(q);
        if (e || !done)
                fd_close(&fd);
        if (done)
                done(data, e ? NULL : answer, fd, e);
}

static void end(struct control *c, const struct cloche_err *e)
{
        struct control_question *q;

        handle_close(c->poll);
        c->poll = NULL;
        fd_close(&c->fd);
        while ((q = STAILQ_FIRST(&c->asked))) {
                STAILQ_REMOVE_HEAD(&c->asked, link);
                tell(q, NULL, -EBADF, e);
        }
        while ((q = STAILQ_FIRST(&c->unsent))) {
                STAILQ_REMOVE_HEAD(&c->unsent, link);
                tell(q, NULL, -EBADF, e);
        }
}

static void fail(struct control *c, const struct cloche_err *e)
{
        void (*on_end)(void *data, const struct cloche_err *e) = c->on_end;
        void *data = c->data;

        end(c, e);
        on_end(data, e);
}

/* PID 1 lives beside hostile code, so nothing of it is believed unseen. */
static int check(const struct control *c, struct init_answer *answer, ssize_t size, struct cloche_err *e)
{
        const struct control_question *q = STAILQ_FIRST(&c->asked);

        if (size <= 0)
                return err_os(e, CLOCHE_E_SANDBOX_ENDED, size == 0 ? EPIPE : (int)-size, "the sandbox's init is gone");
        if (size != sizeof(*answer) || err_check(&answer->err) < 0)
                return err_set(e, CLOCHE_E_PROTOCOL, "the sandbox's init sent %zd bytes that are no answer", size);
        if (answer->op != INIT_EXITED && (!q || q->request.op != answer->op))
                return err_set(e, CLOCHE_E_PROTOCOL, "the sandbox's init answered %u, which was not asked", answer->op);
        return 0;
}

static void answered(struct control *c, const struct init_answer *answer, int fd)
{
        struct control_question *q = STAILQ_FIRST(&c->asked);

        STAILQ_REMOVE_HEAD(&c->asked, link);
        tell(q, answer, fd, answer->err.code ? &answer->err : NULL);
}

/* Of the descriptor that the first answer brings. */
static mode_t awaited_type(const struct control *c)
{
        const struct control_question *q = STAILQ_FIRST(&c->asked);

        if (!q)
                return 0;
        return q->request.op == INIT_CONNECT ? S_IFSOCK : q->request.op == INIT_SPAWN ? S_IFCHR : S_IFREG;
}

/* 1: there may be more. */
static int receive(struct control *c)
{
        struct init_answer answer;
        struct cloche_err e = {0};
        int fd = -EBADF;
        ssize_t n = peer_receive_with(c->fd, &answer, sizeof(answer), awaited_type(c), &fd, MSG_DONTWAIT);

        if (n == -EAGAIN || n == -EINTR)
                return 0;
        if (check(c, &answer, n, &e) < 0) {
                fd_close(&fd);
                fail(c, &e);
                return 0;
        }
        if (answer.op == INIT_EXITED) {
                fd_close(&fd);
                c->on_exit(c->data, &answer);
        } else {
                answered(c, &answer, fd);
        }
        return c->fd >= 0;
}

static void on_poll(uv_poll_t *poll, int status, int events);

static void flush(struct control *c)
{
        struct control_question *q;

        while ((q = STAILQ_FIRST(&c->unsent))) {
                int r = fd_send(c->fd, &q->request, sizeof(q->request), q->fds, q->fd_count);

                if (r == -EAGAIN || r == -ENOBUFS)
                        break;
                if (r < 0 && r != -EINTR)
                        break; /* its end will be told where answers are read */
                if (r < 0)
                        continue;
                STAILQ_REMOVE_HEAD(&c->unsent, link);
                for (size_t i = 0; i < q->fd_count; i++)
                        fd_close(&q->fds[i]);
                q->fd_count = 0;
                STAILQ_INSERT_TAIL(&c->asked, q, link);
        }
        uv_poll_start(c->poll, UV_READABLE | (STAILQ_EMPTY(&c->unsent) ? 0 : UV_WRITABLE), on_poll);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
        struct control *c = poll->data;

        if (events & UV_WRITABLE)
                flush(c);
        if (status < 0 || (events & UV_READABLE))
                while (receive(c))
                        ;
}

int control_open(struct control *c, int fd, uv_loop_t *loop, struct cloche_err *e)
{
        int r;

        c->fd = fd;
        STAILQ_INIT(&c->unsent);
        STAILQ_INIT(&c->asked);
        r = handle_poll(loop, fd, c, &c->poll);
        if (r < 0) {
                fd_close(&c->fd);
                return err_os(e, CLOCHE_E_RESOURCE, -r, "watch a sandbox's init");
        }
        uv_poll_start(c->poll, UV_READABLE, on_poll);
        return 0;
}

int control_ask(struct control *c, const struct init_request *request, const int *fds, size_t fd_count, control_done done, void *data,
                struct cloche_err *e)
{
        struct control_question *q;

        if (c->fd < 0)
                return err_set(e, CLOCHE_E_SANDBOX_ENDED, "the sandbox has ended");
        if (fd_count > FD_MESSAGE_MAX)
                return err_set(e, CLOCHE_E_INTERNAL, "%zu descriptors for a sandbox's init", fd_count);
        q = calloc(1, sizeof(*q));
        if (!q)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "ask a sandbox's init");
        q->request = *request;
        q->done = done;
        q->data = data;
        for (; q->fd_count < fd_count; q->fd_count++) {
                q->fds[q->fd_count] = fcntl(fds[q->fd_count], F_DUPFD_CLOEXEC, 3);
                if (q->fds[q->fd_count] < 0) {
                        int code = errno;

                        question_free(q);
                        return err_os(e, CLOCHE_E_RESOURCE, code, "ask a sandbox's init");
                }
        }
        STAILQ_INSERT_TAIL(&c->unsent, q, link);
        flush(c);
        return 0;
}

void control_forget(struct control *c, const void *data)
{
        struct control_question *q;

        STAILQ_FOREACH(q, &c->asked, link)
                if (q->data == data)
                        q->done = NULL;
        STAILQ_FOREACH(q, &c->unsent, link)
                if (q->data == data)
                        q->done = NULL;
}

void control_close(struct control *c)
{
        struct cloche_err e;

        err_set(&e, CLOCHE_E_SANDBOX_ENDED, "the sandbox has ended");
        end(c, &e);
}
