/* Runs in: cloche-files, within a box, with its user's rights. */
#include "walk.h"

#include "base/array.h"
#include "base/buf.h"
#include "base/fd.h"
#include "box/files/request.h"
#include "names.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define OPEN_MAX_AT_ONCE 32
#define PATH_MAX_BYTES (64u << 20)

struct level {
        int fd; /* owned; -EBADF: closed because too many levels are open below it */
        dev_t device;
        ino_t inode;
        struct names names;
        size_t next, prefix_size;
};

struct walk {
        const struct walk_options *options;
        struct level *levels;
        size_t depth, room;
        struct buf path; /* terminated */
};

static int set_path(struct walk *w, size_t prefix_size, const char *name)
{
        w->path.size = prefix_size;
        return buf_append(&w->path, name, strlen(name) + 1);
}

/* -- down ----------------------------------------------------------------------------------------------------- */

static struct level *add_level(struct walk *w)
{
        if (ARRAY_GROW(w->levels, w->depth, w->room) < 0)
                return NULL;
        if (w->depth >= OPEN_MAX_AT_ONCE)
                fd_close(&w->levels[w->depth - OPEN_MAX_AT_ONCE].fd);
        w->levels[w->depth] = (struct level){.fd = -EBADF};
        return &w->levels[w->depth++];
}

/* w->path is the directory's path with a trailing slash, or "". Takes fd. */
static int enter(struct walk *w, int fd, struct cloche_err *e)
{
        struct names_wanted wanted = {.with_descents = w->options->is_by_path && !w->options->is_flat,
                                      .skips_hidden = w->options->skips_hidden,
                                      .prefix = w->path.data,
                                      .after = w->options->after,
                                      .limit = w->options->limit};
        struct level *level = add_level(w);
        struct stat status;
        int r;

        if (!level) {
                close(fd);
                return request_no_memory(e);
        }
        level->fd = fd;
        level->prefix_size = strlen(w->path.data);
        if (fstat(fd, &status) < 0)
                return files_os(e, errno, "look at the directory %s", w->path.data);
        level->device = status.st_dev;
        level->inode = status.st_ino;
        r = names_read(fd, &wanted, &level->names);
        return r == 0 || r == -ENOENT || (r == -EACCES && w->options->skips_denied)
                       ? 0
                       : files_os(e, -r, "list %s", w->path.data);
}

static int visit(struct walk *w, enum walk_event event, const char *name, int dir_fd, const struct stat *status,
                 struct cloche_err *e)
{
        struct walk_entry entry = {.path = w->path.data, .name = name, .dir_fd = dir_fd, .status = status};

        return w->options->visit(w->options->data, event, &entry, e);
}

static int descend(struct walk *w, const char *name, const struct stat *status, struct cloche_err *e)
{
        struct level *above = &w->levels[w->depth - 1];
        int fd = openat(above->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), r = 0;

        if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == ENOTCONN ||
                       (errno == EACCES && w->options->skips_denied)))
                return 0;
        if (fd < 0)
                return files_os(e, errno, "open the directory %s", w->path.data);
        if (!w->options->is_by_path)
                r = visit(w, WALK_ENTER, name, above->fd, status, e);
        if (r != 0 || set_path(w, above->prefix_size, name) < 0 || (w->path.size--, buf_append(&w->path, "/", 2) < 0)) {
                close(fd);
                return r ? r : request_no_memory(e);
        }
        return enter(w, fd, e);
}

/* -- up ------------------------------------------------------------------------------------------------------- */

/* Reopen the parent through ".." and check its identity: the directory may have been moved
 * meanwhile. */
