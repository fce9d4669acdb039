/* Runs in: a template, which is an interpreter of the image with our agent in it, and in its forked
 * children until they serve their first request. Code of the host's prefix ran in this process
 * before: nothing here relies on its state, and nothing outside trusts the messages sent here. */
#include "guest.h"

#include "blocker.h"
#include "join.h"
#include "loaded.h"

#include "base/err.h"
#include "base/fd.h"
#include "proto/fork.h"

#include <fcntl.h>
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

#define HEAP_STEP (8 << 20)
#define FORKS_MAX 256 /* live forks of a context */
#define FORK_FDS_MAX (FORK_FD_COUNT + FORK_TASKS_MAX + 1)

/* A descriptor with its file's identity: the number alone proves nothing once code of others
 * ran. */
struct kept {
        int fd;
        dev_t device;
        ino_t inode;
};

static struct {
        struct kept fork, own_pid;
        int channel_fd, ended_fd;
        sigset_t mask; /* these two as the interpreter set them */
        struct sigaction child_action;
        int has_replaced_action;
        struct child {
                pid_t pid;
                uint32_t id;
                int end_fd; /* a pidfd, of a context's child */
        } * children;
        size_t child_count, child_room;
        /* The current fork. */
        struct fork_request request;
        int fds[FORK_FDS_MAX];
        size_t fd_count;
        /* State of the atfork handlers. */
        int is_forking, has_entered;
        char directory[FORK_DIRECTORY_SIZE]; /* where children begin */
} guest = {.fork.fd = -EBADF,
           .channel_fd = -EBADF,
           .ended_fd = -EBADF,
           .own_pid.fd = -EBADF,
           .directory = "/workspace"};

/* -- messages to the engine ----------------------------------------------------------------------------------- */

static void store_u32(char *to, uint32_t value)
{
        for (int i = 0; i < 4; i++)
                to[i] = (char)(value >> 8 * i);
}

/* Send one frame (spec/values.md) without attachments. The channel is a stream, and no other code
 * writes while the template waits. */
static void send_notification(const char *json)
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

static void send_exited(uint32_t id, int status, const struct rusage *usage)
{
        char json[512];

        snprintf(json, sizeof(json),
                 "{\"jsonrpc\":\"2.0\",\"method\":\"exited\",\"params\":{\"fork\":%u,\"status\":%d,\"userUs\":%llu,"
                 "\"systemUs\":%llu,\"maxRssBytes\":%llu}}",
                 id, status,
                 (unsigned long long)usage->ru_utime.tv_sec * 1000000u + (unsigned long long)usage->ru_utime.tv_usec,
                 (unsigned long long)usage->ru_stime.tv_sec * 1000000u + (unsigned long long)usage->ru_stime.tv_usec,
                 (unsigned long long)usage->ru_maxrss * 1024u);
        send_notification(json);
}

/* The message is ours: letters only, no quotes. */
static void send_failed(uint32_t id, const struct cloche_err *e)
{
        char json[512];

        snprintf(json, sizeof(json),
                 "{\"jsonrpc\":\"2.0\",\"method\":\"failed\",\"params\":{\"fork\":%u,\"errno\":%d,\"message\":\"%."
                 "200s\"}}",
                 id, e->os_errno, e->msg);
        send_notification(json);
}

/* -- fork blockers -------------------------------------------------------------------------------------------- */

static int is_fork(pid_t pid)
{
        for (size_t i = 0; i < guest.child_count; i++)
                if (guest.children[i].pid == pid)
                        return 1;
        return 0;
}

/* User code may have closed our descriptor, and another file may have its number now. */
static int is_in_place(const struct kept *kept)
{
        struct stat st;

        return fstat(kept->fd, &st) == 0 && st.st_dev == kept->device && st.st_ino == kept->inode;
}

int cloche_guest_freeze(int channel_fd, char *text, size_t size)
{
        int fds[FORKS_MAX + 4] = {channel_fd, guest.fork.fd, guest.own_pid.fd, guest.ended_fd};
        struct fork_blocker_allowed allowed = {.fds = fds, .fd_count = 4, .is_fork = is_fork};

        guest.channel_fd = channel_fd;
        loaded_record();
        for (size_t i = 0; i < guest.child_count && i < FORKS_MAX; i++)
                fds[allowed.fd_count++] = guest.children[i].end_fd;
        if (is_in_place(&guest.fork) && is_in_place(&guest.own_pid))
                return fork_blocker_find(&allowed, text, size);
        snprintf(text, size, "descriptors %d and %d, without which it cannot be forked, were closed or replaced",
                 guest.fork.fd, guest.own_pid.fd);
        return -EBUSY;
}

