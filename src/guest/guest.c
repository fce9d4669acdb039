/* Runs in: a template, that is an interpreter of the image with an agent of ours in it, and in its forked children until
 * they serve their first request. Code of the host's prefix ran in this process before: nothing here trusts it to be
 * well, and nothing outside trusts what is said here. */
#include "guest.h"

#include "base/err.h"
#include "base/fd.h"
#include "jail/caps.h"
#include "jail/plan.h"
#include "keeper/fork-protocol.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define DESCRIPTORS_MAX 256
#define HEAP_STEP (8 << 20)
#define FORK_FDS_MAX (FORK_FD_COUNT + FORK_TASKS_MAX + 1)

static struct {
        int fork_fd, channel_fd, ended_fd, own_pid_fd;
        int own_fds[DESCRIPTORS_MAX]; /* the interpreter's, at its start */
        size_t own_fd_count;
        unsigned own_threads;
        sigset_t mask; /* these two as the interpreter had them */
        struct sigaction child_action;
        struct child {
                pid_t pid;
                uint32_t id;
        } *children;
        size_t child_count, child_room;
        /* The fork that is under way. */
        struct fork_request request;
        int fds[FORK_FDS_MAX];
        size_t fd_count;
} guest = {.fork_fd = -EBADF, .channel_fd = -EBADF, .ended_fd = -EBADF, .own_pid_fd = -EBADF};

/* -- what is told to the engine ------------------------------------------------------------------------------- */

static void store_u32(char *to, uint32_t value)
{
        for (int i = 0; i < 4; i++)
                to[i] = (char)(value >> 8 * i);
}

/* One frame (spec/values.md) without attachments. The channel is a stream, and nobody else writes while the template waits. */
static void tell(const char *json)
{
        char frame[1024];
        uint32_t size = (uint32_t)strlen(json);

        store_u32(frame, size + 4);
        store_u32(frame + 4, size);
        memcpy(frame + 8, json, size);
        for (size_t at = 0; at < size + 8u;) {
                ssize_t n = send(guest.channel_fd, frame + at, size + 8 - at, MSG_NOSIGNAL);

                if (n < 0 && errno == EAGAIN) {
                        struct pollfd polled = {.fd = guest.channel_fd, .events = POLLOUT};

                        poll(&polled, 1, -1);
                } else if (n < 0 && errno != EINTR) {
                        return; /* the engine is gone */
                } else if (n > 0) {
                        at += (size_t)n;
                }
        }
}

static void tell_exited(uint32_t id, int status, const struct rusage *usage)
{
        char json[512];

        snprintf(json, sizeof(json),
                 "{\"jsonrpc\":\"2.0\",\"method\":\"exited\",\"params\":{\"fork\":%u,\"status\":%d,\"userUs\":%llu,"
                 "\"systemUs\":%llu,\"maxRssBytes\":%llu}}",
                 id, status, (unsigned long long)usage->ru_utime.tv_sec * 1000000u + (unsigned long long)usage->ru_utime.tv_usec,
                 (unsigned long long)usage->ru_stime.tv_sec * 1000000u + (unsigned long long)usage->ru_stime.tv_usec,
                 (unsigned long long)usage->ru_maxrss * 1024u);
        tell(json);
}

/* The message is ours: letters, no quotes. */
static void tell_failed(uint32_t id, const struct cloche_err *e)
{
        char json[512];

        snprintf(json, sizeof(json),
                 "{\"jsonrpc\":\"2.0\",\"method\":\"failed\",\"params\":{\"fork\":%u,\"errno\":%d,\"message\":\"%.200s\"}}", id,
                 e->os_errno, e->msg);
        tell(json);
}

/* -- what stands in the way of forking ------------------------------------------------------------------------ */

static unsigned count_threads(void)
{
        unsigned count = 0;
        DIR *dir = opendir("/proc/self/task");

        if (!dir)
                return 0;
        for (struct dirent *entry; (entry = readdir(dir));)
                count += entry->d_name[0] != '.';
        closedir(dir);
        return count;
}

/* Calls see for every open descriptor but that of the listing itself. */
static void each_descriptor(void (*see)(int fd, void *data), void *data)
{
        DIR *dir = opendir("/proc/self/fd");

        if (!dir)
                return;
        for (struct dirent *entry; (entry = readdir(dir));)
                if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(dir))
                        see(atoi(entry->d_name), data);
        closedir(dir);
}

static int is_own(int fd)
{
        for (size_t i = 0; i < guest.own_fd_count; i++)
                if (guest.own_fds[i] == fd)
                        return 1;
        return fd == guest.fork_fd || fd == guest.channel_fd || fd == guest.ended_fd || fd == guest.own_pid_fd;
}

