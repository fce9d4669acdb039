/* Sockets of a hostile peer. Runs in: the engine, cloched and the keeper. */
#include "peer.h"

#include "fd.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define RIGHTS_MAX 253 /* descriptors in a message: include/net/scm.h, SCM_MAX_FD */

/* -- letting go ----------------------------------------------------------------------------------------------- */

struct holder {
        sem_t has_tried, may_end;
        int holds;
};

/* This thread has its own descriptor table. It holds the last reference to descriptors that are
 * closed meanwhile, and drops them in its exit, where the kernel does not linger. */
static void *hold(void *data)
{
        struct holder *h = data;

        h->holds = close_range(INT_MAX, ~0u, CLOSE_RANGE_UNSHARE) == 0;
        sem_post(&h->has_tried);
        while (sem_wait(&h->may_end) < 0)
                ;
        return NULL;
}

static int start_holder(struct holder *h, pthread_t *ret)
{
        sigset_t all, before;
        int code;

        *h = (struct holder){0};
        sem_init(&h->has_tried, 0, 0);
        sem_init(&h->may_end, 0, 0);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        code = pthread_create(ret, NULL, hold, h);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return code;
}

/* Returns -1 if they are still open, because the thread or its table could not be made. Closing
 * them here could block. */
static int let_go(const int *fds, size_t count)
{
        struct holder h;
        pthread_t thread;

        if (start_holder(&h, &thread) != 0)
                return -1;
        while (sem_wait(&h.has_tried) < 0)
                ;
        for (size_t i = 0; h.holds && i < count; i++)
                close(fds[i]);
        sem_post(&h.may_end);
        pthread_join(thread, NULL); /* the kernel wakes us before it closes the thread's descriptors */
        return h.holds ? 0 : -1;
}

/* Descriptors that wait for a thread to close them. */
static struct {
        pthread_mutex_t lock;
        int *fds;
        size_t count;
} put_off = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Without memory for their numbers they stay open. */
static void add_put_off(const int *fds, size_t count)
{
        int *grown = realloc(put_off.fds, (put_off.count + count) * sizeof(*fds));

        if (!grown)
                return;
        memcpy(grown + put_off.count, fds, count * sizeof(*fds));
        put_off.fds = grown;
        put_off.count += count;
}

void peer_discard(const int *fds, size_t count)
{
        int r = count > 0 ? let_go(fds, count) : 0;

        pthread_mutex_lock(&put_off.lock);
        if (r < 0) {
                add_put_off(fds, count);
        } else if (put_off.count > 0 && let_go(put_off.fds, put_off.count) == 0) {
                free(put_off.fds);
                put_off.fds = NULL;
                put_off.count = 0;
        }
        pthread_mutex_unlock(&put_off.lock);
}

void peer_discard_one(int *fd)
{
        if (*fd >= 0)
                peer_discard(fd, 1);
        *fd = -EBADF;
}

/* Otherwise a peek skips out-of-band data (net/unix/af_unix.c, manage_oob; Linux 5.15). */
void peer_open(int stream_fd)
{
        (void)setsockopt(stream_fd, SOL_SOCKET, SO_OOBINLINE, &(int){1}, sizeof(int));
}

static int has_unread(int socket_fd, int is_stream)
{
        char byte;
        struct iovec iov = {&byte, 1};
        struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

        return recvmsg(socket_fd, &msg, MSG_PEEK | MSG_DONTWAIT) > 0 || (!is_stream && msg.msg_flags & MSG_CTRUNC);
}

/* SO_PASSCRED distinguishes a packet without bytes from the end: its sender's
 * credentials are truncated. */
static int has_unread_at_end(int socket_fd)
{
        int type, is_stream;
        socklen_t size = sizeof(type);

        if (getsockopt(socket_fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0)
                return 0; /* not a socket */
        is_stream = type == SOCK_STREAM;
        if (is_stream)
                peer_open(socket_fd);
        if ((!is_stream && setsockopt(socket_fd, SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)) < 0) ||
            shutdown(socket_fd, SHUT_RD) < 0)
                return 0; /* not a connected pair */
        return has_unread(socket_fd, is_stream);
}

static void close_either(int *fd, int is_unread)
{
        if (is_unread)
                peer_discard_one(fd);
        fd_close(fd);
}

void peer_close(int *fd)
{
        close_either(fd, *fd >= 0 && has_unread_at_end(*fd));
}

void peer_close_copy(int *fd)
{
        close_either(fd, *fd >= 0 && has_unread(*fd, 1));
}

int peer_copy_unread(int socket_fd)
{
        return has_unread_at_end(socket_fd) ? fcntl(socket_fd, F_DUPFD_CLOEXEC, 3) : -EBADF;
}

/* -- taking --------------------------------------------------------------------------------------------------- */

/* A peek without room for descriptors takes none, and reports them by MSG_CTRUNC. */
ssize_t peer_receive(int socket_fd, void *data, size_t size)
{
        struct iovec iov = {data, size};
        struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
        ssize_t n = recvmsg(socket_fd, &msg, MSG_PEEK | MSG_DONTWAIT);

        if (n >= 0 && msg.msg_flags & MSG_CTRUNC) {
                errno = EBADMSG;
                return -1;
        }
        iov.iov_len = n > 0 ? (size_t)n : 0; /* bytes after it may bring descriptors */
        return n <= 0 ? n : recvmsg(socket_fd, &msg, MSG_DONTWAIT);
}

static size_t collect(struct msghdr *msg, int fds[RIGHTS_MAX])
{
        size_t count = 0;

        for (struct cmsghdr *h = CMSG_FIRSTHDR(msg); h; h = CMSG_NXTHDR(msg, h)) {
                size_t n = h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS
                                   ? (h->cmsg_len - CMSG_LEN(0)) / sizeof(int)
                                   : 0;

                for (size_t i = 0; i < n && count < RIGHTS_MAX; i++)
                        memcpy(&fds[count++], CMSG_DATA(h) + i * sizeof(int), sizeof(int));
        }
        return count;
}

/* Return the first, if it is of that type. */
static int take_wanted(const int *fds, size_t count, mode_t type)
{
        struct stat st;

        return count > 0 && type && fstat(fds[0], &st) == 0 && (st.st_mode & S_IFMT) == type ? fds[0] : -EBADF;
}

ssize_t peer_receive_with(int socket_fd, void *data, size_t size, mode_t type, int *ret_fd, int flags)
{
        union {
                char bytes[CMSG_SPACE(sizeof(int) * RIGHTS_MAX)];
                struct cmsghdr align;
        } control;
        struct iovec iov = {data, size};
        struct msghdr msg = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
        int fds[RIGHTS_MAX];
        size_t count, taken;
        ssize_t n;

        *ret_fd = -EBADF;
        do
                n = recvmsg(socket_fd, &msg, flags | MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return -errno;
        count = collect(&msg, fds);
        if (!(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
                *ret_fd = take_wanted(fds, count, type);
        taken = *ret_fd >= 0;
        peer_discard(fds + taken, count - taken);
        return msg.msg_flags & MSG_TRUNC ? -EMSGSIZE : msg.msg_flags & MSG_CTRUNC ? -EMFILE : n;
}
