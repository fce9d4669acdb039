/* Operations on file contents and attributes.
 * Runs in: cloche-fs, as the mounted directory's owner or the caller, confined. */
#include "operations-internal.h"

#include "base/fd.h"
#include "helpers/fs/tree/overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COPY_MAX (8u << 20)   /* per request */
#define READ_MAX (1u << 20)   /* the kernel's largest request (FUSE_MAX_MAX_PAGES) */
#define STORE_MAX (64u << 10) /* passed to the kernel when opened */

/* -- open files ----------------------------------------------------------------------------------------------- */

static struct handle *handle_of(const struct fuse_file_info *fi)
{
        return (struct handle *)(uintptr_t)fi->fh;
}

static int new_handle(struct fs_mount *mount, struct node *node, struct fuse_file_info *fi, struct handle **ret)
{
        struct handle *handle = mount->open_handles < mount->settings.open_files ? calloc(1, sizeof(*handle)) : NULL;

        if (!handle)
                return -ENFILE;
        handle->node = node;
        handle->fd = -EBADF;
        node->handles++;
        mount->open_handles++;
        fi->fh = (uint64_t)(uintptr_t)handle;
        fi->noflush = 1;
        *ret = handle;
        return 0;
}

static void free_handle(struct fs_mount *mount, struct handle *handle)
{
        struct node *node = handle->node;

        fd_close(&handle->fd);
        if (handle->passes)
                passthrough_release(mount, node);
        node->making -= handle->made;
        node->handles--;
        mount->open_handles--;
        free(handle);
        overlay_settle(mount, node);
}

/* True if the host still has the version that the kernel's cache has pages of. */
static bool is_shown(const struct node *node)
{
        struct lower_identity now;

        lower_identify(&node->st, &now);
        return lower_same(&now, &node->shown);
}

/* The descriptor of the present contents: another handle may have copied them up. */
static int handle_file(struct fs_mount *mount, struct handle *handle)
{
        int fd;

        if (handle->fd >= 0 && handle->content == handle->node->content)
                return handle->fd;
        fd = overlay_open_contents(mount, handle->node, handle->node->content ? O_RDWR : O_RDONLY);
        if (fd < 0)
                return fd;
        if (handle->unopened && !handle->node->content && !is_shown(handle->node)) {
                close(fd);
                return -ESTALE;
        }
        fd_close(&handle->fd);
        handle->fd = fd;
        handle->unopened = false;
        handle->content = handle->node->content;
        return fd;
}

/* The same for writing. */
static int handle_own_file(struct fs_mount *mount, struct handle *handle, uint64_t keep)
{
        int r = overlay_copy_up(mount, handle->node, keep);

        return r < 0 ? r : handle_file(mount, handle);
}

/* -- opening -------------------------------------------------------------------------------------------------- */

/* A lazily loaded file counts once, when it is first opened. */
static int load(struct fs_mount *mount, struct node *node)
{
        uint64_t max = mount->settings.max_total_bytes, size = (uint64_t)node->st.st_size;
        const char *path;

        if (!max || mount->settings.loading == LOADING_EAGER || node->loaded || !node->has_lower || node->content)
                return 0;
        if (size > max || mount->loaded_bytes > max - size) {
                path = node_path(node, mount->path);
                denial_log_warn(&mount->denial_log, path ? path : "", "over maxTotalSize with those read before it");
                return -EFBIG;
        }
        mount->loaded_bytes += size;
        node->loaded = true;
        return 0;
}

/* Let the kernel keep its pages if they are of these very contents. */
static void judge_cache(struct fs_mount *mount, struct node *node, struct fuse_file_info *fi)
{
        fi->keep_cache = !node->stale;
        if (node->content || !node->has_lower) {
                node->stale = false;
                return;
        }
        fi->keep_cache = is_shown(node) && !node->stale;
        node->stale = false;
        if (fi->keep_cache)
                return;
        lower_identify(&node->st, &node->shown);
        node->stored = false;
        /* The kernel's cached size is stale as well. Invalidate attributes only: a read that we
         * have yet to answer may hold a page lock. */
        fuse_lowlevel_notify_inval_inode(mount->session, ino_of(mount, node), -1, 0);
}