void cloche_guest_loaded(const char *path)
{
        loaded_add(path);
}

/* -- being a template ----------------------------------------------------------------------------------------- */

static int move_up(int fd, int least)
{
        int moved_fd = fcntl(fd, F_DUPFD_CLOEXEC, least);

        if (moved_fd >= 0)
                close(fd);
        return moved_fd < 0 ? -errno : moved_fd;
}

/* High numbers avoid conflicts with code that opens or closes descriptors by number. */
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

static int keep(int fd, struct kept *ret)
{
        struct stat st;

        ret->fd = keep_high(fd);
        if (ret->fd < 0 || fstat(ret->fd, &st) < 0)
                return -EMFILE;
        ret->device = st.st_dev;
        ret->inode = st.st_ino;
        return 0;
}

/* Keep the descriptors of a new template: its fork socket, its own pid namespace to return to, and
 * the event of its children's exits. */
static int become_template(int fork_fd)
{
        int own_pid_fd = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC),
            ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), r;

        if (own_pid_fd < 0 || ended_fd < 0)
                return -errno;
        r = keep(fork_fd, &guest.fork);
        if (r == 0)
                r = keep(own_pid_fd, &guest.own_pid);
        guest.ended_fd = r == 0 ? keep_high(ended_fd) : -EBADF;
        return guest.ended_fd < 0 ? -EMFILE : 0;
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
        /* Set-up code may go elsewhere, but runs begin where the template did. */
        if (!getcwd(guest.directory, sizeof(guest.directory)))
                return -errno;
        /* A heap that grows in large steps contains whole huge pages. */
        mallopt(M_TOP_PAD, HEAP_STEP);
        fork_blocker_record_threads();
        fork_blocker_record_descriptors(-EBADF);
        return 1;
}

static void drop_fds(void)
{
        for (size_t i = 0; i < guest.fd_count; i++)
                fd_close(&guest.fds[i]);
        guest.fd_count = 0;
}

static void remove_child(size_t i)
{
        fd_close(&guest.children[i].end_fd);
        guest.children[i] = guest.children[--guest.child_count];
}

/* The children of a template are its forks, and leftovers of its set-up. */
static void reap_everybody(void)
{
        eventfd_t ignored;
        struct rusage usage;
        int status;
        pid_t pid;

        (void)eventfd_read(guest.ended_fd, &ignored);
        while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0)
                for (size_t i = 0; i < guest.child_count; i++)
                        if (guest.children[i].pid == pid) {
                                send_exited(guest.children[i].id, status, &usage);
                                remove_child(i);
                                break;
                        }
}

/* Returns 1 if it has ended. If user code has waited for it (wait(2)), its pid may be another
 * child's by now; then its status is lost. */
static int has_ended(const struct child *child, int *ret_status, struct rusage *ret_usage)
{
        siginfo_t info = {0};

        memset(ret_usage, 0, sizeof(*ret_usage));
        *ret_status = -1;
        if (child->end_fd < 0) /* no descriptor was left for it */
                return wait4(child->pid, ret_status, WNOHANG, ret_usage) != 0;
        if (syscall(SYS_waitid, P_PIDFD, child->end_fd, &info, WEXITED | WNOHANG, ret_usage) < 0)
                return errno != EINTR;
        if (info.si_pid == 0)
                return 0;
        *ret_status = info.si_code == CLD_EXITED ? (info.si_status & 0xff) << 8
                                                 : (info.si_status & 0x7f) | (info.si_code == CLD_DUMPED ? 0x80 : 0);
        return 1;
}

void cloche_guest_reap(void)
{
        for (size_t i = guest.child_count; i > 0; i--) {
                struct rusage usage;
                int status;

                if (!has_ended(&guest.children[i - 1], &status, &usage))
                        continue;
                send_exited(guest.children[i - 1].id, status, &usage);
                remove_child(i - 1);
        }
}

