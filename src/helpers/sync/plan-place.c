/* Present and future locations of paths.
 * Runs in: cloche-sync, as the directory's owner, Landlocked to it. */
#include "plan.h"

#include "base/array.h"
#include "base/fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t plan_find(const struct key_list *list, const char *path)
{
        size_t low = 0, high = list->count;

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                int order = strcmp(path, list->keys[middle].path);

                if (order == 0)
                        return list->keys[middle].row;
                *(order < 0 ? &high : &low) = order < 0 ? middle : middle + 1;
        }
        return ROW_NONE;
}

void plan_parent(const char *path, char ret[LIST_PATH_MAX + 1])
{
        const char *slash = strrchr(path, '/');
        size_t size = slash ? (size_t)(slash - path) : 0;

        memcpy(ret, path, size);
        ret[size] = '\0';
}

const char *plan_real(const struct plan *plan, uint32_t row)
{
        return plan->rows[row].real ? plan->rows[row].real : plan->list->rows[row].path;
}

void plan_depend(struct plan *plan, uint32_t of, uint32_t on)
{
        if (on == ROW_NONE || on == of)
                return;
        if (ARRAY_GROW(plan->edges, plan->edge_count, plan->edge_room) < 0) {
                plan->out_of_memory = true;
                return;
        }
        plan->edges[plan->edge_count++] = (struct edge){of, on};
}

/* -- directories of the host ---------------------------------------------------------------------------------- */

static int add_touched(struct plan *plan, const char *host)
{
        if (plan->touched_count && strcmp(plan->touched[plan->touched_count - 1], host) == 0)
                return 0;
        if (ARRAY_GROW(plan->touched, plan->touched_count, plan->touched_room) < 0)
                return -ENOMEM;
        plan->touched[plan->touched_count] = strdup(host);
        return plan->touched[plan->touched_count] ? (int)(++plan->touched_count, 0) : -ENOMEM;
}

int plan_touch(struct plan *plan, const char *host)
{
        _cleanup_fd_ int fd = -EBADF;

        if (plan->touched_count && strcmp(plan->touched[plan->touched_count - 1], host) == 0)
                return 0;
        fd = lower_open(&plan->root, host, O_PATH | O_DIRECTORY);
        if (fd < 0)
                return fd;
        /* A directory whose mode the guest has set may forbid changes of its entries: that mode is
         * applied last. */
        if (plan_find(&plan->modified, host) == ROW_NONE &&
            faccessat(fd, "", W_OK | X_OK, AT_EACCESS | AT_EMPTY_PATH) < 0)
                return -errno;
        return add_touched(plan, host);
}

/* -- directories of the future tree --------------------------------------------------------------------------- */

static bool join(char at[LIST_PATH_MAX + 1], const char *part, size_t size)
{
        size_t end = strlen(at);

        if (end + size + 1 > LIST_PATH_MAX)
                return false;
        if (end)
                at[end++] = '/';
        memcpy(at + end, part, size);
        at[end + size] = '\0';
        return true;
}

/* Descend by one part; d->path is the path so far. */
static int descend(struct plan *plan, struct directory *d, const char *part, size_t size)
{
        uint32_t placed, leaving;

        if (!join(d->path, part, size) || !join(d->real, part, size) || (d->on_host && !join(d->host, part, size)))
                return -ENAMETOOLONG;
        placed = plan_find(&plan->places, d->path);
        if (placed != ROW_NONE) {
                const struct sync_change *change = &plan->list->rows[placed];

                d->by = placed;
                snprintf(d->real, sizeof(d->real), "%s", plan_real(plan, placed));
                /* A directory created over one of the host is the host's directory. */
                if (change->type != CHANGE_RENAMED && plan->rows[placed].how != HOW_SET) {
                        d->on_host = false;
                        return change->kind == KIND_DIRECTORY || change->kind == KIND_UNKNOWN ? 0 : -ENOTDIR;
                }
                if (change->type == CHANGE_RENAMED) {
                        d->on_host = true;
                        snprintf(d->host, sizeof(d->host), "%s", change->from);
                }
                return 0;
        }
        if (!d->on_host)
                return -ENOENT;
        leaving = plan_find(&plan->leaves, d->host);
        return leaving == ROW_NONE ? 0 : -ENOENT;
}

static int walk(struct plan *plan, struct directory *d, const char *path)
{
        while (*path) {
                size_t size = strcspn(path, "/");
                int r = descend(plan, d, path, size);

                if (r < 0)
                        return r;
                path += size + (path[size] == '/');
        }
        if (!d->on_host)
                return 0;
        d->fd = lower_open(&plan->root, d->host, O_PATH | O_DIRECTORY);
        return d->fd < 0 ? d->fd : fstat(d->fd, &d->st) < 0 ? -errno : 0;
}

void plan_drop_directory(struct plan *plan)
{
        fd_close(&plan->directory.fd);
        plan->directory.is_known = false;
}

const struct directory *plan_find_directory(struct plan *plan, const char *path)
{
        struct directory *d = &plan->directory;

        if (d->is_known && strcmp(d->path, path) == 0)
                return d;
        plan_drop_directory(plan);
        d->path[0] = d->real[0] = d->host[0] = '\0';
        d->on_host = true;
        d->by = ROW_NONE;
        d->error = walk(plan, d, path);
        snprintf(d->path, sizeof(d->path), "%s", path);
        d->is_known = true;
        return d;
}