/* Pass a small file to the kernel's cache at open, which saves its read requests. Only while the
 * file has no other handle: then no page can be locked by a read that waits for us. */
static void store(struct fs_mount *mount, struct node *node, const struct fuse_file_info *fi, int fd)
{
        struct fuse_bufvec data = FUSE_BUFVEC_INIT(0);
        static char bytes[STORE_MAX];
        ssize_t n;

        if (node->stored || node->handles > 1 || !fi->keep_cache || fi->direct_io || node->content ||
            node->st.st_size > STORE_MAX || node->st.st_size == 0)
                return;
        n = pread(fd, bytes, sizeof(bytes), 0);
        if (n != node->st.st_size)
                return;
        data.buf[0].mem = bytes;
        data.buf[0].size = (size_t)n;
        node->stored = fuse_lowlevel_notify_store(mount->session, ino_of(mount, node), 0, &data, 0) == 0;
}

/* A file that is entirely in the kernel's cache is opened at its first read request. */
static int open_contents(struct fs_mount *mount, struct handle *handle)
{
        struct node *node = handle->node;
        int r;

        if (!node->stored || node->own || node->content || handle->drop)
                return handle_file(mount, handle);
        r = overlay_refresh(mount, node);
        if (r < 0)
                return r;
        handle->unopened = is_shown(node);
        return handle->unopened ? 0 : handle_file(mount, handle);
}

static int pass(struct fs_mount *mount, struct node *node, const struct fuse_file_info *fi, struct handle *handle)
{
        int r = passthrough_open(mount, node, fi->flags, handle->fd);

        handle->passes = r > 0;
        return r < 0 ? r : 0;
}

static int open_judged(struct fs_mount *mount, struct node *node, struct fuse_file_info *fi, struct handle *handle)
{
        bool writes = (fi->flags & O_ACCMODE) != O_RDONLY || fi->flags & O_TRUNC,
             reads = (fi->flags & O_ACCMODE) != O_WRONLY;
        const struct stat before = node->st;
        int r = reads ? go_on(access_check_node(mount, node, RULES_READ)) : 1;

        if (r > 0 && writes && !node->making) {
                enum access_verdict verdict = access_check_node(mount, node, RULES_MODIFY);

                r = verdict == ACCESS_NO ? -EACCES : 1;
                handle->drop = verdict == ACCESS_DROP;
                handle->denied = verdict != ACCESS_YES;
        }
        if (r < 0)
                return r;
        if (fi->flags & O_TRUNC && !handle->drop) {
                node->is_virtual |= handle->denied;
                r = overlay_truncate(mount, node, 0);
        } else if (reads || !handle->drop) {
                r = load(mount, node);
        }
        if (r < 0)
                return r;
        /* Discarded writes must not stay in the kernel's cache. */
        fi->direct_io = handle->drop;
        r = reads ? open_contents(mount, handle) : 0;
        if (r >= 0)
                r = pass(mount, node, fi, handle);
        if (r < 0) {
                node->st = node->backing ? before : node->st; /* of the file that is still being read */
                return r;
        }
        judge_cache(mount, node, fi);
        if (handle->passes)
                fi->keep_cache = 0; /* its own page cache is unused, and the kernel refuses both together */
        if (reads)
                store(mount, node, fi, handle->fd);
        return 0;
}

void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
        struct fs_mount *mount = mount_of(req);
        struct node *node = node_of(req, ino);
        struct handle *handle;
        int r = node->kind == S_IFREG ? new_handle(mount, node, fi, &handle) : -ENXIO;

        if (r < 0) {
                fuse_reply_err(req, -r);
                return;
        }
        r = open_judged(mount, node, fi, handle);
        if (r < 0) {
                free_handle(mount, handle);
                fuse_reply_err(req, -r);
        } else {
                mount->passthrough.answering = handle->passes ? node->backing->id : 0;
                if (fuse_reply_open(req, fi) == -ENOENT)
                        free_handle(mount, handle);
        }
}

