#include "box.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/peer.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

#define QUIESCE_PATIENCE_S 10 /* init kills within a second, unless a mount's server does not answer */

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
        return to;
}

static void set_patience(const struct box *box, int seconds)
{
        struct timeval patience = {.tv_sec = seconds};

        setsockopt(box->control_fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        setsockopt(box->control_fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

void box_take_control(struct box *box)
{
        if (!box->control)
                return;
        box->control_fd = control_free_but_fd(box->control);
        box->control = NULL;
        set_patience(box, (int)(control_of_box.patience_ms / 1000));
}

int box_return_control(struct box *box, uv_loop_t *loop, struct cloche_err *e)
{
        if (!box->control)
                box->control = control_new(&control_of_box, TAKE_FD(box->control_fd), loop, e);
        if (!box->control)
                return -CLOCHE_E_RESOURCE;
        box->control->on_exit = NULL;
        box->control->on_end = NULL;
        return 0;
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
        if (keeper_box_drop_later(box->keeper, box->id, NULL, NULL, NULL) < 0)
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
        return !box->is_killed && keeper_box_drop_later(box->keeper, box->id, done, data, NULL) == 0;
}

/* -- in a thread beside the loop ------------------------------------------------------------------------------ */

/* Receive one packet of init. */
static int receive(struct box *box, struct init_answer *ret, int *ret_fd, struct cloche_err *e)
{
        _cleanup_fd_ int fd = -EBADF;
        ssize_t n = peer_receive_with(box->control_fd, ret, sizeof(*ret), ret_fd ? S_IFREG : 0, &fd, 0);
        int r;

        if (n == -EMFILE)
                return err_os(e, CLOCHE_E_RESOURCE, EMFILE, "take a descriptor from the box's init");
        r = control_check(&control_of_box, ret, n, e);
        if (r < 0)
                return r;
        if (ret->op == INIT_EXITED)
                box_keep_exit(box, ret);
        if (ret_fd)
                *ret_fd = TAKE_FD(fd);
        return 0;
}

static int ask(struct box *box, struct init_request *request, struct init_answer *ret, int *ret_fd,
               struct cloche_err *e)
{
        int fd = -EBADF, r = fd_send(box->control_fd, request, sizeof(*request), NULL, 0);

        if (r < 0)
                return err_os(e, CLOCHE_E_STATE, -r, "the box's init is gone");
        do {
                fd_close(&fd);
                r = receive(box, ret, ret_fd ? &fd : NULL, e);
        } while (r == 0 && ret->op == INIT_EXITED);
        if (r == 0 && ret->op != request->op)
                r = err_set(e, CLOCHE_E_PROTOCOL, "the box's init answered %u to %u", ret->op, request->op);
        if (r == 0 && ret->err.code) {
                if (e)
                        *e = ret->err;
                r = -(int)ret->err.code;
        }
        if (r == 0 && ret_fd && fd < 0)
                r = err_set(e, CLOCHE_E_PROTOCOL, "the box's init sent no descriptor");
        if (r == 0 && ret_fd)
                *ret_fd = TAKE_FD(fd);
        fd_close(&fd);
        return r;
}

int box_quiesce(struct box *box, struct init_answer *ret, struct cloche_err *e)
{
        struct init_request request = {.op = INIT_QUIESCE};
        int r;

        set_patience(box, QUIESCE_PATIENCE_S);
        r = ask(box, &request, ret, NULL, e);
        set_patience(box, (int)(control_of_box.patience_ms / 1000));
        return r;
}

static int ask_for_file(struct box *box, enum init_op op, const char *path, int *ret_fd, struct cloche_err *e)
{
        struct init_request request = {.op = op};
        struct init_answer answer;

        if (strlen(path) >= sizeof(request.path))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a path of %zu bytes, at most %zu are taken", strlen(path),
                               sizeof(request.path) - 1);
        strcpy(request.path, path);
        return ask(box, &request, &answer, ret_fd, e);
}

int box_list(struct box *box, const char *path, int *ret_fd, struct cloche_err *e)
{
        return ask_for_file(box, INIT_LIST, path, ret_fd, e);
}

int box_get(struct box *box, const char *path, int *ret_fd, struct cloche_err *e)
{
        return ask_for_file(box, INIT_GET, path, ret_fd, e);
}

int box_read_link(struct box *box, const char *path, int *ret_fd, struct cloche_err *e)
{
        return ask_for_file(box, INIT_READLINK, path, ret_fd, e);
}
