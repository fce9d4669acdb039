/* Have the keeper register files that the kernel reads directly.
 * Runs in: cloche-fs, as the mounted directory's owner or the caller, confined. */
#include "passthrough.h"

#include "base/clock.h"
#include "base/fd.h"
#include "helpers/fs/tree/access.h"
#include "mount.h"
#include "proto/passthrough.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <sys/vfs.h>

/* Newer than Debian 12's linux/fuse.h. */
#define INIT_PASSTHROUGH (1u << (37 - 32))                                         /* FUSE_PASSTHROUGH in flags2 */
#define OPEN_PASSTHROUGH (1u << 7)                                                 /* FOPEN_PASSTHROUGH */
#define BACKING_AT (offsetof(struct fuse_open_out, open_flags) + sizeof(uint32_t)) /* backing_id, formerly padding */
#define DEPTH 1 /* only the host's own file systems, none stacked on others */
#define DEPTH_AT (offsetof(struct fuse_init_out, flags2) + sizeof(uint32_t)) /* max_stack_depth, formerly unused */

#define SIZE_MIN (1 << 20) /* below this a request to the keeper costs more than it saves */
#define PATIENCE_MS 2000   /* timeout for the keeper; afterwards it is not used again */

void passthrough_init(struct fs_passthrough *p, int fuse_fd, int keeper_fd, int root_fd)
{
        struct statfs st;

        *p = (struct fs_passthrough){.fuse_fd = fuse_fd, .keeper_fd = keeper_fd};
        if (keeper_fd >= 0 && (fcntl(keeper_fd, F_SETFL, O_NONBLOCK) < 0 || fstatfs(root_fd, &st) < 0 ||
                               !passthrough_knows((uint64_t)st.f_type)))
                fd_close(&p->keeper_fd);
}

/* -- patches around libfuse ----------------------------------------------------------------------------------- */

void passthrough_note_init(struct fs_passthrough *p, const void *request, size_t size)
{
        const struct fuse_in_header *header = request;
        const struct fuse_init_in *in = (const void *)(header + 1);

        if (size >= sizeof(*header) + sizeof(*in) && header->opcode == FUSE_INIT)
                p->offered = in->flags & FUSE_INIT_EXT && in->flags2 & INIT_PASSTHROUGH;
}

void passthrough_amend_init(struct fs_passthrough *p, const struct iovec *iov, int count)
{
        struct fuse_init_out *out = count == 2 ? iov[1].iov_base : NULL;

        if (!p->offered || p->keeper_fd < 0 || !out || iov[1].iov_len < DEPTH_AT + sizeof(uint32_t))
                return;
        out->flags |= FUSE_INIT_EXT;
        out->flags2 |= INIT_PASSTHROUGH;
        *(uint32_t *)((char *)out + DEPTH_AT) = DEPTH;
        p->accepted = true;
}

void passthrough_amend_open(struct fs_passthrough *p, const struct iovec *iov, int count)
{
        struct fuse_open_out *out = count == 2 && iov[1].iov_len == sizeof(*out) ? iov[1].iov_base : NULL;

        if (!p->answering || !out)
                return;
        out->open_flags |= OPEN_PASSTHROUGH;
        *(int32_t *)((char *)out + BACKING_AT) = p->answering;
        p->answering = 0;
}

/* -- the keeper ----------------------------------------------------------------------------------------------- */

static bool wait_for_keeper(const struct fs_passthrough *p, short events, uint64_t until_ns)
{
        uint64_t now_ns = clock_now_ns();
        struct pollfd fd = {p->keeper_fd, events, 0};

        return now_ns < until_ns && (poll(&fd, 1, (int)((until_ns - now_ns) / 1000000) + 1) > 0 || errno == EINTR);
}

static int send_to_keeper(struct fs_passthrough *p, uint32_t op, int32_t id, const int *fds, size_t fd_count)
{
        struct passthrough_request request = {.op = op, .id = id, .serial = ++p->serial};
        uint64_t until_ns = clock_now_ns() + PATIENCE_MS * UINT64_C(1000000);
        int r;

        do
                r = fd_send(p->keeper_fd, &request, sizeof(request), fds, fd_count);
        while (r == -EAGAIN && wait_for_keeper(p, POLLOUT, until_ns));
        return r;
}

