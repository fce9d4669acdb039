/* Descriptors, moved whole. Runs in: every program. */
#include "fd.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

int fd_write_full(int fd, const void *data, size_t size)
{
        const char *p = data;

        while (size > 0) {
                ssize_t n = write(fd, p, size);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                p += n;
                size -= (size_t)n;
        }
        return 0;
}

int fd_pwrite_full(int fd, const void *data, size_t size, off_t at)
{
        const char *p = data;

        while (size > 0) {
                ssize_t n = pwrite(fd, p, size, at);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                p += n;
                at += n;
                size -= (size_t)n;
        }
        return 0;
}

int fd_read_full(int fd, void *data, size_t size)
{
        char *p = data;

        while (size > 0) {
                ssize_t n = read(fd, p, size);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        return -EPIPE;
                p += n;
                size -= (size_t)n;
        }
        return 0;
}

/* The signal is blocked for this thread, and removed if this call raised it. */
ssize_t fd_write_quietly(int fd, const void *data, size_t size)
{
        const struct timespec now = {0};
        sigset_t pipe_signal, before, pending;
        ssize_t n;

        sigemptyset(&pipe_signal);
        sigaddset(&pipe_signal, SIGPIPE);
        sigpending(&pending);
        pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
        n = write(fd, data, size);
        n = n < 0 ? -errno : n;
        if (n == -EPIPE && !sigismember(&pending, SIGPIPE))
                while (sigtimedwait(&pipe_signal, NULL, &now) < 0 && errno == EINTR)
                        ;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return n;
}

int fd_from_bytes(const char *name, const void *data, size_t size)
{
        _cleanup_fd_ int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
        int r;

        if (fd < 0)
                return -errno;
        r = fd_write_full(fd, data, size);
        if (r < 0)
                return r;
        if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
                return -errno;
        if (lseek(fd, 0, SEEK_SET) < 0)
                return -errno;
        return TAKE_FD(fd);
}

void fd_open_standard(void)
{
        int fd;

        do
                fd = open("/dev/null", O_RDWR);
        while (fd >= 0 && fd <= STDERR_FILENO);
        fd_close(&fd);
}

void fd_raise_limit(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return;
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
}

ssize_t fd_send_some(int socket_fd, const void *data, size_t size, const int *fds, size_t fd_count, int flags)
{
        union {
                char bytes[CMSG_SPACE(sizeof(int) * FD_MESSAGE_MAX)];
                struct cmsghdr align;
        } control = {0};
        struct iovec iov = {.iov_base = (void *)data, .iov_len = size};
        struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
        ssize_t n;

        if (fd_count > FD_MESSAGE_MAX)
                return -EINVAL;
        if (fd_count > 0) {
                struct cmsghdr *header;

                msg.msg_control = control.bytes;
                msg.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
                header = CMSG_FIRSTHDR(&msg);
                header->cmsg_level = SOL_SOCKET;
                header->cmsg_type = SCM_RIGHTS;
                header->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
                memcpy(CMSG_DATA(header), fds, sizeof(int) * fd_count);
        }
        do
                n = sendmsg(socket_fd, &msg, flags | MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : n;
}

int fd_send(int socket_fd, const void *data, size_t size, const int *fds, size_t fd_count)
{
        ssize_t n = fd_send_some(socket_fd, data, size, fds, fd_count, 0);

        return n < 0 ? (int)n : 0;
}

static size_t collect_fds(struct msghdr *msg, int *fds, size_t room)
{
        size_t count = 0;

        for (struct cmsghdr *h = CMSG_FIRSTHDR(msg); h; h = CMSG_NXTHDR(msg, h)) {
                size_t n;

                if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
                        continue;
                n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
                for (size_t i = 0; i < n; i++) {
                        int fd;

                        memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof(int));
                        if (count < room)
                                fds[count] = fd;
                        else
                                close(fd);
                        count++;
                }
        }
        return count;
}

ssize_t fd_receive(int socket_fd, void *data, size_t size, int *fds, size_t *fd_count, int flags)
{
        union {
                char bytes[CMSG_SPACE(sizeof(int) * FD_MESSAGE_MAX)];
                struct cmsghdr align;
        } control;
        struct iovec iov = {.iov_base = data, .iov_len = size};
        struct msghdr msg = {
                .msg_iov = &iov,
                .msg_iovlen = 1,
                .msg_control = control.bytes,
                .msg_controllen = sizeof(control.bytes),
        };
        size_t room = fd_count ? *fd_count : 0, count;
        ssize_t n;

        do
                n = recvmsg(socket_fd, &msg, flags | MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        count = collect_fds(&msg, fds, room);
        if (count > room || (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
                for (size_t i = 0; i < count && i < room; i++)
                        close(fds[i]);
                return count > room || (msg.msg_flags & MSG_TRUNC) ? -EMSGSIZE : -EMFILE;
        }
        if (fd_count)
                *fd_count = count;
        return n;
}

static int copy_above(const char *text, int least, int *ret)
{
        char *end;
        long value = strtol(text, &end, 10);

        if (*end || end == text || value < 0 || value > 1 << 20)
                return -1;
        *ret = fcntl((int)value, F_DUPFD_CLOEXEC, least);
        return *ret < 0 ? -1 : 0;
}

int fd_arrange(char *const *arguments, int count, int first)
{
        int given[16];

        if (count > (int)(sizeof(given) / sizeof(given[0])))
                return -1;
        /* Copy above the final numbers first: the number of one may be the target of another. */
        for (int i = 0; i < count; i++)
                if (copy_above(arguments[i], first + count, &given[i]) < 0)
                        return -1;
        for (int i = 0; i < count; i++)
                if (dup3(given[i], first + i, O_CLOEXEC) < 0)
                        return -1;
        return close_range((unsigned)(first + count), ~0u, 0);
}