static int reopen(struct level *above, int below_fd, const char *path, struct cloche_err *e)
{
        struct stat status;

        if (above->fd >= 0)
                return 0;
        above->fd = openat(below_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (above->fd < 0 || fstat(above->fd, &status) < 0)
                return files_os(e, errno, "go back from %s", path);
        if (status.st_dev != above->device || status.st_ino != above->inode)
                return files_os(e, EBUSY, "go back from %s, which was moved meanwhile", path);
        return 0;
}

static int leave(struct walk *w, struct cloche_err *e)
{
        struct level *level = &w->levels[w->depth - 1];
        struct stat status;
        int r = 0;

        w->path.size = level->prefix_size;
        w->path.data[w->path.size] = '\0';
        if (w->depth > 1)
                r = reopen(level - 1, level->fd, w->path.data, e);
        if (r == 0 && w->depth > 1 && !w->options->is_by_path) {
                /* Restore the directory's own path and name. */
                w->path.data[--w->path.size] = '\0';
                if (fstat(level->fd, &status) < 0)
                        return files_os(e, errno, "look at %s", w->path.data);
                r = visit(w, WALK_LEAVE, w->path.data + level[-1].prefix_size, level[-1].fd, &status, e);
        }
        fd_close(&level->fd);
        names_done(&level->names);
        w->depth--;
        return r;
}

/* -- across --------------------------------------------------------------------------------------------------- */

/* A mount. fstatat(2) would ask its server for attributes, and the user of the server may
 * have stopped it; for these flags without a field the kernel has the answer
 * (fuse_update_get_attr, fs/fuse/dir.c). */
static int is_elsewhere(const struct walk *w, int dir_fd, const char *name)
{
        struct statx status;

        return w->options->device &&
               statx(dir_fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, 0, &status) == 0 &&
               makedev(status.stx_dev_major, status.stx_dev_minor) != w->options->device;
}

static int look(const struct walk *w, int dir_fd, const char *item, struct stat *ret)
{
        const struct names_facts facts = names_facts(item);

        if (!w->options->is_brief || !facts.kind)
                return fstatat(dir_fd, item, ret, AT_SYMLINK_NOFOLLOW);
        *ret = (struct stat){.st_ino = facts.inode, .st_mode = facts.kind};
        return 0;
}

static int take(struct walk *w, char *item, struct cloche_err *e)
{
        struct level *level = &w->levels[w->depth - 1];
        size_t size = strlen(item);
        int is_descent = item[size - 1] == '/', r;
        struct stat status;

        if (is_descent)
                item[size - 1] = '\0';
        if (set_path(w, level->prefix_size, item) < 0)
                return request_no_memory(e);
        if (is_elsewhere(w, level->fd, item))
                return 0;
        if (look(w, level->fd, item, &status) < 0) {
                /* ENOTCONN: a mount whose server has ended. */
                if (errno == ENOENT || errno == ENOTCONN || (errno == EACCES && w->options->skips_denied))
                        return 0;
                return files_os(e, errno, "look at %s", w->path.data);
        }
        if (is_descent)
                return descend(w, item, &status, e);
        r = visit(w, WALK_FOUND, item, level->fd, &status, e);
        if (r == WALK_ON && S_ISDIR(status.st_mode) && !w->options->is_by_path && !w->options->is_flat)
                r = descend(w, item, &status, e);
        return r == WALK_PASS_OVER ? 0 : r;
}

int walk_tree(int dir_fd, const struct walk_options *options, struct cloche_err *e)
{
        struct walk w = {.options = options, .path = BUF_INIT(PATH_MAX_BYTES)};
        int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;

        if (fd < 0)
                return files_os(e, errno, "open a directory");
        if (set_path(&w, 0, "") < 0) {
                close(fd);
                return request_no_memory(e);
        }
        r = enter(&w, fd, e);
        while (r == 0 && w.depth > 0) {
                struct level *level = &w.levels[w.depth - 1];

                r = level->next < level->names.count ? take(&w, level->names.items[level->next++], e) : leave(&w, e);
        }
        while (w.depth > 0) {
                fd_close(&w.levels[w.depth - 1].fd);
                names_done(&w.levels[--w.depth].names);
        }
        free(w.levels);
        buf_done(&w.path);
        return r < 0 ? r : 0;
}
