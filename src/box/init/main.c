/* box-init: PID 1 of every box. Runs in: the box, as its ordinary user, without capabilities, under
 * the filter; static, single thread, not dumpable, so the code beside it can neither trace it nor
 * look into /proc/1.
 * Serves proto/init.h on descriptor 3, reaps every orphan, and exits when the engine's socket
 * closes; the kernel then kills the rest of the pid namespace. */
#include "clean-check.h"
#include "init.h"

#include "base/err.h"
#include "base/fd.h"
#include "jail/root/plan.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#define ENGINE_FD 3

void init_send(const struct init_answer *answer, int fd)
{
        struct init_answer without = {.op = answer->op};
        int r = fd_send(ENGINE_FD, answer, sizeof(*answer), &fd, fd >= 0);

        if (r == -ETOOMANYREFS) { /* all descriptors of our user in flight count together (unix(7)) */
                err_os(&without.err, CLOCHE_E_RESOURCE, -r, "send a descriptor to the engine");
                r = fd_send(ENGINE_FD, &without, sizeof(without), NULL, 0);
        }
        /* The engine is gone or does not read: a box without its engine ends. */
        if (r < 0)
                _exit(0);
}

static int measure_disk(struct init_answer *answer)
{
        struct statvfs fs;

        /* One file system is shown at four places; no mount ever covers this one. */
        if (statvfs("/dev/shm", &fs) < 0)
                return 0;
        answer->disk_bytes_used = (fs.f_blocks - fs.f_bfree) * fs.f_frsize;
        answer->disk_bytes_free = fs.f_bfree * fs.f_frsize;
        answer->disk_inodes_used = fs.f_files - fs.f_ffree;
        answer->disk_inodes_free = fs.f_ffree;
        return 0;
}

static int quiesce(struct init_answer *answer)
{
        int r = kill_all(&answer->err);

        return r < 0 ? r : measure_disk(answer);
}

static int attach_error; /* errno of the process that attached mounts to places in others, or looked at files
                            (jail/root/inner.c) */

/* The process that attaches mounts was started before us. Until all mounts are in place, the
 * place of one shows the outer mount, so no request is answered and no program is started before
 * it has ended. It waits for the server of the outer mount, as long as the engine lets it. */
static void wait_for_mounts(void)
{
        int status;
        pid_t pid;

        while ((pid = waitpid(-1, &status, 0)) > 0 || (pid < 0 && errno == EINTR))
                if (pid > 0 && status != 0)
                        attach_error = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
}

static int answer_request(struct init_request *request, const int *fds, size_t fd_count, struct init_answer *answer,
                          int *ret_fd)
{
        switch ((enum init_op)request->op) {
        case INIT_PUT:
                return files_put(request, fds, fd_count, &answer->err);
        case INIT_SPAWN:
                return programs_spawn(request, fds, fd_count, &answer->pid, ret_fd, &answer->err);
        case INIT_QUIESCE:
                return quiesce(answer);
        case INIT_LIST:
                return init_files_list(request, ret_fd, &answer->err);
        case INIT_GET:
                return files_get(request, ret_fd, &answer->err);
        case INIT_READLINK:
                return files_read_link(request, ret_fd, &answer->err);
        case INIT_RECORD_STATE:
                clean_check_record();
                return 0;
        case INIT_CHECK_CLEAN:
                answer->is_clean = kill_all(NULL) == 0 && clean_check_passes();
                return measure_disk(answer);
        case INIT_KILL:
                return kill_asked(request, fds, fd_count, &answer->pid, &answer->err);
        case INIT_CONNECT:
                return net_connect(request, ret_fd, &answer->err);
        case INIT_PORTS:
                return net_ports(ret_fd, &answer->err);
        case INIT_DISK:
                return measure_disk(answer);
        case INIT_EXITED:
                break;
        }
        return err_set(&answer->err, CLOCHE_E_PROTOCOL, "there is no request %u", request->op);
}

static void make_absolute(struct init_request *request)
{
        char path[INIT_PATH_MAX];

        request->path[INIT_PATH_MAX - 1] = '\0';
        if (request->path[0] == '/')
                return;
        memcpy(path, request->path, sizeof(path));
        snprintf(request->path, sizeof(request->path), "/workspace/%.*s", INIT_PATH_MAX - 16, path);
}

static void serve_one(void)
{
        static struct init_request request;
        static struct init_answer answer;
        int fds[FD_MESSAGE_MAX], answer_fd = -EBADF;
        size_t fd_count = FD_MESSAGE_MAX;
        ssize_t n = fd_receive(ENGINE_FD, &request, sizeof(request), fds, &fd_count, 0);

        if (n != sizeof(request))
                _exit(n == 0 ? 0 : 1);
        make_absolute(&request);
        answer = (struct init_answer){.op = request.op};
        if (attach_error)
                err_os(&answer.err, CLOCHE_E_MOUNT, attach_error,
                       "prepare a mount that lies in another one, or is a file");
        else if (answer_request(&request, fds, fd_count, &answer, &answer_fd) == 0)
                answer.err = (struct cloche_err){0};
        for (size_t i = 0; i < fd_count; i++)
                close(fds[i]);
        init_send(&answer, answer_fd);
        fd_close(&answer_fd);
}

static void serve(int signal_fd)
{
        struct pollfd polled[] = {{.fd = ENGINE_FD, .events = POLLIN}, {.fd = signal_fd, .events = POLLIN}};
        struct signalfd_siginfo ignored;

        for (;;) {
                if (poll(polled, 2, -1) < 0) {
                        if (errno == EINTR)
                                continue;
                        _exit(1);
                }
                /* Exits are reported before the answer to a request that came later. */
                if (polled[1].revents && read(signal_fd, &ignored, sizeof(ignored)) > 0) {
                        clean_check_disturb();
                        programs_reap(WNOHANG);
                }
                if (polled[0].revents)
                        serve_one();
        }
}

/* The keeper no longer waits for us: entering a sandbox's groups may take long. */
static int enter_groups(int count)
{
        int r = 0;

        for (int fd = JAIL_GROUPS_FD; fd < JAIL_GROUPS_FD + count; fd++) {
                r = r == 0 ? fd_write_full(fd, "0", 1) : r;
                close(fd);
        }
        return r;
}

/* Arguments: limits of programs (processor seconds, open files), and the number of groups to
 * enter. */
int main(int argc, char **argv)
{
        sigset_t children;
        int signal_fd;

        if (getpid() != 1) {
                fprintf(stderr, "cloche-box-init: started by cloche-keeper as PID 1 of a box only\n");
                return 2;
        }
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return 1;
        if (argc > 3 && enter_groups(atoi(argv[3])) < 0)
                return 1;
        wait_for_mounts();
        programs_set_up(argc > 1 ? strtoull(argv[1], NULL, 10) : 0,
                        argc > 2 ? strtoull(argv[2], NULL, 10) : RLIM_INFINITY);
        fcntl(ENGINE_FD, F_SETFD, FD_CLOEXEC);
        fcntl(JAIL_LEASE_FD, F_SETFD, FD_CLOEXEC); /* held until we end, if there is one */
        signal(SIGPIPE, SIG_IGN);
        signal(SIGXFSZ, SIG_IGN); /* a file over the limit is an error of the request that writes it */
        umask(022);
        sigemptyset(&children);
        sigaddset(&children, SIGCHLD);
        sigprocmask(SIG_BLOCK, &children, NULL);
        signal_fd = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
        if (signal_fd < 0)
                return 1;
        serve(signal_fd);
        return 0;
}
