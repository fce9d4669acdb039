/* Shared by the files of this folder: paths, reading and writing. */
#ifndef CLOCHE_JAIL_CGROUP_INTERNAL_H
#define CLOCHE_JAIL_CGROUP_INTERNAL_H

#include "cgroup.h"

extern const char *const cgroup_controller_names[CGROUP_CONTROLLERS];

/* Return the size read, or -errno. The text is terminated. */
ssize_t cgroup_read_text(const char *path, char *ret, size_t size);
int cgroup_write_text(const char *path, const char *text);
/* Files of a box's group in one hierarchy: "base/box12/file", or its directory if file is NULL.
 * Each returns 0 or -errno. */
int cgroup_box_path(char *ret, size_t size, const struct cgroup_place *place, unsigned box, const char *file);
int cgroup_write_box(const struct cgroup_place *place, unsigned box, const char *file, const char *text);
/* Read a file of a box into ret, terminated; 0 or -errno. */
int cgroup_read_box(const struct cgroup_place *place, unsigned box, const char *file, char *ret, size_t size);
/* Read the only number of a file. */
int cgroup_read_number(const struct cgroup_place *place, unsigned box, const char *file, uint64_t *ret);

/* Find the version 2 hierarchy again, for a process that has been moved. Returns 0 or -ENOENT. */
int cgroup_read_own(struct cgroup_unified *unified);

/* Set the limit of this controller; does nothing if the controller has none. */
int cgroup_set_limit(const struct cgroup_host *host, int controller, unsigned box, const struct cgroup_limits *limits);

#endif
