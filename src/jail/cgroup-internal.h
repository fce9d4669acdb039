/* Between the files of control groups, cgroup*.c: what stands in them, and where. */
#ifndef CLOCHE_JAIL_CGROUP_INTERNAL_H
#define CLOCHE_JAIL_CGROUP_INTERNAL_H

#include "cgroup.h"

extern const char *const cgroup_controller_names[CGROUP_CONTROLLERS];

/* The size read, or -errno; terminated. */
ssize_t cgroup_read_text(const char *path, char *ret, size_t size);
int cgroup_write_text(const char *path, const char *text);
/* Files of a box's group in one hierarchy: "base/box12/file", or its directory with file NULL. All 0 or -errno. */
int cgroup_box_path(char *ret, size_t size, const struct cgroup_place *place, unsigned box, const char *file);
int cgroup_write_box(const struct cgroup_place *place, unsigned box, const char *file, const char *text);
/* A number alone in a file, or behind "key " in one. */
int cgroup_read_number(const struct cgroup_place *place, unsigned box, const char *file, const char *key, uint64_t *ret);

/* The version 2 hierarchy anew, for a process that has been moved. 0 or -ENOENT. */
int cgroup_read_own(struct cgroup_unified *unified);

/* That controller's limit; without effect where it has none. */
int cgroup_set_limit(const struct cgroup_host *host, int controller, unsigned box, const struct cgroup_limits *limits);

#endif
