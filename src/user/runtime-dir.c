/* The user's private directory for sockets.
 * Runs in: the CLI and cloched, as the user who started them. */
#include "runtime-dir.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/privilege.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum user_kind { ANY_USER, ROOT_ONLY, ORDINARY_ONLY };

static const struct {
        enum user_kind kind;
        int is_checked;
        const char *parent, *name;
} places[] = {
#define DISCOVERY_DIRECTORY(users, is_checked, parent, name, doc) {users, is_checked, parent, name},
#define DISCOVERY_INSTALLED(path)
#include <cloche/discovery-places.def>
#undef DISCOVERY_DIRECTORY
#undef DISCOVERY_INSTALLED
};
#define PLACES (sizeof(places) / sizeof(places[0]))

static int is_private(const struct stat *st, mode_t closed)
{
        return S_ISDIR(st->st_mode) && st->st_uid == geteuid() && !(st->st_mode & closed);
}

/* Insert the user id into a name of the table. */
static void fill_in(const char *name, char *ret, size_t size)
{
        const char *percent = strstr(name, "%u");
        int before = percent ? (int)(percent - name) : (int)strlen(name);

        snprintf(ret, size, "%.*s", before, name);
        if (percent)
                snprintf(ret + before, size - (size_t)before, "%u%s", (unsigned)geteuid(), percent + 2);
}

int runtime_dir_place(unsigned n, char ret[RUNTIME_DIR_BYTES])
{
        char parent[RUNTIME_DIR_BYTES], name[32];
        const char *from;
        struct stat st;

        if (n >= PLACES)
                return -1;
        if (places[n].kind != ANY_USER && (places[n].kind == ROOT_ONLY) != privilege_is_root())
                return 0;
        from = *places[n].parent ? places[n].parent : getenv("XDG_RUNTIME_DIR");
        if (!from || from[0] != '/' || strlen(from) + sizeof("/cloche") >= RUNTIME_DIR_BYTES)
                return 0;
        if (*places[n].parent)
                fill_in(from, parent, sizeof(parent));
        else
                strcpy(parent, from);
        if (places[n].is_checked && (stat(parent, &st) < 0 || !is_private(&st, 022)))
                return 0;
        fill_in(places[n].name, name, sizeof(name));
        return snprintf(ret, RUNTIME_DIR_BYTES, "%s/%s", parent, name) < RUNTIME_DIR_BYTES;
}

int runtime_dir_open(const char *path, int is_made, struct cloche_err *e)
{
        _cleanup_fd_ int fd = -EBADF;
        struct stat st;

        if (is_made && mkdir(path, 0700) < 0 && errno != EEXIST)
                return err_os(e, CLOCHE_E_NOT_FOUND, errno, "make the directory %s", path);
        fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT)
                return err_os(e, CLOCHE_E_NOT_FOUND, errno, "open the directory %s", path);
        if (fd < 0 || fstat(fd, &st) < 0)
                return err_os(e, CLOCHE_E_FORBIDDEN, errno, "open the directory %s", path);
        if (!is_private(&st, 077))
                return err_set(e, CLOCHE_E_FORBIDDEN,
                               "%s belongs to user %u with mode %03o, but must belong to this user with mode 700: "
                               "remove it, or "
                               "name a daemon by --socket or CLOCHE_SOCKET",
                               path, (unsigned)st.st_uid, (unsigned)st.st_mode & 0777);
        return TAKE_FD(fd);
}
