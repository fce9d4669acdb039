/* Owned descriptors: scoped close, visible transfer, and the few calls that move bytes or
 * descriptors whole. */
#ifndef CLOCHE_BASE_FD_H
#define CLOCHE_BASE_FD_H

#include <errno.h>
#include <stddef.h>
#include <sys/types.h>
#include <unistd.h>

static inline void fd_close(int *fd)
{
        if (*fd >= 0)
                close(*fd);
        *fd = -EBADF;
}

#define _cleanup_fd_ __attribute__((cleanup(fd_close)))

static inline int fd_take(int *fd)
{
        int taken = *fd;

        *fd = -EBADF;
        return taken;
}

/* Move ownership out of a scoped descriptor. */
#define TAKE_FD(fd) fd_take(&(fd))

/* Write or read exactly size bytes; 0, or -errno (-EPIPE for an early end of file). */
int fd_write_full(int fd, const void *data, size_t size);
int fd_pwrite_full(int fd, const void *data, size_t size, off_t at);
int fd_read_full(int fd, void *data, size_t size);

/* write(2) without SIGPIPE, which a library may neither ignore nor deliver. Returns the bytes
 * written, or -errno. */
ssize_t fd_write_quietly(int fd, const void *data, size_t size);

/* Make a sealed memory file of these bytes, position 0, close-on-exec. Returns the descriptor or
 * -errno. memfd_create(2), fcntl(2) F_ADD_SEALS. */
int fd_from_bytes(const char *name, const void *data, size_t size);

/* Move a program's descriptors, given as decimal arguments, to the numbers from first on,
 * close-on-exec, and close all higher ones. Returns 0, or -1 for an argument that is not a number,
 * or not an open descriptor. */
int fd_arrange(char *const *arguments, int count, int first);

/* Open /dev/null for each missing standard stream: the next opened file must not be taken for
 * one. */
void fd_open_standard(void);

/* Raise RLIMIT_NOFILE to the system's maximum: the usual 1024 would be the first limit reached, for
 * open descriptors or for those in flight (ETOOMANYREFS, unix(7)). */
void fd_raise_limit(void);

#define FD_MESSAGE_MAX 24 /* descriptors in one message */

/* Send bytes with descriptors (unix(7) SCM_RIGHTS), which travel with the first byte.
 * flags: as for sendmsg(2), MSG_NOSIGNAL is added. Returns the number of bytes, which a
 * stream may cut, or -errno. */
ssize_t fd_send_some(int socket_fd, const void *data, size_t size, const int *fds, size_t fd_count, int flags);

/* Send one packet with descriptors over a seqpacket socket. Returns 0 or -errno. */
int fd_send(int socket_fd, const void *data, size_t size, const int *fds, size_t fd_count);

/* Receive one packet, or bytes of a stream; descriptors arrive close-on-exec and are owned
 * by the caller; *fd_count is the room on entry and the number on return. Returns its size,
 * 0 at end of file, or -errno. -EMSGSIZE: the packet was cut, or had more descriptors than
 * there is room for. -EMFILE: the packet is whole, but some descriptors could not be
 * opened. Both leave none open. */
ssize_t fd_receive(int socket_fd, void *data, size_t size, int *fds, size_t *fd_count, int flags);

#endif
