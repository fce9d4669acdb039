/* Runs in: a job of cloche-files, within a box, with its user's rights. */
#include "search.h"

#include "base/err.h"
#include "base/fd.h"
#include "box/files/tree/atomic-file.h"
#include "box/files/tree/path.h"
#include "path-filter.h"

#include <fcntl.h>
#include <string.h>

static const char *const excluded[] = {".git", "node_modules", NULL};

struct each {
        const char *path;
        const struct path_filter *filter;
        search_take take;
        void *data;
};

static int take_found(void *data, enum walk_event event, const struct walk_entry *entry, struct cloche_err *e)
{
        const struct each *each = data;
        _cleanup_text_ char *path = NULL;
        _cleanup_fd_ int fd = -EBADF;

        if (event != WALK_FOUND)
                return WALK_ON;
        if (path_filter_excludes(each->filter, entry->path))
                return WALK_PASS_OVER;
        if (!S_ISREG(entry->status->st_mode) || path_is_temporary(entry->name) ||
            !path_filter_includes(each->filter, entry->path))
                return WALK_ON;
        fd = openat(entry->dir_fd, entry->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
                return errno == EACCES || errno == EPERM || errno == ENOENT || errno == ELOOP
                               ? WALK_ON
                               : files_os(e, errno, "open %s", entry->path);
        path = path_join(each->path, entry->path);
        return path ? each->take(each->data, fd, path, entry, e) : request_no_memory(e);
}

static int take_one(const struct each *each, char **path, struct cloche_err *e)
{
        _cleanup_fd_ int dir_fd = -EBADF, fd = -EBADF;
        _cleanup_text_ char *parent = NULL;
        struct walk_entry entry = {0};
        struct stat status;
        int r = place_follow(path, e);

        if (r < 0)
                return r;
        parent = path_parent(*path);
        if (!parent)
                return request_no_memory(e);
        dir_fd = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
        fd = open(*path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (dir_fd < 0 || fd < 0 || fstat(fd, &status) < 0)
                return files_os(e, errno, "open %s", *path);
        if (!S_ISREG(status.st_mode))
                return err_set(e, CLOCHE_E_FILE_KIND, "%s is no plain file or directory", *path);
        entry = (struct walk_entry){.path = path_name(*path),
                                    .name = path_name(*path),
                                    .dir_fd = dir_fd,
                                    .status = &status};
        r = each->take(each->data, fd, each->path, &entry, e);
        return r < 0 ? r : 0;
}

int search_each(struct files_request *q, search_take take, void *data, struct cloche_err *e)
{
        _cleanup_text_ char *path = NULL, *target = NULL;
        _cleanup_path_filter_ struct path_filter filter = {0};
        struct each each = {.filter = &filter, .take = take, .data = data};
        struct walk_options walk = {.visit = take_found, .data = &each, .skips_denied = 1};
        _cleanup_fd_ int fd = -EBADF;
        int r;

        r = request_path(q, "path", &path, e);
        if (r == 0)
                r = path_filter_open(&filter, q, excluded, e);
        if (r < 0)
                return r;
        each.path = path;
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0)
                return walk_tree(fd, &walk, e);
        target = strdup(path);
        if (!target)
                return request_no_memory(e);
        return errno == ENOTDIR ? take_one(&each, &target, e) : files_os(e, errno, "open %s", path);
}
