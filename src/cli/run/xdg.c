/* Find, create and list the user's directories; failures are printed.
 * Runs in: the CLI, as its user; a run that root started drops to a user of its own first. */
#include "xdg.h"

#include "cli/command/cli.h"

#include "base/array.h"
#include "user/xdg.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cli_xdg_find(const char *variable, const char *otherwise, const char *below, const char *what, char *ret,
                 size_t size)
{
        int r = xdg_find(variable, otherwise, below, ret, size);

        if (r == -ENOENT)
                return cli_bad("no directory for %s: set HOME or %s", what, variable);
        return r == 0 ? 0 : cli_bad("the path of the %s is too long: set %s to a shorter one", what, variable);
}

int cli_xdg_make_absolute(const char *path, char *ret, size_t size)
{
        char here[XDG_PATH_BYTES] = "";
        int is_absolute = path[0] == '/';

        if (!is_absolute && !getcwd(here, sizeof(here)))
                return cli_bad("the current directory has no name: %s", strerror(errno));
        return snprintf(ret, size, "%s%s%s", here, is_absolute ? "" : "/", path) < (int)size
                       ? 0
                       : cli_bad("a path is too long: '%s'", path);
}

static int check_made(int r, const char *path)
{
        return r == 0 ? 0 : cli_bad("cannot make '%s': %s", path, strerror(-r));
}

int cli_xdg_make_directories(const char *path)
{
        return check_made(xdg_make_directories(path), path);
}

int cli_xdg_make_shared_directories(const char *path)
{
        return check_made(xdg_make_shared_directories(path), path);
}

static int compare_names(const void *a, const void *b)
{
        return strcmp(*(char *const *)a, *(char *const *)b);
}

int cli_xdg_list(const char *directory, int (*is_name)(const char *name), char ***ret, size_t *ret_count)
{
        struct dirent *entry;
        size_t room = 0;
        DIR *dir = opendir(directory);

        *ret = NULL;
        *ret_count = 0;
        if (!dir)
                return errno == ENOENT ? 0 : cli_bad("cannot read '%s': %s", directory, strerror(errno));
        while ((entry = readdir(dir))) {
                if (!is_name(entry->d_name))
                        continue;
                if (ARRAY_GROW(*ret, *ret_count, room) < 0 || !((*ret)[*ret_count] = strdup(entry->d_name)))
                        abort(); /* out of memory */
                ++*ret_count;
        }
        closedir(dir);
        if (*ret_count)
                qsort(*ret, *ret_count, sizeof(**ret), compare_names);
        return 0;
}

void cli_xdg_list_free(char **names, size_t count)
{
        for (size_t i = 0; i < count; i++)
                free(names[i]);
        free(names);
}
