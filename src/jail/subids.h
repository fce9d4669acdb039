/* The ids that the host lends to an ordinary user, and the programs that map them. subuid(5),
 * newuidmap(1). */
#ifndef CLOCHE_JAIL_SUBIDS_H
#define CLOCHE_JAIL_SUBIDS_H

#include <cloche/error.h>
#include <stdint.h>
#include <sys/types.h>

struct subids {
        uint32_t uid, gid; /* the first of IDS_IN_RANGE each */
};

/* Find the first range of this process's user that is large enough. -CLOCHE_E_PRIVILEGE: there is
 * none, or no program that maps it. */
int subids_find(struct subids *ret, struct cloche_err *e);
/* Map 0 of the namespace of process pid, a child, to this process's own ids, and 1 to 65535 to
 * those of the range. Waits for two programs. */
int subids_map(const struct subids *ids, pid_t pid, struct cloche_err *e);

#endif