static int make_room(void)
{
        struct child *grown;

        if (guest.child_count < guest.child_room)
                return 0;
        if (!guest.has_replaced_action && guest.child_count >= FORKS_MAX)
                return -EMFILE;
        grown = realloc(guest.children, (guest.child_room + 64) * sizeof(*grown));
        if (!grown)
                return -ENOMEM;
        guest.children = grown;
        guest.child_room += 64;
        return 0;
}

/* Returns 1 for a whole request; 0: no more will come. */
static int receive_request(void)
{
        ssize_t n;

        guest.fd_count = FORK_FDS_MAX;
        n = fd_receive(guest.fork.fd, &guest.request, sizeof(guest.request), guest.fds, &guest.fd_count, 0);
        if (n <= 0)
                return 0;
        if (n == sizeof(guest.request) && guest.request.tasks_count <= FORK_TASKS_MAX &&
            guest.fd_count == FORK_FD_COUNT + guest.request.tasks_count + (guest.request.is_template ? 1 : 0))
                return 1;
        drop_fds();
        return 0;
}

/* Make the next child start in the box's pid namespace. */
static int prepare_fork(void)
{
        struct cloche_err e = {0};
        int r = make_room();

        if (r == 0 && setns(guest.fds[FORK_FD_PID], CLONE_NEWPID) < 0)
                r = -errno;
        guest.is_forking = r == 0;
        if (r < 0) {
                err_os(&e, CLOCHE_E_NAMESPACE, -r, "join the pid namespace of the box");
                send_failed(guest.request.id, &e);
                drop_fds();
        }
        return r;
}

/* A handler, because it runs on any thread: an interpreter may have threads that do not block the
 * signal, so a signalfd would miss it. */
static void on_child(int signal_number)
{
        int code = errno;

        (void)signal_number;
        (void)eventfd_write(guest.ended_fd, 1);
        errno = code;
}

/* Block the interpreter's signals: its handlers could miss one or run twice around the fork. */
static void hold_signals(int does_watch_children)
{
        const struct sigaction action = {.sa_handler = on_child, .sa_flags = SA_RESTART | SA_NOCLDSTOP};
        sigset_t all;

        sigfillset(&all);
        if (does_watch_children)
                sigdelset(&all, SIGCHLD);
        sigprocmask(SIG_BLOCK, &all, &guest.mask);
        guest.has_replaced_action = does_watch_children;
        if (does_watch_children)
                sigaction(SIGCHLD, &action, &guest.child_action);
}

static void release_signals(void)
{
        if (guest.has_replaced_action)
                sigaction(SIGCHLD, &guest.child_action, NULL);
        sigprocmask(SIG_SETMASK, &guest.mask, NULL);
}

int cloche_guest_wait(void)
{
        struct pollfd polled[2];

        hold_signals(1);
        reap_everybody(); /* for those that ended in between */
        for (;;) {
                polled[0] = (struct pollfd){.fd = guest.fork.fd, .events = POLLIN};
                polled[1] = (struct pollfd){.fd = guest.ended_fd, .events = POLLIN};
                if (poll(polled, 2, -1) < 0 && errno != EINTR)
                        return 0;
                if (polled[1].revents)
                        reap_everybody();
                if (!polled[0].revents)
                        continue;
                if (receive_request() == 0)
                        return 0;
                if (prepare_fork() == 0)
                        return 1;
        }
}

/* Wait until one of these is readable, or a fork has ended. */
static int poll_forks(struct pollfd *wanted, size_t count)
{
        struct pollfd polled[FORKS_MAX + 2];
        int r;

        memcpy(polled, wanted, count * sizeof(*wanted));
        for (size_t i = 0; i < guest.child_count; i++)
                polled[count + i] = (struct pollfd){.fd = guest.children[i].end_fd, .events = POLLIN};
        r = poll(polled, count + guest.child_count, -1);
        memcpy(wanted, polled, count * sizeof(*wanted));
        return r < 0 ? -errno : 0;
}

