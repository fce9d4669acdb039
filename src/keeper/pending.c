/* Requests that wait for another process, each with a deadline. Runs in: the keeper. */
#include "pending.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "box.h"

#include <poll.h>
#include <stdlib.h>

void pending_begin(struct keeper_state *keeper, struct pending *p)
{
        p->deadline_ns = clock_now_ns() + PENDING_TIMEOUT_NS;
        LIST_INSERT_HEAD(&keeper->pending, p, link);
}

static void clear(struct pending *p)
{
        LIST_REMOVE(p, link);
        fd_close(&p->fd);
        free(p);
}

static int answer(struct keeper_state *keeper, struct pending *p, int fds[2], const struct cloche_err *error)
{
        struct keeper_answer answer = {.op = p->op,
                                       .serial = p->serial,
                                       .box = p->box,
                                       .err = *error,
                                       .volume = p->volume};
        int r;

        if (p->op == KEEPER_BOX_MAKE && !error->code && keeper->boxes[p->box].mount_targets)
                answer.mount_user = box_user(keeper, &keeper->boxes[p->box]);
        r = keeper_answer(keeper, &answer, fds);

        clear(p);
        return r;
}

static int fail(struct keeper_state *keeper, struct pending *p, int is_late, const struct cloche_err *error)
{
        int none[2] = {-EBADF, -EBADF};

        p->kind->cancel(keeper, p, is_late);
        return answer(keeper, p, none, error);
}

static int advance(struct keeper_state *keeper, struct pending *p)
{
        int fds[2] = {-EBADF, -EBADF}, r;
        struct cloche_err error = {0};

        r = p->kind->advance(keeper, p, fds, &error);
        if (r == 0)
                return 0;
        if (r < 0)
                return fail(keeper, p, 0, &error);
        error = (struct cloche_err){0};
        r = answer(keeper, p, fds, &error);
        for (size_t i = 0; i < 2; i++)
                fd_close(&fds[i]);
        return r;
}

static int miss(struct keeper_state *keeper, struct pending *p)
{
        struct cloche_err error = {0};

        err_set(&error, CLOCHE_E_TIMEOUT, "%s: it took more than %d s", p->kind->what,
                (int)(PENDING_TIMEOUT_NS / 1000000000));
        return fail(keeper, p, 1, &error);
}

size_t pending_fill(const struct keeper_state *keeper, struct pollfd *polled)
{
        const struct pending *p;
        size_t count = 0;

        LIST_FOREACH (p, &keeper->pending, link)
                polled[count++] = (struct pollfd){.fd = p->fd, .events = POLLIN};
        return count;
}

int pending_serve(struct keeper_state *keeper, const struct pollfd *polled, size_t count)
{
        uint64_t now_ns = count ? clock_now_ns() : 0;
        struct pending *p = LIST_FIRST(&keeper->pending), *next;
        int r = 0;

        for (size_t i = 0; i < count && r == 0; i++, p = next) {
                next = LIST_NEXT(p, link);
                if (polled[i].revents)
                        r = advance(keeper, p);
                else if (now_ns > p->deadline_ns)
                        r = miss(keeper, p);
        }
        return r;
}

int pending_timeout_ms(const struct keeper_state *keeper)
{
        uint64_t now_ns = LIST_EMPTY(&keeper->pending) ? 0 : clock_now_ns(), next_ns = UINT64_MAX;
        const struct pending *p;

        LIST_FOREACH (p, &keeper->pending, link)
                next_ns = p->deadline_ns < next_ns ? p->deadline_ns : next_ns;
        if (next_ns == UINT64_MAX)
                return -1;
        return next_ns > now_ns ? (int)((next_ns - now_ns) / 1000000) + 1 : 0;
}

int pending_cancel(struct keeper_state *keeper, uint32_t box)
{
        struct cloche_err error = {0};
        struct pending *p = LIST_FIRST(&keeper->pending), *next;
        int r = 0;

        err_set(&error, CLOCHE_E_STATE, "box %u was dropped", box);
        for (; p && r == 0; p = next) {
                next = LIST_NEXT(p, link);
                if (p->box == box)
                        r = fail(keeper, p, 0, &error);
        }
        return r;
}

void pending_end(struct keeper_state *keeper)
{
        struct pending *p;

        while ((p = LIST_FIRST(&keeper->pending))) {
                p->kind->cancel(keeper, p, 0);
                clear(p);
        }
}