static void remember(int fd, void *data)
{
        (void)data;
        if (guest.own_fd_count < DESCRIPTORS_MAX)
                guest.own_fds[guest.own_fd_count++] = fd;
}

struct text {
        char *at;
        size_t size, used;
        int found;
};

static void name_stranger(int fd, void *data)
{
        struct text *text = data;
        char path[64], target[128];
        ssize_t n;

        if (is_own(fd))
                return;
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        n = readlink(path, target, sizeof(target) - 1);
        target[n < 0 ? 0 : n] = '\0';
        if (text->used < text->size)
                text->used += (size_t)snprintf(text->at + text->used, text->size - text->used, "%s%d (%s)",
                                               text->found ? ", " : "descriptors are open: ", fd, target);
        text->found = 1;
}

int cloche_guest_freeze(int channel_fd, char *ret_text, size_t size)
{
        struct text text = {.at = ret_text, .size = size};
        unsigned threads = count_threads();

        guest.channel_fd = channel_fd;
        if (size)
                ret_text[0] = '\0';
        if (threads > guest.own_threads) {
                snprintf(ret_text, size, "%u threads are alive beside the interpreter's own", threads - guest.own_threads);
                return -EBUSY;
        }
        if (waitpid(-1, NULL, WNOHANG) == 0) {
                snprintf(ret_text, size, "child processes are alive");
                return -EBUSY;
        }
        each_descriptor(name_stranger, &text);
        return text.found ? -EBUSY : 0;
}

/* -- being a template ----------------------------------------------------------------------------------------- */

static int move_up(int fd, int least)
{
        int moved_fd = fcntl(fd, F_DUPFD_CLOEXEC, least);

        if (moved_fd >= 0)
                close(fd);
        return moved_fd < 0 ? -errno : moved_fd;
}

/* High numbers stay clear of what the code opens or closes by habit. */
static int keep_high(int fd)
{
        static const int numbers[] = {990, 490, 190, 50, 5};

        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
                int moved_fd = move_up(fd, numbers[i]);

                if (moved_fd >= 0)
                        return moved_fd;
        }
        return -errno;
}

/* Descriptors of a new template: the way it is told to fork, its own pid namespace to come back to, its children's ends. */
static int become_template(int fork_fd)
{
        guest.fork_fd = keep_high(fork_fd);
        guest.own_pid_fd = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
        if (guest.fork_fd < 0 || guest.own_pid_fd < 0)
                return -errno;
        guest.own_pid_fd = keep_high(guest.own_pid_fd);
        guest.ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (guest.ended_fd < 0)
                return -errno;
        guest.ended_fd = keep_high(guest.ended_fd);
        return guest.ended_fd < 0 || guest.own_pid_fd < 0 ? -EMFILE : 0;
}

int cloche_guest_start(void)
{
        int type = 0, r;
        socklen_t size = sizeof(type);

        if (getsockopt(CLOCHE_GUEST_FORK_FD, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_SEQPACKET)
                return 0;
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
                return -errno;
        r = become_template(CLOCHE_GUEST_FORK_FD);
        if (r < 0)
                return r;
        /* A heap that grows in large steps has whole huge pages in it. */
        mallopt(M_TOP_PAD, HEAP_STEP);
        guest.own_threads = count_threads();
        each_descriptor(remember, NULL);
        return 1;
}

static void drop_fds(void)
{
        for (size_t i = 0; i < guest.fd_count; i++)
                fd_close(&guest.fds[i]);
        guest.fd_count = 0;
}

static void reap(void)
{
        eventfd_t ignored;
        struct rusage usage;
        int status;
        pid_t pid;

        (void)eventfd_read(guest.ended_fd, &ignored);
        while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0)
                for (size_t i = 0; i < guest.child_count; i++)
                        if (guest.children[i].pid == pid) {
                                tell_exited(guest.children[i].id, status, &usage);
                                guest.children[i] = guest.children[--guest.child_count];
                                break;
                        }
}

static int make_room(void)
{
        struct child *grown;

        if (guest.child_count < guest.child_room)
                return 0;
        grown = realloc(guest.children, (guest.child_room + 64) * sizeof(*grown));
        if (!grown)
                return -ENOMEM;
        guest.children = grown;
        guest.child_room += 64;
        return 0;
}