int cloche_guest_wait_for(int channel_fd)
{
        int r;

        guest.channel_fd = channel_fd;
        hold_signals(0);
        for (;;) {
                struct pollfd polled[] = {{.fd = guest.fork.fd, .events = POLLIN},
                                          {.fd = channel_fd, .events = POLLIN}};

                cloche_guest_reap();
                r = poll_forks(polled, 2);
                if (r < 0 && r != -EINTR)
                        break;
                if (r == 0 && polled[0].revents) {
                        if (receive_request() == 0)
                                break;
                        if (prepare_fork() == 0)
                                return 1;
                } else if (r == 0 && polled[1].revents) {
                        release_signals();
                        return 2;
                }
        }
        release_signals();
        return 0;
}

int cloche_guest_idle(int channel_fd)
{
        struct pollfd polled = {.fd = channel_fd, .events = POLLIN};

        guest.channel_fd = channel_fd;
        return poll_forks(&polled, 1) == 0 && polled.revents;
}

/* Return to the template's own pid namespace. Otherwise every later process of this template would
 * be born in that box. */
static void come_back(void)
{
        if (setns(guest.own_pid.fd, CLONE_NEWPID) < 0)
                abort();
        guest.is_forking = 0;
}

void cloche_guest_parent(int pid)
{
        struct cloche_err e = {0};

        if (guest.is_forking)
                come_back();
        if (pid > 0) {
                int end_fd = guest.has_replaced_action ? -EBADF : keep_high((int)syscall(SYS_pidfd_open, pid, 0));

                guest.children[guest.child_count++] = (struct child){pid, guest.request.id, end_fd};
        } else {
                err_os(&e, CLOCHE_E_RESOURCE, -pid, "fork the template");
                send_failed(guest.request.id, &e);
        }
        drop_fds();
        release_signals();
}

/* -- being a child -------------------------------------------------------------------------------------------- */

static int place_descriptors(int *ret_fork_fd, struct cloche_err *e)
{
        int *const ours[] = {&guest.fork.fd, &guest.ended_fd, &guest.own_pid.fd};

        /* A received descriptor may have one of the target numbers, so it moves away first. */
        for (size_t i = 0; i < guest.fd_count; i++)
                if (guest.fds[i] <= CLOCHE_GUEST_CHANNEL_FD &&
                    (guest.fds[i] = move_up(guest.fds[i], CLOCHE_GUEST_FORK_FD)) < 0)
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

static void remove_children(void)
{
        for (size_t i = 0; i < guest.child_count; i++)
                fd_close(&guest.children[i].end_fd);
        free(guest.children);
        guest.children = NULL;
        guest.child_count = guest.child_room = 0;
}

/* Enter the box. On an error, report it and exit. */
static void enter(void)
{
        struct cloche_err e = {0};
        int fork_fd = -EBADF, template_channel_fd = guest.channel_fd;
        int is_template = (int)guest.request.is_template, r;

        setsid();
        remove_children();
        r = box_join(&guest.request, guest.fds, guest.directory, &e);
        if (r == 0)
                r = loaded_check(&e);
        if (r == 0)
                r = place_descriptors(&fork_fd, &e);
        if (r == 0 && is_template && become_template(fork_fd) < 0)
                r = err_os(&e, CLOCHE_E_RESOURCE, errno, "become a template");
        if (r < 0) {
                send_failed(guest.request.id, &e);
                _exit(1);
        }
        if (template_channel_fd > CLOCHE_GUEST_CHANNEL_FD) /* else the new one replaced it */
                close(template_channel_fd);
        guest.channel_fd = -EBADF;
}

int cloche_guest_child(void)
{
        if (!guest.has_entered)
                enter();
        guest.has_entered = guest.is_forking = 0;
        if (guest.request.is_template)
                fork_blocker_record_descriptors(CLOCHE_GUEST_CHANNEL_FD); /* all are the interpreter's own */
        release_signals();
        return (int)guest.request.is_template;
}

static void on_fork_in_child(void)
{
        if (!guest.is_forking)
                return;
        enter();
        guest.has_entered = 1;
}

static void on_fork_in_parent(void)
{
        if (guest.is_forking)
                come_back();
}

/* pthread_atfork is not exported before glibc 2.34; it calls this function. */
__attribute__((weak)) int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                                            void *library);

int cloche_guest_watch_fork(void)
{
        return __register_atfork ? -__register_atfork(NULL, on_fork_in_parent, on_fork_in_child, NULL) : -ENOSYS;
}