void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
        (void)ino;
        free_handle(mount_of(req), handle_of(fi));
        fuse_reply_err(req, 0);
}

/* The file has no effect before it is given a name, which needs the right to create. */
static int create_nameless(struct fs_mount *mount, mode_t mode, struct fuse_file_info *fi, struct handle **ret)
{
        struct node *node = overlay_has_room(mount) < 0 ? NULL : make_node(mount, S_IFREG | mode);
        int r = node ? overlay_copy_up(mount, node, 0) : -ENOSPC;

        if (r == 0)
                r = new_handle(mount, node, fi, ret);
        if (r < 0) {
                if (node)
                        overlay_settle(mount, node);
                return r;
        }
        node->nameless = (*ret)->made = true;
        node->making++;
        fi->keep_cache = 1;
        return 0;
}

static int create(struct fs_mount *mount, struct node *parent, const char *name, mode_t mode, struct fuse_file_info *fi,
                  struct handle **ret)
{
        bool is_virtual = false;
        int made = may_make(mount, parent, name, &is_virtual), r = made < 0 ? made : 0;
        struct node *node;

        /* The file was created after the kernel's lookup: -ESTALE makes the kernel look it up again
         * and open it. */
        if (r == -EEXIST && !(fi->flags & O_EXCL))
                r = -ESTALE;
        if (r == 0 && made)
                r = overlay_has_room(mount);
        if (r < 0)
                return r;
        node = make_node(mount, S_IFREG | mode);
        if (!node)
                return -ENOSPC;
        r = made ? overlay_copy_up(mount, node, 0) : 0;
        if (r == 0)
                r = new_handle(mount, node, fi, ret);
        if (r < 0) {
                overlay_settle(mount, node);
                return r;
        }
        r = made ? put_new(mount, parent, name, node, is_virtual) : 0;
        if (r < 0) {
                free_handle(mount, *ret);
                return r;
        }
        (*ret)->drop = !made;
        fi->direct_io = !made;
        (*ret)->made = made;
        node->making += (*ret)->made;
        fi->keep_cache = 1;
        return 0;
}

void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi)
{
        struct fs_mount *mount = mount_of(req);
        struct fuse_entry_param entry;
        struct handle *handle = NULL;
        int r = (fi->flags & O_TMPFILE) == O_TMPFILE
                        ? create_nameless(mount, mode & 0777, fi, &handle)
                        : create(mount, node_of(req, parent), name, mode & 0777, fi, &handle);

        if (r < 0) {
                fuse_reply_err(req, -r);
                return;
        }
        fill_entry(mount, handle->node, &entry);
        if (handle->drop)
                entry.entry_timeout = entry.attr_timeout = 0;
        if (fuse_reply_create(req, &entry, fi) == -ENOENT) {
                struct node *node = handle->node;

                node->pins++;
                free_handle(mount, handle);
                node->pins--;
                forget(mount, node, 1);
        }
}

/* -- reading and writing -------------------------------------------------------------------------------------- */

/* One buffer for all replies: libfuse would allocate fresh memory for each, and its page faults
 * cost more than the read. Splicing saves a copy, but at the kernel's request sizes the extra calls
 * cost more. */
static _Alignas(4096) char read_buffer[READ_MAX];

void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
        struct handle *handle = handle_of(fi);
        int fd;
        ssize_t n;

        (void)ino;
        if (handle->drop && !handle->node->content && !handle->node->has_lower) {
                fuse_reply_buf(req, NULL, 0); /* a file whose creation was pretended */
                return;
        }
        fd = handle_file(mount_of(req), handle);
        if (fd < 0) {
                fuse_reply_err(req, -fd);
                return;
        }
        n = pread(fd, read_buffer, size < READ_MAX ? size : READ_MAX, offset);
        if (n < 0)
                fuse_reply_err(req, errno);
        else
                fuse_reply_buf(req, read_buffer, (size_t)n);
}

/* The rule may have changed since the open: a parent directory may have been renamed. Returns
 * like go_on(). */