/* 1: a whole request; 0: nobody will ask any more. */
static int receive_request(void)
{
        ssize_t n;

        guest.fd_count = FORK_FDS_MAX;
        n = fd_receive(guest.fork_fd, &guest.request, sizeof(guest.request), guest.fds, &guest.fd_count, 0);
        if (n <= 0)
                return 0;
        if (n == sizeof(guest.request) && guest.request.tasks_count <= FORK_TASKS_MAX &&
            guest.fd_count == FORK_FD_COUNT + guest.request.tasks_count + (guest.request.is_template ? 1 : 0))
                return 1;
        drop_fds();
        return 0;
}

/* The next child is born in the box's pid namespace. */
static int prepare_fork(void)
{
        struct cloche_err e = {0};
        int r = make_room();

        if (r == 0 && setns(guest.fds[FORK_FD_PID], CLONE_NEWPID) < 0)
                r = -errno;
        if (r < 0) {
                err_os(&e, CLOCHE_E_NAMESPACE, -r, "join the pid namespace of the box");
                tell_failed(guest.request.id, &e);
                drop_fds();
        }
        return r;
}

/* On whichever thread: an interpreter may have some that do not block the signal, so a signalfd would not see it. */
static void on_child(int signal_number)
{
        int code = errno;

        (void)signal_number;
        (void)eventfd_write(guest.ended_fd, 1);
        errno = code;
}

int cloche_guest_wait(void)
{
        const struct sigaction action = {.sa_handler = on_child, .sa_flags = SA_RESTART | SA_NOCLDSTOP};
        struct pollfd polled[2];
        sigset_t all;

        /* Signals of the interpreter wait, or its handlers would be lost or run twice around the fork. */
        sigfillset(&all);
        sigdelset(&all, SIGCHLD);
        sigprocmask(SIG_BLOCK, &all, &guest.mask);
        sigaction(SIGCHLD, &action, &guest.child_action);
        reap(); /* those that ended in between */
        for (;;) {
                polled[0] = (struct pollfd){.fd = guest.fork_fd, .events = POLLIN};
                polled[1] = (struct pollfd){.fd = guest.ended_fd, .events = POLLIN};
                if (poll(polled, 2, -1) < 0 && errno != EINTR)
                        return 0;
                if (polled[1].revents)
                        reap();
                if (!polled[0].revents)
                        continue;
                if (receive_request() == 0)
                        return 0;
                if (prepare_fork() == 0)
                        return 1;
        }
}

void cloche_guest_parent(int pid)
{
        struct cloche_err e = {0};

        /* Without it every later process of this template would be born in that box. */
        if (setns(guest.own_pid_fd, CLONE_NEWPID) < 0)
                abort();
        if (pid > 0) {
                guest.children[guest.child_count++] = (struct child){pid, guest.request.id};
        } else {
                err_os(&e, CLOCHE_E_RESOURCE, -pid, "fork the template");
                tell_failed(guest.request.id, &e);
        }
        drop_fds();
        sigaction(SIGCHLD, &guest.child_action, NULL);
        sigprocmask(SIG_SETMASK, &guest.mask, NULL);
}

/* -- being a child -------------------------------------------------------------------------------------------- */

static int enter_groups(struct cloche_err *e)
{
        for (uint32_t i = 0; i < guest.request.tasks_count; i++)
                if (write(guest.fds[FORK_FD_COUNT + i], "0", 1) != 1)
                        return err_os(e, CLOCHE_E_CGROUP, errno, "enter the groups of the box");
        return 0;
}

