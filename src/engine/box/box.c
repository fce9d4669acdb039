/* One box of the engine: made by the keeper, served by its init. Runs in: the engine; the waiting
 * calls in a thread beside its loop. */
#include "box.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/peer.h"

#include <fcntl.h>
#include <stdlib.h>

/* Init kills within a second, unless a mount's server does not answer. */
static const struct control_kind control_of_quiesce = {"box", CLOCHE_E_STATE, 10000, 0};

/* A client of init on a loop of its own, for the thread that waits for it. */
struct box_waiter {
        uv_loop_t loop;
        struct control control;
};

int box_adopt(struct box *box, struct keeper *keeper, struct keeper_reply *reply, uv_loop_t *loop, struct cloche_err *e)
{
        struct keeper_box made;
        int r = keeper_box_take(reply->answer->box, reply->fds, reply->fd_count, &made, e);

        if (r < 0)
                return r;
        *box = BOX_NONE;
        box->keeper = keeper;
        box->made = 1;
        box->id = made.id;
        box->pidfd = made.pidfd;
        box->fork_fd = made.fork_fd;
        box->control = control_new(&control_of_box, made.control_fd, loop, e);
        if (box->control)
                return 0;
        (void)box_drop(box, NULL, NULL);
        return -CLOCHE_E_RESOURCE;
}

struct box box_move(struct box *from)
{
        struct box to = *from;

        from->made = 0;
        from->control = NULL;
        from->files_fd = -EBADF;
        from->counters.is_open = 0;
        return to;
}

void box_take_control(struct box *box)
{
        if (!box->control)
                return;
        box->control_fd = control_free_but_fd(box->control);
        box->control = NULL;
}

int box_return_control(struct box *box, uv_loop_t *loop, struct cloche_err *e)
{
        if (!box->control)
                box->control = control_new(&control_of_box, TAKE_FD(box->control_fd), loop, e);
        if (!box->control)
                return -CLOCHE_E_RESOURCE;
        box->control->kind = &control_of_box;
        box->control->on_exit = NULL;
        box->control->on_end = NULL;
        return 0;
}

int box_check_clean(struct box *box, control_done done, void *data, struct cloche_err *e)
{
        static const struct init_request check = {.op = INIT_CHECK_CLEAN};

        box->control->kind = &control_of_quiesce;
        return control_request(box->control, &check, NULL, 0, done, data, e);
}

void box_keep_exit(struct box *box, const struct init_answer *exit)
{
        if (exit->pid != box->pid)
                return;
        box->exited = 1;
        box->exit = *exit;
}

void box_kill(struct box *box)
{
        if (!box->made || box->is_killed)
                return;
        box->is_killed = 1;
        if (keeper_box_drop_async(box->keeper, box->id, NULL, NULL, NULL) < 0)
                return; /* the box went with the keeper */
}

int box_drop(struct box *box, keeper_done done, void *data)
{
        if (!box->made)
                return 0;
        box->made = 0;
        control_free(box->control);
        box->control = NULL;
        peer_close(&box->control_fd);
        fd_close(&box->pidfd);
        fd_close(&box->fork_fd);
        fd_close(&box->files_fd);
        cgroup_usage_close(&box->counters);
        return !box->is_killed && keeper_box_drop_async(box->keeper, box->id, done, data, NULL) == 0;
}

/* -- in a thread beside the loop -------------------------------------------------------------------------------- */

static void on_exit_of_program(void *data, const struct init_answer *exit)
{
        box_keep_exit(data, exit);
}

static void close_waiter(struct box_waiter *waiter)
{
        control_close(&waiter->control);
        uv_run(&waiter->loop, UV_RUN_DEFAULT); /* closes its handles */
        uv_loop_close(&waiter->loop);
}

static int open_waiter(struct box *box, struct box_waiter *waiter, struct cloche_err *e)
{
        int fd = fcntl(box->control_fd, F_DUPFD_CLOEXEC, 3), r;

        if (fd < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "wait for a box's init");
        r = uv_loop_init(&waiter->loop);
        if (r < 0) {
                close(fd); /* a copy: it is not the last one */
                return err_os(e, CLOCHE_E_RESOURCE, -r, "wait for a box's init");
        }
        control_init(&waiter->control, &control_of_box);
        waiter->control.is_copy = 1; /* box_drop closes the socket, and another thread may shut it down before */
        waiter->control.on_exit = on_exit_of_program;
        waiter->control.data = box;
        r = control_open(&waiter->control, fd, &waiter->loop, e);
        if (r < 0)
                close_waiter(waiter);
        return r;
}

int box_waiter_new(struct box *box, struct cloche_err *e)
{
        int r;

        box->waiter = calloc(1, sizeof(*box->waiter));
        if (!box->waiter)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "wait for a box's init");
        r = open_waiter(box, box->waiter, e);
        if (r < 0) {
                free(box->waiter);
                box->waiter = NULL;
        }
        return r;
}

void box_waiter_free(struct box *box)
{
        close_waiter(box->waiter);
        free(box->waiter);
        box->waiter = NULL;
}

struct awaited {
        int is_over, fd;
        struct init_answer answer;
        struct cloche_err error;
};

static void on_answer(void *data, const struct init_answer *answer, int fd, const struct cloche_err *e)
{
        struct awaited *awaited = data;

        awaited->is_over = 1;
        if (e)
                awaited->error = *e;
        else
                awaited->answer = *answer;
        awaited->fd = fd;
}

/* Send, and turn the loop until the answer is there. The control has a timeout. */
static int request_init(struct box *box, enum init_op op, const char *path, struct init_answer *ret, int *ret_fd,
                        struct cloche_err *e)
{
        struct awaited awaited = {.fd = -EBADF};
        struct init_request request = {.op = op};
        int r = control_request_path(&box->waiter->control, &request, path, NULL, 0, on_answer, &awaited, e);

        if (r < 0)
                return r;
        while (!awaited.is_over)
                uv_run(&box->waiter->loop, UV_RUN_ONCE);
        if (!awaited.error.code && ret_fd && awaited.fd < 0)
                err_set(&awaited.error, CLOCHE_E_PROTOCOL, "the box's init sent no descriptor");
        if (!awaited.error.code && ret_fd)
                *ret_fd = TAKE_FD(awaited.fd);
        peer_discard_one(&awaited.fd);
        *ret = awaited.answer;
        if (awaited.error.code && e)
                *e = awaited.error;
        return -(int)awaited.error.code;
}

int box_quiesce(struct box *box, struct init_answer *ret, struct cloche_err *e)
{
        int r;

        box->waiter->control.kind = &control_of_quiesce;
        r = request_init(box, INIT_QUIESCE, "", ret, NULL, e);
        box->waiter->control.kind = &control_of_box;
        return r;
}

static int request_file(struct box *box, enum init_op op, const char *path, int *ret_fd, struct cloche_err *e)
{
        struct init_answer answer;

        return request_init(box, op, path, &answer, ret_fd, e);
}

int box_list(struct box *box, const char *path, int *ret_fd, struct cloche_err *e)
{
        return request_file(box, INIT_LIST, path, ret_fd, e);
}

int box_get(struct box *box, const char *path, int *ret_fd, struct cloche_err *e)
{
        return request_file(box, INIT_GET, path, ret_fd, e);
}

int box_read_link(struct box *box, const char *path, int *ret_fd, struct cloche_err *e)
{
        return request_file(box, INIT_READLINK, path, ret_fd, e);
}
