/* A directory opened with the rights of a user. Runs in: the keeper of root, and a child of it that
 * became this user. */
#include "caller.h"
#include "helper.h"

#include "proto/keeper.h"

#include "base/err.h"
#include "base/fd.h"
#include "jail/caps.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define ABOVE_MAX 128
#define OPEN_TIMEOUT_S 5

/* -- the user -------------------------------------------------------------------------------------------------- */

int keeper_caller_of_socket(int socket_fd, struct keeper_caller *ret, struct cloche_err *e)
{
        struct ucred peer;
        socklen_t size = sizeof(peer), groups_size = sizeof(ret->groups);

        if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
                return err_os(e, CLOCHE_E_FORBIDDEN, errno, "get the credentials of a caller");
        /* A socket of another kind has no peer user and returns -1, which means "no change" to
         * setresuid(2). */
        if (peer.uid == (uid_t)-1 || peer.gid == (gid_t)-1)
                return err_set(e, CLOCHE_E_FORBIDDEN, "the caller's socket is not connected");
        if (peer.uid == 0)
                return 0;
        if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERGROUPS, ret->groups, &groups_size) < 0)
                return err_os(e, CLOCHE_E_FORBIDDEN, errno, "get the groups of the user %u (at most %d)",
                              (unsigned)peer.uid, KEEPER_CALLER_GROUPS_MAX);
        ret->uid = peer.uid;
        ret->gid = peer.gid;
        ret->group_count = groups_size / sizeof(gid_t);
        return 1;
}

static int read_id(const char **text, uint32_t *ret)
{
        char *end;
        unsigned long id = strtoul(*text, &end, 10);

        if (end == *text || id >= UINT32_MAX)
                return -1;
        *text = end;
        *ret = (uint32_t)id;
        return 0;
}

/* Read the ids before the colon. */
static int read_named(const char **argument, struct keeper_caller *ret)
{
        const char *at = *argument;

        if (read_id(&at, &ret->uid) < 0 || *at++ != ',' || read_id(&at, &ret->gid) < 0)
                return -1;
        while (*at == ',' && ret->group_count < KEEPER_CALLER_GROUPS_MAX) {
                at++;
                if (read_id(&at, &ret->groups[ret->group_count++]) < 0)
                        return -1;
        }
        if (at[0] != ':' || at[1] != '/')
                return -1;
        *argument = at + 1;
        return 0;
}

/* -- the directory --------------------------------------------------------------------------------------------- */

/* Opened once, so a mount that a user makes over one of them later is not entered. */
static int open_above(const char *path, struct keeper_root *ret)
{
        char above[KEEPER_PATH_MAX];

        ret->above_fds = calloc(ABOVE_MAX, sizeof(int));
        if (!ret->above_fds)
                return -ENOMEM;
        for (const char *at = path; (at = strchr(at, '/')) && at[1]; at++) {
                size_t size = at == path ? 1 : (size_t)(at - path);

                if (size >= sizeof(above) || ret->above_count == ABOVE_MAX)
                        return -ENAMETOOLONG;
                memcpy(above, path, size);
                above[size] = '\0';
                ret->above_fds[ret->above_count] = open(above, O_PATH | O_DIRECTORY | O_CLOEXEC);
                if (ret->above_fds[ret->above_count] < 0)
                        return -errno;
                ret->above_count++;
        }
        return 0;
}

int caller_open_root(const char *argument, struct keeper_root *ret, struct cloche_err *e)
{
        int r;

        *ret = (struct keeper_root){.fd = -EBADF};
        if (argument[0] != '/') {
                ret->named = calloc(1, sizeof(*ret->named));
                if (!ret->named)
                        return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the directories that may be mounted");
                if (read_named(&argument, ret->named) < 0)
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "a directory that may be mounted must be /DIR or UID,GID:/DIR, not '%.100s'",
                                       argument);
        }
        ret->is_slash = strcmp(argument, "/") == 0;
        ret->fd = open(argument, O_PATH | O_DIRECTORY | O_CLOEXEC);
        r = ret->fd < 0 ? -errno : open_above(argument, ret);
        return r < 0 ? err_os(e, CLOCHE_E_UNREADABLE_FILE, -r, "open %s, which may be mounted", argument) : 0;
}

/* -- opening it ------------------------------------------------------------------------------------------------ */

static int fail(const struct keeper_caller *caller, int code, const char *what, const char *path, struct cloche_err *e)
{
        enum cloche_code error = code == EACCES || code == EPERM || code == EXDEV || code == EROFS
                                         ? CLOCHE_E_FORBIDDEN
                                         : CLOCHE_E_UNREADABLE_FILE;

        if (code == EXDEV)
                return err_set(e, error,
                               "user %u may not mount '%.60s': it leads out of the directory that was named, or is on "
                               "another file system (name that one by itself)",
                               (unsigned)caller->uid, path);
        return err_os(e, error, code, "user %u may not %s the directory '%.150s'", (unsigned)caller->uid, what, path);
}

/* The keeper waits for this process, so the caller must not be able to stop it. */
static int open_as_caller(const struct keeper_caller *caller, const struct keeper_root *root, const char *path,
                          int write, struct cloche_err *e)
{
        struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                               .resolve = RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
        _cleanup_fd_ int fd = -EBADF;
        int r = caps_open_as(caller->uid, caller->gid, caller->groups, caller->group_count, e);

        if (r < 0)
                return r;
        for (size_t i = 0; i < root->above_count; i++)
                if (faccessat(root->above_fds[i], ".", X_OK, AT_EACCESS) < 0)
                        return fail(caller, errno, "search the way to", path, e);
        if (!root->is_slash)
                how.resolve |= RESOLVE_BENEATH;
        fd = (int)syscall(SYS_openat2, root->fd, path[0] ? path : ".", &how, sizeof(how));
        if (fd < 0)
                return fail(caller, errno, "open", path, e);
        if (faccessat(fd, ".", R_OK | X_OK, AT_EACCESS) < 0)
                return fail(caller, errno, "read", path, e);
        if (write && faccessat(fd, ".", W_OK, AT_EACCESS) < 0)
                return fail(caller, errno, "write to", path, e);
        return TAKE_FD(fd);
}

struct opening {
        const struct keeper_caller *caller;
        const struct keeper_root *root;
        const char *path;
        int write;
};

static int open_in_child(const void *data, int *ret_fds, struct cloche_err *e)
{
        const struct opening *o = data;
        int fd = open_as_caller(o->caller, o->root, o->path, o->write, e);

        ret_fds[0] = fd;
        return fd < 0 ? fd : 0;
}

int caller_open(const struct keeper_caller *caller, const struct keeper_root *root, const char *path, int write,
                struct cloche_err *e)
{
        const struct opening opening = {caller, root, path, write};
        int fd = -EBADF, r = helper_fetch(open_in_child, &opening, 1, OPEN_TIMEOUT_S, &fd, e);

        return r < 0 ? r : fd;
}