static int join_namespaces(struct cloche_err *e)
{
        static const struct {
                enum fork_fd place;
                int kind;
                const char *name;
        } rows[] = {
                {FORK_FD_USER, CLONE_NEWUSER, "user"}, {FORK_FD_NET, CLONE_NEWNET, "net"},
                {FORK_FD_MOUNT, CLONE_NEWNS, "mount"}, {FORK_FD_IPC, CLONE_NEWIPC, "ipc"},
                {FORK_FD_UTS, CLONE_NEWUTS, "uts"},    {FORK_FD_CGROUP, CLONE_NEWCGROUP, "cgroup"},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                if (setns(guest.fds[rows[i].place], rows[i].kind) < 0)
                        return err_os(e, CLOCHE_E_NAMESPACE, errno, "join the %s namespace of the box", rows[i].name);
        return 0;
}

static int become_user(struct cloche_err *e)
{
        /* By the system call: a C library would do it for threads it remembers from the template. */
        if (syscall(SYS_setresgid, JAIL_UID, JAIL_UID, JAIL_UID) < 0 || syscall(SYS_setresuid, JAIL_UID, JAIL_UID, JAIL_UID) < 0)
                return err_os(e, CLOCHE_E_PRIVILEGE, errno, "become the user of the box");
        return 0;
}

static int set_limits(struct cloche_err *e)
{
        const struct {
                int resource;
                uint64_t value;
        } rows[] = {
                {RLIMIT_CPU, guest.request.cpu_seconds}, {RLIMIT_FSIZE, guest.request.file_bytes},
                {RLIMIT_NOFILE, guest.request.open_files}, {RLIMIT_NPROC, guest.request.pids},
                {RLIMIT_DATA, guest.request.data_bytes},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct rlimit limit = {rows[i].value, rows[i].value}, now;

                if (rows[i].value == UINT64_MAX)
                        continue;
                if (getrlimit((__rlimit_resource_t)rows[i].resource, &now) == 0 && now.rlim_max < limit.rlim_max)
                        limit.rlim_cur = limit.rlim_max = now.rlim_max;
                if (setrlimit((__rlimit_resource_t)rows[i].resource, &limit) < 0)
                        return err_os(e, CLOCHE_E_PRIVILEGE, errno, "set a resource limit");
        }
        return 0;
}

/* What the template may and a run may not. The template's own filter stays in force beneath. */
static int tighten_filter(struct cloche_err *e)
{
#define REFUSE_CALL(number)                                                          \
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1),                         \
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
        static struct sock_filter filter[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                REFUSE_CALL(SYS_setns),
                REFUSE_CALL(SYS_seccomp),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        const struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};

        /* Other architectures never come this far: the template's filter kills them. */
        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
                return err_os(e, CLOCHE_E_SECCOMP, errno, "tighten the system call filter");
        return 0;
}

static int place_descriptors(int *ret_fork_fd, struct cloche_err *e)
{
        int *const ours[] = {&guest.fork_fd, &guest.ended_fd, &guest.own_pid_fd};

        /* What arrived on a number that is about to be taken moves out of the way. */
        for (size_t i = 0; i < guest.fd_count; i++)
                if (guest.fds[i] <= CLOCHE_GUEST_CHANNEL_FD && (guest.fds[i] = move_up(guest.fds[i], CLOCHE_GUEST_FORK_FD)) < 0)
                        return err_os(e, CLOCHE_E_RESOURCE, EMFILE, "place the descriptors");
        for (int i = 0; i <= CLOCHE_GUEST_CHANNEL_FD; i++)
                if (dup2(guest.fds[i], i) < 0)
                        return err_os(e, CLOCHE_E_RESOURCE, errno, "place descriptor %d", i);
        if (guest.request.is_template) {
                *ret_fork_fd = guest.fds[guest.fd_count - 1];
                guest.fds[guest.fd_count - 1] = -EBADF;
        }
        drop_fds();
        for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
                fd_close(ours[i]);
        return 0;
}

/* The order: groups first, so that what is copied from here on is on the run's account; the network and user namespaces
 * give the right to join the others; ids and limits need that right; then it goes, and the filter comes last. */
static int enter(int *ret_fork_fd, struct cloche_err *e)
{
        int r = enter_groups(e);

        if (r == 0)
                r = join_namespaces(e);
        if (r == 0)
                r = become_user(e);
        if (r == 0)
                r = set_limits(e);
        if (r == 0)
                r = guest.request.is_template ? caps_keep_admin(0, e) : caps_drop_all(e);
        if (r == 0 && !guest.request.is_template)
                r = tighten_filter(e);
        if (r == 0 && (chdir("/workspace") < 0 || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0))
                r = err_os(e, CLOCHE_E_MOUNT, errno, "enter the workspace");
        return r < 0 ? r : place_descriptors(ret_fork_fd, e);
}

static void forget_children(void)
{
        free(guest.children);
        guest.children = NULL;
        guest.child_count = guest.child_room = 0;
}

int cloche_guest_child(void)
{
        struct cloche_err e = {0};
        int fork_fd = -EBADF, template_channel_fd = guest.channel_fd;
        int is_template = (int)guest.request.is_template, r;

        setsid();
        r = enter(&fork_fd, &e);
        if (r == 0 && is_template && become_template(fork_fd) < 0)
                r = err_os(&e, CLOCHE_E_RESOURCE, errno, "become a template");
        if (r < 0) {
                tell_failed(guest.request.id, &e);
                _exit(1);
        }
        close(template_channel_fd);
        guest.channel_fd = -EBADF;
        forget_children();
        sigaction(SIGCHLD, &guest.child_action, NULL);
        sigprocmask(SIG_SETMASK, &guest.mask, NULL);
        return is_template;
}
