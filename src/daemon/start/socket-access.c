/* The access control list of the daemon's socket.
 * Runs in: the supervisor of cloched, or cloched without one; at its start, with the rights of its
 * starter. */
#include "socket-access.h"

#include <endian.h>
#include <errno.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>

#define NAME "system.posix_acl_access"
#define FIXED 4 /* owner, group, mask and others */

struct list {
        struct posix_acl_xattr_header header;
        struct posix_acl_xattr_entry entries[2 * OPTIONS_LIST_MAX + FIXED];
};

static size_t add(struct list *list, size_t count, int tag, unsigned permissions, long id)
{
        list->entries[count] = (struct posix_acl_xattr_entry){
                .e_tag = htole16((uint16_t)tag),
                .e_perm = htole16((uint16_t)permissions),
                .e_id = htole32((uint32_t)id),
        };
        return count + 1;
}

/* The kernel takes the tags in this order only (posix_acl_valid). */
static size_t make(const struct daemon_options *o, struct list *list)
{
        const unsigned connects = ACL_READ | ACL_WRITE;
        size_t count = add(list, 0, ACL_USER_OBJ, connects, ACL_UNDEFINED_ID);

        list->header.a_version = htole32(POSIX_ACL_XATTR_VERSION);
        for (unsigned i = 0; i < o->uids.count; i++)
                count = add(list, count, ACL_USER, connects, o->uids.ids[i]);
        count = add(list, count, ACL_GROUP_OBJ, 0, ACL_UNDEFINED_ID);
        for (unsigned i = 0; i < o->gids.count; i++)
                count = add(list, count, ACL_GROUP, connects, o->gids.ids[i]);
        count = add(list, count, ACL_MASK, connects, ACL_UNDEFINED_ID);
        return add(list, count, ACL_OTHER, 0, ACL_UNDEFINED_ID);
}

int socket_access_set(const char *path, const struct daemon_options *o)
{
        struct list list;
        size_t count;

        if (o->uids.count == 0 && o->gids.count == 0) {
                (void)lremovexattr(path, NAME); /* of an earlier daemon with other options */
                return chmod(path, 0600) < 0 ? -errno : 0;
        }
        count = make(o, &list);
        return lsetxattr(path, NAME, &list, offsetof(struct list, entries) + count * sizeof(list.entries[0]), 0) < 0
                       ? -errno
                       : 0;
}

int socket_access_set_passed(int fd, const struct daemon_options *o)
{
        struct sockaddr_un address = {0};
        socklen_t size = sizeof(address);

        if (getsockname(fd, (struct sockaddr *)&address, &size) < 0)
                return -errno;
        return address.sun_family == AF_UNIX && address.sun_path[0] == '/' ? socket_access_set(address.sun_path, o) : 0;
}