static int may_write(struct fs_mount *mount, struct handle *handle)
{
        struct node *node = handle->node;
        enum access_verdict verdict;

        if (handle->drop)
                return 0;
        if (handle->denied)
                node->is_virtual = true;
        if (handle->denied || node->making || !node->name_count || access_allows(mount, node, RULES_MODIFY))
                return 1;
        verdict = access_check_node(mount, node, RULES_MODIFY);
        handle->denied = verdict == ACCESS_VIRTUAL;
        node->is_virtual |= verdict == ACCESS_VIRTUAL;
        return go_on(verdict);
}

static ssize_t write_counted(struct fs_mount *mount, struct handle *handle, const char *data, size_t size, off_t offset)
{
        struct node *node = handle->node;
        int fd = handle_own_file(mount, handle, UINT64_MAX), r = upper_has_room(&mount->upper, size);
        uint64_t before;
        ssize_t n;

        if (fd < 0 || r < 0)
                return fd < 0 ? fd : r;
        before = upper_measure(fd);
        n = pwrite(fd, data, size, offset);
        if (n < 0)
                return -errno;
        upper_count(&mount->upper, fd, before);
        if ((uint64_t)(offset + n) > node->attributes.size)
                node->attributes.size = (uint64_t)(offset + n);
        overlay_touch(node, true);
        return n;
}

void op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t offset, struct fuse_file_info *fi)
{
        struct fs_mount *mount = mount_of(req);
        struct handle *handle = handle_of(fi);
        ssize_t n = may_write(mount, handle);

        (void)ino;
        n = n > 0 ? write_counted(mount, handle, data, size, offset) : n == 0 ? (ssize_t)size : n;
        if (n < 0)
                fuse_reply_err(req, (int)-n);
        else
                fuse_reply_write(req, (size_t)n);
}

static int allocate(struct fs_mount *mount, struct handle *handle, int mode, off_t offset, off_t size)
{
        struct node *node = handle->node;
        int fd = handle_own_file(mount, handle, UINT64_MAX), r;
        bool takes = !(mode & FALLOC_FL_PUNCH_HOLE);
        uint64_t before;

        if (fd < 0)
                return fd;
        r = takes ? upper_has_room(&mount->upper, (uint64_t)size) : 0;
        if (r < 0)
                return r;
        before = upper_measure(fd);
        if (fallocate(fd, mode, offset, size) < 0)
                r = -errno;
        upper_count(&mount->upper, fd, before);
        if (r == 0 && !(mode & FALLOC_FL_KEEP_SIZE) && (uint64_t)(offset + size) > node->attributes.size)
                node->attributes.size = (uint64_t)(offset + size);
        overlay_touch(node, true);
        return r;
}

void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t size, struct fuse_file_info *fi)
{
        struct fs_mount *mount = mount_of(req);
        struct handle *handle = handle_of(fi);
        int r = may_write(mount, handle);

        (void)ino;
        if (r > 0)
                r = allocate(mount, handle, mode, offset, size);
        fuse_reply_err(req, -r);
}

void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *fi)
{
        int fd = handle_file(mount_of(req), handle_of(fi));
        off_t at = fd < 0 ? -1 : lseek(fd, offset, whence);

        (void)ino;
        if (at < 0)
                fuse_reply_err(req, fd < 0 ? -fd : errno);
        else
                fuse_reply_lseek(req, at);
}

/* Copy in pieces, like cp(1), where the kernel cannot copy between the two. */
static ssize_t copy_by_hand(int from_fd, off_t from, int to_fd, off_t to, size_t size)
{
        char *buffer = malloc(COPY_MAX);
        ssize_t n = buffer ? pread(from_fd, buffer, size < COPY_MAX ? size : COPY_MAX, from) : -1;

        if (n > 0)
                n = pwrite(to_fd, buffer, (size_t)n, to);
        free(buffer);
        return n < 0 ? -errno : n;
}