/* The id, or -errno; -EPIPE: no keeper. */
static int32_t read_keeper(struct fs_passthrough *p)
{
        uint64_t until_ns = clock_now_ns() + PATIENCE_MS * UINT64_C(1000000);
        struct passthrough_answer answer;
        size_t no_fds = 0;
        ssize_t n;

        do
                n = fd_receive(p->keeper_fd, &answer, sizeof(answer), NULL, &no_fds, 0);
        while (n == -EAGAIN && wait_for_keeper(p, POLLIN, until_ns));
        return n == sizeof(answer) && answer.serial == p->serial && answer.result != 0 ? answer.result : -EPIPE;
}

static int32_t request_id(struct fs_passthrough *p, int fd)
{
        const int fds[2] = {p->fuse_fd, fd};
        int32_t id = send_to_keeper(p, PASSTHROUGH_OPEN, 0, fds, 2) < 0 ? -EPIPE : read_keeper(p);

        p->refused += id < 0;
        /* All files of a mount are on one file system, so the error holds for all. */
        if (id == -EPIPE || id == -EOPNOTSUPP || id == -ELOOP)
                fd_close(&p->keeper_fd);
        return id;
}

/* Without the keeper, ids stay until the connection ends. */
static void give_back(struct fs_passthrough *p, int32_t id)
{
        if (p->keeper_fd >= 0 && send_to_keeper(p, PASSTHROUGH_CLOSE, id, &p->fuse_fd, 1) < 0)
                fd_close(&p->keeper_fd);
}

/* -- opening -------------------------------------------------------------------------------------------------- */

/* True if the file can never be written, renamed or replaced by the guest. Then a decision stays
 * right while the file is open: its contents and rights do not change. A directory above it cannot
 * be moved either (README.md). */
static bool is_fixed(struct fs_mount *mount, struct node *node)
{
        const unsigned changing = 1u << RULES_MODIFY | 1u << RULES_DELETE, rights = access_rights(mount, node);

        return mount->settings.on_denied == DENIED_THROW && rights & 1u << RULES_READ && !(rights & changing) &&
               node->name_count == 1 && !node->seeded_at && !node_is_changed(node) && node->has_lower &&
               !node->making && node_is_at_home(node);
}

/* A handle opened the ordinary way keeps the node ordinary until it is closed. */
static bool may_start(struct fs_mount *mount, struct node *node, int flags, int fd)
{
        const struct fs_passthrough *p = &mount->passthrough;

        return p->accepted && p->keeper_fd >= 0 && fd >= 0 && !(flags & (O_ACCMODE | O_TRUNC | O_DIRECT)) &&
               node->handles == 1 && S_ISREG(node->st.st_mode) && node->st.st_size >= SIZE_MIN && is_fixed(mount, node);
}

static int start(struct fs_mount *mount, struct node *node, int fd)
{
        struct backing *backing = malloc(sizeof(*backing));
        int32_t id = backing ? request_id(&mount->passthrough, fd) : -ENOMEM;

        if (id < 0) {
                free(backing);
                return 0;
        }
        *backing = (struct backing){.id = id, .opens = 1, .dev = node->st.st_dev, .ino = node->st.st_ino};
        node->backing = backing;
        return 1;
}

/* The kernel opens the file with the guest's flags, and would return EIO where the file system
 * returns EINVAL. */
static bool lacks_direct(int flags, int fd)
{
        if (!(flags & O_DIRECT) || fd < 0)
                return false;
        if (fcntl(fd, F_SETFL, O_DIRECT) < 0)
                return true;
        fcntl(fd, F_SETFL, 0);
        return false;
}

static int follow(struct node *node, int flags, int fd)
{
        if (flags & (O_ACCMODE | O_TRUNC))
                return -ETXTBSY; /* not reached: the rules deny it */
        if (node_is_replaced(node, &node->st))
                return -ESTALE;
        if (lacks_direct(flags, fd))
                return -EINVAL;
        node->backing->opens++;
        return 1;
}

int passthrough_open(struct fs_mount *mount, struct node *node, int flags, int fd)
{
        int r = node->backing                       ? follow(node, flags, fd)
                : may_start(mount, node, flags, fd) ? start(mount, node, fd)
                                                    : 0;

        mount->passthrough.opened += r > 0;
        return r;
}

void passthrough_release(struct fs_mount *mount, struct node *node)
{
        if (--node->backing->opens > 0)
                return;
        give_back(&mount->passthrough, node->backing->id);
        free(node->backing);
        node->backing = NULL;
}
