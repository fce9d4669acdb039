/* Ranges of ids of the host for boxes with a root of their own. flock(2). */
#ifndef CLOCHE_JAIL_IDS_H
#define CLOCHE_JAIL_IDS_H

#include <cloche/error.h>
#include <stdint.h>

#define IDS_IN_RANGE 65536u /* users and groups of such a box: 0 to 65535 */

struct ids_lease {
        int fd;         /* keeps the range taken as long as a process has it open; -EBADF: none */
        uint32_t first; /* id of the host that is 0 in the box */
};

/* Lease a range that no process of this host has. Needs root. The caller ends it with
 * ids_release. */
int ids_lease(struct ids_lease *ret, struct cloche_err *e);
/* Every process and mount with ids of the range must be gone. */
void ids_release(struct ids_lease *lease);

#endif
