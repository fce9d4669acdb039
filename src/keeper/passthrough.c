/* We treat a mount's server as hostile, because it reads requests of guests. So a packet is a few
 * numbers at fixed places. Of descriptors we use only the kernel's own facts (type, device, open
 * mode, file system). We read no byte of a file and no name, and make no call into the file system,
 * which might block us. An id lets the server do no more than it could: read that file. Runs in:
 * the keeper. */
#include "passthrough.h"

#include "base/err.h"
#include "base/fd.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <linux/stat.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define FUSE_MAJOR 10 /* Documentation/admin-guide/devices.txt */
#define FUSE_MINOR 229

/* Newer than Debian 12's headers: linux/fuse.h of Linux 6.9, linux/mount.h and linux/stat.h of
 * 6.8. */
struct backing_map {
        int32_t fd;
        uint32_t flags;
        uint64_t padding;
};
#define BACKING_OPEN _IOW(229, 1, struct backing_map)
#define BACKING_CLOSE _IOW(229, 2, uint32_t)

struct mount_question {
        uint32_t size, spare;
        uint64_t id, param;
};
struct mount_words {
        uint32_t size, options;
        uint64_t mask;
        uint32_t dev_major, dev_minor;
        uint64_t magic;
        uint32_t flags, rest[119];
};
#define MOUNT_BASIC 0x1 /* STATMOUNT_SB_BASIC */
#ifndef SYS_statmount
#define SYS_statmount 457
#endif
#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x4000
#endif

int passthrough_new(struct passthrough *ret, int *ret_their_fd, struct cloche_err *e)
{
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a socket for a mount");
        if (fcntl(pair[0], F_SETFL, O_NONBLOCK) < 0) {
                err_os(e, CLOCHE_E_RESOURCE, errno, "arrange a socket for a mount");
                close(pair[0]);
                close(pair[1]);
                return -CLOCHE_E_RESOURCE;
        }
        *ret = (struct passthrough){.fd = pair[0]};
        *ret_their_fd = pair[1];
        return 0;
}

/* -- checking the packet -------------------------------------------------------------------------------------- */

/* AT_STATX_DONT_SYNC: do not wait for a network file system or one in user space. */
static bool look(int fd, struct statx *ret)
{
        return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_MODE | STATX_MNT_ID_UNIQUE, ret) ==
               0;
}

static bool is_connection(int fd)
{
        struct statx st;

        return look(fd, &st) && S_ISCHR(st.stx_mode) && st.stx_rdev_major == FUSE_MAJOR &&
               st.stx_rdev_minor == FUSE_MINOR;
}

static bool is_read_only_file(int fd)
{
        struct statx st;
        int flags = fcntl(fd, F_GETFL);

        return flags >= 0 && (flags & O_ACCMODE) == O_RDONLY && !(flags & O_PATH) && look(fd, &st) &&
               S_ISREG(st.stx_mode);
}

/* Only statmount(2) reports the kind of a file system without calling it, as fstatfs(2) does. */
static bool is_on_known(int fd)
{
        struct mount_question question = {.size = sizeof(question), .param = MOUNT_BASIC};
        struct mount_words words = {0};
        struct statx st;

        if (!look(fd, &st) || !(st.stx_mask & STATX_MNT_ID_UNIQUE))
                return false;
        question.id = st.stx_mnt_id;
        return syscall(SYS_statmount, &question, &words, sizeof(words), 0) == 0 && words.mask & MOUNT_BASIC &&
               passthrough_knows(words.magic);
}

static bool is_well_formed(const struct passthrough_request *request, size_t size, const int *fds, size_t fd_count)
{
        if (size != sizeof(*request) || request->op >= PASSTHROUGH_OP_COUNT || request->reserved)
                return false;
        if (fd_count != (request->op == PASSTHROUGH_OPEN ? 2 : 1) || !is_connection(fds[0]))
                return false;
        return request->op == PASSTHROUGH_CLOSE ? request->id > 0 : request->id == 0 && is_read_only_file(fds[1]);
}

/* -- acting --------------------------------------------------------------------------------------------------- */

/* The kernel reopens the file for each of the guest's opens, with the guest's flags and our
 * credentials: a server that gave an id to an open for writing would have the host's file written.
 * So the kernel gets the file from a separate mount, attached nowhere and read-only for ever: such
 * an open fails with EROFS. The mount also keeps the access time. */
static int open_read_only_copy(int file_fd)
{
        struct mount_attr attr = {.attr_set =
                                          MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOATIME,
                                  .attr_clr = MOUNT_ATTR__ATIME};
        _cleanup_fd_ int fd =
                (int)syscall(SYS_open_tree, file_fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);

        if (fd < 0 || syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
                return -errno;
        return TAKE_FD(fd);
}

static int open_backing(struct passthrough *p, const int *fds)
{
        _cleanup_fd_ int copy_fd = -EBADF;
        struct backing_map map = {0};
        int id;

        if (p->alive >= PASSTHROUGH_IDS_MAX)
                return -ENOSPC;
        if (!is_on_known(fds[1]))
                return -EOPNOTSUPP;
        copy_fd = open_read_only_copy(fds[1]);
        if (copy_fd < 0)
                return copy_fd;
        map.fd = copy_fd;
        id = ioctl(fds[0], BACKING_OPEN, &map);
        if (id < 0)
                return -errno;
        p->alive++;
        return id;
}

/* The kernel keeps the ids of the connection. */
static int close_backing(struct passthrough *p, const int *fds, int32_t id)
{
        uint32_t number = (uint32_t)id;

        if (ioctl(fds[0], BACKING_CLOSE, &number) < 0 || p->alive == 0)
                return -EPROTO;
        p->alive--;
        return 0;
}

static int act(struct passthrough *p, const struct passthrough_request *request, size_t size, const int *fds,
               size_t fd_count)
{
        struct passthrough_answer answer = {.serial = request->serial};

        if (!is_well_formed(request, size, fds, fd_count))
                return -EPROTO;
        if (request->op == PASSTHROUGH_CLOSE)
                return close_backing(p, fds, request->id);
        answer.result = open_backing(p, fds);
        /* We never wait on a send: a server that does not read its answers is cut off. */
        return fd_send(p->fd, &answer, sizeof(answer), NULL, 0);
}

int passthrough_serve(struct passthrough *p)
{
        struct passthrough_request request = {0};
        int fds[2] = {-EBADF, -EBADF}, r;
        size_t fd_count = 2;
        ssize_t n = fd_receive(p->fd, &request, sizeof(request), fds, &fd_count, MSG_DONTWAIT);

        if (n < 0)
                return n == -EAGAIN ? 0 : (int)n;
        r = n == 0 ? -EPIPE : act(p, &request, (size_t)n, fds, fd_count);
        /* The connection ends with its last descriptor: if we kept a copy, a guest could wait
         * for ever. */
        for (size_t i = 0; i < fd_count; i++)
                fd_close(&fds[i]);
        return r;
}
