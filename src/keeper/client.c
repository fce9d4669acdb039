#include "client.h"

#include "base/err.h"
#include "base/fd.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct keeper {
        pid_t pid;
        int socket_fd;
        struct keeper_guard guards[CLOCHE_GUARD_COUNT];
        struct keeper_request request; /* 8 KiB: too large for a library's stack */
        struct keeper_answer answer;
};

/* One exchange. fds: room for as many descriptors as the answer must bring. */
static int ask(struct keeper *k, uint32_t op, uint32_t box, int *fds, size_t fds_expected, struct cloche_err *e)
{
        size_t fd_count = fds_expected;
        ssize_t n;
        int r;

        k->request.op = op;
        k->request.box = box;
        r = fd_send(k->socket_fd, &k->request, sizeof(k->request), NULL, 0);
        if (r < 0)
                return err_os(e, CLOCHE_E_KEEPER, -r, "ask the keeper");
        n = fd_receive(k->socket_fd, &k->answer, sizeof(k->answer), fds, &fd_count, 0);
        if (n <= 0)
                return err_os(e, CLOCHE_E_KEEPER, n == 0 ? EPIPE : (int)-n, "hear from the keeper");
        if (n != sizeof(k->answer) || k->answer.op != op || err_check(&k->answer.err) < 0)
                return err_set(e, CLOCHE_E_KEEPER, "the keeper's answer is malformed (%zd bytes)", n);
        if (k->answer.err.code) {
                if (e)
                        *e = k->answer.err;
                return -(int)k->answer.err.code;
        }
        return fd_count == fds_expected ? 0 : err_set(e, CLOCHE_E_KEEPER, "the keeper's answer lacks descriptors");
}

/* Between fork and exec of a process that may have threads: system calls only. */
static _Noreturn void become_keeper(int socket_fd, int error_fd, const char *program, char *const argv[])
{
        char *const environment[] = {NULL};
        int spare_fd = fcntl(error_fd, F_DUPFD_CLOEXEC, 4), code;
        sigset_t none;

        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        /* dup2 onto itself would leave close-on-exec set. */
        if (spare_fd >= 0 && (socket_fd == 3 ? fcntl(3, F_SETFD, 0) : dup2(socket_fd, 3)) >= 0)
                execve(program, argv, environment);
        code = errno;
        if (write(spare_fd < 0 ? error_fd : spare_fd, &code, sizeof(code)) < 0)
                _exit(126);
        _exit(127);
}

static int start_process(struct keeper *k, int socket_fd, const char *program, char *const argv[], struct cloche_err *e)
{
        _cleanup_fd_ int read_fd = -EBADF, write_fd = -EBADF;
        int pair[2], code = 0;

        if (pipe2(pair, O_CLOEXEC) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a pipe");
        read_fd = pair[0];
        write_fd = pair[1];
        k->pid = fork();
        if (k->pid < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "fork");
        if (k->pid == 0)
                become_keeper(socket_fd, write_fd, program, argv);
        fd_close(&write_fd);
        if (fd_read_full(read_fd, &code, sizeof(code)) == 0)
                return err_os(e, CLOCHE_E_KEEPER, code, "start %s", program);
        return 0;
}

int keeper_start(const char *libexec_dir, struct keeper **ret, struct cloche_err *e)
{
        char program[KEEPER_PATH_MAX], init[KEEPER_PATH_MAX];
        char *const argv[] = {(char *)"cloche-keeper", init, NULL};
        _cleanup_fd_ int theirs_fd = -EBADF;
        struct keeper *k;
        int pair[2], r;

        if ((size_t)snprintf(program, sizeof(program), "%s/cloche-keeper", libexec_dir) >= sizeof(program) ||
            (size_t)snprintf(init, sizeof(init), "%s/cloche-box-init", libexec_dir) >= sizeof(init))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the program directory's name is too long");
        k = calloc(1, sizeof(*k));
        if (!k)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start the keeper");
        k->socket_fd = -EBADF;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
                free(k);
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make the keeper's socket");
        }
        k->socket_fd = pair[0];
        theirs_fd = pair[1];
        r = start_process(k, theirs_fd, program, argv, e);
        fd_close(&theirs_fd);
        if (r == 0)
                r = ask(k, KEEPER_HELLO, 0, NULL, 0, e);
        if (r < 0) {
                keeper_stop(k);
                return r;
        }
        memcpy(k->guards, k->answer.guards, sizeof(k->guards));
        for (int g = 0; g < CLOCHE_GUARD_COUNT; g++)
                k->guards[g].reason[sizeof(k->guards[g].reason) - 1] = '\0';
        *ret = k;
        return 0;
}

void keeper_stop(struct keeper *k)
{
        if (!k)
                return;
        fd_close(&k->socket_fd); /* the keeper drops all boxes at end of file, then exits */
        if (k->pid > 0)
                while (waitpid(k->pid, NULL, 0) < 0 && errno == EINTR)
                        ;
        free(k);
}

const struct keeper_guard *keeper_guard(const struct keeper *k, enum cloche_guard guard)
{
        return &k->guards[guard];
}

int keeper_box_make(struct keeper *k, const struct keeper_box_spec *spec, uint32_t *ret_box, int *ret_control_fd,
                    int *ret_init_pidfd, struct cloche_err *e)
{
        int fds[2], r;

        k->request.spec = *spec;
        r = ask(k, KEEPER_BOX_MAKE, 0, fds, 2, e);
        if (r < 0)
                return r;
        *ret_box = k->answer.box;
        *ret_control_fd = fds[0];
        *ret_init_pidfd = fds[1];
        return 0;
}

int keeper_box_usage(struct keeper *k, uint32_t box, struct keeper_usage *ret, struct cloche_err *e)
{
        int r = ask(k, KEEPER_BOX_USAGE, box, NULL, 0, e);

        if (r == 0)
                *ret = k->answer.usage;
        return r;
}

int keeper_box_freeze(struct keeper *k, uint32_t box, struct cloche_err *e)
{
        return ask(k, KEEPER_BOX_FREEZE, box, NULL, 0, e);
}

int keeper_box_thaw(struct keeper *k, uint32_t box, struct cloche_err *e)
{
        return ask(k, KEEPER_BOX_THAW, box, NULL, 0, e);
}

int keeper_box_drop(struct keeper *k, uint32_t box, struct keeper_usage *ret, struct cloche_err *e)
{
        int r = ask(k, KEEPER_BOX_DROP, box, NULL, 0, e);

        if (r == 0 && ret)
                *ret = k->answer.usage;
        return r;
}
