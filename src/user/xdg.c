/* Find and create the user's directories.
 * Runs in: the CLI and cloched, as the user who started them. */
#include "xdg.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int xdg_find(const char *variable, const char *otherwise, const char *below, char *ret, size_t size)
{
        const char *base = getenv(variable), *home = getenv("HOME");
        int n;

        if (base && base[0] == '/')
                n = snprintf(ret, size, "%s/%s", base, below);
        else if (home && home[0] == '/')
                n = snprintf(ret, size, "%s/%s/%s", home, otherwise, below);
        else
                return -ENOENT;
        return n < (int)size ? 0 : -ENAMETOOLONG;
}

static int make_directories(const char *path, mode_t mode)
{
        char part[PATH_MAX];

        if ((size_t)snprintf(part, sizeof(part), "%s", path) >= sizeof(part))
                return -ENAMETOOLONG;
        for (char *slash = strchr(part + 1, '/');; slash = strchr(slash + 1, '/')) {
                if (slash)
                        *slash = '\0';
                if (mkdir(part, mode) < 0 && errno != EEXIST)
                        return -errno;
                if (!slash)
                        return 0;
                *slash = '/';
        }
}

int xdg_make_directories(const char *path)
{
        return make_directories(path, 0700);
}

int xdg_make_shared_directories(const char *path)
{
        return make_directories(path, 0755);
}

int xdg_make_parents(const char *path)
{
        const char *slash = strrchr(path, '/');
        char parent[PATH_MAX];

        if (!slash || slash == path)
                return 0;
        if (slash - path >= (ptrdiff_t)sizeof(parent))
                return -ENAMETOOLONG;
        memcpy(parent, path, (size_t)(slash - path));
        parent[slash - path] = '\0';
        return xdg_make_directories(parent);
}
