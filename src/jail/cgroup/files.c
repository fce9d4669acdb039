/* Files of the control groups, below descriptors. Runs in: the keeper, the child it cloned, and the
 * engine, which only reads. */
#include "internal.h"

#include "base/fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const cgroup_controller_names[CGROUP_CONTROLLERS] = {"memory", "pids", "cpu", "cpuacct", "freezer"};

ssize_t cgroup_read_text(const char *path, char *ret, size_t size)
{
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        size_t have = 0;

        if (fd < 0)
                return -errno;
        while (have + 1 < size) {
                ssize_t n = read(fd, ret + have, size - 1 - have);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                have += (size_t)n;
        }
        ret[have] = '\0';
        return (ssize_t)have;
}

int cgroup_write_text(const char *path, const char *text)
{
        _cleanup_fd_ int fd = open(path, O_WRONLY | O_CLOEXEC);

        return fd < 0 ? -errno : fd_write_full(fd, text, strlen(text));
}

int cgroup_box_path(char *ret, size_t size, const struct cgroup_place *place, unsigned box, const char *file)
{
        int n = snprintf(ret, size, "%s/box%u%s%s", place->base, box, file ? "/" : "", file ? file : "");

        return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

int cgroup_write_box(const struct cgroup_place *place, unsigned box, const char *file, const char *text)
{
        char path[CGROUP_PATH_MAX + 64];
        int r = cgroup_box_path(path, sizeof(path), place, box, file);

        return r < 0 ? r : cgroup_write_text(path, text);
}

int cgroup_read_box(const struct cgroup_place *place, unsigned box, const char *file, char *ret, size_t size)
{
        char path[CGROUP_PATH_MAX + 64];
        int r = cgroup_box_path(path, sizeof(path), place, box, file);
        ssize_t n;

        if (r < 0)
                return r;
        n = cgroup_read_text(path, ret, size);
        return n < 0 ? (int)n : 0;
}

int cgroup_read_number(const struct cgroup_place *place, unsigned box, const char *file, uint64_t *ret)
{
        char text[64];
        int r = cgroup_read_box(place, box, file, text, sizeof(text));

        if (r == 0)
                *ret = strtoull(text, NULL, 10);
        return r;
}