static ssize_t copy_range(struct fs_mount *mount, struct handle *in, off_t from, struct handle *out, off_t to,
                          size_t size)
{
        int out_fd = handle_own_file(mount, out, UINT64_MAX), in_fd = out_fd < 0 ? out_fd : handle_file(mount, in);
        off_t at = from, to_at = to;
        uint64_t before;
        ssize_t n;

        if (in_fd < 0)
                return in_fd;
        if (size > COPY_MAX)
                size = COPY_MAX;
        if (upper_has_room(&mount->upper, size) < 0)
                return -ENOSPC;
        before = upper_measure(out_fd);
        n = copy_file_range(in_fd, &at, out_fd, &to_at, size, 0);
        if (n < 0)
                n = copy_by_hand(in_fd, from, out_fd, to, size);
        upper_count(&mount->upper, out_fd, before);
        if (n > 0 && (uint64_t)(to + n) > out->node->attributes.size)
                out->node->attributes.size = (uint64_t)(to + n);
        overlay_touch(out->node, true);
        return n;
}

void op_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t off_in, struct fuse_file_info *fi_in,
                        fuse_ino_t ino_out, off_t off_out, struct fuse_file_info *fi_out, size_t size, int flags)
{
        struct fs_mount *mount = mount_of(req);
        ssize_t n = may_write(mount, handle_of(fi_out));

        (void)ino_in;
        (void)ino_out;
        (void)flags;
        n = n > 0    ? copy_range(mount, handle_of(fi_in), off_in, handle_of(fi_out), off_out, size)
            : n == 0 ? (ssize_t)size
                     : n;
        if (n < 0)
                fuse_reply_err(req, (int)-n);
        else
                fuse_reply_write(req, (size_t)n);
}

/* -- attributes ----------------------------------------------------------------------------------------------- */

static int set_owner(const struct fs_mount *mount, const struct stat *attr, int to_set)
{
        if ((to_set & FUSE_SET_ATTR_UID && attr->st_uid != mount->settings.uid) ||
            (to_set & FUSE_SET_ATTR_GID && attr->st_gid != mount->settings.gid))
                return -EPERM;
        return 0;
}

static void set_times(struct node *node, const struct stat *attr, int to_set)
{
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        if (to_set & FUSE_SET_ATTR_ATIME)
                node->attributes.atime = to_set & FUSE_SET_ATTR_ATIME_NOW ? now : attr->st_atim;
        if (to_set & FUSE_SET_ATTR_MTIME)
                node->attributes.mtime = to_set & FUSE_SET_ATTR_MTIME_NOW ? now : attr->st_mtim;
        node->attributes.ctime = now;
}

static int set_attributes(struct fs_mount *mount, struct node *node, const struct stat *attr, int to_set)
{
        int r = set_owner(mount, attr, to_set);

        if (r == 0)
                r = overlay_own(mount, node);
        if (r == 0 && to_set & FUSE_SET_ATTR_SIZE)
                r = overlay_truncate(mount, node, (uint64_t)attr->st_size);
        if (r < 0)
                return r;
        if (to_set & FUSE_SET_ATTR_MODE)
                node->attributes.permissions = attr->st_mode & (node->kind == S_IFDIR ? 01777 : 0777);
        node->set |= (to_set & (FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME)) != 0;
        set_times(node, attr, to_set);
        return 0;
}

void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi)
{
        struct fs_mount *mount = mount_of(req);
        struct node *node = node_of(req, ino);
        struct handle *handle = fi ? handle_of(fi) : NULL;
        enum access_verdict verdict = ACCESS_YES;
        struct stat st;
        int r;

        if (handle)
                r = may_write(mount, handle);
        else if (node->making || (!node->name_count && node != mount->tree.root && node->content))
                r = 1;
        else
                r = go_on(verdict = access_check_node(mount, node, RULES_MODIFY));
        if (r > 0) {
                r = set_attributes(mount, node, attr, to_set);
                node->is_virtual |= r == 0 && verdict == ACCESS_VIRTUAL;
        } else if (r == 0) {
                r = overlay_refresh(mount, node);
        }
        if (r < 0) {
                fuse_reply_err(req, -r);
                return;
        }
        overlay_stat(mount, node, &st);
        fuse_reply_attr(req, &st, attr_cache_s(mount, node));
}
