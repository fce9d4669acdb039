#include "box.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/peer.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

int box_make(struct box *box, struct keeper *keeper, const struct keeper_box_spec *spec, struct cloche_err *e)
{
        struct keeper_box made;
        int r;

        *box = (struct box){.keeper = keeper, .control_fd = -EBADF, .pidfd = -EBADF, .fork_fd = -EBADF};
        r = keeper_box_make(keeper, spec, &made, e);
        if (r == 0)
                box_adopt(box, keeper, &made);
        return r;
}

static void set_patience(const struct box *box, int seconds)
{
        struct timeval patience = {.tv_sec = seconds};

        setsockopt(box->control_fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        setsockopt(box->control_fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

void box_adopt(struct box *box, struct keeper *keeper, const struct keeper_box *made)
{
        *box = (struct box){.keeper = keeper, .made = 1, .id = made->id, .control_fd = made->control_fd,
                            .pidfd = made->pidfd, .fork_fd = made->fork_fd};
        set_patience(box, BOX_PATIENCE_S);
}

/* One packet of init. It lives beside hostile code, so nothing of it is believed unseen. */
static int receive(struct box *box, struct init_answer *ret, int *ret_fd, int flags, struct cloche_err *e)
{
        _cleanup_fd_ int fd = -EBADF;
        ssize_t n = peer_receive_with(box->control_fd, ret, sizeof(*ret), ret_fd ? S_IFREG : 0, &fd, flags);

        if (n == -EAGAIN && flags)
                return -EAGAIN;
        if (n <= 0)
                return err_os(e, CLOCHE_E_STATE, n == 0 ? EPIPE : (int)-n, "the box's init is gone");
        if (n != sizeof(*ret) || err_check(&ret->err) < 0)
                return err_set(e, CLOCHE_E_PROTOCOL, "the box's init sent %zd bytes that are no answer", n);
        if (ret->op == INIT_EXITED && ret->pid == box->pid) {
                box->exited = 1;
                box->exit = *ret;
        }
        if (ret_fd)
                *ret_fd = TAKE_FD(fd);
        return 0;
}

static int ask(struct box *box, struct init_request *request, const int *fds, size_t fd_count, struct init_answer *ret,
               int *ret_fd, struct cloche_err *e)
{
        int fd = -EBADF, r = fd_send(box->control_fd, request, sizeof(*request), fds, fd_count);

        if (r < 0)
                return err_os(e, CLOCHE_E_STATE, -r, "the box's init is gone");
        do {
                fd_close(&fd);
                r = receive(box, ret, ret_fd ? &fd : NULL, 0, e);
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

static int set_path(struct init_request *request, const char *path, struct cloche_err *e)
{
        if (strlen(path) >= sizeof(request->path))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "a path of %zu bytes, at most %zu are taken", strlen(path),
                               sizeof(request->path) - 1);
        strcpy(request->path, path);
        return 0;
}

int box_put(struct box *box, const char *path, int fd, uint32_t mode, struct cloche_err *e)
{
        struct init_request request = {.op = INIT_PUT, .mode = mode};
        struct init_answer answer;
        int r = set_path(&request, path, e);

        return r < 0 ? r : ask(box, &request, &fd, 1, &answer, NULL, e);
}

int box_spawn(struct box *box, const char *strings, size_t size, uint32_t argc, uint32_t envc, const int *fds,
              size_t fd_count, struct cloche_err *e)
{
        struct init_request request = {.op = INIT_SPAWN, .argc = argc, .envc = envc};
        struct init_answer answer;
        int all[6], r;
        _cleanup_fd_ int strings_fd = -EBADF;

        if (size > INIT_STRINGS_MAX)
                return err_set(e, CLOCHE_E_TOO_LARGE, "arguments and environment have %zu bytes, at most %u are taken", size, INIT_STRINGS_MAX);
        strings_fd = fd_from_bytes("strings", strings, size);
        if (strings_fd < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -strings_fd, "hold the arguments");
        all[0] = strings_fd;
        memcpy(all + 1, fds, fd_count * sizeof(int));
        r = ask(box, &request, all, fd_count + 1, &answer, NULL, e);
        if (r == 0)
                box->pid = answer.pid;
        return r;
}

int box_quiesce(struct box *box, struct init_answer *ret, struct cloche_err *e)
{
        struct init_request request = {.op = INIT_QUIESCE};
        int r;

        set_patience(box, BOX_QUIESCE_PATIENCE_S);
        r = ask(box, &request, NULL, 0, ret, NULL, e);
        set_patience(box, BOX_PATIENCE_S);
        return r;
}

int box_tell(struct box *box, enum init_op op, struct cloche_err *e)
{
        struct init_request request = {.op = op};
        int r = fd_send(box->control_fd, &request, sizeof(request), NULL, 0);

        return r < 0 ? err_os(e, CLOCHE_E_STATE, -r, "the box's init is gone") : 0;
}

int box_hear_answer(struct box *box, enum init_op op, int *ret_clean, struct cloche_err *e)
{
        struct init_answer answer;
        int r = receive(box, &answer, NULL, MSG_DONTWAIT, e);

        if (r < 0)
                return r == -EAGAIN ? 0 : r;
        if (ret_clean)
                *ret_clean = answer.is_clean == 1;
        return answer.op == op;
}

static int ask_for_file(struct box *box, enum init_op op, const char *path, int *ret_fd, struct cloche_err *e)
{
        struct init_request request = {.op = op};
        struct init_answer answer;
        int r = set_path(&request, path, e);

        return r < 0 ? r : ask(box, &request, NULL, 0, &answer, ret_fd, e);
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

int box_hear(struct box *box, struct cloche_err *e)
{
        struct init_answer answer;
        int r = receive(box, &answer, NULL, MSG_DONTWAIT, e);

        return r == -EAGAIN ? 0 : r;
}

static void on_dropped(void *data, struct keeper_reply *reply)
{
        (void)data;
        (void)reply;
}

void box_drop_later(struct box *box)
{
        if (!box->made)
                return;
        box->made = 0;
        peer_close(&box->control_fd);
        fd_close(&box->pidfd);
        fd_close(&box->fork_fd);
        /* The keeper gone: so is the box. */
        if (keeper_box_drop_later(box->keeper, box->id, on_dropped, NULL, NULL) < 0)
                return;
}

int box_drop(struct box *box, struct keeper_usage *ret, struct cloche_err *e)
{
        if (!box->made)
                return 0;
        box->made = 0;
        peer_close(&box->control_fd);
        fd_close(&box->pidfd);
        fd_close(&box->fork_fd);
        return keeper_box_drop(box->keeper, box->id, ret, e);
}
