#include "home.h"

#include "cli.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Relative paths do not count. */
int home_find(const char *variable, const char *otherwise, const char *below, const char *what, char *ret, size_t size)
{
        const char *base = getenv(variable), *home = getenv("HOME");
        int n;

        if (base && base[0] == '/')
                n = snprintf(ret, size, "%s/%s", base, below);
        else if (home && home[0] == '/')
                n = snprintf(ret, size, "%s/%s/%s", home, otherwise, below);
        else
                return cli_bad("there is no place for %s: set HOME or %s", what, variable);
        return n < (int)size ? 0 : cli_bad("the path of the %s is too long", what);
}

int home_make_directories(const char *path)
{
        char part[HOME_PATH_BYTES];

        snprintf(part, sizeof(part), "%s", path);
        for (char *slash = strchr(part + 1, '/');; slash = strchr(slash + 1, '/')) {
                if (slash)
                        *slash = '\0';
                if (mkdir(part, 0700) < 0 && errno != EEXIST)
                        return cli_bad("cannot make '%s': %s", part, strerror(errno));
                if (!slash)
                        return 0;
                *slash = '/';
        }
}

static int compare_names(const void *a, const void *b)
{
        return strcmp(*(char *const *)a, *(char *const *)b);
}

int home_names(const char *directory, int (*is_name)(const char *name), char ***ret, size_t *ret_count)
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
                if (*ret_count == room)
                        *ret = reallocarray(*ret, room = room ? 2 * room : 16, sizeof(**ret));
                if (!*ret || !((*ret)[*ret_count] = strdup(entry->d_name)))
                        abort(); /* out of memory */
                ++*ret_count;
        }
        closedir(dir);
        if (*ret_count)
                qsort(*ret, *ret_count, sizeof(**ret), compare_names);
        return 0;
}

void home_names_done(char **names, size_t count)
{
        for (size_t i = 0; i < count; i++)
                free(names[i]);
        free(names);
}
